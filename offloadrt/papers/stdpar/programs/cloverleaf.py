"""CloverLeaf: Euler's equations on a staggered grid, Lagrangian step and advection, each kernel a function of its own.

Each kernel's function stands in a translation unit of its own and calls no algorithm but through a helper, so that
windows of synchronization elision lie within it: only the advection has several kernels in a window. Most algorithms
are updates of halos, face by face and field by field; what there is to update is loaded from the heap before each.
Cells are square, and the two states of the input meet at a corner of the grid.
"""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.extensions import stdpar as std
from offloadrt.kernels import kernel
from offloadrt.papers import cloverleaf
from offloadrt.papers import cloverleaf as lag
from offloadrt.papers.stdpar.programs.frame import ApplicationOutcome, Timed, host_array, loads
from offloadrt.study.running.phases import StepNumbers

Doubles = NDArray[np.float64]


@kernel
def set_cells(width: Doubles, d: float) -> None:
    for i in range(len(width)):
        width[i] = d


@kernel(collapse=2)
def set_areas(volume: Doubles, x_area: Doubles, y_area: Doubles, dx: Doubles, dy: Doubles, ny: int, nx: int) -> None:
    for j, i in product(range(ny + 4), range(nx + 4)):
        volume[j, i] = dx[i] * dy[j]
        x_area[j, i] = dy[j]
        y_area[j, i] = dx[i]


@kernel(collapse=2)
def set_state(density: Doubles, energy: Doubles, top: int, right: int, mass: float, e: float) -> None:
    for j, i in product(range(top), range(right)):
        density[j, i] = mass
        energy[j, i] = e


@kernel(collapse=2)
def kinetic_energy(
    volume: Doubles, density0: Doubles, xvel0: Doubles, yvel0: Doubles, ny: int, nx: int, total: Doubles
) -> None:
    s = total[0]
    for j, i in product(range(2, ny + 2), range(2, nx + 2)):
        square = 0.0
        for node in range(2):
            square += xvel0[j + node, i] ** 2 + yvel0[j + node, i] ** 2
            square += xvel0[j + node, i + 1] ** 2 + yvel0[j + node, i + 1] ** 2
        s += volume[j, i] * density0[j, i] * 0.5 * 0.25 * square
    total[0] = s


FIRST_TIME_STEP: Final = 0.04
LONGEST_TIME_STEP: Final = 0.04
RISE: Final = 1.5
WIDTH: Final = 10.0
AMBIENT: Final = (0.2, 1.0)
DENSE: Final = (1.0, 2.5)
"""Density and energy of the dense state (clover_bm16.in of the public source, like the next entry)."""
EDGE: Final = (0.2, 0.5)
"""How far the dense state reaches, as a part of the grid in y and in x."""
WORK: Final = ("work1", "work2", "work3", "work4", "work5", "work6", "work7")
STAGGERED: Final = {**cloverleaf.STAGGERED, **dict.fromkeys(WORK, (cloverleaf.NODE, cloverleaf.NODE))}
"""For each array, how it lies along y and along x."""
REFLECT: Final = {
    side.__name__: kernel(side) for side in (cloverleaf.bottom, cloverleaf.top, cloverleaf.left, cloverleaf.right)
}
p: Final = std.par_unseq


@attrs.frozen
class CloverLeaf:
    """`steps` time steps of `cells` by `cells` cells, or by `rows`. The first sweep's axis alternates."""

    cells: int = 3840
    steps: int = 87
    rows: int | None = None
    edge: tuple[float, float] = EDGE
    phantom: bool = True
    step_numbers: StepNumbers = range

    async def run(self, t: std.HostThread, timed: Timed) -> ApplicationOutcome:
        """Set the grid up, and step. The kinetic energy is what the benchmark checks."""
        chunk = await _Chunk.allocate(t, self)
        await chunk.initialise(t)
        await t.wait()
        async with timed():
            for step in self.step_numbers(self.steps):
                await chunk.step(t, along_x_first=step % 2 == 0)
            energy = await chunk.field_summary(t)
        density, internal = [await t.read(chunk.fields[name]) for name in ("density0", "energy0")]
        await chunk.release(t)
        return ApplicationOutcome(
            {}, {"kinetic_energy": energy, "density": density, "energy": internal, "time": chunk.time}
        )


