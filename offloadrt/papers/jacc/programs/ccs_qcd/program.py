"""CCS-QCD as a program: the clover term and its inverse, then BiCGStab on the even sites.

Half of the sites are even, half odd: a field holds one half. An iteration of the solver here is a round of BiCGStab,
which the public code counts as two.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import attrs
import numpy as np

from offloadrt.papers.jacc.programs.benchmark import (
    Arrays,
    Benchmark,
    BenchmarkProgram,
    KernelCall,
    Number,
    OnHost,
    ProgramStep,
    Values,
    call,
)
from offloadrt.papers.jacc.programs.ccs_qcd import clover as cl
from offloadrt.papers.jacc.programs.ccs_qcd import solver, vectors
from offloadrt.papers.jacc.programs.layer import Layer

KAPPA: Final = 0.126
CLOVER: Final = 1.0
"""The coefficient of the clover term."""
X, Y, Z, T = (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)
STEPS: Final = (X, Y, Z, T)
"""For each direction, the step in x, y and z; along t a step leads to the other half of the sites."""
PLANES: Final = tuple((m, n) for m in range(3) for n in range(m + 1, 4))
PARITIES: Final = ("e", "o")


@attrs.frozen(eq=False)
class Memory:
    """A change of device memory between two phases: arrays with the host's values, without, and to be freed."""

    copyin: tuple[Any, ...] = ()
    create: tuple[Any, ...] = ()
    delete: tuple[Any, ...] = ()

    async def run(self, layer: Layer) -> None:
        if self.delete:
            await layer.delete(*self.delete)
        if self.copyin:
            await layer.copyin(*self.copyin)
        if self.create:
            await layer.create(*self.create)


@attrs.frozen(eq=False)
class Phases(BenchmarkProgram):
    """A program whose phases have arrays of their own."""

    @property
    def nbytes(self) -> int:
        """Return the largest size of the arrays that are there together."""
        now: int = sum(array.nbytes for array in self.arrays)
        most = now
        for step in (*self.setup, *self.finish):
            if isinstance(step, Memory):
                now -= sum(array.nbytes for array in step.delete)
                now += sum(array.nbytes for array in (*step.copyin, *step.create))
                most = max(most, now)
        return most


def links(inner: tuple[int, ...], seed: int) -> Any:
    """Draw links near the unit matrix, periodic."""
    random = np.random.default_rng(seed)
    values = 0.1 * random.normal(size=(4, *inner, 3, 3, 2)).view(np.complex128)[..., 0]
    values[..., range(3), range(3)] += 1.0
    return np.pad(values, ((0, 0), (1, 1), (1, 1), (1, 1), (1, 0), (0, 0), (0, 0)), mode="wrap")


def source_of(inner: tuple[int, ...]) -> Any:
    """Draw a source on all sites, periodic."""
    values = np.random.default_rng(7).normal(size=(*inner, 12, 2)).view(np.complex128)[..., 0]
    return np.pad(values, ((1, 1), (1, 1), (1, 1), (1, 0), (0, 0)), mode="wrap")


