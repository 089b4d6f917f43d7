"""Judges of the ExaHyPE paper's claims: each asks for the runs that its expression needs.

t(T, n) is the time per volume update with T host threads and batches of n patches. Strong scaling (Figures 2 and 3)
divides one amount of work, weak scaling (Figure 1) gives each thread 100 patches. The saturation batch is the
smallest n with t(2n) >= 0.85 t(n).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from offloadrt.study import profiles
from offloadrt.study.claims import claims_of
from offloadrt.study.judging import Asking, Bench, Grid, Judgement, Registration
from offloadrt.study.parameters import Value
from offloadrt.study.points import Options, Point
from offloadrt.study.results import Result

SCENARIO = "exahype"
MACHINE = "alex-a100"
BATCH = 8
"""Where a claim names no batch: the paper's own saturation batch in 3D."""
SATURATED = 0.85
"""Twice the batch barely pays when it takes at least this part of the time per volume (the paper's relation for 2D)."""
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
)
"""Runs that show whether an entry of the machine matters at all."""
CANDIDATES: dict[str, dict[str, str]] = {
    "driver.free_visits_streams": {"driver.free_visits_streams": "1 us"},
    "driver.halt_save_restore": {"driver.halt": "suspend", "driver.halt_save_restore": "10 us"},
}
"""Mechanisms that might make the real machine slower with more threads; their costs are invented, to see which way."""
PROBES = f"{__file__.rpartition('/')[0]}/probes.py"

bench = Bench()
_claims = {claim.id: claim for claim in claims_of("exahype")}


def grid(quick: bool, options: Options) -> Grid:
    """Where the judges look; `quick` takes fewer thread counts and batches, and less work per thread."""
    if quick:
        return Grid(
            SCENARIO,
            threads=(1, 2, 16, 32, 128),
            ends=(1, 16),
            batches=(1, 4, 8, 16),
            work={"patches": 512, "rounds with map": 2, "rounds with pool": 4, "weak": 32},
            options=options,
        )
    return Grid(
        SCENARIO,
        threads=(1, 2, 4, 8, 16, 32, 64, 128),
        ends=(1, 16, 128),
        batches=(1, 2, 4, 8, 16, 32),
        work={"patches": 2048, "rounds with map": 2, "rounds with pool": 8, "weak": 100},
        options=options,
    )


def _in_all(grid: Grid, memory: str, threads: int, batch: int) -> int:
    """Patches in strong scaling: as many as the grid has, and enough for every thread to have some batches."""
    return max(grid.work["patches"], grid.work[f"rounds with {memory}"] * threads * batch)


Times = Generator[list[Point], list[Result], dict[tuple[int, int], float]]


