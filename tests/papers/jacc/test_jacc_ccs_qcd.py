"""CCS-QCD: its solver and its inverse blocks against linear algebra, on one and on several devices; and its size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jacc_rig import run_benchmark

from offloadrt.papers.jacc.programs import benchmark, ccs_qcd
from offloadrt.papers.jacc.programs.benchmark import extent
from offloadrt.papers.jacc.programs.ccs_qcd import KAPPA, links, source_of

CCS_QCD = benchmark("CCS-QCD")
NX, NY, NZ, NT, APPLICATIONS = CCS_QCD.sizes["test"]
INNER = (NX, NY, NZ, NT // 2)

GAMMA = np.zeros((4, 4, 4), complex)
"""By direction: hermitian, their squares are 1, and they anticommute."""
GAMMA[0][[0, 1, 2, 3], [3, 2, 1, 0]] = [1j, 1j, -1j, -1j]
GAMMA[1][[0, 1, 2, 3], [3, 2, 1, 0]] = [1, -1, -1, 1]
GAMMA[2][[0, 1, 2, 3], [2, 3, 0, 1]] = [1j, -1j, -1j, 1j]
GAMMA[3] = np.diag([-1, -1, 1, 1])


@pytest.fixture(scope="module")
def alone() -> Any:
    """What one device computes."""
    return run_benchmark("CCS-QCD").results


def field(array: Any) -> Any:
    """[x, y, z, t, spin, colour], without its rim."""
    inside = array[1:-1, 1:-1, 1:-1, 1:]
    return inside.reshape(*INNER, 4, 3)


def gauge(seed: int) -> Any:
    """[direction, x, y, z, t, row, column], without its rim."""
    inside = links(INNER, seed)[:, 1:-1, 1:-1, 1:-1, 1:]
    return np.swapaxes(inside, -1, -2)


def blocks(folded: Any) -> Any:
    """[chirality, x, y, z, t, 6, 6] of the folded lower triangles."""
    packed = folded[:, :, :, :, 1:]
    full = np.zeros((*packed.shape[:-2], 6, 6), complex)
    for column in range(3):
        full[..., column:, column] = packed[..., column + 1 :, column]
        full[..., column + 3, 3 : column + 4] = packed[..., : column + 1, column]
    lower = np.tril(full, -1)
    return lower + np.conj(np.swapaxes(lower, -1, -2)) + full * np.eye(6)


def hopping(y: Any, ahead: Any, behind: Any, inverse: Any) -> Any:
    """The neighbour ahead in t has the same index, the one behind the index before."""
    total = np.zeros_like(y)
    for mu in range(4):
        forward = y if mu == 3 else np.roll(y, -1, mu)
        total += np.einsum("...ab,sr,...rb->...sa", ahead[mu], np.eye(4) + GAMMA[mu], forward)
        turned = np.einsum("...ba,sr,...rb->...sa", np.conj(behind[mu]), np.eye(4) - GAMMA[mu], y)
        total += np.roll(turned, 1, mu)
    halves = np.moveaxis(total.reshape(*INNER, 2, 6), -2, 0)
    return np.moveaxis(np.einsum("q...ab,q...b->q...a", inverse, halves), 0, -2).reshape(y.shape)


def test_the_gamma_matrices_anticommute() -> None:
    for mu in range(4):
        for nu in range(4):
            both = GAMMA[mu] @ GAMMA[nu] + GAMMA[nu] @ GAMMA[mu]
            assert np.array_equal(both, 2.0 * np.eye(4) * (mu == nu))


def test_the_residual_is_that_of_the_solution(alone: Any) -> None:
    even, odd = gauge(0), gauge(1)
    x, b = field(alone["x"]), field(source_of(INNER))
    half = hopping(x, odd, even, blocks(alone["fclinvo"]))
    applied = x - KAPPA**2 * hopping(half, even, odd, blocks(alone["fclinve"]))
    residual = np.linalg.norm(b - applied)
    assert alone["sums"][2] == pytest.approx(residual**2, rel=1e-8)
    assert residual < 0.5 * np.linalg.norm(b)


def test_blocks_are_inverted() -> None:
    random = np.random.default_rng(3)
    root = random.normal(size=(*INNER, 6, 6)) + 1j * random.normal(size=(*INNER, 6, 6))
    positive = root @ np.conj(np.swapaxes(root, -1, -2)) + np.eye(6)
    work, inverse, d = np.zeros_like(positive), np.zeros_like(positive), np.zeros(INNER)
    ccs_qcd.begin_inverse(positive, work, inverse)
    ccs_qcd.decompose(work)
    ccs_qcd.determinant(work, d)
    ccs_qcd.solve(work, inverse)
    np.testing.assert_allclose(inverse, np.linalg.inv(positive), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(d, np.linalg.det(positive).real, rtol=1e-9)


def test_four_devices_compute_the_same(alone: Any) -> None:
    found = run_benchmark("CCS-QCD", 4, strategy="always").results
    for name, expected in alone.items():  # scalar products are added up in parts
        np.testing.assert_allclose(found[name], expected, rtol=1e-13, atol=1e-15 * np.abs(expected).max())


def test_memory_kernels_and_executions_are_those_of_the_paper() -> None:
    """jacc.bench.CCS-QCD: 15.255 GB, 27 kernels; jacc.detail.CCS-QCD.launches: 13434."""
    program = CCS_QCD.program(extent)
    assert program.nbytes == pytest.approx(15.255e9, rel=0.02)
    launches = program.launches()
    assert len(launches) == 27
    assert sum(launches.values()) == pytest.approx(13_434, rel=0.02)


@pytest.mark.slow
def test_ccs_qcd_fits_a_device_and_its_long_kernels_are_divided() -> None:
    found = run_benchmark("CCS-QCD", 4, phantom=True, strategy="adaptive", fraction=0.012)
    assert found.kernels["hopping"].adapted
    assert found.kernels["product"].sent_bytes < 1024  # its devices exchange partial values
