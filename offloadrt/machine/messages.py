"""The messages between the actors of a device, typed and frozen.

A *packet* is a command of a stream, which it names: host threads submit it to the stream's hardware queue, which
dispatches it in order to a copy engine or to the compute units.  ``done`` is set at its completion; its value is
(``copies`` or ``kernels``, begin, end) in virtual seconds, or None.  On an APU, kernels and barriers go to an HSA queue
and copies to a DMA ring; page faults go to the page-fault handler, prefetches to the migration worker, copies between
devices that have no link to the peer relay.
The other messages go to the compute units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from offloadrt.kernels import Launch
from offloadrt.machine.managed_access import Accesses
from offloadrt.machine.page_fault import AccessFault
from offloadrt.machine.page_sets import PageSets
from offloadrt.machine.peer_link import PeerLink
from offloadrt.machine.stream import Stream
from offloadrt.sim import Signal


@attrs.frozen(eq=False)
class CopyPacket:
    """Transfer ``nbytes``; to a copy engine of its direction (h2d, d2h, d2d, p2p)."""

    number: int
    stream: Stream
    cause: int
    direction: str
    nbytes: int
    memory: str
    """``pinned`` or ``staged`` for the host's end; ``device`` within the device; ``managed`` for a migration; for p2p
    ``device 1`` and so on, where the bytes go."""
    move: Callable[[], None] | None
    """Moves the bytes at the end of the transfer; None when an end is a phantom."""
    done: Signal
    over: PeerLink | None = None
    """The link to another device that it goes over; None for that of its direction."""


@attrs.frozen(eq=False)
class PeerPacket:
    """Transfer ``nbytes`` from one device to another, between which there is no direct way; to the peer relay."""

    stream: Stream
    cause: int
    source: int
    destination: int
    via: int | None
    """The device that it goes through; None for the host."""
    nbytes: int
    move: Callable[[], None] | None
    """Moves the bytes when the last piece has arrived; None when an end is a phantom."""
    done: Signal


@attrs.frozen
class BlitCopy:
    """What a kernel of the driver library's own copies: in the trace and in the statistics it is a copy."""

    direction: str
    nbytes: int
    memory: str
    """As of a CopyPacket."""


@attrs.frozen(eq=False)
class KernelPacket:
    """Run a kernel; to the compute units."""

    number: int
    stream: Stream
    cause: int
    launch: Launch
    run: Callable[[], None] | None
    """Computes the result at the kernel's end; None for phantoms."""
    done: Signal
    """Its value says ``copies`` for a blit."""
    touches: tuple[tuple[int, int], ...] = ()
    """(address, bytes) of host memory that the kernel reaches through the GPU's page table; the check is fast for a
    tuple that was launched with before."""
    serial_s: float = 0.0
    """Seconds that the launch takes besides what its kernel does (a double indirection)."""
    fault: Callable[[AccessFault], None] | None = None
    """Told when the kernel died of a page that it may not fault in; without it that ends the run."""
    accesses: Accesses = ()
    """What it does with managed memory, on a device that migrates pages."""
    blit: BlitCopy | None = None
    """The copy that it makes, of a kernel that is none of the program's."""


@attrs.frozen(eq=False)
class WaitPacket:
    """Let nothing after it in its stream start before ``event`` is set."""

    stream: Stream
    event: Signal
    done: Signal


@attrs.frozen(eq=False)
class PrefetchPacket:
    """Migrate a range of managed memory; to the migration worker, when what was before it in its stream is over."""

    stream: Stream
    cause: int
    begin: int
    nbytes: int
    to_host: bool
    done: Signal


@attrs.frozen(eq=False)
class BarrierPacket:
    """Let nothing after it in its HSA queue start before ``depends`` is set; to an HSA queue."""

    cause: int
    depends: Signal
    done: Signal | None = None
    """Its own completion, for copies that come after it in its stream."""


@attrs.frozen(eq=False)
class DmaPacket:
    """Transfer ``nbytes`` when ``depends`` is set; to a DMA ring, in which it waits for that."""

    number: int
    cause: int
    direction: str
    nbytes: int
    memory: str
    move: Callable[[], None] | None
    """Moves the bytes at the end of the transfer; None when an end is a phantom."""
    done: Signal
    depends: Signal | None = None
    queue: int = -1
    """The HSA queue of the stream that it belongs to, for the trace."""


Packet = CopyPacket | KernelPacket | WaitPacket | PrefetchPacket | PeerPacket
PACKETS = (CopyPacket, KernelPacket, WaitPacket, PrefetchPacket, PeerPacket)
"""What a hardware queue understands."""


@attrs.frozen
class DrainKernels:
    """Start no new kernel; the reply comes when none is running.  Ends with Resume."""

    reason: str
    cause: int = 0


@attrs.frozen
class SuspendKernels:
    """Stop all running kernels and start no new one; the reply comes when they have stopped.  Ends with Resume."""

    reason: str
    cause: int = 0


@attrs.frozen
class ResumeKernels:
    """Take back one DrainKernels (``suspended=False``) or one SuspendKernels."""

    reason: str
    suspended: bool
    cause: int = 0


@attrs.frozen
class PageFault:
    """A kernel has met pages of [low, high) that the GPU cannot translate; to the page-fault handler."""

    low: int
    high: int
    kernel: int
    cause: int


@attrs.frozen
class FaultServed:
    """The pages are there: ``pages`` of them were mapped in ``service_s`` virtual seconds; to the compute units."""

    kernel: int
    pages: int
    service_s: float


@attrs.frozen
class ManagedFault:
    """Pages of managed memory that a kernel has met without translation, all at one time; to the page-fault handler."""

    pages: PageSets
    """Ascending or in the order of the kernel's arguments."""
    kernel: int
    cause: int
    time: float
    """Virtual seconds at which they were raised."""


@attrs.frozen
class ReplayFaults:
    """A batch of faults has been served: these kernels try again; to the compute units."""

    kernels: tuple[int, ...]
    served: Mapping[int, int]
    """Pages of the batch, by block; what else they had asked for was dropped."""


@attrs.frozen
class Unmapped:
    """The GPU has lost its translations of some of the pages [low, high); to the compute units."""

    low: int
    high: int


@attrs.frozen
class RemoteAccess:
    """A step of a kernel moves ``nbytes`` bytes of host memory over the link; to a remote port."""

    kernel: int
    nbytes: float


@attrs.frozen
class RemoteDone:
    """They are through; to the compute units."""

    kernel: int


@attrs.frozen
class TrafficChanged:
    """The bytes of a DMA transfer begin to flow, or cease to: kernels have another part of the memory's bandwidth; to
    the compute units.
    """


MESSAGES: tuple[type, ...] = (
    *PACKETS, BarrierPacket, DmaPacket, DrainKernels, SuspendKernels, ResumeKernels, PageFault, FaultServed,
    ManagedFault, ReplayFaults, Unmapped, RemoteAccess, RemoteDone, TrafficChanged,
)  # fmt: skip
"""Every type of message that the actors of a device receive."""
