"""The zero-copy claims are the paper's, each has a judge, and the judges judge."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import attrs
import pytest

from offloadrt.study import registry
from offloadrt.study.claims import claims_of, papers, zerocopy
from offloadrt.study.claims.zerocopy.ratios import correlation
from offloadrt.study.judging import Judgement, hear
from offloadrt.study.points import Options, Point
from offloadrt.study.results import Bytes, CallFigures, Result, TimeShare
from offloadrt.study.validate import validate

SHARED = Path(__file__).parents[2].parent / "shared" / "papers" / "claims.toml"
GRID = zerocopy.grid("quick", Options())


def test_the_copy_is_exact() -> None:
    if not SHARED.is_file():
        pytest.skip("the claims of all papers are not beside this checkout")
    copy = Path(zerocopy.__file__).parent.with_suffix(".toml")
    theirs = [claim for claim in tomllib.loads(SHARED.read_text())["claim"] if claim["paper"] == "zerocopy"]
    assert tomllib.loads(copy.read_text())["claim"] == theirs


def test_every_claim_but_inputs_has_a_judge_and_no_other() -> None:
    assert "zerocopy" in papers()
    judged = [claim.id for claim in claims_of("zerocopy") if claim.role != "input"]
    assert sorted(zerocopy.bench.judges) == sorted(judged)


def test_a_sensitivity_run_is_a_run() -> None:
    for parameters in zerocopy.SENSITIVITY:
        GRID.point(parameters)


def _invented(measure: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Callable[[Sequence[Point]], list[Result]]:
    """Answers that `measure(parameters)` makes up: attributes of a result, else measured figures."""

    def answer(point: Point) -> Result:
        made = measure(point.parameters)
        fields = {field.name for field in attrs.fields(Result)}
        plain = Result(
            scenario=registry.split(point.scenario)[1] or "",
            parameters=dict(point.parameters),
            machine="mi300a",
            seed=0,
            elapsed_s=1.0,
            measured={name: value for name, value in made.items() if name not in fields},
            calls={},
            locks={},
            devices={},
            bytes=Bytes(),
            faults={},
            events=0,
            trace_hash=None,
            where_time_went={},
        )
        return attrs.evolve(plain, **{name: value for name, value in made.items() if name in fields})

    return lambda points: [answer(point) for point in points]


def judged(claim: str, measure: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Judgement:
    return hear([zerocopy.bench.judges[claim]], GRID, _invented(measure))[claim]


ORDER = ("S1", "S2", "S4", "S8", "S16", "S24", "S32", "S48", "S64", "S128")


def as_the_paper(of: Mapping[str, Any]) -> dict[str, Any]:
    """Times in which zero-copy gains, more with threads and less with the size."""
    gain = 2.0 + 0.1 * of["threads"] - 0.08 * ORDER.index(of["size"])
    shared = {"usm": gain, "implicit_zero_copy": gain, "eager_maps": gain - 0.02 * of["threads"], "copy": 1.0}
    return {"elapsed_s": 2.0 / shared[of["configuration"]]}


def the_other_way_round(of: Mapping[str, Any]) -> dict[str, Any]:
    return {"elapsed_s": 2.0 / as_the_paper(of)["elapsed_s"]}


@pytest.mark.parametrize(
    "claim",
    [
        "fig3.always_better.izc",
        "fig3.always_better.usm",
        "fig3.threads_up",
        "fig4.size_down",
        "fig4.s2_max",
        "fig3.s1_extreme",
        "eager.small_lower",
    ],
)
def test_orderings_of_the_figures(claim: str) -> None:
    assert judged(f"mi300a.{claim}", as_the_paper).holds
    refuted = judged(f"mi300a.{claim}", the_other_way_round)
    assert refuted.holds is False and refuted.reason


def ratio_of(value: float) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    return lambda of: {"elapsed_s": value if of["configuration"] == "copy" else 1.0}


@pytest.mark.parametrize(
    ("claim", "value", "holds"),
    [
        ("headline.qmc", 1.2, True),
        ("headline.qmc", 2.31, False),
        ("headline.qmc", 1.19, False),
        ("fig3.always_better.izc", 1.0, False),
        ("table2.ep.eager", 1.02, True),
        ("table2.ep.eager", 1.03, False),
        ("table2.spC.usm", 6.4, False),
        ("table2.order.stencil", 1.0, True),
        ("table2.order.stencil", 0.94, False),
        ("table2.order.ep", 0.9, False),
    ],
)
def test_relations_are_taken_literally(claim: str, value: float, holds: bool) -> None:
    assert judged(f"mi300a.{claim}", ratio_of(value)).holds is holds


def test_orders_of_the_table() -> None:
    times = {"copy": 8.0, "eager_maps": 1.0, "implicit_zero_copy": 1.1, "usm": 1.2}
    assert judged("mi300a.table2.order.spC", lambda of: {"elapsed_s": times[of["configuration"]]}).holds
    times = {"copy": 8.0, "eager_maps": 8.5, "implicit_zero_copy": 9.0, "usm": 9.0}
    assert judged("mi300a.table2.order.ep", lambda of: {"elapsed_s": times[of["configuration"]]}).holds


def test_overheads_are_in_microseconds() -> None:
    made = {"memory_management_s": 0.0, "memory_initialization_s": 2.0}
    assert judged("mi300a.table3.ep.zc.mi", lambda of: made).holds
    assert judged("mi300a.table3.ep.zc.mm", lambda of: made).holds
    assert not judged("mi300a.table3.ep.eager.mi", lambda of: made).holds
    low = judged("mi300a.table3.ep.zc.mi", lambda of: {**made, "memory_initialization_s": 0.5})
    assert not low.holds and "tens of GiB" in low.reason


def _calls(**totals: float) -> dict[str, CallFigures]:
    return {name: CallFigures(10, dt, dt / 10, 0.0, dt) for name, dt in totals.items()}


def test_start_up_calls_count_in_table_1() -> None:
    def run(of: Mapping[str, Any]) -> dict[str, Any]:
        if of["configuration"] == "copy":
            return {"calls": _calls(memory_async_copy=0.402)}
        return {"calls_outside": _calls(memory_async_copy=0.002)}

    assert judged("mi300a.table1.1t.lat_copy", run).emulated.startswith("2e+03"), "a tenth of the steps, scaled up"
    assert judged("mi300a.table1.copy_dominates", run).holds


def test_counts_of_a_part_of_the_steps_are_scaled_up() -> None:
    made = {"kernels": 9_963, "copies": 30_761, "calls": {"signal_wait_scacquire": CallFigures(35_165, 1, 1, 1, 1)}}
    judgement = judged("mi300a.table1.1t.waits_copy", lambda of: made)
    assert judgement.holds and "351,650" in judgement.emulated and "scaled up" in judgement.emulated


def test_what_copy_adds_for_data_is_weighed_against_each_other_category() -> None:
    def spent(**seconds: float) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        def made(of: Mapping[str, Any]) -> dict[str, Any]:
            if of["configuration"] != "copy":
                return {"where_time_went": {"kernels": TimeShare(90.0, 0.0), "device": TimeShare(1.0, 0.0)}}
            shares = {name.replace("_", " "): TimeShare(dt, 0.0) for name, dt in seconds.items()}
            return {"where_time_went": shares, "calls": _calls(memory_pool_allocate=3.0)}

        return made

    assert judged("mi300a.lesson.fold", spent(driver=3.5, copies=1.0, kernels=93.0, table_lock=3.0, device=1.0)).holds
    assert not judged("mi300a.lesson.fold", spent(driver=3.5, copies=1.0, table_lock=5.0, device=1.0)).holds
    assert not judged("mi300a.lesson.fold", spent(driver=9.0, copies=1.0)).holds, "the rest of the driver is larger"
    assert judged("mi300a.lesson.fold", spent(driver=9.0, copies=1.0, device=4.0)).holds, "copies that are queued"


def test_a_threshold_of_bytes_per_map() -> None:
    def times(of: Mapping[str, Any]) -> dict[str, Any]:
        eager = of["configuration"] == "eager_maps"
        calls = of["remaps"] + 1
        return {"elapsed_s": 2e-6 * calls if eager else 17e-6 * of["bytes"] / (2 << 20)}

    assert judged("mi300a.lesson.eager_when", times).holds
    assert not judged("mi300a.lesson.eager_when", lambda of: {"elapsed_s": 1.0}).holds


def test_variation_is_a_declared_input() -> None:
    judgement = judged("mi300a.cov.usm", lambda of: {"elapsed_s": 1.0})
    assert judgement.holds is None and "declared input" in judgement.reason


@pytest.mark.parametrize(
    ("curve", "value"),
    [((3.0, 2.0, 1.0), -1.0), ((1.0, 2.0, 4.0), 1.0), ((1.0, 1.0, 1.0), 0.0), ((2.0, 1.0, 2.0), 0.0)],
)
def test_rank_correlation(curve: Sequence[float], value: float) -> None:
    from scipy.stats import spearmanr

    assert correlation(curve) == pytest.approx(value)
    if len(set(curve)) > 1:
        assert correlation(curve) == pytest.approx(spearmanr(range(len(curve)), curve).statistic)


@pytest.mark.slow
def test_the_quick_comparison_leaves_no_claim_and_no_reason_out() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        report = validate("zerocopy", pool, jobs=2, quick=True)
    told = [claim.id for claim in claims_of("zerocopy") if claim.role != "input"]
    assert [finding.claim for finding in report.findings] == told
    assert [finding.claim for finding in report.findings if finding.verdict == "fails" and not finding.reason] == []
    mechanisms = [finding for finding in report.findings if finding.claim.startswith("mi300a.mech.")]
    assert [finding.claim for finding in mechanisms if finding.verdict != "holds"] == []
