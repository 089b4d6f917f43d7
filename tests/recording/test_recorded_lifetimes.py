"""Arrays of the host that end while they are mapped: what a check says of recordings of real programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from raw_program import BEGIN, END, FROM, TO, RawProgram, only
from recorded_programs import PROGRAMS, built

from offloadrt.extensions.checking.checked import check
from offloadrt.extensions.recording.format import RecordingDamaged, convert
from offloadrt.extensions.recording.format.recording import ArrayEnd, EndKind, Step
from offloadrt.extensions.recording.toolchain import RecordOptions, record
from offloadrt.study.scripts import registry
from offloadrt.study.spec import RunSpec

Told = list[tuple[str, ...]]
X, DEVICE, N = 0x10000, 0x9000000, 4096
ALLOC, COPY_BACK, DELETE = ("alloc", X, DEVICE, N), ("d2h", DEVICE, X, N), ("delete", DEVICE, 0, 0)


def said_of(recording: Path, source: str = "") -> Told:
    """Return kind and subject of each mistake, and the words of the lines that it names; a line that has none."""
    lines = (PROGRAMS / source).read_text(encoding="utf-8").splitlines() if source else []
    words = {f"{source}:{number}": line.split("/* ")[1].removesuffix(" */")
             for number, line in enumerate(lines, 1) if line.endswith("*/") and number > 1}  # fmt: skip
    scenario = registry.find(str(recording))
    mistakes = check(scenario, scenario.bind({}), RunSpec()).mistakes
    return [
        (one.kind, one.subject, *(words.get(name := Path(story.where).name, name) for story in one.stories))
        for one in mistakes
    ]


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Told]:
    folder = tmp_path_factory.mktemp("lifetimes")

    def run(source: str, case: str) -> Told:
        program = built(source, folder, "-O1")
        raw, file = folder / f"{source}.{case}.raw", folder / f"{source}.{case}.rec"
        (ran,) = record([str(program), case], raw, [2], RecordOptions(check=True))
        assert ran.exit == 0 or case in CORRUPTING
        (summary,) = convert(raw, file)
        assert summary.directives == ran.directives > 0
        return [told for told in said_of(file, source) if told[0] != "fatal error" or case not in CORRUPTING]

    return run


FREED = "freed while mapped"
CORRUPTING = ("0", "6", "9", "11")
"""Cases that copy back into memory that was freed, where malloc keeps what it needs: they may crash."""
LEFT = ("missing unmap", "a", "enter")


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (0, [(FREED, "a", "enter", "free", "from")]),
        (1, [(FREED, "a", "enter", "free", "release")]),
        (2, [(FREED, "a", "enter", "free", "update"), LEFT]),
        (3, []),
        (4, [(*LEFT, "free at last")]),
        (5, [(FREED, "a", "enter", "free", "enter"), LEFT]),
        (6, [(FREED, "a", "enter", "realloc", "from")]),
        (7, []),
        (8, [(FREED, "a", "enter", "munmap", "release")]),
        (9, [(FREED, "a", "few", "free", "few back")]),
        (10, [(FREED, "a", "local", "scope", "release")]),
        (11, [(FREED, "a", "enter", "free", "from")]),
        (12, []),
        (13, []),
        (14, []),
        (15, [(FREED, "a", "enter", "elsewhere", "release")]),
        (16, []),
        (17, [("map beyond the array", "a", "more than it has")]),
    ],
)
def test_an_array_of_c(checked: Callable[[str, str], Told], case: int, expected: Told) -> None:
    assert checked("lifetimes.c", str(case)) == expected


def test_small_arrays_of_the_heap_have_sizes_and_ends_of_their_own(tmp_path: Path) -> None:
    """malloc may give all three one address; then each exists from its own allocation on."""
    raw, file = tmp_path / "raw", tmp_path / "small.rec"
    record([str(built("lifetimes.c", tmp_path, "-O1")), "18"], raw, [2], RecordOptions(check=True))
    convert(raw, file)
    recording = only(file)
    arrays = recording.dictionaries.arrays
    assert [array.nbytes for array in arrays] == [20] * 3
    alone = [sum(array.address == other.address for other in arrays) == 1 for array in arrays]
    assert [array.origin for array in arrays] == ["small" if is_alone else "malloc" for is_alone in alone]
    assert recording.columns["record.step"].tolist().count(Step.FREE) == 3
    assert said_of(file, "lifetimes.c") == []


def test_regions_that_map_a_small_array_one_after_the_other_race(checked: Callable[[str, str], Told]) -> None:
    assert {(kind, subject) for kind, subject, *_ in checked("lifetimes.c", "19")} == {("race", "a on device 0")}


def test_arrays_of_cpp(checked: Callable[[str, str], Told]) -> None:
    assert checked("ends.cpp", "") == [
        (FREED, "a", "region", "delete", "region"),
        (FREED, "v", "vector", "ends", "again"),
        ("missing unmap", "v", "vector"),
    ]


def mapped_and_freed(how: int, moves_to: int = 0) -> RawProgram:
    """A block that ends while it is mapped. moves_to: where realloc has put it."""
    program = RawProgram()
    program.malloc(X, N)
    program.directive(BEGIN, (X, N, TO), ops=[ALLOC])
    program.free(X, N, how=how, where="app.c:2")
    if moves_to:
        program.malloc(moves_to, N, realloc=True)
    program.directive(END, (X, N, FROM), line=3, ops=[COPY_BACK, DELETE])
    return program


@pytest.mark.parametrize(
    ("how", "moves_to", "told"),
    [
        (EndKind.FREE, 0, True),
        (EndKind.REALLOC, 0, False),  # what has become of it is not known
        (EndKind.REALLOC, X, False),
        (EndKind.REALLOC, X + N, True),
        (EndKind.FREE, X, False),  # as the first recorders wrote it
        (EndKind.MUNMAP, 0, True),
        (EndKind.SCOPE, 0, True),
    ],
)
def test_what_realloc_has_left_in_its_place_has_not_ended(
    tmp_path: Path, how: EndKind, moves_to: int, told: bool
) -> None:
    recording = mapped_and_freed(how, moves_to).recorded(tmp_path)
    expected = [(FREED, f"a{X:x}", "app.c:1", "app.c:2", "app.c:3")]
    assert said_of(recording) == (expected if told else [])


def test_what_is_freed_when_nothing_is_mapped_any_more_is_not_told(tmp_path: Path) -> None:
    program = RawProgram()
    program.malloc(X, N)
    program.directive(BEGIN, (X, N, TO), ops=[ALLOC])
    program.directive(END, (X, N, FROM), ops=[COPY_BACK, DELETE])
    program.free(X, N)
    assert not said_of(program.recorded(tmp_path))


def test_the_end_of_memory_that_nobody_has_allocated_ends_what_is_mapped_there(tmp_path: Path) -> None:
    """Small blocks, pages of the system and variables of the stack are known by their maps only."""
    program = RawProgram()
    program.directive(BEGIN, (X, 16, TO), ops=[("alloc", X, DEVICE, 16)])
    program.free(X - 8, 64, how=EndKind.SCOPE, where="app.c:2")
    program.directive(END, (X, 16, FROM), line=3, ops=[("d2h", DEVICE, X, 16), DELETE])
    recording = program.recorded(tmp_path)
    assert only(recording).dictionaries.ends == (ArrayEnd("app.c:2", EndKind.SCOPE),)
    assert said_of(recording) == [(FREED, f"a{X:x}", "app.c:1", "app.c:2", "app.c:3")]


def test_what_a_thread_frees_that_openmp_did_not_make_lies_between_two_directives_of_the_other(tmp_path: Path) -> None:
    program = RawProgram()
    program.malloc(X, N)
    program.directive(BEGIN, (X, N, TO), ops=[ALLOC])
    program.free(X, N, tid=1, where="app.c:2")
    program.directive(END, (X, N, FROM), line=3, ops=[COPY_BACK, DELETE])
    recording = program.recorded(tmp_path)
    assert only(recording).columns["record.step"].tolist() == [Step.ALLOCATE, Step.DIRECTIVE, Step.FREE, Step.DIRECTIVE]
    assert only(recording).dictionaries.ends == (ArrayEnd("app.c:2", EndKind.FREE, elsewhere=True),)
    assert said_of(recording) == [(FREED, f"a{X:x}", "app.c:1", "app.c:2", "app.c:3")]


def test_an_end_that_nobody_knows_is_damage(tmp_path: Path) -> None:
    with pytest.raises(RecordingDamaged, match="in a way that is not known: 9"):
        mapped_and_freed(9).recorded(tmp_path)


def test_what_lies_where_another_array_comes_to_lie_is_not_freed_by_who_comes(tmp_path: Path) -> None:
    """Of small blocks nobody tells when they end: threads may have one after the other at one address."""
    program = RawProgram()
    program.begin_team(7, 2)
    for number in (0, 1):
        program.member(7, 70 + number, number, 2, tid=number)
    program.directive(BEGIN, (X, 16, TO), tid=0)
    program.directive(END, (X, 16, 0), tid=0)
    program.malloc(X, N, tid=1)
    for number in (0, 1):
        program.end_member(70 + number, tid=number)
    program.end_team(7)
    program.directive(BEGIN, (X, N, TO))
    program.directive(END, (X, N, 0))
    assert not said_of(program.recorded(tmp_path))


@pytest.mark.parametrize("allocates", [False, True])
def test_a_thread_may_map_what_another_one_has_freed_before_in_this_run(allocates: bool, tmp_path: Path) -> None:
    """So the free is one of the array that is mapped, unless the thread has got the memory for an array of its own."""
    program = RawProgram()
    program.malloc(X, N)
    program.begin_team(7, 2)
    for number in (0, 1):
        program.member(7, 70 + number, number, 2, tid=number)
    program.free(X, N, tid=0, where="app.c:2")
    if allocates:
        program.malloc(X, N, tid=1)
    program.directive(BEGIN, (X, N, TO), tid=1, line=3, ops=[ALLOC, ("h2d", X, DEVICE, N)])
    program.directive(END, (X, N, 0), tid=1, line=4, ops=[DELETE])
    for number in (0, 1):
        program.end_member(70 + number, tid=number)
    program.end_team(7)
    told = {kind for kind, *_ in said_of(program.recorded(tmp_path))}
    assert told == (set() if allocates else {"race"})
