"""Unit costs from Nsight Systems' exports: databases with known times give these times back."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest
from made_traces import THREAD, US, MadeNsys

from offloadrt.calibration.calibration import Calibration, calibrate
from offloadrt.machine import load

OTHER_THREAD = THREAD + 1
MIB = 1 << 20


def measured(*files: Path) -> Calibration:
    return calibrate(files, load("alex-a100"))


def values(*files: Path) -> dict[str, float]:
    return {entry.base.key: entry.measurement.value for entry in measured(*files).entries}


@pytest.fixture
def made(tmp_path):
    return MadeNsys(tmp_path / "made.sqlite")


@pytest.mark.parametrize("schema", [2, 3])
def test_a_call_costs_the_median_of_its_times_whatever_its_version(tmp_path, schema):
    made = MadeNsys(tmp_path / "made.sqlite", schema)
    times = [3100, 3300, 3200, 9_000_000, 3250]
    for number, time in enumerate(times):
        start = number * 20_000 * US
        made.call("cudaLaunchKernel_v7000", start, start + time)
    (entry,) = measured(made.written()).entries
    found = entry.measurement
    assert entry.base.key == "driver.launch"
    assert (found.value, found.count) == (pytest.approx(median(times) * 1e-9), 5)
    assert found.low == pytest.approx(3140e-9) and found.high > 1e-3  # quantiles between the sorted times


def test_failed_calls_and_wrappers_do_not_count(made):
    for number in range(4):
        start = number * 100 * US
        made.call("cudaMallocManaged", start, start + 30 * US)
        made.call("cudaMallocManaged_v6000", start + 1, start + 29 * US)  # the library's own entry, inside the wrapper
        made.call("cudaMallocManaged_v6000", start + 50 * US, start + 51 * US, returned=2)
    (entry,) = measured(made.written()).entries
    assert (entry.measurement.count, entry.measurement.value) == (4, pytest.approx(30e-6))


def test_calls_beside_another_threads_are_left_out_but_beside_its_wait_they_count(made):
    for number in range(4):
        start = number * 1000 * US
        made.call("cuLaunchKernel", start, start + 3 * US)
        made.call("cuLaunchKernel", start + 100 * US, start + 150 * US)  # waits for the other thread's
        made.call("cuLaunchKernel", start + 99 * US, start + 148 * US, OTHER_THREAD)
        made.call("cuLaunchKernel", start + 500 * US, start + 503 * US)
        made.call("cuStreamSynchronize", start + 400 * US, start + 600 * US, OTHER_THREAD)
    (entry,) = measured(made.written()).entries
    assert (entry.measurement.count, entry.measurement.high) == (8, pytest.approx(3e-6))


def test_launches_begin_chain_and_end(made):
    """A kernel begins 2 us after its call, the next one in the stream 1 us after it; the wait returns 3 us later."""
    for number in range(5):
        start = number * 1000 * US
        first = made.call("cuLaunchKernel", start, start + 3 * US)
        second = made.call("cuLaunchKernel", start + 3 * US, start + 6 * US)
        made.kernel(first, start + 5 * US, start + 50 * US)
        made.kernel(second, start + 51 * US, start + 70 * US)
        made.call("cuCtxSynchronize", start + 6 * US, start + 73 * US)
        made.call("cuCtxSynchronize", start + 80 * US, start + 80 * US + 700)
    found = values(made.written())
    expected = {"launch.latency": 2e-6, "launch.gap": 1e-6, "sync.latency": 3e-6, "driver.sync_idle": 0.7e-6}
    assert {key: found[key] for key in expected} == pytest.approx(expected)


def test_sizes_tell_new_segments_from_memory_that_the_driver_held(made):
    """4 us from memory at hand, 100 us for a segment and 20 us for each further one; a free adds 30 us for each."""
    now = 0
    for segments in (0, 0, 0, 0, 1, 1, 1, 4, 8, 8):
        nbytes = max(1024, segments * 2 * MIB)
        call = made.call("cudaMalloc_v3020", now, now + (4 if not segments else 100 + 20 * (segments - 1)) * US)
        made.memory(call, now + US, nbytes)
        now += 1000 * US
        call = made.call("cudaFree_v3020", now, now + (6 + 30 * segments) * US)
        made.memory(call, now + US, nbytes)
        now += 1000 * US
    found = values(made.written())
    assert found == pytest.approx(
        {
            "alloc.cudaMalloc_small": 4e-6,
            "alloc.cudaMalloc_large": 100e-6,
            "alloc.cudaMalloc_segment": 20e-6,
            "alloc.cudaFree": 6e-6,
            "alloc.cudaFree_large": 30e-6,
        }
    )


def test_without_sizes_new_memory_is_told_and_left_to_the_base(made):
    times = [3, 4, 5, 4, 4, 210, 220, 215, 230]
    for number, time in enumerate(times):
        made.call("cudaMalloc", number * 1000 * US, (number * 1000 + time) * US)
    calibration = measured(made.written())
    (entry,) = calibration.entries
    assert (entry.base.key, entry.measurement.value) == ("alloc.cudaMalloc_small", pytest.approx(4e-6))
    assert "the other 4 took 217.5 us, all 9 together 5 us" in entry.measurement.what
    assert "alloc.cudaMalloc_large" in calibration.not_shown
    assert any("--cuda-memory-usage=true" in remark for remark in calibration.remarks)


def test_allocations_that_all_need_new_memory_are_no_cheap_ones(made):
    for number in range(6):
        made.call("cudaMalloc", number * 1000 * US, (number * 1000 + 250) * US)
        made.call("cudaFree", (number * 1000 + 500) * US, (number * 1000 + 505) * US)
    assert values(made.written()) == {"alloc.cudaFree": pytest.approx(5e-6)}


def test_a_free_that_meets_a_kernel_has_waited_for_it(made):
    for number in range(4):
        start = number * 10_000 * US
        made.call("cudaFree", start, start + 5 * US)
        call = made.call("cuLaunchKernel", start + 100 * US, start + 103 * US)
        made.kernel(call, start + 105 * US, start + 4000 * US)
        made.call("cudaFree", start + 200 * US, start + 4010 * US)
    assert values(made.written())["alloc.cudaFree"] == pytest.approx(5e-6)


def copies(made: MadeNsys, kind: int, host: int, rate: float, early: bool) -> None:
    """Copies of 16 B, 1 MiB and 4 MiB: 2 us and the bytes; `early`: the call returns when the engine begins."""
    start = made.number * 100_000 * US
    for nbytes in (16, 16, 16, MIB, MIB, MIB, 4 * MIB, 4 * MIB, 4 * MIB):
        end = start + 10 * US + round(2 * US + nbytes / rate * 1e9)
        call = made.call("cudaMemcpyAsync", start, start + (9 * US if early else end - start + US))
        made.copy(call, start + 10 * US, end, nbytes, kind, host)
        start += 100_000 * US


@pytest.mark.parametrize(("kind", "key"), [(1, "link.h2d_pinned"), (2, "link.d2h_pinned")])
def test_pinned_copies_show_latency_and_bandwidth(made, kind, key):
    copies(made, kind, 1, 20e9, early=True)
    copies(made, kind, 0, 5e9, early=False)
    found = values(made.written())
    assert found[key] == pytest.approx(20e9, rel=1e-3) and found["copy.latency"] == pytest.approx(2e-6, rel=1e-3)
    assert found["driver.copy_submit"] == pytest.approx(9e-6)


def test_pageable_copies_show_the_engine_only_if_they_were_staged_before(tmp_path):
    staged = MadeNsys(tmp_path / "staged.sqlite")
    copies(staged, 1, 0, 24e9, early=True)
    assert values(staged.written())["link.h2d_pinned"] == pytest.approx(24e9, rel=1e-3)
    piecewise = MadeNsys(tmp_path / "piecewise.sqlite")
    copies(piecewise, 1, 0, 5e9, early=False)
    assert "link.h2d_pinned" not in values(piecewise.written())


def test_copies_in_both_directions_at_once_show_no_bandwidth(made):
    for number in range(4):
        start = number * 1000 * US
        made.copy(made.call("cudaMemcpyAsync", start, start + US), start + 10 * US, start + 200 * US, MIB, 1)
        made.copy(made.call("cudaMemcpyAsync", start + US, start + 2 * US), start + 12 * US, start + 210 * US, MIB, 2)
    assert set(values(made.written())) == {"driver.copy_submit"}


def test_names_that_are_no_utf8_do_not_matter(made):
    made.db.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_USER', CAST(x'476569DF' AS TEXT))")
    for number in range(3):
        made.call("cuLaunchKernel", number * 100 * US, number * 100 * US + 3 * US)
    assert values(made.written()) == {"driver.launch": pytest.approx(3e-6)}


def test_another_device_than_the_bases_is_told(made):
    for number in range(3):
        made.call("cuLaunchKernel", number * 100 * US, number * 100 * US + 3 * US)
    made.db.execute("UPDATE TARGET_INFO_GPU SET smCount = 80")
    path = made.written()
    assert "made.sqlite: the device has gpu.sms = 80 SM, but alex-a100 has 108 SM" in measured(path).remarks
