"""CG: the smallest eigenvalue of a random sparse matrix, by conjugate gradients within an inverse power iteration.

The matrix A is in compressed rows. Every inner product is a kernel of its own, whose sum the host needs. The kernels'
parameters are named as in NPB's CG: x is the vector of the power iteration, z the solution of A z = x, r the residual,
p the search direction, and q = A p, all of them of length n. `total` is an array that gets a sum.
"""

from __future__ import annotations

import math
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import expect
from offloadrt.papers.jacc.programs.benchmark import (
    Arrays,
    Benchmark,
    BenchmarkProgram,
    Number,
    OnHost,
    ProgramStep,
    RepeatedSteps,
    call,
)
from offloadrt.papers.jacc.programs.fields import Doubles, named

Ints = NDArray[np.int32]
INNER: Final = 25
"""Steps of conjugate gradients in an iteration."""


def fill_ones(x: Doubles, n: int) -> None:
    """Fill the vector x, of length n, with ones."""
    for i in range(n):
        x[i] = 1.0


def clear_vectors(q: Doubles, z: Doubles, r: Doubles, p: Doubles, n: int) -> None:
    """Set the vectors q, z, r and p, of length n, to zero before the first iteration."""
    for j in range(n):
        q[j] = 0.0
        z[j] = 0.0
        r[j] = 0.0
        p[j] = 0.0


def start_gradients(q: Doubles, z: Doubles, r: Doubles, p: Doubles, x: Doubles, n: int) -> None:
    """Set q = z = 0 and r = p = x. n: the length of the vectors."""
    for j in range(n):
        q[j] = 0.0
        z[j] = 0.0
        r[j] = x[j]
        p[j] = x[j]


def square_sum(r: Doubles, total: Doubles, n: int) -> None:
    """Compute total[0] = r · r over n elements."""
    s = 0.0
    for j in range(n):
        s += r[j] * r[j]
    total[0] = s


def inner_product(p: Doubles, q: Doubles, total: Doubles, n: int) -> None:
    """Compute total[0] = p · q over n elements."""
    s = 0.0
    for j in range(n):
        s += p[j] * q[j]
    total[0] = s


def multiply(a: Doubles, colidx: Ints, rowstr: Ints, p: Doubles, q: Doubles, n: int, row: float) -> None:
    """Compute q = A p; row j of A has elements a[k] in columns colidx[k], for k from rowstr[j] to rowstr[j + 1] - 1.

    n: the number of rows. row: the mean number of elements of a row, from which the kernel's work is counted.
    """
    for j in range(n):
        s = 0.0
        for k in expect(range(rowstr[j], rowstr[j + 1]), trips=row, near=1):
            s += a[k] * p[colidx[k]]
        q[j] = s


def step_solution(z: Doubles, r: Doubles, p: Doubles, q: Doubles, n: int, alpha: float) -> None:
    """Advance the solution by a step of conjugate gradients: set z = z + alpha p and the residual r = r - alpha q."""
    for j in range(n):
        z[j] = z[j] + alpha * p[j]
        r[j] = r[j] - alpha * q[j]


def step_direction(p: Doubles, r: Doubles, n: int, beta: float) -> None:
    """Set p = r + beta p, the next search direction of conjugate gradients. r: the residual. n: the vectors' length."""
    for j in range(n):
        p[j] = r[j] + beta * p[j]


def residual(x: Doubles, r: Doubles, total: Doubles, n: int) -> None:
    """Compute total[0] = |x - r|², the squared norm of the residual if r = A z. n: the vectors' length."""
    s = 0.0
    for j in range(n):
        d = x[j] - r[j]
        s += d * d
    total[0] = s


def norms(x: Doubles, z: Doubles, total: Doubles, n: int) -> None:
    """Compute total[0] = x · z and total[1] = z · z over n elements."""
    s = 0.0
    t = 0.0
    for j in range(n):
        s += x[j] * z[j]
        t += z[j] * z[j]
    total[0] = s
    total[1] = t


def normalise(x: Doubles, z: Doubles, n: int, scale: float) -> None:
    """Set x = scale z, where `scale` makes z a vector of length 1. n: the number of elements."""
    for j in range(n):
        x[j] = scale * z[j]


KERNELS: Final = {
    name: named(name, function, 1)
    for name, function in (
        ("clear_vectors", clear_vectors),
        ("fill_x", fill_ones),
        ("warm_norms", norms),
        ("warm_normalise", normalise),
        ("refill_x", fill_ones),
        ("start_gradients", start_gradients),
        ("first_rho", square_sum),
        ("multiply", multiply),
        ("inner_product", inner_product),
        ("step_solution", step_solution),
        ("rho", square_sum),
        ("step_direction", step_direction),
        ("multiply_z", multiply),
        ("residual", residual),
        ("norms", norms),
        ("normalise", normalise),
    )
}
"""The warm-up, the eigenvalue's iteration and the gradients have kernels of their own, as in the public code."""


