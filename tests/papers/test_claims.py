"""Claims are those of the papers; each that must emerge has a judge, whose numbers stand in the entry of its claim."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import tomllib
from pathlib import Path
from typing import Any

import attrs
import pytest

import offloadrt
from offloadrt import papers
from offloadrt.extensions.evidence.validation.claims import Claim, ClaimRefused, read_claims
from offloadrt.extensions.evidence.validation.judging import (
    PAPERS,
    Bench,
    Judgement,
    Paper,
    Reading,
    hear,
    not_falling,
    not_rising,
    paper_named,
    unless,
)
from offloadrt.study import UserError
from offloadrt.study.inputs import InputRange
from offloadrt.study.spec import RunSpec

PACKAGE = Path(offloadrt.__file__).parent
SHARED = PACKAGE.parents[1] / "shared" / "papers" / "claims.toml"


@pytest.fixture(params=PAPERS.names())
def paper(request: pytest.FixtureRequest) -> Paper:
    return paper_named(request.param)


def entries(path: Path, paper: str) -> list[dict[str, Any]]:
    return [claim for claim in tomllib.loads(path.read_text())["claim"] if claim["paper"] == paper]


def test_claims_say_what_the_list_of_all_papers_says(paper: Paper) -> None:
    if not SHARED.is_file():
        pytest.skip("the claims of all papers are not beside this checkout")
    theirs = entries(SHARED, paper.name)
    ours = entries(PACKAGE / "papers" / paper.name / "claims.toml", paper.name)
    assert [{key: one.get(key) for key in their} for one, their in zip(ours, theirs, strict=True)] == theirs


def test_every_claim_that_must_emerge_has_a_judge_and_no_input_has_one(paper: Paper) -> None:
    roles = {id: claim.role for id, claim in paper.bench.claims.items()}
    assert {id for id, role in roles.items() if role == "predict"} <= paper.bench.judges.keys()
    assert "input" not in {roles[id] for id in paper.bench.judges}


def test_every_judged_claim_says_what_is_evaluated_and_no_other(paper: Paper) -> None:
    said = {id for id, claim in paper.bench.claims.items() if claim.evaluated}
    assert said == paper.bench.judges.keys()


def test_a_judge_takes_what_its_claim_gives(paper: Paper) -> None:
    for judge in paper.bench.judges.values():
        inspect.signature(judge.function).bind(None, **judge.claim.given)


def test_a_sensitivity_run_is_a_run(paper: Paper) -> None:
    assert paper.sensitivity
    ends = paper.grid("ends", RunSpec())
    for run in paper.sensitivity:
        scenario, parameters = run if isinstance(run, tuple) else (ends.scenario, run)
        assert ends.point(parameters, scenario=scenario).parameters.items() >= parameters.items()


def test_every_input_with_a_range_is_varied_when_its_paper_is_validated() -> None:
    modules = [
        importlib.import_module(found.name) for found in pkgutil.walk_packages(papers.__path__, "offloadrt.papers.")
    ]
    stated = {
        id(value): value for module in modules for value in vars(module).values() if isinstance(value, InputRange)
    }
    varied = {id(value) for name in PAPERS.names() for value in paper_named(name).inputs.values()}
    assert [value for key, value in stated.items() if key not in varied] == []
    assert len({value.name for value in stated.values()}) == len(stated) > 20


def test_a_paper_that_is_not_here() -> None:
    with pytest.raises(UserError, match="--paper exahyp: no claims of it; did you mean exahype"):
        paper_named("exahyp")


def test_only_judges_read_claims() -> None:
    readers = {
        path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if "Bench.of(" in path.read_text()
    }
    assert readers and all(reader.startswith("papers/") and "/judges" in reader for reader in readers)


def test_study_names_no_paper() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in (PACKAGE / "study").rglob("*.py")}
    assert [path for path, text in sources.items() if re.search(r"offloadrt\.papers(?!\")", text)] == []


def claim(**limits: Any) -> Claim:
    return Claim("a.claim", "a", "1", "quote", "quantity", "predict", **limits)


@pytest.mark.parametrize(
    ("limits", "admitted", "refused"),
    [
        ({"lo": 1.0, "hi": 2.0}, (1.0, 2.0), (0.9, 2.1)),
        ({"lo": 1.0}, (1.0, 9.0), (0.9,)),
        ({"at_least": 1.0}, (1.0,), (0.9,)),
        ({"at_most": 1.0}, (1.0,), (1.1,)),
        ({"more_than": 1.0}, (1.1,), (1.0,)),
        ({"less_than": 1.0, "lo": 5.0}, (0.9,), (1.0, 5.0)),
        ({"more_than": 1.0, "at_most": 2.0}, (1.1, 2.0), (1.0, 2.1)),
    ],
)
def test_limits(limits: dict[str, float], admitted: tuple[float, ...], refused: tuple[float, ...]) -> None:
    assert all(map(claim(**limits).admits, admitted))
    assert not any(map(claim(**limits).admits, refused))


def test_numbers_of_an_expression_are_those_of_the_claim() -> None:
    stated = claim(expression="{at_least:g} <= {what} x", at_least=2.0, given={"what": "y"})
    assert stated.evaluated == "2 <= y x"
    with pytest.raises(KeyError):
        _ = claim(expression="{nothing}").evaluated


def test_a_reading_says_why_it_is_too_low_or_too_high_and_where() -> None:
    band = claim(lo=1.0, hi=2.0)
    assert Reading("1", 1.0, "low", "high").judged_by(band) == Judgement("1", True, "high")
    assert Reading("0", 0.0, "low", "high").judged_by(band) == Judgement("0", False, "low")
    assert Reading("3", 3.0, "low", "high").judged_by(band) == Judgement("3", False, "high")
    several = Reading("…", {"a": 1.5, "b": 3.0, "c": 0.0}, "not at {outside}")
    assert several.judged_by(band) == Judgement("…", False, "not at b, c")


def test_reasons_are_those_that_hold() -> None:
    assert unless("x", {"a": 1, "b": 0, "c": "yes"}) == Judgement("x", False, "a; c")
    assert unless("x", []) == Judgement("x", True, "")


def test_rising_and_falling_take_a_per_cent() -> None:
    assert not_rising({1: 1.0, 2: 2.0, 4: 2.019}) == [(2, 4)]
    assert not_rising({1: 1.0, 2: 2.0, 4: 2.02}) == []
    assert not_falling({1: 3.0, 2: 2.0, 4: 2.5}) == [(2, 4)]


@pytest.mark.parametrize(
    ("limits", "failing"),
    [
        ({"lo": 1.0, "hi": 2.0}, "a figure is below 1 or above 2"),
        ({"more_than": 1.01}, "a figure is 1.01 or less"),
        ({"less_than": 0.99, "at_least": 0.5}, "a figure is below 0.5 or 0.99 or more"),
        ({"lo": 1.0, "fails_if": "{n} are lost", "given": {"n": 3}}, "3 are lost"),
        ({}, ""),
    ],
)
def test_what_makes_a_claim_fail(limits: dict[str, Any], failing: str) -> None:
    assert claim(**limits).failing == failing


def test_what_a_verdict_is_about() -> None:
    kinds = {kind: attrs.evolve(claim(), kind=kind).judged_kind for kind in ("mechanism", "ordering", "trend")}
    assert kinds == {"mechanism": "mechanism", "ordering": "shape", "trend": "shape"}
    assert claim().judged_kind == "magnitude" and claim(judged_as="shape").judged_kind == "shape"


ENTRY = """
[[claim]]
id = "a.claim"
paper = "a"
where = "1"
quote = "more is more"
kind = "trend"
role = "predict"
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENTRY.replace('"trend"', '"shape"'), "a.toml: claim a.claim: field kind: Invalid enum value 'shape'"),
        (ENTRY + 'judged_as = "number"', "claim a.claim: field judged_as: Invalid enum value 'number'"),
        (ENTRY + "at_leest = 1", "claim a.claim: field at_leest: there is none of this name; did you mean at_least"),
        (ENTRY + 'lo = "one"', "claim a.claim: field lo: Expected `float | null`, got `str`"),
        (ENTRY.replace('quote = "more is more"', ""), "a.toml: claim a.claim: Object missing required field `quote`"),
        (ENTRY.replace('id = "a.claim"', ""), "a.toml: claim 1: Object missing required field `id`"),
        (ENTRY + 'expression = "t rises"', "claim a.claim: field fails_if: is missing, and no limits say"),
        (ENTRY + 'expression = "{x} rises"', "claim a.claim: field expression: nothing of the claim is called 'x'"),
        (ENTRY + 'expression = "{} rises"', "claim a.claim: field expression: cannot be filled in: "),
        ("claim = 3", "a.toml: claim: a file of claims has tables [[claim]]"),
        ("[claim]\nid = 1", "a.toml: claim: a file of claims has tables [[claim]]"),
        (ENTRY + ENTRY, "a.toml: a.claim: several claims have this id"),
        ("[[claim", "a.toml: is not valid TOML: "),
    ],
)
def test_an_entry_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(ClaimRefused) as refused:
        read_claims(text, "a.toml")
    assert message in str(refused.value)


