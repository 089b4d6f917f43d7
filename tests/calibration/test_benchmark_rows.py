"""Unit costs from the rows that bench/hardware writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from offloadrt.extensions.calibration.calibration import calibrate
from offloadrt.extensions.calibration.device_trace import CalibrationError
from offloadrt.machine import load

MIB = 1 << 20


def row(what: str, variant: str, size: float, seconds: float, threads: int = 1) -> str:
    quantiles = {"p10_s": 0.9 * seconds, "median_s": seconds, "p90_s": 1.2 * seconds}
    return json.dumps({"what": what, "variant": variant, "size": size, "threads": threads, "n": 50, **quantiles})


def written(path: Path, *rows: str) -> Path:
    machine = json.dumps({"what": "machine", "name": "a made GPU", "sms": 108, "memory": 80 * 10**9})
    path.write_text("\n".join((machine, *rows)) + "\n")
    return path


def values(path: Path, base: str) -> dict[str, float]:
    return {entry.base.key: entry.measurement.value for entry in calibrate([path], load(base)).entries}


def test_rows_of_single_operations_are_entries_and_those_of_many_threads_are_not(tmp_path):
    path = written(
        tmp_path / "made.jsonl",
        row("launch", "call", 0, 2e-6),
        row("launch", "call", 0, 90e-6, threads=8),
        row("launch", "begin", 0, 3e-6),
        row("lock", "handover", 0, 8e-6),
        json.dumps({"what": "offload", "mode": "map", "threads": 8, "min_s": 1, "median_s": 1, "per_volume_s": 1}),
        json.dumps({"what": "failed", "variant": "managed", "reason": "not supported"}),
    )
    assert values(path, "alex-a100") == {
        "driver.launch": pytest.approx(2e-6), "launch.latency": pytest.approx(3e-6),
        "driver.handover": pytest.approx(8e-6),
    }  # fmt: skip


def test_rates_come_from_the_best_size_and_the_hosts_from_all_threads_together(tmp_path):
    rows = [row("engine", "h2d", size, 2e-6 + size / 25e9) for size in (64, 4096, MIB, 1024 * MIB)]
    rows += [row("memcpy", "host", 64 * MIB, 64 * MIB / 10e9)]
    rows += [row("memcpy", "host_together", t * 64 * MIB, t * 64 * MIB / min(200e9, t * 10e9), t) for t in (1, 8, 32)]
    found = values(written(tmp_path / "made.jsonl", *rows), "alex-a100")
    assert found == pytest.approx(
        {"link.h2d_pinned": 25e9, "copy.latency": 2e-6, "host.memcpy_1t": 10e9, "host.memcpy_max": 200e9}, rel=1e-2
    )


def test_allocations_over_size_are_a_call_a_segment_and_what_further_ones_add(tmp_path):
    rows = [row("malloc", "within_segment", size, 4e-6) for size in (256, 65536)]
    rows += [row("free", "within_segment", size, 6e-6) for size in (256, 65536)]
    rows += [row(call, "idle", 256, 99e-6) for call in ("malloc", "free")]  # alone, a small block needs a segment, too
    for segments in (1, 4, 16):
        rows += [row("malloc", "idle", segments * 2 * MIB, 100e-6 + (segments - 1) * 20e-6)]
        rows += [row("free", "idle", segments * 2 * MIB, 6e-6 + 30e-6 + (segments - 1) * 2e-6)]
    rows += [row("host_register", "idle", size, 50e-6 + size * 0.3 / 2**30) for size in (4096, MIB, 256 * MIB)]
    found = values(written(tmp_path / "made.jsonl", *rows), "alex-a100")
    assert found.pop("pin.page") * 2**18 == pytest.approx(0.3)
    assert found == pytest.approx(
        {
            "alloc.cudaMalloc_small": 4e-6,
            "alloc.cudaMalloc_large": 100e-6,
            "alloc.cudaMalloc_segment": 20e-6,
            "alloc.cudaFree": 6e-6,
            "alloc.cudaFree_large": 30e-6,
            "alloc.cudaFree_segment": 2e-6,
            "pin.register": 50e-6,
        },
        rel=1e-3,
    )


def test_a_thread_that_sleeps_is_later_by_the_interrupt(tmp_path):
    rows = row("sync", "return", 0, 2e-6), row("sync", "return_blocking", 0, 32e-6)
    assert values(written(tmp_path / "made.jsonl", *rows), "h200")["stream.interrupt"] == pytest.approx(30e-6)


def test_a_chain_of_multiply_adds_says_how_many_threads_hide_its_latency(tmp_path):
    """An SM has 64 units for double precision, and 2,048 threads: if these take 16 cycles, 1,024 threads fill them."""
    cycle = 132 * 64 * 2 / 33.5e12
    rows = row("arithmetic", "fp64_chain", 0, 16 * cycle), row("arithmetic", "fp32_chain", 0, 4 * cycle)
    found = values(written(tmp_path / "made.jsonl", *rows), "h200")
    assert found == pytest.approx({"sm.saturating_occupancy": 16 * 64 / 2048})


def test_large_pageable_copies_say_what_staging_takes(tmp_path):
    rows = [row("copy", "h2d_pageable", size, 6e-6 + size / 15e9) for size in (4096, MIB, 64 * MIB)]
    found = values(written(tmp_path / "made.jsonl", *rows), "h200")
    assert found == pytest.approx({"staging.copy_per_gib": 1 / 15e9}, rel=1e-2)


def test_an_apus_rows_are_its_own_entries(tmp_path):
    path = written(
        tmp_path / "made.jsonl",
        row("dma", "in_a_row", 64, 5e-6),
        row("dma", "in_a_row", 256 * MIB, 5e-6 + 256 * MIB / 60e9),
        row("first_touch", "host_2m", 2 * MIB, 120e-6),
        row("first_touch", "gpu_present_2m", 2 * MIB, 17e-6),
        row("first_touch", "gpu_new_2m", 2 * MIB, 167e-6),
    )
    assert values(path, "mi300a") == pytest.approx(
        {
            "dma.occupancy": 5e-6, "dma.bw": 60e9, "fault.service_2m": 17e-6,
            "fault.populate_2m": 120e-6, "fault.repeat_2m": 30e-6,
        },
        rel=1e-2,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", r"line 2: is no micro-benchmark of bench/hardware .it is no JSON"),
        ('{"what": "launch"}', r"line 2: .*Object missing required field `variant`"),
        (row("launch", "call", 0, -1.0), r"line 2: .*p10_s, median_s and p90_s must be finite, not negative and asc"),
        (row("launch", "call", 0, 1e-6).replace('"n": 50', '"n": 0'), r"line 2: .*n and threads must be positive"),
        (row("launch", "call", 0, 1e-6).replace('"threads": 1', '"threads": -1'), r"line 2: .*n and threads must be"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, reason):
    with pytest.raises(CalibrationError, match=rf"made\.jsonl, {reason}"):
        calibrate([written(tmp_path / "made.jsonl", line)], load("alex-a100"))


def test_rows_of_pools_say_nothing_of_a_machine_without_pools(tmp_path: Path) -> None:
    rows = [row("malloc_async", variant, 4096, 1e-6) for variant in ("idle", "idle_kept")]
    with pytest.raises(CalibrationError, match=r"made\.jsonl: nothing in it says what an entry of mi300a costs"):
        values(written(tmp_path / "made.jsonl", *rows), "mi300a")
