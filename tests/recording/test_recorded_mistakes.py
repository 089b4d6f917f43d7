"""Mistakes of real programs, recorded for a check: what their sources have, and nothing of what is right."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from raw_program import BEGIN, END, KERNEL, PARAM, TO, UPDATE, RawProgram
from recorded_programs import PROGRAMS, built

from offloadrt.extensions.checking.checked import CheckReport, check
from offloadrt.extensions.checking.mistakes import Mistake
from offloadrt.extensions.recording.format import NotARecording, convert
from offloadrt.extensions.recording.format.slots import EXACT, LOADS, UNIFIED_SHARED_MEMORY
from offloadrt.extensions.recording.toolchain import RecordOptions, record
from offloadrt.study.scripts import registry
from offloadrt.study.spec import RunSpec

LINES = (PROGRAMS / "mistakes.c").read_text(encoding="utf-8").splitlines()
Checked = Callable[[int], list[tuple[str, ...]]]
DIED = "fatal error", "the program is ended by SIGSEGV"


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    """Return what a check says of a case of the program: kind, array, and the words of the marked lines."""
    folder = tmp_path_factory.mktemp("mistakes")
    program = built("mistakes.c", folder, "-O0")
    words = {f"mistakes.c:{number}": line.split("/* ")[1].removesuffix(" */")
             for number, line in enumerate(LINES, 1) if line.endswith("*/") and number > 1}  # fmt: skip

    def run(case: int) -> list[tuple[str, ...]]:
        raw, file = folder / f"{case}.raw", folder / f"{case}.rec"
        record([str(program), str(case)], raw, [1], RecordOptions(check=True))
        convert(raw, file)
        return [
            (one.kind, one.subject, *dict.fromkeys(words.get(Path(story.where).name, "") for story in one.stories))
            for one in said_of(file)
        ]

    return run


def said_of(recording: Path) -> tuple[Mistake, ...]:
    """Return what a check says of a recording."""
    return report_of(recording).mistakes


def report_of(recording: Path, savings: bool = False) -> CheckReport:
    """Return all that a check says of a recording."""
    scenario = registry.find(str(recording))
    return check(scenario, scenario.bind({}), RunSpec(), savings=savings)


def test_a_launch_that_was_not_traced_stays_in_its_part_of_an_array(tmp_path: Path) -> None:
    """Only the pages of the traced launch are known of it; its block may be a small part of one."""
    block, device = 0x10000, 0x9000000
    used = {"host": block, "dev": device, "size": 4, "ldB": 4096, "stB": 0, "rd": (1, 1), "wr": (0, 0)}
    program = RawProgram()
    for cost in ({"arrays": [used]}, {}):
        program.directive(KERNEL, (block, 4, TO | PARAM), cost=cost)
    program.directive(KERNEL, (block, 16, TO | PARAM), cost={})
    assert not said_of(program.recorded(tmp_path))


@pytest.mark.parametrize("unified", [False, True])
@pytest.mark.parametrize("made", ["by a map", "by omp_target_alloc", "by a routine of LLVM's"])
def test_host_code_cannot_use_device_memory(tmp_path: Path, made: str, unified: bool) -> None:
    """LLVM's own routines may give memory that both can use; if unified memory is required, they can use all."""
    program = RawProgram()
    program.rare.append({"k": "requires", "flags": UNIFIED_SHARED_MEMORY if unified else 0})
    block, device = 0x10000, 0x9000000
    alloc = ("alloc", block if made == "by a map" else 0, device, 4096)
    if made == "by a map":
        program.directive(BEGIN, (block, 4096, TO), line=3, ops=[alloc])
    elif made == "by omp_target_alloc":
        program.routine("omp_target_alloc", device, bytes=4096, ops=[alloc])
    else:
        op = {**program.at(0), "in": 0, "op": "alloc", "src": 0, "dst": device, "bytes": 4096}
        program.op({**op, "at": "begin"})
        program.op({**op, "at": "end"})
        program.directive(UPDATE, (block, 4096, TO))
    program.touches(device + 8, 8, EXACT | LOADS)
    program.directive(KERNEL, (block, 4096, TO | PARAM), cost={"arrays": []})
    found = [one for one in said_of(program.recorded(tmp_path)) if one.kind == "host use of device memory"]
    is_mistake = not unified and made != "by a routine of LLVM's"
    assert [one.subject for one in found] == ["a10000" if made == "by a map" else "device memory"] * is_mistake
    if made == "by a map":
        assert [one.stories[0].where for one in found] == ["after app.c:3"] * is_mistake


