"""Little programs with real data give the numbers of plain NumPy under every memory configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from small_qmcpack import SmallMonteCarlo, orbitals_at
from small_specaccel import SmallSolver, SmallStencil

RunProgram = Callable[..., Any]


@pytest.mark.parametrize("crowds", [1, 4])
def test_monte_carlo_is_the_same_under_every_configuration(
    run_program: RunProgram, configuration: str, crowds: int
) -> None:
    program = SmallMonteCarlo()
    ran = run_program(lambda run: program.run(run.openmp, crowds), configuration, phantom=False)
    assert ran.returned.same_bits(program.reference())


def test_monte_carlo_keeps_the_inverse_of_what_it_accepted() -> None:
    program = SmallMonteCarlo(walkers=4, electrons=5, steps=1)
    ended = program.reference()
    matrices = orbitals_at(ended.positions, program._centres)
    assert np.allclose(matrices @ ended.inverse, np.eye(5), atol=1e-6)
    stayed = (ended.positions == program._start).all(axis=-1)
    assert 0 < stayed.sum() < stayed.size, "some moves are accepted, some rejected"


def test_monte_carlo_divides_its_walkers_evenly(run_program: RunProgram) -> None:
    with pytest.raises(ValueError, match="divided evenly"):
        run_program(lambda run: SmallMonteCarlo(walkers=6).run(run.openmp, 4), phantom=False)


def test_stencil_with_a_changing_global_is_the_same_under_every_configuration(
    run_program: RunProgram, configuration: str
) -> None:
    program = SmallStencil()
    ran = run_program(lambda run: program.run(run.openmp), configuration, phantom=False)
    assert ran.returned.tobytes() == program.reference().tobytes()
    assert not np.array_equal(program.reference(), SmallStencil(sweeps=4).reference())


def test_solver_with_stack_arrays_is_the_same_under_every_configuration(
    run_program: RunProgram, configuration: str
) -> None:
    program = SmallSolver()
    ran = run_program(lambda run: program.run(run.openmp), configuration, phantom=False)
    assert ran.returned.tobytes() == program.reference().tobytes()


def test_the_little_solver_solves_its_system() -> None:
    program = SmallSolver(calls=1)
    speed = np.sqrt(1.0 + np.linspace(1.0, 2.0, program.cells) ** 2)
    matrix = np.diag(1.0 + 0.2 * speed) - np.diag(0.1 * speed[1:], -1) - np.diag(0.1 * speed[:-1], 1)
    assert np.allclose(np.linalg.solve(matrix, np.linspace(1.0, 2.0, program.cells)), program.reference())
