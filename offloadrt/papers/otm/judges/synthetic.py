"""Judges of Table 2 and of what the paper says of density and reuse, on a synthetic program.

It is `offloadrt run unified_memory`: kernels read and write all that they touch, and the host reads the result. Density
is the part of the pages of 64 KiB that a kernel touches, at random. One array, unless one of two is pinned.
"""

from __future__ import annotations

from offloadrt.papers.otm.judges.places import RodiniaGrid, bench, handler_share, synthetic
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.validation.judging import Hearing, Judgement, Reading
from offloadrt.study.validation.measured import number

LEAST, MOST = 0.02, 0.98
"""The range of densities in which the crossover is searched."""
STEPS = 6
"""How often the bisection halves the range of densities."""

ALONE: dict[str, Value] = {"arrays": 1}
MANAGED: dict[str, Value] = {**ALONE, "placement": "managed"}
COPIED: dict[str, Value] = {**ALONE, "placement": "explicit"}


@bench.judge("otm.table2.fit_high")
def dense(grid: RodiniaGrid) -> Hearing:
    um, explicit, unread, copied = yield from synthetic(
        grid,
        [(grid.small, {**placement, "read_result": read}) for read in (True, False) for placement in (MANAGED, COPIED)],
    )
    ratio, without = um.elapsed_s / explicit.elapsed_s, unread.elapsed_s / copied.elapsed_s
    emulated = f"{ratio:.3g} ({without:.3g} if the host does not look: explicit copies bring all back, faults nothing)"
    return Reading(emulated, ratio, f"faults and migrations take {ratio:.3g} of what the copies take")


@bench.judge("otm.table2.fit_low")
def sparse(grid: RodiniaGrid, density: float) -> Hearing:
    um, explicit = yield from synthetic(
        grid, [(grid.small, {**placement, "density": density}) for placement in (MANAGED, COPIED)]
    )
    ratio = um.elapsed_s / explicit.elapsed_s
    moved = number(um.measured["to_device_gb"]) / number(explicit.measured["to_device_gb"])
    reason = f"faults cost more than the copies that they save: {moved:.3g} of the bytes migrate"
    return Reading(f"t(UM) / t(explicit) = {ratio:.3g}; {moved:.3g} of the bytes", ratio, reason)


@bench.judge("otm.table2.over_high")
def pinning(grid: RodiniaGrid, reuse: int) -> Hearing:
    both: dict[str, Value] = {"arrays": 2, "reuse": reuse}
    um, pinned = yield from synthetic(
        grid, [(grid.large, {**both, "placement": placement}) for placement in ("managed", "hybrid")]
    )
    ratio = pinned.elapsed_s / um.elapsed_s
    emulated = f"{pinned.elapsed_s:.3g} s and {um.elapsed_s:.3g} s"
    return Reading(emulated, ratio, "reaching one array over the link costs more than evictions")


@bench.judge("otm.table2.over_low", "otm.obs3.noreuse")
def streaming(grid: RodiniaGrid, within: float) -> Hearing:
    below, above = yield from synthetic(grid, [(grid.small, MANAGED), (grid.large, MANAGED)])
    ratio = (above.elapsed_s / grid.large) / (below.elapsed_s / grid.small)
    reason = f"evictions take {ratio - 1:.0%} of the time" if ratio > 1.0 else "what was evicted is on the host already"
    return Judgement(f"{ratio:.3g}", abs(ratio - 1.0) <= within, reason)


@bench.judge("otm.mech.lru")
def least_recent_faults(grid: RodiniaGrid, reuse: int) -> Hearing:
    size = grid.over[0]
    (swept,) = yield from synthetic(grid, [(size, {**MANAGED, "reuse": reuse})])
    hits = 1.0 - number(swept.measured["to_device_gb"]) / (size * grid.part * reuse)
    return Reading(f"{max(hits, 0.0):.2g} at {size:g} GB", hits, "blocks survive until the next sweep")


@bench.judge("otm.fit.density_threshold")
def crossover(grid: RodiniaGrid) -> Hearing:
    low, high = LEAST, MOST
    um, copied, most, again = yield from synthetic(grid, [*_both(grid, low), *_both(grid, high)])
    at_low, at_high = um.elapsed_s / copied.elapsed_s, most.elapsed_s / again.elapsed_s
    if at_low >= 1.0 or at_high <= 1.0:
        emulated = f"none: t(UM) / t(explicit) is {at_low:.3g} at density {low:g} and {at_high:.3g} at {high:g}"
        return Judgement(emulated, False, "one of the two is better at every density")
    for _ in range(STEPS):
        density = (low + high) / 2.0
        um, copied = yield from synthetic(grid, _both(grid, density))
        if um.elapsed_s < copied.elapsed_s:
            low = density
        else:
            high, most = density, um
    value = (low + high) / 2.0
    moved = number(most.measured["to_device_gb"]) / (grid.small * grid.part)
    why = (
        f"at density {high:.2g}, with {moved:.2g} of the bytes moved, the page-fault handler is busy for "
        f"{handler_share(most):.0%} of the time: pages that are met at random lie in all blocks of 2 MiB, and a block "
        "is served again for each few of them"
    )
    return Reading(f"{value:.2g}", value, why, "copies cost more than faults")


def _both(grid: RodiniaGrid, density: float) -> list[tuple[float, dict[str, Value]]]:
    return [(grid.small, {**placement, "density": density}) for placement in (MANAGED, COPIED)]
