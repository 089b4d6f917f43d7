"""The context of one device: what all calls of CUDA's driver library share.

Its lock, the accounting of calls, submission to streams, and waiting for them.  The lock is why calls of several
threads queue.  One lock for each context is an assumption: CUDA does not document its locking.  The ablation
``driver.context.uncontended`` shows how much of a result rests on it.  Contexts of one process on several devices also
share a lock (`ProcessLock`).

The order that the library itself keeps among streams is data without time: `ImplicitOrder` says for what a command of a
stream has to wait, `StreamEvent` and `TimedEvent` are marks in streams, and `Captures` records commands with their
order as graphs, instead of having them carried out.  A program can also build a graph node by node (`BuiltGraph`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import Annotated, Any, Final, Literal

import attrs

from offloadrt.driver.calls import CALL_NAMES, CallAccounts, DriverCall, DriverError
from offloadrt.driver.cuda.process import DriverProcess, FreeClock, MemPool, ProcessLock
from offloadrt.machine import Machine, Stream
from offloadrt.machine.host_lock import HostLock, lock_policy
from offloadrt.machine.messages import CopyPacket, KernelPacket, Packet, PeerPacket, WaitPacket
from offloadrt.sim import Signal
from offloadrt.trace import events


class ImplicitOrder:
    """The legacy default stream of one context, and its blocking streams.

    A command of the legacy stream starts when what was submitted to all blocking streams before it has completed, and
    a command of a blocking stream when what was submitted to the legacy stream before it has ("Stream synchronization
    behavior" of CUDA's manual).  A stream that is neither waits for nobody.
    """

    __slots__ = ("_blocking", "legacy")

    def __init__(self) -> None:
        self.legacy: Stream | None = None
        """The legacy default stream; None when the program has none."""
        self._blocking: dict[int, Stream] = {}

    def add(self, stream: Stream) -> None:
        """Let a stream block with the legacy one."""
        self._blocking[stream.index] = stream

    def remove(self, stream: Stream) -> None:
        """Forget a stream that is destroyed."""
        self._blocking.pop(stream.index, None)

    def blocks(self, stream: Stream) -> bool:
        """Tell whether the legacy stream and another wait for one another."""
        return self.legacy is not None and stream.index in self._blocking

    def before(self, stream: Stream) -> list[Signal]:
        """Return the completions for which the next command of a stream has to wait, besides its own stream's."""
        legacy = self.legacy
        if legacy is None:
            return []
        if stream is not legacy:
            blocks = stream.index in self._blocking and not legacy.idle
            return [legacy.last] if blocks and legacy.last is not None else []
        return [other.last for other in self._blocking.values() if other.last is not None and not other.idle]


CaptureMode = Literal["global", "thread_local", "relaxed"]
"""Which threads may not make unsafe calls meanwhile: all, the one that captures, none (CU_STREAM_CAPTURE_MODE_*)."""

UNSUPPORTED: Final = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
INVALIDATED: Final = "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
MERGE: Final = "CUDA_ERROR_STREAM_CAPTURE_MERGE"
UNMATCHED: Final = "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"
UNJOINED: Final = "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"
ISOLATION: Final = "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"
IMPLICIT: Final = "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"
CAPTURED_EVENT: Final = "CUDA_ERROR_CAPTURED_EVENT"
WRONG_THREAD: Final = "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"

_END: Final = "cuStreamEndCapture"
_UNCAPTURABLE: Final = {
    "cuStreamSynchronize": "its commands are not carried out, so nobody can wait for them",
    "cuStreamQuery": "its commands are not carried out, so nobody can ask for them",
    "cuStreamDestroy": "the capture has to end first",
    "cuMemPrefetchAsync": "graphs have no nodes for prefetches",
    "cuMemAllocFromPoolAsync": "memory nodes of graphs are not emulated",
    "cuMemFreeAsync": "memory nodes of graphs are not emulated",
}
"""The calls that no capturing stream takes, and why."""
_UNSAFE: Final = frozenset(
    {
        "cuMemAlloc", "cuMemFree", "cuMemAllocHost", "cuMemFreeHost", "cuMemAllocManaged", "cuMemHostRegister",
        "cuMemHostUnregister",
    }
)  # fmt: skip
"""Calls that a capture forbids by its mode, as they may wait for the device."""


@attrs.frozen(eq=False)
class HostNode:
    """A function of the host in a graph, which works for ``seconds`` on a core."""

    function: Callable[[], object] | None
    seconds: float


NodeWork = KernelPacket | CopyPacket | PeerPacket | HostNode


@attrs.define(eq=False)
class GraphNode:
    """A captured command.  A packet in it is a template: a launch makes another with a completion of its own."""

    work: NodeWork
    lane: int
    """The place of the stream from which it was captured, in the order in which streams joined; 0 is the origin."""
    after: tuple[int, ...]
    """The places in the graph of the nodes that it comes after at once."""
    uses: Sequence[tuple[str, Any]] = ()
    """Memory that it uses, and what that is to it: a kernel's arguments, or a copy's destination and source."""


@attrs.frozen(eq=False)
class CapturedGraph:
    """The record of a capture (cudaGraph_t): nodes in the order of capture, so that edges lead forward."""

    number: int
    device: int
    nodes: tuple[GraphNode, ...]
    tail: tuple[int, ...]
    """The places of the nodes after which the graph is complete."""
    priorities: tuple[int, ...]
    """The priorities of the streams from which it was captured, by lane."""


@attrs.define(eq=False)
class Capture:
    """A capture in progress."""

    origin: Stream
    mode: CaptureMode
    thread: str
    """The thread that began it."""
    tails: dict[Stream, tuple[int, ...]]
    """The streams of the capture in the order in which they joined, and what the next node of each comes after."""
    nodes: list[GraphNode] = attrs.field(factory=list)
    broken: str | None = None
    """The reason why it is invalid; None while it is valid."""
    ended: bool = False

    def last(self, stream: Stream) -> GraphNode:
        """Return the node that was put into a stream of the capture last."""
        return self.nodes[self.tails[stream][-1]]

    def add(self, stream: Stream, work: NodeWork) -> None:
        """Put a node behind everything in a stream of the capture."""
        self.nodes.append(GraphNode(work, [*self.tails].index(stream), self.tails[stream]))
        self.tails[stream] = (len(self.nodes) - 1,)

    def unjoined(self) -> bool:
        """Tell whether there is a node after which nothing in the origin comes."""
        joined: set[int] = set()
        front = [*self.tails[self.origin]]
        while front:
            if (place := front.pop()) not in joined:
                joined.add(place)
                front.extend(self.nodes[place].after)
        return len(joined) < len(self.nodes)


@attrs.frozen(eq=False)
class CapturedMark:
    """An event that was recorded in a capture: behind which nodes."""

    capture: Capture
    after: tuple[int, ...]


@attrs.frozen
class Violation:
    """A call that a capture forbids: the code of its error, and why."""

    code: str
    why: str


class Captures:
    """The captures of one context that have begun and not ended."""

    def __init__(self, order: ImplicitOrder) -> None:
        self._order = order
        self.streams: dict[Stream, Capture] = {}
        """The capturing streams."""

    def begin(self, stream: Stream, mode: CaptureMode, thread: str) -> None:
        """Have a stream capture from now on."""
        self.streams[stream] = Capture(stream, mode, thread, {stream: ()})

    def end(self, capture: Capture) -> None:
        """Have the streams of a capture carry commands out again."""
        capture.ended = True
        for stream in capture.tails:
            self.streams.pop(stream, None)

    def check_call(self, api: str, stream: Stream | None, thread: str) -> Violation | None:
        """Return why a call is forbidden while streams capture, and invalidate the captures that it violates."""
        if stream is not None and (capture := self.streams.get(stream)) is not None and api != _END:
            if capture.broken is not None:
                return Violation(INVALIDATED, f"the capture of stream {stream.index} is invalid: {capture.broken}")
            if (why := _UNCAPTURABLE.get(api)) is not None:
                return self.invalidate(capture, UNSUPPORTED, f"stream {stream.index} is capturing, and {why}")
        for capturing, capture in self.streams.items():
            if stream is not None and stream is self._order.legacy and self._order.blocks(capturing):
                why = f"the legacy default stream would wait for stream {capturing.index}, which is capturing"
                return self.invalidate(capture, IMPLICIT, why)
            mine = capture.mode == "thread_local" and capture.thread == thread
            if api in _UNSAFE and (mine or capture.mode == "global"):
                how = f"stream {capturing.index} is capturing in mode {capture.mode}"
                why = f"calls for memory are unsafe while {how}"
                return self.invalidate(capture, UNSUPPORTED, why)
        return None

    def follow(self, stream: Stream, mark: CapturedMark | None) -> Violation | None:
        """Let what is captured from a stream from now on come after a mark, or return why it cannot.

        mark: None for an event that was recorded outside of captures.  A stream that does not capture joins.
        """
        own = self.streams.get(stream)
        if mark is None:
            why = f"stream {stream.index} is capturing, and the event was recorded outside of the capture"
            return None if own is None else self.invalidate(own, ISOLATION, why)
        capture = mark.capture
        if capture.ended or capture.origin not in self.streams:
            return Violation(CAPTURED_EVENT, "the event was recorded in a capture that has ended, or on another device")
        if own is not None and own is not capture:
            why = f"streams {own.origin.index} and {capture.origin.index} capture different graphs"
            self.invalidate(own, MERGE, why)
            return self.invalidate(capture, MERGE, why)
        if stream is self._order.legacy:
            return self.invalidate(capture, IMPLICIT, "the legacy default stream cannot capture")
        self.streams[stream] = capture
        capture.tails[stream] = tuple(sorted({*capture.tails.get(stream, ()), *mark.after}))
        return None

    @staticmethod
    def invalidate(capture: Capture, code: str, why: str) -> Violation:
        """Invalidate a capture; returns the error of the call that does it."""
        capture.broken = capture.broken or why
        return Violation(code, why)


@attrs.define(eq=False)
class StreamEvent:
    """A mark in a stream, complete when everything before it in the stream is.

    The commands of a stream complete in order, so the packet just before the mark decides, and the
    device never sees an event.  What the packet of a real event takes in the queue is left out.
    """

    stream: Stream
    done: Signal | None
    """Completion of the packet just before the mark; None when there is none."""
    frees: Mapping[int, int] = attrs.field(factory=dict)
    """Which frees of memory pools come before it (``FreeClock.at``)."""
    captured: CapturedMark | None = None
    """Where it stands in a capture, if it was recorded in one; the device never comes to it then."""

    @property
    def is_complete(self) -> bool:
        return self.done is None or self.done.is_set


@attrs.define(eq=False)
class TimedEvent:
    """An event of a CUDA program (cudaEvent_t).

    Unlike the marks of an offloading runtime, it has a packet of its own in the stream, which notes the time.
    """

    number: int
    """Number of the event on its device, in order of creation."""
    device: int
    timing: bool
    """False for cudaEventDisableTiming."""
    blocking_sync: bool
    """Whether a thread that waits for it gives its core up (cudaEventBlockingSync)."""
    mark: StreamEvent | None = None
    """Where it was recorded last; None before."""
    reached: float | None = None
    """When the device came to it, in virtual seconds; None before."""
    destroyed: bool = False


@attrs.define(eq=False)
class BuiltGraph:
    """A graph under construction (cudaGraph_t); a node is known by its place, so that edges lead forward.

    A launch puts nodes into streams.  The driver's way to divide a graph among streams is not documented.  Here a node
    joins the lane whose last node it comes after (of several, the one named first in ``after``), and otherwise opens a
    lane of its own.
    """

    number: int
    device: int
    nodes: list[GraphNode] = attrs.field(factory=list)
    _last: list[int] = attrs.field(factory=list)
    """The place of each lane's last node."""

    def add(self, work: NodeWork, after: Sequence[int]) -> int:
        """Put in a node that comes after others; return its place."""
        place = len(self.nodes)
        free = [lane for lane, last in enumerate(self._last) if last in after]
        if free:
            lane = min(free, key=lambda lane: [*after].index(self._last[lane]))
            self._last[lane] = place
        else:
            lane = len(self._last)
            self._last.append(place)
        self.nodes.append(GraphNode(work, lane, tuple(sorted({*after}))))
        return place

    def finished(self) -> CapturedGraph:
        """Return what can be made executable: the graph as it is now."""
        followed = {place for node in self.nodes for place in node.after}
        tail = tuple(place for place in range(len(self.nodes)) if place not in followed)
        priorities = tuple(0 for _ in self._last) or (0,)
        return CapturedGraph(self.number, self.device, tuple(self.nodes), tail, priorities)


@attrs.frozen
class PinningCosts:
    """Seconds for each page of host memory that is pinned, and unpinned, besides the call and besides first touches."""

    pin: Annotated[float, "pin.page"]
    pin_huge: Annotated[float, "pin.huge_page"]
    """A whole huge page."""
    unpin: Annotated[float, "pin.unregister_page"]
    allocate: Annotated[float, "pin.alloc_page"]
    """Added for a page that the driver itself takes from the system, and maps; clearing it comes on top."""
    free: Annotated[float, "pin.free_page"]
    """A page that goes back to the system."""


@attrs.frozen
class DriverCosts:
    """Seconds of host time of each call; sizes in bytes."""

    init: Annotated[float, "init.library"]
    init_device: Annotated[float, "init.device"]
    """Added for each device that the program sees."""
    create_context: Annotated[float, "init.context"]
    start_in_kernel: Annotated[float, "init.kernel_part"]
    """The part of the calls of a start that the kernel module does under the lock of the GPU."""
    load_module: Annotated[float, "module.load"]
    load_kernel: Annotated[float, "module.kernel"]
    """The first use of a kernel of a module that is loaded lazily."""
    loading: Annotated[str, "module.loading"]
    """Whether a module's kernels are loaded at their first use (``lazy``), or with the module (``eager``)."""
    allocate: Annotated[float, "alloc.cudaMalloc_small"]
    """An allocation from memory that the driver holds already."""
    allocate_segment: Annotated[float, "alloc.cudaMalloc_large"]
    """An allocation for which the kernel driver has to hand out a segment."""
    further_segment: Annotated[float, "alloc.cudaMalloc_segment"]
    """Added for each further segment."""
    free: Annotated[float, "alloc.cudaFree"]
    free_managed: Annotated[float, "alloc.cuMemFree_managed"]
    free_segment: Annotated[float, "alloc.cudaFree_large"]
    """Added for a segment that goes back to the kernel driver."""
    free_further: Annotated[float, "alloc.cudaFree_segment"]
    """Added for each further segment that the same call gives back; 0: as much as for the first."""
    allocate_managed: Annotated[float, "alloc.cuMemAllocManaged"]
    """An allocation of managed memory, which gets addresses but no pages."""
    managed_alignment: Annotated[int, "alloc.managed_alignment"]
    """Addresses of managed allocations are multiples of this."""
    visit: Annotated[float, "driver.free_visits_streams"]
    """The time that a free takes to look at one stream of the context."""
    copy_submit: Annotated[float, "driver.copy_submit"]
    """The submission of a copy, under the context lock."""
    copy_library: Annotated[float, "hip.copy"]
    """Added where the program's call is HIP's, which submits the copy to HSA."""
    launch: Annotated[float, "driver.launch"]
    """The submission of a kernel, under the context lock; what the device adds is ``launch.latency``."""
    handover: Annotated[float, "driver.handover"]
    """The time that a thread which had to wait for the context lock takes to wake up, while it owns the lock."""
    stream_create: Annotated[float, "driver.stream_create"]
    stream_destroy: Annotated[float, "driver.stream_destroy"]
    stream_depth: Annotated[int, "driver.stream_depth"]
    """Commands that a stream can hold; a submission waits for one of them to complete."""
    event_record: Annotated[float, "driver.event_record"]
    event_wait: Annotated[float, "driver.event_wait"]
    wake: Annotated[float, "sync.latency"]
    """Time from a completion to the return of the call that waited for it."""
    synchronize_idle: Annotated[float, "driver.sync_idle"]
    """A call that waits for something which has completed already."""
    register: Annotated[float, "pin.register"]
    unregister: Annotated[float, "pin.unregister"]
    pages: PinningCosts
    staging_chunk: Annotated[int, "staging.chunk"]
    """Bytes of one piece of a copy of pageable memory."""
    staging_buffers: Annotated[int, "staging.buffers"]
    """Pinned buffers of a chunk that each stream has for each direction."""
    staging_memory: Annotated[str, "staging.memory"]
    """The owner of the pinned buffers: each ``stream`` has some, or the ``context`` has some for all."""
    staging_inline: Annotated[int, "staging.inline"]
    """Bytes up to which a copy to the device travels with its command, and needs no buffer."""
    staging_copy_per_byte: Annotated[float, "staging.copy_per_gib"]
    """The time that a thread takes to copy to and from pinned buffers; 0: as long as it takes within the host."""
    copies_pageable: Annotated[bool, "ats.copies"]
    """Whether copy engines reach pageable memory themselves, through the page table of the host."""
    enable_peer_access: Annotated[float, "p2p.enable_access"]

    def give_back_s(self, segments: int) -> float:
        """Return the seconds that a call adds when it gives segments back to the kernel driver."""
        if segments > 1 and self.free_further:
            return self.free_segment + (segments - 1) * self.free_further
        return segments * self.free_segment


Schedule = Literal["auto", "spin", "yield", "blocking_sync"]
"""The flags of cudaSetDeviceFlags."""


@attrs.frozen
class WaitingCosts:
    """The costs of spinning and sleeping; read when a program first asks for either."""

    time_slice: Annotated[float, "stream.time_slice"]
    """Seconds after which the operating system gives a spinning thread's core to another that waits for one."""
    interrupt: Annotated[float, "stream.interrupt"]
    """Seconds that a sleeping thread needs on top of ``sync.latency`` to return."""


class Waiting:
    """The waits of one context's callers.

    ``auto`` and ``yield``: a thread has no core while it waits, and returns ``sync.latency`` after the completion, as
    soon as a core is idle.  CUDA's auto spins while a process has no more contexts than the host has cores: as long as
    no other thread wants the core, the two cannot be told apart, so that only a thread that is pinned to a core spins.
    ``spin``: a thread keeps its core, and gives it up only when its time slice is over and another waits.
    ``blocking_sync``: it sleeps, and waking it takes longer.
    """

    def __init__(self, machine: Machine, wake: float) -> None:
        self._machine = machine
        self._sim = machine.sim
        self._wake = wake
        self._costs: WaitingCosts | None = None
        self.schedule: Schedule = "auto"

    @property
    def is_plain(self) -> bool:
        """Tell whether a thread only waits and then wakes up, so that nobody need ask ``until``."""
        return self.schedule == "yield" or (
            self.schedule == "auto" and not self._machine.cores.is_pinned(self._sim.current)
        )

    async def until(self, done: Signal, *, blocking_sync: bool = False) -> float:
        """Wait for a completion; returns the seconds of work that are left until the call can return."""
        if self.schedule in ("auto", "spin") and not blocking_sync and not self.is_plain:
            await self._spin(done)
            return 0.0
        await done.wait()
        return self._wake + (self._read().interrupt if blocking_sync or self.schedule == "blocking_sync" else 0.0)

    async def _spin(self, done: Signal) -> None:
        machine, sim, time_slice = self._machine, self._sim, self._read().time_slice
        while True:
            await machine.cores.take()
            try:
                if not done.is_set:
                    with sim.move_on_after(time_slice):
                        await done.wait()
                if done.is_set:  # it sees the completion on the core that it has
                    await sim.sleep(machine.jitter(self._wake))
                    return
            finally:
                machine.cores.give_back()

    def _read(self) -> WaitingCosts:
        if self._costs is None:
            self._costs = self._machine.spec.read(WaitingCosts)
        return self._costs


@attrs.define(eq=False)
class Locked:
    """Holds the context lock in the body of ``async with``; `Context.locked` returns it."""

    context: Context
    dt: float
    """Virtual seconds of work under the lock before the body begins."""

    def __aenter__(self) -> Awaitable[None]:
        return self.context.enter(self.dt)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.context.lock.release()


class Context:
    """Holds what all calls on one device share.

    ``lock`` is taken for the work of every call.  A thread that had to wait needs ``driver.handover`` to wake up, and
    ``driver.handoff`` says whether others can take the lock meanwhile.
    """

    def __init__(self, process: DriverProcess, number: int, costs: DriverCosts) -> None:
        machine = process.machine
        self.process = process
        self.number = number
        """The device, as the process counts them."""
        self.machine = machine
        self.sim = machine.sim
        self.device = device = machine.gpu(number)
        self.kernel_driver = process.kernel_drivers[number]
        self.costs = costs
        self.lock = HostLock(
            machine,
            machine.named("driver context", device.index),
            lock_policy(machine.spec.text("driver.handoff")),
            costs.handover,
            category="driver",
            wait_category="driver lock",
            uncontended=machine.spec.flag("driver.context.uncontended"),
        )
        self._process_lock = process.lock
        self.streams: list[Stream] = []
        """The streams of the context in order of creation."""
        self.order = ImplicitOrder()
        """The order between the legacy default stream and blocking streams."""
        self.captures = Captures(self.order)
        """The streams that are capturing."""
        self.waiting = Waiting(machine, costs.wake)
        """How threads wait for the device."""
        self.frees = FreeClock()
        """Which frees of memory pools each stream comes after."""
        self.pools: list[MemPool] = []
        """The memory pools that are not destroyed."""
        self._accounts = CallAccounts(machine, device, CALL_NAMES[machine.spec.text("driver.calls")])
        self._work = machine.work

    def call(self, api: str, stream: Stream | None = None, cause: int | None = None, nbytes: int = 0) -> DriverCall:
        """Account for one call, in a stream or none: ``with context.call("cuMemAlloc") as call``.

        ``cause`` is the directive that asks for it; None: that of the running actor.  ``nbytes``: of an allocation of
        device memory, what it asks for.
        """
        call = self._accounts.call(api, -1 if stream is None else stream.queue.number, cause, nbytes)
        if self.captures.streams:
            violation = self.captures.check_call(api, stream, self.sim.current.name)
            if violation is not None:
                with call:
                    self.refuse(call, violation)
        return call

    @property
    def broken(self) -> bool:
        """Tell whether the context is of no more use: a fault has broken its device."""
        failing = self._accounts.failing
        return failing is not None and failing.broken

    @cached_property
    def capture_cost(self) -> float:
        """Seconds of a call that is captured."""
        # Read at the first use: only programs with graphs need the entry.
        return self.machine.spec.value("graph.capture")

    def refuse(self, call: DriverCall, violation: Violation | None) -> None:
        """Raise DriverError for what a capture forbids; None is nothing."""
        if violation is not None:
            raise DriverError(call.api, violation.code, violation.why)

    def locked(self, dt: float = 0.0) -> Locked:
        """Hold the context lock in the body of ``async with``, which begins when ``dt`` of work under it is done."""
        return Locked(self, dt)

    def enter(self, dt: float) -> Awaitable[None]:
        """Take the context lock and work under it for ``dt`` seconds; the caller holds it until its ``release``."""
        if self._process_lock is None or not dt:
            return self.lock.enter(dt)
        return self._enter_both(self._process_lock, dt)

    async def _enter_both(self, process_lock: ProcessLock, dt: float) -> None:
        await self.lock.enter(0.0)
        try:
            await process_lock.work(dt)
        except BaseException:
            self.lock.release()
            raise

    def work(self, dt: float) -> Awaitable[None]:
        """Let the calling thread work for ``dt`` seconds on a core."""
        return self._work(dt, "driver")

    async def locked_work(self, dt: float) -> None:
        """Work under the context lock."""
        await self.enter(dt)
        self.lock.release()

    async def submit(self, packet: Packet, dt: float) -> Signal:
        """Work under the context lock, then put a packet into its stream; return its completion.

        When the stream holds as many commands as it can, the thread first waits for one of them, with the lock.  In a
        capturing stream, the packet becomes a node of the graph, and its completion never comes.
        """
        stream = packet.stream
        capture = self.captures.streams.get(stream)
        await self.enter(dt if capture is None else self.capture_cost)
        try:
            if capture is not None:
                if not isinstance(packet, (KernelPacket, CopyPacket, PeerPacket)):
                    raise TypeError(f"a graph has no node for {packet!r}")
                capture.add(stream, packet)
                return packet.done
            await self.append(packet)
            return packet.done
        finally:
            self.lock.release()

    async def append(self, packet: Packet, *, in_order: bool = True) -> None:
        """Put a packet into its stream, when that has a place for it; the caller holds the lock.

        ``in_order``: behind what the legacy default stream and its blocking streams ask for.
        """
        stream = packet.stream
        for earlier in self.order.before(stream) if in_order else ():
            wait = WaitPacket(stream, earlier, Signal(self.sim, f"order of stream {stream.index}"))
            await self.append(wait, in_order=False)
        if stream.full(self.costs.stream_depth) is not None:
            await self.make_room(stream)
        stream.submit(packet)
        stream.pending.append(packet.done)

    async def make_room(self, stream: Stream) -> None:
        """Wait until a stream has a place for another command; the caller holds the lock."""
        # The thread keeps the lock while it waits for a place, so a full stream stops the calls of all threads.
        while (first := stream.full(self.costs.stream_depth)) is not None:
            await self.settled(stream, first)

    async def settled(self, stream: Stream, done: Signal) -> None:
        """Wait within a call until a command of a stream has completed; nobody has to be woken for it."""
        begin = self.sim.now
        await done.wait()
        self.machine.host_time.add_wait(begin, self.sim.now, stream.spans())

    async def drain(self) -> None:
        """Wait until the device has done what is in the context's streams now."""
        begin = self.sim.now
        for stream in [*self.streams]:
            if stream.last is not None:
                await stream.last.wait()
        self.machine.host_time.add("drain", self.sim.now - begin)

    def refusal(self, call: DriverCall, code: str, why: str) -> DriverError:
        """Return the error of a call that a program may not make so; it says which thread made it, and when."""
        error = DriverError(call.api, code, why)
        error.rename(self._accounts.names)
        error.locate(self.sim.current.name, self.sim.now, self.device.index)
        return error

    async def wait(self, stream: Stream, done: Signal, *, blocking_sync: bool = False) -> None:
        """Wait for a completion in a stream, then pay for waking up; ``blocking_sync``: asleep, whatever the flags."""
        machine = self.machine
        sim, trace, cause = machine.sim, machine.trace, machine.sim.current.cause
        begin = sim.now
        if trace is not None:
            trace(events.SignalWaitBegin, self.device.index, stream.queue.number, cause, done.name)
        try:
            if self.waiting.is_plain and not blocking_sync:
                await done.wait()
                left = self.costs.wake
            else:
                left = await self.waiting.until(done, blocking_sync=blocking_sync)
        finally:
            if trace is not None:
                trace(events.SignalWaitEnd, self.device.index, stream.queue.number, cause, done.name)
            machine.host_time.add_wait(begin, sim.now, stream.spans())
        if left:
            await self.work(left)

    async def synchronize(self, stream: Stream, done: Signal | None, *, blocking_sync: bool = False) -> None:
        """Return when ``done`` is set, at a small cost if it is set already."""
        if done is None or done.is_set:
            stream.spans()
            await self.work(self.costs.synchronize_idle)
        else:
            await self.wait(stream, done, blocking_sync=blocking_sync)
        for pool in self.pools:
            if pool.reserved > pool.release_threshold:
                async with self.locked():
                    await self.release(pool, pool.release_threshold)

    async def release(self, pool: MemPool, keep: int) -> None:
        """Give chunks of a pool back until at most ``keep`` bytes are left; the caller holds the lock.

        A chunk is one mapping, so that its further segments cost what the profile says, also where that is nothing.
        """
        for address in pool.release(keep):
            _, segments = self.device.memory.free(address)
            await self.work(self.costs.free_segment + (segments - 1) * self.costs.free_further)
