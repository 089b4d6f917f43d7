"""Small codes of SPECaccel's shapes with real numbers: a stencil, and a function that maps arrays on its stack.

`SmallStencil` is 403.stencil's shape, with a global weight that the host changes between sweeps; `SmallSolver` is
spC's: each call maps its work arrays, which only the device ever touches, runs kernels on them and unmaps them. The
numbers do not depend on how memory is managed.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import kernel
from offloadrt.models import openmp as omp

Doubles = NDArray[np.float64]


@kernel(name="jacobi", flops_per_iteration=6, bytes_per_iteration=16, threads_per_team=64)
def _jacobi(old: Doubles, new: Doubles, weight: Doubles) -> None:
    new[:] = old
    around = old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
    new[1:-1, 1:-1] = old[1:-1, 1:-1] + weight[0] * (around - 4.0 * old[1:-1, 1:-1])


@attrs.frozen
class SmallStencil:
    """`sweeps` Jacobi sweeps over a square of `side` points with weights that shrink."""

    side: int = 12
    sweeps: int = 5

    def _initial(self) -> Doubles:
        x = np.arange(self.side, dtype=np.float64)
        return np.ascontiguousarray(np.outer(x * x, 1.0 + x) / self.side**3)

    @staticmethod
    def _weight(sweep: int) -> float:
        return 0.25 / (1.0 + sweep)

    async def run(self, program: omp.OpenMP) -> Doubles:
        """Return the grid after all sweeps, from the device."""
        weight = program.declare_target("weight", 1, fill=0.0)

        async def body(t: omp.HostThread) -> Doubles:
            grids = [t.array("grid", (self.side, self.side), fill=self._initial()), t.array("next", (self.side,) * 2)]
            async with t.target_data(omp.map(tofrom=grids[0]), omp.map(alloc=grids[1])):
                for sweep in range(self.sweeps):
                    weight[0] = self._weight(sweep)
                    old, new = grids if sweep % 2 == 0 else grids[::-1]
                    await t.target(
                        _jacobi, old, new, weight, maps=omp.map(to=weight, always=True), iterations=self.side**2
                    )
                await t.target_update(omp.from_(grids[1]))
            return grids[self.sweeps % 2].data.copy()

        (result,) = await program.parallel(body)
        return result

    def reference(self) -> Doubles:
        """Return the same from plain NumPy arrays."""
        old, new = self._initial(), self._initial()
        for sweep in range(self.sweeps):
            _jacobi(old, new, np.array([self._weight(sweep)]))
            old, new = new, old
        return old


@kernel(name="speeds", flops_per_iteration=3, bytes_per_iteration=24, threads_per_team=64)
def _speeds(state: Doubles, speed: Doubles) -> None:
    speed[:] = np.sqrt(1.0 + state * state)


@kernel(name="lhs", flops_per_iteration=4, bytes_per_iteration=40, threads_per_team=64)
def _lhs(speed: Doubles, lhs: Doubles) -> None:
    lhs[0], lhs[1], lhs[2] = -0.1 * speed, 1.0 + 0.2 * speed, -0.1 * speed


@kernel(name="solve", flops_per_iteration=8, bytes_per_iteration=40, threads_per_team=64)
def _solve(lhs: Doubles, state: Doubles) -> None:
    for k in range(1, state.size):
        factor = lhs[0, k] / lhs[1, k - 1]
        lhs[1, k] -= factor * lhs[2, k - 1]
        state[k] -= factor * state[k - 1]
    state[-1] /= lhs[1, -1]
    for k in range(state.size - 2, -1, -1):
        state[k] = (state[k] - lhs[2, k] * state[k + 1]) / lhs[1, k]


@attrs.frozen
class SmallSolver:
    """`calls` calls of a tridiagonal solver over `cells` cells; `speed` and `lhs` lie on the stack of the function."""

    cells: int = 32
    calls: int = 3

    def _initial(self) -> Doubles:
        return np.linspace(1.0, 2.0, self.cells)

    async def run(self, program: omp.OpenMP) -> Doubles:
        """Return the state after all calls, from the device."""

        async def body(t: omp.HostThread) -> Doubles:
            state = t.array("state", self.cells, fill=self._initial())
            speed, lhs = t.array("speed", self.cells), t.array("lhs", (3, self.cells))
            async with t.target_data(omp.map(tofrom=state)):
                for _ in range(self.calls):
                    async with t.target_data(omp.map(alloc=[speed, lhs])):
                        await t.target(_speeds, state, speed, iterations=self.cells)
                        await t.target(_lhs, speed, lhs, iterations=self.cells)
                        await t.target(_solve, lhs, state, iterations=self.cells)
            return state.data.copy()

        (result,) = await program.parallel(body)
        return result

    def reference(self) -> Doubles:
        """Return the same from plain NumPy arrays."""
        state, speed, lhs = self._initial(), np.zeros(self.cells), np.zeros((3, self.cells))
        for _ in range(self.calls):
            _speeds(state, speed)
            _lhs(speed, lhs)
            _solve(lhs, state)
        return state
