"""Places that are drawn in all ranges at once, and the share of them in which claims hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
from unknowns import UNKNOWN

from offloadrt.extensions.evidence.validation.claims import Claim
from offloadrt.extensions.evidence.validation.judging import (
    Bench,
    Hearing,
    Judge,
    JudgingGrid,
    Paper,
    Reading,
    RunFailed,
    draws_of,
    inputs_of,
)
from offloadrt.extensions.evidence.validation.validate import (
    AnswersByTakenInputs,
    DrawnShare,
    describe_draws,
    shares_of,
    validate,
)
from offloadrt.study import execute, find_scenario
from offloadrt.study.certainty import MOST as DRAWS
from offloadrt.study.inputs import InputRange, inputs_at
from offloadrt.study.reporting.results import Result
from offloadrt.study.running import profiles
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import InProcess, Point, sweep

MACHINE = "integrated-gpu"
SCENARIO = f"{Path(__file__).parent / 'unknowns.py'}:with_unknown"
INPUTS = {UNKNOWN.name: UNKNOWN}


@attrs.frozen
class Grid(JudgingGrid):
    described: str = "one run"


def claim(name: str, **limits: float) -> Claim:
    return Claim(f"toy.{name}", "toy", "1", "quote", "quantity", "predict", expression="the time", **limits)


def toy() -> Paper:
    """Two seconds are a quarter of the way from 1 to 16 on a logarithmic scale."""
    claims = [claim("short", lo=0.0, hi=2.0), claim("long", lo=5.0), claim("fixed", hi=1.0)]
    bench = Bench({claim.id: claim for claim in claims})

    @bench.judge("toy.*")
    def elapsed(grid: JudgingGrid) -> Hearing:
        (result,) = yield from grid.runs([{"takes_it": True}])
        return Reading(f"{result.elapsed_s} s", result.elapsed_s, "too short")

    del bench.judges["toy.fixed"]

    @bench.judge("toy.fixed")
    def without(grid: JudgingGrid) -> Hearing:
        (result,) = yield from grid.runs([{"takes_it": False}])
        return Reading(f"{result.elapsed_s} s", result.elapsed_s, "too long")

    def grid(extent: str, options: RunSpec) -> JudgingGrid:
        return Grid(SCENARIO, options=options)

    return Paper("toy", MACHINE, bench, grid, [{"takes_it": True}], {}, inputs=INPUTS)


def few_ranges() -> dict[str, str]:
    """All entries of the machine at their means but two."""
    spec = profiles.load(MACHINE)
    return dict.fromkeys(spec.ranges()[2:], "mean")


def test_a_range_is_taken_between_its_ends() -> None:
    range_ = InputRange(2.0, 32.0, "s", "invented")
    assert [range_.at(place) for place in (0.0, 0.25, "mean", 0.5, 1.0)] == pytest.approx([2, 4, 8, 8, 32])
    for place in (-0.1, 1.1, "middle"):
        with pytest.raises(ValueError, match=f"{place}: a range is taken at low, mean or high"):
            range_.at(place)


def test_the_largest_value_that_is_affordable() -> None:
    assert InputRange(1.0, 10_000.0, "steps", "invented", affordable=10.0).highest == pytest.approx(0.25)
    assert InputRange(1.0, 10_000.0, "steps", "invented").highest == 1.0


def test_a_run_takes_an_input_elsewhere_and_says_so() -> None:
    scenario = find_scenario(SCENARIO)
    mean = execute(scenario, {})
    assert mean.elapsed_s == 4.0 and mean.inputs == {"unknowns.unknown": 4.0} and not mean.options
    low = execute(scenario, {}, inputs={"unknowns.unknown": "low", "elsewhere.other": "high"})
    assert low.elapsed_s == 1.0 and low.options == {"inputs": {"unknowns.unknown": "low"}}
    assert execute(scenario, {"takes_it": False}).inputs == {}


def test_inputs_are_named_by_modules_and_taken_within_a_body() -> None:
    import unknowns

    assert inputs_of(unknowns) == INPUTS
    with inputs_at({"unknowns.unknown": 1.0}) as taken:
        assert UNKNOWN.at("low") == 16.0
    assert taken == {"unknowns.unknown": 16.0} and UNKNOWN.at("low") == 1.0


def test_draws_fill_each_range_evenly() -> None:
    spec = profiles.load(MACHINE)
    drawn = draws_of(spec, INPUTS, RunSpec(seed=7))
    assert len(drawn) == DRAWS and {options.seed for options in drawn} == {7}
    assert set(drawn[0].range_end) == set(spec.ranges()) and set(drawn[0].inputs) == set(INPUTS)
    for key in spec.ranges():
        assert sorted(int(DRAWS * options.range_end[key]) for options in drawn) == list(range(DRAWS))
    assert drawn == draws_of(spec, INPUTS, RunSpec(seed=7))


def test_draws_leave_what_the_user_set_and_what_is_not_affordable() -> None:
    spec, overrides = profiles.load(MACHINE), few_ranges()
    costly = {"a.steps": InputRange(1.0, 10_000.0, "steps", "invented", name="a.steps", affordable=10.0)}
    drawn = draws_of(spec, costly, RunSpec(overrides=overrides))
    assert all(len(options.range_end) == 2 and not options.range_end.keys() & overrides for options in drawn)
    places = [float(options.inputs["a.steps"]) for options in drawn]
    assert max(places) < 0.25 and math.isclose(sum(places) / DRAWS, 0.125, rel_tol=0.02)
    assert draws_of(spec, {}, RunSpec(overrides=dict.fromkeys(spec.ranges(), "mean"))) == []


def test_the_share_in_which_a_claim_holds() -> None:
    report = validate(toy(), InProcess(), ranges=True, overrides=few_ranges())
    findings = {finding.claim: finding for finding in report.findings}
    assert findings["toy.short"].share == "16 of 64 draws", "a quarter of a space that is filled evenly"
    assert findings["toy.fixed"].share == "64 of 64 draws"
    assert findings["toy.short"].verdict == findings["toy.long"].verdict == "depends on unknowns.unknown"
    assert "the other way round with unknowns.unknown = low" in findings["toy.short"].reason
    assert "64 draws (Sobol) of 2 entries of the machine and 1 inputs of the programs together" in report.ranges[-3]
    assert report.ranges[-2] == "toy.short holds in 16 of 64 draws"
    assert report.ranges[-1] in {f"toy.long holds in {n} of 64 draws" for n in (26, 27)}, (
        "26.8 of 64 of a space filled evenly"
    )


def test_a_validation_goes_on_where_it_stopped(tmp_path: Path) -> None:
    def run() -> tuple[list[str], str]:
        stages: list[tuple[str, int]] = []
        report = validate(
            toy(), InProcess(), ranges=True, draws=4, overrides=few_ranges(), file=tmp_path / "points.jsonl",
            advanced=lambda name, done, asked: stages.append((name, done)),
        )  # fmt: skip
        return list(dict.fromkeys(name for name, _ in stages)), str(report)

    stages, first = run()
    assert stages[-1] == "ranges: claims at places drawn in all of them"
    kept = (tmp_path / "points.jsonl").read_bytes()
    assert run()[1] == first and (tmp_path / "points.jsonl").read_bytes() == kept, "no run is made again"


def test_runs_that_do_not_take_an_input_are_made_once() -> None:
    made: list[Point] = []

    def make(points: Sequence[Point]) -> Sequence[Result]:
        made.extend(points)
        return sweep(points, InProcess()).finished

    answers = AnswersByTakenInputs(make)
    grid = Grid(SCENARIO)
    places: list[dict[str, bool]] = [{"takes_it": True}, {"takes_it": False}]
    nominal = answers([grid.point(place) for place in places])
    moved = attrs.evolve(grid, options=RunSpec(inputs={UNKNOWN.name: "high"}))
    changed = answers([moved.point(place) for place in places])
    assert [result.elapsed_s for result in nominal] == [4.0, 1.0]
    assert [result.elapsed_s for result in changed] == [16.0, 1.0]
    assert len(made) == 3 and changed[1] is nominal[1]


def test_a_run_that_fails_costs_its_claim_the_draw_alone() -> None:
    def make(points: Sequence[Point]) -> Sequence[Result]:
        outcome = sweep(points, InProcess())
        if outcome.failures:
            raise RunFailed("a run failed")
        return outcome.finished

    def fails(grid: JudgingGrid) -> Hearing:
        (result,) = yield [grid.point({}, scenario=SCENARIO.replace("with_unknown", "fails_when_long"))]
        return Reading("", result.elapsed_s, "too long")

    claim_of = claim("fails", hi=2.0)
    judges = [toy().bench.judges["toy.short"], Judge(claim_of, fails)]
    drawn = draws_of(
        profiles.load(MACHINE), INPUTS, RunSpec(overrides=dict.fromkeys(profiles.load(MACHINE).ranges(), "mean")), 16
    )
    shares = shares_of(judges, Grid(SCENARIO), drawn, lambda stage: make)
    assert shares == {"toy.short": DrawnShare(4, 16), "toy.fails": DrawnShare(4, 8)}
    assert "toy.fails is judged in 8 draws only: runs fail in the others" in describe_draws(drawn, shares)


def test_a_share_in_words() -> None:
    assert str(DrawnShare(3, 60)) == "3 of 60 draws"