@attrs.frozen(eq=False)
class Matrix:
    """A random symmetric positive definite sparse matrix in compressed rows.

    Row i has the elements `values[k]` in the columns `colidx[k]`, for k from rowstr[i] to rowstr[i + 1] - 1.
    """

    values: Doubles
    colidx: Ints
    rowstr: Ints


def random_matrix(n: int, per_row: int) -> Matrix:
    """Make a symmetric matrix of n rows with, per row, `per_row` random elements smaller than the diagonal's."""
    generator = np.random.default_rng(314159265)
    dense = np.zeros((n, n))
    for j in range(n):
        dense[j, generator.integers(0, n, per_row)] = generator.random(per_row)
    dense = dense + dense.T
    np.fill_diagonal(dense, 0.0)
    np.fill_diagonal(dense, dense.sum(axis=1) + 1.0)
    rows, columns = np.nonzero(dense)
    starts = np.searchsorted(rows, np.arange(n + 1))
    return Matrix(dense[rows, columns], columns.astype(np.int32), starts.astype(np.int32))


def build(arrays: Arrays, size: tuple[int, ...]) -> BenchmarkProgram:
    """Build the program; `arrays` makes its arrays.

    size: (rows, mean elements per row, space for elements or 0 for as many as needed, iterations).
    """
    n, per_row, elements, iterations = size
    made = None if elements else random_matrix(n, (per_row - 1) // 2)
    count = elements if made is None else len(made.values)
    matrix = (
        arrays("a", count, np.float64, None if made is None else lambda: made.values),
        arrays("colidx", count, np.int32, None if made is None else lambda: made.colidx),
        arrays("rowstr", n + 1, np.int32, None if made is None else lambda: made.rowstr),
    )
    x, z, p, q, r = (arrays(name, n) for name in "xzpqr")
    total = arrays("total", 2)
    rho, alpha, beta, scale = Number(), Number(), Number(), Number()

    def first_rho() -> None:
        rho.value = float(total[0])

    def find_alpha() -> None:
        alpha.value = rho.value / float(total[0])

    def find_beta() -> None:
        beta.value = float(total[0]) / rho.value
        rho.value = float(total[0])

    def find_scale() -> None:
        scale.value = 1.0 / math.sqrt(float(total[1]))

    def gradients(times: int) -> tuple[ProgramStep, ...]:
        return (
            call(KERNELS["start_gradients"], q, z, r, p, x, n),
            call(KERNELS["first_rho"], r, total, n),
            OnHost((total,), first_rho),
            RepeatedSteps(
                times,
                (
                    call(KERNELS["multiply"], *matrix, p, q, n, float(per_row)),
                    call(KERNELS["inner_product"], p, q, total, n),
                    OnHost((total,), find_alpha),
                    call(KERNELS["step_solution"], z, r, p, q, n, alpha),
                    call(KERNELS["rho"], r, total, n),
                    OnHost((total,), find_beta),
                    call(KERNELS["step_direction"], p, r, n, beta),
                ),
            ),
            call(KERNELS["multiply_z"], *matrix, z, r, n, float(per_row)),
            call(KERNELS["residual"], x, r, total, n),
            OnHost((total,)),
        )

    def iteration(norms: str, normalise: str) -> tuple[ProgramStep, ...]:
        return (
            *gradients(INNER),
            call(KERNELS[norms], x, z, total, n),
            OnHost((total,), find_scale),
            call(KERNELS[normalise], x, z, n, scale),
        )

    return BenchmarkProgram(
        setup=(
            call(KERNELS["clear_vectors"], q, z, r, p, n),
            call(KERNELS["fill_x"], x, n),
            *iteration("warm_norms", "warm_normalise"),
            call(KERNELS["refill_x"], x, n),
        ),
        iteration=iteration("norms", "normalise"),
        iterations=iterations,
        copyin=matrix,
        create=(x, z, p, q, r, total),
        results=(x, total),
    )


ROW: Final = 36_121_058 / 150_000
"""The mean number of elements of a row in class C of the public code."""
ROOM: Final = 150_000 * 16 * 16 + 150_000 * 17
"""The number of elements that the public code has room for."""

BENCHMARK = Benchmark(
    name="CG",
    dup_s=75.178,
    sizes={"C": (150_000, round(ROW), ROOM, 3750), "test": (40, 7, 0, 2)},
    build=build,
)
