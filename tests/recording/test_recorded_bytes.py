"""Bytes on stacks, in small blocks, in images and in freed blocks of the device: what a check says of real programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from raw_program import KERNEL, PARAM, TO, RawProgram, only
from recorded_programs import PROGRAMS, built

from offloadrt.extensions.checking.checked import CheckReport, check
from offloadrt.extensions.recording.format import RecordingFile, convert
from offloadrt.extensions.recording.toolchain import RecordOptions, record
from offloadrt.study.running.execution import execute
from offloadrt.study.scripts import registry
from offloadrt.study.spec import RunSpec

Told = list[tuple[str, ...]]


def words_of(source: str) -> dict[str, str]:
    """Return the comments at the ends of lines, and before a `break`, by the names that a report gives these lines."""
    lines = (PROGRAMS / source).read_text(encoding="utf-8").splitlines()
    return {f"{source}:{number}": line.split("/* ")[1].partition(" */")[0]
            for number, line in enumerate(lines, 1) if "/* " in line and number > 1}  # fmt: skip


def said(report: CheckReport, source: str) -> Told:
    words = words_of(source)
    return [
        (one.kind, one.subject, *(words.get(Path(story.where).name, "") for story in one.stories))
        for one in report.mistakes
    ]


def report_of(file: Path) -> CheckReport:
    scenario = registry.find(str(file))
    return check(scenario, scenario.bind({}), RunSpec())


@pytest.fixture(scope="module", params=["-O0", "-O2"])
def checked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], CheckReport]:
    """Return what a check says of a case of `bytes.c`, with four threads."""
    folder = tmp_path_factory.mktemp("bytes")
    program = built("bytes.c", folder, request.param)

    def run(case: int) -> CheckReport:
        raw, file = folder / f"{case}.raw", folder / f"{case}.rec"
        record([str(program), str(case)], raw, [4], RecordOptions(check=True))
        convert(raw, file)
        return report_of(file)

    return run


STALE = "stale data"
OUTSIDE = "outside of what is mapped"
FREED = "use after free"
LEFT = {6: ["v, by the runtime"], 7: ["v, by the runtime"], 18: ["l, by the runtime"]}
"""LLVM maps a structure of a mapper twice and unmaps it once: `omp_target_is_present` says so."""


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (0, {(STALE, "t", "", "")}),
        (1, {(STALE, "t", "", "")}),
        (2, {(STALE, "lasting.t", "", "")}),
        (3, {(STALE, "t", "", "")}),
        (4, {("uninitialised data", "t", "")}),
        (5, set()),
        (6, {(STALE, "v.data", "", "")}),
        (7, set()),
        (8, {(OUTSIDE, "malloc 24 B", "few")}),
        (9, {(OUTSIDE, "memory", "near")}),
        (10, {(STALE, "on_both", "", "")}),
        (11, set()),
        (12, {(STALE, "on_both", "", "")}),
        (13, {(FREED, "device memory", "free", "freed")}),
        (15, {(FREED, "a", "ended", "outside")}),
        (16, set()),
        (18, set()),
        (17, {("uninitialised data", "mapped 512 B", "routine")}),
        (19, set()),
        (20, set()),
    ],
)
def test_every_byte_of_a_program_is_judged(
    checked: Callable[[int], CheckReport], case: int, expected: set[tuple[str, ...]]
) -> None:
    report = checked(case)
    assert set(said(report, "bytes.c")) == expected
    assert [fault.subject for fault in report.runtime_faults if fault.kind == "missing unmap"] == LEFT.get(case, [])
    assert bool(report.not_known) == (case == 20)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_what_llvm_keeps_of_one_array_hides_no_mistake_about_another(tmp_path: Path, level: str) -> None:
    program = built("kept.c", tmp_path, level)
    record([str(program)], tmp_path / "raw", [1], RecordOptions(check=True))
    convert(tmp_path / "raw", tmp_path / "kept.rec")
    report = report_of(tmp_path / "kept.rec")
    assert {(one.kind, one.subject) for one in report.mistakes} == {(STALE, "other"), ("uninitialised data", "other")}
    assert [fault.subject for fault in report.runtime_faults] == ["parts, by the runtime"]


def test_a_block_that_is_freed_beside_a_kernel_that_uses_it(checked: Callable[[int], CheckReport]) -> None:
    """Whether the kernel has ended by then is chance, when it is recorded as when it is replayed.

    The free and the kernel race; where the kernel comes later, it also uses what was freed.
    """
    mistakes = checked(14).mistakes
    assert {mistake.kind for mistake in mistakes} in ({FREED}, {"race"}, {FREED, "race"})
    told = {words_of("bytes.c").get(Path(story.where).name) for mistake in mistakes for story in mistake.stories}
    assert "free" in told


@pytest.fixture(scope="module")
def dying(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Return the recording of a case of `deaths.c`."""
    folder = tmp_path_factory.mktemp("deaths")
    program = built("deaths.c", folder, "-O1")

    def run(case: int) -> Path:
        raw, file = folder / f"{case}.raw", folder / f"{case}.rec"
        record([str(program), str(case)], raw, [None], RecordOptions(check=True))
        convert(raw, file)
        return file

    return run


