"""TeaLeaf solves what a NumPy program solves and what its authors publish; nearly no barrier is elided."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from stdpar_apps_rig import measured, play

from offloadrt.papers.stdpar.programs import TeaLeaf
from offloadrt.papers.stdpar.programs.tealeaf import EPSILON, HALO, LENGTH, RECTANGLES, TIME_STEP

Grid = NDArray[np.float64]
PUBLISHED = 108.4697720003111
"""Temperature after one step of 64 x 64 cells: the last row but of tea.problems in the public source."""


def reflected(inside: Grid) -> Grid:
    return np.pad(inside, HALO, mode="symmetric")


def reference(cells: int) -> tuple[int, Grid, float]:
    """Iterations, energy and temperature of one time step."""
    width = LENGTH / cells
    low = width * np.arange(cells)
    density, energy = np.full((cells, cells), 100.0), np.full((cells, cells), 0.0001)
    for e, d, left, right, bottom, top in RECTANGLES:
        columns = (low + width > left + width / 9) & (low < right - width / 9)
        rows = (low + width > bottom + width / 9) & (low < top - width / 9)
        energy[np.ix_(rows, columns)], density[np.ix_(rows, columns)] = e, d
    rate = TIME_STEP / width**2
    w = reflected(density)[1:-1, 1:-1]
    kx = rate * (w[1:-1, :-1] + w[1:-1, 1:]) / (2 * w[1:-1, :-1] * w[1:-1, 1:])
    ky = rate * (w[:-1, 1:-1] + w[1:, 1:-1]) / (2 * w[:-1, 1:-1] * w[1:, 1:-1])

    def times(x: Grid) -> Grid:
        flow_x, flow_y = (
            kx * np.diff(np.pad(x, ((0, 0), (1, 1)), mode="edge")),
            ky * np.diff(np.pad(x, ((1, 1), (0, 0)), mode="edge"), axis=0),
        )
        return np.asarray(x - np.diff(flow_x) - np.diff(flow_y, axis=0))

    u = energy * density
    r = u - times(u)
    p, square, iterations = r.copy(), float((r * r).sum()), 0
    while True:
        w_p = times(p)
        alpha = square / float((p * w_p).sum())
        u, r = u + alpha * p, r - alpha * w_p
        before, square = square, float((r * r).sum())
        p = r + square / before * p
        iterations += 1
        if math.sqrt(square) < EPSILON:
            return iterations, u / density, float((width * width * density * u).sum())


@pytest.mark.parametrize(
    ("machine", "implementation"),
    [
        ("isambard-a100", "acpp"),
        ("isambard-a100", "native"),
        ("isambard-mi100", "rocstdpar"),
        ("isambard-milan", "host"),
    ],
)
def test_a_small_grid_is_solved_as_numpy_solves_it(machine: str, implementation: str) -> None:
    _, outcome, _ = play(TeaLeaf(12, steps=1000, phantom=False), machine, implementation)
    iterations, energy, temperature = reference(12)
    assert abs(outcome.figures["iterations"] - iterations) <= 1
    assert np.allclose(outcome.results["energy"][HALO:-HALO, HALO:-HALO], energy, rtol=1e-10, atol=0)
    assert outcome.results["temperature"] == pytest.approx(temperature, rel=1e-10)


def test_the_published_temperature_comes_out() -> None:
    _, outcome, _ = play(TeaLeaf(64, steps=1000, phantom=False))
    assert outcome.results["temperature"] == pytest.approx(PUBLISHED, rel=1e-8)


def test_each_iteration_has_eleven_algorithms_and_waits_for_all() -> None:
    few, many = (measured(application="tealeaf", size=256, steps=steps) for steps in (10, 30))
    per_step = {name: (many[name] - few[name]) / 20 for name in many if isinstance(many[name], int)}
    assert (per_step["algorithms"], per_step["waits"], per_step["elided"]) == (11, 11, 0)
    assert (per_step["kept_value"], per_step["kept_exit"], per_step["kept_access"]) == (2, 2, 7)
    assert few["elided"] == 3, "the kernels that lead to the first residual"


def test_a_program_with_waits_of_its_own_waits_for_sums_only() -> None:
    found = measured(application="tealeaf", size=256, steps=10, implementation="native")
    assert found["waits"] == 2 * 10 + 3
