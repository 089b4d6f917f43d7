"""TeaLeaf: heat conduction on a square grid, implicit in time, by conjugate gradients.

Each function of the solver is called from another translation unit, so it ends a window of synchronization elision; two
of the three functions in an iteration return a sum. Halos are updated face by face; which faces there are is loaded
from the heap before each update.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import kernel
from offloadrt.models import stdpar as std
from offloadrt.papers.stdpar.programs.frame import ApplicationOutcome, Timed, host_array, loads, stores
from offloadrt.study.running.phases import StepNumbers

Doubles = NDArray[np.float64]


@kernel
def set_vertices(vertex: Doubles, origin: float, d: float, h: int) -> None:
    for i in range(len(vertex)):
        vertex[i] = origin + d * (i - h)


@kernel(collapse=2)
def set_volume(volume: Doubles, x_area: Doubles, y_area: Doubles, n: int, d: float) -> None:
    for j, k in product(range(n), range(n)):
        volume[j, k] = d * d
        x_area[j, k] = d
        y_area[j, k] = d


@kernel(collapse=2)
def set_background(energy0: Doubles, density: Doubles, n: int, energy: float, mass: float) -> None:
    for j, k in product(range(n), range(n)):
        energy0[j, k] = energy
        density[j, k] = mass


@kernel(collapse=2)
def set_rectangle(
    vertex_x: Doubles,
    vertex_y: Doubles,
    energy0: Doubles,
    density: Doubles,
    u: Doubles,
    n: int,
    energy: float,
    mass: float,
    left: float,
    right: float,
    bottom: float,
    top: float,
) -> None:
    for j, k in product(range(n), range(n)):
        if vertex_x[k + 1] >= left and vertex_x[k] < right and vertex_y[j + 1] >= bottom and vertex_y[j] < top:
            energy0[j, k] = energy
            density[j, k] = mass
        u[j, k] = energy0[j, k] * density[j, k]


@kernel(collapse=2)
def cg_init_u(p: Doubles, r: Doubles, u: Doubles, energy: Doubles, density: Doubles, n: int) -> None:
    for j, k in product(range(n), range(n)):
        p[j, k] = 0.0
        r[j, k] = 0.0
        u[j, k] = energy[j, k] * density[j, k]


@kernel(collapse=2)
def cg_init_w(w: Doubles, density: Doubles, n: int) -> None:
    for j, k in product(range(1, n - 1), range(1, n - 1)):
        w[j, k] = density[j, k]


@kernel(collapse=2)
def cg_init_k(kx: Doubles, ky: Doubles, w: Doubles, n: int, h: int, rate: float) -> None:
    for j, k in product(range(h, n - 1), range(h, n - 1)):
        kx[j, k] = rate * (w[j, k - 1] + w[j, k]) / (2.0 * w[j, k - 1] * w[j, k])
        ky[j, k] = rate * (w[j - 1, k] + w[j, k]) / (2.0 * w[j - 1, k] * w[j, k])


@kernel(collapse=2)
def cg_init_r(
    u: Doubles, w: Doubles, r: Doubles, p: Doubles, kx: Doubles, ky: Doubles, n: int, h: int, total: Doubles
) -> None:
    s = total[0]
    for j, k in product(range(h, n - h), range(h, n - h)):
        applied = (
            (1.0 + (kx[j, k + 1] + kx[j, k]) + (ky[j + 1, k] + ky[j, k])) * u[j, k]
            - (kx[j, k + 1] * u[j, k + 1] + kx[j, k] * u[j, k - 1])
            - (ky[j + 1, k] * u[j + 1, k] + ky[j, k] * u[j - 1, k])
        )
        w[j, k] = applied
        rest = u[j, k] - applied
        r[j, k] = rest
        p[j, k] = rest
        s += rest * rest
    total[0] = s


@kernel(collapse=2)
def cg_calc_w(p: Doubles, w: Doubles, kx: Doubles, ky: Doubles, n: int, h: int, total: Doubles) -> None:
    s = total[0]
    for j, k in product(range(h, n - h), range(h, n - h)):
        applied = (
            (1.0 + (kx[j, k + 1] + kx[j, k]) + (ky[j + 1, k] + ky[j, k])) * p[j, k]
            - (kx[j, k + 1] * p[j, k + 1] + kx[j, k] * p[j, k - 1])
            - (ky[j + 1, k] * p[j + 1, k] + ky[j, k] * p[j - 1, k])
        )
        w[j, k] = applied
        s += applied * p[j, k]
    total[0] = s


@kernel(collapse=2)
def cg_calc_ur(u: Doubles, p: Doubles, r: Doubles, w: Doubles, n: int, h: int, alpha: float, total: Doubles) -> None:
    s = total[0]
    for j, k in product(range(h, n - h), range(h, n - h)):
        u[j, k] = u[j, k] + alpha * p[j, k]
        rest = r[j, k] - alpha * w[j, k]
        r[j, k] = rest
        s += rest * rest
    total[0] = s


@kernel(collapse=2)
def cg_calc_p(p: Doubles, r: Doubles, n: int, h: int, beta: float) -> None:
    for j, k in product(range(h, n - h), range(h, n - h)):
        p[j, k] = beta * p[j, k] + r[j, k]


@kernel(collapse=2)
def copy_interior(source: Doubles, destination: Doubles, n: int, h: int) -> None:
    for j, k in product(range(h, n - h), range(h, n - h)):
        destination[j, k] = source[j, k]


@kernel(collapse=2)
def calculate_residual(u: Doubles, u0: Doubles, r: Doubles, kx: Doubles, ky: Doubles, n: int, h: int) -> None:
    for j, k in product(range(h, n - h), range(h, n - h)):
        applied = (
            (1.0 + (kx[j, k + 1] + kx[j, k]) + (ky[j + 1, k] + ky[j, k])) * u[j, k]
            - (kx[j, k + 1] * u[j, k + 1] + kx[j, k] * u[j, k - 1])
            - (ky[j + 1, k] * u[j + 1, k] + ky[j, k] * u[j - 1, k])
        )
        r[j, k] = u0[j, k] - applied


@kernel(collapse=2)
def norm(r: Doubles, n: int, h: int, total: Doubles) -> None:
    s = total[0]
    for j, k in product(range(h, n - h), range(h, n - h)):
        s += r[j, k] * r[j, k]
    total[0] = s


@kernel(collapse=2)
def finalise(energy: Doubles, density: Doubles, u: Doubles, n: int, h: int) -> None:
    for j, k in product(range(h, n - h), range(h, n - h)):
        energy[j, k] = u[j, k] / density[j, k]


@kernel(collapse=2)
def temperature(volume: Doubles, density: Doubles, u: Doubles, n: int, h: int, total: Doubles) -> None:
    s = total[0]
    for j, k in product(range(h, n - h), range(h, n - h)):
        s += volume[j, k] * density[j, k] * u[j, k]
    total[0] = s


@kernel(collapse=2)
def update_left(field: Doubles, n: int, h: int, depth: int) -> None:
    for j, k in product(range(h, n - h), range(depth)):
        field[j, h - k - 1] = field[j, h + k]


@kernel(collapse=2)
def update_right(field: Doubles, n: int, h: int, depth: int) -> None:
    for j, k in product(range(h, n - h), range(depth)):
        field[j, n - h + k] = field[j, n - h - 1 - k]


@kernel(collapse=2)
def update_top(field: Doubles, n: int, h: int, depth: int) -> None:
    for j, k in product(range(depth), range(h, n - h)):
        field[n - h + j, k] = field[n - h - 1 - j, k]


@kernel(collapse=2)
def update_bottom(field: Doubles, n: int, h: int, depth: int) -> None:
    for j, k in product(range(depth), range(h, n - h)):
        field[h - j - 1, k] = field[h + j, k]


HALO: Final = 2
LENGTH: Final = 10.0
TIME_STEP: Final = 0.004
EPSILON: Final = 1e-15
MOST_ITERATIONS: Final = 10_000
BACKGROUND: Final = (0.0001, 100.0)
RECTANGLES: Final = (
    (25.0, 0.1, 0.0, 1.0, 1.0, 2.0),
    (0.1, 0.1, 1.0, 6.0, 1.0, 2.0),
    (0.1, 0.1, 5.0, 6.0, 1.0, 8.0),
    (0.1, 0.1, 5.0, 10.0, 7.0, 8.0),
)
"""Energy, density, and the extents in x and in y (tea_bm_5.in of the public source)."""
FIELDS: Final = (
    *("density0", "density", "energy0", "energy", "u", "u0", "p", "r", "mi", "w", "kx", "ky", "sd", "volume", "x_area"),
    "y_area",
)
"""Arrays of the grid's size that the program allocates; this solver does not use all of them."""
FACES: Final = (update_left, update_right, update_top, update_bottom)
p = std.par_unseq