@pytest.mark.parametrize(("crashes", "left"), [(False, ["missing unmap"]), (True, [])])
def test_what_a_program_has_left_over_counts_only_at_its_end(tmp_path: Path, crashes: bool, left: list[str]) -> None:
    """Nobody knows what a program that crashed would have unmapped or used; what it had unmapped was for nothing."""
    program = RawProgram()
    for line, block in enumerate((0x10000, 0x20000), 1):
        program.directive(BEGIN, (block, 4096, TO), line=line)
    program.directive(END, (0x20000, 4096, 0), line=3)
    if crashes:
        program.rare = [line for line in program.rare if line["k"] != "end"]
    report = report_of(program.recorded(tmp_path))
    assert [one.kind for one in report.mistakes] == left
    assert {one.subject for one in report.wastes} == ({"a20000"} if crashes else {"a10000", "a20000"})


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (0, [("race", "counter on device 0", "race")]),
        (1, []),
        (2, [("race", "a on device 0", "neighbour")]),
        (3, []),
        (4, [("race", "a on device 0", "down", "up")]),
        (5, [("outside of what is mapped", "a", "beyond")]),
        (6, [("stale data", "a", "")]),
        (7, []),
        (8, [("map beyond the array", "table", "long"), ("map beyond the array", "table", "")]),
        (9, [("outside of what is mapped", "malloc 1200 B of mistakes.c:146", "host's")]),
        (10, [("outside of what is mapped", "memory", "nowhere"), (*DIED, "")]),
        (11, [("outside of what is mapped", "memory", "far"), (*DIED, "")]),
        (12, []),
        (13, [("race", "a on the host", "")]),
        (14, []),
        (15, [("uninitialised data", "second", "halves")]),
        (16, [("write to a constant", "weights", "constant"), (*DIED, "constant")]),
        (17, []),
        (18, [("race", "counter on device 0", "apart")]),
        (19, []),
        (20, [("race", "counter on device 0", "")]),
        (21, [("outside of what is mapped", "a", ""), ("outside of what is mapped", "b", "")]),
        (22, [("outside of what is mapped", "b", "below")]),
        (23, [("outside of what is mapped", "b", "before")]),
        (24, [("outside of what is mapped", "malloc 65536 B of mistakes.c:206", "pages")]),
    ],
)
def test_a_mistake_is_told_with_its_line(checked: Checked, case: int, expected: list[tuple[str, ...]]) -> None:
    assert set(checked(case)) == set(expected)


@pytest.mark.parametrize(
    ("case", "reached"),
    [
        (5, "a[150], where a[0:150] is mapped"),
        (22, "b[0], where b[1199:1] is mapped"),
        (23, "b[-1], where b[0:300] is mapped"),
    ],
)
def test_an_access_outside_of_a_section_is_told_with_its_element(tmp_path: Path, case: int, reached: str) -> None:
    program = built("mistakes.c", tmp_path, "-O0")
    record([str(program), str(case)], tmp_path / "raw", [1], RecordOptions(check=True))
    convert(tmp_path / "raw", tmp_path / "section.rec")
    (mistake,) = said_of(tmp_path / "section.rec")
    assert mistake.advice.startswith(f"The kernel reaches {reached}: map the whole section")


@pytest.mark.parametrize(
    ("case", "raced"),
    [
        ("team_tile_in_place", {"tile on device 0"}),  # and not the name of a pointer to it
        ("team_many_races", {"tile on device 0", "a on device 0"}),  # of which a recording has room for 64
    ],
)
def test_a_race_has_the_name_of_its_variable(tmp_path: Path, case: str, raced: set[str]) -> None:
    program = built("shared.c", tmp_path, "-O2")
    record([str(program), case], tmp_path / "raw", [1], RecordOptions(check=True))
    convert(tmp_path / "raw", tmp_path / "tile.rec")
    assert {(one.kind, one.subject) for one in said_of(tmp_path / "tile.rec")} == {("race", name) for name in raced}


