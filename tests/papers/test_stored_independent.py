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


NAMES = ("reported", "first", "left out", "emulated", "ratio")


def counted_rows() -> list[tuple[str, dict[str, float | None]]]:
    """The entry and the numbers of every value that is counted, read by the places of the table's columns."""
    rows = []
    for part in re.split(r"\n\s*\n(?=\S+ \(\w+\): )", REPORT.read_text(encoding="utf-8")):
        heading = re.match(r"(\S+) \((\w+)\): ", part)
        if heading is None or heading[2] == INPUT_KIND:
            continue
        head, *lines = part[part.index("\nvalue ") + 1 :].partition("\n\n")[0].splitlines()
        places = [head.index(name) for name in NAMES]
        for line in lines:
            cells = [line[begin:].split("  ")[0].strip() for begin in places]
            if re.fullmatch(r"[-+.e\d]+", cells[NAMES.index("ratio")]):
                numbers = [float(cell) if re.fullmatch(r"[-+.e\d]+", cell) else None for cell in cells]
                rows.append((heading[1], dict(zip(NAMES, numbers, strict=True))))
    return rows


def test_every_counted_value_that_is_far_off_has_a_cause() -> None:
    causes = {entry.id for entry in results() if entry.cause}
    ratios = [(entry, row["ratio"]) for entry, row in counted_rows()]
    assert len(ratios) > 140, "the report is read wrongly"
    far_off = {entry for entry, ratio in ratios if ratio is not None and not 1 / 3 < ratio < 3}
    assert far_off <= causes
