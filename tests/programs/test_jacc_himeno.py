"""Himeno: its numbers on one and on several devices, and what it sends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jacc_rig import run_benchmark

SHAPE, STEPS, OMEGA = (18, 9, 8), 8, 0.8


def in_numpy() -> Any:
    """With the public code's coefficients: a = 1, 1, 1, 1/6; b = 0; c = 1."""
    ramp = (np.arange(SHAPE[0]) / (SHAPE[0] - 1)) ** 2
    p = np.broadcast_to(ramp[:, None, None], SHAPE).copy()
    for _ in range(STEPS):
        around = p[2:, 1:-1, 1:-1] + p[1:-1, 2:, 1:-1] + p[1:-1, 1:-1, 2:]
        around = around + p[:-2, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 1:-1, :-2]
        p[1:-1, 1:-1, 1:-1] += OMEGA * (around / 6.0 - p[1:-1, 1:-1, 1:-1])
    return p


@pytest.mark.parametrize("strategy", ["single", "adaptive", "always", "macc"])
@pytest.mark.parametrize("devices", [1, 2, 4])
def test_the_pressure_is_that_of_a_sequential_solver(devices: int, strategy: str) -> None:
    found = run_benchmark("Himeno", 1 if strategy == "single" else devices, strategy=strategy).results["p"]
    np.testing.assert_allclose(found, in_numpy(), rtol=2e-5)
    assert np.array_equal(found, run_benchmark("Himeno").results["p"])


def test_directives_compute_the_same() -> None:
    assert np.array_equal(run_benchmark("Himeno", layer="original").results["p"], run_benchmark("Himeno").results["p"])


def test_a_quarter_of_the_pressure_is_sent_and_only_the_long_kernel_is_divided() -> None:
    """jacc.detail.Himeno.write 271.47 MB; jacc.detail.Himeno.adapted 1."""
    found = run_benchmark("Himeno", 4, phantom=True, strategy="adaptive", fraction=0.01)
    assert found.adapted == 1 and found.kernels["jacobi"].divided == 10 - 5
    interior = 1022 * 512 * 512 * 4
    assert found.write_bytes == interior / 4 == pytest.approx(271.47e6, rel=0.02)
