"""Himeno: its numbers on one and on several devices, and what it sends."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from jacc_rig import run_benchmark

SHAPE, STEPS, OMEGA = (18, 9, 8), 8, 0.8


def in_numpy() -> tuple[Any, float]:
    """Pressure and gosa, with the public code's coefficients: a = 1, 1, 1, 1/6; b = 0; c = 1."""
    ramp = (np.arange(SHAPE[0]) / (SHAPE[0] - 1)) ** 2
    p = np.broadcast_to(ramp[:, None, None], SHAPE).copy()
    residual = p
    for _ in range(STEPS):
        around = p[2:, 1:-1, 1:-1] + p[1:-1, 2:, 1:-1] + p[1:-1, 1:-1, 2:]
        around = around + p[:-2, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 1:-1, :-2]
        residual = around / 6.0 - p[1:-1, 1:-1, 1:-1]
        p[1:-1, 1:-1, 1:-1] += OMEGA * residual
    return p, float((residual * residual).sum())


@functools.cache
def alone() -> Any:
    """What one device computes."""
    return run_benchmark("Himeno").results


@pytest.mark.parametrize("strategy", ["single", "adaptive", "always", "macc"])
@pytest.mark.parametrize("devices", [1, 2, 4])
def test_pressure_and_residual_are_those_of_a_sequential_solver(devices: int, strategy: str) -> None:
    """The pressure bit by bit, the residual but for the order in which it is added up."""
    run = run_benchmark("Himeno", 1 if strategy == "single" else devices, strategy=strategy)
    pressure, gosa = in_numpy()
    np.testing.assert_allclose(run.results["p"], pressure, rtol=2e-5)
    assert np.array_equal(run.results["p"], alone()["p"])
    assert run.results["gosa"][0] == pytest.approx(gosa, rel=1e-4)
    assert run.results["gosa"][0] == pytest.approx(alone()["gosa"][0], rel=1e-6)
    assert not run.refused
    if devices > 1 and strategy in ("always", "macc"):
        assert run.kernels["jacobi"].divided == STEPS


def test_directives_compute_the_same() -> None:
    found = run_benchmark("Himeno", layer="original").results
    assert all(np.array_equal(found[name], alone()[name]) for name in ("p", "gosa"))


def test_a_quarter_of_the_pressure_is_sent_and_only_the_long_kernel_is_divided() -> None:
    """jacc.detail.Himeno.write 271.47 MB; jacc.detail.Himeno.adapted 1."""
    found = run_benchmark("Himeno", 4, phantom=True, strategy="adaptive", fraction=0.01)
    assert found.adapted == 1 and found.kernels["jacobi"].divided == 10 - 5
    interior = 1022 * 512 * 512 * 4
    assert found.write_bytes == interior / 4 == pytest.approx(271.47e6, rel=0.02)
