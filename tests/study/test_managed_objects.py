"""Results say of each object of managed memory what became of it; together that is what became of all."""

from __future__ import annotations

import functools
from io import StringIO

import msgspec
import pytest
from rich.console import Console

from offloadrt.cli.render import result as shown
from offloadrt.extensions.otm.configuration import placements_of
from offloadrt.study import execute, find_scenario
from offloadrt.study.reporting.results import Result, row, to_json

RODINIA = find_scenario("rodinia")
SMALL = {"mem.size": "40 MiB", "mem.reserved": "0 B", "otm.reserve": "0 B"}


@functools.cache
def run(benchmark: str, placement: str, size_gb: float = 0.06) -> Result:
    return execute(RODINIA, {"benchmark": benchmark, "placement": placement, "size_gb": size_gb}, overrides=SMALL)


@pytest.mark.parametrize("benchmark", ["bfs", "cfd", "srad"])
@pytest.mark.parametrize("placement", ["um", "otm"])
def test_the_sums_over_objects_are_the_totals(benchmark: str, placement: str) -> None:
    result = run(benchmark, placement, 0.05)
    objects, total = list(result.managed.values()), result.faults
    assert total["faults"] > 0
    assert sum(one.faults for one in objects) == total["faults"]
    assert sum(one.host_faults for one in objects) == total["cpu_page_fault_count"]
    assert sum(one.bytes_htod for one in objects) == total["bytes_transfer_htod"]
    assert sum(one.bytes_dtoh for one in objects) == total["bytes_transfer_dtoh"]
    remote = result.measured["remote_gb"]
    assert isinstance(remote, float)
    assert sum(one.remote_bytes for one in objects) == pytest.approx(remote * 1e9, abs=len(objects))


def test_objects_go_by_the_names_of_their_placements() -> None:
    result = run("bfs", "otm")
    pinned = [name for name, one in placements_of(result).items() if one.mechanism == "pinned"]
    explicit = [name for name, one in placements_of(result).items() if one.mechanism == "explicit"]
    assert pinned and explicit
    assert all(result.managed[name].remote_bytes and not result.managed[name].bytes_htod for name in pinned)
    assert not any(result.managed[name].faults for name in explicit)


def test_managed_objects_are_in_json_in_tables_and_on_the_screen() -> None:
    result = run("srad", "um")
    image = result.managed["J"]
    assert msgspec.json.decode(to_json(result))["managed"]["J"]["faults"] == image.faults > 0
    assert row(result)["managed.J.bytes_htod"] == image.bytes_htod > 0
    console = Console(width=150, file=StringIO(), record=True)
    for part in shown(result):
        console.print(part)
    (line,) = [line for line in console.export_text().splitlines() if line.startswith("J  ")]
    assert str(image.faults) in line


def test_without_managed_memory_there_is_nothing_to_say() -> None:
    result = run("bfs", "explicit", size_gb=0.02)
    assert not result.managed and b"managed" not in to_json(result)


def test_listed_pages_bring_the_64_kib_around_them_and_no_more() -> None:
    """Of 512 blocks of 2 MiB a page each is touched; the driver's prefetcher brings the 16 pages that it lies among."""
    result = execute(
        find_scenario("sparse_pages"),
        {"gib": 1.0, "per_block": 1, "passes": 1, "threshold": 51},
        machine="rtx-5070ti",
    )
    assert result.measured["to_device_bytes"] == pytest.approx(512 * (64 << 10), rel=0.05)
