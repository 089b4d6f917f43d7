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
from offloadrt.papers.cloverleaf import SWEEPS, AxisKernels
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
        await self.ideal_gas(t, "0")
        names = ("density0", "energy0", "pressure", "viscosity", "density1", "energy1")
        await self.halos(t, 2, *names, "xvel0", "yvel0", "xvel1", "yvel1")
        await self.field_summary(t)

    # a step

    async def step(self, t: std.HostThread, along_x_first: bool) -> None:
        await self.timestep(t)
        await self.pdv(t, predict=True)
        await self.kernel(
            t, lag.accelerate, "xarea", "yarea", "volume", "density0", "pressure", "viscosity", "xvel0", "yvel0",
            "xvel1", "yvel1", before=(self.dt,),
        )  # fmt: skip
        await self.pdv(t, predict=False)
        velocities = ("xvel0", "yvel0", "xvel1", "yvel1")
        await self.kernel(
            t, lag.flux_calc, "xarea", "yarea", *velocities, "vol_flux_x", "vol_flux_y", before=(self.dt,)
        )
        await self.halos(t, 2, "energy1", "density1", "vol_flux_x", "vol_flux_y")
        for sweep, axis in enumerate("xy" if along_x_first else "yx"):
            await self.advect_cells(t, axis, first=sweep == 0)
            await self.halos(t, 2, "density1", "energy1", "xvel1", "yvel1", "mass_flux_x", "mass_flux_y")
            for velocity in ("xvel1", "yvel1"):
                await self.advect_momentum(t, axis, sweep == 0, velocity)
        async with t.function():
            await self.inside(t, lag.reset_cells, "density1", "density0", "energy1", "energy0")
            await self.inside(t, lag.reset_nodes, "xvel1", "xvel0", "yvel1", "yvel0")
        self.time += self.dt

    async def timestep(self, t: std.HostThread) -> None:
        """Choose how long the step is; the least over all cells comes back to the host."""
        f = self.fields
        await self.ideal_gas(t, "0")
        await self.halos(t, 1, "pressure", "energy0", "density0", "xvel0", "yvel0")
        async with t.function():
            names = ("density0", "pressure", "viscosity", "xvel0", "yvel0")
            await self.inside(t, lag.viscous_pressure, *names, before=(self.dx, self.dy))
        await self.halos(t, 1, "viscosity")
        before, after = ("xarea", "yarea"), ("volume", "density0", "viscosity", "soundspeed", "xvel0", "yvel0")
        async with t.function():
            least: float | None = await t.transform_reduce(
                p, lag.calc_dt, *[f[name] for name in before], self.dx, self.dy, *[f[name] for name in after],
                self.nx, self.ny, init=lag.BIG,
            )  # fmt: skip
        if least is not None:
            self.dt = min(least, self.dt * RISE, LONGEST_TIME_STEP)

    async def ideal_gas(self, t: std.HostThread, stage: str) -> None:
        await self.kernel(t, lag.ideal_gas, f"density{stage}", f"energy{stage}", "pressure", "soundspeed")

    async def pdv(self, t: std.HostThread, predict: bool) -> None:
        """Let the pressure work on each cell, over half of the step and then over all of it."""
        names = ("xarea", "yarea", "volume", "density0", "density1", "energy0", "energy1", "pressure", "viscosity")
        if not predict:
            await self.kernel(t, lag.pdv, *names, "xvel0", "xvel1", "yvel0", "yvel1", before=(self.dt,))
            return
        await self.kernel(t, lag.pdv_predict, *names, "xvel0", "yvel0", before=(self.dt,))
        await self.ideal_gas(t, "1")
        await self.halos(t, 1, "pressure")
        await self.kernel(t, lag.revert, "density0", "density1", "energy0", "energy1")

    async def advect_cells(self, t: std.HostThread, axis: str, first: bool) -> None:
        """Move volume, mass and energy of the cells along an axis."""
        sweep, flux, across, mass_flux = self._sweep(axis)
        d = self.dx if axis == "x" else self.dy
        async with t.function():
            if first:
                await self.inside(t, sweep.cell_volumes_first, "volume", flux, across, "work1", "work2")
            else:
                await self.inside(t, sweep.cell_volumes_second, "volume", flux, "work1", "work2")
            cells = ("density1", "energy1", flux)
            await self.inside(t, sweep.cell_flux, *cells, "work1", mass_flux, "work7", before=(d,))
            await self.inside(t, sweep.cell_update, *cells, mass_flux, "work7", "work1")

    async def advect_momentum(self, t: std.HostThread, axis: str, first: bool, velocity: str) -> None:
        """Move the momentum of one velocity; the masses of the nodes are computed with the first velocity only."""
        sweep, flux, across, mass_flux = self._sweep(axis)
        d = self.dx if axis == "x" else self.dy
        f = self.fields
        async with t.function():
            if first:
                await self.inside(t, sweep.momentum_volumes_first, "volume", flux, across, "work5", "work6")
            else:
                await self.inside(t, sweep.momentum_volumes_second, "volume", across, "work5", "work6")
            if velocity == "xvel1":
                await self.inside(t, sweep.node_flux, mass_flux, "work1")
                await self.inside(t, sweep.node_mass, "density1", "work6", "work1", "work2", "work3")
            await self.inside(t, sweep.momentum_flux, before=(f["work1"], f["work3"], f[velocity], d, f["work4"]))
            await self.inside(t, sweep.momentum_update, velocity, "work3", "work2", "work4")

    async def field_summary(self, t: std.HostThread) -> float | None:
        """Return the one of the benchmark's five sums that it checks."""
        f = self.fields
        async with t.function():
            total: float | None = await t.transform_reduce(
                p, kinetic_energy, f["volume"], f["density0"], f["xvel0"], f["yvel0"], self.ny, self.nx
            )
        return total

    # below

    @staticmethod
    def _sweep(axis: str) -> tuple[AxisKernels, str, str, str]:
        """Return the kernels along an axis, the flux along it, the flux across it, and the mass flux."""
        return SWEEPS[axis], f"vol_flux_{axis}", f"vol_flux_{'y' if axis == 'x' else 'x'}", f"mass_flux_{axis}"

    async def kernel(self, t: std.HostThread, kernel: Any, *names: str, before: tuple[Any, ...] = ()) -> None:
        """Run a kernel alone in its function."""
        async with t.function():
            await self.inside(t, kernel, *names, before=before)

    async def inside(self, t: std.HostThread, kernel: Any, *names: str, before: tuple[Any, ...] = ()) -> None:
        """Run a kernel on these fields, with what it takes before them; the size of the grid comes last."""
        await t.for_each(p, kernel, *before, *[self.fields[name] for name in names], self.nx, self.ny)

    async def halos(self, t: std.HostThread, depth: int, *names: str) -> None:
        """Reflect these fields at all edges of the grid, each by an algorithm of its own."""
        async with t.function():
            for name in names:
                for side, arguments in cloverleaf.reflections(name, self.nx, self.ny, depth):
                    await loads(t, self.neighbours)
                    await t.for_each(p, REFLECT[side.__name__], self.fields[name], *arguments)
