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


INTERVALS = ROOT / "bench" / "validation" / "intervals.txt"


def drawn_rows() -> list[tuple[str, list[str]]]:
    """The entry and the cells of every value of the stored intervals."""
    rows, entry, places = [], "", [0]
    for line in INTERVALS.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"(\S+) \(\w+\): ", line):
            entry, places = heading[1], [0]
        elif entry and line.startswith("value "):
            places = [line.index(name) for name in ("value", "reported", "emulated", "low", "high", "lies", "why")]
        elif len(places) > 1 and not line.strip():
            entry, places = "", [0]
        elif len(places) > 1 and line[places[1] :].strip() and line[places[-2] :].strip():
            cells = [line[here:there].strip() for here, there in zip(places, [*places[1:], None], strict=True)]
            if cells[5]:
                rows.append((entry, cells))
    return rows


def test_the_stored_intervals_are_of_the_present_machines_and_runs() -> None:
    text = INTERVALS.read_text(encoding="utf-8")
    stored = re.search(r"^digest of .*: (\w+)$", text, re.M)
    drawn = {entry for entry, _ in drawn_rows()}
    present = digest_of([plan(entry, "results.toml") for entry in results() if entry.id in drawn])
    assert stored is not None and stored[1] == present, "make them anew: offloadrt validate --independent --intervals"


def test_the_stored_intervals_say_of_each_entry_without_one_why() -> None:
    text = INTERVALS.read_text(encoding="utf-8")
    named = set(re.findall(r"^  ([\w.-]+): ", text.partition("\nnot drawn: ")[2].partition("\n\n")[0], re.M))
    counted = {
        entry.id
        for entry in results()
        for planned in plan(entry, "results.toml").values
        if entry.kind != INPUT_KIND and planned.point is not None
    }
    left = {entry.id for entry in results() if entry.not_drawn}
    drawn = {entry for entry, _ in drawn_rows()}
    assert left <= counted and not left & drawn, "only what takes too long says so"
    assert not named or (named, drawn) == (left, counted - left)


def test_the_stored_intervals_count_their_values_rightly() -> None:
    rows = [cells for _, cells in drawn_rows()]
    counts = re.search(r"^all +(\d+) +(\d+) ", INTERVALS.read_text(encoding="utf-8"), re.M)
    assert counts is not None
    assert (int(counts[1]), int(counts[2])) == (len(rows), sum(cells[5] == "in it" for cells in rows))
    for _, reported, _, low, high, lies, _ in rows:
        near = float(low) - 1e-3 * abs(float(low)) <= float(reported) <= float(high) + 1e-3 * abs(float(high))
        assert lies != "in it" or near
        assert lies == "in it" or not float(low) < float(reported) < float(high)


def test_every_value_outside_of_its_interval_has_a_cause() -> None:
    outside = {(entry, cells[0]) for entry, cells in drawn_rows() if cells[5] != "in it"}
    assert len(outside) > 10, "the report is read wrongly"
    causes = {entry.id: entry.missed for entry in results()}
    for entry, name in outside:
        assert "*" in causes[entry] or any(name.startswith(known[:12]) for known in causes[entry]), (entry, name)


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