@pytest.mark.parametrize(
    ("case", "how", "where", "message"),
    [
        (0, "exits inside of the runtime with code 5", "mapper", ""),
        (1, "is ended by SIGSEGV", "null", ""),
        (2, "is ended by SIGABRT", "abort", "app: no input"),
        (3, "is ended by SIGFPE", "zero", ""),
        (4, "is ended by SIGSEGV", "stack", ""),
        (5, "is ended by SIGKILL", "last", ""),
        (6, "is ended by SIGABRT", "extends", "explicit extension not allowed"),
        (7, "is ended by SIGSEGV", "region", ""),
        (10, "is ended by SIGSEGV", "destructor", ""),
        (11, "is ended by SIGSEGV", "thread", ""),
        (12, "exits inside of the runtime with code 6", "mapper", ""),
        (13, "is ended by SIGSEGV", "helper", ""),
        (16, "is ended by SIGABRT", "beside", ""),
        (17, "is ended by SIGTERM", "last", ""),
        (18, "is ended by SIGABRT", "refused", "OMP: Error #13"),
    ],
)
def test_a_program_that_dies_says_how_and_where(
    dying: Callable[[int], Path], case: int, how: str, where: str, message: str
) -> None:
    file = dying(case)
    recording = RecordingFile.read(file)
    died = recording.load(recording.runs[0]).meta.died
    assert died is not None
    assert died.how == how
    assert words_of("deaths.c")[died.where.removeprefix("after ").rpartition("/")[2]] == where
    assert message in died.message
    assert recording.runs[0].died == str(died)
    fatal = [mistake for mistake in report_of(file).mistakes if mistake.kind == "fatal error"]
    assert [mistake.stories[0].where for mistake in fatal] == [died.where]
    scenario = registry.find(str(file))
    assert str(died) in str(execute(scenario, scenario.bind({}), spec=RunSpec()).measured["recording"])


@pytest.mark.parametrize("case", [8, 9, 14, 15])
def test_a_program_that_ends_by_itself_has_not_died(dying: Callable[[int], Path], case: int) -> None:
    file = dying(case)
    assert RecordingFile.read(file).runs[0].died == ""
    assert not report_of(file).mistakes


def test_a_process_may_die_as_it_exits_or_handle_a_signal(tmp_path: Path) -> None:
    def ended(*lines: tuple[str, int]) -> str:
        program = RawProgram()
        program.directive(KERNEL, (0x10000, 64, TO | PARAM))
        program.rare += [{"k": kind, "signal": number, "call": 0, "how": "exit"} for kind, number in lines]
        folder = tmp_path / "-".join(kind for kind, _ in lines)
        folder.mkdir()
        return str(only(program.recorded(folder)).meta.died or "")

    assert ended(("end", 0)) == ""
    assert ended(("died", 11), ("end", 0)) == ""
    assert ended(("died", 11)).startswith("is ended by SIGSEGV")
    assert ended(("end", 0), ("died", 11)).startswith("is ended by SIGSEGV as it exits")


def test_constants_without_bytes_may_share_an_address(tmp_path: Path) -> None:
    program = RawProgram()
    for kind in ("constant", "variable", "constant"):
        program.rare.append({"k": kind, "at": 0x20000, "size": 0, "name": "empty"})
    program.directive(KERNEL, (0x10000, 64, TO | PARAM))
    assert only(program.recorded(tmp_path)).directives == 1
