"""Where the judges of the ExaHyPE claims look: cases, grids, and the curves t(T, n) that they compare.

t(T, n) is the time per volume update with T host threads and batches of n patches. Weak scaling (Figure 1) gives
each thread 100 patches. Strong scaling (Figures 2 to 4) divides one amount of work; the paper made it so large
that what a thread does first does not show, so t is what the second half of the work adds, per volume: 2 t(all) -
t(half). What rises or falls does so by a per cent at least (`measured.DISCERNIBLE`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from offloadrt.machine import MachineSpec
from offloadrt.study.running import profiles
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec
from offloadrt.study.validation.judging import Asking, Bench, Extent, JudgingGrid
from offloadrt.study.validation.measured import number

SCENARIO = "exahype"
MACHINE = "alex-a100"
BATCH = 8
"""The batch where a claim names none: the paper's own saturation batch in 3D."""
CASES: dict[str, dict[str, Value]] = {
    "euler3d_p5": {"equations": "euler3d", "patch": 5},
    "euler3d_p9": {"equations": "euler3d", "patch": 9},
    "ccz4_p5": {"equations": "ccz4", "patch": 5},
}
EULER2D: dict[str, Value] = {"equations": "euler2d", "patch": 17}
_SHORT: dict[str, Value] = {"scaling": "strong", "patches": 512, "batch": 8}
SENSITIVITY: tuple[dict[str, Value], ...] = (
    {**EULER2D, **_SHORT, "memory": "map", "threads": 1},
    {**EULER2D, **_SHORT, "memory": "map", "threads": 16},
    {**EULER2D, **_SHORT, "memory": "pool", "threads": 1},
    {**CASES["ccz4_p5"], **_SHORT, "memory": "map", "threads": 16},
    {**CASES["ccz4_p5"], **_SHORT, "memory": "pool", "threads": 16},
    {**CASES["euler3d_p5"], **_SHORT, "memory": "managed", "threads": 1},
    {**CASES["euler3d_p5"], **_SHORT, "memory": "managed", "threads": 16},
)
"""Short runs that show whether an entry of the machine has any influence on times."""
CANDIDATES: dict[str, dict[str, str]] = {
    "driver.free_visits_streams": {"driver.free_visits_streams": "1 us"},
    "driver.halt_save_restore": {"driver.halt": "suspend", "driver.halt_save_restore": "10 us"},
    "alloc.managed_alignment": {"alloc.managed_alignment": "2 MiB"},
}
"""Mechanisms that might make the real machine slower with more threads, and managed allocations that share no block.

The costs of the mechanisms are invented: they only show in which direction each one works.
"""
PROBES = f"{__file__.rpartition('/')[0]}/probes.py"
"""The file of small recorded runs."""
UNIFIED_PROBES = f"{__file__.rpartition('/')[0]}/unified_probes.py"
"""The file of small recorded runs in managed memory."""

bench = Bench.of("offloadrt.papers.exahype")


@attrs.frozen
class ScalingGrid(JudgingGrid):
    """Thread counts, batches, and how much work there is."""

    threads: tuple[int, ...]
    ends: tuple[int, ...]
    """Thread counts at which curves over batches are measured."""
    batches: tuple[int, ...]
    alone: tuple[int, ...]
    """Batches at which one thread is measured alone."""
    gains: tuple[int, ...]
    """Batches at which the gain of one memory over another is measured."""
    work: Mapping[str, int]
    """How much there is to do, by kind."""

    @property
    def described(self) -> str:
        """Say in words how much is looked at."""
        threads, batches = (", ".join(map(str, counts)) for counts in (self.threads, self.batches))
        work = ", ".join(f"{kind} {count}" for kind, count in self.work.items())
        return f"threads {threads}; batches {batches}; {work}"

    @property
    def most(self) -> int:
        """Return the largest number of threads: the paper's 128, or half of it on the smallest grid."""
        return self.threads[-1]

    @property
    def machine(self) -> MachineSpec:
        """Load the machine as the runs have it."""
        options = self.options
        return profiles.load(
            options.machine or MACHINE, options.overrides, options.range_end or "mean", options.runtime
        )

    @property
    def halt(self) -> str:
        """Say what halts kernels on this machine: `driver.halt = …`."""
        return f"driver.halt = {self.machine.text('driver.halt')}"


