"""CloverLeaf conserves mass, comes to the published energy, and has windows only within its advection."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stdpar_apps_rig import measured, play

from offloadrt.papers.stdpar.programs.cloverleaf import CloverLeaf

PUBLISHED = 1.82280367310258
"""Kinetic energy of the default input at its end (`report.cpp` of the public source)."""
BIG_KERNELS = 33
HALO_UPDATES = 4 * (5 + 1 + 1 + 4 + 6 + 6)
"""Algorithms of a step: faces times fields."""


def default_input(steps: int) -> CloverLeaf:
    """Two rows of ten cells, of which the left half is dense: what runs without an input file."""
    return CloverLeaf(cells=10, rows=2, edge=(1.0, 0.5), steps=steps, phantom=False)


@pytest.mark.slow
def test_the_published_kinetic_energy_comes_out() -> None:
    _, outcome, _ = play(default_input(75))
    assert outcome.results["time"] == pytest.approx(3.0)
    assert outcome.results["kinetic_energy"] == pytest.approx(PUBLISHED, rel=1e-12)


@pytest.mark.parametrize(
    ("machine", "implementation"),
    [
        ("isambard-a100", "acpp"),
        ("isambard-a100", "native"),
        ("isambard-mi100", "rocstdpar"),
        ("isambard-milan", "host"),
    ],
)
def test_every_implementation_gives_the_same_and_conserves_mass(machine: str, implementation: str) -> None:
    _, outcome, _ = play(default_input(4), machine, implementation)
    _, expected, _ = play(default_input(4))
    assert np.array_equal(outcome.results["density"], expected.results["density"])
    assert outcome.results["kinetic_energy"] == expected.results["kinetic_energy"]
    inside: Any = outcome.results["density"][2:-2, 2:-2]
    assert inside.sum() == pytest.approx(10 * 1.0 + 10 * 0.2, rel=1e-13)
    assert inside.std() > 0.0


def test_a_square_blast_is_the_same_along_both_axes() -> None:
    """Which axis comes first shows at second order only; two steps, one with each first, and a state in the corner."""
    _, outcome, _ = play(CloverLeaf(cells=8, edge=(0.5, 0.5), steps=2, phantom=False))
    inside = outcome.results["density"][2:-2, 2:-2]
    assert np.allclose(inside, inside.T, rtol=1e-4)
    assert not np.array_equal(inside, inside[::-1])


def test_a_step_has_the_algorithms_of_the_public_source() -> None:
    few, many = (measured(application="cloverleaf", size=64, steps=steps) for steps in (1, 3))
    per_step = {name: (many[name] - few[name]) / 2 for name in many if isinstance(many[name], int)}
    assert per_step["algorithms"] == BIG_KERNELS + HALO_UPDATES
    assert per_step["kept_value"] == 1, "the time step"
    assert per_step["elided"] == 2 * 2 + 2 * (4 + 2) + 1, "all but the last kernel of each function of the advection"
    assert per_step["waits"] + per_step["elided"] == per_step["algorithms"]


def test_a_program_with_waits_of_its_own_waits_for_the_time_step_only() -> None:
    found = measured(application="cloverleaf", size=64, steps=3, implementation="native")
    assert found["waits"] == 3 + 1
