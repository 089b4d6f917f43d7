"""The stored report on independent measurements is about the present data, runs and machines."""

from __future__ import annotations

import re
from pathlib import Path

from offloadrt.extensions.evidence.independent.outcome import INPUT_KIND
from offloadrt.extensions.evidence.independent.prediction import digest_of, plan
from offloadrt.papers.independent import results

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "bench" / "validation" / "independent.txt"
WITHOUT_DIGEST = False
"""Whether the stored report was made before reports had a digest, with --quick."""


def test_the_stored_report_is_of_the_present_emulator() -> None:
    stored = re.search(r"^digest of .*: (\w+)$", REPORT.read_text(encoding="utf-8"), re.M)
    assert (stored is None) == WITHOUT_DIGEST
    if stored is not None:
        present = digest_of([plan(entry, "results.toml") for entry in results()])
        assert stored[1] == present, "make it anew: offloadrt validate --independent"


def counted_rows() -> list[list[float | None]]:
    """Reported, first, emulated, ratio, low and high of every value that is counted."""
    rows = []
    for part in REPORT.read_text(encoding="utf-8").split("\n\n"):
        heading = re.match(r"(\S+) \((\w+)\): ", part)
        if heading is not None and heading[2] != INPUT_KIND:
            found = re.findall(r"((?:\s+(?:[-+.e\d]+|–)){6})\s*$", part, re.M)
            rows += [[None if cell == "–" else float(cell) for cell in row.split()] for row in found]
    return rows


def test_the_page_says_how_many_values_lie_in_their_intervals() -> None:
    rows = [(row[0], row[4], row[5]) for row in counted_rows()]
    known = [(one, low, high) for one, low, high in rows if one is not None and low is not None and high is not None]
    inside = [one for one, low, high in known if low - 1e-3 * abs(low) <= one <= high + 1e-3 * abs(high)]
    page = (ROOT / "docs" / "how-to" / "sure.md").read_text(encoding="utf-8")
    if not known:  # made with --quick
        assert "how many lie in their intervals is not known" in page
        return
    said = re.search(r"(\d+) % lie between", page)
    assert len(known) > 100 and said is not None
    assert int(said[1]) == round(100 * len(inside) / len(known)), "say in docs/how-to/sure.md what the report shows"


def test_every_counted_value_that_is_far_off_has_a_cause() -> None:
    causes = {entry.id for entry in results() if entry.cause}
    far_off = set()
    for part in REPORT.read_text(encoding="utf-8").split("\n\n"):
        heading = re.match(r"(\S+) \((\w+)\): ", part)
        if heading is not None and heading[2] != INPUT_KIND:
            ratios = [float(row.split()[-3]) for row in part.splitlines() if re.search(r"(\s+[-+.e\d]+){5}\s*$", row)]
            far_off |= {heading[1] for ratio in ratios if not 1 / 3 < ratio < 3}
    assert far_off, "the report is read wrongly, or nothing is far off any more"
    assert far_off <= causes
