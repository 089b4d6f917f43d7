"""Judges of mechanisms: facts counted in small recorded runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offloadrt.papers.exahype.judges import probes
from offloadrt.papers.exahype.judges.curves import BATCH, CASES, ScalingGrid, bench, strong
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.validation.judging import Hearing, Judgement, Reading, listed, longer, number, numbers, unless

COUNTS = probes.exahype_counts


def counted(fact: Mapping[str, Value], /, *more: str, **expected: float) -> Judgement:
    """Judge that counts are as expected; `more` is what else there is to say."""
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
    """Judge facts of the memory manager that must be true, counts that must be zero, counts that must not be."""
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
