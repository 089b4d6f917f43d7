"""Judges of Figures 1 and 2: Rodinia under explicit copies and under managed memory, below and above 16 GB."""

from __future__ import annotations

from collections.abc import Generator

from offloadrt.papers.otm.judges.places import (
    BENCHMARKS,
    EXPLICIT,
    UM,
    Grid,
    banded,
    bench,
    handler_share,
    runs,
    seconds,
    sizes,
)
from offloadrt.study.judging import Asking, Judgement
from offloadrt.study.measured import listed, mean, number
from offloadrt.study.points import Point
from offloadrt.study.reporting.results import Result

JUMP = 2.0
"""Bytes moved, per byte of the arrays, above the memory over below it: from here on it is a jump."""
NEAR_NOTHING = 0.05
"""Of the bytes of all arrays."""

Curves = Generator[list[Point], list[Result], dict[float, tuple[Result, Result]]]


def fitting(grid: Grid, benchmark: str) -> Curves:
    """Managed memory and explicit copies by size; `yield from` it."""
    found = yield from runs(grid, [(benchmark, size, one) for size in grid.fitting for one in (UM, EXPLICIT)])
    return {size: (found[benchmark, size, UM], found[benchmark, size, EXPLICIT]) for size in grid.fitting}


@bench.judge("otm.obs1.bfs", "t(UM) < t(explicit) at every fitting size (BFS)")
def bfs_gains(grid: Grid) -> Asking:
    found = yield from fitting(grid, "bfs")
    ratio = {size: seconds(um) / seconds(explicit) for size, (um, explicit) in found.items()}
    slower = [size for size, value in ratio.items() if value >= 1.0]
    um, explicit = found[grid.fitting[-1]]
    part = number(um.measured["to_device_gb"]) / number(explicit.measured["to_device_gb"])
    reason = (
        f"slower at {sizes(slower)}: the search reaches every node and edge of Rodinia's random graphs, so that "
        f"managed memory migrates {part:.3g} of the bytes that explicit copies move, and its page-fault handler is "
        f"busy for {handler_share(um):.0%} of the time; the paper does not describe its graphs"
    )
    return Judgement(f"t(UM) / t(explicit): {listed(ratio)}", not slower, reason)


@bench.judge("otm.obs1.cfd", "t(explicit) < t(UM) at every fitting size (CFD)")
def cfd_loses(grid: Grid) -> Asking:
    found = yield from fitting(grid, "cfd")
    ratio = {size: seconds(um) / seconds(explicit) for size, (um, explicit) in found.items()}
    faster = [size for size, value in ratio.items() if value <= 1.0]
    return Judgement(f"t(UM) / t(explicit): {listed(ratio)}", not faster, f"UM is as fast at {sizes(faster)}")


@bench.judge(
    "otm.obs2.thrash",
    "time a byte, mean over the sizes above 16 GB over mean over those that fit (UM): BFS > SRAD, CFD > 1",
)
def thrashing(grid: Grid) -> Asking:
    found = yield from runs(
        grid, [(benchmark, size, UM) for benchmark in BENCHMARKS for size in (*grid.fitting, *grid.over)]
    )

    def each(benchmark: str, among: tuple[float, ...]) -> float:
        return mean(seconds(found[benchmark, size, UM]) / size for size in among)

    slow = {benchmark: each(benchmark, grid.over) / each(benchmark, grid.fitting) for benchmark in BENCHMARKS}
    wrong = []
    if slow["bfs"] <= slow["srad"]:
        wrong.append("SRAD slows down as much as BFS")
    if slow["cfd"] <= 1.0:
        wrong.append("CFD does not slow down")
    return Judgement(listed(slow), not wrong, "; ".join(wrong))


@bench.judge(
    "otm.obs2.bfs_log", "t(UM) at the first size above 16 GB over t(UM) at the last that fits, in the band (BFS)"
)
def jump(grid: Grid) -> Asking:
    found = yield from runs(grid, [("bfs", size, UM) for size in (grid.fitting[-1], *grid.over)])
    below = seconds(found["bfs", grid.fitting[-1], UM])
    times = {size: seconds(found["bfs", size, UM]) / below for size in grid.over}
    reason = "evicted blocks come back less often than the paper's log axis suggests"
    return banded("otm.obs2.bfs_log", times[grid.over[0]], f"{listed(times)} x", reason, reason)


@bench.judge(
    "otm.fig2.traffic",
    f"bytes moved per byte, in each direction: first size above 16 GB >= {JUMP:g} times the last that fits; to the "
    f"host, where it fits: at most {NEAR_NOTHING:g} of the arrays more than explicit copies (UM, each benchmark)",
)
def traffic(grid: Grid) -> Asking:
    said, wrong = [], []
    found = yield from runs(
        grid,
        [(benchmark, size, one) for benchmark in BENCHMARKS for size in grid.fitting for one in (UM, EXPLICIT)]
        + [(benchmark, grid.over[0], UM) for benchmark in BENCHMARKS],
    )
    for benchmark in BENCHMARKS:
        below, above = grid.fitting[-1], grid.over[0]
        for direction in ("to_device_gb", "to_host_gb"):
            less = number(found[benchmark, below, UM].measured[direction]) / below
            more = number(found[benchmark, above, UM].measured[direction]) / above
            said.append(f"{benchmark} {direction.removesuffix('_gb').replace('_', ' ')} x{more / less:.3g}")
            if more < JUMP * less:
                wrong.append(f"{benchmark} moves only {more / less:.3g} times as much {direction.removesuffix('_gb')}")
        extra = {
            size: (_to_host(found[benchmark, size, UM]) - _to_host(found[benchmark, size, EXPLICIT]))
            / (size * grid.part)
            for size in grid.fitting
        }
        most = max(extra, key=lambda size: extra[size])
        if extra[most] > NEAR_NOTHING:
            wrong.append(f"{benchmark} moves {extra[most]:.3g} of its arrays to the host at {most:g} GB, which fit")
    return Judgement(", ".join(said), not wrong, "; ".join(wrong))


def _to_host(result: Result) -> float:
    return number(result.measured["to_host_gb"])
