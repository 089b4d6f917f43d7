"""Judges of Figure 4 and of what the paper says about managed memory."""

from __future__ import annotations

from offloadrt.papers.exahype.judges.curves import BATCH, CASES, UNIFIED_PROBES, bench, strong
from offloadrt.study.judging import Asking, Grid, Judgement, Registration
from offloadrt.study.measured import listed, number
from offloadrt.study.scripts.parameters import Value

WINDOW_US = 100.0
"""Over which a link's demand is looked at: about as long as a batch of faults takes."""
MANY = 16
"""Threads whose demand adds up."""


@bench.judge(
    "exahype.mech.um_variant",
    "managed: no device copies; every kernel faults; after the last kernel pages come back by faults of the CPU",
)
def variant(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{UNIFIED_PROBES}:unified")
    faulted, kernels = number(fact["kernels_that_faulted"]), number(fact["kernels"])
    copies, back = number(fact["device_copies"]), number(fact["migrations_after_the_last_kernel"])
    host_faults = number(fact["host_faults"])
    said = (
        f"{copies:g} device copies, {faulted:g} of {kernels:g} kernels fault, {host_faults:g} faults of the CPU, "
        f"{back:g} migrations to the host after the last kernel"
    )
    wrong = [
        *(["the device copies"] if copies else []),
        *(["not every kernel faults"] if faulted < kernels else []),
        *(["the CPU does not fault"] if not host_faults or not back else []),
    ]
    return Judgement(said, not wrong, "; ".join(wrong))


@bench.judge(
    "exahype.mech.um_parallel_copy",
    "time in which several of 8 threads copy at once: some; blocks handed out again by M: some (managed)",
)
def copies_in_parallel(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{UNIFIED_PROBES}:unified", [{"threads": 8, "batches": 8}])
    overlapped, copies, hits = (number(fact[name]) for name in ("overlapped_s", "copies_s", "hits"))
    said = f"{overlapped:.3g} s of {copies:.3g} s of copies overlap, {fact['blocks']} blocks, {hits:g} handed out again"
    reason = "no two threads copy at a time" if overlapped <= 0.0 else "no block is used again"
    return Judgement(said, overlapped > 0.0 and hits > 0, reason)


@bench.judge(
    "exahype.mech.um_not_global",
    "managed allocations are those of M's blocks; an ordinary array of the same program is copied when it is mapped",
)
def not_global(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{UNIFIED_PROBES}:unified")
    blocks, allocations, copies = fact["blocks"], fact["managed_allocations"], fact["ordinary_copies"]
    holds = blocks == allocations and not fact["ordinary_is_managed"] and copies == 1
    said = f"{allocations} managed allocations for {blocks} blocks; the ordinary array is copied {copies} times"
    return Judgement(said, holds, "memory besides the blocks is managed")


def _flat(case: str) -> Registration:
    return bench.judge(
        f"exahype.fig4.{case}.um_flat", f"min over T of t(T, {BATCH}) >= 0.8 t(1, {BATCH}) (managed, strong)", case=case
    )


@_flat("euler3d_p5")
@_flat("euler3d_p9")
@_flat("ccz4_p5")
def flat(grid: Grid, case: str) -> Asking:
    t = yield from strong(grid, CASES[case], "managed")
    curve = {count: t[count, BATCH] for count in grid.threads}
    best = min(curve, key=lambda count: curve[count])
    part = curve[best] / curve[1]
    reason = (
        f"more threads help up to T = {best}: faults of the CPU, copies and kernels of several threads go on side by "
        "side until the page-fault handler is the limit, and small blocks of several threads share the 2 MiB of which "
        "one fault brings a part (alloc.managed_alignment)"
    )
    return Judgement(f"min / t(1) = {part:.3g}; t(T) at T = {listed(curve)}", part >= 0.8, reason)


def _worse(case: str) -> Registration:
    return bench.judge(
        f"exahype.fig4.{case}.um_worse", "min over T and n of t(T, n): managed > pool (strong)", case=case
    )


@_worse("euler3d_p5")
@_worse("euler3d_p9")
@_worse("ccz4_p5")
def worse(grid: Grid, case: str) -> Asking:
    managed = yield from strong(grid, CASES[case], "managed", batches=grid.gains)
    pool = yield from strong(grid, CASES[case], "pool", batches=grid.gains)
    best = {name: min(t, key=lambda place: t[place]) for name, t in (("managed", managed), ("pool", pool))}
    mine, theirs = managed[best["managed"]], pool[best["pool"]]
    places = ", ".join(f"{name} at T = {count}, n = {batch}" for name, (count, batch) in best.items())
    reason = f"managed memory is as fast or faster ({mine / theirs:.3g} of pool's time)"
    return Judgement(f"{mine:.3g} s and {theirs:.3g} s ({places})", mine > theirs, reason)


@bench.judge(
    "exahype.fig4.busy_link",
    f"busy time of page-fault handler or link, the longer, over the time that kernels are on the device, one thread, "
    f"n = {BATCH}: > 0.5 in each 3D case (managed)",
)
def busy_link(grid: Grid) -> Asking:
    facts = yield from grid.facts(f"{UNIFIED_PROBES}:link_demand", [_demand(name, "managed", 1) for name in CASES])
    parts = {
        name: max(number(fact["handler_s"]), number(fact["link_s"])) / number(fact["on_device_s"])
        for name, fact in zip(CASES, facts, strict=True)
    }
    said = ", ".join(f"{name}: {part:.3g}" for name, part in parts.items())
    low = [name for name, part in parts.items() if part <= 0.5]
    return Judgement(said, not low, f"kernels mostly compute, or reach the host over the link: {', '.join(low)}")


@bench.judge(
    "exahype.fig4.spread",
    f"most bytes over the link in {WINDOW_US:g} us: managed < pool; time of a pass: managed >= pool ({MANY} threads, "
    f"n = {BATCH}, each 3D case)",
)
def spread(grid: Grid) -> Asking:
    asked = [_demand(name, memory, MANY) for name in CASES for memory in ("managed", "pool")]
    facts = yield from grid.facts(f"{UNIFIED_PROBES}:link_demand", asked)
    said, wrong = [], []
    for place, name in enumerate(CASES):
        managed, pool = facts[2 * place], facts[2 * place + 1]
        peak = number(managed["peak_bytes_per_s"]) / number(pool["peak_bytes_per_s"])
        time = number(managed["elapsed_s"]) / number(pool["elapsed_s"])
        said.append(f"{name}: peak {peak:.3g}, time {time:.3g} of pool's")
        wrong += [f"{name}: the peak is not lower"] if peak >= 1.0 else []
        wrong += [f"{name}: the time is lower"] if time < 1.0 else []
    return Judgement("; ".join(said), not wrong, "; ".join(wrong))


def _demand(case: str, memory: str, threads: int) -> dict[str, Value]:
    return {**CASES[case], "memory": memory, "threads": threads, "batch": BATCH, "window_us": WINDOW_US}
