"""The messages between the actors of a device, typed and frozen, and the streams that they are submitted to.

A *packet* is a command of a stream, which it names. A host thread submits it to the stream's hardware queue, which
dispatches it in order: a copy to a copy engine, a kernel to the compute units, a prefetch to the migration worker, a
copy between devices without a link to the peer relay. On an APU kernels and barriers go to an HSA queue, copies to a
DMA ring. ``done`` is set at the completion; its value is (``copies`` or ``kernels``, begin, end) in virtual seconds, or
None. Page faults go to the fault handler; other messages name their receiver.

Messages are the most frequent objects: a frozen ``Struct`` of ten fields takes a thirtieth of the time of a frozen
attrs class. Messages about faults hold numbers only, which no garbage collector need look at (``gc=False``).

A stream is a sequence of commands that host threads submit; it knows only their completions (``StreamCommand``).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

import attrs
import msgspec

from offloadrt.kernels import Launch
from offloadrt.machine.links.link import Shared
from offloadrt.machine.managed.block import PageSets, begun, how_many, merged, up_to
from offloadrt.machine.managed.sweep import Accesses
from offloadrt.machine.managed.warps import AddressTrace
from offloadrt.machine.memory import AccessFault
from offloadrt.sim import Signal

_KEPT = 256
"""Largest number of completions that a stream keeps for ``spans``.

Without a limit, a program that never waits for a stream would keep every completion until its end. Only completions
that are already set are dropped: a later wait has no time to attribute to them.
"""


class StreamCommand(Protocol):
    """A command that can be submitted to a stream: a packet of ``messages.py``."""

    @property
    def done(self) -> Signal:
        """Return the signal that is set at the command's completion."""


class PacketQueue(Protocol):
    """The queue, with a `number`, into which a stream puts packets; on an APU, the HSA queue that it holds now."""

    number: int

    def submit(self, packet: StreamCommand, /) -> None:
        """Append a packet to the queue."""


class _NoQueue:
    """The queue of a stream without submissions: its packets are given to the engines directly."""

    number = -1

    def submit(self, packet: StreamCommand) -> None:
        raise RuntimeError(f"{packet!r} was submitted to a channel whose owner gives its copies to the engines itself")


@attrs.define(eq=False)
class Stream:
    """A sequence of commands that run one after another."""

    index: int
    """Number of the stream on its device, in its process's order of creation; -1 for an internal channel."""
    queue: PacketQueue
    """The queue for the stream's commands; on an APU it changes whenever the stream takes an HSA queue."""
    priority: int = 0
    """The priority as in CUDA: lower numbers are greater priorities."""
    process: int = 0
    """The number of the process whose context the stream belongs to."""
    last: Signal | None = None
    """Completion of the packet submitted last."""
    running: Signal | None = None
    """Completion of the packet dispatched last.  Only the hardware queue uses it."""
    submitted: float | None = None
    """Time when the packet dispatched last was submitted; None if dispatched at once. Only the queue writes it."""
    recent: deque[Signal] = attrs.field(factory=deque, repr=False)
    """Completions of packets that no call of ``spans`` has returned yet."""
    pending: deque[Signal] = attrs.field(factory=deque, repr=False)
    """Completions of commands that occupy a place in the stream's limited depth."""

    @property
    def idle(self) -> bool:
        """Tell whether all submitted commands have completed."""
        return self.last is None or self.last.is_set

    def full(self, depth: int) -> Signal | None:
        """Return the completion after which a stream of ``depth`` commands has room; None if it has room now."""
        pending = self.pending
        while pending and pending[0].is_set:
            pending.popleft()
        return pending[0] if len(pending) >= depth else None

    def submit(self, packet: StreamCommand) -> None:
        """Append a command to the stream."""
        self.note(packet.done)
        self.queue.submit(packet)

    def note(self, done: Signal) -> None:
        """Record ``done``, the completion of a command that was submitted elsewhere, for instance to a DMA ring."""
        self.last = done
        self.recent.append(done)
        if len(self.recent) > _KEPT and self.recent[0].is_set:
            self.recent.popleft()

    def spans(self) -> list[tuple[str, float, float]]:
        """Return the work of the packets that completed since the last call, in order of submission.

        Each entry is (``copies`` or ``kernels``, begin, end) in virtual seconds.
        """
        spans: list[tuple[str, float, float]] = []
        recent = self.recent
        while recent and recent[0].is_set:
            span = recent.popleft().value
            if span is not None:
                spans.append(span)
        return spans


