"""CG: the eigenvalue that it finds on one and on several devices."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from jacc_rig import run_benchmark

from offloadrt.papers.jacc.programs.cg import random_matrix

ROWS, PER_ROW, ITERATIONS = 40, 7, 2
STRATEGIES = "adaptive", "always", "macc"


def dense() -> Any:
    matrix = random_matrix(ROWS, (PER_ROW - 1) // 2)
    found = np.zeros((ROWS, ROWS))
    for row in range(ROWS):
        part = slice(matrix.rowstr[row], matrix.rowstr[row + 1])
        found[row, matrix.colidx[part]] = matrix.values[part]
    return found


def by_solving() -> Any:
    """The inverse power iteration with a direct solver."""
    x = np.ones(ROWS)
    for _ in range(ITERATIONS):
        z = np.linalg.solve(dense(), x)
        x = z / np.linalg.norm(z)
    return x


@functools.cache
def alone() -> Any:
    """What one device computes."""
    return run_benchmark("CG").results["x"]


@pytest.mark.parametrize(
    ("devices", "strategy"),
    [
        (1, "single"),
        (1, "adaptive"),
        *((2, strategy) for strategy in STRATEGIES),
        *(pytest.param(1, strategy, marks=pytest.mark.slow) for strategy in STRATEGIES[1:]),
        *(pytest.param(4, strategy, marks=pytest.mark.slow) for strategy in STRATEGIES),
    ],
)
def test_the_vector_is_that_of_a_direct_solver(devices: int, strategy: str) -> None:
    """25 steps solve a system of 40 rows that far; several devices add up inner products in another order."""
    found = run_benchmark("CG", devices, strategy=strategy)
    np.testing.assert_allclose(found.results["x"], by_solving(), rtol=1e-6)
    np.testing.assert_allclose(found.results["x"], alone(), rtol=1e-12)
    assert not found.refused or strategy == "macc"


def test_directives_compute_the_same() -> None:
    found = run_benchmark("CG", layer="original")
    assert np.array_equal(found.results["x"], alone())
    assert found.kernels["multiply"].executions == 25 * ITERATIONS + 25


def test_inner_products_are_divided_and_send_nothing_to_one_another() -> None:
    found = run_benchmark("CG", 4, phantom=True, strategy="always", fraction=1 / 3750)
    for name in ("inner_product", "rho", "norms"):
        row = found.kernels[name]
        assert row.divided == row.executions and row.sent_bytes == row.communication_s == 0


def test_a_multiplication_sends_a_quarter_of_its_vector() -> None:
    found = run_benchmark("CG", 4, phantom=True, strategy="adaptive", fraction=1 / 3750)
    row = found.kernels["multiply"]
    assert row.adapted and row.sent_bytes == row.divided * 4 * 3 * 150_000 * 8 // 4