@attrs.frozen
class TeaLeaf:
    """One time step of `cells` by `cells` cells: `steps` iterations, or fewer with numbers that have converged."""

    cells: int = 4000
    steps: int = 200
    phantom: bool = True
    step_numbers: StepNumbers = range

    async def run(self, t: std.HostThread, timed: Timed) -> ApplicationOutcome:
        """Set the grid up, and solve. The total temperature is what the benchmark checks."""
        state = await _State.allocate(t, self)
        await state.initialise(t)
        await t.wait()
        async with timed():
            iterations = await state.solve(t)
            total = await state.field_summary(t)
        energy = await t.read(state.fields["energy"])
        await state.release(t)
        return ApplicationOutcome({"iterations": iterations}, {"temperature": total, "energy": energy})


@attrs.frozen
class _State:
    """The chunk of the grid that the program works on. `n` is the number of cells of a row with its halo."""

    program: TeaLeaf
    n: int
    fields: dict[str, std.UsmArray]
    vertices: tuple[std.UsmArray, std.UsmArray]
    alphas: std.UsmArray
    betas: std.UsmArray
    neighbours: std.UsmArray

    @classmethod
    async def allocate(cls, t: std.HostThread, program: TeaLeaf) -> _State:
        n = program.cells + 2 * HALO
        neighbours = await host_array(t, "neighbours", 4)
        fields = {name: await t.new_array(name, (n, n), phantom=program.phantom) for name in FIELDS}
        x, y = [await t.new_array(f"vertex_{name}", n + 1, phantom=program.phantom) for name in "xy"]
        alphas, betas = [await host_array(t, f"cg_{name}", MOST_ITERATIONS) for name in ("alphas", "betas")]
        for field in fields.values():
            async with t.function():
                await t.fill(p, field, 0.0)
        return cls(program, n, fields, (x, y), alphas, betas, neighbours)

    async def release(self, t: std.HostThread) -> None:
        for array in (*self.fields.values(), *self.vertices, self.alphas, self.betas, self.neighbours):
            await t.delete(array)

    @property
    def rate(self) -> float:
        """Return the time step over the square of a cell's width."""
        return TIME_STEP / (LENGTH / self.program.cells) ** 2

    async def initialise(self, t: std.HostThread) -> None:
        n, f, (x, y) = self.n, self.fields, self.vertices
        width = LENGTH / self.program.cells
        async with t.function():
            await t.for_each(p, set_vertices, x, 0.0, width, HALO)
            await t.for_each(p, set_vertices, y, 0.0, width, HALO)
            await t.for_each(p, set_volume, f["volume"], f["x_area"], f["y_area"], n, width)
        async with t.function():
            await t.for_each(p, set_background, f["energy0"], f["density"], n, *BACKGROUND)
            edge = width / 100.0
            for energy, density, left, right, bottom, top in RECTANGLES:
                inside = (left + edge, right - edge, bottom + edge, top - edge)
                await t.for_each(
                    p, set_rectangle, x, y, f["energy0"], f["density"], f["u"], n, energy, density, *inside
                )
        await self.halos(t, 2, "density", "energy0", "energy")
        async with t.function():
            await t.copy(p, f["energy0"], f["energy"])

    async def halos(self, t: std.HostThread, depth: int, *names: str) -> None:
        """Reflect these fields at all faces of the grid."""
        async with t.function():
            for name in names:
                for face in FACES:
                    await loads(t, self.neighbours)
                    await t.for_each(p, face, self.fields[name], self.n, HALO, depth)

    async def solve(self, t: std.HostThread) -> int:
        """Take one time step; return the number of iterations."""
        n, f = self.n, self.fields
        await self.halos(t, 2, "energy", "density")
        rro = await self.cg_init(t)
        await self.halos(t, 1, "u", "p")
        async with t.function():
            await t.for_each(p, copy_interior, f["u"], f["u0"], n, HALO)
        iterations = 0
        for number in self.program.step_numbers(self.program.steps):
            rro = await self.cg_iteration(t, number, rro)
            await self.halos(t, 1, "u", "p")
            iterations = number + 1
            if rro is not None and math.sqrt(abs(rro)) < EPSILON:
                break
        async with t.function():
            await t.for_each(p, calculate_residual, f["u"], f["u0"], f["r"], f["kx"], f["ky"], n, HALO)
        async with t.function():
            await t.transform_reduce(p, norm, f["r"], n, HALO)
        async with t.function():
            await t.for_each(p, finalise, f["energy"], f["density"], f["u"], n, HALO)
        await self.halos(t, 1, "u", "p", "energy")
        return iterations

    async def cg_init(self, t: std.HostThread) -> float | None:
        n, f = self.n, self.fields
        async with t.function():
            await t.for_each(p, cg_init_u, f["p"], f["r"], f["u"], f["energy"], f["density"], n)
            await t.for_each(p, cg_init_w, f["w"], f["density"], n)
            await t.for_each(p, cg_init_k, f["kx"], f["ky"], f["w"], n, HALO, self.rate)
            total: float | None = await t.transform_reduce(
                p, cg_init_r, f["u"], f["w"], f["r"], f["p"], f["kx"], f["ky"], n, HALO
            )
        return total

    async def cg_iteration(self, t: std.HostThread, number: int, rro: float | None) -> float | None:
        """Run one iteration; return the square of the residual after it, None for phantoms."""
        n, f = self.n, self.fields
        async with t.function():
            pw = await t.transform_reduce(p, cg_calc_w, f["p"], f["w"], f["kx"], f["ky"], n, HALO)
        alpha = 0.0 if rro is None else rro / pw
        await stores(t, std.section(self.alphas, number, 1), alpha)
        async with t.function():
            rrn: float | None = await t.transform_reduce(p, cg_calc_ur, f["u"], f["p"], f["r"], f["w"], n, HALO, alpha)
        beta = 0.0 if rrn is None or rro is None else rrn / rro
        await stores(t, std.section(self.betas, number, 1), beta)
        async with t.function():
            await t.for_each(p, cg_calc_p, f["p"], f["r"], n, HALO, beta)
        return rrn

    async def field_summary(self, t: std.HostThread) -> float | None:
        """Return the one of the benchmark's four sums that it checks."""
        f = self.fields
        async with t.function():
            total: float | None = await t.transform_reduce(
                p, temperature, f["volume"], f["density"], f["u"], self.n, HALO
            )
        return total
