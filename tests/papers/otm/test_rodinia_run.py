"""The scenario `rodinia`: bytes of its arrays, what moves under each placement, and how fast a large one is."""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Any

import pytest

from offloadrt.extensions.otm.configuration import placements_of
from offloadrt.study import ParameterError, Result, execute, find_scenario
from offloadrt.study.reporting.results import row
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import InProcess, Point, sweep

SMALL = {"mem.size": "0.25 GB", "mem.reserved": "0 B"}
BENCHMARKS = ("bfs", "cfd", "srad")


@functools.cache
def executed(overrides: tuple[tuple[str, str], ...], parameters: tuple[tuple[str, Any], ...]) -> Result:
    """Each run is made once, and some are asked for by several tests."""
    return execute(find_scenario("rodinia"), dict(parameters), overrides=dict(overrides))


def rodinia(overrides: dict[str, str] | None = None, **parameters: Any) -> Result:
    return executed(tuple((overrides or {}).items()), tuple(sorted(parameters.items())))


def number(result: Result, name: str) -> float:
    value = result.measured[name]
    assert isinstance(value, int | float)
    return float(value)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_all_arrays_together_have_the_bytes_asked_for(benchmark: str) -> None:
    result = rodinia(benchmark=benchmark, size_gb=0.2)
    total = sum(number(result, name) for name in result.measured if name.endswith("_bytes"))
    assert total == pytest.approx(0.2e9, rel=1e-3)


def test_edges_are_the_largest_array_of_bfs() -> None:
    measured = rodinia(benchmark="bfs", size_gb=0.2).measured
    sizes = {name: measured[name] for name in measured if name.endswith("_bytes")}
    assert max(sizes, key=lambda name: float(sizes[name] or 0)) == "edges_bytes"
    assert number(rodinia(size_gb=0.2), "edges_bytes") == pytest.approx(24 / 39 * 0.2e9, rel=1e-3)


def test_what_fits_comes_once_and_only_the_result_goes_back() -> None:
    bfs = rodinia(benchmark="bfs", size_gb=0.5)
    assert number(bfs, "to_device_gb") == pytest.approx(0.5, rel=0.02)
    assert number(bfs, "to_host_gb") == pytest.approx(0.5 * 4 / 39, rel=0.05)
    cfd = rodinia(benchmark="cfd", size_gb=0.5)
    assert number(cfd, "to_device_gb") == pytest.approx(0.5 * (4 + 16 + 48 + 20) / 132, rel=0.02)
    assert number(cfd, "to_host_gb") == pytest.approx(0.5 * 20 / 132, rel=0.05)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_time_is_without_allocations_and_frees(benchmark: str) -> None:
    """Dearer ones do not matter to what the paper measures, nor do they go on beside anything."""
    dear = {"alloc.cudaMalloc_small": "5 ms", "alloc.cudaFree": "7 ms"}
    usual, slow = (rodinia(costs, benchmark=benchmark, size_gb=0.1, placement="explicit") for costs in ({}, dear))
    assert number(slow, "time_s") == pytest.approx(number(usual, "time_s"), rel=1e-9)
    assert slow.elapsed_s - usual.elapsed_s > 5e-3


def test_bounds_are_read_before_each_trip_so_that_nodes_rank_before_edges() -> None:
    placed = placements_of(rodinia(SMALL, benchmark="bfs", size_gb=0.3, placement="otm"))
    ranks = {name: placed[name].rank for name in ("nodes", "edges", "cost")}
    assert ranks["nodes"] == 1 and placed["edges"].place == "cpu"


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_explicit_copies_move_what_the_clauses_say(benchmark: str) -> None:
    explicit, um = (rodinia(benchmark=benchmark, size_gb=0.2, placement=one) for one in ("explicit", "um"))
    name = {"bfs": "cost", "cfd": "variables", "srad": "J"}[benchmark]
    result = number(explicit, f"{name}_bytes")
    if benchmark == "srad":
        cols = number(explicit, "iN_bytes") / 4
        result += 4 * (127 * cols + 128)  # what the host looks at before the second iteration
    if benchmark == "bfs":
        result += number(explicit, "steps")  # the flag
    assert number(explicit, "to_host_gb") * 1e9 == result
    # What CFD copies to the device unwritten, as the clauses of its source say, managed memory need not move.
    unwritten = sum(number(explicit, f"{one}_bytes") for one in ("fluxes", "step_factors")) if benchmark == "cfd" else 0
    brought = number(explicit, "to_device_gb") - unwritten / 1e9
    assert brought == pytest.approx(number(um, "to_device_gb"), rel=0.1)
    assert number(explicit, "steps") == number(um, "steps")


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_what_does_not_fit_is_evicted(benchmark: str) -> None:
    fitting, over = (rodinia(SMALL, benchmark=benchmark, size_gb=size) for size in (0.2, 0.4))
    assert fitting.measured["evicted_blocks"] == 0
    assert number(over, "evicted_blocks") > 0
    for way in ("to_device_gb", "to_host_gb"):
        assert number(over, way) > 2 * 1.5 * number(fitting, way)
    assert number(over, "time_s") > 2 * 1.5 * number(fitting, "time_s")


