"""Every recorded program does here what LLVM's runtime did, in both gears; lowered as clang lowered it."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest

from offloadrt.cli import main
from offloadrt.extensions.evidence.conformance.conform import (
    ConformanceFileError,
    RecordedProgram,
    conform,
    read_cases,
    replay_case,
)

DATA = Path(__file__).parent.parent / "data" / "conformance"
COPY = list(read_cases(DATA / "copy.jsonl.gz"))
USM = list(read_cases(DATA / "usm.jsonl.gz"))
GLOBALS = list(read_cases(DATA / "globals.jsonl.gz"))


def groups(cases: list[RecordedProgram]) -> list[tuple[str, list[RecordedProgram]]]:
    """Cases by the kind of program that the generator made."""
    found: dict[str, list[RecordedProgram]] = {}
    for case in cases:
        found.setdefault(case.name.rsplit("_", 1)[0], []).append(case)
    return list(found.items())


def test_all_recordings_are_here() -> None:
    assert (len(COPY), len(USM), len(GLOBALS)) == (330, 28, 34)


@pytest.mark.parametrize("gear", ["native", "turbo"])
@pytest.mark.parametrize(
    ("kind", "cases"), groups(COPY + USM + GLOBALS), ids=lambda value: value if isinstance(value, str) else ""
)
def test_replays_exactly(kind: str, cases: list[RecordedProgram], gear: Any) -> None:
    differences = [replay_case(case, gear, lowering=True)[:1] for case in cases]
    assert "\n".join(str(one) for found in differences for one in found) == ""


def raw(case: RecordedProgram) -> Any:
    """As it stands in a file, to be changed."""
    return msgspec.json.decode(msgspec.json.encode(case))


class TestReport:
    def test_names_the_first_step_and_field_that_differ(self, tmp_path: Path) -> None:
        wrong = raw(COPY[0])
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
        wrong = raw(COPY[0])
        wrong["steps"][2]["maps"][0]["off"] = 4096
        found = replay_case(msgspec.convert(wrong, RecordedProgram))
        assert [(one.step, one.field) for one in found] == [(2, "error")]
        assert "reaches beyond the 12 elements" in str(found[0])

    def test_a_file_that_agrees(self) -> None:
        report = conform([DATA / "usm.jsonl.gz"])
        assert report.agrees
        assert str(report) == "28 of 28 cases agree, 0 differ"


@pytest.mark.parametrize("cases", [COPY[::10], USM[::10]], ids=["copy", "usm"])
def test_an_apu_s_plugin_does_the_same(cases: list[RecordedProgram]) -> None:
    assert [replay_case(case, machine="mi300a", lowering=True) for case in cases] == [[]] * len(cases)


def drop(key: str) -> Any:
    return lambda case: case.pop(key)


def put(value: Any, *path: Any) -> Any:
    def change(case: Any) -> None:
        for step in path[:-1]:
            case = case[step]
        case[path[-1]] = value

    return change


class TestUnreadableFiles:
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (drop("device_fill"), "missing required field `device_fill`"),
            (put("foo", "mode"), r"Invalid enum value 'foo' - at `\$\.mode`"),
            (put("205", "device_fill"), r"Expected `int`, got `str` - at `\$\.device_fill`"),
            (put(500, "device_fill"), "device_fill 500 is no byte"),
            (put(8, "element_bytes"), r"at `\$\.element_bytes`"),
            (put(12, "arrays", "b", "bytes"), "array 'b' has 12 bytes and 12 initial values"),
            (put("teleport", "steps", 2, "op"), r"Invalid value 'teleport' - at `\$\.steps\[2\]\.op`"),
            (put(["never"], "steps", 2, "maps", 0, "mods"), r"at `\$\.steps\[2\]\.maps\[0\]\.mods\[0\]`"),
            (put("z", "steps", 2, "maps", 0, "arr"), "step 2: no array 'z'"),
            (put("z", "steps", 1, "body", 0, "arr"), "step 1: no array 'z'"),
            (put("h7", "steps", 3, "h"), "step 3: no block 'h7'"),
            (put(1, "steps", 5, "begin"), "step 5: no region began in step 1"),
            (put(6, "steps", 2, "maps", 0, "off"), "step 2: off of . is 6, which is no multiple of 4"),
            (put(1 << 32, "steps", 1, "body", 0, "len"), r"step 1: its body uses .\[\d+:4294967296\]"),
            (put(-1, "steps", 1, "body", 0, "c"), "step 1: c is -1"),
            (put(1 << 32, "arrays", "b", "init", 0), "array 'b' has an initial value"),
            (put([], "steps", 0, "truth"), r"Expected `object`, got `array` - at `\$\.steps\[0\]\.truth`"),
        ],
    )
    def test_a_case_that_is_none(self, tmp_path: Path, change: Any, reason: str) -> None:
        case = raw(COPY[0])
        change(case)
        path = tmp_path / "bad.jsonl"
        path.write_bytes(msgspec.json.encode(COPY[1]) + b"\n" + msgspec.json.encode(case))
        with pytest.raises(ConformanceFileError, match=reason) as caught:
            conform([path])
        assert str(caught.value).startswith(f"{path}: line 2: no conformance case: ")

    @pytest.mark.parametrize("content", [b"{", b'{"name": "x"}', b"[1]", b'{"name": "\xff"}'])
    def test_a_line_that_is_none(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "bad.jsonl"
        path.write_bytes(content)
        with pytest.raises(ConformanceFileError, match="line 1"):
            conform([path])

    @pytest.mark.parametrize("content", [b"no gzip", gzip.compress(b"{}" * 100, mtime=0)[:-12]])
    def test_a_damaged_archive(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "bad.jsonl.gz"
        path.write_bytes(content)
        with pytest.raises(ConformanceFileError, match=r"bad\.jsonl\.gz"):
            conform([path])

    def test_the_command_says_so(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "bad.jsonl"
        path.write_bytes(b'{"name": "x", "mode": "foo"}')
        assert main(["conform", str(path)]) == 2
        written = capsys.readouterr()
        assert "line 1" in written.err
        assert "Traceback" not in written.err + written.out

    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(ConformanceFileError, match="No such file"):
            conform([tmp_path / "none.jsonl"])
