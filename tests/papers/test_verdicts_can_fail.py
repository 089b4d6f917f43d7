"""Every verdict that is counted can be a refusal: there are results, which no run gave, that its judge refuses."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import pytest
from invented_results import result_of

from offloadrt.extensions.evidence.validation.judging import PAPERS, Paper, hear, paper_named
from offloadrt.study.reporting.results import DeviceFigures, Result, TimeShare
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point
from offloadrt.trace import CallStatistics

WITHOUT_RUNS = {"otm.mech.got", "mi300a.mech.izc_detect"}
"""Their judges analyse programs, or evaluate the rule itself, and make no runs."""
OF_NAMED_OBJECTS = {"otm.bfs.edges_pinned", "otm.mech.density", "otm.mech.map_order", "otm.mech.rank"}
"""Their judges look for the program's own objects; `test_otm_claims.py` has results that they refuse."""
CALLS = ("signal_wait_scacquire", "signal_async_handler", "memory_pool_allocate", "memory_async_copy")
"""Calls whose figures judges add up over a whole run."""


class Anything(dict[str, Any]):
    """Has an invented value for every key."""

    def __init__(self, invent: Callable[[], Any]) -> None:
        self.invent = invent

    def __missing__(self, key: str) -> Any:
        self[key] = self.invent()
        return self[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self[key]

    def __contains__(self, key: object) -> bool:
        return True


def world(seed: int) -> Callable[[Point], Result]:
    """Results whose figures are far apart, nearly equal, or mostly nothing, by turns."""
    rng = random.Random(seed)

    def number() -> float:
        if seed % 3 == 2 and rng.random() < 0.7:
            return 0
        return 10 ** rng.uniform(*((-12, 12) if seed % 3 == 0 else (-0.02, 0.02)))

    def figures(cls: Any) -> Callable[[], Any]:
        return lambda: cls(*(number() for _ in attrs.fields(cls)))

    def result(point: Point) -> Result:
        called = Anything(figures(CallStatistics))
        called.update((name, called.invent()) for name in CALLS)
        return attrs.evolve(
            result_of(point),
            elapsed_s=number(),
            measured=Anything(number),
            calls=called,
            devices=Anything(figures(DeviceFigures)),
            where_time_went=Anything(figures(TimeShare)),
            trace_hash=str(rng.random()),
        )

    return result


def refused(paper: Paper, claim: str) -> bool:
    for seed in range(12):
        answers = partial(map, world(seed))
        try:
            judgements = hear([paper.bench.judges[claim]], paper.grid("quick", RunSpec()), answers)
        except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError):
            continue  # figures that make no sense together
        if judgements[claim].holds is not True:
            return True
    return False


@pytest.mark.parametrize("name", PAPERS.names())
def test_invented_results_make_every_counted_verdict_fail(name: str) -> None:
    paper = paper_named(name)
    never = {claim for claim in paper.bench.judges if not refused(paper, claim)}
    assert never <= WITHOUT_RUNS | OF_NAMED_OBJECTS
