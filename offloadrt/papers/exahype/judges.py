"""Judges of the ExaHyPE paper's claims: each asks for the runs that its claim needs.

First come the parameters of the runs. Then come the judges of figures, and those of how the runtime and unified memory
work, with the small recorded runs of `probes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import inf

import attrs

from offloadrt.extensions.evidence.validation.judging import (
    Asking,
    Bench,
    Extent,
    Hearing,
    Judgement,
    JudgingGrid,
    Paper,
    Reading,
    inputs_of,
    listed,
    longer,
    not_falling,
    number,
    numbers,
    unless,
)
from offloadrt.machine import MachineSpec
from offloadrt.papers.exahype import probes
from offloadrt.papers.exahype.program import kernels
from offloadrt.study.reporting.results import Result
from offloadrt.study.running import profiles
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec

SCENARIO = "exahype"
MACHINE = "alex-a100"
BATCH = 8
"""The number of patches in a batch where a claim gives none: the paper's own saturation batch in 3D."""
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
"""Short runs that show whether an entry of the machine's profile has any influence on times."""
CANDIDATES: dict[str, dict[str, str]] = {
    "driver.free_visits_streams": {"driver.free_visits_streams": "1 us"},
    "driver.halt_save_restore": {"driver.halt": "suspend", "driver.halt_save_restore": "10 us"},
    "alloc.managed_alignment": {"alloc.managed_alignment": "2 MiB"},
}
"""Entries for mechanisms that might make the real machine slower with more threads, and for managed allocations that
share no block.

The costs of the mechanisms are invented: they only show in which direction each one works.
"""

bench = Bench.of("offloadrt.papers.exahype")


@attrs.frozen
class ScalingGrid(JudgingGrid):
    """The runs on which the ExaHyPE paper's claims are judged.

    `threads` are the numbers of threads, and `batches` the numbers of patches in a batch.
    """

    threads: tuple[int, ...]
    ends: tuple[int, ...]
    """The numbers of threads with which times are measured for all batch sizes."""
    batches: tuple[int, ...]
    alone: tuple[int, ...]
    """The batches at which one thread is measured alone."""
    gains: tuple[int, ...]
    """The batches at which the gain of one kind of memory (`Setup.memory`) over another is measured."""
    work: Mapping[str, int]
    """How much work the runs have, by kind: a number of patches, or the smallest number of batches for each thread."""

    @property
    def described(self) -> str:
        """Describe in words the runs on which the paper's claims are judged."""
        threads, batches = (", ".join(map(str, counts)) for counts in (self.threads, self.batches))
        work = ", ".join(f"{kind} {count}" for kind, count in self.work.items())
        return f"threads {threads}; batches {batches}; {work}"

    @property
    def most(self) -> int:
        """Return the largest number of threads: the paper's 128, or half of it on the smallest grid."""
        return self.threads[-1]

    @property
    def machine(self) -> MachineSpec:
        """Load the profile of the machine on which the runs are made, with the changes that their options make."""
        options = self.options
        return profiles.load(
            options.machine or MACHINE, options.overrides, options.range_end or "mean", options.runtime
        )

    @property
    def halt(self) -> str:
        """Return what halts running kernels on the machine (such as frees), as text: `driver.halt = drain_on_free`."""
        return f"driver.halt = {self.machine.text('driver.halt')}"


def grid(extent: Extent, options: RunSpec) -> ScalingGrid:
    """Choose the runs that judge the claims. extent: `full`, `quick` or `ends`, with ever fewer runs.

    Smaller extents have fewer threads, batches and patches. options: those of every run.
    """
    places: dict[str, tuple[tuple[int, ...], ...]] = {
        "full": ((1, 2, 4, 8, 16, 32, 64, 128), (1, 16, 128), (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32), (1, BATCH)),
        "quick": ((1, 2, 16, 32, 128), (1, 16), (1, 4, 8, 16), (1, 4, 8, 16), (1, BATCH)),
        "ends": ((1, 4, 16, 64), (1, 16), (1, BATCH), (1, 8, 16), (BATCH,)),
    }
    work = {
        "full": {"patches": 2048, **_rounds(map=8, pool=8, managed=8), "weak": 100},
        "quick": {"patches": 512, **_rounds(map=4, pool=4, managed=4), "weak": 32},
        "ends": {"patches": 128, **_rounds(map=2, pool=4, managed=2), "weak": 16},
    }
    threads, ends, batches, alone, gains = places[extent]
    return ScalingGrid(SCENARIO, threads, ends, batches, alone, gains, work[extent], options=options)


