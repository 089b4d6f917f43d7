"""The calls of CUDA's runtime library for graphs: a stream's commands, captured once and launched again and again."""

from __future__ import annotations

from offloadrt.driver import CapturedGraph, CaptureMode, GraphExec
from offloadrt.machine import Stream
from offloadrt.models.cuda.calling_thread import CallingThread, DefaultStream


class GraphRoutines(CallingThread):
    """Stream capture, and graphs of kernels, copies, memsets and functions of the host. On AMD's GPUs: hipGraph.

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

    async def graph_instantiate(self, graph: CapturedGraph) -> GraphExec:
        """Make an executable graph (cudaGraphInstantiate), of which there may be several."""
        return await (await self._context_of(graph.device)).driver.graphs.graph_instantiate(graph)

    async def graph_launch(self, executable: GraphExec, *, stream: Stream | DefaultStream | None = None) -> None:
        """Put everything in a graph into a stream (cudaGraphLaunch), and go on.

        It comes after what is in the stream, and after the executable graph's launch before; the host has no part in
        what follows. Raises DriverError for one that is destroyed or of another device, and for a stream that captures.
        """
        driver, chosen = await self._at_stream(stream, "cuGraphLaunch")
        await driver.graphs.graph_launch(executable, chosen)

    async def graph_exec_destroy(self, executable: GraphExec) -> None:
        """Destroy an executable graph (cudaGraphExecDestroy); what was launched still completes."""
        await (await self._context_of(executable.graph.device)).driver.graphs.graph_exec_destroy(executable)