def internal_channel() -> Stream:
    """Return a stream for copies that the driver or the hardware gives to a copy engine itself, as migrations are."""
    return Stream(-1, _NoQueue())


Move = Callable[[], None]
"""Moves the bytes of a copy, or computes the result of a kernel, at its completion in virtual time."""


class CopyPacket(msgspec.Struct, frozen=True, eq=False):
    """Message to a copy engine of the packet's direction (h2d, d2h, d2d, p2p): transfer ``nbytes``."""

    number: int
    """Number of the copy, unique in a run."""
    stream: Stream
    cause: int
    """The number of the directive that caused the copy."""
    direction: str
    nbytes: int
    memory: str
    """The other end: ``pinned`` or ``staged`` host memory, ``device`` for a copy within the device, ``managed`` for a
    migration, a name such as ``device 1`` for p2p."""
    move: Move | None
    """Moves the bytes at the end of the transfer; None when an end has no values (a phantom)."""
    done: Signal
    """Set at the copy's completion."""
    over: Shared | None = None
    """The link to another device, or the path to another socket's memory, to use; None for the direction's link."""
    pauses_s: float = 0.0
    """Seconds that the engine spends between the pieces of the transfer, in all."""


class PeerPacket(msgspec.Struct, frozen=True, eq=False):
    """Message to the peer relay (`PeerRelay`): transfer ``nbytes`` from device ``source`` to ``destination``."""

    stream: Stream
    cause: int
    """The number of the directive that caused the copy."""
    source: int
    destination: int
    via: int | None
    """The device through which the copy goes; None for the host."""
    nbytes: int
    move: Move | None
    """Moves the bytes when the last piece has arrived; None when an end has no values (a phantom)."""
    done: Signal
    """Set at the copy's completion."""


class BlitCopy(msgspec.Struct, frozen=True):
    """Says that a kernel is the driver library's own and makes this copy, so that it counts as a copy."""

    direction: str
    nbytes: int
    memory: str
    """The other end: ``pinned`` or ``staged`` host memory, ``device``, ``managed``, or a name such as ``device 1``."""


class KernelPacket(msgspec.Struct, frozen=True, eq=False):
    """Message to the compute units: run a kernel."""

    number: int
    """Number of the launch, unique in a run."""
    stream: Stream
    cause: int
    """The number of the directive that launched the kernel."""
    launch: Launch
    run: Move | None
    """Computes the result at the kernel's end; None for arrays without values (phantoms)."""
    done: Signal
    """Set at the kernel's end; its value says ``copies`` for a blit."""
    touches: tuple[tuple[int, int], ...] = ()
    """(address, bytes) of host memory that the kernel reaches through the GPU's page table.  A program that launches
    the same kernel again should give the same tuple, which is then checked by identity."""
    serial_s: float = 0.0
    """Seconds that the kernel takes on top of its work, for instance for a double indirection."""
    fault: Callable[[AccessFault], None] | None = None
    """Called when the kernel dies at a missing page, as XNACK is off; without this, such a death ends the run."""
    accesses: Accesses = ()
    """The kernel's accesses to managed memory, on a device that migrates pages."""
    trace: AddressTrace | None = None
    """Finds the pages that each thread accesses, by the kernel's source; None: threads go through arrays in order."""
    data: AddressTrace | None = None
    """Finds the elements whose indices are not affine, as far as the values of index arrays determine them."""
    blit: BlitCopy | None = None
    """The copy that the kernel makes, if it belongs to the driver library and not to the program."""
    gap: float | None = None
    """Seconds from the end of the kernel's predecessor in its stream to its first team; None stands for launch.gap."""