def test_what_orders_threads_and_teams_in_fortran(tmp_path: Path) -> None:
    program = built("teams.f90", tmp_path)
    raced = []
    for case in range(4):
        record([str(program), str(case)], tmp_path / f"raw{case}", [1], RecordOptions(check=True))
        convert(tmp_path / f"raw{case}", tmp_path / f"{case}.rec")
        raced.append({one.kind for one in said_of(tmp_path / f"{case}.rec")})
    assert raced == [{"race"}, set(), set(), {"race"}]


def test_flang_maps_a_section_with_gaps_as_if_it_had_none(tmp_path: Path) -> None:
    program = built("teams.f90", tmp_path)
    record([str(program), "4"], tmp_path / "raw", [1], RecordOptions(check=True))
    convert(tmp_path / "raw", tmp_path / "gaps.rec")
    (mistake,) = said_of(tmp_path / "gaps.rec")
    assert mistake.subject == "table"
    assert (
        "its byte 124, where bytes 84 to 115 are mapped (if a clause names a section with gaps: flang 22"
        in mistake.advice
    )


def test_each_private_copy_of_a_part_of_an_array_has_a_place_of_its_own(tmp_path: Path) -> None:
    program = built("parts.cpp", tmp_path)
    record([str(program)], tmp_path / "raw", [1], RecordOptions(check=True))
    convert(tmp_path / "raw", tmp_path / "parts.rec")
    assert not said_of(tmp_path / "parts.rec")


def test_what_the_host_reads_of_a_vector_before_it_ends_is_judged(tmp_path: Path) -> None:
    """operator delete gets the vector's address, but stores nothing there for the program."""
    program = built("vector.cpp", tmp_path)
    record([str(program)], tmp_path / "raw", [1], RecordOptions(check=True))
    convert(tmp_path / "raw", tmp_path / "vector.rec")
    assert [(one.kind, one.subject) for one in said_of(tmp_path / "vector.rec")] == [("uninitialised data", "data")]


@pytest.mark.slow
@pytest.mark.parametrize(("source", "level"), [("lost.c", "-O0"), ("lost.c", "-O1"), ("lost.c", "-O2"),
                                               ("lost.f90", "-O0"), ("lost.f90", "-O2")])  # fmt: skip
def test_results_that_a_kernel_computes_for_nobody_are_named(tmp_path: Path, source: str, level: str) -> None:
    program = built(source, tmp_path, "-g", level)
    raw, file = tmp_path / "lost.raw", tmp_path / "lost.rec"
    record([str(program)], raw, [2], RecordOptions(check=True))
    convert(raw, file)
    scenario = registry.find(str(file))
    report = check(scenario, scenario.bind({}), RunSpec())
    text = (PROGRAMS / source).read_text(encoding="utf-8").splitlines()
    marked = [f"{source}:{number}" for number, line in enumerate(text, 1) if line.endswith((" lost */", "! lost"))]
    assert [told.split(" in kernel ")[0].split(" at ")[1] for told in report.lost_results] == marked
    assert report.mistakes == ()


@pytest.mark.slow
def test_a_kernel_that_writes_far_outside_of_its_array_spoils_no_recording(tmp_path: Path) -> None:
    """What is kept of a launch lies apart from the heap."""
    program = built("far.c", tmp_path, "-O1")
    for doubles in (0, 16, 400, 4000, 0):
        raw, file = tmp_path / f"{doubles}.raw", tmp_path / f"{doubles}.rec"
        (run,) = record([str(program), str(doubles)], raw, [None], RecordOptions(check=True))
        convert(raw, file)
        said = said_of(file)
        kinds = {one.kind for one in said}
        if doubles:
            # Where the heap that it has spoiled kills the program within that directive, only its death is known.
            ends = [one.stories[0].where for one in said if one.kind == "fatal error"]
            inside = any(not where.startswith("after ") and where.endswith("far.c:38") for where in ends)
            assert run.directives == 289 and ("outside of what is mapped" in kinds or inside)
        else:
            assert kinds == set() and run.directives == 288
        shutil.rmtree(raw)


