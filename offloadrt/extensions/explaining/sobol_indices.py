"""On which unknown entries a sentence's figure depends: total-order Sobol indices, by SALib.

The figure is the share of the critical path that waits for the resource that limits the run, or is spent on it. The
index of an entry is the part of the figure's variance that would be left if all other entries were known (Sobol 2001;
Saltelli et al. 2010). Entries that the draws show to matter most stand for themselves, all others are one group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import attrs

from offloadrt.extensions.explaining.robustness import drawn_correlations, shares_in_time
from offloadrt.study.reporting.table import library
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point

Groups = Mapping[str, str]
"""The group of each entry, by its name."""
MOST = 6
"""Entries that stand for themselves."""
_SEED = 2026
_LEAST = 4
"""Base samples without which nothing is said."""


@attrs.frozen
class TotalOrder:
    """The index of an entry, or of all entries that do not stand for themselves, and its 95 % interval's half."""

    entry: str
    index: float
    half_width: float


@attrs.frozen
class SobolIndices:
    """The indices of a figure, the largest first; `samples` base samples were run to the end, of as many as asked."""

    resource: str
    samples: int
    asked: int
    of: tuple[TotalOrder, ...]

    def __str__(self) -> str:
        figure = f"the share of the critical path of {self.resource}"
        if not self.of:
            return (
                f"{figure}: {self.samples} of {self.asked} base samples were run within the budget, too few for Sobol"
            )
        said = ", ".join(f"{one.entry} {one.index:.2f} ± {one.half_width:.2f}" for one in self.of)
        return f"{figure} depends on (total-order Sobol indices, {self.samples} base samples): {said}"


def groups_of(
    places: Sequence[Mapping[str, str | float]], figures: Sequence[float], most: int = MOST
) -> dict[str, str]:
    """Return the group of each entry: itself for those with which the figure goes most, one name for all others."""
    found = drawn_correlations(places, figures)
    chosen = sorted(found, key=lambda entry: (-abs(found[entry]), entry))[:most]
    rest = f"the other {len(found) - len(chosen)} entries"
    return {entry: entry if entry in chosen else rest for entry in found}


def total_order(
    resource: str,
    point: Point,
    groups: Groups,
    samples: int,
    pool: Executor,
    jobs: int,
    deadline: float,
    advanced: Callable[[int, int], object] = lambda done, asked: None,
) -> SobolIndices:
    """Run base samples, each of as many runs as there are groups and two more, and return the indices.

    No run is begun after `deadline`, a reading of `time.monotonic`; base samples that are not complete then, or of
    which a run fails, do not count. Raises UserError where SALib is not installed.
    """
    problem = {
        "num_vars": len(groups),
        "names": list(groups),
        "bounds": [[0.0, 1.0]] * len(groups),
        "groups": list(groups.values()),
    }
    rows = library("SALib.sample.sobol").sample(problem, samples, calc_second_order=False, seed=_SEED).tolist()
    block = len(set(groups.values())) + 2
    points = [_at(point, groups, row) for row in rows]
    said = shares_in_time(points, pool, jobs, deadline, advanced)
    figures = [one["shares"].get(resource, 0.0) if "shares" in one else None for one in said]
    blocks = [figures[begin : begin + block] for begin in range(0, len(figures) - block + 1, block)]
    whole = [[one for one in values if one is not None] for values in blocks if None not in values]
    if len(whole) < _LEAST:
        return SobolIndices(resource, len(whole), samples, ())
    of = _analyzed(problem, [one for values in whole for one in values])
    return SobolIndices(resource, len(whole), samples, of)


def _at(point: Point, groups: Mapping[str, str], row: Sequence[float]) -> Point:
    options: RunSpec = point.options
    return attrs.evolve(point, options=options.with_ends(dict(zip(groups, row, strict=True))))


def _analyzed(problem: Mapping[str, Any], figures: Sequence[float]) -> tuple[TotalOrder, ...]:
    names = list(dict.fromkeys(problem["groups"]))
    if max(figures) - min(figures) < 1e-12:  # nothing varies, so nothing depends on anything
        return tuple(TotalOrder(name, 0.0, 0.0) for name in names)
    array = library("numpy").array(figures)
    found = library("SALib.analyze.sobol").analyze(problem, array, calc_second_order=False, seed=_SEED)
    of = [
        TotalOrder(name, float(index), float(half))
        for name, index, half in zip(names, found["ST"], found["ST_conf"], strict=True)
    ]
    return tuple(sorted(of, key=lambda one: -one.index))
