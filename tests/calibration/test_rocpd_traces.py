"""Unit costs from rocprofv3's rocpd files."""

from __future__ import annotations

import pytest
from made_traces import US, MadeRocpd

from offloadrt.calibration.calibration import calibrate
from offloadrt.calibration.device_trace import CalibrationError
from offloadrt.machine import load

MIB = 1 << 20
GIB = 1 << 30


@pytest.mark.parametrize("views", [True, False])
def test_costs_of_hsa_and_of_the_devices_work(tmp_path, views):
    """A kernel begins 3 us after its call, its wait ends 2 us after it; small copies take 5 us, 9 in all; 60 GB/s."""
    made = MadeRocpd(tmp_path / "made.db", views)
    for number in range(4):
        start = number * 100_000 * US
        made.kernel(made.call("hipLaunchKernel", start, start + 4 * US), start + 7 * US, start + 40 * US)
        made.call("hsa_signal_wait_scacquire", start + 5 * US, start + 42 * US)
        copy = made.call("hsa_amd_memory_async_copy", start + 1000 * US, start + 1001 * US)
        made.copy(copy, start + 1005 * US, start + 1010 * US, 64)
        copy = made.call("hsa_amd_memory_async_copy", start + 2000 * US, start + 2001 * US)
        made.copy(copy, start + 2005 * US, start + 2010 * US + round(64 * MIB / 60), 64 * MIB)
        made.call("hsa_signal_create", start + 9000 * US, start + 9000 * US + 400)
    calibration = calibrate([made.written()], load("mi300a"))
    found = {entry.base.key: entry.measurement.value for entry in calibration.entries}
    assert found == pytest.approx(
        {
            "launch.latency": 3e-6,
            "sync.latency": 2e-6,
            "dma.submit": 1e-6,
            "dma.occupancy": 5e-6,
            "dma.latency": 9e-6,
            "dma.bw": 60e9,
            "signal.create": 0.4e-6,
        },
        rel=1e-4,
    )
    assert calibration.sources == {"calibration1": "made.db: rocprofv3, rocpd schema 3, a made APU"}
    assert calibration.not_used == {"hipLaunchKernel": 4}


def test_allocations_are_fragments_or_a_line_over_their_size(tmp_path):
    """Below a segment 1 us and its free 0.5 us; above 10 us and 40 ms/GiB, frees 8 us and 20 ms/GiB."""
    made = MadeRocpd(tmp_path / "made.db")
    now, address = 0, 1 << 40
    for nbytes in (4096, 4096, 4096, 4 * MIB, 4 * MIB, 64 * MIB, 256 * MIB):
        large = nbytes >= 2 * MIB
        made.allocate(now, now + (round(10 * US + 40e6 * nbytes / GIB) if large else US), address, nbytes)
        now += 100_000 * US
        made.free(now, now + (round(8 * US + 20e6 * nbytes / GIB) if large else 500), address)
        now += 100_000 * US
    found = {e.base.key: e.measurement.value for e in calibrate([made.written()], load("mi300a")).entries}
    per_gib = {key: found.pop(key) * GIB for key in ("alloc.pool_per_gib", "free.pool_per_gib")}
    assert per_gib == pytest.approx({"alloc.pool_per_gib": 0.04, "free.pool_per_gib": 0.02}, rel=1e-4)
    assert found == pytest.approx(
        {"alloc.pool_fragment": 1e-6, "alloc.pool_base": 10e-6, "free.pool_fragment": 0.5e-6, "free.pool_base": 8e-6},
        rel=1e-3,
    )


def test_another_schema_is_refused_by_its_number(tmp_path):
    path = MadeRocpd(tmp_path / "made.db", schema="4").written()
    with pytest.raises(CalibrationError, match=r"made\.db: rocpd's schema 4 is not known, only 3 is"):
        calibrate([path], load("mi300a"))


def test_hips_calls_are_those_of_the_driver_where_the_base_has_hip_for_cuda(tmp_path):
    made = MadeRocpd(tmp_path / "made.db")
    for number in range(4):
        start = number * 1000 * US
        made.kernel(made.call("hipLaunchKernel", start, start + 4 * US), start + 7 * US, start + 40 * US)
        made.call("hipDeviceSynchronize", start + 5 * US, start + 46 * US)
    found = {e.base.key: e.measurement.value for e in calibrate([made.written()], load("isambard-mi100")).entries}
    expected = {"driver.launch": 4e-6, "launch.latency": 3e-6, "sync.latency": 6e-6}
    assert found == pytest.approx(expected)