def _checked(source: str, folder: Path, *arguments: object, level: str = "-O1", threads: int = 2) -> CheckReport:
    program = built(source, folder, "-g", level)
    record([str(program), *map(str, arguments)], folder / "raw", [threads], RecordOptions(check=True))
    convert(folder / "raw", folder / "program.rec")
    return report_of(folder / "program.rec")


@pytest.mark.parametrize(
    ("source", "level"),
    [
        ("unset.c", "-O1"),
        ("unset.cpp", "-O1"),
        ("unwritten.c", "-O1"),
        *(
            pytest.param(source, level, marks=pytest.mark.slow)
            for source in ("unset.c", "unset.cpp", "unset.f90", "unwritten.c")
            for level in ("-O0", "-O2", "-O3")
        ),
    ],
)
def test_variables_and_blocks_that_nobody_has_written_are_told(tmp_path: Path, source: str, level: str) -> None:
    """A reduction of the host's, in Fortran, is no race."""
    text = (PROGRAMS / source).read_text(encoding="utf-8").splitlines()
    marked = [number for number, line in enumerate(text, 1) if line.endswith(("/* unset */", "! unset"))]
    said = _checked(source, tmp_path, level=level).mistakes
    assert {one.kind for one in said} == {"uninitialised data"}
    assert sorted({int(one.stories[0].where.rpartition(":")[2]) for one in said}) == marked


@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3"])
@pytest.mark.parametrize("source", ["unset.c", "unset.cpp", "unwritten.c"])
def test_variables_and_blocks_that_are_written_first_are_none(tmp_path: Path, source: str, level: str) -> None:
    assert _checked(source, tmp_path, "right", level=level).mistakes == ()


@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3"])
@pytest.mark.parametrize("source", ["handed_on.c", "handed_on.f90"])
def test_copies_of_what_nobody_has_written_may_be_handed_on(tmp_path: Path, source: str, level: str) -> None:
    assert _checked(source, tmp_path, level=level, threads=4).mistakes == ()


@pytest.mark.parametrize("threads", [1, 4, pytest.param(8, marks=pytest.mark.slow)])
def test_threads_of_the_host_combine_what_they_reduce_one_after_the_other(tmp_path: Path, threads: int) -> None:
    assert _checked("reductions.c", tmp_path, threads=threads).mistakes == ()


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        pytest.param(0, {"fatal error", "stale data"}, id="abort"),
        pytest.param(1, {"stale data", "missing unmap"}, id="_exit"),
        *(
            pytest.param(2 + how, {"fatal error", "stale data", "uninitialised data"}, id=name, marks=marks)
            for how, (name, marks) in enumerate(
                [
                    ("abort in a kernel", ()),
                    ("exit in a kernel", ()),
                    ("_exit in a kernel", pytest.mark.slow),
                    ("trap in a kernel", pytest.mark.slow),
                ]
            )
        ),
    ],
)
def test_a_program_that_ends_behind_a_mistake_hides_it_not(tmp_path: Path, how: int, expected: set[str]) -> None:
    assert {one.kind for one in _checked("ended.c", tmp_path, how).mistakes} == expected


def test_code_in_another_file_that_was_compiled_to_be_watched_is_watched(tmp_path: Path) -> None:
    """What is called there is no code that may have done anything: `sum_of` reads stale data."""
    assert built("summed.c", tmp_path, "-c").exists()
    program = built("summed.f90", tmp_path, str((tmp_path / "summed").rename(tmp_path / "summed.o")))
    record([str(program)], tmp_path / "raw", [1], RecordOptions(check=True))
    convert(tmp_path / "raw", tmp_path / "program.rec")
    report = report_of(tmp_path / "program.rec")
    assert ([one.kind for one in report.mistakes], report.not_known) == (["stale data"], ())


def test_a_program_that_dies_before_its_first_directive_is_said_to_have_died(tmp_path: Path) -> None:
    program = built("early.c", tmp_path, "-g", "-O0")
    record([str(program)], tmp_path / "raw", [1], RecordOptions(check=True))
    with pytest.raises(NotARecording, match=r"that offloads: it is ended by SIGSEGV at \S*early\.c"):
        convert(tmp_path / "raw", tmp_path / "program.rec")
