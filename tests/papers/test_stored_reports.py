"""The stored reports of `offloadrt validate`: what fails in them has a cause."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from offloadrt import papers

FOLDER = Path(__file__).parents[2] / "bench" / "validation"
REPORTS = sorted(path for path in FOLDER.glob("*.txt") if "table" not in path.stem)


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
    claims = papers.find(report.stem.partition("_")[0]).bench.claims
    known = failing(report.read_text(encoding="utf-8"))
    assert known <= claims.keys()
    assert [claim for claim in known if not claims[claim].cause] == []
