"""What README.md and the page on trust say of claims and measurements is what the stored reports say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from offloadrt.extensions.certainty.draws import MEASURED_KINDS

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / "bench" / "validation"
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "explanation" / "trust.md").read_text(encoding="utf-8")
PAPERS = {"ExaHyPE": "exahype", "zero-copy": "zerocopy", "OTM": "otm", "stdpar": "stdpar", "JACC": "jacc"}
KINDS = ("mechanisms", "shapes", "magnitudes")


def held(paper: str, kind: str) -> tuple[int, int]:
    """How many claims of a kind hold, and how many can be judged."""
    text = (REPORTS / f"{paper}.txt").read_text(encoding="utf-8")
    found = re.search(rf"^  \d+ {kind}: (.*)$", text, re.M)
    assert found is not None
    counts = {name: int(count) for name, count in re.findall(r"([a-z ]+): (\d+)", found[1])}
    counts.pop(" not applicable", counts.pop("not applicable", 0))
    return counts.get("holds", 0), sum(counts.values())


def overall(rows: str) -> tuple[str, str, str]:
    """The number of values, the median and the 90th percentile of the last line of a table of accuracy."""
    found = re.search(rf"^{rows} +(\d+) +([\d.]+) +([\d.]+)", (REPORTS / "independent.txt").read_text(), re.M)
    assert found is not None
    return found[1], found[2], found[3]


@pytest.mark.parametrize("name", PAPERS)
def test_the_page_counts_the_claims_of_a_paper_as_its_report_does(name: str) -> None:
    row = re.search(rf"\| {name} \(\[report\].*?\) \| (.*) \|$", PAGE, re.M)
    assert row is not None
    assert row[1].split(" | ") == ["{} of {}".format(*held(PAPERS[name], kind)) for kind in KINDS]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [README, PAGE], ids=["README", "page"])
def test_the_claims_of_all_papers_together(text: str, kind: str) -> None:
    counts = [held(paper, kind) for paper in PAPERS.values()]
    total = f"{sum(hold for hold, _ in counts)} of {sum(judged for _, judged in counts)} {kind}"
    assert total in text


@pytest.mark.parametrize("text", [README, PAGE], ids=["README", "page"])
def test_measurements_from_elsewhere_are_as_far_off_as_their_report_says(text: str) -> None:
    values, median, ninety = overall("all")
    said = re.search(r"(\d+) measurements\S*: ([\d.]+) in the median,? (?:and )?([\d.]+) at the 90th percentile", text)
    assert said is not None
    assert (said[1], float(said[2]), float(said[3])) == (
        values,
        float(f"{float(median):.2g}"),
        float(f"{float(ninety):.2g}"),
    )


def test_what_a_run_says_of_measured_programs_is_what_the_reports_say() -> None:
    page = (ROOT / "bench" / "hardware" / "h200" / "README.md").read_text(encoding="utf-8")
    rows = {
        name: (count, float(median), float(ninety))
        for name, count, median, ninety in re.findall(r"^\| (.*?) \((\d+)\) \|.*\| ([\d.]+), ([\d.]+) \|$", page, re.M)
    }
    values, median, ninety = overall("single_thread_workload")
    expected = [
        (values, float(f"{float(median):.2g}"), float(f"{float(ninety):.2g}")),
        rows["OpenMP, 1 to 32 threads"],
        rows["patches with CUDA's calls, 1 to 64 threads"],
    ]
    assert [(str(kind.values), kind.p90) for kind in MEASURED_KINDS] == [(count, p90) for count, _, p90 in expected]
    assert all(median < kind.most < p90 for kind, (_, median, p90) in zip(MEASURED_KINDS, expected, strict=True))


def test_four_in_five_of_the_h200s_values_are_off_by_no_more_than_is_said() -> None:
    stored = (ROOT / "bench" / "hardware" / "h200" / "predicted.txt").read_text(encoding="utf-8")
    patches, openmp = (
        [max(ratio, 1.0 / ratio) for ratio in map(float, re.findall(r"ms +([\d.]+)(?: +[\d.]+ to .*)?$", part, re.M))]
        for part in re.split(r"^OpenMP", stored, flags=re.M)
    )
    for kind, factors in zip(MEASURED_KINDS[1:], (openmp, patches), strict=True):
        four_in_five = sorted(factors)[round(0.8 * len(factors))]
        assert len(factors) == kind.values and kind.most == pytest.approx(four_in_five, rel=0.05)


def test_how_many_values_lie_in_their_intervals_is_as_the_stored_draws_say() -> None:
    stored = (REPORTS / "intervals.txt").read_text(encoding="utf-8")
    found = re.search(r"^all +(\d+) +(\d+) +\d+% +(\d+)% +(\d+) +(\d+) +(\d+) +\d+%$", stored, re.M)
    assert found is not None
    values, covered, near, judged, alone, together = map(int, found.groups())
    assert alone <= together <= judged <= values and values > 50
    sure = (ROOT / "docs" / "how-to" / "sure.md").read_text(encoding="utf-8")
    for text in (README, PAGE, sure):
        assert f"{covered} of {values}" in " ".join(text.split())
        assert f"{together} of {judged}" in " ".join(text.split())
    assert f"{near} % in an interval twice as wide" in sure
    # Another set of eight draws moves a value or two into their intervals, or out of them.
    assert 0.7 <= together / judged <= 0.92, "an interval that always holds is as wrong as one that never does"


def test_how_many_of_the_h200s_values_lie_in_their_intervals_is_as_the_stored_draws_say() -> None:
    """Counted anew from the rows, with what programs on other machines were off."""
    stored = (ROOT / "bench" / "hardware" / "h200" / "predicted.txt").read_text(encoding="utf-8")
    rows = re.findall(r"([\d.]+) ms +[\d.]+ ms +[\d.]+ +([\d.]+) to ([\d.]+) ms$", stored, re.M)
    found = re.search(r"of (\d+) values, (\d+) lie in 80 % of 8 draws, and (\d+)", stored)
    assert found is not None
    values, alone, wider = map(int, found.groups())

    def held(factor: float, rounding: float) -> int:
        """The rows have three digits after the point, so that one may lie on either side of an end."""
        return sum(
            float(low) / factor - rounding <= float(measured) <= float(high) * factor + rounding
            for measured, low, high in rows
        )

    assert len(rows) == values and held(1.0, -1e-3) <= alone <= held(1.0, 1e-3)
    assert held(MEASURED_KINDS[0].most, -1e-3) <= wider <= held(MEASURED_KINDS[0].most, 1e-3)
    assert 0.7 <= wider / values <= 0.9
    assert all(f"{wider} of {values}" in text for text in (README, PAGE))
    for name in ("docs/how-to/sure.md", "bench/hardware/h200/README.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert f"hold {wider} ({100 * wider / values:.0f} %)" in text and f"{values} " in text
