"""The whole comparison with the ExaHyPE paper, as `offloadrt validate` makes it (minutes: CI's own step)."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from offloadrt.study.claims import claims_of
from offloadrt.study.validate import Report, validate

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        return {name: validate("exahype", pool, jobs=2, quick=name == "quick") for name in ("quick", "full")}


def test_no_claim_is_left_out(reports: dict[str, Report]) -> None:
    predicted = [claim.id for claim in claims_of("exahype") if claim.role == "predict"]
    assert [finding.claim for finding in reports["full"].findings] == predicted


def test_a_failure_has_its_reason(reports: dict[str, Report]) -> None:
    for report in reports.values():
        assert [finding.claim for finding in report.findings if finding.verdict == "fails" and not finding.reason] == []


def test_the_quick_grid_comes_to_the_same_verdicts(reports: dict[str, Report]) -> None:
    quick, full = ({finding.claim: finding.verdict for finding in report.findings} for report in reports.values())
    assert quick == full
