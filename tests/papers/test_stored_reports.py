"""The stored reports of `offloadrt validate`: what fails in them has a cause, and they are of the present emulator."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from offloadrt.extensions.evidence.validation import validate
from offloadrt.extensions.evidence.validation.judging import Paper, paper_named
from offloadrt.extensions.evidence.validation.validate import digest_of
from offloadrt.study.reporting.results import Result
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import InProcess, Point, sweep

FOLDER = Path(__file__).parents[2] / "bench" / "validation"
OTHERS = "independent", "intervals"
REPORTS = sorted(path for path in FOLDER.glob("*.txt") if "table" not in path.stem and path.stem not in OTHERS)


def run(points: Sequence[Point]) -> list[Result]:
    return sweep(points, InProcess()).finished


@functools.cache
def present_digest(paper: str) -> str:
    """The digest that both reports of a paper, with ranges and without, should hold."""
    return digest_of(paper_named(paper), RunSpec(runtime=paper_named(paper).runtime), run)


def failing(text: str) -> set[str]:
    """The claims that fail, or do as the profile stands."""
    return set(re.findall(r"^(\S+): fails$", text, re.M)) | {
        claim
        for claim, details in re.findall(r"^(\S+): depends on [^\n]*\n((?:(?!\S+: ).*\n)*)", text, re.M)
        if "because: fails as the profile stands" in " ".join(details.split())
    }


def test_failing_claims_are_found() -> None:
    text = (
        "a: holds\n    evaluated: x\nb: fails\n    evaluated: y\n"
        "c: depends on n\n    evaluated: z\n    because: fails as the\nprofile stands, the other way\n"
        "d: depends on n\n    because: holds as the profile stands\n"
    )
    assert failing(text) == {"b", "c"}


@pytest.mark.parametrize("report", REPORTS, ids=lambda path: path.stem)
def test_every_claim_that_fails_has_a_cause(report: Path) -> None:
    claims = paper_named(report.stem.partition("_")[0]).bench.claims
    known = failing(report.read_text(encoding="utf-8"))
    assert known <= claims.keys()
    assert [claim for claim in known if not claims[claim].cause] == []


@pytest.mark.slow
@pytest.mark.parametrize("report", REPORTS, ids=lambda path: path.stem)
def test_a_stored_report_is_of_the_present_emulator(report: Path) -> None:
    stored = re.search(r"^digest of .*: (\w+)$", report.read_text(encoding="utf-8"), re.M)
    paper = paper_named(report.stem.partition("_")[0])
    anew = f"make it anew: offloadrt validate --paper {paper.name}{' --ranges' * report.stem.endswith('_ranges')}"
    assert stored is not None, anew
    assert stored[1] == present_digest(paper.name), anew


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('locks["device table"]', 'locks["driver context"]'),
        ('busy("device 0 copy engine")', 'busy("device 1 copy engine")'),
        ('lock == "device table"', 'lock == "driver context"'),
        ('f"{count + 1} calls of it"', 'f"{count + 2} calls of it"'),
    ],
)
def test_what_a_text_chooses_and_what_is_written_into_it_is_code(one: str, other: str) -> None:
    assert validate._of_code(one) != validate._of_code(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('f"{count} calls of it"', 'f"in {count} calls"'),
        ('Reading(holds, "it is less")', 'Reading(holds, "it has less")'),
        ('why = "it is less"', 'why = "it has less"'),
    ],
)
def test_how_a_sentence_is_worded_is_not(one: str, other: str) -> None:
    assert validate._of_code(one) == validate._of_code(other)


def small(paper: Paper) -> Paper:
    """The paper with its shortest runs only."""
    return attrs.evolve(paper, sensitivity=paper.sensitivity[:1])


def test_a_digest_moves_with_numbers_and_code_and_not_with_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    paper, judging = small(paper_named("exahype")), tmp_path / "judging.py"
    known: dict[str, Result] = {}

    def once(points: Sequence[Point]) -> list[Result]:
        for point in points:
            known.setdefault(str(point.options.overrides), run([point])[0])
        return [known[str(point.options.overrides)] for point in points]

    def digest(paper: Paper, **overrides: str) -> str:
        return digest_of(paper, RunSpec(runtime="nvhpc", overrides=overrides), once)

    def with_claim(**changes: str | float) -> Paper:
        claims = dict(paper.bench.claims)
        claims["exahype.headline.order"] = attrs.evolve(claims["exahype.headline.order"], **changes)
        return attrs.evolve(paper, bench=attrs.evolve(paper.bench, claims=claims))

    present = digest(paper)
    assert present == digest(paper) == digest(with_claim(quote="other words", cause="so", note="a", expression="x"))
    assert digest(with_claim(lo=11.0)) != present
    assert digest(paper, **{"alloc.cudaFree": "21 us"}) != present
    assert digest(attrs.evolve(paper, other_machines=["mi300a"])) != present
    with monkeypatch.context() as patched:
        patched.setattr(validate, "_judging", lambda paper: [judging])
        judging.write_text('def judge(t):\n    """Say so."""\n    return t < 2, "it is too long"\n')
        before = digest(paper)
        judging.write_text('def judge(t):\n    # a comment\n    return t < 2, "it lasts too long"\n')
        judging.write_text(judging.read_text().replace("    #", '    """Say something else."""\n    #'))
        assert digest(paper) == before != present
        judging.write_text(judging.read_text().replace("t < 2", "t < 3"))
        assert digest(paper) != before
    result = known[str({})]
    known[str({})] = attrs.evolve(result, elapsed_s=result.elapsed_s * (1 + 1e-12))
    assert digest(paper) != present