@pytest.mark.parametrize(("benchmark", "array"), [("bfs", "edges"), ("cfd", "fluxes"), ("srad", "dW")])
def test_explicit_copies_that_do_not_fit_name_the_array(benchmark: str, array: str) -> None:
    with pytest.raises(ParameterError, match=f"size_gb: 0.35 GB do not fit .*OUT_OF_MEMORY: array '{array}'"):
        rodinia(SMALL, benchmark=benchmark, size_gb=0.35, placement="explicit")


def test_bfs_has_no_iterations_to_choose() -> None:
    with pytest.raises(ParameterError, match="iterations: 3, but bfs has as many levels as its graph"):
        rodinia(benchmark="bfs", iterations=3)


@pytest.mark.parametrize("benchmark", ["cfd", "srad"])
def test_more_iterations_take_longer_in_proportion(benchmark: str) -> None:
    """Four at a time: of SRAD's, two take a little longer than the next two in managed memory."""
    two, six, ten = (number(rodinia(benchmark=benchmark, size_gb=0.1, iterations=k), "time_s") for k in (2, 6, 10))
    assert ten - six == pytest.approx(six - two, rel=0.05)


def test_neighbours_anywhere_bring_all_variables_early() -> None:
    """With random numbers a mesh larger than the memory thrashes more."""
    ordered, anywhere = (rodinia(SMALL, benchmark="cfd", size_gb=0.4, mesh=one) for one in ("ordered", "random"))
    assert number(anywhere, "to_device_gb") > number(ordered, "to_device_gb")


@pytest.mark.parametrize("benchmark", BENCHMARKS)
@pytest.mark.parametrize("size_gb", [0.2, 0.4])
def test_the_longest_step_of_a_kernel_does_not_matter(benchmark: str, size_gb: float) -> None:
    chunks = ({**SMALL, "managed.touch_chunk": f"{chunk} MiB"} for chunk in (32, 16))
    times = [number(rodinia(chunk, benchmark=benchmark, size_gb=size_gb), "time_s") for chunk in chunks]
    assert times[1] == pytest.approx(times[0], rel=0.02)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_both_gears_give_the_same_trace(benchmark: str) -> None:
    hashes = [
        execute(find_scenario("rodinia"), {"benchmark": benchmark, "size_gb": 0.3}, overrides=SMALL, gear=g, hash=True)
        for g in ("turbo", "native")
    ]
    assert hashes[0].trace_hash == hashes[1].trace_hash
    assert hashes[0].elapsed_s == hashes[1].elapsed_s == rodinia(SMALL, benchmark=benchmark, size_gb=0.3).elapsed_s


@pytest.mark.slow
def test_32_gb_take_less_than_500_mb() -> None:
    code = (
        "from pathlib import Path\nfrom offloadrt.study import execute, find_scenario\n"
        "execute(find_scenario('rodinia'), {'benchmark': 'srad', 'size_gb': 32.0})\n"
        "print(int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0]) / 1000)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 500.0


def test_a_sweep_keeps_what_the_configuration_says_of_a_run() -> None:
    chosen = {"benchmark": "bfs", "size_gb": 0.3, "placement": "otm"}
    point = Point("rodinia", find_scenario("rodinia").bind(chosen), RunSpec(overrides=SMALL))
    (swept,) = sweep([point], InProcess()).finished
    alone = rodinia(SMALL, **chosen)
    assert placements_of(swept) == placements_of(alone) != {}
    assert swept.figures("otm") == alone.figures("otm") != {}
    assert row(swept) == row(alone)