def _rounds(**batches: int) -> dict[str, int]:
    """Return the smallest number of batches that a thread has in strong scaling, by memory.

    The paper's totals are so large that the time of a patch no longer depends on them (section 5). With map clauses, a
    volume of CCZ4 takes 128 threads 1.24 us with two batches each, 1.62 us with four and 1.86 us with eight.
    """
    return {f"rounds with {memory}": count for memory, count in batches.items()}


def _in_all(grid: ScalingGrid, memory: str, threads: int, batch: int) -> int:
    """Return the number of patches in strong scaling: the grid's, or more if the threads' batches need more."""
    return max(grid.work["patches"], grid.work[f"rounds with {memory}"] * threads * batch)


Times = Asking[dict[tuple[int, int], float]]
"""t(T, n), the time of a volume in seconds, by (threads, batch)."""


def strong(
    grid: ScalingGrid,
    case: Mapping[str, Value],
    memory: str,
    *,
    threads: Iterable[int] | None = None,
    batches: Iterable[int] = (BATCH,),
) -> Times:
    """Measure the time t(T, n) of a volume (a cell of a patch) with T threads and batches of n patches, strong scaling.

    Strong scaling: all threads share one number of patches. Each time is extrapolated from two runs, the second with
    half the first's patches, so that costs of the start do not count. case: the equations and other parameters. memory:
    how patches get to the device: map, pool, managed, ... (`Setup.memory`). threads: by default the grid's. A function
    that judges a claim calls this with `yield from`.
    """
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
    """Measure t(T, n), the time of a volume with T threads and batches of n patches, in weak scaling of Euler 2D.

    Weak scaling: each thread has as many patches, `grid.work["weak"]` or two of the largest batches if that is more.
    The time of a volume (a cell of a patch) is the program's, in seconds, divided by the volumes updated. memory: how
    patches get to the device: map, pool, managed, ... (`Setup.memory`). per_thread: divide by the volumes of one thread
    instead of those of all threads.
    """
    places = [(count, batch) for count in threads for batch in batches]
    patches = max(grid.work["weak"], 2 * max(batches))
    base = {**EULER2D, "scaling": "weak", "patches": patches, "memory": memory}
    figure = "time_per_volume_per_thread_s" if per_thread else "time_per_volume_s"
    results = yield from grid.runs({**base, "threads": count, "batch": batch} for count, batch in places)
    return dict(zip(places, (number(result.measured[figure]) for result in results), strict=True))


def saturation(curve: Mapping[int, float]) -> int | None:
    """Return the smallest batch n for which batches of 2n take at least 0.85 of its time; None if there is none.

    curve: the time by n. The factor 0.85 is the paper's for Euler 2D: from such an n on, a doubled batch barely pays.
    """
    saturated = bench.claims["exahype.obs1.sat2d"]
    for batch, time in sorted(curve.items()):
        if 2 * batch in curve and saturated.admits(curve[2 * batch] / time):
            return batch
    return None


