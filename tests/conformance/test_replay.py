"""Every recorded program does here what LLVM's runtime did, in both gears; lowered as clang lowered it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from offloadrt.study.conform import ConformanceFileError, conform, read_cases, replay_case

DATA = Path(__file__).parent.parent / "data" / "conformance"
COPY = list(read_cases(DATA / "copy.jsonl.gz"))
USM = list(read_cases(DATA / "usm.jsonl.gz"))


def groups(cases: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Cases by the kind of program that the generator made."""
    found: dict[str, list[dict[str, Any]]] = {}
    for case in cases:
        found.setdefault(case["name"].rsplit("_", 1)[0], []).append(case)
    return list(found.items())


def test_all_recordings_are_here() -> None:
    assert (len(COPY), len(USM)) == (330, 28)


@pytest.mark.parametrize("gear", ["native", "turbo"])
@pytest.mark.parametrize(
    ("kind", "cases"), groups(COPY + USM), ids=lambda value: value if isinstance(value, str) else ""
)
def test_replays_exactly(kind: str, cases: list[dict[str, Any]], gear: Any) -> None:
    differences = [replay_case(case, gear, lowering=True)[:1] for case in cases]
    assert "\n".join(str(one) for found in differences for one in found) == ""


class TestReport:
    def test_names_the_first_step_and_field_that_differ(self, tmp_path: Path) -> None:
        wrong = copy.deepcopy(COPY[0])
        wrong["steps"][2]["truth"]["ops"][0]["bytes"] = 47
        path = tmp_path / "wrong.jsonl"
        path.write_bytes(b"\n".join(msgspec.json.encode(case) for case in (wrong, COPY[1])))
        report = conform([path])
        assert not report.agrees
        assert (report.cases, report.differing) == (2, 1)
        assert report.differences[0].step == 2
        assert report.differences[0].field == "ops"
        assert "1 of 2 cases agree, 1 differ" in str(report)
        assert "step 2: ops" in str(report)

    def test_a_program_that_cannot_be_replayed(self) -> None:
        wrong = copy.deepcopy(COPY[0])
        wrong["steps"][2]["op"] = "teleport"
        found = replay_case(wrong)
        assert [(one.step, one.field) for one in found] == [(2, "error")]
        assert "step of unknown kind 'teleport'" in str(found[0])

    def test_a_file_that_agrees(self) -> None:
        report = conform([DATA / "usm.jsonl.gz"])
        assert report.agrees
        assert str(report) == "28 of 28 cases agree, 0 differ"

    @pytest.mark.parametrize(
        ("content", "reason"),
        [("{", "line 1"), ('{"name": "x"}', "it has no mode, arrays, steps, outcome"), ("[1]", "no conformance case")],
    )
    def test_an_unreadable_file(self, tmp_path: Path, content: str, reason: str) -> None:
        path = tmp_path / "bad.jsonl"
        path.write_text(content)
        with pytest.raises(ConformanceFileError, match=reason):
            conform([path])

    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(ConformanceFileError, match="No such file"):
            conform([tmp_path / "none.jsonl"])