@attrs.define
class _Chunk:
    """The grid: `ny` by `nx` cells."""

    program: CloverLeaf
    ny: int
    nx: int
    fields: dict[str, std.UsmArray]
    dx: std.UsmArray
    dy: std.UsmArray
    neighbours: std.UsmArray
    dt: float = FIRST_TIME_STEP
    time: float = 0.0

    @classmethod
    async def allocate(cls, t: std.HostThread, program: CloverLeaf) -> _Chunk:
        nx = program.cells
        ny = nx if program.rows is None else program.rows
        neighbours = await host_array(t, "neighbours", 4)
        fields = {}
        for name, (along_y, along_x) in STAGGERED.items():
            shape = (ny + 4 + along_y.more, nx + 4 + along_x.more)
            fields[name] = await t.new_array(name, shape, phantom=program.phantom)
        dx, dy = [
            await t.new_array(name, count + 5, phantom=program.phantom) for name, count in (("dx", nx), ("dy", ny))
        ]
        for field in fields.values():
            async with t.function():
                await t.fill(p, field, 0.0)
        return cls(program, ny, nx, fields, dx, dy, neighbours)

    async def release(self, t: std.HostThread) -> None:
        for array in (*self.fields.values(), self.dx, self.dy, self.neighbours):
            await t.delete(array)

    async def initialise(self, t: std.HostThread) -> None:
        ny, nx, f = self.ny, self.nx, self.fields
        width = WIDTH / nx
        async with t.function():
            await t.for_each(p, set_cells, self.dx, width)
            await t.for_each(p, set_cells, self.dy, width)
            await t.for_each(p, set_areas, f["volume"], f["xarea"], f["yarea"], self.dx, self.dy, ny, nx)
        top, right = (cloverleaf.RINGS + round(edge * n) for edge, n in zip(self.program.edge, (ny, nx), strict=True))
        async with t.function():
            await t.for_each(p, set_state, f["density0"], f["energy0"], ny + 4, nx + 4, *AMBIENT)
            await t.for_each(p, set_state, f["density0"], f["energy0"], top, right, *DENSE)
        await self.run(t, [lag.equation_of_state(0)])
        names = ("density0", "energy0", "pressure", "viscosity", "density1", "energy1")
        await self.halos(t, 2, *names, "xvel0", "yvel0", "xvel1", "yvel1")
        await self.field_summary(t)

    # a step

    async def step(self, t: std.HostThread, along_x_first: bool) -> None:
        """Take a step. The least time step over all cells comes back to the host, which chooses."""
        await self.run(t, lag.BEFORE_TIME_STEP)
        kernel, names = lag.TIME_STEP
        async with t.function():
            least: float | None = await t.transform_reduce(
                p, kernel, *map(self.argument, names), self.nx, self.ny, init=lag.BIG
            )
        if least is not None:
            self.dt = min(least, self.dt * RISE, LONGEST_TIME_STEP)
        await self.run(t, lag.step("xy" if along_x_first else "yx"))
        self.time += self.dt

    async def field_summary(self, t: std.HostThread) -> float | None:
        """Return the one of the benchmark's five sums that it checks."""
        f = self.fields
        async with t.function():
            total: float | None = await t.transform_reduce(
                p, kinetic_energy, f["volume"], f["density0"], f["xvel0"], f["yvel0"], self.ny, self.nx
            )
        return total

    # below

    async def run(self, t: std.HostThread, steps: lag.Steps) -> None:
        """Run some steps, each in a function of its own."""
        for step in steps:
            if isinstance(step, lag.Halos):
                await self.halos(t, step.depth, *step.fields)
                continue
            async with t.function():
                for kernel, names in step.calls:
                    await t.for_each(p, kernel, *map(self.argument, names), self.nx, self.ny)

    def argument(self, name: str) -> Any:
        """Return an argument of a kernel by name: a field, the time step, or the width of cells."""
        if name == "dt":
            return self.dt
        return self.dx if name.endswith("dx") else self.dy if name.endswith("dy") else self.fields[name]

    async def halos(self, t: std.HostThread, depth: int, *names: str) -> None:
        """Reflect these fields at all edges of the grid, each by an algorithm of its own."""
        async with t.function():
            for name in names:
                for side, arguments in cloverleaf.reflections(name, self.nx, self.ny, depth):
                    await loads(t, self.neighbours)
                    await t.for_each(p, REFLECT[side.__name__], self.fields[name], *arguments)
