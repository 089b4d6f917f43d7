"""Judges of Figure 4 and of what the paper says about managed memory."""

from __future__ import annotations

from offloadrt.papers.exahype.judges.curves import BATCH, CASES, UNIFIED_PROBES, ScalingGrid, bench, strong
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.validation.judging import Hearing, Judgement, Reading, unless
from offloadrt.study.validation.measured import listed, longer, numbers


@bench.judge("exahype.mech.um_variant")
def variant(grid: ScalingGrid) -> Hearing:
    (fact,) = yield from grid.facts(f"{UNIFIED_PROBES}:unified")
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
    (fact,) = yield from grid.facts(f"{UNIFIED_PROBES}:unified", [{"threads": 8, "batches": 8}])
    overlapped, copies, hits = numbers(fact, "overlapped_s", "copies_s", "hits")
    emulated = (
        f"{overlapped:.3g} s of {copies:.3g} s of copies overlap, {fact['blocks']} blocks, {hits:g} handed out again"
    )
    reason = "no two threads copy at a time" if overlapped <= 0.0 else "no block is used again"
    return Judgement(emulated, overlapped > 0.0 and hits > 0, reason)


@bench.judge("exahype.mech.um_not_global")
def not_global(grid: ScalingGrid) -> Hearing:
    (fact,) = yield from grid.facts(f"{UNIFIED_PROBES}:unified")
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
    facts = yield from grid.facts(f"{UNIFIED_PROBES}:link_demand", [{**case, "batch": BATCH} for case in cases])
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
        f"{UNIFIED_PROBES}:link_demand",
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
