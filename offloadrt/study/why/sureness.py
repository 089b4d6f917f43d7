"""How sure a sentence is: the run again at places drawn in all ranges of the machine, and whom that changes.

The draws are those of `validation.draws`: a scrambled Sobol sequence over all ranges at once. A sentence holds in a
draw when it names the same resource and the same call.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future

import attrs
import msgspec

from offloadrt.machine import MachineSpec
from offloadrt.study.errors import ScriptFailed, UserError
from offloadrt.study.points import Options, Point
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.validation.draws import draws_of
from offloadrt.study.why.observed import observe
from offloadrt.study.why.sentence import Limit, limit_of

_MOST = 3


@attrs.frozen
class Dependence:
    """An entry that decides whether the sentence holds: the correlation of its place with that, from -1 to 1."""

    entry: str
    correlation: float


@attrs.frozen
class Sureness:
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


def limit_at(point: Point) -> bytes:
    """Run one point, in whichever process, and return resource and call of its limit as JSON, or an error."""
    try:
        limit = limit_of(observe(registry.find(point.scenario), point.parameters, point.options))
    except (UserError, ScriptFailed) as error:
        return msgspec.json.encode({"error": str(error)})
    return msgspec.json.encode({"limit": named(limit)})


def named(limit: Limit) -> str:
    return f"{limit.resource} ({limit.call})" if limit.call else limit.resource


def how_sure(
    limit: Limit,
    scenario: Scenario,
    given: Mapping[str, Value],
    options: Options,
    spec: MachineSpec,
    pool: Executor,
    draws: int,
    jobs: int = 1,
    deadline: float = math.inf,
    advanced: Callable[[int, int], object] = lambda done, asked: None,
) -> Sureness | None:
    """Run at `draws` places and compare their limits with this one; None when nothing is drawn.

    No run is begun after `deadline`, a reading of `time.monotonic`; `jobs` runs are made at a time. Raises UserError
    where SciPy is not installed.
    """
    drawn = draws_of(spec, {}, options, draws)
    if not drawn:
        return None
    reference = registry.reference(scenario)
    futures: list[Future[bytes]] = []
    said: list[str | None] = []
    while len(said) < len(drawn):
        while len(futures) < min(len(drawn), len(said) + jobs) and time.monotonic() < deadline:
            futures.append(pool.submit(limit_at, Point(reference, dict(given), drawn[len(futures)])))
        if len(said) == len(futures):
            break
        said.append(msgspec.json.decode(futures[len(said)].result()).get("limit"))
        advanced(len(said), len(drawn))
    drawn = drawn[: len(said)]
    holds = [one == named(limit) for one in said if one is not None]
    places = [place.range_end for place, one in zip(drawn, said, strict=True) if one is not None]
    others = Counter(one for one in said if one is not None and one != named(limit))
    return Sureness(sum(holds), len(holds), dependences(holds, places), dict(others.most_common()), said.count(None))


def dependences(holds: Sequence[bool], places: Sequence[Mapping[str, str | float]]) -> tuple[Dependence, ...]:
    """Return the entries whose places go with whether the sentence holds, by more than chance (two standard errors)."""
    if not holds or all(holds) or not any(holds):
        return ()
    found = []
    for entry in places[0]:
        correlation = statistics.correlation([float(place[entry]) for place in places], [float(one) for one in holds])
        if abs(correlation) > 2.0 / math.sqrt(len(holds)):
            found.append(Dependence(entry, correlation))
    return tuple(sorted(found, key=lambda one: -abs(one.correlation))[:_MOST])
