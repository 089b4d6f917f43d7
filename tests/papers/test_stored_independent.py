"""The stored report on independent measurements is about the present data, rules and machines."""

from __future__ import annotations

import re
from pathlib import Path

from offloadrt.papers.independent import results, rules
from offloadrt.study.independent.planning import plan
from offloadrt.study.independent.prediction import digest_of

REPORT = Path(__file__).parents[2] / "bench" / "validation" / "independent.txt"
WITHOUT_DIGEST = False
"""Whether the stored report was made before reports had a digest, with --quick."""


def test_the_stored_report_is_of_the_present_emulator() -> None:
    stored = re.search(r"^digest of .*: (\w+)$", REPORT.read_text(encoding="utf-8"), re.M)
    assert (stored is None) == WITHOUT_DIGEST
    if stored is not None:
        present = digest_of([plan(entry, rules(), "results.toml") for entry in results()])
        assert stored[1] == present, "make it anew: offloadrt validate --independent"
