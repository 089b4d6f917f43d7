"""The claims are the paper's, each that must emerge has a judge, and the judges judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from invented_results import FACTS, collapsing, invented, parallel, result_of, serial

from offloadrt.extensions.evidence.validation.judging import Judgement, hear
from offloadrt.extensions.evidence.validation.validate import _verdict
from offloadrt.papers.exahype.judges import CASES, PAPER, saturation
from offloadrt.study.reporting.results import Result
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point


def _judged(claim: str, time: Any) -> Judgement:
    grid = PAPER.grid("full", RunSpec())
    return hear([PAPER.bench.judges[claim]], grid, invented(time))[claim]


@pytest.mark.parametrize(
    ("claim", "with_serial", "with_collapse"),
    [
        ("exahype.obs1.batching", True, True),
        ("exahype.obs2.degrade", True, True),
        ("exahype.obs2.expect", True, True),
        ("exahype.fig2.euler3d_p5.plateau", False, True),
        ("exahype.fig2.penalty", False, True),
        ("exahype.fig2.sat8", True, True),
        ("exahype.fig3.ccz4_p5.robust", True, True),
        ("exahype.fig3.vs_map", True, True),
        ("exahype.headline.order", True, True),
        ("exahype.concl.obs_invalid", True, True),
        ("exahype.fig2.speedup_iff", False, False),
    ],
)
def test_judges_tell_models_apart(claim: str, with_serial: bool, with_collapse: bool) -> None:
    assert _judged(claim, serial).holds is with_serial
    judgement = _judged(claim, collapsing)
    assert judgement.holds is with_collapse
    assert judgement.holds or judgement.reason, "a claim that fails says why"


def test_claims_that_need_more_say_so() -> None:
    judgement = _judged("exahype.concl.vendors", serial)
    assert judgement.holds is None and _verdict(judgement, []).startswith("not applicable: needs a profile of an MI")


@pytest.mark.parametrize("claim", ["exahype.fig4.ccz4_p5.um_flat", "exahype.fig4.ccz4_p5.um_worse"])
def test_judges_tell_taking_turns_from_scaling_in_managed_memory(claim: str) -> None:
    assert _judged(claim, serial).holds is True
    judgement = _judged(claim, parallel)
    assert judgement.holds is False and judgement.reason


def _of_facts(claim: str, *facts: dict[str, Any]) -> Judgement:
    """The judgement of a claim when its probes measure this, one after the other."""

    def answers(points: Sequence[Point]) -> list[Result]:
        return [result_of(point, **facts[number % len(facts)]) for number, point in enumerate(points)]

    return hear([PAPER.bench.judges[claim]], PAPER.grid("quick", RunSpec()), answers)[claim]


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("exahype.mech.um_variant", {"device_copies": 1}),
        ("exahype.mech.um_variant", {"kernels_that_faulted": 1}),
        ("exahype.mech.um_variant", {"migrations_after_the_last_kernel": 0}),
        ("exahype.mech.um_parallel_copy", {"overlapped_s": 0.0}),
        ("exahype.mech.um_parallel_copy", {"hits": 0}),
        ("exahype.mech.um_not_global", {"ordinary_is_managed": True}),
        ("exahype.mech.um_not_global", {"managed_allocations": 3}),
        ("exahype.fig4.busy_link", {"handler_s": 0.1, "link_s": 0.2}),
    ],
)
def test_one_fact_decides(claim: str, change: dict[str, Any]) -> None:
    usual = FACTS["unified"] | FACTS["link_demand"]
    assert _of_facts(claim, usual).holds is True
    judgement = _of_facts(claim, usual | change)
    assert judgement.holds is False and judgement.reason


def test_demand_is_compared_with_the_pool() -> None:
    managed = FACTS["link_demand"]
    claim = "exahype.fig4.spread"
    assert _of_facts(claim, managed, {**managed, "peak_bytes_per_s": 2.0}).holds is True
    assert _of_facts(claim, managed, managed).holds is False
    assert _of_facts(claim, managed, {**managed, "peak_bytes_per_s": 2.0, "elapsed_s": 2.0}).holds is False


def test_equal_runs_are_made_once() -> None:
    made: list[str] = []

    def answers(points: Sequence[Point]) -> Sequence[Result]:
        made.extend(point.key for point in points)
        found: Sequence[Result] = invented(serial)(points)
        return found

    judges = [PAPER.bench.judges[f"exahype.fig3.{case}.robust"] for case in CASES]
    judges += [PAPER.bench.judges["exahype.concl.obs_invalid"]]
    hear(judges, PAPER.grid("full", RunSpec()), answers)
    assert len(made) == len(set(made)) == 3 * 8 * 2, "each place takes two runs"


def test_saturation_is_where_a_doubling_no_longer_pays() -> None:
    assert saturation({1: 1.0, 2: 0.6, 4: 0.4, 8: 0.35, 16: 0.34}) == 4
    assert saturation({1: 1.0, 2: 0.5, 4: 0.25}) is None


def test_large_batches_are_looked_at_only_where_needed() -> None:
    asked: list[int] = []

    def answers(points: Sequence[Point]) -> list[Result]:
        asked.extend(int(str(point.parameters["batch"])) for point in points)
        found: list[Result] = invented(lambda parameters: 1.0)(points)
        return found

    (judgement,) = hear([PAPER.bench.judges["exahype.obs1.inflight"]], PAPER.grid("full", RunSpec()), answers).values()
    assert judgement.emulated == f"{128 * 4 * 17**2} volumes (n = 4)" and asked == [4, 8]
