"""The calls of CUDA's driver library that launch work: kernels, a memset's own kernel, and graphs.

The calls for graphs are capture, construction node by node, instantiation and launch. A graph launch takes the context
lock once. It puts the packets of all nodes into the stream and, for each further captured stream, into a stream of the
executable graph. The edges between these streams become waits in the hardware queues, so that the launching thread has
no part in the execution. A graph saves time twice: the host pays for each node once, at the instantiation, and the
device, which has a graph's launches ready, begins a kernel sooner after its predecessor (``graph.gap``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Annotated, Any

import attrs
import msgspec

from offloadrt.driver.calls import INVALID, NOTHING, DriverCall, DriverError, KernelAccesses
from offloadrt.driver.cuda.context import (
    UNJOINED,
    UNMATCHED,
    UNSUPPORTED,
    WRONG_THREAD,
    BuiltGraph,
    Capture,
    CapturedGraph,
    CaptureMode,
    Context,
    GraphNode,
    HostNode,
    NodeWork,
)
from offloadrt.driver.cuda.copies import Copies, HostRange
from offloadrt.driver.cuda.streams import Streams
from offloadrt.kernels import Kernel, Launch
from offloadrt.kernels.kernel import run_body
from offloadrt.machine import DeviceArray, LaunchOutOfResources, Stream
from offloadrt.machine.messages import CopyPacket, KernelPacket, Move, Packet, WaitPacket
from offloadrt.sim import Signal
from offloadrt.trace import events


@attrs.frozen
class Computed:
    """Given in place of a kernel's arguments: ``run`` computes the result at the kernel's end; None: nothing does."""

    run: Move | None


DeviceArguments = Sequence[Any] | Callable[[], Sequence[Any]] | Computed
"""Arguments of a kernel's body (a DeviceArray becomes a view), or a function that makes them when the kernel ends."""

MEMSET = "cuMemsetD8"
"""The name of the driver's memset kernel."""
_MEMSET_THREADS, _MEMSET_BYTES_PER_THREAD = 512, 16
"""Shape of the memset kernel. We chose it; it matters only for ranges too small to fill the device."""


