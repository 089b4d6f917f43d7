"""Judges of mechanisms: facts counted in small recorded runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offloadrt.papers.exahype.judges.curves import PROBES, ScalingGrid, bench
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.validation.judging import Hearing, Judgement, unless
from offloadrt.study.validation.measured import number, numbers

COUNTS = f"{PROBES}:exahype_counts"


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
    (fact,) = yield from grid.facts(f"{PROBES}:neighbours", [{"neighbours": 4}])
    during, calls = numbers(fact, "allocations_and_frees_in_progress", "allocations_and_frees")
    reason = f"{grid.halt}: kernels make progress while others allocate or free"
    return Judgement(f"{during:g} of {calls:g} allocations and frees", calls > 0 and not during, reason)


@bench.judge("exahype.mech.lock_per_transfer")
def transfers_halt(grid: ScalingGrid) -> Hearing:
    (fact,) = yield from grid.facts(f"{PROBES}:neighbours", [{"neighbours": 4}])
    during, copies = numbers(fact, "copies_in_progress", "copies")
    reason = f"{grid.halt}: copies and kernels overlap (the paper's sections 1 and 3 differ on this)"
    return Judgement(f"{during:g} of {copies:g} copies", copies > 0 and not during, reason)


@bench.judge("exahype.mech.concurrent_kernels")
def few_kernels(grid: ScalingGrid, least: int) -> Hearing:
    limit = grid.machine.count("gpu.max_concurrent_kernels")
    (fact,) = yield from grid.facts(f"{PROBES}:crowd_of_kernels")
    most = number(fact["most_kernels"])
    reason = "more kernels than the hardware can hold, or one at a time"
    return Judgement(f"{most:g}, limit {limit}", least <= most <= limit, reason)


@bench.judge("exahype.mech.M_key", "exahype.mech.M_alloc", "exahype.mech.M_free", "exahype.mech.M_s*")
def manager(grid: ScalingGrid, true: Sequence[str] = (), zero: Sequence[str] = (), some: Sequence[str] = ()) -> Hearing:
    """Judge facts of the memory manager that must be true, counts that must be zero, counts that must not be."""
    (fact,) = yield from grid.facts(f"{PROBES}:manager")
    wrong = [name for name in true if fact[name] is not True]
    wrong += [name for name in zero if fact[name] != 0] + [name for name in some if not fact[name]]
    emulated = ", ".join(f"{name.replace('_', ' ')}: {fact[name]}" for name in (*true, *zero, *some))
    return Judgement(emulated, not wrong, f"not so: {', '.join(wrong)}")


@bench.judge("exahype.mech.M_isdeviceptr")
def no_table_for_device_pointers(grid: ScalingGrid) -> Hearing:
    (fact,) = yield from grid.facts(COUNTS, [{"memory": "pool"}])
    return counted(fact, entries_made=0, lookups=0)


bench.needs("a profile of an MI-class machine, which comes later", "exahype.concl.vendors")