class WaitPacket(msgspec.Struct, frozen=True, eq=False):
    """A packet that holds up the packets behind it in its stream until ``event`` is set; then ``done`` is set, too."""

    stream: Stream
    event: Signal
    done: Signal


class PrefetchPacket(msgspec.Struct, frozen=True, eq=False):
    """Message to the migration worker: migrate managed memory, from address ``begin`` on, to the device or the host."""

    stream: Stream
    cause: int
    """The number of the directive that asked for the prefetch."""
    begin: int
    nbytes: int
    to_host: bool
    done: Signal


class BarrierPacket(msgspec.Struct, frozen=True, eq=False):
    """Message to an HSA queue: hold up what follows in the queue until ``depends`` is set."""

    cause: int
    """The number of the directive that caused the wait."""
    depends: Signal
    done: Signal | None = None
    """The packet's own completion, for later copies in its stream."""


class DmaPacket(msgspec.Struct, frozen=True, eq=False):
    """Message to a DMA ring: transfer ``nbytes``; it waits in the ring until ``depends`` is set.

    number: the copy's, unique in a run. direction: h2d, d2h, d2d or p2p. memory: the other end (`CopyPacket.memory`).
    done: set when the transfer has ended.
    """

    number: int
    cause: int
    """The number of the directive that caused the copy."""
    direction: str
    nbytes: int
    memory: str
    move: Move | None
    """Moves the bytes at the end of the transfer; None when an end has no values (a phantom)."""
    done: Signal
    depends: Signal | None = None
    queue: int = -1
    """The HSA queue of the packet's stream, for the trace."""
    submitted: float = 0.0
    """Time of the submission, in virtual seconds."""


Packet = CopyPacket | KernelPacket | WaitPacket | PrefetchPacket | PeerPacket
PACKETS = (CopyPacket, KernelPacket, WaitPacket, PrefetchPacket, PeerPacket)
"""The packets that a hardware queue understands."""


class DrainKernels(msgspec.Struct, frozen=True):
    """Message to the compute units: start no kernel of a process until ResumeKernels. ``reason``: the driver call.

    The reply comes when none of the process's kernels is running any more. process: the process's number.
    """

    reason: str
    cause: int = 0
    """The number of the directive that made the call."""
    process: int = 0


class SuspendKernels(msgspec.Struct, frozen=True):
    """Message to the compute units: stop the kernels of all processes, and start no new one until ResumeKernels.

    The reply comes when they have stopped. ``reason``: the driver call.
    """

    reason: str
    cause: int = 0
    """The number of the directive that made the call."""


class ResumeKernels(msgspec.Struct, frozen=True):
    """Message to the compute units: undo one DrainKernels (``suspended=False``) or one SuspendKernels.

    reason, cause: the driver call, and the number of the directive that made it. process: that of the DrainKernels.
    """

    reason: str
    suspended: bool
    cause: int = 0
    process: int = 0


class ContextHasWork(msgspec.Struct, frozen=True):
    """Message to the time slicer: a process has its first kernel (`has_work` is True), or its last one has ended."""

    process: int
    has_work: bool


class QueueReady(msgspec.Struct, frozen=True):
    """Message to the queue scheduler: HSA queue `number`, without a hardware queue, has a packet that could start."""

    number: int


class RunContexts(msgspec.Struct, frozen=True):
    """Message to the compute units: run only the kernels of these processes; stop those of others where they are.

    The reply comes when they have stopped.
    """

    processes: tuple[int, ...]


class PageFault(msgspec.Struct, frozen=True):
    """Message to the page-fault handler: a kernel has accessed pages of [low, high) that its GPU cannot translate."""

    low: int
    high: int
    kernel: int
    """The number of the kernel's launch."""
    cause: int
    """The number of the directive that launched the kernel."""
    process: int = 0
    others: int = 0
    """Number of further 4 KiB pages for which the hardware raises faults until the range is mapped."""


class FaultServed(msgspec.Struct, frozen=True):
    """Message to the compute units: a fault was handled; ``pages`` were mapped in ``service_s`` virtual seconds."""

    kernel: int
    pages: int
    service_s: float


