"""Judges of mechanisms: facts counted in small recorded runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offloadrt.papers.exahype.judges.curves import MACHINE, PROBES, bench, halt_of
from offloadrt.study.judging import Asking, Grid, Judgement
from offloadrt.study.measured import number
from offloadrt.study.running import profiles
from offloadrt.study.scripts.parameters import Value


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
    judgement = counted(direct, enters=4, exits=4, regions=1, kernels=1, **table, h2d=5, d2h=4)
    said = f"{judgement.emulated}; LLVM's pool for blocks up to 8 KiB leaves {pooled['allocations']} allocations"
    return Judgement(said, judgement.holds, judgement.reason)


@bench.judge(
    "exahype.mech.alg2", "per batch: 1 copy in, 1 copy out, 1 kernel; allocations the same for 4 and 16 batches"
)
def algorithm_2(grid: Grid) -> Asking:
    short, long = yield from grid.facts(
        f"{PROBES}:exahype_counts", [{"memory": "pool", "batch": 4, "batches": batches} for batches in (4, 16)]
    )
    judgement = counted(long, kernels=1, h2d=1, d2h=1)
    allocations = [number(fact["allocations"]) * number(fact["batches"]) for fact in (short, long)]
    warm = allocations[0] == allocations[1]
    said = f"{judgement.emulated}, allocations in all {allocations[0]:g} and {allocations[1]:g}"
    return Judgement(
        said, bool(judgement.holds) and warm, judgement.reason or "allocations grow with the number of batches"
    )


def counted(fact: Mapping[str, Value], **expected: float) -> Judgement:
    found = {name: number(fact[name]) for name in expected}
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
    bad = number(fact["table_overlaps"]) + number(fact["table_uses_without_lock"])
    said = (
        f"{fact['table_holds']} holds, {fact['table_overlaps']} overlaps, "
        f"{fact['table_uses_without_lock']} uses without it"
    )
    return Judgement(said, bad == 0 and number(fact["table_holds"]) > 0, "the table is used without its lock")


@bench.judge("exahype.mech.staging", "every copy of a map clause is staged (map)")
def copies_are_staged(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:exahype_counts", [{"memory": "map"}])
    said = f"{fact['copies']} copies, {fact['pinned']} of them from pinned memory"
    return Judgement(said, fact["pinned"] == 0 and number(fact["copies"]) > 0, "some copies are not staged")


@bench.judge(
    "exahype.mech.suspend", "allocations and frees by 4 threads while a fifth one's kernel makes progress: none"
)
def allocation_halts(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:neighbours", [{"neighbours": 4}])
    during, calls = number(fact["allocations_and_frees_in_progress"]), number(fact["allocations_and_frees"])
    reason = f"driver.halt = {halt_of(grid)}: kernels make progress while others allocate or free"
    return Judgement(f"{during:g} of {calls:g} allocations and frees", during == 0 and calls > 0, reason)


@bench.judge(
    "exahype.mech.lock_per_transfer", "copies of 4 threads' map clauses while a fifth one's kernel makes progress: none"
)
def transfers_halt(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:neighbours", [{"neighbours": 4}])
    during, copies = number(fact["copies_in_progress"]), number(fact["copies"])
    reason = f"driver.halt = {halt_of(grid)}: copies and kernels overlap (the paper's sections 1 and 3 differ on this)"
    return Judgement(f"{during:g} of {copies:g} copies", during == 0 and copies > 0, reason)


@bench.judge(
    "exahype.mech.concurrent_kernels",
    "most kernels resident at a time, of 160 threads with a long one each: 2 to gpu.max_concurrent_kernels",
)
def few_kernels(grid: Grid) -> Asking:
    spec = profiles.load(grid.options.machine or MACHINE, grid.options.overrides, grid.options.range_end)
    limit = spec.count("gpu.max_concurrent_kernels")
    (fact,) = yield from grid.facts(f"{PROBES}:crowd_of_kernels")
    most = number(fact["most_kernels"])
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
    return counted(fact, entries_made=0, lookups=0)


bench.needs("a profile of an MI-class machine, which comes later", "exahype.concl.vendors")