class Kernels:
    """Launches kernels and memsets in one context. ``device_args``: a kernel's arrays, pointers and numbers."""

    def __init__(self, context: Context, copies: Copies) -> None:
        self._context = context
        self._copies = copies
        self._device = context.device
        self._machine = context.machine

    async def launch(
        self,
        launch: Launch,
        device_args: DeviceArguments,
        stream: Stream,
        cause: int | None = None,
        touching: KernelAccesses = NOTHING,
        by_value: int = 0,
    ) -> None:
        """Launch a kernel (cuLaunchKernel) in a stream; ``touching`` has the kernel's accesses to managed memory.

        The kernel's Python body runs when the kernel ends in virtual time, unless it has no body or an argument is a
        phantom (without data). ``cause``: the directive's number. ``by_value``: bytes of arguments larger than words,
        which the calling thread writes into the command, at the profile's ``arguments.rate``. Raises DriverError when
        no team (thread block) of the launch fits on an SM, and for too many argument bytes.
        """
        with self._context.call("cuLaunchKernel", stream, cause) as call:
            packet = self.launching(call.api, launch, device_args, stream, call.cause, touching)
            await self._submit(packet, self._arguments(call, by_value) if by_value else 0.0)
            if self._context.costs.launch_blocking and stream not in self._context.captures.streams:
                await self._context.wait(stream, packet.done)

    def _arguments(self, call: DriverCall, nbytes: int) -> float:
        """Return the seconds that a thread needs to write `nbytes` bytes of arguments."""
        limit = self._machine.spec.count("arguments.limit")
        if not 0 <= nbytes <= limit:
            raise DriverError(call.api, INVALID, f"{nbytes} bytes of arguments; a launch takes {limit} at most")
        return nbytes / self._machine.spec.value("arguments.rate")

    def launching(
        self,
        api: str,
        launch: Launch,
        device_args: DeviceArguments,
        stream: Stream,
        cause: int,
        touching: KernelAccesses = NOTHING,
    ) -> KernelPacket:
        """Return the packet of a kernel launch without submitting it; the caller puts it into a stream or a graph.

        ``api`` names the call in errors, ``cause`` is the number of the directive that launches, and ``touching`` has
        the kernel's accesses to managed memory. Raises DriverError as `launch` does.
        """
        try:
            self._device.compute.spec.limits.resident_teams(launch)
        except LaunchOutOfResources as error:
            raise DriverError(api, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", str(error)) from None
        return self._packet(launch, self._body(launch.kernel, device_args), stream, cause, touching)

    async def memset(self, dst: int, value: int, nbytes: int, stream: Stream) -> None:
        """Write ``nbytes`` bytes of ``value`` at ``dst`` (cuMemsetD8Async). Raises DriverError outside of a block."""
        with self._context.call("cuMemsetD8Async", stream) as call:
            call.takes(bytes=nbytes, address=dst)
            await self._submit(self.filling(call.api, dst, value, nbytes, stream, call.cause))

    def filling(self, api: str, dst: int, value: int, nbytes: int, stream: Stream, cause: int) -> KernelPacket:
        """Return a `memset`'s packet, not submitted. api: the call's name in errors; cause: the directive's number."""
        target = self._copies.device_bytes(api, dst, nbytes)
        run = None if target is None else lambda: target(0, nbytes).fill(value)
        writing = Kernel(MEMSET, bytes_per_iteration=1.0, threads_per_team=_MEMSET_THREADS)
        teams = max(1, -(-nbytes // (_MEMSET_THREADS * _MEMSET_BYTES_PER_THREAD)))
        return self._packet(writing.launch(teams, iterations=nbytes), run, stream, cause, NOTHING)

    def _body(self, kernel: Kernel, device_args: DeviceArguments) -> Move | None:
        """Return a function that computes the kernel's result at its end; None when there is nothing to compute."""
        if isinstance(device_args, Computed):
            return device_args.run
        memory, body = self._device.memory, kernel.body
        if body is None:
            return None
        if callable(device_args):
            return lambda: run_body(body, device_args())
        arrays = [argument for argument in device_args if isinstance(argument, DeviceArray)]
        if any(memory.is_phantom(array.address) for array in arrays):
            return None
        return lambda: run_body(
            body,
            [memory.array(argument) if isinstance(argument, DeviceArray) else argument for argument in device_args],
        )

    def _packet(
        self, launch: Launch, run: Move | None, stream: Stream, cause: int, touching: KernelAccesses
    ) -> KernelPacket:
        number = self._machine.next_number()
        done = Signal(self._context.sim, f"kernel {number} ({launch.kernel.name})")
        return KernelPacket(
            number, stream, cause, launch, run, done,
            accesses=touching.accesses, trace=touching.trace, data=touching.data,
        )  # fmt: skip

    async def _submit(self, packet: KernelPacket, further: float = 0.0) -> None:
        """Put the packet of a kernel into its stream."""
        stream = packet.stream
        await self._context.submit(packet, self._context.costs.launch + further)
        if (trace := self._machine.trace) is not None and stream not in self._context.captures.streams:
            queue, name = stream.queue.number, packet.launch.kernel.name
            trace(events.KernelSubmit, self._device.index, queue, packet.cause, packet.number, name)


HANDLE, ILLEGAL_STATE = "CUDA_ERROR_INVALID_HANDLE", "CUDA_ERROR_ILLEGAL_STATE"
BEGIN, END, LAUNCH = "cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphLaunch"


@attrs.frozen
class GraphCosts:
    """Seconds of host time that the driver's calls for graphs cost."""

    instantiate: Annotated[float, "graph.instantiate"]
    instantiate_node: Annotated[float, "graph.instantiate_node"]
    """Additional time to instantiate a graph for each of its nodes."""
    add_node: Annotated[float, "graph.add_node"]
    """Time to add one node to a graph under construction."""
    launch: Annotated[float, "graph.launch"]
    """Time of a graph launch under the context lock."""
    launch_node: Annotated[float, "graph.node"]
    """Additional time of a launch for each node of the graph, under the context lock."""
    gap: Annotated[float, "graph.gap"]
    """On the device, the time from the end of a kernel's predecessors in the graph to its first team."""


@attrs.define(eq=False)
class GraphExec:
    """An executable graph (cudaGraphExec_t)."""

    graph: CapturedGraph
    lanes: list[Stream]
    """The graph's own streams, one for each lane (nodes that share a stream) but lane 0, which uses the launch's."""
    last: Signal | None = None
    """Completion of the graph's last launch; the next launch comes after it."""
    destroyed: bool = False


class Graphs:
    """The calls for graphs in one context. Their costs are read from the profile at the first use."""

    def __init__(self, context: Context, streams: Streams, kernels: Kernels, copies: Copies) -> None:
        self._context = context
        self._streams = streams
        self._kernels = kernels
        self._copies = copies
        self._sim = context.sim
        self._graphs_made = 0

    @cached_property
    def _costs(self) -> GraphCosts:
        return self._context.machine.spec.read(GraphCosts)

    async def begin_capture(self, stream: Stream, mode: CaptureMode) -> None:
        """Begin to capture a stream (cuStreamBeginCapture); ``mode`` says which other calls it forbids meanwhile.

        Raises DriverError for the legacy default stream, and for a stream that captures already.
        """
        with self._context.call(BEGIN, stream) as call:
            if stream is self._context.order.legacy:
                raise DriverError(call.api, UNSUPPORTED, "the legacy default stream cannot capture")
            if stream in self._context.captures.streams:
                raise DriverError(call.api, ILLEGAL_STATE, f"stream {stream.index} is capturing already")
            await self._context.locked_work(self._context.capture_cost)
            self._context.captures.begin(stream, mode, self._sim.current.name)

    async def end_capture(self, stream: Stream) -> CapturedGraph:
        """End the capture that began in a stream, and return its graph (cuStreamEndCapture).

        Raises DriverError when no capture began in the stream, when another thread began it and its mode is not
        relaxed, when the capture is invalid, and when another captured stream has commands for which this stream does
        not wait. In the last two cases the capture has ended nevertheless.
        """
        with self._context.call(END, stream) as call:
            capture = self._context.captures.streams.get(stream)
            if capture is None or capture.origin is not stream:
                raise DriverError(call.api, UNMATCHED, f"no capture began in stream {stream.index}")
            if capture.mode != "relaxed" and capture.thread != self._sim.current.name:
                raise DriverError(call.api, WRONG_THREAD, f"{capture.thread} began the capture")
            await self._context.locked_work(self._context.capture_cost)
            self._context.captures.end(capture)
            return self._graph(call, capture)

    def is_capturing(self, stream: Stream) -> bool:
        """Tell whether a stream is capturing (cuStreamIsCapturing)."""
        return stream in self._context.captures.streams

    def capture_of(self, stream: Stream) -> Capture | None:
        """Return the capture that a stream belongs to; None when it is not capturing."""
        return self._context.captures.streams.get(stream)

    # construction; graphs have no lock in CUDA, so that these calls take none

    async def create(self) -> BuiltGraph:
        """Make a graph without nodes (cuGraphCreate)."""
        with self._context.call("cuGraphCreate"):
            await self._context.work(self._costs.add_node)
            self._graphs_made += 1
            return BuiltGraph(self._graphs_made - 1, self._context.device.index)

    async def add_kernel_node(
        self,
        graph: BuiltGraph,
        after: Sequence[int],
        launch: Launch,
        device_args: DeviceArguments,
        touching: KernelAccesses = NOTHING,
    ) -> int:
        """Add a kernel (cuGraphAddKernelNode) after nodes ``after``; return its index. Raises what `launch` raises."""

        def work(api: str, cause: int) -> NodeWork:
            return self._kernels.launching(api, launch, device_args, self._template, cause, touching)

        return await self._add("cuGraphAddKernelNode", graph, after, work)

    async def add_memset_node(self, graph: BuiltGraph, after: Sequence[int], dst: int, value: int, nbytes: int) -> int:
        """Add a memset (cuGraphAddMemsetNode) after nodes ``after``; return its index. Raises what `memset` raises."""

        def work(api: str, cause: int) -> NodeWork:
            return self._kernels.filling(api, dst, value, nbytes, self._template, cause)

        return await self._add("cuGraphAddMemsetNode", graph, after, work)

    async def add_memcpy_node(
        self,
        graph: BuiltGraph,
        after: Sequence[int],
        destination: HostRange | int,
        source: HostRange | int,
        nbytes: int,
    ) -> int:
        """Add a copy (cuGraphAddMemcpyNode) between device and pinned memory after nodes ``after``; return its index.

        Raises DriverError for pageable memory, and when a range of the device lies in no block.
        """

        def work(api: str, cause: int) -> NodeWork:
            return self._copies.of_node(api, destination, source, nbytes, self._template, cause)

        return await self._add("cuGraphAddMemcpyNode", graph, after, work)

    async def add_host_node(
        self, graph: BuiltGraph, after: Sequence[int], function: Callable[[], object] | None, seconds: float
    ) -> int:
        """Add a host function of ``seconds`` on a core after nodes ``after`` (cuGraphAddHostNode); return its index."""
        return await self._add("cuGraphAddHostNode", graph, after, lambda *_: HostNode(function, seconds))

    @property
    def _template(self) -> Stream:
        """Return the placeholder stream of template packets, which a launch replaces."""
        return self._context.order.legacy or self._context.streams[0]

    async def _add(
        self, api: str, graph: BuiltGraph, after: Sequence[int], work: Callable[[str, int], NodeWork]
    ) -> int:
        with self._context.call(api) as call:
            if graph.device != self._context.device.index:
                raise DriverError(call.api, HANDLE, f"graph {graph.number} belongs to device {graph.device}")
            for place in after:
                if not isinstance(place, int) or not 0 <= place < len(graph.nodes):
                    raise DriverError(call.api, INVALID, f"{place!r} is no node of graph {graph.number}")
            await self._context.work(self._costs.add_node)
            return graph.add(work(call.api, call.cause), after)

    async def instantiate(self, graph: CapturedGraph | BuiltGraph) -> GraphExec:
        """Make an executable graph of a graph as it is now (cuGraphInstantiate). DriverError for another device's."""
        with self._context.call("cuGraphInstantiate") as call:
            if graph.device != self._context.device.index:
                raise DriverError(call.api, HANDLE, f"graph {graph.number} belongs to device {graph.device}")
            if isinstance(graph, BuiltGraph):
                graph = graph.finished()
            size, costs = len(graph.nodes), self._costs
            async with self._context.locked(costs.instantiate + costs.instantiate_node * size):
                return GraphExec(graph, [self._context.device.open_stream(one) for one in graph.priorities[1:]])

    async def destroy(self, executable: GraphExec) -> None:
        """Destroy an executable graph (cuGraphExecDestroy); launched work still completes."""
        with self._context.call("cuGraphExecDestroy") as call:
            self._check(call, executable)
            executable.destroyed = True
            for lane in executable.lanes:
                self._context.device.queues.close_stream(lane)
            await self._context.locked_work(self._context.costs.stream_destroy)

    async def launch(self, executable: GraphExec, stream: Stream) -> None:
        """Put all nodes of a graph into a stream (cuGraphLaunch), behind the graph's previous launch, without waiting.

        A graph counts as one command of the stream, whatever its number of nodes. Raises DriverError for a destroyed
        graph, for a graph of another device, and when the stream is capturing.
        """
        with self._context.call(LAUNCH, stream) as call:
            self._check(call, executable)
            if self.is_capturing(stream):
                raise DriverError(call.api, UNSUPPORTED, "graphs within graphs are not emulated")
            size, costs = len(executable.graph.nodes), self._costs
            async with self._context.locked(costs.launch + costs.launch_node * size):
                await self._context.make_room(stream)
                for earlier in self._context.order.before(stream):
                    self._wait(stream, earlier)
                self._wait(stream, executable.last)
                self._put(executable, stream, call.cause)
                if stream.last is not None:
                    executable.last = stream.last
                    stream.pending.append(stream.last)

    def _graph(self, call: DriverCall, capture: Capture) -> CapturedGraph:
        """Return the graph of an ended capture."""
        if capture.broken is not None:
            raise DriverError(call.api, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", capture.broken)
        if capture.unjoined():
            why = f"stream {capture.origin.index} does not wait for everything that was captured from other streams"
            raise DriverError(call.api, UNJOINED, why)
        self._graphs_made += 1
        priorities = tuple(stream.priority for stream in capture.tails)
        tail = capture.tails[capture.origin]
        return CapturedGraph(self._graphs_made - 1, self._context.device.index, tuple(capture.nodes), tail, priorities)

    def _check(self, call: DriverCall, executable: GraphExec) -> None:
        number, device = executable.graph.number, executable.graph.device
        if executable.destroyed:
            raise DriverError(call.api, HANDLE, f"the executable graph of graph {number} is destroyed")
        if device != self._context.device.index:
            raise DriverError(call.api, HANDLE, f"graph {number} belongs to device {device}")

    def _put(self, executable: GraphExec, stream: Stream, cause: int) -> None:
        """Submit the packets of all nodes, with a wait for each edge between two lanes."""
        graph, lanes = executable.graph, [stream, *executable.lanes]
        fork = stream.last
        ends: list[Signal] = []
        for node in graph.nodes:
            lane = lanes[node.lane]
            if not node.after:
                self._wait(lane, None if lane is stream else fork)
            for place in node.after:
                if graph.nodes[place].lane != node.lane:
                    self._wait(lane, ends[place])
            ends.append(self._submit(node, lane, cause))
        for place in graph.tail:
            if graph.nodes[place].lane:
                self._wait(stream, ends[place])

    def _wait(self, stream: Stream, event: Signal | None) -> None:
        """Hold up a stream until a completion, unless it has come or is the stream's own."""
        if event is not None and not event.is_set and event is not stream.last:
            stream.submit(WaitPacket(stream, event, Signal(self._sim, f"edge of a graph in stream {stream.index}")))

    def _submit(self, node: GraphNode, stream: Stream, cause: int) -> Signal:
        """Put a node into a stream, and return its completion."""
        work, machine = node.work, self._context.machine
        if isinstance(work, HostNode):
            turn, end = self._streams.host_function(stream, work.function, work.seconds)
            stream.submit(turn)
            stream.submit(end)
            return end.done
        packet: Packet
        if isinstance(work, KernelPacket):
            number, name = machine.next_number(), work.launch.kernel.name
            done = Signal(self._sim, f"kernel {number} ({name})")
            packet = msgspec.structs.replace(
                work, number=number, stream=stream, cause=cause, done=done, gap=self._costs.gap
            )
            if (trace := machine.trace) is not None:
                trace(events.KernelSubmit, self._context.device.index, stream.queue.number, cause, number, name)
        elif isinstance(work, CopyPacket):
            number = machine.next_number()
            done = Signal(self._sim, f"copy {number} ({work.direction})")
            packet = msgspec.structs.replace(work, number=number, stream=stream, cause=cause, done=done)
        else:
            done = Signal(self._sim, work.done.name)
            packet = msgspec.structs.replace(work, stream=stream, cause=cause, done=done)
        stream.submit(packet)
        return done
