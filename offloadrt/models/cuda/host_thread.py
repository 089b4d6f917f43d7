"""A host thread of a CUDA program, with the calls of the CUDA runtime API, which go straight to the driver library."""

from __future__ import annotations

from typing import Any

from offloadrt.kernels import Kernel
from offloadrt.machine import Stream
from offloadrt.models.cuda.calling_thread import DefaultStream
from offloadrt.models.cuda.graph_routines import GraphRoutines
from offloadrt.models.cuda.memory_routines import MemoryRoutines
from offloadrt.models.cuda.pool_routines import PoolRoutines
from offloadrt.models.cuda.stream_routines import StreamRoutines


class HostThread(MemoryRoutines, PoolRoutines, StreamRoutines, GraphRoutines):
    """Given to the body of a host thread as ``t``. Its calls have the names of CUDA's, without their prefix."""

    async def launch(
        self,
        kernel: Kernel,
        *arguments: Any,
        grid: int | tuple[int, int],
        block: int | tuple[int, int],
        iterations: int | None = None,
        stream: Stream | DefaultStream | None = None,
        library: bool = False,
    ) -> None:
        """Launch a kernel, ``kernel<<<grid, block, 0, stream>>>(arguments)``, and go on.

        Its arguments are managed arrays, arrays of pinned memory, which it uses in place, device arrays and numbers.
        A loop nest has the iterations that its source says, which the threads share as in a grid-stride loop. A grid
        and a block of two dimensions are (x, y): the threads of a row have iterations in a row. library: the kernel
        stands for code of a library, which keeps its operands in shared memory and loads ahead, so that its source
        does not say how many loads are in flight.
        Raises DriverError for memory that the kernel cannot reach or that is freed, and for a stream of another device.
        """
        context = await self._context()
        prepared = self._prepared("cuLaunchKernel", context, kernel, arguments, grid, block, iterations, library)
        chosen = await self._stream(context, stream, "cuLaunchKernel")
        await context.plugin.find_kernel(prepared.launch.kernel.name)
        if (capture := context.driver.graphs.capture_of(chosen)) is not None:
            capture.uses.extend(prepared.uses)
        await context.driver.launch_kernel(prepared.launch, prepared.values, chosen, touching=prepared.touching)

    async def leave_team(self) -> None:
        """Do nothing: what the thread left in streams goes on."""
