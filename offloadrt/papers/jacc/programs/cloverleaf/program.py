"""CloverLeaf as a program: its arrays, its time step, and what the paper reports of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from offloadrt.papers.cloverleaf import lagrangian as lag
from offloadrt.papers.cloverleaf.advection import SWEEPS
from offloadrt.papers.cloverleaf.halo import CELLS, NODES, X_FACES, Y_FACES
from offloadrt.papers.jacc.programs.benchmark import (
    Arrays,
    Benchmark,
    BenchmarkProgram,
    KernelCall,
    Number,
    OnHost,
    ProgramStep,
    call,
)
from offloadrt.papers.jacc.programs.cloverleaf import boundaries as rim
from offloadrt.papers.jacc.programs.cloverleaf.field_summary import field_summary

WIDTH: Final = 10.0
"""The width of the domain in both directions."""
GAS: Final = (0.2, 1.0)
"""Density and energy of the background."""
OTHER_GAS: Final = (1.0, 2.5, 5.0, 2.0)
"""Density, energy, width and height of the rectangle."""
FIRST_DT: Final = 0.04
"""The first time step, which is also the largest one."""
RISE: Final = 1.5

_OTHER: Final = {"x": "y", "y": "x"}
WORK: Final = tuple(f"work_array{number}" for number in range(1, 8))


class Grid:
    """The arrays of a grid of nx times ny cells by name, and the parts of a step on them."""

    def __init__(self, arrays: Arrays, nx: int, ny: int) -> None:
        self.nx, self.ny = nx, ny
        fields: dict[str, Any] = {}
        for names, rows, columns in (
            (CELLS, 4, 4),
            (NODES, 5, 5),
            (X_FACES, 4, 5),
            (Y_FACES, 5, 4),
            (WORK, 5, 5),
        ):
            fields |= {name: arrays(name, (ny + rows, nx + columns)) for name in names}
        for axis, count in (("x", nx), ("y", ny)):
            fields |= {f"{name}{axis}": arrays(f"{name}{axis}", count + 5) for name in ("vertex", "vertexd")}
            fields |= {f"{name}{axis}": arrays(f"{name}{axis}", count + 4) for name in ("cell", "celld")}
        self.of = fields
        self.dt_min, self.sums = arrays("dt_min", 1), arrays("sums", 5)
        self.dt = Number(FIRST_DT)

    def on(self, kernel: Any, *args: Any) -> KernelCall:
        """Make a call of a kernel with arrays by name, numbers, and the size of the grid."""
        return call(
            kernel,
            *(self.of[argument] if isinstance(argument, str) else argument for argument in args),
            self.nx,
            self.ny,
        )

    def halos(self, fields: Sequence[str], depth: int) -> list[KernelCall]:
        """Reflect fields at the edges of the grid."""
        return [
            kernel_call for name in fields for kernel_call in rim.halo(name, self.of[name], depth, self.nx, self.ny)
        ]

    def start(self) -> tuple[ProgramStep, ...]:
        """Make the grid and the initial state."""
        fields = self.of
        dx, dy = WIDTH / self.nx, WIDTH / self.ny
        steps = [
            *(call(rim.INITIALISE[f"vertex{a}"], fields[f"vertex{a}"], 0.0, d) for a, d in (("x", dx), ("y", dy))),
            *(call(rim.INITIALISE[f"cell{a}"], fields[f"cell{a}"], fields[f"vertex{a}"]) for a in "xy"),
            *(
                call(rim.INITIALISE[f"{name}{a}"], fields[f"{name}{a}"], d)
                for a, d in (("x", dx), ("y", dy))
                for name in ("vertexd", "celld")
            ),
            *(
                call(rim.INITIALISE[name], fields[name], value)
                for name, value in (("volume", dx * dy), ("xarea", dy), ("yarea", dx))
            ),
            *(
                call(rim.BACKGROUND[name], fields[name], value)
                for name, value in (("density0", GAS[0]), ("energy0", GAS[1]), ("xvel0", 0.0), ("yvel0", 0.0))
            ),
            call(
                rim.generate_state, fields["cellx"], fields["celly"], fields["density0"], fields["energy0"], *OTHER_GAS
            ),
            self.on(lag.ideal_gas, "density0", "energy0", "pressure", "soundspeed"),
            *self.halos(("density0", "energy0", "pressure", "viscosity", "density1", "energy1", *NODES), 2),
        ]
        return (*steps, self.summary())

    def summary(self) -> KernelCall:
        """Add up mass, energies and pressure over the grid."""
        return self.on(field_summary, "volume", "density0", "energy0", "pressure", "xvel0", "yvel0", self.sums)

    def step(self, order: str) -> list[ProgramStep]:
        """Make a time step; `order` is that of the sweeps, xy or yx."""
        return [*self.time_step(), *self.lagrangian(), *self.advection(order), *self.reset()]

    def time_step(self) -> list[ProgramStep]:
        """Let the host compute the length of the step from what the cells allow."""
        return [
            self.on(lag.ideal_gas, "density0", "energy0", "pressure", "soundspeed"),
            *self.halos(("pressure", "energy0", "density0", "xvel0", "yvel0"), 1),
            self.on(
                lag.viscous_pressure, "celldx", "celldy", "density0", "pressure", "viscosity", "xvel0", "yvel0"
            ),
            *self.halos(("viscosity",), 1),
            call(
                lag.calc_dt,
                *(self.of[name] for name in ("xarea", "yarea", "celldx", "celldy", "volume", "density0", "viscosity")),
                *(self.of[name] for name in ("soundspeed", "xvel0", "yvel0")),
                self.nx, self.ny, self.dt_min,
            ),
            OnHost((self.dt_min,), self._choose_dt),
        ]  # fmt: skip

    def _choose_dt(self) -> None:
        self.dt.value = min(float(self.dt_min[0]), RISE * self.dt.value, FIRST_DT)

    def lagrangian(self) -> list[ProgramStep]:
        """Take half a step to predict the pressure, and then the whole step."""
        thermal = ("density0", "density1", "energy0", "energy1", "pressure", "viscosity")
        return [
            self.on(lag.pdv_predict, self.dt, "xarea", "yarea", "volume", *thermal, "xvel0", "yvel0"),
            self.on(lag.ideal_gas, "density1", "energy1", "pressure", "soundspeed"),
            *self.halos(("pressure",), 1),
            self.on(lag.revert, "density0", "density1", "energy0", "energy1"),
            self.on(
                lag.accelerate, self.dt, "xarea", "yarea", "volume", "density0", "pressure", "viscosity", "xvel0",
                "yvel0", "xvel1", "yvel1",
            ),
            self.on(lag.pdv, self.dt, "xarea", "yarea", "volume", *thermal, *NODES),
            self.on(
                lag.flux_calc, self.dt, "xarea", "yarea", "xvel0", "yvel0", "xvel1", "yvel1", "vol_flux_x",
                "vol_flux_y",
            ),
        ]  # fmt: skip

    def advection(self, order: str) -> list[ProgramStep]:
        """Sweep in each direction."""
        moved = ("density1", "energy1", "xvel1", "yvel1", "mass_flux_x", "mass_flux_y")
        steps: list[ProgramStep] = [*self.halos(("energy1", "density1", "vol_flux_x", "vol_flux_y"), 2)]
        for sweep, axis in enumerate(order, start=1):
            steps += [*self._cells(axis, sweep), *self.halos(moved, 2)]
            steps += [*self._momentum(axis, sweep, "xvel1", True), *self._momentum(axis, sweep, "yvel1", False)]
        return steps

    def _cells(self, axis: str, sweep: int) -> list[KernelCall]:
        """Move volume, mass and energy of the cells along an axis."""
        kernels, flux, across = SWEEPS[axis], f"vol_flux_{axis}", f"vol_flux_{_OTHER[axis]}"
        mass, energy, pre_vol, post_vol = f"mass_flux_{axis}", "work_array7", "work_array1", "work_array2"
        volumes = (
            self.on(kernels.cell_volumes_first, "volume", flux, across, pre_vol, post_vol)
            if sweep == 1
            else self.on(kernels.cell_volumes_second, "volume", flux, pre_vol, post_vol)
        )
        return [
            volumes,
            self.on(kernels.cell_flux, f"vertexd{axis}", "density1", "energy1", flux, pre_vol, mass, energy),
            self.on(kernels.cell_update, "density1", "energy1", flux, mass, energy, pre_vol),
        ]

    def _momentum(self, axis: str, sweep: int, velocity: str, first: bool) -> list[KernelCall]:
        """Move the momentum of one velocity. The first velocity computes fluxes and masses of nodes for both."""
        kernels, across = SWEEPS[axis], f"vol_flux_{_OTHER[axis]}"
        flux, post, pre, momentum, pre_vol, post_vol = WORK[:6]
        volumes = (
            self.on(kernels.momentum_volumes_first, "volume", f"vol_flux_{axis}", across, pre_vol, post_vol)
            if sweep == 1
            else self.on(kernels.momentum_volumes_second, "volume", across, pre_vol, post_vol)
        )
        nodes = [
            self.on(kernels.node_flux, f"mass_flux_{axis}", flux),
            self.on(kernels.node_mass, "density1", post_vol, flux, post, pre),
        ]
        return [
            volumes,
            *(nodes if first else []),
            self.on(kernels.momentum_flux, flux, pre, velocity, f"celld{axis}", momentum),
            self.on(kernels.momentum_update, velocity, pre, post, momentum),
        ]

    def reset(self) -> list[ProgramStep]:
        """Make the new state the old one of the next step."""
        return [
            self.on(lag.reset_cells, "density1", "density0", "energy1", "energy0"),
            self.on(lag.reset_nodes, "xvel1", "xvel0", "yvel1", "yvel0"),
        ]


def build(arrays: Arrays, size: tuple[int, ...]) -> BenchmarkProgram:
    """Build the program on a grid of cells, for a number of steps. An iteration is two steps, as sweeps alternate."""
    nx, ny, steps = size
    grid = Grid(arrays, nx, ny)
    return BenchmarkProgram(
        setup=grid.start(),
        iteration=(*grid.step("xy"), *grid.step("yx")),
        finish=(grid.summary(),),
        iterations=steps // 2,
        copyin=(*grid.of.values(), grid.dt_min, grid.sums),
        results=(*(grid.of[name] for name in ("density0", "energy0", "xvel0", "yvel0")), grid.sums),
    )


BENCHMARK = Benchmark(
    name="CloverLeaf",
    dup_s=55.017,
    sizes={"3840x1920": (3840, 1920, 1800), "test": (10, 8, 2)},
    build=build,
)
"""The public OpenACC version has 107 kernels without those that pack messages, and 125 executions a step."""