def test_an_entry_that_can_be_read() -> None:
    (read,) = read_claims(ENTRY + 'expression = "t rises"\nmore_than = 1.01', "a.toml").values()
    assert read.judged_kind == "shape" and read.failing == "a figure is 1.01 or less"


def test_an_input_is_set_beside_what_is_emulated() -> None:
    put_in = attrs.evolve(claim(), role="input", value=[4.0, 0.0, 46])
    bench = Bench({"a.claim": put_in})

    @bench.beside("a.*")
    def measured(grid: Any, claim: Claim) -> Any:
        yield []
        return 5.0, 0.25, 46

    found = hear(list(bench.checks.values()), None, lambda points: [])  # type: ignore[arg-type]
    assert found == {"a.claim": Judgement("5, 0.25, 46", None, "+25.0%, +0.25, +0.0%")}
    for other in (claim(value=3.0), attrs.evolve(put_in, value=None)):
        with pytest.raises(ValueError, match=r"claim a\.claim is no input with a number"):
            Bench({"a.claim": other}).beside("a.*")(measured)


def test_a_claim_has_one_judge() -> None:
    bench = Bench({"a.claim": claim()})
    bench.judge("a.*")(lambda grid: iter(()))  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match=r"claim a\.claim has two judges"):
        bench.judge("a.claim")(lambda grid: iter(()))  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match=r"b\.\*: no claim has such an id"):
        bench.judge("b.*")(lambda grid: iter(()))  # type: ignore[arg-type,return-value]