class Lattice:
    """The arrays of nx times ny times nz times 2 nt sites, and the parts of the program on them."""

    def __init__(self, arrays: Arrays, nx: int, ny: int, nz: int, nt: int) -> None:
        self.size = (nx, ny, nz, nt)
        rim = (nx + 2, ny + 2, nz + 2, nt + 1)
        inner = (nx, ny, nz, nt)

        def numbers(name: str, *shape: int, values: Values | None = None) -> Any:
            return arrays(name, shape, np.complex128, values)

        self.u = {
            parity: numbers(f"u{parity}", 4, *rim, 3, 3, values=functools.partial(links, inner, seed))
            for seed, parity in enumerate(PARITIES)
        }
        self.inverse = {parity: numbers(f"fclinv{parity}", 2, nx, ny, nz, nt + 1, 7, 3) for parity in PARITIES}
        self.strength = {parity: numbers(f"ucl{parity}", 6, *inner, 3, 3) for parity in PARITIES}
        self.w = {parity: numbers(f"wc{parity}", 4, *rim, 3, 3) for parity in PARITIES}
        self.v = {parity: numbers(f"v{parity}", *inner, 3, 3) for parity in PARITIES}
        self.blocks = [numbers(f"f{number}cl", *inner, 6, 6) for number in (1, 2)]
        self.inverses = [numbers(f"f{number}clinv", *inner, 6, 6) for number in (1, 2)]
        self.work, self.d = numbers("aa", *inner, 6, 6), arrays("d", inner)
        fields = ("b", "x", "rt", "p", "t", "q", "r", "my")
        source = functools.partial(source_of, inner)
        self.field = {name: numbers(name, *rim, 12, values=source if name == "b" else None) for name in fields}
        self.sums = arrays("sums", 3)
        self.number = {name: Number() for name in ("rho", "alpha", "omega", "beta")}

    # the clover term

    def clover(self) -> tuple[ProgramStep, ...]:
        """Compute field strengths from links, and the inverses of 1 - clover term on all sites."""
        legs = (*self.w.values(), *self.v.values())
        matrices = (*self.blocks, *self.inverses, self.work, self.d)
        strengths = tuple(self.strength.values())
        inverses = [step for parity in PARITIES for step in self._inverse(parity)]
        return (
            Memory(create=(*strengths, *legs)),
            *(step for plane, (m, n) in enumerate(PLANES) for step in self._plane(plane, m, n)),
            Memory(create=matrices, delete=legs),
            *inverses,
            Memory(delete=(*matrices, *strengths)),
        )

    def _plane(self, plane: int, m: int, n: int) -> list[KernelCall]:
        """Compute the field strength of a plane; each kernel of the public code does the even and the odd sites."""
        nx, ny, nz, nt = self.size
        steps = []
        for parity in PARITIES:
            u, w, v = self.u[parity], self.w[parity], self.v[parity]
            steps += [
                call(cl.legs_ahead, u, w, m, n, *STEPS[m], *STEPS[n], nx, ny, nz),
                call(cl.legs_behind, u, w, m, n, *STEPS[m], *STEPS[n], nx, ny, nz),
                call(cl.leaves, w, v, nx, ny, nz, nt),
                call(cl.strength, v, self.strength[parity], plane),
            ]
        return steps

    def _inverse(self, parity: str) -> list[ProgramStep]:
        f, (first, second) = self.strength[parity], self.blocks
        factor = CLOVER * KAPPA
        steps: list[ProgramStep] = [
            call(cl.block_diagonal_1, f, first, -factor),
            call(cl.block_off_1, f, first, -factor),
            call(cl.block_diagonal_2, f, second, factor),
            call(cl.block_off_2, f, second, factor),
        ]
        for block, inverse in zip(self.blocks, self.inverses, strict=True):
            steps += [
                call(cl.begin_inverse, block, self.work, inverse),
                call(cl.decompose, self.work),
                call(cl.determinant, self.work, self.d),
                call(cl.log_determinant, self.d, self.sums),
                OnHost((self.sums,)),
                call(cl.solve, self.work, inverse),
            ]
        return [*steps, call(cl.fold, *self.inverses, self.inverse[parity])]

    # the solver

    def begin(self) -> tuple[ProgramStep, ...]:
        """Start all vectors from the source."""
        fields = self.field
        rest = tuple(array for name, array in fields.items() if name != "b")
        vectors_of = (fields[name] for name in ("b", "x", "r", "rt", "p"))
        return (
            Memory(copyin=(fields["b"],), create=rest),
            call(vectors.begin, *vectors_of),
            call(vectors.norm_of_source, fields["b"], self.sums, *self.size),
            OnHost((self.sums,), self._begin),
        )

    def end(self) -> tuple[ProgramStep, ...]:
        """Free everything but the solution."""
        return (Memory(delete=tuple(array for name, array in self.field.items() if name != "x")),)

    def iteration(self) -> tuple[ProgramStep, ...]:
        """Run a round of BiCGStab, which applies the operator twice."""
        x, r, rt, p, q, t = (self.field[name] for name in ("x", "r", "rt", "p", "q", "t"))
        number, sums, size = self.number, self.sums, self.size
        alpha, omega, beta = (number[name] for name in ("alpha", "omega", "beta"))
        return (
            *self._operator("p", "q"),
            call(vectors.scalar_product, rt, q, sums, *size),
            OnHost((sums,), self._alpha),
            call(vectors.step_alpha, x, r, p, q, sums, alpha, *size),
            OnHost((sums,)),
            *self._operator("r", "t"),
            call(vectors.products, t, r, sums, *size),
            OnHost((sums,), self._omega),
            call(vectors.step_omega, x, r, t, rt, sums, omega, *size),
            OnHost((sums,), self._beta),
            call(vectors.direction, p, r, q, beta, omega, *size),
        )

    def _operator(self, source: str, target: str) -> list[ProgramStep]:
        """Apply the operator: even to odd to even, subtracted from the source."""
        y, out, my = (self.field[name] for name in (source, target, "my"))
        even, odd = self.u["e"], self.u["o"]
        return [
            *self._rims(y),
            call(solver.hopping, y, my, odd, even, self.inverse["o"], *self.size),
            *self._rims(my),
            call(solver.hopping, my, out, even, odd, self.inverse["e"], *self.size),
            call(solver.subtract, y, out, KAPPA, *self.size),
        ]

    def _rims(self, y: Any) -> list[KernelCall]:
        return [call(kernel, y, *self.size) for kernel in (solver.rim_t, solver.rim_z, solver.rim_y, solver.rim_x)]

    # what the host computes

    def _sum(self) -> complex:
        return complex(float(self.sums[0]), float(self.sums[1]))

    def _begin(self) -> None:
        self.number["rho"].value = complex(float(self.sums[0]))

    def _alpha(self) -> None:
        self.number["alpha"].value = self.number["rho"].value / self._sum()

    def _omega(self) -> None:
        self.number["omega"].value = self._sum() / float(self.sums[2])

    def _beta(self) -> None:
        rho, number = self._sum(), self.number
        number["beta"].value = rho / number["rho"].value * number["alpha"].value / number["omega"].value
        number["rho"].value = rho


def build(arrays: Arrays, size: tuple[int, ...]) -> BenchmarkProgram:
    """Build the program on a lattice of sites in x, y, z, t; the last number is that of the operator's applications."""
    nx, ny, nz, nt, applications = size
    lattice = Lattice(arrays, nx, ny, nz, nt // 2)
    return Phases(
        setup=(*lattice.clover(), *lattice.begin()),
        iteration=lattice.iteration(),
        finish=lattice.end(),
        iterations=applications // 2,
        copyin=tuple(lattice.u.values()),
        create=(*lattice.inverse.values(), lattice.sums),
        results=(lattice.field["x"], *lattice.inverse.values(), lattice.sums),
    )


BENCHMARK = Benchmark(
    name="CCS-QCD",
    dup_s=26.517,
    sizes={"32x32x32x128": (32, 32, 32, 128, 1000), "test": (2, 2, 2, 4, 2)},
    build=build,
)
