"""The scenario `unified_memory`: what theory says of its bytes, and how fast a large one is."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from offloadrt.study import Result, execute, find_scenario
from offloadrt.study.errors import UserError


def unified_memory(overrides: dict[str, str] | None = None, **parameters: Any) -> Result:
    return execute(find_scenario("unified_memory"), parameters, overrides=overrides)


SMALL = {"mem.size": "2 GB", "mem.reserved": "0 B"}


def test_what_fits_migrates_once() -> None:
    result = unified_memory(size_gb=2.0, reuse=3)
    assert result.measured["to_device_gb"] == pytest.approx(2.0, rel=1e-3)
    assert result.measured["to_host_gb"] == result.faults["evicted_blocks"] == 0


def test_what_does_not_fit_migrates_every_time() -> None:
    """A cyclic sweep under LRU: every page comes anew in each of the rounds."""
    result = unified_memory(SMALL, size_gb=2.2, reuse=2)
    assert float(result.measured["size_over_memory"] or 0) >= 1.1
    assert result.measured["to_device_gb"] == pytest.approx(2 * 2.2, rel=1e-3)


def test_keeping_an_array_on_the_host_spares_the_others_their_migrations() -> None:
    hybrid, managed = (unified_memory(SMALL, size_gb=2.2, reuse=2, placement=one) for one in ("hybrid", "managed"))
    assert hybrid.measured["evicted_blocks"] == 0
    assert hybrid.faults["bytes_transfer_htod"] == pytest.approx(1.1e9, rel=1e-3)
    assert managed.faults["bytes_transfer_htod"] == pytest.approx(4.4e9, rel=1e-3)


def test_with_all_data_prefetched_no_kernel_faults() -> None:
    assert unified_memory(size_gb=1.0, placement="prefetch").faults["gpu_page_fault"] == 0


def test_what_is_mapped_ahead_crosses_the_link_at_its_bandwidth_without_a_fault() -> None:
    """A kernel reads and writes all of 1 GB; with the preferred location alone it faults on every page before."""
    link = {"remote.access_bw": "20 GB/s"}
    ahead, by_faults = (unified_memory(link, size_gb=1.0, placement=one) for one in ("zero_copy", "host"))
    assert ahead.faults["gpu_page_fault"] == 0
    assert ahead.measured["time_s"] == pytest.approx(1.0 / 20.0, rel=0.05)
    assert float(by_faults.measured["time_s"] or 0) > 2 * float(ahead.measured["time_s"] or 0)


def test_explicit_copies_have_to_fit() -> None:
    unified_memory(size_gb=1.0, placement="explicit", read_back=1000)
    with pytest.raises(UserError, match="CUDA_ERROR_OUT_OF_MEMORY: array 'array 1'"):
        unified_memory(SMALL, size_gb=2.2, placement="explicit")


@pytest.mark.parametrize("density", [0.01, 0.3])
def test_density_is_the_part_of_the_pages(density: float) -> None:
    found = execute(
        find_scenario("unified_memory"),
        {"size_gb": 2.0, "arrays": 1, "density": density},
        overrides={"prefetch.tree": "false"},
    )
    assert float(found.measured["to_device_gb"] or 0) / 2.0 == pytest.approx(density, rel=0.15)


MEASURE = """
import time
from pathlib import Path
from offloadrt.study import execute, find_scenario
begin = time.process_time()
execute(find_scenario("unified_memory"), {"size_gb": 32.0})
status = Path("/proc/self/status").read_text()  # ru_maxrss would count the process that this one was forked from
print(time.process_time() - begin, int(status.split("VmHWM:")[1].split()[0]) / 1000)
"""


@pytest.mark.slow
def test_32_gb_take_less_than_10_s_and_500_mb() -> None:
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    seconds, megabytes = map(float, done.stdout.split())
    assert seconds < 10.0
    assert megabytes < 500.0


def test_results_that_the_host_reads_come_back_once() -> None:
    result = unified_memory(size_gb=1.0, reuse=3, read_result=True)
    assert result.measured["to_host_gb"] == result.measured["to_device_gb"] == pytest.approx(1.0, rel=1e-3)
