"""Judges of Table 2 and of what the paper says of density and reuse, on a synthetic program.

It is `offloadrt run unified_memory`: kernels read and write all that they touch, and the host reads the result. Density
is the part of the pages of 64 KiB that a kernel touches, at random. One array, unless one of two is pinned.
"""

from __future__ import annotations

from offloadrt.papers.otm.judges.places import Grid, banded, bench, handler_share, synthetic
from offloadrt.study.judging import Asking, Judgement
from offloadrt.study.measured import number
from offloadrt.study.scripts.parameters import Value

LOW = 0.1
"""A low density."""
REUSE = 4
"""Kernels over the same data where there is much reuse."""
AS_MUCH = 0.2
"""By which times per byte may differ."""
NO_HITS = 0.05
"""Of the bytes that the kernels sweep: at most so many are found in memory where hardly any are."""
LEAST, MOST = 0.02, 0.98
"""Densities between which one is looked for."""
STEPS = 6
"""Halvings of the range of densities."""

ALONE: dict[str, Value] = {"arrays": 1}
MANAGED: dict[str, Value] = {**ALONE, "placement": "managed"}
COPIED: dict[str, Value] = {**ALONE, "placement": "explicit"}


@bench.judge("otm.table2.fit_high", "1 < t(UM) / t(explicit) <= 2 (fits, density 1, reuse 1; the host reads all)")
def dense(grid: Grid) -> Asking:
    um, explicit, unread, copied = yield from synthetic(
        grid,
        [(grid.small, {**one, "read_result": read}) for read in (True, False) for one in (MANAGED, COPIED)],
    )
    ratio, without = um.elapsed_s / explicit.elapsed_s, unread.elapsed_s / copied.elapsed_s
    said = f"{ratio:.3g} ({without:.3g} if the host does not look: explicit copies bring all back, faults nothing)"
    return Judgement(said, 1.0 < ratio <= 2.0, f"faults and migrations take {ratio:.3g} of what the copies take")


@bench.judge("otm.table2.fit_low", f"t(UM) < t(explicit) (fits, density {LOW:g}, reuse 1)")
def sparse(grid: Grid) -> Asking:
    um, explicit = yield from synthetic(grid, [(grid.small, {**one, "density": LOW}) for one in (MANAGED, COPIED)])
    ratio = um.elapsed_s / explicit.elapsed_s
    moved = number(um.measured["to_device_gb"]) / number(explicit.measured["to_device_gb"])
    reason = f"faults cost more than the copies that they save: {moved:.3g} of the bytes migrate"
    return Judgement(f"t(UM) / t(explicit) = {ratio:.3g}; {moved:.3g} of the bytes", ratio < 1.0, reason)


@bench.judge("otm.table2.over_high", f"t(one of two arrays pinned) < t(UM) (above 16 GB, density 1, reuse {REUSE})")
def pinning(grid: Grid) -> Asking:
    both: dict[str, Value] = {"arrays": 2, "reuse": REUSE}
    um, pinned = yield from synthetic(grid, [(grid.large, {**both, "placement": one}) for one in ("managed", "hybrid")])
    ratio = pinned.elapsed_s / um.elapsed_s
    said = f"{pinned.elapsed_s:.3g} s and {um.elapsed_s:.3g} s"
    return Judgement(said, ratio < 1.0, "reaching one array over the link costs more than evictions")


@bench.judge("otm.table2.over_low", f"time a byte, above 16 GB over below: 1 within {AS_MUCH:.0%} (UM, reuse 1)")
@bench.judge("otm.obs3.noreuse", f"time a byte, above 16 GB over below: 1 within {AS_MUCH:.0%} (UM, streaming)")
def streaming(grid: Grid) -> Asking:
    below, above = yield from synthetic(grid, [(grid.small, MANAGED), (grid.large, MANAGED)])
    ratio = (above.elapsed_s / grid.large) / (below.elapsed_s / grid.small)
    reason = f"evictions take {ratio - 1:.0%} of the time" if ratio > 1.0 else "what was evicted is on the host already"
    return Judgement(f"{ratio:.3g}", abs(ratio - 1.0) <= AS_MUCH, reason)


@bench.judge("otm.mech.lru", f"part of the swept bytes that needs no migration <= {NO_HITS:g} (UM, reuse {REUSE})")
def least_recent_faults(grid: Grid) -> Asking:
    size = grid.over[0]
    (swept,) = yield from synthetic(grid, [(size, {**MANAGED, "reuse": REUSE})])
    hits = 1.0 - number(swept.measured["to_device_gb"]) / (size * grid.part * REUSE)
    return Judgement(f"{max(hits, 0.0):.2g} at {size:g} GB", hits <= NO_HITS, "blocks survive until the next sweep")


@bench.judge(
    "otm.fit.density_threshold", "density at which t(UM) and t(explicit) are equal (fits, reuse 1), in the band"
)
def crossover(grid: Grid) -> Asking:
    low, high = LEAST, MOST
    um, copied, most, again = yield from synthetic(grid, [*_both(grid, low), *_both(grid, high)])
    at_low, at_high = um.elapsed_s / copied.elapsed_s, most.elapsed_s / again.elapsed_s
    if at_low >= 1.0 or at_high <= 1.0:
        said = f"none: t(UM) / t(explicit) is {at_low:.3g} at density {low:g} and {at_high:.3g} at {high:g}"
        return Judgement(said, False, "one of the two is better at every density")
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
    return banded("otm.fit.density_threshold", value, f"{value:.2g}", why, "copies cost more than faults")


def _both(grid: Grid, density: float) -> list[tuple[float, dict[str, Value]]]:
    return [(grid.small, {**one, "density": density}) for one in (MANAGED, COPIED)]