class ManagedFault(msgspec.Struct, frozen=True, gc=False):
    """Message to the fault buffer: the pages of managed memory that a kernel lacks for its accesses at one time."""

    pages: PageSets
    """The pages, in the order in which the GPU reports them."""
    entries: int
    """Entries of the fault buffer that report these pages.

    The GPU reports 4 KiB with an entry, so that a page of 64 KiB can take up to 16 of them.
    """
    kernel: int
    """The number of the kernel's launch."""
    cause: int
    """The number of the directive that launched the kernel."""
    time: float
    """Time of the faults, in virtual seconds."""
    stored: Mapping[int, int] = msgspec.field(default_factory=dict)
    """By block, the bit set of missing pages that stores accessed, also those that another part of the fault reports.

    Empty unless stores have translations of their own (`ManagedPages.tell_stores_apart`).
    """
    arrives: float = 0.0
    """Time when the first entry is in the fault buffer, in virtual seconds; the others follow."""

    def head(self, entries: int) -> ManagedFault:
        """Return a fault with the first ``entries`` fault entries of this one, and only the pages that they report."""
        pages = begun(self.pages, self.entries, entries)
        return ManagedFault(pages, entries, self.kernel, self.cause, self.time, self.stored, self.arrives)

    def tail(self, entries: int, later: float = 0.0) -> ManagedFault:
        """Return a fault with the remaining entries, without pages that the first ``entries`` report completely.

        later: virtual seconds by which the rest arrives after the first entries.
        """
        reported = merged(up_to(self.pages, how_many(self.pages) * entries // self.entries))
        pages = [(index, left) for index, those in self.pages if (left := those & ~reported.get(index, 0))]
        left, arrives = self.entries - entries, self.arrives + later
        return ManagedFault(pages, left, self.kernel, self.cause, self.time, self.stored, arrives)


class AccessNotification(msgspec.Struct, frozen=True):
    """Message to the access-counter worker: the counter of a region in block number `block` has reached its limit."""

    block: int
    pages: int
    """Bit set of the pages in the accessed parts of the region."""
    cause: int
    """The number of the directive whose kernel made the last access."""
    time: float
    """Time of the notification, in virtual seconds."""


class ReplayFaults(msgspec.Struct, frozen=True, gc=False):
    """Message to the compute units: a batch of faults was handled, so that waiting kernels try again."""

    kernels: tuple[int, ...] | None
    """The numbers of the kernels; None for all kernels."""
    served: Mapping[int, int]
    """By block, the bit set of pages that the batch made accessible; requests for other pages were dropped."""


class Unmapped(msgspec.Struct, frozen=True, gc=False):
    """Message to the compute units: the GPU has lost translations of some of the pages [low, high)."""

    low: int
    high: int


class RemoteAccess(msgspec.Struct, frozen=True):
    """Message to a remote port: a kernel moves ``nbytes`` bytes of host memory over the link, and waits for it."""

    kernel: int
    nbytes: float
    bandwidth: float = math.inf
    """Largest rate of the kernel's requests in bytes/s, whatever the link allows."""
    wait: float = 0.0
    """Seconds for which the kernel waits for the first bytes, in addition to the time that follows from the rate."""


class RemoteDone(msgspec.Struct, frozen=True):
    """Message to the compute units: a kernel's access to host memory is over, its bytes have gone over the link."""

    kernel: int


class TrafficChanged(msgspec.Struct, frozen=True):
    """Message to the compute units: the kernels' share of the memory bandwidth has changed.

    A DMA ring sends it when the bytes of a transfer begin or cease to flow.
    """


MESSAGES: tuple[type, ...] = (
    *PACKETS, BarrierPacket, DmaPacket, DrainKernels, SuspendKernels, ResumeKernels, ContextHasWork, QueueReady,
    RunContexts,
    PageFault, FaultServed, ManagedFault, AccessNotification, ReplayFaults, Unmapped, RemoteAccess,
    RemoteDone, TrafficChanged,
)  # fmt: skip
"""Every type of message that the actors of a device receive."""
