"""CloverLeaf: Euler's equations on a staggered grid, Lagrangian step and advection, each kernel a function of its own.

Each kernel's function stands in a translation unit of its own and calls no algorithm but through a helper, so that
windows of synchronization elision lie within it: only the advection has several kernels in a window. Most algorithms
are updates of halos, face by face and field by field; what there is to update is loaded from the heap before each.
Cells are square, and the two states of the input meet at a corner of the grid.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from offloadrt.models import stdpar as std
from offloadrt.papers.stdpar.programs import cloverleaf_advection as advection
from offloadrt.papers.stdpar.programs import cloverleaf_kernels as kernels
from offloadrt.papers.stdpar.programs.frame import Outcome, Timed, host_array, loads

HALO: Final = 2
FIRST_TIME_STEP: Final = 0.04
LONGEST_TIME_STEP: Final = 0.04
RISE: Final = 1.5
WIDTH: Final = 10.0
AMBIENT: Final = (0.2, 1.0)
DENSE: Final = (1.0, 2.5)
"""Density and energy (clover_bm16.in of the public source, as of the next)."""
EDGE: Final = (0.2, 0.5)
"""Of the grid, in y and in x: how far the dense state reaches."""
CELLS: Final = (*("density0", "density1", "energy0", "energy1", "pressure", "viscosity", "sound_speed", "volume"),)
NODES: Final = (*("xvel0", "xvel1", "yvel0", "yvel1", "work1", "work2", "work3", "work4", "work5", "work6", "work7"),)
X_FACES: Final = ("vol_flux_x", "mass_flux_x", "x_area")
Y_FACES: Final = ("vol_flux_y", "mass_flux_y", "y_area")
p: Final = std.par_unseq


@attrs.frozen
class CloverLeaf:
    """`steps` time steps of `cells` by `cells` cells, or by `rows`. The first sweep's axis alternates."""

    cells: int = 3840
    steps: int = 87
    rows: int | None = None
    edge: tuple[float, float] = EDGE
    phantom: bool = True

    async def run(self, t: std.HostThread, timed: Timed) -> Outcome:
        """Set the grid up, and step. The kinetic energy is what the benchmark checks."""
        chunk = await _Chunk.allocate(t, self)
        await chunk.initialise(t)
        await t.wait()
        async with timed():
            for step in range(self.steps):
                await chunk.step(t, along_x_first=step % 2 == 0)
            energy = await chunk.field_summary(t)
        density, internal = [await t.read(chunk.fields[name]) for name in ("density0", "energy0")]
        await chunk.release(t)
        return Outcome({}, {"kinetic_energy": energy, "density": density, "energy": internal, "time": chunk.time})


@attrs.frozen
class _Axis:
    """What follows from where a field lies along an axis: at cells, at nodes, or at the faces of the other axis.

    source: of the first layer of the halo at the low end; edge, mirror: the first layer of that at the high end, and
    where it comes from, beside the number of cells. more: places more than cells.
    """

    source: int
    edge: int
    mirror: int
    more: int


_CELL, _NODE, _FACE = _Axis(2, 2, 1, 0), _Axis(3, 3, 1, 1), _Axis(3, 2, 0, 0)
_LIES: Final = {
    **dict.fromkeys(CELLS, (_CELL, _CELL)),
    **dict.fromkeys(NODES, (_NODE, _NODE)),
    **dict.fromkeys(X_FACES, (_FACE, _NODE)),
    **dict.fromkeys(Y_FACES, (_NODE, _FACE)),
}
"""Along y and along x."""


