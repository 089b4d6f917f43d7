"""What a recording calls the program's variables and places, and what its threads may do in any order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from recorded_programs import PROGRAMS, built
from test_recorded_mistakes import report_of

from offloadrt.extensions.recording.format import Recording, RecordingFile, convert
from offloadrt.extensions.recording.toolchain import RecordOptions, record
from offloadrt.study.running.execution import execute
from offloadrt.study.scripts import registry


def recording_of(source: str, folder: Path, *arguments: object, flags: tuple[str, ...] = (), threads: int = 1) -> Path:
    """Build, record and convert a program."""
    program = built(source, folder, *flags)
    raw = folder / f"{source}.{'.'.join(map(str, arguments))}.raw"
    record([str(program), *map(str, arguments)], raw, [threads], RecordOptions(check=True))
    file = raw.with_suffix(".rec")
    convert(raw, file)
    return file


def loaded(file: Path) -> Recording:
    opened = RecordingFile.read(file)
    return opened.load(opened.runs[0])


def lines_with(text: str) -> Iterator[int]:
    for number, line in enumerate((PROGRAMS / "names.f90").read_text(encoding="utf-8").splitlines(), 1):
        if text in line:
            yield number


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_variables_of_fortran_have_their_names(tmp_path: Path, level: str) -> None:
    file = recording_of("names.f90", tmp_path, flags=(level,))
    recording = loaded(file)
    known = {"fields", "cells", "given", "local", "pointed", "passed", "own", "b", "b%values", "/shared/", "error"}
    names = {array.name for array in recording.dictionaries.arrays if array.nbytes > 512}
    assert {name for name in names if not name.startswith("malloc")} <= {*known, "boxes(2)%values", "x", "y", "z"}
    assert {"fields", "cells", "given", "local", "pointed", "passed", "own", "/shared/"} <= names
    assert {(Path(site.file).name, site.line) for site in recording.dictionaries.sites} == {
        ("names.f90", *lines_with("target enter data")),
        ("names.f90", *lines_with("target teams")),
    }
    stories = [story for mistake in report_of(file).mistakes for story in mistake.stories]
    assert {one.where.rpartition(":")[0].removeprefix("after ") for one in stories} <= {
        str(PROGRAMS / "names.f90"), "names.f90"
    }  # fmt: skip
    told = {(one.kind, one.subject) for one in report_of(file).mistakes}
    assert {("missing unmap", name) for name in ("own", "cells", "pointed", "boxes(2)%values")} <= told


@pytest.mark.parametrize("case", range(6))
def test_a_routine_that_gets_freed_device_memory(tmp_path_factory: pytest.TempPathFactory, case: int) -> None:
    folder = tmp_path_factory.mktemp(f"case{case}")
    right, wrong = recording_of("refused.c", folder, case), recording_of("refused.c", folder, case, "freed")
    assert report_of(right).mistakes == ()
    (mistake,) = report_of(wrong).mistakes
    assert (mistake.kind, mistake.subject) == ("use after free", "device memory")
    assert "refused.c:" in mistake.stories[0].where


@pytest.mark.parametrize("threads", [1, 4])
def test_threads_that_map_one_array_may_come_in_any_order(tmp_path: Path, threads: int) -> None:
    file = recording_of("sharing.c", tmp_path, threads=threads)
    for seed in range(3):
        measured = execute(registry.find(str(file)), {}, strategy="random", seed=seed).measured
        assert measured["operations_different"] == 0
