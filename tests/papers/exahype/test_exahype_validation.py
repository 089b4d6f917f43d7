"""The comparison with the ExaHyPE paper, as `offloadrt validate --quick` makes it (a minute: CI's own step)."""

from __future__ import annotations

import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from offloadrt.papers.exahype.judges import PAPER
from offloadrt.study.validation.validate import ValidationReport, validate

pytestmark = pytest.mark.slow
STORED = Path(__file__).parents[3] / "bench" / "validation" / "exahype.txt"


@pytest.fixture(scope="module")
def report() -> ValidationReport:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        return validate(PAPER, pool, jobs=2, quick=True)


def test_no_claim_is_left_out(report: ValidationReport) -> None:
    predicted = [claim.id for claim in PAPER.bench.claims.values() if claim.role == "predict"]
    assert [finding.claim for finding in report.findings] == predicted


def test_a_failure_has_its_reason(report: ValidationReport) -> None:
    assert [finding.claim for finding in report.findings if finding.verdict == "fails" and not finding.reason] == []


def test_the_quick_grid_comes_to_the_verdicts_of_the_stored_report_of_the_full_one(report: ValidationReport) -> None:
    text = STORED.read_text()
    assert text.startswith("exahype on alex-a100: the full grid")
    stored = dict(re.findall(r"^(exahype\.\S+): (holds|fails|not applicable)", text, re.MULTILINE))
    assert {finding.claim: finding.verdict.partition(":")[0] for finding in report.findings} == stored