def strong(
    grid: Grid,
    case: Mapping[str, Value],
    memory: str,
    *,
    threads: Iterable[int] | None = None,
    batches: Iterable[int] = (BATCH,),
) -> Times:
    """t(T, n) in strong scaling, by (threads, batch)."""
    places = [(count, batch) for count in (grid.threads if threads is None else threads) for batch in batches]
    runs: list[dict[str, Value]] = []
    for count, batch in places:
        whole = _in_all(grid, memory, count, batch)
        base = {**case, "scaling": "strong", "memory": memory, "threads": count, "batch": batch}
        runs += [{**base, "patches": whole}, {**base, "patches": whole // 2}]
    results = yield from grid.runs(runs)
    times = [_number(result.measured["time_per_volume_s"]) for result in results]
    return {place: 2 * times[2 * n] - times[2 * n + 1] for n, place in enumerate(places)}


def weak(grid: Grid, memory: str, *, threads: Iterable[int], batches: Iterable[int], per_thread: bool = False) -> Times:
    """t(T, n) in weak scaling of Euler 2D, by (threads, batch); over one thread's volumes when `per_thread`."""
    places = [(count, batch) for count in threads for batch in batches]
    base = {**EULER2D, "scaling": "weak", "patches": grid.work["weak"], "memory": memory}
    figure = "time_per_volume_per_thread_s" if per_thread else "time_per_volume_s"
    results = yield from grid.runs({**base, "threads": count, "batch": batch} for count, batch in places)
    return dict(zip(places, (_number(result.measured[figure]) for result in results), strict=True))


def _number(value: Any) -> float:
    assert isinstance(value, int | float)
    return float(value)


def _listed(values: Mapping[int, float], form: str = ".3g") -> str:
    return ", ".join(f"{place}: {value:{form}}" for place, value in values.items())


def saturation(curve: Mapping[int, float]) -> int | None:
    """The smallest batch n for which 2n takes at least 0.85 of its time; None when there is none."""
    for batch, time in sorted(curve.items()):
        if 2 * batch in curve and curve[2 * batch] >= SATURATED * time:
            return batch
    return None


def _band(claim: str, value: float) -> bool:
    """Whether `value` lies in the band that counts as right."""
    lo, hi = _claims[claim].lo, _claims[claim].hi
    return (lo is None or value >= lo) and (hi is None or value <= hi)


# ---------------------------------------------------------------------- Figure 1: batches, and what many threads cost
@bench.judge("exahype.obs1.batching", "t(T, n) decreases for n = 1..16, at several T (Euler 2D, map, weak)")
def batching(grid: Grid) -> Asking:
    batches = [batch for batch in grid.batches if batch <= 16]
    t = yield from weak(grid, "map", threads=grid.ends, batches=batches)
    rising = [
        f"t({count}, {b}) = {t[count, b]:.3g} s after t({count}, {a}) = {t[count, a]:.3g} s"
        for count in grid.ends
        for a, b in pairwise(batches)
        if t[count, b] >= t[count, a]
    ]
    gains = {count: t[count, 1] / t[count, batches[-1]] for count in grid.ends}
    return Judgement(f"t(T, 1) / t(T, 16) at T = {_listed(gains)}", not rising, "; ".join(rising))


@bench.judge("exahype.obs1.sat2d", "t(T, 32) >= 0.85 t(T, 16) at several T (Euler 2D, map, weak)")
def saturates_at_16(grid: Grid) -> Asking:
    t = yield from weak(grid, "map", threads=grid.ends, batches=(16, 32))
    ratios = {count: t[count, 32] / t[count, 16] for count in grid.ends}
    low = [count for count, ratio in ratios.items() if ratio < SATURATED]
    reason = (
        f"at T = {', '.join(map(str, low))} larger batches still pay: the cost per batch is not yet hidden"
        if low
        else ""
    )
    return Judgement(f"t(T, 32) / t(T, 16) at T = {_listed(ratios)}", not low, reason)


@bench.judge("exahype.obs1.inflight", "128 * (saturation batch at T = 128) * 17^2, in the band (Euler 2D, map, weak)")
def in_flight(grid: Grid) -> Asking:
    batches = (4, 8, 16, 32)
    t = yield from weak(grid, "map", threads=(128,), batches=batches)
    batch = saturation({n: t[128, n] for n in batches})
    if batch is None:
        return Judgement(
            "no saturation up to n = 32", False, "each doubling of the batch up to 32 still pays more than 15 %"
        )
    volumes = 128 * batch * 17**2
    reason = f"saturation comes at n = {batch}, not at 16"
    return Judgement(f"{volumes} volumes (n = {batch})", _band("exahype.obs1.inflight", volumes), reason)


@bench.judge(
    "exahype.obs2.degrade", "time per one thread's volumes, T = 128 over T = 1, >= 100 (Euler 2D, map, weak, n = 16)"
)
def degrades(grid: Grid) -> Asking:
    t = yield from weak(grid, "map", threads=(1, 128), batches=(16,), per_thread=True)
    ratio = t[128, 16] / t[1, 16]
    reason = (
        "pure serialisation would give 128; what threads do in parallel (staging, waiting for their own copies and "
        "kernels) keeps the ratio below 100, and nothing in the machine makes serialised work dearer with more threads"
    )
    return Judgement(f"{ratio:.3g} x", _band("exahype.obs2.degrade", ratio), reason)


@bench.judge(
    "exahype.obs2.expect",
    "with Q hardware queues: t(1)/t(Q) < Q/2 with map, and more with pool (Euler 2D, weak, n = 16)",
)
def scales_to_queues(grid: Grid) -> Asking:
    queues = profiles.load(grid.options.machine or MACHINE, grid.options.overrides).count("gpu.hw_queues")
    with_map = yield from weak(grid, "map", threads=(1, queues), batches=(16,))
    with_pool = yield from weak(grid, "pool", threads=(1, queues), batches=(16,))
    gain_map, gain_pool = with_map[1, 16] / with_map[queues, 16], with_pool[1, 16] / with_pool[queues, 16]
    holds = gain_map < queues / 2 and gain_pool > gain_map
    reason = (
        "map scales nearly to the number of queues"
        if gain_map >= queues / 2
        else "pool gains no more from threads than map"
    )
    return Judgement(f"Q = {queues}: map {gain_map:.3g} x, pool {gain_pool:.3g} x", holds, reason)


@bench.judge(
    "exahype.obs3.sat_euler3d",
    "saturation batch at several T, in the band (Euler 3D p=5, map, strong)",
    cases=("euler3d_p5",),
)
@bench.judge(
    "exahype.fig2.sat8",
    "saturation batch at several T, in the band (all 3D cases, map, strong)",
    cases=tuple(CASES),
)
def saturates_at_8(grid: Grid, cases: Sequence[str]) -> Asking:
    found: dict[str, int | None] = {}
    for case in cases:
        batches = (1, 2, 4, 8, 16, 32)
        t = yield from strong(grid, CASES[case], "map", threads=grid.ends, batches=batches)
        for count in grid.ends:
            found[f"{case} T={count}"] = saturation({n: t[count, n] for n in batches})
    outside = [place for place, batch in found.items() if batch is None or not _band("exahype.fig2.sat8", batch)]
    said = ", ".join(f"{place}: {batch or 'above 16'}" for place, batch in found.items())
    return Judgement(said, not outside, f"outside the band at {', '.join(outside)}")


@bench.judge(
    "exahype.obs4.alloc",
    "kernel wall time next to 1, 4, 16 threads that only allocate and free, over its time alone: "
    "rises, to more than 1.05",
)
def allocations_delay_kernels(grid: Grid) -> Asking:
    counts = (0, 1, 4, 16)
    facts = yield from grid.facts(f"{PROBES}:neighbours", [{"neighbours": count} for count in counts])
    walls = dict(zip(counts, (_number(fact["kernel_wall_s"]) for fact in facts), strict=True))
    ratios = {count: walls[count] / walls[0] for count in counts[1:]}
    holds = ratios[16] > 1.05 and ratios[1] <= ratios[4] <= ratios[16]
    reason = (
        f"under driver.halt = {_halt(grid)} allocations and frees leave running kernels alone, "
        "or wait for them without slowing them"
    )
    return Judgement(f"with neighbours {_listed(ratios)}", holds, reason)


def _halt(grid: Grid) -> str:
    return profiles.load(grid.options.machine or MACHINE, grid.options.overrides).text("driver.halt")


# ---------------------------------------------------------------------- Figures 2 and 3: strong scaling
def _plateau(case: str) -> Registration:
    return bench.judge(
        f"exahype.fig2.{case}.plateau",
        f"argmin over T of t(T, {BATCH}) <= 16 and t(128, {BATCH}) > 1.05 min (map, strong)",
        case=case,
    )


@_plateau("euler3d_p5")
@_plateau("euler3d_p9")
@_plateau("ccz4_p5")
def plateau(grid: Grid, case: str) -> Asking:
    t = yield from strong(grid, CASES[case], "map")
    curve = {count: t[count, BATCH] for count in grid.threads}
    best = min(curve, key=lambda count: curve[count])
    early = next(count for count in grid.threads if curve[count] <= 1.05 * curve[best])
    rise = curve[128] / curve[best]
    reason = (
        f"a plateau from T = {early} on, and no rise: the serialised work per batch (table lock, driver context) "
        "costs the same however many threads wait for it"
        if rise <= 1.05
        else f"the best number of threads is {early}"
    )
    return Judgement(f"best at T = {early}, t(128) / min = {rise:.4g}", early <= 16 and rise > 1.05, reason)


def _robust(case: str) -> Registration:
    return bench.judge(
        f"exahype.fig3.{case}.robust", f"max over T of t(2T, {BATCH}) / t(T, {BATCH}) <= 1.1 (pool, strong)", case=case
    )


@_robust("euler3d_p5")
@_robust("euler3d_p9")
@_robust("ccz4_p5")
def robust(grid: Grid, case: str) -> Asking:
    t = yield from strong(grid, CASES[case], "pool")
    worst, at = _worst_doubling({count: t[count, BATCH] for count in grid.threads})
    return Judgement(f"at most {worst:.3g} (T = {at})", worst <= 1.1, f"more threads cost time beyond T = {at}")


def _worst_doubling(curve: Mapping[int, float]) -> tuple[float, int]:
    """The largest t(next) / t(T) over neighbouring thread counts, and its T."""
    counts = sorted(curve)
    return max((curve[later] / curve[count], count) for count, later in pairwise(counts))


@bench.judge(
    "exahype.fig2.batch_pays",
    "t(1, n) decreases in n, and from p = 5 to 9 (map, strong, Euler 3D and CCZ4)",
    memory="map",
)
@bench.judge(
    "exahype.fig3.batch_key",
    "t(1, n) decreases in n, and from p = 5 to 9 (pool, strong, Euler 3D and CCZ4)",
    memory="pool",
)
def batch_pays(grid: Grid, memory: str) -> Asking:
    rising = []
    gains = {}
    curves = {}
    for name, case in CASES.items():
        t = yield from strong(grid, case, memory, threads=(1,), batches=grid.batches)
        curves[name] = {n: t[1, n] for n in grid.batches}
        gains[name] = curves[name][grid.batches[0]] / curves[name][grid.batches[-1]]
        for a, b in pairwise(grid.batches):
            if curves[name][b] >= curves[name][a]:
                rising.append(f"{name}: t(1, {b}) = {curves[name][b]:.3g} s, t(1, {a}) = {curves[name][a]:.3g} s")
    small, large = curves["euler3d_p5"], curves["euler3d_p9"]
    rising += [f"p = 9 is not better than p = 5 at n = {n}" for n in grid.batches if large[n] >= small[n]]
    said = ", ".join(f"{name}: {gain:.3g} x" for name, gain in gains.items())
    return Judgement(f"from n = 1 to {grid.batches[-1]}: {said}", not rising, "; ".join(rising[:4]))


@bench.judge(
    "exahype.fig2.penalty", f"t(128, {BATCH}) > 1.05 min over T of t(T, {BATCH}), in each 3D case (map, strong)"
)
def penalty(grid: Grid) -> Asking:
    rises = {}
    for name, case in CASES.items():
        t = yield from strong(grid, case, "map")
        rises[name] = t[128, BATCH] / min(t[count, BATCH] for count in grid.threads)
    said = ", ".join(f"{name}: {rise:.4g}" for name, rise in rises.items())
    reason = "a plateau without a rise: nothing in the machine makes serialised work dearer with more threads"
    return Judgement(f"t(128) / min = {said}", all(rise > 1.05 for rise in rises.values()), reason)


@bench.judge(
    "exahype.fig2.speedup_iff", "t(1, n) / t(T, n) > 1.05 exactly where T <= 8 and n <= 4 (Euler 3D p=5, map, strong)"
)
def speedup_iff(grid: Grid) -> Asking:
    t = yield from strong(grid, CASES["euler3d_p5"], "map", batches=grid.batches)
    fast = {(count, n) for count in grid.threads[1:] for n in grid.batches if t[1, n] / t[count, n] > 1.05}
    expected = {(count, n) for count in grid.threads[1:] for n in grid.batches if count <= 8 and n <= 4}
    extra, lacking = sorted(fast - expected), sorted(expected - fast)
    said = f"speedup at {len(fast)} of {len(grid.threads[1:]) * len(grid.batches)} places, expected at {len(expected)}"
    parts = [f"no speedup at (T, n) = {', '.join(map(str, lacking))}"] if lacking else []
    parts += [f"speedup also at (T, n) = {', '.join(map(str, extra))}"] if extra else []
    reason = "; ".join(parts)
    return Judgement(said, fast == expected, reason)


@bench.judge("exahype.fig3.vs_map", f"t(T, {BATCH}) with pool < with map for all T >= 16, in each 3D case (strong)")
def pool_beats_map(grid: Grid) -> Asking:
    counts = [count for count in grid.threads if count >= 16]
    least = {}
    for name, case in CASES.items():
        with_map = yield from strong(grid, case, "map", threads=counts)
        with_pool = yield from strong(grid, case, "pool", threads=counts)
        least[name] = min(with_map[place] / with_pool[place] for place in with_map)
    said = ", ".join(f"{name}: {ratio:.3g}" for name, ratio in least.items())
    return Judgement(
        f"map / pool at least {said}", all(ratio > 1 for ratio in least.values()), "the pool is not faster everywhere"
    )


@bench.judge("exahype.headline.order", "max over T, n and 3D case of t with map / t with pool, >= 10 (strong)")
def headline(grid: Grid) -> Asking:
    best, where = 0.0, ""
    for name, case in CASES.items():
        with_map = yield from strong(grid, case, "map", batches=(1, BATCH))
        with_pool = yield from strong(grid, case, "pool", batches=(1, BATCH))
        for place, time in with_map.items():
            if time / with_pool[place] > best:
                best, where = time / with_pool[place], f"{name}, T = {place[0]}, n = {place[1]}"
    reason = f"the largest gain is {best:.3g} x ({where})"
    return Judgement(f"{best:.3g} x ({where})", _band("exahype.headline.order", best), reason)


@bench.judge(
    "exahype.concl.obs_invalid",
    f"max over T of t(2T, {BATCH}) / t(T, {BATCH}) <= 1.1 with pool, Euler and CCZ4 alike (strong)",
)
def no_degradation(grid: Grid) -> Asking:
    worst = {}
    for name in ("euler3d_p5", "ccz4_p5"):
        t = yield from strong(grid, CASES[name], "pool")
        worst[name], _ = _worst_doubling({count: t[count, BATCH] for count in grid.threads})
    said = ", ".join(f"{name}: {ratio:.3g}" for name, ratio in worst.items())
    return Judgement(f"at most {said}", all(ratio <= 1.1 for ratio in worst.values()), "the pool degrades with threads")


@bench.judge(
    "exahype.fig3.warm_allocs",
    "with pool: cuMemAlloc calls <= 2 T per size (2 sizes), also with 32 batches a thread instead of 8; no cuMemFree",
)
def warm_allocations(grid: Grid) -> Asking:
    threads, batch = 16, 8
    base = {**CASES["euler3d_p5"], "memory": "pool", "scaling": "weak", "threads": threads, "batch": batch}
    few, many = yield from grid.runs({**base, "patches": batch * batches} for batches in (8, 32))
    counts = [_count(result, "cuMemAlloc") for result in (few, many)]
    frees = _count(many, "cuMemFree")
    holds = counts[0] <= 2 * threads * 2 and counts[1] <= 2 * threads * 2 and frees == 0
    reason = (
        f"allocations grow with batches: {counts}"
        if counts[1] > counts[0]
        else f"{counts[1]} allocations, {frees} frees"
    )
    return Judgement(f"{counts[0]} and {counts[1]} allocations, {frees} frees, {threads} threads", holds, reason)


def _count(result: Result, call: str) -> int:
    return result.calls[call].count if call in result.calls else 0


# ---------------------------------------------------------------------- mechanisms, counted in recorded runs
@bench.judge(
    "exahype.mech.alg1",
    "per batch of n = 4: 4 enters, 4 exits, 1 target, 1 kernel, n + 2 table entries and device allocations made and "
    "removed (allocator direct), n + 1 copies in, n copies out",
)
def algorithm_1(grid: Grid) -> Asking:
    probe: dict[str, Value] = {"memory": "map", "batch": 4, "batches": 8, "equations": "euler3d"}
    direct, pooled = yield from grid.facts(
        f"{PROBES}:exahype_counts", [{**probe, "allocator": allocator} for allocator in ("direct", "llvm")]
    )
    table = {"entries_made": 6, "entries_removed": 6, "allocations": 6, "frees": 6}
    judgement = _counted(direct, enters=4, exits=4, regions=1, kernels=1, **table, h2d=5, d2h=4)
    said = f"{judgement.emulated}; LLVM's pool for blocks up to 8 KiB leaves {pooled['allocations']} allocations"
    return Judgement(said, judgement.holds, judgement.reason)


@bench.judge(
    "exahype.mech.alg2", "per batch: 1 copy in, 1 copy out, 1 kernel; allocations the same for 4 and 16 batches"
)
def algorithm_2(grid: Grid) -> Asking:
    short, long = yield from grid.facts(
        f"{PROBES}:exahype_counts", [{"memory": "pool", "batch": 4, "batches": batches} for batches in (4, 16)]
    )
    judgement = _counted(long, kernels=1, h2d=1, d2h=1)
    allocations = [_number(fact["allocations"]) * _number(fact["batches"]) for fact in (short, long)]
    warm = allocations[0] == allocations[1]
    said = f"{judgement.emulated}, allocations in all {allocations[0]:g} and {allocations[1]:g}"
    return Judgement(
        said, bool(judgement.holds) and warm, judgement.reason or "allocations grow with the number of batches"
    )


def _counted(fact: Mapping[str, Value], **expected: float) -> Judgement:
    found = {name: _number(fact[name]) for name in expected}
    wrong = [f"{name} {found[name]:g} instead of {count:g}" for name, count in expected.items() if found[name] != count]
    return Judgement(
        ", ".join(f"{name.replace('_', ' ')} {count:g}" for name, count in found.items()), not wrong, "; ".join(wrong)
    )


@bench.judge(
    "exahype.mech.map_table",
    "no two holds of the device table's lock overlap, and no look-up, insertion or removal without it (8 threads, map)",
)
def table_is_exclusive(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:exahype_counts", [{"memory": "map", "threads": 8}])
    bad = _number(fact["table_overlaps"]) + _number(fact["table_uses_without_lock"])
    said = (
        f"{fact['table_holds']} holds, {fact['table_overlaps']} overlaps, "
        f"{fact['table_uses_without_lock']} uses without it"
    )
    return Judgement(said, bad == 0 and _number(fact["table_holds"]) > 0, "the table is used without its lock")


@bench.judge("exahype.mech.staging", "every copy of a map clause is staged (map)")
def copies_are_staged(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:exahype_counts", [{"memory": "map"}])
    said = f"{fact['copies']} copies, {fact['pinned']} of them from pinned memory"
    return Judgement(said, fact["pinned"] == 0 and _number(fact["copies"]) > 0, "some copies are not staged")


@bench.judge(
    "exahype.mech.suspend", "allocations and frees by 4 threads while a fifth one's kernel makes progress: none"
)
def allocation_halts(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:neighbours", [{"neighbours": 4}])
    during, calls = _number(fact["allocations_and_frees_in_progress"]), _number(fact["allocations_and_frees"])
    reason = f"driver.halt = {_halt(grid)}: kernels make progress while others allocate or free"
    return Judgement(f"{during:g} of {calls:g} allocations and frees", during == 0 and calls > 0, reason)


@bench.judge(
    "exahype.mech.lock_per_transfer", "copies of 4 threads' map clauses while a fifth one's kernel makes progress: none"
)
def transfers_halt(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:neighbours", [{"neighbours": 4}])
    during, copies = _number(fact["copies_in_progress"]), _number(fact["copies"])
    reason = f"driver.halt = {_halt(grid)}: copies and kernels overlap (the paper's sections 1 and 3 differ on this)"
    return Judgement(f"{during:g} of {copies:g} copies", during == 0 and copies > 0, reason)


@bench.judge(
    "exahype.mech.concurrent_kernels",
    "most kernels resident at a time, of 160 threads with a long one each: 2 to gpu.max_concurrent_kernels",
)
def few_kernels(grid: Grid) -> Asking:
    spec = profiles.load(grid.options.machine or MACHINE, grid.options.overrides, grid.options.range_end)
    limit = spec.count("gpu.max_concurrent_kernels")
    (fact,) = yield from grid.facts(f"{PROBES}:crowd_of_kernels")
    most = _number(fact["most_kernels"])
    return Judgement(
        f"{most:g}, limit {limit}", 2 <= most <= limit, "more kernels than the hardware can hold, or one at a time"
    )


def _manager(claim: str, expression: str, *facts: str, zero: Sequence[str] = (), some: Sequence[str] = ()) -> None:
    """A claim on the memory manager: facts that must be true, counts that must be zero, counts that must not be."""

    @bench.judge(claim, expression)
    def rule(grid: Grid) -> Asking:
        (fact,) = yield from grid.facts(f"{PROBES}:manager")
        wrong = [name for name in facts if fact[name] is not True]
        wrong += [name for name in zero if fact[name] != 0] + [name for name in some if not fact[name]]
        said = ", ".join(f"{name.replace('_', ' ')}: {fact[name]}" for name in (*facts, *zero, *some))
        return Judgement(said, not wrong, f"not so: {', '.join(wrong)}")


_manager(
    "exahype.mech.M_key",
    "a free block is handed out for the same device and size only",
    "free_block_is_reused",
    "size_is_part_of_the_key",
    "device_is_part_of_the_key",
)
_manager(
    "exahype.mech.M_alloc",
    "a block in use is never handed out; a free one is reused",
    "in_use_is_not_handed_out",
    "free_block_is_reused",
    zero=("handed_out_twice",),
)
_manager("exahype.mech.M_free", "device memory freed while the manager lives: none", zero=("device_frees",))
_manager(
    "exahype.mech.M_semaphore",
    "hand-outs that overlap: none (8 threads)",
    zero=("hand_outs_together",),
    some=("hand_outs",),
)
_manager(
    "exahype.mech.M_shared",
    "blocks that several threads have held: some (8 threads)",
    some=("blocks_seen_by_several_threads",),
)


@bench.judge("exahype.mech.M_isdeviceptr", "table entries made and looked up per batch with the pool: none")
def no_table_for_device_pointers(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:exahype_counts", [{"memory": "pool"}])
    return _counted(fact, entries_made=0, lookups=0)


bench.needs(
    "managed memory, which comes later",
    "exahype.mech.um_variant",
    "exahype.mech.um_parallel_copy",
    "exahype.mech.um_not_global",
    *(f"exahype.fig4.{case}.{what}" for case in CASES for what in ("um_flat", "um_worse")),
    "exahype.fig4.busy_link",
    "exahype.fig4.spread",
)
bench.needs("a profile of an MI-class machine, which comes later", "exahype.concl.vendors")