def saturations(
    look: Callable[..., Times], threads: Sequence[int], batches: Sequence[int]
) -> Asking[dict[int, int | None]]:
    """Return, by number of threads, the batch from which on a doubled one barely pays (`saturation`), or None.

    look: measures times; called as `look(threads=…, batches=…)`. The two largest of `batches` are measured only where
    no smaller one saturates.
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


NEEDS_ALL = Judgement("–", None, "needs 128 threads")


@bench.judge("exahype.obs1.batching")
def batching(grid: ScalingGrid, largest: int) -> Hearing:
    batches = [batch for batch in grid.batches if batch <= largest]
    t = yield from weak(grid, "map", threads=grid.ends, batches=batches)
    rising = [
        f"t({count}, {b}) = {t[count, b]:.3g} s after t({count}, {a}) = {t[count, a]:.3g} s"
        for count in grid.ends
        for a, b in not_falling({batch: t[count, batch] for batch in batches})
    ]
    gains = {count: t[count, 1] / t[count, batches[-1]] for count in grid.ends}
    return Judgement(f"t(T, 1) / t(T, 16) at T = {listed(gains)}", not rising, "; ".join(rising))


@bench.judge("exahype.obs1.sat2d")
def saturates_at_16(grid: ScalingGrid) -> Hearing:
    t = yield from weak(grid, "map", threads=grid.ends, batches=(16, 32))
    ratios = {count: t[count, 32] / t[count, 16] for count in grid.ends}
    reason = "at T = {outside} larger batches still pay: the cost per batch is not yet hidden"
    return Reading(f"t(T, 32) / t(T, 16) at T = {listed(ratios)}", ratios, reason)


@bench.judge("exahype.obs1.inflight")
def in_flight(grid: ScalingGrid) -> Hearing:
    if grid.most < 128:
        yield []
        return NEEDS_ALL
    batch_of = yield from saturations(partial(weak, grid, "map"), (128,), (4, 8, 16, 32))
    batch = batch_of[128]
    if batch is None:
        reason = "each doubling of the batch up to 32 still pays more than 15 %"
        return Judgement("no saturation up to n = 32", False, reason)
    volumes = 128 * batch * 17**2
    return Reading(f"{volumes} volumes (n = {batch})", volumes, f"saturation comes at n = {batch}, not at 16")


@bench.judge("exahype.obs2.degrade")
def degrades(grid: ScalingGrid) -> Hearing:
    if grid.most < 128:
        yield []
        return NEEDS_ALL
    t = yield from weak(grid, "map", threads=(1, 128), batches=(16,), per_thread=True)
    ratio = t[128, 16] / t[1, 16]
    reason = (
        "pure serialisation would give 128; what threads do in parallel (staging, waiting for their own copies and "
        "kernels) keeps the ratio below 100, and nothing in the machine makes serialised work dearer with more threads"
    )
    return Reading(f"{ratio:.3g} x", ratio, reason)


@bench.judge("exahype.obs2.expect")
def scales_to_queues(grid: ScalingGrid, part: float) -> Hearing:
    queues = grid.machine.count("gpu.hw_queues")
    with_map = yield from weak(grid, "map", threads=(1, queues), batches=(16,))
    with_pool = yield from weak(grid, "pool", threads=(1, queues), batches=(16,))
    gain_map, gain_pool = with_map[1, 16] / with_map[queues, 16], with_pool[1, 16] / with_pool[queues, 16]
    emulated = f"Q = {queues}: map {gain_map:.3g} x, pool {gain_pool:.3g} x"
    if gain_map >= queues / part:
        return Judgement(emulated, False, "map scales nearly to the number of queues")
    return Judgement(emulated, longer(gain_pool, gain_map), "pool gains no more from threads than map")


@bench.judge("exahype.obs3.sat_euler3d", "exahype.fig2.sat8")
def saturates_at_8(grid: ScalingGrid, cases: Sequence[str]) -> Hearing:
    batches: dict[str, int | None] = {}
    for case in cases:
        at = yield from saturations(partial(strong, grid, CASES[case], "map"), grid.ends, (1, 2, 4, 8, 16, 32))
        batches |= {f"{case} T={count}": batch for count, batch in at.items()}
    emulated = ", ".join(f"{place}: {batch or 'above 16'}" for place, batch in batches.items())
    figures = {place: batch or inf for place, batch in batches.items()}
    return Reading(emulated, figures, "outside the band at {outside}")


@bench.judge("exahype.obs4.alloc")
def allocations_delay_kernels(grid: ScalingGrid) -> Hearing:
    counts = (0, 1, 4, 16)
    facts = yield from grid.facts(probes.neighbours, [{"neighbours": count} for count in counts])
    walls = dict(zip(counts, (number(fact["kernel_wall_s"]) for fact in facts), strict=True))
    ratios = {count: walls[count] / walls[0] for count in counts[1:]}
    reason = (
        f"under {grid.halt} allocations and frees leave running kernels alone, or wait for them without slowing them"
    )
    rises = longer(ratios[16], 1.0) and ratios[1] <= ratios[4] <= ratios[16]
    return Judgement(f"with neighbours {listed(ratios)}", rises, reason)


@bench.judge("exahype.fig2.*.plateau")
def plateau(grid: ScalingGrid, case: str, most_threads: int) -> Hearing:
    t = yield from strong(grid, CASES[case], "map")
    curve = {count: t[count, BATCH] for count in grid.threads}
    best = min(curve, key=curve.__getitem__)
    rise = curve[grid.most] / curve[best]
    emulated = f"best at T = {best}, t({grid.most}) / min = {rise:.4g}"
    if best > most_threads:
        return Judgement(emulated, False, f"more threads still help at T = {best}")
    reason = (
        "a plateau and no rise: the serialised work per batch (table lock, driver context) costs the same however many "
        "threads wait for it"
    )
    return Judgement(emulated, longer(curve[grid.most], curve[best]), reason)


@bench.judge("exahype.fig3.*.robust")
def robust(grid: ScalingGrid, case: str) -> Hearing:
    t = yield from strong(grid, CASES[case], "pool")
    worst, at = _worst_doubling({count: t[count, BATCH] for count in grid.threads})
    return Reading(f"at most {worst:.3g} (T = {at})", worst, f"more threads cost time beyond T = {at}")


def _worst_doubling(curve: Mapping[int, float]) -> tuple[float, int]:
    """Return the largest t(next) / t(T) over neighbouring thread counts, and its T."""
    return max((curve[later] / curve[count], count) for count, later in pairwise(sorted(curve)))


@bench.judge("exahype.fig2.batch_pays", "exahype.fig3.batch_key")
def batch_pays(grid: ScalingGrid, memory: str) -> Hearing:
    curves: dict[str, dict[int, float]] = {}
    for name, case in CASES.items():
        t = yield from strong(grid, case, memory, threads=(1,), batches=grid.alone)
        curves[name] = {n: t[1, n] for n in grid.alone}
    rising = [
        f"{name}: t(1, {b}) = {curve[b]:.3g} s, t(1, {a}) = {curve[a]:.3g} s"
        for name, curve in curves.items()
        for a, b in not_falling(curve)
    ]
    small, large = curves["euler3d_p5"], curves["euler3d_p9"]
    rising += [f"p = 9 is not better than p = 5 at n = {n}" for n in grid.alone if not longer(small[n], large[n])]
    gains = (f"{name}: {curve[grid.alone[0]] / curve[grid.alone[-1]]:.3g} x" for name, curve in curves.items())
    return Judgement(f"from n = 1 to {grid.alone[-1]}: {', '.join(gains)}", not rising, "; ".join(rising[:4]))


@bench.judge("exahype.fig2.penalty")
def penalty(grid: ScalingGrid) -> Hearing:
    rises = {}
    for name, case in CASES.items():
        t = yield from strong(grid, case, "map")
        rises[name] = t[grid.most, BATCH] / min(t[count, BATCH] for count in grid.threads)
    reason = "a plateau without a rise: nothing in the machine makes serialised work dearer with more threads"
    return Reading(f"t({grid.most}) / min = {listed(rises, '.4g')}", rises, reason)


@bench.judge("exahype.fig2.speedup_iff")
def speedup_iff(grid: ScalingGrid, most_threads: int, largest: int) -> Hearing:
    t = yield from strong(grid, CASES["euler3d_p5"], "map", batches=grid.batches)
    places = {(count, n) for count in grid.threads[1:] for n in grid.batches}
    fast = {(count, n) for count, n in places if longer(t[1, n], t[count, n])}
    expected = {(count, n) for count, n in places if count <= most_threads and n <= largest}
    emulated = f"speedup at {len(fast)} of {len(places)} places, expected at {len(expected)}"
    extra, lacking = (", ".join(map(str, sorted(some))) for some in (fast - expected, expected - fast))
    wrong = {f"no speedup at (T, n) = {lacking}": lacking, f"speedup also at (T, n) = {extra}": extra}
    return unless(emulated, wrong)


@bench.judge("exahype.fig3.vs_map")
def pool_beats_map(grid: ScalingGrid, least_threads: int) -> Hearing:
    counts = [count for count in grid.threads if count >= least_threads]
    least = {}
    for name, case in CASES.items():
        with_map = yield from strong(grid, case, "map", threads=counts)
        with_pool = yield from strong(grid, case, "pool", threads=counts)
        least[name] = min(with_map[place] / with_pool[place] for place in with_map)
    return Reading(f"map / pool at least {listed(least)}", least, "the pool is not faster everywhere")


@bench.judge("exahype.headline.order")
def headline(grid: ScalingGrid) -> Hearing:
    gains: dict[str, float] = {}
    for name, case in CASES.items():
        with_map = yield from strong(grid, case, "map", batches=grid.gains)
        with_pool = yield from strong(grid, case, "pool", batches=grid.gains)
        gains |= {f"{name}, T = {T}, n = {n}": time / with_pool[T, n] for (T, n), time in with_map.items()}
    where = max(gains, key=gains.__getitem__)
    emulated = f"{gains[where]:.3g} x ({where})"
    return Reading(emulated, gains[where], f"the largest gain is {emulated}")


@bench.judge("exahype.concl.obs_invalid")
def no_degradation(grid: ScalingGrid) -> Hearing:
    worst = {}
    for name in ("euler3d_p5", "ccz4_p5"):
        t = yield from strong(grid, CASES[name], "pool")
        worst[name], _ = _worst_doubling({count: t[count, BATCH] for count in grid.threads})
    return Reading(f"at most {listed(worst)}", worst, "the pool degrades with threads")


@bench.judge("exahype.fig3.warm_allocs")
def warm_allocations(grid: ScalingGrid, each: int, sizes: int, few: int, many: int) -> Hearing:
    threads, batch = 16, 8
    base = {**CASES["euler3d_p5"], "memory": "pool", "scaling": "weak", "threads": threads, "batch": batch}
    short, long = yield from grid.runs({**base, "patches": batch * batches} for batches in (few, many))
    counts = [_calls(result, "cuMemAlloc") for result in (short, long)]
    frees = _calls(long, "cuMemFree")
    grow = counts[1] > counts[0]
    reason = f"allocations grow with batches: {counts}" if grow else f"{counts[1]} allocations, {frees} frees"
    holds = max(counts) <= each * threads * sizes and frees == 0
    return Judgement(f"{counts[0]} and {counts[1]} allocations, {frees} frees, {threads} threads", holds, reason)


def _calls(result: Result, call: str) -> int:
    return result.calls[call].count if call in result.calls else 0


COUNTS = probes.exahype_counts


def counted(fact: Mapping[str, Value], /, *more: str, **expected: float) -> Judgement:
    """Judge whether measured counts equal the expected ones: the claim holds if all do.

    fact: the measured figures by name. expected: by name of some of these figures, the value that it must have. more:
    further words for the verdict.
    """
    counts = {name: number(fact[name]) for name in expected}
    wrong = [
        f"{name} {counts[name]:g} instead of {count:g}" for name, count in expected.items() if counts[name] != count
    ]
    return unless(", ".join([*(f"{name.replace('_', ' ')} {count:g}" for name, count in counts.items()), *more]), wrong)


@bench.judge("exahype.mech.alg1")
def algorithm_1(grid: ScalingGrid) -> Hearing:
    probe: dict[str, Value] = {"memory": "map", "batch": 4, "batches": 8, "equations": "euler3d"}
    direct, pooled = yield from grid.facts(
        COUNTS, [{**probe, "allocator": allocator} for allocator in ("direct", "llvm")]
    )
    table = {"entries_made": 6, "entries_removed": 6, "allocations": 6, "frees": 6}
    judgement = counted(direct, enters=4, exits=4, regions=1, kernels=1, **table, h2d=5, d2h=4)
    emulated = f"{judgement.emulated}; LLVM's pool for blocks up to 8 KiB leaves {pooled['allocations']} allocations"
    return Judgement(emulated, judgement.holds, judgement.reason)


@bench.judge("exahype.mech.alg2")
def algorithm_2(grid: ScalingGrid) -> Hearing:
    probe: dict[str, Value] = {"memory": "pool", "batch": 4}
    short, long = yield from grid.facts(COUNTS, [{**probe, "batches": batches} for batches in (4, 16)])
    few, many = (number(fact["allocations"]) * number(fact["batches"]) for fact in (short, long))
    judgement = counted(long, f"allocations in all {few:g} and {many:g}", kernels=1, h2d=1, d2h=1)
    if judgement.holds and few != many:
        return Judgement(judgement.emulated, False, "allocations grow with the number of batches")
    return judgement


@bench.judge("exahype.mech.map_table")
def table_is_exclusive(grid: ScalingGrid) -> Hearing:
    (fact,) = yield from grid.facts(COUNTS, [{"memory": "map", "threads": 8}])
    holds, overlaps, outside = numbers(fact, "table_holds", "table_overlaps", "table_uses_without_lock")
    emulated = f"{holds:.0f} holds, {overlaps:.0f} overlaps, {outside:.0f} uses without it"
    return Judgement(emulated, holds > 0 and not overlaps + outside, "the table is used without its lock")


@bench.judge("exahype.mech.staging")
def copies_are_staged(grid: ScalingGrid) -> Hearing:
    (fact,) = yield from grid.facts(COUNTS, [{"memory": "map"}])
    emulated = f"{fact['copies']} copies, {fact['pinned']} of them from pinned memory"
    return Judgement(emulated, fact["pinned"] == 0 and number(fact["copies"]) > 0, "some copies are not staged")


@bench.judge("exahype.mech.suspend")
def allocation_halts(grid: ScalingGrid) -> Hearing:
    (fact,) = yield from grid.facts(probes.neighbours, [{"neighbours": 4}])
    during, calls = numbers(fact, "allocations_and_frees_in_progress", "allocations_and_frees")
    reason = f"{grid.halt}: kernels make progress while others allocate or free"
    return Judgement(f"{during:g} of {calls:g} allocations and frees", calls > 0 and not during, reason)


@bench.judge("exahype.mech.lock_per_transfer")
def transfers_halt(grid: ScalingGrid) -> Hearing:
    (fact,) = yield from grid.facts(probes.neighbours, [{"neighbours": 4}])
    during, copies = numbers(fact, "copies_in_progress", "copies")
    reason = f"{grid.halt}: copies and kernels overlap (the paper's sections 1 and 3 differ on this)"
    return Judgement(f"{during:g} of {copies:g} copies", copies > 0 and not during, reason)


@bench.judge("exahype.mech.concurrent_kernels")
def few_kernels(grid: ScalingGrid, least: int) -> Hearing:
    limit = grid.machine.count("gpu.max_concurrent_kernels")
    (fact,) = yield from grid.facts(probes.crowd_of_kernels)
    most = number(fact["most_kernels"])
    reason = "more kernels than the hardware can hold, or one at a time"
    return Judgement(f"{most:g}, limit {limit}", least <= most <= limit, reason)


@bench.judge("exahype.mech.M_key", "exahype.mech.M_alloc", "exahype.mech.M_free", "exahype.mech.M_s*")
def manager(grid: ScalingGrid, true: Sequence[str] = (), zero: Sequence[str] = (), some: Sequence[str] = ()) -> Hearing:
    """Judge a claim on the GPU memory manager: it holds if all facts that the run `probes.manager` measures are right.

    grid: makes the run. true: the names of facts that must be true; zero: of counts that must be 0; some: of counts
    that must not be 0.
    """
    (fact,) = yield from grid.facts(probes.manager)
    wrong = [name for name in true if fact[name] is not True]
    wrong += [name for name in zero if fact[name] != 0] + [name for name in some if not fact[name]]
    emulated = ", ".join(f"{name.replace('_', ' ')}: {fact[name]}" for name in (*true, *zero, *some))
    return Judgement(emulated, not wrong, f"not so: {', '.join(wrong)}")


@bench.judge("exahype.mech.M_isdeviceptr")
def no_table_for_device_pointers(grid: ScalingGrid) -> Hearing:
    (fact,) = yield from grid.facts(COUNTS, [{"memory": "pool"}])
    return counted(fact, entries_made=0, lookups=0)


bench.needs("a profile of an MI-class machine, which comes later", "exahype.concl.vendors")


@bench.judge("exahype.mech.um_variant")
def variant(grid: ScalingGrid) -> Hearing:
    (fact,) = yield from grid.facts(probes.unified)
    faulted, kernels, copies = numbers(fact, "kernels_that_faulted", "kernels", "device_copies")
    back, host_faults = numbers(fact, "migrations_after_the_last_kernel", "host_faults")
    emulated = (
        f"{copies:g} device copies, {faulted:g} of {kernels:g} kernels fault, {host_faults:g} faults of the CPU, "
        f"{back:g} migrations to the host after the last kernel"
    )
    wrong = {
        "the device copies": copies,
        "not every kernel faults": faulted < kernels,
        "the CPU does not fault": not host_faults or not back,
    }
    return unless(emulated, wrong)


@bench.judge("exahype.mech.um_parallel_copy")
def copies_in_parallel(grid: ScalingGrid) -> Hearing:
    (fact,) = yield from grid.facts(probes.unified, [{"threads": 8, "batches": 8}])
    overlapped, copies, hits = numbers(fact, "overlapped_s", "copies_s", "hits")
    emulated = (
        f"{overlapped:.3g} s of {copies:.3g} s of copies overlap, {fact['blocks']} blocks, {hits:g} handed out again"
    )
    reason = "no two threads copy at a time" if overlapped <= 0.0 else "no block is used again"
    return Judgement(emulated, overlapped > 0.0 and hits > 0, reason)


@bench.judge("exahype.mech.um_not_global")
def not_global(grid: ScalingGrid) -> Hearing:
    (fact,) = yield from grid.facts(probes.unified)
    blocks, allocations, copies = fact["blocks"], fact["managed_allocations"], fact["ordinary_copies"]
    holds = blocks == allocations and not fact["ordinary_is_managed"] and copies == 1
    emulated = f"{allocations} managed allocations for {blocks} blocks; the ordinary array is copied {copies} times"
    return Judgement(emulated, holds, "memory besides the blocks is managed")


@bench.judge("exahype.fig4.*.um_flat")
def flat(grid: ScalingGrid, case: str) -> Hearing:
    t = yield from strong(grid, CASES[case], "managed")
    curve = {count: t[count, BATCH] for count in grid.threads}
    best = min(curve, key=curve.__getitem__)
    part = curve[best] / curve[1]
    reason = (
        f"more threads help up to T = {best}: faults of the CPU, copies and kernels of several threads go on side by "
        "side until the page-fault handler is the limit, and faults of several kernels share its batches"
    )
    return Reading(f"min / t(1) = {part:.3g}; t(T) at T = {listed(curve)}", part, reason)


@bench.judge("exahype.fig4.*.um_worse")
def worse(grid: ScalingGrid, case: str) -> Hearing:
    managed = yield from strong(grid, CASES[case], "managed", batches=grid.gains)
    pool = yield from strong(grid, CASES[case], "pool", batches=grid.gains)
    best = {name: min(t, key=t.__getitem__) for name, t in (("managed", managed), ("pool", pool))}
    managed_s, pool_s = managed[best["managed"]], pool[best["pool"]]
    places = ", ".join(f"{name} at T = {count}, n = {batch}" for name, (count, batch) in best.items())
    reason = f"managed memory is as fast or faster ({managed_s / pool_s:.3g} of pool's time)"
    return Reading(f"{managed_s:.3g} s and {pool_s:.3g} s ({places})", managed_s / pool_s, reason)


@bench.judge("exahype.fig4.busy_link")
def busy_link(grid: ScalingGrid) -> Hearing:
    cases: list[dict[str, Value]] = [{**case, "memory": "managed", "threads": 1} for case in CASES.values()]
    facts = yield from grid.facts(probes.link_demand, [{**case, "batch": BATCH} for case in cases])
    parts = {}
    for name, fact in zip(CASES, facts, strict=True):
        handler, link, on_device = numbers(fact, "handler_s", "link_s", "on_device_s")
        parts[name] = max(handler, link) / on_device
    return Reading(listed(parts), parts, "kernels mostly compute, or reach the host over the link: {outside}")


@bench.judge("exahype.fig4.spread")
def spread(grid: ScalingGrid, window_us: float, threads: int) -> Hearing:
    parameters: dict[str, Value] = {"threads": threads, "batch": BATCH, "window_us": float(window_us)}
    memories = ("managed", "pool")
    facts = yield from grid.facts(
        probes.link_demand,
        [{**case, **parameters, "memory": memory} for case in CASES.values() for memory in memories],
    )
    emulated, wrong = [], []
    for name, managed, pool in zip(CASES, facts[::2], facts[1::2], strict=True):
        (peak, time), (pools_peak, pools_time) = (
            numbers(fact, "peak_bytes_per_s", "elapsed_s") for fact in (managed, pool)
        )
        emulated.append(f"{name}: peak {peak / pools_peak:.3g}, time {time / pools_time:.3g} of pool's")
        wrong += [f"{name}: the peak is not lower"] if not longer(pools_peak, peak) else []
        wrong += [f"{name}: the time is lower"] if time < pools_time else []
    return unless("; ".join(emulated), wrong)


PAPER = Paper("exahype", MACHINE, bench, grid, SENSITIVITY, CANDIDATES, runtime="nvhpc", inputs=inputs_of(kernels))
