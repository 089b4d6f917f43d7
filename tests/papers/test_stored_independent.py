"""The stored report on independent measurements is about the present data, runs and machines."""

from __future__ import annotations

import re
from pathlib import Path

from offloadrt.extensions.evidence.independent.outcome import INPUT_KIND
from offloadrt.extensions.evidence.independent.prediction import digest_of, plan
from offloadrt.papers.independent import results

REPORT = Path(__file__).parents[2] / "bench" / "validation" / "independent.txt"
WITHOUT_DIGEST = False
"""Whether the stored report was made before reports had a digest, with --quick."""


def test_the_stored_report_is_of_the_present_emulator() -> None:
    stored = re.search(r"^digest of .*: (\w+)$", REPORT.read_text(encoding="utf-8"), re.M)
    assert (stored is None) == WITHOUT_DIGEST
    if stored is not None:
        present = digest_of([plan(entry, "results.toml") for entry in results()])
        assert stored[1] == present, "make it anew: offloadrt validate --independent"


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
