"""CloverLeaf in OpenACC: the compressible Euler equations on a staggered grid in two dimensions.

`offloadrt.papers.cloverleaf` has the kernels that both papers share. Here are the others, and the order in which all
of them run.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Final

from offloadrt.kernels import Kernel, kernel
from offloadrt.papers import cloverleaf as lag
from offloadrt.papers.cloverleaf import CELLS, NODES, SWEEPS, X_FACES, Y_FACES, bottom, left, reflections, right, top
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

FIELDS = (
    *("density0", "density1", "energy0", "energy1", "pressure", "viscosity", "soundspeed"),
    *("xvel0", "xvel1", "yvel0", "yvel1", "vol_flux_x", "vol_flux_y", "mass_flux_x", "mass_flux_y"),
)


HALO: dict[tuple[str, str], Kernel] = {
    (field, side.__name__): kernel(name=f"halo_{field}_{side.__name__}", collapse=2)(side)
    for field in FIELDS
    for side in (bottom, top, left, right)
}
"""A kernel for each field and side, as JACC counts them."""


def halo(field: str, array: Any, depth: int, nx: int, ny: int) -> list[KernelCall]:
    """Reflect a field at the four edges of the grid, so many cells deep."""
    return [
        call(HALO[field, side.__name__], array, *arguments) for side, arguments in reflections(field, nx, ny, depth)
    ]


def vertices(vertex: Any, first: Any, step: Any) -> None:
    for j in range(len(vertex)):
        vertex[j] = first + step * (j - 2)


def centres(centre: Any, vertex: Any) -> None:
    for j in range(len(centre)):
        centre[j] = 0.5 * (vertex[j] + vertex[j + 1])


def lengths(length: Any, step: Any) -> None:
    for j in range(len(length)):
        length[j] = step


def plane(array: Any, value: Any) -> None:
    for k, j in product(range(array.shape[0]), range(array.shape[1])):
        array[k, j] = value


INITIALISE: dict[str, Kernel] = {
    **{name: kernel(name=f"initialise_{name}")(vertices) for name in ("vertexx", "vertexy")},
    **{name: kernel(name=f"initialise_{name}")(centres) for name in ("cellx", "celly")},
    **{name: kernel(name=f"initialise_{name}")(lengths) for name in ("vertexdx", "vertexdy", "celldx", "celldy")},
    **{name: kernel(name=f"initialise_{name}", collapse=2)(plane) for name in ("volume", "xarea", "yarea")},
}
"""The kernels that initialise an array, by the array's name."""
BACKGROUND: dict[str, Kernel] = {
    name: kernel(name=f"generate_{name}", collapse=2)(plane) for name in ("density0", "energy0", "xvel0", "yvel0")
}


@kernel(collapse=2)
def generate_state(
    cellx: Any, celly: Any, density0: Any, energy0: Any, density: Any, energy: Any, width: Any, height: Any
) -> None:
    """Set the state of another gas in a rectangle from the origin."""
    for k, j in product(range(density0.shape[0]), range(density0.shape[1])):
        if cellx[j] < width and celly[k] < height:
            density0[k, j] = density
            energy0[k, j] = energy


@kernel(collapse=2)
def field_summary(
    volume: Any, density0: Any, energy0: Any, pressure: Any, xvel0: Any, yvel0: Any, sums: Any, nx: Any, ny: Any
) -> None:
    total = 0.0
    mass = 0.0
    internal = 0.0
    kinetic = 0.0
    press = 0.0
    for k, j in product(range(2, ny + 2), range(2, nx + 2)):
        squares = 0.0
        for kv in range(2):
            for jv in range(2):
                squares += 0.25 * (xvel0[k + kv, j + jv] ** 2 + yvel0[k + kv, j + jv] ** 2)
        total += volume[k, j]
        mass += volume[k, j] * density0[k, j]
        internal += volume[k, j] * density0[k, j] * energy0[k, j]
        kinetic += volume[k, j] * density0[k, j] * 0.5 * squares
        press += volume[k, j] * pressure[k, j]
    sums[0] = total
    sums[1] = mass
    sums[2] = internal
    sums[3] = kinetic
    sums[4] = press


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
        return [kernel_call for name in fields for kernel_call in halo(name, self.of[name], depth, self.nx, self.ny)]

    def start(self) -> tuple[ProgramStep, ...]:
        """Make the grid and the initial state."""
        fields = self.of
        dx, dy = WIDTH / self.nx, WIDTH / self.ny
        steps = [
            *(call(INITIALISE[f"vertex{a}"], fields[f"vertex{a}"], 0.0, d) for a, d in (("x", dx), ("y", dy))),
            *(call(INITIALISE[f"cell{a}"], fields[f"cell{a}"], fields[f"vertex{a}"]) for a in "xy"),
            *(
                call(INITIALISE[f"{name}{a}"], fields[f"{name}{a}"], d)
                for a, d in (("x", dx), ("y", dy))
                for name in ("vertexd", "celld")
            ),
            *(
                call(INITIALISE[name], fields[name], value)
                for name, value in (("volume", dx * dy), ("xarea", dy), ("yarea", dx))
            ),
            *(
                call(BACKGROUND[name], fields[name], value)
                for name, value in (("density0", GAS[0]), ("energy0", GAS[1]), ("xvel0", 0.0), ("yvel0", 0.0))
            ),
            call(generate_state, fields["cellx"], fields["celly"], fields["density0"], fields["energy0"], *OTHER_GAS),
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


__all__ = ["BENCHMARK"]