def grid(extent: Extent, options: RunSpec) -> ScalingGrid:
    """Choose where the judges look: from `full` over `quick` to `ends`, fewer threads and batches, and less work."""
    places: dict[str, tuple[tuple[int, ...], ...]] = {
        "full": ((1, 2, 4, 8, 16, 32, 64, 128), (1, 16, 128), (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32), (1, BATCH)),
        "quick": ((1, 2, 16, 32, 128), (1, 16), (1, 4, 8, 16), (1, 4, 8, 16), (1, BATCH)),
        "ends": ((1, 4, 16, 64), (1, 16), (1, BATCH), (1, 8, 16), (BATCH,)),
    }
    work = {
        "full": {"patches": 2048, **_rounds(map=2, pool=8, managed=8), "weak": 100},
        "quick": {"patches": 512, **_rounds(map=2, pool=4, managed=4), "weak": 32},
        "ends": {"patches": 128, **_rounds(map=2, pool=4, managed=2), "weak": 16},
    }
    threads, ends, batches, alone, gains = places[extent]
    return ScalingGrid(SCENARIO, threads, ends, batches, alone, gains, work[extent], options=options)


def _rounds(**batches: int) -> dict[str, int]:
    """Give the smallest number of batches that a thread has in strong scaling, by memory."""
    return {f"rounds with {memory}": count for memory, count in batches.items()}


def _in_all(grid: ScalingGrid, memory: str, threads: int, batch: int) -> int:
    """Count patches in strong scaling: as many as the grid has, and enough for every thread to have some batches."""
    return max(grid.work["patches"], grid.work[f"rounds with {memory}"] * threads * batch)


Times = Asking[dict[tuple[int, int], float]]
"""t(T, n) by (threads, batch)."""


def strong(
    grid: ScalingGrid,
    case: Mapping[str, Value],
    memory: str,
    *,
    threads: Iterable[int] | None = None,
    batches: Iterable[int] = (BATCH,),
) -> Times:
    """Measure t(T, n) in strong scaling."""
    places = [(count, batch) for count in (grid.threads if threads is None else threads) for batch in batches]
    runs: list[dict[str, Value]] = []
    for count, batch in places:
        patches = _in_all(grid, memory, count, batch)
        base = {**case, "scaling": "strong", "memory": memory, "threads": count, "batch": batch}
        runs += [{**base, "patches": patches}, {**base, "patches": patches // 2}]
    results = yield from grid.runs(runs)
    times = [number(result.measured["time_per_volume_s"]) for result in results]
    return {place: 2 * times[2 * n] - times[2 * n + 1] for n, place in enumerate(places)}


def weak(
    grid: ScalingGrid, memory: str, *, threads: Iterable[int], batches: Sequence[int], per_thread: bool = False
) -> Times:
    """Measure t(T, n) in weak scaling of Euler 2D, over one thread's volumes when `per_thread`.

    Every thread has the grid's work, and at least two of the largest batches.
    """
    places = [(count, batch) for count in threads for batch in batches]
    patches = max(grid.work["weak"], 2 * max(batches))
    base = {**EULER2D, "scaling": "weak", "patches": patches, "memory": memory}
    figure = "time_per_volume_per_thread_s" if per_thread else "time_per_volume_s"
    results = yield from grid.runs({**base, "threads": count, "batch": batch} for count, batch in places)
    return dict(zip(places, (number(result.measured[figure]) for result in results), strict=True))


def saturation(curve: Mapping[int, float]) -> int | None:
    """Find the smallest batch n for which 2n takes at least 0.85 of its time; None when there is none.

    The factor is the paper's relation for Euler 2D: from there on twice the batch barely pays.
    """
    saturated = bench.claims["exahype.obs1.sat2d"]
    for batch, time in sorted(curve.items()):
        if 2 * batch in curve and saturated.admits(curve[2 * batch] / time):
            return batch
    return None


def saturations(
    look: Callable[..., Times], threads: Sequence[int], batches: Sequence[int]
) -> Asking[dict[int, int | None]]:
    """Find the saturation batch at each thread count, None when there is none; `look(threads=, batches=)` gives t.

    The two largest of `batches` are measured only where the smaller ones do not saturate, because the answer is the
    same.
    """
    *first, second_largest, largest = batches
    t = yield from look(threads=threads, batches=first)
    further = [second_largest, largest]
    while True:
        batch_of = {count: saturation({n: time for (at, n), time in t.items() if at == count}) for count in threads}
        rest = [count for count in threads if batch_of[count] is None]
        if not rest or not further:
            return batch_of
        t |= yield from look(threads=rest, batches=(further.pop(0),))
