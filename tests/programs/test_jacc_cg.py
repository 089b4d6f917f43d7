"""CG: the eigenvalue that it finds on one and on several devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jacc_rig import run_benchmark

from offloadrt.programs.jacc.cg import random_matrix

ROWS, PER_ROW, ITERATIONS = 60, 9, 3


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


@pytest.mark.parametrize("strategy", ["single", "adaptive", "always", "macc"])
@pytest.mark.parametrize("devices", [1, 2, 4])
def test_the_vector_is_that_of_a_direct_solver(devices: int, strategy: str) -> None:
    """25 steps solve a system of 60 rows that far; one and several devices agree bit by bit."""
    found = run_benchmark("CG", 1 if strategy == "single" else devices, strategy=strategy).results["x"]
    np.testing.assert_allclose(found, by_solving(), rtol=1e-6)
    assert np.array_equal(found, run_benchmark("CG").results["x"])


def test_directives_compute_the_same() -> None:
    found = run_benchmark("CG", layer="original")
    assert np.array_equal(found.results["x"], run_benchmark("CG").results["x"])
    assert found.kernels["multiply"].executions == 25 * ITERATIONS + 25


def test_a_multiplication_sends_a_quarter_of_its_vector() -> None:
    found = run_benchmark("CG", 4, phantom=True, strategy="adaptive", fraction=1 / 3750)
    row = found.kernels["multiply"]
    assert row.adapted and row.sent_bytes == row.divided * 4 * 3 * 150_000 * 8 // 4
