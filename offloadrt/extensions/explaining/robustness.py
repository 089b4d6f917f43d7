"""How robust a sentence is: whether it holds at places drawn in all ranges of the machine.

The draws are those of `study/inputs.py`: a scrambled Sobol sequence over all ranges at once. A sentence holds in a
draw when it names the same resource and the same call.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import attrs
import msgspec

from offloadrt.extensions.explaining.observed import observe
from offloadrt.extensions.explaining.sentence import Limit, grouped, limit_of
from offloadrt.machine import MachineSpec
from offloadrt.study.errors import ScriptFailed, UserError
from offloadrt.study.inputs import draws_of
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point

_MOST = 3


@attrs.frozen
class Dependence:
    """An entry that decides whether the sentence holds: the correlation of its place with that, from -1 to 1."""

    entry: str
    correlation: float


@attrs.frozen
class Robustness:
    """In how many draws the sentence holds, on which entries that depends, and what else limits the run."""

    holds: int
    draws: int
    depends_on: tuple[Dependence, ...]
    others: Mapping[str, int]
    """In how many draws something else limits the run, as "resource (call)"."""
    failed: int = 0
    """Draws in which the run ended with an error."""

    def __str__(self) -> str:
        text = f"holds in {self.holds} of {self.draws} draws"
        if self.depends_on:
            text += "; depends on " + ", ".join(one.entry for one in self.depends_on)
        return text


@attrs.frozen
class Drawn:
    """What the draws said: where they were, and the share of the critical path that the sentence's resource had."""

    robustness: Robustness
    places: tuple[Mapping[str, str | float], ...]
    shares: tuple[float, ...]


def shares_at(point: Point) -> bytes:
    """Run one point, in whichever process; return its limit and the shares of its path as JSON, or an error."""
    try:
        observed = observe(registry.find(point.scenario), point.parameters, point.options)
    except (UserError, ScriptFailed) as error:
        return msgspec.json.encode({"error": str(error)})
    shares = {one.name: one.share for one in grouped(observed.path, lambda part: part.blame)}
    return msgspec.json.encode({"limit": named(limit_of(observed)), "shares": shares})


def named(limit: Limit) -> str:
    return f"{limit.resource} ({limit.call})" if limit.call else limit.resource


def robustness_of(
    limit: Limit,
    scenario: Scenario,
    given: Mapping[str, Value],
    options: RunSpec,
    spec: MachineSpec,
    pool: Executor,
    draws: int,
    jobs: int = 1,
    deadline: float = math.inf,
    advanced: Callable[[int, int], object] = lambda done, asked: None,
) -> Drawn | None:
    """Run at `draws` places and compare their limits with this one; None when nothing is drawn.

    No run is begun after `deadline`, a reading of `time.monotonic`; `jobs` runs are made at a time. Raises UserError
    where SciPy is not installed.
    """
    drawn = draws_of(spec, {}, options, draws)
    reference = registry.reference(scenario)
    points = [Point(reference, dict(given), place) for place in drawn]
    said = shares_in_time(points, pool, jobs, deadline, advanced)
    if not said:
        return None
    places = [place.ends for place, one in zip(drawn, said, strict=False) if "limit" in one]
    limits = [one["limit"] for one in said if "limit" in one]
    holds = [one == named(limit) for one in limits]
    others = Counter(one for one in limits if one != named(limit))
    failed = len(said) - len(limits)
    robustness = Robustness(sum(holds), len(holds), dependences(holds, places), dict(others.most_common()), failed)
    shares = tuple(one["shares"].get(limit.resource, 0.0) for one in said if "limit" in one)
    return Drawn(robustness, tuple(places), shares)


def shares_in_time(
    points: Sequence[Point], pool: Executor, jobs: int, deadline: float, advanced: Callable[[int, int], object]
) -> list[Any]:
    """Return what `shares_at` says of the points, in order, as far as their runs can begin before the deadline."""
    futures: list[Future[bytes]] = []
    said: list[Any] = []
    for done, _ in enumerate(points):
        while len(futures) < min(len(points), done + jobs) and time.monotonic() < deadline:
            futures.append(pool.submit(shares_at, points[len(futures)]))
        if done == len(futures):
            break
        said.append(msgspec.json.decode(futures[done].result()))
        advanced(done + 1, len(points))
    return said


def drawn_correlations(places: Sequence[Mapping[str, str | float]], figures: Sequence[float]) -> dict[str, float]:
    """Return the correlation of each entry's place with a figure; 0 where one of the two does not vary."""
    found = dict.fromkeys(places[0], 0.0) if places else {}
    if len(set(figures)) > 1:
        for entry in found:
            found[entry] = statistics.correlation([float(place[entry]) for place in places], figures)
    return found


def dependences(holds: Sequence[bool], places: Sequence[Mapping[str, str | float]]) -> tuple[Dependence, ...]:
    """Return the entries whose places go with whether the sentence holds, by more than chance (two standard errors)."""
    if not holds or all(holds) or not any(holds):
        return ()
    found = [
        Dependence(entry, correlation)
        for entry, correlation in drawn_correlations(places, [float(one) for one in holds]).items()
        if abs(correlation) > 2.0 / math.sqrt(len(holds))
    ]
    return tuple(sorted(found, key=lambda one: -abs(one.correlation))[:_MOST])
