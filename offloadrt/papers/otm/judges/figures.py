"""Judges of Figures 1 and 2: Rodinia under explicit copies and under managed memory, below and above 16 GB."""

from __future__ import annotations

from offloadrt.papers.otm.judges.places import (
    BENCHMARKS,
    EXPLICIT,
    UM,
    RodiniaGrid,
    bench,
    handler_share,
    in_gb,
    runs,
    seconds,
)
from offloadrt.study.reporting.results import Result
from offloadrt.study.validation.judging import Asking, Hearing, Reading, unless
from offloadrt.study.validation.measured import listed, longer, mean, number


def fitting(grid: RodiniaGrid, benchmark: str) -> Asking[tuple[dict[float, float], Result, Result]]:
    """Measure t(UM) / t(explicit) at the sizes that fit, and return both results at the largest of them."""
    results = yield from runs(
        grid, [(benchmark, size, placement) for size in grid.fitting for placement in (UM, EXPLICIT)]
    )
    ratios = {
        size: seconds(results[benchmark, size, UM]) / seconds(results[benchmark, size, EXPLICIT])
        for size in grid.fitting
    }
    largest = grid.fitting[-1]
    return ratios, results[benchmark, largest, UM], results[benchmark, largest, EXPLICIT]


@bench.judge("otm.obs1.bfs")
def bfs_gains(grid: RodiniaGrid) -> Hearing:
    ratios, um, explicit = yield from fitting(grid, "bfs")
    part = number(um.measured["to_device_gb"]) / number(explicit.measured["to_device_gb"])
    reason = (
        f"slower at {{outside}} GB: the search reaches every node and edge of Rodinia's random graphs, so that "
        f"managed memory migrates {part:.3g} of the bytes that explicit copies move, and its page-fault handler is "
        f"busy for {handler_share(um):.0%} of the time; the paper does not describe its graphs"
    )
    return Reading(f"t(UM) / t(explicit): {listed(ratios)}", in_gb(ratios), reason)


@bench.judge("otm.obs1.cfd")
def cfd_loses(grid: RodiniaGrid) -> Hearing:
    ratios, _, _ = yield from fitting(grid, "cfd")
    return Reading(f"t(UM) / t(explicit): {listed(ratios)}", in_gb(ratios), "UM is as fast at {outside} GB")


@bench.judge("otm.obs2.thrash")
def thrashing(grid: RodiniaGrid) -> Hearing:
    results = yield from runs(
        grid, [(benchmark, size, UM) for benchmark in BENCHMARKS for size in (*grid.fitting, *grid.over)]
    )

    def each(benchmark: str, among: tuple[float, ...]) -> float:
        return mean(seconds(results[benchmark, size, UM]) / size for size in among)

    slow = {benchmark: each(benchmark, grid.over) / each(benchmark, grid.fitting) for benchmark in BENCHMARKS}
    wrong = {
        "SRAD slows down as much as BFS": not longer(slow["bfs"], slow["srad"]),
        "CFD does not slow down": not longer(slow["cfd"], 1.0),
    }
    return unless(listed(slow), wrong)


@bench.judge("otm.obs2.bfs_log")
def time_jumps(grid: RodiniaGrid) -> Hearing:
    results = yield from runs(grid, [("bfs", size, UM) for size in (grid.fitting[-1], *grid.over)])
    below = seconds(results["bfs", grid.fitting[-1], UM])
    times = {size: seconds(results["bfs", size, UM]) / below for size in grid.over}
    reason = "evicted blocks come back less often than the paper's log axis suggests"
    return Reading(f"{listed(times)} x", times[grid.over[0]], reason)


@bench.judge("otm.fig2.traffic")
def traffic(grid: RodiniaGrid, jump: float, extra: float) -> Hearing:
    emulated, wrong = [], []
    results = yield from runs(
        grid,
        [
            (benchmark, size, placement)
            for benchmark in BENCHMARKS
            for size in grid.fitting
            for placement in (UM, EXPLICIT)
        ]
        + [(benchmark, grid.over[0], UM) for benchmark in BENCHMARKS],
    )
    for benchmark in BENCHMARKS:
        below, above = grid.fitting[-1], grid.over[0]
        for direction in ("to_device_gb", "to_host_gb"):
            less = number(results[benchmark, below, UM].measured[direction]) / below
            more = number(results[benchmark, above, UM].measured[direction]) / above
            emulated.append(f"{benchmark} {direction.removesuffix('_gb').replace('_', ' ')} x{more / less:.3g}")
            if more < jump * less:
                wrong.append(f"{benchmark} moves only {more / less:.3g} times as much {direction.removesuffix('_gb')}")
        beyond = {
            size: (_to_host(results[benchmark, size, UM]) - _to_host(results[benchmark, size, EXPLICIT]))
            / (size * grid.part)
            for size in grid.fitting
        }
        most = max(beyond, key=beyond.__getitem__)
        if beyond[most] > extra:
            wrong.append(f"{benchmark} moves {beyond[most]:.3g} of its arrays to the host at {most:g} GB, which fit")
    return unless(", ".join(emulated), wrong)


def _to_host(result: Result) -> float:
    return number(result.measured["to_host_gb"])