def _signs(name: str) -> tuple[float, float]:
    """Of what is reflected at the ends of y and of x: what points along an axis turns round."""
    return (-1.0 if name.startswith("yvel") or name in Y_FACES else 1.0), (
        -1.0 if name.startswith("xvel") or name in X_FACES else 1.0
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
        for name, (along_y, along_x) in _LIES.items():
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
            await t.for_each(p, kernels.set_cells, self.dx, width)
            await t.for_each(p, kernels.set_cells, self.dy, width)
            await t.for_each(p, kernels.set_areas, f["volume"], f["x_area"], f["y_area"], self.dx, self.dy, ny, nx)
        top, right = (HALO + round(edge * n) for edge, n in zip(self.program.edge, (ny, nx), strict=True))
        async with t.function():
            await t.for_each(p, kernels.set_state, f["density0"], f["energy0"], ny + 4, nx + 4, *AMBIENT)
            await t.for_each(p, kernels.set_state, f["density0"], f["energy0"], top, right, *DENSE)
        await self.ideal_gas(t, "0")
        names = ("density0", "energy0", "pressure", "viscosity", "density1", "energy1")
        await self.halos(t, 2, *names, "xvel0", "yvel0", "xvel1", "yvel1")
        await self.field_summary(t)

    # a step

    async def step(self, t: std.HostThread, along_x_first: bool) -> None:
        await self.timestep(t)
        await self.pdv(t, predict=True)
        await self.kernel(t, kernels.accelerate, "x_area", "y_area", "volume", "density0", "pressure", "viscosity",
                          "xvel0", "yvel0", "xvel1", "yvel1", after=(self.dt,))  # fmt: skip
        await self.pdv(t, predict=False)
        await self.kernel(t, kernels.flux_calc, "x_area", "y_area", "xvel0", "yvel0", "xvel1", "yvel1", "vol_flux_x",
                          "vol_flux_y", after=(self.dt,))  # fmt: skip
        await self.halos(t, 2, "energy1", "density1", "vol_flux_x", "vol_flux_y")
        for sweep, along_x in enumerate((along_x_first, not along_x_first)):
            await self.advect_cells(t, along_x, first=sweep == 0)
            await self.halos(t, 2, "density1", "energy1", "xvel1", "yvel1", "mass_flux_x", "mass_flux_y")
            for velocity in ("xvel1", "yvel1"):
                await self.advect_momentum(t, along_x, sweep == 0, velocity)
        async with t.function():
            await self.inside(t, kernels.copy_cells, "density1", "density0", "energy1", "energy0")
            await self.inside(t, kernels.copy_nodes, "xvel1", "xvel0", "yvel1", "yvel0")
        self.time += self.dt

    async def timestep(self, t: std.HostThread) -> None:
        """How far the step goes; the least over all cells comes back to the host."""
        f = self.fields
        await self.ideal_gas(t, "0")
        await self.halos(t, 1, "pressure", "energy0", "density0", "xvel0", "yvel0")
        async with t.function():
            await self.inside(
                t, kernels.viscosity, "density0", "pressure", "viscosity", "xvel0", "yvel0", before=(self.dx, self.dy)
            )
        await self.halos(t, 1, "viscosity")
        names = ("volume", "x_area", "y_area", "density0", "viscosity", "sound_speed", "xvel0", "yvel0")
        async with t.function():
            least: float | None = await t.transform_reduce(
                p, kernels.calc_dt, self.dx, self.dy, *[f[name] for name in names], self.ny, self.nx, init=kernels.BIG
            )
        if least is not None:
            self.dt = min(least, self.dt * RISE, LONGEST_TIME_STEP)

    async def ideal_gas(self, t: std.HostThread, stage: str) -> None:
        await self.kernel(t, kernels.ideal_gas, f"density{stage}", f"energy{stage}", "pressure", "sound_speed")

    async def pdv(self, t: std.HostThread, predict: bool) -> None:
        """Work of the pressure on each cell, over half of the step and then over all of it."""
        names = ("x_area", "y_area", "volume", "density0", "density1", "energy0", "energy1", "pressure", "viscosity")
        if not predict:
            velocities = ("xvel0", "xvel1", "yvel0", "yvel1")
            await self.kernel(t, kernels.pdv_correct, *names, *velocities, after=(self.dt,))
            return
        await self.kernel(t, kernels.pdv_predict, *names, "xvel0", "yvel0", after=(self.dt,))
        await self.ideal_gas(t, "1")
        await self.halos(t, 1, "pressure")
        await self.kernel(t, kernels.copy_cells, "density0", "density1", "energy0", "energy1")

    async def advect_cells(self, t: std.HostThread, along_x: bool, first: bool) -> None:
        axis, flux, across, mass_flux = self._axis(along_x)
        d, n = (self.dx, self.nx) if along_x else (self.dy, self.ny)
        cells = ("density1", "energy1", "work1", flux, mass_flux, "work7")
        async with t.function():
            if first:
                names = ("volume", flux, across, "work1", "work2")
                await self.inside(t, advection.volumes_of_first_sweep, *names, after=axis)
            else:
                await self.inside(t, advection.volumes_of_second_sweep, "volume", flux, "work1", "work2", after=axis)
            await self.inside(t, advection.cell_fluxes, *cells, before=(d,), after=(*axis, n))
            await self.inside(t, advection.update_cells, *cells, after=axis)

    async def advect_momentum(self, t: std.HostThread, along_x: bool, first: bool, velocity: str) -> None:
        """The masses of the nodes are computed with the first velocity only."""
        axis, flux, across, mass_flux = self._axis(along_x)
        d = self.dx if along_x else self.dy
        async with t.function():
            if first:
                names = ("volume", flux, across, "work5", "work6")
                await self.inside(t, advection.volumes_of_first_sweep, *names, after=axis)
            else:
                await self.inside(
                    t, advection.volumes_of_second_sweep, "volume", across, "work5", "work6", after=axis[::-1]
                )
            if velocity == "xvel1":
                await self.inside(t, advection.node_fluxes, mass_flux, "work1", after=axis)
                await self.inside(t, advection.node_masses, "density1", "work6", "work1", "work2", "work3", after=axis)
            await self.inside(
                t, advection.momentum_fluxes, velocity, "work1", "work3", "work4", before=(d,), after=axis
            )
            await self.inside(t, advection.update_velocity, velocity, "work3", "work2", "work4", after=axis)

    async def field_summary(self, t: std.HostThread) -> float | None:
        """Of the five sums of the benchmark, the one that it checks."""
        f = self.fields
        async with t.function():
            total: float | None = await t.transform_reduce(
                p, kernels.kinetic_energy, f["volume"], f["density0"], f["xvel0"], f["yvel0"], self.ny, self.nx
            )
        return total

    # below

    @staticmethod
    def _axis(along_x: bool) -> tuple[tuple[int, int], str, str, str]:
        """(y, x), the flux along the axis, that across it, and the mass flux."""
        if along_x:
            return (0, 1), "vol_flux_x", "vol_flux_y", "mass_flux_x"
        return (1, 0), "vol_flux_y", "vol_flux_x", "mass_flux_y"

    async def kernel(self, t: std.HostThread, kernel: Any, *names: str, after: tuple[Any, ...] = ()) -> None:
        """A kernel alone in its function."""
        async with t.function():
            await self.inside(t, kernel, *names, after=after)

    async def inside(
        self, t: std.HostThread, kernel: Any, *names: str, before: tuple[Any, ...] = (), after: tuple[Any, ...] = ()
    ) -> None:
        """A kernel over these fields, with what else it takes before and after them and the size of the grid."""
        await t.for_each(p, kernel, *before, *[self.fields[name] for name in names], self.ny, self.nx, *after)

    async def halos(self, t: std.HostThread, depth: int, *names: str) -> None:
        """Reflect these fields at all faces of the grid, each by an algorithm of its own."""
        ny, nx = self.ny, self.nx
        async with t.function():
            for name in names:
                field, (along_y, along_x), (sign_y, sign_x) = self.fields[name], _LIES[name], _signs(name)
                row = (field, HALO - depth, nx + HALO + depth + along_x.more)
                column = (field, HALO - depth, ny + HALO + depth + along_y.more)
                for kernel, place, ends in (
                    (kernels.update_bottom, row, (along_y.source, sign_y)),
                    (kernels.update_top, row, (ny + along_y.edge, ny + along_y.mirror, sign_y)),
                    (kernels.update_left, column, (along_x.source, sign_x)),
                    (kernels.update_right, column, (nx + along_x.edge, nx + along_x.mirror, sign_x)),
                ):
                    await loads(t, self.neighbours)
                    await t.for_each(p, kernel, *place, *ends, depth)
