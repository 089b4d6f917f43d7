"""The context of one device: what all calls of CUDA's driver library share.

This is the context lock, the accounting of calls, the submission to streams, and waits for streams. Calls of several
threads queue for the lock. One lock for each context is an assumption: CUDA does not document its locking. The ablation
``driver.context.uncontended`` shows how much of a result depends on it. Contexts of one process on several devices also
share a lock (`ProcessLock`).

The library's order among streams is data without time. `ImplicitOrder` says for what a command of a stream has to wait,
`StreamEvent` and `TimedEvent` are marks in streams, and `Captures` records commands and their order as graphs instead
of executing them. A program can also build a graph node by node (`BuiltGraph`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import Annotated, Any, Final, Literal

import attrs

from offloadrt.driver.calls import CALL_NAMES, CallAccounts, DriverCall, DriverError, driver_lock
from offloadrt.driver.cuda.process import DriverProcess, FreeClock, MemPool, ProcessLock
from offloadrt.machine import Machine, Stream
from offloadrt.machine.messages import CopyPacket, KernelPacket, Packet, PeerPacket, WaitPacket
from offloadrt.sim import Signal
from offloadrt.trace import events


class ImplicitOrder:
    """The rule by which a context's legacy default stream and its blocking streams wait for each other.

    A command of the legacy stream starts when all earlier commands of all blocking streams have completed. A command of
    a blocking stream starts when all earlier commands of the legacy stream have ("Stream synchronization behavior" of
    CUDA's manual). Other streams wait for neither.
    """

    __slots__ = ("_blocking", "legacy")

    def __init__(self) -> None:
        self.legacy: Stream | None = None
        """The legacy default stream; None when the program has none."""
        self._blocking: dict[int, Stream] = {}

    def add(self, stream: Stream) -> None:
        """Add a blocking stream: it and the legacy default stream wait for each other's commands."""
        self._blocking[stream.index] = stream

    def remove(self, stream: Stream) -> None:
        """Remove a destroyed stream."""
        self._blocking.pop(stream.index, None)

    def blocks(self, stream: Stream) -> bool:
        """Tell whether this stream and the legacy default stream wait for each other's commands."""
        return self.legacy is not None and stream.index in self._blocking

    def before(self, stream: Stream) -> list[Signal]:
        """Return the completion signals of other streams for which a stream's next command has to wait."""
        legacy = self.legacy
        if legacy is None:
            return []
        if stream is not legacy:
            blocks = stream.index in self._blocking and not legacy.idle
            return [legacy.last] if blocks and legacy.last is not None else []
        return [other.last for other in self._blocking.values() if other.last is not None and not other.idle]


CaptureMode = Literal["global", "thread_local", "relaxed"]
"""Which threads may not make unsafe calls during a capture: all, the capturing one, none (CU_STREAM_CAPTURE_MODE_*)."""

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
"""The calls that a capturing stream refuses, and the reason."""
_UNSAFE: Final = frozenset(
    {
        "cuMemAlloc", "cuMemFree", "cuMemAllocHost", "cuMemFreeHost", "cuMemAllocManaged", "cuMemHostRegister",
        "cuMemHostUnregister",
    }
)  # fmt: skip
"""Calls that a capture forbids, depending on its mode, because they may wait for the device."""


@attrs.frozen(eq=False)
class HostNode:
    """A host function in a graph: it works for ``seconds`` on a core, and then ``function`` is called, if given."""

    function: Callable[[], object] | None
    seconds: float


NodeWork = KernelPacket | CopyPacket | PeerPacket | HostNode


@attrs.define(eq=False)
class GraphNode:
    """A command of a graph. Each launch of the graph submits a copy of ``work`` with a new completion signal."""

    work: NodeWork
    lane: int
    """The index of the captured stream, in the order in which streams joined the capture; 0 is the origin."""
    after: tuple[int, ...]
    """The indices of the nodes that directly precede this node."""
    uses: Sequence[tuple[str, Any]] = ()
    """The memory that the node uses, with its role: a kernel's arguments, or a copy's destination and source."""


@attrs.frozen(eq=False)
class CapturedGraph:
    """The result of a stream capture (cudaGraph_t), number ``number``: nodes that depend on earlier nodes only."""

    number: int
    device: int
    nodes: tuple[GraphNode, ...]
    tail: tuple[int, ...]
    """The indices of the nodes after which the graph is complete."""
    priorities: tuple[int, ...]
    """The priorities of the captured streams, by lane (the stream's index in the capture)."""


@attrs.define(eq=False)
class Capture:
    """A stream capture in CUDA's ``mode``: calls on ``origin`` and joined streams become graph nodes."""

    origin: Stream
    mode: CaptureMode
    thread: str
    """The thread that began the capture."""
    tails: dict[Stream, tuple[int, ...]]
    """The capture's streams in the order in which they joined, each with the predecessors of its next node."""
    nodes: list[GraphNode] = attrs.field(factory=list)
    broken: str | None = None
    """The reason why the capture is invalid; None while it is valid."""
    ended: bool = False

    def last(self, stream: Stream) -> GraphNode:
        """Return the node that was last added to a stream of the capture."""
        return self.nodes[self.tails[stream][-1]]

    def add(self, stream: Stream, work: NodeWork) -> None:
        """Add a node for the packet ``work`` behind everything in a stream of the capture."""
        self.nodes.append(GraphNode(work, [*self.tails].index(stream), self.tails[stream]))
        self.tails[stream] = (len(self.nodes) - 1,)

    def unjoined(self) -> bool:
        """Tell whether the capture's origin stream does not wait for all captured commands of the other streams."""
        joined: set[int] = set()
        front = [*self.tails[self.origin]]
        while front:
            if (place := front.pop()) not in joined:
                joined.add(place)
                front.extend(self.nodes[place].after)
        return len(joined) < len(self.nodes)


@attrs.frozen(eq=False)
class CapturedMark:
    """The position in a stream capture at which an event was recorded, after the nodes with the indices ``after``."""

    capture: Capture
    after: tuple[int, ...]


@attrs.frozen
class Violation:
    """Describes how a call violates a stream capture: the error ``code`` and the reason (``why``)."""

    code: str
    why: str


class Captures:
    """The stream captures in progress in one context; ``order``: the rules of its legacy default stream."""

    def __init__(self, order: ImplicitOrder) -> None:
        self._order = order
        self.streams: dict[Stream, Capture] = {}
        """The capturing streams."""

    def begin(self, stream: Stream, mode: CaptureMode, thread: str) -> None:
        """Begin to capture a stream in this mode; `thread` is the name of the thread that begins the capture."""
        self.streams[stream] = Capture(stream, mode, thread, {stream: ()})

    def end(self, capture: Capture) -> None:
        """End a capture, so that its streams execute commands again."""
        capture.ended = True
        for stream in capture.tails:
            self.streams.pop(stream, None)

    def check_call(self, api: str, stream: Stream | None, thread: str) -> Violation | None:
        """Return the violation if a capture forbids ``thread`` to call ``api``; that capture is invalid then."""
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
        """Let a stream wait for an event in a capture (cudaStreamWaitEvent); return the violation if this is illegal.

        mark: the event's position in its capture; None for an event recorded outside of captures. A stream that is not
        capturing yet joins the event's capture.
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
        """Mark a capture as invalid; return the violation (``code``, ``why``) for the call that caused this."""
        capture.broken = capture.broken or why
        return Violation(code, why)


@attrs.define(eq=False)
class StreamEvent:
    """An event recorded in a stream; it is complete when everything before it in the stream is complete.

    Its completion is that of the packet just before it, since the commands of a stream complete in order; the device
    never sees an event. The time of a real event's packet in the queue is left out.
    """

    stream: Stream
    done: Signal | None
    """Completion of the packet just before the event; None if there was no packet."""
    frees: Mapping[int, int] = attrs.field(factory=dict)
    """How many frees of pool memory come before the event, by stream index (``FreeClock.at``)."""
    captured: CapturedMark | None = None
    """The event's position in a capture, if it was recorded in one; the device never reaches such an event."""

    @property
    def is_complete(self) -> bool:
        return self.done is None or self.done.is_set


@attrs.define(eq=False)
class TimedEvent:
    """An event of a CUDA program (cudaEvent_t).

    Unlike an offloading runtime's event (`StreamEvent`), it has its own packet in the stream, which notes the time.
    """

    number: int
    """Number of the event on its device, in order of creation."""
    device: int
    timing: bool
    """False for cudaEventDisableTiming."""
    blocking_sync: bool
    """Whether a thread that waits for the event gives its core up (cudaEventBlockingSync)."""
    mark: StreamEvent | None = None
    """The event's position at its last recording; None before the first."""
    reached: float | None = None
    """Virtual time at which the device reached the event; None before."""
    destroyed: bool = False


@attrs.define(eq=False)
class BuiltGraph:
    """A graph that a program builds node by node (cudaGraph_t); a node's name is its index, from 0.

    A node depends on earlier nodes only. A launch puts the nodes into streams. How the driver divides a graph among
    them is not documented. Here each lane of nodes gets a stream: a node joins the lane whose last node it follows (of
    several, the first in ``after``), or else begins a new lane. number: the graph's number on its device.
    """

    number: int
    device: int
    nodes: list[GraphNode] = attrs.field(factory=list)
    _last: list[int] = attrs.field(factory=list)
    """For each lane (nodes that a launch puts into one stream): the index of its last node."""

    def add(self, work: NodeWork, after: Sequence[int]) -> int:
        """Add a node for the packet ``work`` that waits for the nodes in ``after``; return the new node's index."""
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
        """Return the graph in its current state, from which an executable graph can be made."""
        followed = {place for node in self.nodes for place in node.after}
        tail = tuple(place for place in range(len(self.nodes)) if place not in followed)
        priorities = tuple(0 for _ in self._last) or (0,)
        return CapturedGraph(self.number, self.device, tuple(self.nodes), tail, priorities)


@attrs.frozen
class PinningCosts:
    """Seconds to ``pin`` and ``unpin`` one page, in addition to the call's cost and to first touches."""

    pin: Annotated[float, "pin.page"]
    pin_huge: Annotated[float, "pin.huge_page"]
    """Time for a whole huge page."""
    unpin: Annotated[float, "pin.unregister_page"]
    allocate: Annotated[float, "pin.alloc_page"]
    """Additional time for a page that the driver takes from the system and maps, without clearing the page."""
    free: Annotated[float, "pin.free_page"]
    """Time for a page that goes back to the system."""


@attrs.frozen
class DriverCosts:
    """Seconds of host time that each driver call costs (``free``: cuMemFree, and so on); sizes are in bytes."""

    init: Annotated[float, "init.library"]
    init_device: Annotated[float, "init.device"]
    """Additional time for each device that the program sees."""
    create_context: Annotated[float, "init.context"]
    start_in_kernel: Annotated[float, "init.kernel_part"]
    """The fraction of the time of a cold start's calls that the kernel module works under the lock of the GPU."""
    load_module: Annotated[float, "module.load"]
    load_kernel: Annotated[float, "module.kernel"]
    """Time for the first use of a kernel of a lazily loaded module."""
    loading: Annotated[str, "module.loading"]
    """Whether a module's kernels are loaded at their first use (``lazy``), or with the module (``eager``)."""
    allocate: Annotated[float, "alloc.cudaMalloc_small"]
    """Time of an allocation from memory that the driver holds already."""
    allocate_segment: Annotated[float, "alloc.cudaMalloc_large"]
    """Time of an allocation for which the kernel driver has to hand out a segment."""
    further_segment: Annotated[float, "alloc.cudaMalloc_segment"]
    """Additional time for each segment of the allocation after the first."""
    free: Annotated[float, "alloc.cudaFree"]
    free_managed: Annotated[float, "alloc.cuMemFree_managed"]
    free_segment: Annotated[float, "alloc.cudaFree_large"]
    """Additional time for a segment that goes back to the kernel driver."""
    free_further: Annotated[float, "alloc.cudaFree_segment"]
    """Additional time for each further segment that the same call gives back; 0: as for the first segment."""
    allocate_managed: Annotated[float, "alloc.cuMemAllocManaged"]
    """Time of an allocation of managed memory, which gets addresses but no pages."""
    managed_alignment: Annotated[int, "alloc.managed_alignment"]
    """Addresses of managed allocations are multiples of this."""
    visit: Annotated[float, "driver.free_visits_streams"]
    """The time that a free takes to look at one stream of the context."""
    copy_submit: Annotated[float, "driver.copy_submit"]
    """Time to submit a copy, under the context lock."""
    copy_library: Annotated[float, "hip.copy"]
    """Additional time if the program calls HIP, whose library submits the copy to HSA."""
    launch: Annotated[float, "driver.launch"]
    """Time to submit a kernel, under the context lock; the device adds ``launch.latency``."""
    """Time that a thread which had to wait for the context lock needs to wake up, while it owns the lock."""
    stream_create: Annotated[float, "driver.stream_create"]
    stream_destroy: Annotated[float, "driver.stream_destroy"]
    launch_blocking: Annotated[bool, "driver.launch_blocking"]
    """Whether a launch waits until its kernel has ended (CUDA_LAUNCH_BLOCKING)."""
    stream_depth: Annotated[int, "driver.stream_depth"]
    """Number of commands that a stream can hold; a further submission waits for a completion."""
    event_record: Annotated[float, "driver.event_record"]
    event_wait: Annotated[float, "driver.event_wait"]
    wake: Annotated[float, "sync.latency"]
    """Time from a completion to the return of the call that waits for it."""
    synchronize_idle: Annotated[float, "driver.sync_idle"]
    """Time of a call that waits for an already completed operation."""
    register: Annotated[float, "pin.register"]
    unregister: Annotated[float, "pin.unregister"]
    pages: PinningCosts
    staging_chunk: Annotated[int, "staging.chunk"]
    """Bytes of one piece of a staged copy of pageable memory."""
    staging_buffers: Annotated[int, "staging.buffers"]
    """Number of pinned buffers of one chunk that each stream has for each direction."""
    staging_memory: Annotated[str, "staging.memory"]
    """The owner of the pinned buffers: each ``stream`` has its own, or the ``context`` has some for all streams."""
    staging_inline: Annotated[int, "staging.inline"]
    """Bytes up to which a copy to the device travels within its command, without a buffer."""
    staging_copy_per_byte: Annotated[float, "staging.copy_per_gib"]
    """Seconds per byte of a thread's copies to and from pinned buffers; 0: as for copies within the host."""
    copies_pageable: Annotated[bool, "ats.copies"]
    """Whether copy engines reach pageable memory themselves, through the page table of the host."""
    enable_peer_access: Annotated[float, "p2p.enable_access"]

    def give_back_s(self, segments: int) -> float:
        """Return the extra seconds of a call that gives this number of memory segments back to the kernel driver."""
        if segments > 1 and self.free_further:
            return self.free_segment + (segments - 1) * self.free_further
        return segments * self.free_segment


Schedule = Literal["auto", "spin", "yield", "blocking_sync"]
"""The flags of cudaSetDeviceFlags."""


@attrs.frozen
class WaitingCosts:
    """Costs of spinning and sleeping threads; they are read from the profile when a program first needs one of them."""

    time_slice: Annotated[float, "stream.time_slice"]
    """Seconds after which the operating system gives a spinning thread's core to another thread that waits for one."""
    interrupt: Annotated[float, "stream.interrupt"]
    """Seconds that a sleeping thread needs to return, in addition to ``sync.latency``."""


class Waiting:
    """Lets the threads of one context wait for the device: by spinning, by yielding the core, or asleep.

    Schedules: with ``yield``, a thread has no core while it waits. ``wake`` seconds (``sync.latency``) after the device
    is done, and once a core is idle, the call returns. With ``spin``, a thread keeps its core, and gives it up only
    when its time slice is over and another thread waits. With ``blocking_sync``, it sleeps; waking it takes longer.
    ``auto`` is ``spin`` for a thread that is pinned to a core, else ``yield``: CUDA's auto spins in both cases, but
    without pinning, that would matter only where another thread wants the core.
    """

    def __init__(self, machine: Machine, wake: float) -> None:
        self._machine = machine
        self._sim = machine.sim
        self._wake = wake
        self._costs: WaitingCosts | None = None
        self.schedule: Schedule = "auto"

    @property
    def is_plain(self) -> bool:
        """Tell whether a waiting thread neither spins nor wakes up slowly, so that a call can do without `until`."""
        return self.schedule == "yield" or (
            self.schedule == "auto" and not self._machine.cores.is_pinned(self._sim.current)
        )

    async def until(self, done: Signal, *, blocking_sync: bool = False) -> float:
        """Wait until ``done`` is set (``blocking_sync``: asleep); return the seconds that the wake-up still takes."""
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
    """The state that all calls on the process's device ``number`` share: the context lock, the streams and the costs.

    ``lock`` is taken for the work of every call. The profile says how many seconds a thread that had to wait needs to
    wake up (``driver.handover``), and whether others can take the lock meanwhile (``driver.handoff``).
    """

    def __init__(self, process: DriverProcess, number: int, costs: DriverCosts) -> None:
        machine = process.machine
        self.process = process
        self.number = number
        """The device's number within the process."""
        self.machine = machine
        self.sim = machine.sim
        self.device = device = machine.gpu(number)
        self.kernel_driver = process.kernel_drivers[number]
        self.costs = costs
        name = machine.named("driver context", device.index)
        self.lock = driver_lock(machine, name, "driver.context.uncontended")
        self._process_lock = process.lock
        self.streams: list[Stream] = []
        """The streams of the context in their order of creation."""
        self.order = ImplicitOrder()
        """The order between the legacy default stream and blocking streams."""
        self.captures = Captures(self.order)
        """The captures of the context's streams."""
        self.waiting = Waiting(machine, costs.wake)
        """How threads wait for the device."""
        self.frees = FreeClock()
        """The frees of memory pools that precede each stream's next command."""
        self.pools: list[MemPool] = []
        """The memory pools that have not been destroyed."""
        self._accounts = CallAccounts(machine, device, CALL_NAMES[machine.spec.text("driver.calls")])
        self._work = machine.work

    def call(self, api: str, stream: Stream | None = None, cause: int | None = None, nbytes: int = 0) -> DriverCall:
        """Count one call (``api``) and its time, in a stream or none: ``with context.call("cuMemAlloc") as call``.

        ``cause`` is the number of the directive that makes the call; None: the calling thread's directive. ``nbytes``:
        requested size of an allocation of device memory.
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
        """Tell whether a fault has broken the device, so that the context is unusable."""
        failing = self._accounts.failing
        return failing is not None and failing.broken

    @cached_property
    def capture_cost(self) -> float:
        """Return the virtual seconds of a call that a stream capture records instead of executing it."""
        # Read at the first use: only programs with graphs need the entry.
        return self.machine.spec.value("graph.capture")

    def refuse(self, call: DriverCall, violation: Violation | None) -> None:
        """Raise the DriverError of a call that violates a capture; do nothing if ``violation`` is None."""
        if violation is not None:
            raise DriverError(call.api, violation.code, violation.why)

    def locked(self, dt: float = 0.0) -> Locked:
        """Return an ``async with`` context that takes the lock, works ``dt`` seconds, and releases it at the end."""
        return Locked(self, dt)

    def enter(self, dt: float) -> Awaitable[None]:
        """Take the context lock and work for ``dt`` seconds; the caller holds it until it calls ``lock.release``."""
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
        """Work under the context lock for ``dt`` seconds."""
        await self.enter(dt)
        self.lock.release()

    async def submit(self, packet: Packet, dt: float) -> Signal:
        """Work under the context lock for ``dt`` seconds, then put a packet into its stream; return its completion.

        When the stream is full, the thread first waits for a completion while it holds the lock. In a capturing stream,
        the packet becomes a node of the graph, and its completion never comes.
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
        """Put a packet into its stream once the stream has room; the caller holds the context lock.

        ``in_order``: obey the order between the legacy default stream and the blocking streams.
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
        """Wait until a stream has room for another command; the caller holds the context lock."""
        # The thread keeps the lock while it waits for a place, so a full stream stops the calls of all threads.
        while (first := stream.full(self.costs.stream_depth)) is not None:
            await self.settled(stream, first)

    async def settled(self, stream: Stream, done: Signal) -> None:
        """Wait in the middle of a call until the completion ``done`` in a stream is set, without a wake-up cost."""
        begin = self.sim.now
        await done.wait()
        self.machine.host_time.add_wait(begin, self.sim.now, stream.spans())

    async def drain(self) -> None:
        """Wait until the device has completed everything that is in the context's streams now."""
        begin = self.sim.now
        for stream in [*self.streams]:
            if stream.last is not None:
                await stream.last.wait()
        self.machine.host_time.add("drain", self.sim.now - begin)

    def refusal(self, call: DriverCall, code: str, why: str) -> DriverError:
        """Return the error (``code``, with the reason ``why``) of an illegal call; it names thread and time."""
        error = DriverError(call.api, code, why)
        error.rename(self._accounts.names)
        error.locate(self.sim.current.name, self.sim.now, self.device.index)
        return error

    async def wait(self, stream: Stream, done: Signal, *, blocking_sync: bool = False) -> None:
        """Wait until ``done``, a command's completion in a stream, is set, and then for the thread's wake-up.

        With ``blocking_sync`` the thread sleeps, and its wake-up takes longer.
        """
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
        """Wait until the completion ``done`` of a stream's last command is set.

        If it is set already, or None because the stream is empty, only the cost of an idle synchronization is paid.
        ``blocking_sync``: the thread sleeps.
        """
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
        """Return unused memory of a pool to the kernel driver until at most ``keep`` unused bytes are left in the pool.

        The caller holds the context lock. Memory goes back in chunks. A chunk's first segment costs
        ``alloc.cudaFree_large``, and each other one ``alloc.cudaFree_segment``.
        """
        for address in pool.release(keep):
            _, segments = self.device.memory.free(address)
            await self.work(self.costs.free_segment + (segments - 1) * self.costs.free_further)
