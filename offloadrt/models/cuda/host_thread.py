"""A host thread of a CUDA program, with the calls of the CUDA runtime API, which go straight to the driver library."""

from __future__ import annotations

from typing import Any

import attrs

from offloadrt.kernels import Kernel, Tile
from offloadrt.machine import Stream
from offloadrt.models.cuda.calling_thread import DefaultStream
from offloadrt.models.cuda.graph_routines import GraphRoutines
from offloadrt.models.cuda.memory_routines import MemoryRoutines
from offloadrt.models.cuda.pool_routines import PoolRoutines
from offloadrt.models.cuda.stream_routines import StreamRoutines
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.managed_accesses import accesses_of


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

        Its arguments are managed arrays, device arrays and numbers. A loop nest has the iterations that its source
        says, which the threads share as in a grid-stride loop. A grid and a block of two dimensions are (x, y): the
        threads of a row have iterations in a row. library: the kernel stands for code of a library, which keeps its
        operands in shared memory and loads ahead, so that its source does not say how many loads are in flight.
        Raises DriverError for memory that the kernel cannot reach or that is freed, and for a stream of another device.
        """
        (columns, rows), (width, height) = (one if isinstance(one, tuple) else (one, 1) for one in (grid, block))
        launch = kernel.launch(columns * rows, width * height, iterations, arguments)
        if library:
            launch = attrs.evolve(launch, kernel=attrs.evolve(launch.kernel, loads_in_flight=None))
        tile = Tile(width, height, columns) if isinstance(block, tuple) else None
        launch = attrs.evolve(launch, strided=True, tile=tile)
        if self.program.phantom:
            launch = attrs.evolve(launch, kernel=attrs.evolve(launch.kernel, body=None))
        managed = [argument for argument in arguments if isinstance(argument, HostArray)]
        touching = accesses_of(0, launch, (), arguments, managed, [array.managed for array in managed])
        context = await self._context()
        for number, argument in enumerate(arguments, 1):
            what = f"argument {number} of kernel {launch.kernel.name!r}"
            self._state.allocations.check_use(context.driver, context.driver.call("cuLaunchKernel"), what, argument)
        chosen = await self._stream(context, stream, "cuLaunchKernel")
        await context.plugin.find_kernel(launch.kernel.name)
        await context.driver.launch_kernel(
            launch,
            [argument.values if isinstance(argument, HostArray) else argument for argument in arguments],
            chosen,
            touching=touching,
        )

    async def leave_team(self) -> None:
        """Do nothing: what the thread left in streams goes on."""
