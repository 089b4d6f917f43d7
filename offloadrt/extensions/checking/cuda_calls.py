"""Events of CUDA calls for a program's observer: what a call puts into a stream, and who waits for which work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from offloadrt.driver import CudaDriver, TimedEvent
from offloadrt.driver.cuda.context import CapturedGraph, GraphNode, HostNode
from offloadrt.driver.cuda.launches import MEMSET, GraphExec
from offloadrt.extensions.checking.recorded import DEVICE_MEMORY
from offloadrt.kernels import Launch
from offloadrt.machine import DeviceArray, Stream
from offloadrt.machine.messages import KernelPacket
from offloadrt.models.cuda.calling_thread import CopyEnd, device_of
from offloadrt.models.cuda.host_thread import is_in_stream_order
from offloadrt.models.host.program import OffloadProgram
from offloadrt.runtime import events as ev
from offloadrt.runtime.host_array import HostArray, array_of, extent
from offloadrt.runtime.launch.target import OffloadedRegion
from offloadrt.runtime.mapping.present_table import ON_HOST, DevicePointer


@attrs.define(eq=False)
class StreamQueue:
    """A CUDA stream, as the checker sees it: a queue of work on a device.

    legacy: whether it is the legacy default stream, with which `blocking` streams synchronize. blocking: whether this
    stream synchronizes with the legacy default stream; it was then made without cudaStreamNonBlocking.
    """

    name: str
    device: int
    legacy: bool = False
    blocking: bool = False


@attrs.define(eq=False)
class ReportedCalls:
    """Reports each CUDA call of a program to the program's observer, such as the checker.

    The parameter `device` of the methods is the number of the device on which a call acts. devices: the device of each
    stream that the program has made. legacy: the legacy default stream of each device. non_blocking: the streams that
    do not synchronize with it.
    """

    _program: OffloadProgram[Any]
    _observer: ev.ProgramObserver
    _devices: dict[Stream, int]
    legacy: dict[Stream, int] = attrs.field(factory=dict)
    non_blocking: set[Stream] = attrs.field(factory=set)
    _queues: dict[Stream, StreamQueue] = attrs.field(factory=dict)
    _lanes: dict[tuple[GraphExec, int], StreamQueue] = attrs.field(factory=dict)
    """The queues of executable graphs, by graph and lane: the nodes of one lane run one after the other."""
    _graphs: dict[GraphExec, CapturedGraph] = attrs.field(factory=dict)
    """The captured graph from which each executable graph was made."""

    def _queue(self, stream: Stream) -> StreamQueue:
        queue = self._queues.get(stream)
        if queue is None:
            device = self.legacy.get(stream)
            what = "default stream" if device is not None else f"stream {stream.index}"
            number = self._devices[stream] if device is None else device
            blocking = device is None and stream not in self.non_blocking
            queue = self._queues[stream] = StreamQueue(
                f"{what} of device {number}", number, device is not None, blocking
            )
        return queue

    def _before(self, queue: StreamQueue) -> list[StreamQueue]:
        """Return the streams that the next command of a stream waits for by the rules of the legacy default stream."""
        return [
            other
            for other in self._queues.values()
            if other.device == queue.device and ((queue.legacy and other.blocking) or (queue.blocking and other.legacy))
        ]

    @contextmanager
    def call(
        self, name: str, device: int, into: Stream | StreamQueue | None = None, node: GraphNode | None = None
    ) -> Iterator[int]:
        """Report a CUDA call while the body of ``with`` runs; yield the number by which other reports name it.

        name: the name of the CUDA runtime call; a machine whose library is HIP reports HIP's name. into: the stream
        that gets the work of the call, or the queue that stands for a chain of nodes of a launched graph. node: the
        graph node whose work this is, for the work of a launched graph.
        """
        number, handle = self._program.next_directive(), self._observer.handle
        if self._program.machine.spec.text("driver.calls") == "hip":
            name = name.replace("cuda", "hip", 1)
        queue = self._queue(into) if isinstance(into, Stream) else into
        handle(ev.DirectiveBegan(number, device, name, queue, node))
        for other in () if queue is None else self._before(queue):
            handle(ev.QueueAwaited(other, number))
        error: BaseException | None = None
        try:
            yield number
        except BaseException as raised:
            error = raised
            raise
        finally:
            handle(ev.DirectiveLeft(number, device, name, error))
            error = None

    # who waits

    def synchronized(self, streams: Sequence[Stream]) -> None:
        """Report that the thread has waited for these streams."""
        for stream in streams:
            queue = self._queue(stream)
            for other in (*(self._before(queue) if queue.legacy else ()), queue):
                self._observer.handle(ev.QueueAwaited(other))

    def device_synchronized(self, device: int) -> None:
        """Report that the thread has waited for all streams of a device, also for those that are destroyed."""
        for queue in self._queues.values():
            if queue.device == device:
                self._observer.handle(ev.QueueAwaited(queue))

    def recorded(self, event: TimedEvent, stream: Stream) -> None:
        """Report cudaEventRecord: the event completes after everything that is in the stream."""
        queue = self._queue(stream)
        with self.call("cudaEventRecord", queue.device, stream):
            self._observer.handle(ev.QueueMarked(queue, event))

    def reached(self, event: TimedEvent) -> None:
        """Report that the calling thread knows, by a wait or a query, that this CUDA event has completed."""
        self._observer.handle(ev.Awaited(event))

    def follows(self, event: TimedEvent, stream: Stream) -> None:
        """Report cudaStreamWaitEvent: later work of the stream waits for the event."""
        queue = self._queue(stream)
        with self.call("cudaStreamWaitEvent", queue.device, stream):
            self._observer.handle(ev.Awaited(event, queue))

    def host_function(self, function: Callable[[], object], stream: Stream) -> Callable[[], object]:
        """Wrap a host function for cudaLaunchHostFunc, so that its accesses count as work of the stream."""
        queue = self._queue(stream)
        with self.call("cudaLaunchHostFunc", queue.device, stream):
            return self._told_function(function, queue)

    def _told_function(self, function: Callable[[], object], queue: StreamQueue) -> Callable[[], object]:
        here = object()
        self._observer.handle(ev.QueueMarked(queue, here))

        def told() -> object:
            self._observer.handle(ev.StrandBegan(f"a host function in {queue.name}", (here,), queue=queue))
            try:
                return function()
            finally:
                self._observer.handle(ev.StrandEnded(object()))  # the stream's order covers the rest

        return told

    # graphs

    def node_made(self, node: GraphNode) -> None:
        """Report that the thread has added a node to a graph."""
        self._observer.handle(ev.NodeMade(node))

    def graph_launched(self, executable: GraphExec, device: int, stream: Stream) -> None:
        """Report the launch of a graph: each node behind its predecessors; wrap the host functions in its nodes.

        The graph comes after the work in the stream and after the earlier launches of the same graph. Only edges order
        two nodes of the graph. executable: the executable graph. stream: the one into which it is launched.
        """
        handle, queue = self._observer.handle, self._queue(stream)
        graph = self._graphs.setdefault(executable, executable.graph)
        nodes: list[GraphNode] = []
        with self.call("cudaGraphLaunch", queue.device, stream):
            for end in graph.tail:
                handle(ev.Awaited((executable, end), queue))
            handle(ev.QueueMarked(queue, executable))
            for place, node in enumerate(graph.nodes):
                lane = self._lanes.setdefault(
                    (executable, node.lane), StreamQueue(f"graph {graph.number} of device {device}", device)
                )
                with self.call("a graph", device, lane, node) as number:
                    handle(ev.Awaited(executable, lane))
                    for before in node.after:
                        handle(ev.Awaited((executable, before), lane))
                    nodes.append(self._told_node(number, device, node, lane))
                    handle(ev.QueueMarked(lane, (executable, place)))
            for end in graph.tail:
                handle(ev.Awaited((executable, end), queue))
        executable.graph = attrs.evolve(graph, nodes=tuple(nodes))

    def _told_node(self, number: int, device: int, node: GraphNode, lane: StreamQueue) -> GraphNode:
        """Report what a node does; return it, with a host function wrapped so that its accesses are reported."""
        work, ends = node.work, [end for _, end in node.uses]
        if isinstance(work, HostNode):
            told = None if work.function is None else self._told_function(work.function, lane)
            return attrs.evolve(node, work=attrs.evolve(work, function=told))
        if not isinstance(work, KernelPacket):
            self.copies(number, ends[0], ends[1])
        elif work.launch.kernel.name == MEMSET:
            self.written(number, device, ends[0])
        else:
            self.launched(number, device, work.launch, ends)
        return node

    # memory

    def allocated(self, number: int, device: int, address: int, nbytes: int) -> None:
        """Report an allocation of device memory at `address`. number: the number that `call` has given its call."""
        self._observer.handle(ev.BlockAllocated(number, device, address, nbytes, None, 0))

    def freed(self, number: int, device: int, address: int) -> None:
        """Report a free of device memory at `address`. number: the number that `call` has given its call."""
        self._observer.handle(ev.BlockFreed(number, device, address, 0, None, 0))

    def copied(self, name: str, driver: CudaDriver, stream: Stream, destination: CopyEnd, source: CopyEnd) -> None:
        """Report a copy between host and device memory whose CUDA call has returned.

        Pinned and managed memory is used in the stream's order. Pageable memory is read before the call returns; if it
        is written, everything in the stream is complete before the call returns ("API synchronization behavior" in
        CUDA's manual).

        name: the name of the call. driver: the device's driver library, which knows the pinned memory. destination,
        source: the memory at both ends.
        """
        handle, nbytes = self._observer.handle, _nbytes(source)
        host = [end for end in (source, destination) if not isinstance(end, DeviceArray)]
        if len(host) == 2:
            for end, writes in zip(host, (False, True), strict=True):
                handle(ev.HostUsed(array_of(end), extent(end, name)[0], nbytes, writes))
            return
        is_pinned = all(is_in_stream_order(driver, end, name) for end in host)
        to_host = not isinstance(destination, DeviceArray)
        if to_host and not is_pinned:
            self.synchronized([stream])
        elif not is_pinned:
            handle(ev.HostUsed(array_of(host[0]), extent(host[0], name)[0], nbytes, False))
        device = self._device(source if to_host else destination)
        with self.call(name, device, stream if is_pinned or not to_host else None) as number:
            self.copies(number, destination, source, is_pinned or to_host)

    def copies(self, number: int, destination: CopyEnd, source: CopyEnd, shows_host: bool = True) -> None:
        """Report a copy that is queued in its stream.

        number: the number that `call` has given its call. destination, source: the memory at both ends. shows_host:
        whether the copy accesses host memory directly, without staging.
        """
        nbytes = _nbytes(source)
        if isinstance(source, DeviceArray) and isinstance(destination, DeviceArray):
            into, out_of = self._device(destination), self._device(source)
            told = ev.DataCopied(number, into, "d2d", source.address, destination.address, nbytes, None, out_of)
        else:
            op = "d2h" if isinstance(source, DeviceArray) else "h2d"
            there, here = (source, destination) if op == "d2h" else (destination, source)
            assert isinstance(there, DeviceArray) and not isinstance(here, DeviceArray)
            begin, array = (extent(here, "a copy")[0], array_of(here)) if shows_host else (0, None)
            told = ev.DataCopied(number, self._device(there), op, begin, there.address, nbytes, array)
        self._observer.handle(told)

    def _device(self, array: CopyEnd) -> int:
        assert isinstance(array, DeviceArray)
        number = device_of(self._program.machine, array.address)
        assert number is not None, "a copy elsewhere is refused"
        return number

    # kernels

    def launched(self, number: int, device: int, launch: Launch, arguments: Sequence[Any]) -> None:
        """Report a kernel launch with these arguments, and which memory the kernel uses, as far as that is known.

        number: the number that `call` has given its call.
        """
        if (watch_kernel := self._observer.watch_kernel) is None:
            return
        pointers = [_pointer(device, argument) for argument in arguments]
        on_host = {argument: ON_HOST for argument in arguments if isinstance(argument, HostArray)}
        region = OffloadedRegion(launch, (), pointers)

        def handle(event: ev.KernelSubmitted) -> None:
            uses = event.uses and tuple(map(self._use_at_its_device, event.uses))
            self._observer.handle(attrs.evolve(event, uses=uses))

        watch = watch_kernel(self._program.devices[device], handle, region, on_host, (), number)
        watch.submitted(None)  # reports all uses now, as its run shows none

    def _use_at_its_device(self, use: ev.MemoryUse) -> ev.MemoryUse:
        """Return a kernel's use with the memory in which it lies: a kernel may use a peer's memory in place."""
        number = device_of(self._program.machine, use.begin)
        return use if number is None or number == use.memory else attrs.evolve(use, memory=number)

    def written(self, number: int, device: int, array: DeviceArray) -> None:
        """Report a memset of a device array as a write of all its bytes. number: the number given by `call`."""
        use = ev.MemoryUse(device, array.address, array.nbytes, True, True, DEVICE_MEMORY)
        self._observer.handle(ev.KernelSubmitted(number, device, "memset", (use,)))


def _nbytes(end: CopyEnd) -> int:
    return end.nbytes if isinstance(end, DeviceArray) else extent(end, "a copy")[1]


def _pointer(device: int, argument: Any) -> Any:
    if isinstance(argument, DeviceArray):
        return DevicePointer(argument.address, argument.nbytes, device, dtype=argument.dtype, shape=argument.shape)
    return argument
