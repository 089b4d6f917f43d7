"""The calls of CUDA's runtime library for graphs: captured from streams or built node by node, and launched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from offloadrt.driver import BuiltGraph, CapturedGraph, CaptureMode, GraphExec
from offloadrt.driver.errors import INVALID
from offloadrt.kernels import Kernel
from offloadrt.machine import DeviceArray, Stream
from offloadrt.models.cuda.calling_thread import DefaultStream, check_host_function
from offloadrt.models.cuda.launch_routines import LaunchRoutines, Shape
from offloadrt.models.host.section import Section, array_of, extent
from offloadrt.runtime.host_array import HostArray, HostSpan


class GraphRoutines(LaunchRoutines):
    """Stream capture, and graphs of kernels, copies, memsets and functions of the host. On AMD's GPUs: hipGraph.

    A graph that a program builds itself has nodes by number, in order; ``after`` names those that a node waits for.

    Events that are recorded in a capture become edges. What a capture forbids is refused with CUDA's error and
    invalidates it, which `stream_end_capture` then says, too. Graphs within graphs, memory nodes, pageable memory and
    streams of several devices in one graph are not emulated, and are refused.
    """

    async def stream_begin_capture(self, stream: Stream | DefaultStream, *, mode: CaptureMode = "global") -> None:
        """Have a stream capture what is put into it, instead of carrying it out (cudaStreamBeginCapture).

        mode: global forbids calls for memory to all threads meanwhile, thread_local to this one, relaxed to none.
        Raises DriverError for the legacy default stream, and for one that is capturing.
        """
        driver, chosen = await self._at_stream(stream, "cuStreamBeginCapture")
        await driver.graphs.stream_begin_capture(chosen, mode)

    async def stream_end_capture(self, stream: Stream | DefaultStream) -> CapturedGraph:
        """End the capture that began in a stream, and return its graph (cudaStreamEndCapture).

        Raises DriverError for a capture that is invalid, that another thread began, or whose origin does not wait for
        all streams that joined.
        """
        driver, chosen = await self._at_stream(stream, "cuStreamEndCapture")
        return await driver.graphs.stream_end_capture(chosen)

    async def stream_is_capturing(self, stream: Stream | DefaultStream) -> bool:
        """Tell whether a stream is capturing (cudaStreamIsCapturing)."""
        driver, chosen = await self._at_stream(stream, "cuStreamIsCapturing")
        return driver.graphs.stream_is_capturing(chosen)

    async def graph_create(self) -> BuiltGraph:
        """Make a graph without nodes on the current device (cudaGraphCreate)."""
        return await (await self._context()).driver.graphs.graph_create()

    async def graph_add_kernel_node(
        self,
        graph: BuiltGraph,
        kernel: Kernel,
        *arguments: Any,
        grid: Shape,
        block: Shape,
        iterations: int | None = None,
        after: Sequence[int] = (),
        library: bool = False,
    ) -> int:
        """Add a launch to a graph (cudaGraphAddKernelNode), and return its node; the parameters are those of `launch`.

        Raises DriverError for memory that the kernel cannot reach or that is freed, and for a node that there is not.
        """
        context = await self._context_of(graph.device)
        call = "cuGraphAddKernelNode"
        prepared = self._prepared(call, context, kernel, arguments, grid, block, iterations, library)
        await context.plugin.find_kernel(prepared.launch.kernel.name)
        graph.uses.extend(prepared.uses)
        return await context.driver.graphs.graph_add_kernel_node(
            graph, after, prepared.launch, prepared.values, touching=prepared.touching
        )

    async def graph_add_memset_node(
        self, graph: BuiltGraph, destination: DeviceArray, value: int, *, after: Sequence[int] = ()
    ) -> int:
        """Add a memset of device memory to a graph (cudaGraphAddMemsetNode), and return its node."""
        driver = (await self._context_of(graph.device)).driver
        call = "cuGraphAddMemsetNode"
        self._state.allocations.check_use(driver, driver.call(call), "its destination", destination)
        graph.uses.append(("the destination of a memset", destination))
        return await driver.graphs.graph_add_memset_node(graph, after, destination.address, value, destination.nbytes)

    async def graph_add_memcpy_node(
        self,
        graph: BuiltGraph,
        destination: HostArray | Section | DeviceArray,
        source: HostArray | Section | DeviceArray,
        *,
        after: Sequence[int] = (),
    ) -> int:
        """Add a copy of as many bytes as the source has to a graph (cudaGraphAddMemcpyNode), and return its node.

        Raises DriverError for memory that is freed, pageable or another device's, and for a destination too small.
        """
        driver = (await self._context_of(graph.device)).driver
        call = "cuGraphAddMemcpyNode"
        ends: list[HostSpan | int] = []
        sizes = []
        for what, place in (("the destination of a copy", destination), ("the source of a copy", source)):
            if isinstance(place, DeviceArray):
                self._state.allocations.check_use(driver, driver.call(call), what, place)
                ends.append(place.address)
                sizes.append(place.nbytes)
            else:
                self.program.devices[graph.device].check_alive(array_of(place), call)
                address, nbytes = extent(place, call)
                ends.append(array_of(place).span(address, nbytes))
                sizes.append(nbytes)
            graph.uses.append((what, place))
        if sizes[1] > sizes[0]:
            why = f"the source has {sizes[1]} bytes, its destination {sizes[0]}"
            raise driver.refusal(driver.call(call), INVALID, why)
        if not isinstance(destination, DeviceArray) and not isinstance(source, DeviceArray):
            raise driver.refusal(driver.call(call), INVALID, "copies within the host are no nodes here")
        return await driver.graphs.graph_add_memcpy_node(graph, after, ends[0], ends[1], sizes[1])

    async def graph_add_host_node(
        self,
        graph: BuiltGraph,
        function: Callable[[], object] | None,
        *,
        seconds: float = 0.0,
        after: Sequence[int] = (),
    ) -> int:
        """Add a function of the host to a graph (cudaGraphAddHostNode), and return its node; as `launch_host_func`."""
        driver = (await self._context_of(graph.device)).driver
        check_host_function("cudaGraphAddHostNode", function, seconds)
        return await driver.graphs.graph_add_host_node(graph, after, function, seconds)

    async def graph_instantiate(self, graph: CapturedGraph | BuiltGraph) -> GraphExec:
        """Make an executable graph (cudaGraphInstantiate), of which there may be several.

        Of a graph that a program builds it has the nodes of now.
        """
        return await (await self._context_of(graph.device)).driver.graphs.graph_instantiate(graph)

    async def graph_launch(self, executable: GraphExec, *, stream: Stream | DefaultStream | None = None) -> None:
        """Put everything in a graph into a stream (cudaGraphLaunch), and go on.

        It comes after what is in the stream, and after the executable graph's launch before; the host has no part in
        what follows. Raises DriverError for one that is destroyed or of another device, for a stream that captures, and
        for memory in it that has been freed: the graph keeps addresses, not memory.
        """
        driver, chosen = await self._at_stream(stream, "cuGraphLaunch")
        for what, place in executable.graph.uses:
            if isinstance(place, DeviceArray) or (isinstance(place, HostArray) and place.managed):
                call = driver.call("cuGraphLaunch")
                self._state.allocations.check_use(driver, call, what, place, anywhere=True)
            elif isinstance(place, HostArray | Section):
                self.program.devices[executable.graph.device].check_alive(array_of(place), "cuGraphLaunch")
        await driver.graphs.graph_launch(executable, chosen)

    async def graph_exec_destroy(self, executable: GraphExec) -> None:
        """Destroy an executable graph (cudaGraphExecDestroy); what was launched still completes."""
        await (await self._context_of(executable.graph.device)).driver.graphs.graph_exec_destroy(executable)
