"""FT, MG and SP with numbers on several devices, and what BT's eliminations send."""

from __future__ import annotations

import numpy as np
import pytest
from jacc_rig import run_benchmark

from offloadrt.extensions.openacc.multi_device import predicate
from offloadrt.papers.jacc.programs import benchmark, bt
from offloadrt.papers.jacc.programs.benchmark import extent


@pytest.mark.parametrize("name", ["FT", "MG"])
@pytest.mark.parametrize(("devices", "strategy"), [(2, "always"), (4, "always"), (2, "adaptive"), (4, "macc")])
def test_several_devices_compute_what_one_does(name: str, devices: int, strategy: str) -> None:
    """Bit by bit, but for sums, which devices add up from partial ones."""
    alone, found = run_benchmark(name).results, run_benchmark(name, devices, strategy=strategy).results
    for array, values in alone.items():
        assert np.isfinite(values).all()
        if array in ("sums", "total"):
            np.testing.assert_allclose(found[array], values, rtol=1e-13)
        else:
            assert np.array_equal(found[array], values)


@pytest.mark.slow
def test_sp_on_four_devices_computes_what_one_does() -> None:
    """Every one of its 65 kernels can be divided."""
    alone, found = run_benchmark("SP"), run_benchmark("SP", 4, strategy="always")
    assert np.isfinite(alone.results["u"]).all() and np.array_equal(found.results["u"], alone.results["u"])
    assert not found.refused and all(row.divided == row.executions for row in found.kernels.values())


def test_cycles_bring_the_residual_down() -> None:
    """MG solves: the norm that it ends with is below that of its right-hand side, 20 unit charges among 512 points."""
    norm = run_benchmark("MG", fraction=1.0).results["total"][0]
    assert norm < 0.5 * np.sqrt(20.0)


def test_an_elimination_of_bt_sends_its_matrices_in_75_pieces_of_about_8_mb() -> None:
    """jacc.detail.bt_segments: 75 of 8 MB; jacc.detail.BT.write: 684.1 MB, of which five fields of rhs are a part."""
    program = benchmark("BT").program(extent)
    eliminate = bt.SOLVERS["x"]["eliminate"]
    values = next(call.values for call in program.executions() if call.kernel is eliminate)
    segments = predicate(eliminate).parts(4, values)[0].segments
    assert len(segments["lhs"]) == 75 and len(segments["rhs"]) == 5
    assert all(nbytes == pytest.approx(8e6, rel=0.06) for _, nbytes in segments["lhs"])
    sent = sum(nbytes for ranges in segments.values() for _, nbytes in ranges)
    assert sent == pytest.approx(684.1e6, rel=0.02)
