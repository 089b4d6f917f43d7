"""The claims are the paper's, each that must emerge has a judge, and the judges judge."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from offloadrt.study import UserError, profiles
from offloadrt.study.claims import claims_of, exahype, papers
from offloadrt.study.judging import Judgement, hear
from offloadrt.study.points import Options, Point
from offloadrt.study.results import Bytes, Result
from offloadrt.study.validate import Finding, Report, Variant, _reason, _verdict, variants_of

SHARED = Path(__file__).parents[2].parent / "shared" / "papers" / "claims.toml"


def test_the_copy_is_exact() -> None:
    if not SHARED.is_file():
        pytest.skip("the claims of all papers are not beside this checkout")
    copy = Path(exahype.__file__).with_suffix(".toml")
    theirs = [claim for claim in tomllib.loads(SHARED.read_text())["claim"] if claim["paper"] == "exahype"]
    assert tomllib.loads(copy.read_text())["claim"] == theirs


def test_papers_and_roles() -> None:
    assert "exahype" in papers()
    assert {claim.role for claim in claims_of("exahype")} <= {"input", "calibrate", "predict"}
    with pytest.raises(UserError, match="--paper exahyp: no claims of it; did you mean exahype"):
        claims_of("exahyp")


def test_every_claim_that_must_emerge_has_a_judge_and_no_other() -> None:
    predicted = [claim.id for claim in claims_of("exahype") if claim.role == "predict"]
    assert sorted(exahype.bench.judges) == sorted(predicted)


def test_only_validate_and_its_parts_read_claims() -> None:
    package = Path(exahype.__file__).parents[2]
    readers = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "claims_of" in path.read_text(encoding="utf-8")
    }
    assert readers == {"study/claims/__init__.py", "study/claims/exahype.py", "study/validate.py"}


def _result(point: Point, **measured: Any) -> Result:
    return Result(
        scenario=point.scenario,
        parameters=dict(point.parameters),
        machine="alex-a100",
        seed=0,
        elapsed_s=1.0,
        measured=measured,
        calls={},
        locks={},
        devices={},
        bytes=Bytes(),
        faults={},
        events=0,
        trace_hash=None,
        where_time_went={},
    )


def _invented(time: Any) -> Any:
    """Answers in which the time per volume is `time(parameters)`; over one thread's volumes it is longer."""

    def answers(points: Sequence[Point]) -> list[Result]:
        found = []
        for point in points:
            seconds = time(point.parameters)
            threads = point.parameters["threads"]
            assert isinstance(threads, int)
            figures = {"time_per_volume_s": seconds, "time_per_volume_per_thread_s": seconds * threads}
            found.append(_result(point, **figures))
        return found

    return answers


def _judged(claim: str, time: Any) -> Judgement:
    grid = exahype.grid(False, Options())
    return hear([exahype.bench.judges[claim]], grid, _invented(time))[claim]


def serial(parameters: Any) -> float:
    """Map: all threads take turns, a batch costs a start and its patches. Pool: threads do not disturb one another."""
    per_batch = 0.5 / parameters["batch"] + 0.2
    return per_batch if parameters["memory"] == "map" else per_batch / parameters["threads"]


def collapsing(parameters: Any) -> float:
    """As `serial`, and map gets dearer with every thread."""
    threads = parameters["threads"]
    return serial(parameters) * (1 + 0.5 * threads if parameters["memory"] == "map" else 1)


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
    judgement = _judged("exahype.fig4.ccz4_p5.um_flat", serial)
    assert judgement.holds is None and _verdict(judgement, []).startswith("not applicable: needs managed memory")


def test_equal_runs_are_made_once() -> None:
    made: list[str] = []

    def answers(points: Sequence[Point]) -> Sequence[Result]:
        made.extend(point.key for point in points)
        found: Sequence[Result] = _invented(serial)(points)
        return found

    judges = [exahype.bench.judges[f"exahype.fig3.{case}.robust"] for case in exahype.CASES]
    judges += [exahype.bench.judges["exahype.concl.obs_invalid"]]
    hear(judges, exahype.grid(False, Options()), answers)
    assert len(made) == len(set(made)) == 3 * 8 * 2, "each place takes two runs"


@pytest.mark.parametrize(
    ("judgement", "turned", "verdict"),
    [
        (Judgement("1", True), [], "holds"),
        (Judgement("1", False, "so"), [], "fails"),
        (Judgement("1", True), ["driver.halt", "driver.halt", "a"], "depends on driver.halt, a"),
        (Judgement("–", None, "needs x"), [], "not applicable: needs x"),
    ],
)
def test_verdicts(judgement: Judgement, turned: list[str], verdict: str) -> None:
    variants = [Variant(key, f"{key} = other", Options()) for key in turned]
    assert _verdict(judgement, variants) == verdict
    assert not turned or "the other way round with driver.halt = other; " in _reason(judgement, variants)


def test_variants_are_ends_choices_and_candidates() -> None:
    spec = profiles.load("alex-a100")
    variants = variants_of(spec, exahype.CANDIDATES)
    texts = [variant.text for variant in variants]
    assert "alloc.cudaMalloc_small = low" in texts and "alloc.cudaMalloc_small = high" in texts
    assert "driver.halt = suspend" in texts and f"driver.halt = {spec.text('driver.halt')}" not in texts
    assert "driver.halt = suspend, driver.halt_save_restore = 10 us" in texts
    for variant in variants:
        profiles.load("alex-a100", variant.options.overrides, variant.options.range_end)


def test_a_report_counts_verdicts() -> None:
    finding = Finding("c", "r", "e", "x", "holds")
    findings = [
        finding,
        attrs.evolve(finding, verdict="depends on a"),
        attrs.evolve(finding, verdict="not applicable: y"),
    ]
    assert Report("p", "m", "", findings).counts() == {"holds": 1, "depends": 1, "not applicable": 1}


def test_saturation_is_where_a_doubling_no_longer_pays() -> None:
    assert exahype.saturation({1: 1.0, 2: 0.6, 4: 0.4, 8: 0.35, 16: 0.34}) == 4
    assert exahype.saturation({1: 1.0, 2: 0.5, 4: 0.25}) is None
