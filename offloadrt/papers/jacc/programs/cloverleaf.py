"""CloverLeaf in OpenACC: the compressible Euler equations on a staggered grid in two dimensions.

`cloverleaf_kernels` has the kernels of its steps, with the order in which they run. Here are the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Final

from offloadrt.kernels import Kernel, kernel
from offloadrt.papers.jacc.programs import cloverleaf_kernels as lag
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
from offloadrt.papers.jacc.programs.cloverleaf_kernels import (
    CELLS,
    NODES,
    X_FACES,
    Y_FACES,
    bottom,
    left,
    reflections,
    right,
    top,
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
    """Return the calls that reflect an array at the edges of the grid (nx, ny cells), in `depth` rings of halo cells.

    field: the name of the field in the array, which says how it is mirrored.
    """
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
    """Set density and energy in the cells of a rectangle at the origin, which is filled with a second gas.

    cellx, celly: the coordinates of the cells' centres. density0, energy0: get the values [row, column]. density,
    energy: those of the second gas. width, height: of the rectangle, in the coordinates' unit.
    """
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


class Grid:
    """The arrays of a grid of nx times ny cells, and the calls of kernels on them. `of` has the arrays by name."""

    def __init__(self, arrays: Arrays, nx: int, ny: int) -> None:
        self.nx, self.ny = nx, ny
        fields: dict[str, Any] = {}
        for names, rows, columns in (
            (CELLS, 4, 4),
            (NODES, 5, 5),
            (X_FACES, 4, 5),
            (Y_FACES, 5, 4),
        ):
            fields |= {name: arrays(name, (ny + rows, nx + columns)) for name in names}
        fields |= {f"work{number}": arrays(f"work_array{number}", (ny + 5, nx + 5)) for number in range(1, 8)}
        for axis, count in (("x", nx), ("y", ny)):
            fields |= {f"{name}{axis}": arrays(f"{name}{axis}", count + 5) for name in ("vertex", "vertexd")}
            fields |= {f"{name}{axis}": arrays(f"{name}{axis}", count + 4) for name in ("cell", "celld")}
        self.arrays = tuple(fields.values())
        self.dt_min, self.sums, self.dt = arrays("dt_min", 1), arrays("sums", 5), Number(FIRST_DT)
        self.of = {**fields, "sums": self.sums, "dt": self.dt}

    def call(self, kernel: Kernel, *names: str) -> KernelCall:
        """Return a call of a kernel on the arrays with these names, and on the size of the grid."""
        return call(kernel, *(self.of[name] for name in names), self.nx, self.ny)

    def steps(self, steps: lag.Steps) -> list[ProgramStep]:
        """Return the kernel calls of a list of steps: functions of CloverLeaf, or fills of fields' halos."""
        calls: list[ProgramStep] = []
        for step in steps:
            if isinstance(step, lag.Halos):
                calls += self.halos(step.fields, step.depth)
            else:
                calls += [self.call(kernel, *names) for kernel, names in step.calls]
        return calls

    def halos(self, fields: Sequence[str], depth: int) -> list[KernelCall]:
        """Return the calls that reflect the fields of these names at the edges of the grid, `depth` rings deep."""
        return [kernel_call for name in fields for kernel_call in halo(name, self.of[name], depth, self.nx, self.ny)]

    def start(self) -> tuple[ProgramStep, ...]:
        """Return the steps before the first time step, which compute the grid and the initial state."""
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
            *self.steps([lag.equation_of_state(0)]),
            *self.halos(("density0", "energy0", "pressure", "viscosity", "density1", "energy1", *NODES), 2),
        ]
        return (*steps, self.summary())

    def summary(self) -> KernelCall:
        """Return the call that adds up volume, mass, both energies and pressure of all cells into `sums`."""
        return self.call(field_summary, "volume", "density0", "energy0", "pressure", "xvel0", "yvel0", "sums")

    def step(self, axes: str) -> list[ProgramStep]:
        """Return the steps of one time step, which is as long as all cells allow. axes: the sweeps' order, xy or yx."""
        kernel, names = lag.TIME_STEP
        return [
            *self.steps(lag.BEFORE_TIME_STEP),
            call(kernel, *(self.of[name] for name in names), self.nx, self.ny, self.dt_min),
            OnHost((self.dt_min,), self._choose_dt),
            *self.steps(lag.step(axes)),
        ]

    def _choose_dt(self) -> None:
        self.dt.value = min(float(self.dt_min[0]), RISE * self.dt.value, FIRST_DT)


def build(arrays: Arrays, size: tuple[int, ...]) -> BenchmarkProgram:
    """Build the program; `arrays` makes its arrays. size: (cells in x, cells in y, time steps).

    An iteration has two time steps, with the axes swapped.
    """
    nx, ny, steps = size
    grid = Grid(arrays, nx, ny)
    return BenchmarkProgram(
        setup=grid.start(),
        iteration=(*grid.step("xy"), *grid.step("yx")),
        finish=(grid.summary(),),
        iterations=steps // 2,
        copyin=(*grid.arrays, grid.dt_min, grid.sums),
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
