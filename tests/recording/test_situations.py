"""Many small programs: what a check says of each, without a false word and without silence about a mistake."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from recorded_programs import PROGRAMS, built

from offloadrt.extensions.checking.checked import CheckReport, check
from offloadrt.extensions.recording.format import convert
from offloadrt.extensions.recording.toolchain import RecordOptions, record
from offloadrt.study.scripts import registry
from offloadrt.study.spec import RunSpec

CASE = re.compile(r"(?:void|subroutine) c_(\w+)\((?:void)?\)(?: \{)? (?:/\* |! )([^*\n]*)")
FLAGS = {".c": [], ".cpp": ["-std=c++20"], ".f90": ["-fopenmp-version=52"]}  # a mapper of Fortran's is of 5.2
KEPT = ("missing unmap", "fatal error")
"""What the runtime's own faults are called that come from what it keeps mapped."""


def kinds(report: CheckReport) -> str:
    """Return what a report names, as the sources write it."""
    by_runtime = {f"{one.kind} by the runtime" for one in report.runtime_faults if one.kind in KEPT}
    named = (sorted({one.kind for one in report.mistakes}) or sorted(by_runtime)) + ["lost"] * bool(report.lost_results)
    return "+".join(named) or "ok"


def report_of(program: Path, case: str, threads: int) -> CheckReport:
    raw, file = program.with_name(f"{case}.raw"), program.with_name(f"{case}.rec")
    record([str(program), case], raw, [threads], RecordOptions(check=True))
    convert(raw, file)
    scenario = registry.find(str(file))
    return check(scenario, scenario.bind({}), RunSpec())


@pytest.mark.slow
@pytest.mark.parametrize(("source", "level", "threads"), [
    ("situations.c", "-O0", 1), ("situations.c", "-O2", 4), ("situations.f90", "-O0", 4), ("situations.f90", "-O2", 1),
    ("situations.cpp", "-O1", 2), ("library.c", "-O0", 2), ("library.c", "-O2", 2),
    ("shared.c", "-O0", 1), ("shared.c", "-O2", 4),
])  # fmt: skip
def test_each_situation_is_judged_by_what_openmp_says(tmp_path: Path, source: str, level: str, threads: int) -> None:
    program = built(source, tmp_path, level, *FLAGS[Path(source).suffix])
    cases = CASE.findall((PROGRAMS / source).read_text(encoding="utf-8"))
    assert len(cases) > 12
    assert_judged(program, cases, threads)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["situations.c", "situations.cpp"])
@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2"])
def test_what_llvm_keeps_of_a_mapper_is_no_mistake_of_the_program(tmp_path: Path, source: str, level: str) -> None:
    """Which variable of the stack comes to lie where another one was depends on the level."""
    cases = CASE.findall((PROGRAMS / source).read_text(encoding="utf-8"))
    of_mappers = [case for case in cases if case[0].startswith("mapper")]
    assert len(of_mappers) > 2
    assert_judged(built(source, tmp_path, level, *FLAGS[Path(source).suffix]), of_mappers, 2)


def assert_judged(program: Path, cases: list[tuple[str, str]], threads: int) -> None:
    said = {case: kinds(report_of(program, case, threads)) for case, _ in cases}
    allowed = {case: ["+".join(sorted(one.split("+"))) for one in text.strip().split("|")] for case, text in cases}
    wrong = {case: one for case, one in said.items() if one not in allowed[case]}
    assert wrong == {}
