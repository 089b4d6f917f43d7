"""What a launch of a CUDA program hands to the driver, whether a stream gets it or a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from offloadrt.driver import Touching
from offloadrt.kernels import Kernel, Launch, Tile
from offloadrt.models.cuda.calling_thread import CallingThread, PrimaryContext
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.touching import accesses_of

Shape = int | tuple[int, int]


@attrs.frozen(eq=False)
class PreparedLaunch:
    """A launch whose arguments have been checked."""

    launch: Launch
    values: Sequence[Any]
    """What its body gets."""
    touching: Touching
    uses: Sequence[tuple[str, Any]]
    """Its arguments, and what each is to it."""


class LaunchRoutines(CallingThread):
    """The part of a thread that launches and graphs need."""

    def _prepared(
        self,
        call: str,
        context: PrimaryContext,
        kernel: Kernel,
        arguments: Sequence[Any],
        grid: Shape,
        block: Shape,
        iterations: int | None,
        library: bool,
    ) -> PreparedLaunch:
        """Check a launch's arguments, and return it. Raises DriverError for memory that the kernel cannot reach."""
        (columns, rows), (width, height) = (one if isinstance(one, tuple) else (one, 1) for one in (grid, block))
        launch = kernel.launch(columns * rows, width * height, iterations, tuple(arguments))
        if library:
            launch = attrs.evolve(launch, kernel=attrs.evolve(launch.kernel, loads_in_flight=None))
        tile = Tile(width, height, columns) if isinstance(block, tuple) else None
        launch = attrs.evolve(launch, strided=True, tile=tile)
        if self.program.phantom:
            launch = attrs.evolve(launch, kernel=attrs.evolve(launch.kernel, body=None))
        uses = [
            (f"argument {number} of kernel {launch.kernel.name!r}", argument)
            for number, argument in enumerate(arguments, 1)
        ]
        for what, argument in uses:
            self._state.allocations.check_use(context.driver, context.driver.call(call), what, argument)
        in_place = [argument for argument in arguments if isinstance(argument, HostArray)]
        for array in in_place:
            self._state.mapped.use(context.driver, array)
        touching = accesses_of(0, launch, (), tuple(arguments), in_place, [True] * len(in_place))
        values = [argument.values if isinstance(argument, HostArray) else argument for argument in arguments]
        return PreparedLaunch(launch, values, touching, uses)
