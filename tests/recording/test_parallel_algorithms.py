"""Programs of C++'s parallel algorithms: compiled unchanged, recorded, and replayed on the model of C++ parallelism."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from recorded_programs import PROGRAMS, built
from test_recorded_mistakes import report_of

from offloadrt.extensions.recording.format import Recording, RecordingFile, convert
from offloadrt.extensions.recording.format.recording import Step
from offloadrt.extensions.recording.format.slots import LOADS, STORES
from offloadrt.extensions.recording.toolchain import RecordOptions, find_compiler, record, rewrite
from offloadrt.extensions.stdpar.elision import ALGORITHMS
from offloadrt.runtime.mapping.map_types import LITERAL
from offloadrt.study.errors import UserError
from offloadrt.study.running.execution import execute
from offloadrt.study.scripts import registry

SOURCE = (PROGRAMS / "algorithms.cpp").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module", params=[("-O1", "-std=c++20"), ("-O2", "-std=c++17")], ids=" ".join)
def program(request, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("algorithms")
    return built("algorithms.cpp", folder, "-stdpar", "-Wno-deprecated-declarations", *request.param)


@pytest.fixture(scope="module")
def file(program: Path) -> Path:
    raw = program.with_suffix(".raw")
    record([str(program)], raw, [None], RecordOptions())
    convert(raw, program.with_suffix(".rec"))
    return program.with_suffix(".rec")


@pytest.fixture(scope="module")
def recording(file: Path) -> Recording:
    opened = RecordingFile.read(file)
    return opened.load(opened.runs[0])


def replayed(file: Path, **parameters: object) -> dict[str, object]:
    return execute(registry.find(str(file)), parameters).measured


@pytest.mark.slow
def test_every_algorithm_has_the_result_of_the_sequential_one(program: Path) -> None:
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=100)
    assert re.fullmatch(r"6\d\d checks, 0 failures\n", done.stdout), done.stdout


@pytest.mark.slow
def test_algorithms_are_recorded_where_they_are_called(recording: Recording) -> None:
    sites = [site for site in recording.dictionaries.sites if site.is_algorithm]
    assert {site.call.removeprefix("std::") for site in sites} >= set(ALGORITHMS)
    for site in sites:
        assert Path(site.file).name == "algorithms.cpp"
        assert site.call in " ".join(SOURCE[site.line - 2 : site.line + 1])


@pytest.mark.slow
def test_kernels_are_named_after_algorithm_and_place(recording: Recording) -> None:
    algorithms = {(site.call, site.line) for site in recording.dictionaries.sites if site.is_algorithm}
    for name in recording.dictionaries.kernels:
        found = re.fullmatch(r"(\w+) at algorithms\.cpp:(\d+)(, kernel \d)?", name)
        assert found, name
        assert (f"std::{found[1]}", int(found[2])) in algorithms


@pytest.mark.slow
def test_captures_are_arguments_and_no_maps(recording: Recording) -> None:
    mapped = [
        item.name
        for site in recording.dictionaries.sites
        if site.kernel >= 0
        for item in site.items
        if not item.type & LITERAL
    ]
    assert set(mapped) <= {"sum"}  # of a reduction


@pytest.mark.slow
def test_an_implementation_offloads_what_it_can(file: Path, recording: Recording) -> None:
    acpp = replayed(file, implementation="acpp", heuristic="off")
    host = replayed(file, implementation="host")
    assert acpp["algorithms"] == host["algorithms"] == host["on_host"] + empty_calls(recording)
    assert host["offloaded"] == 0 < acpp["offloaded"]
    assert acpp["host_pointers"] <= 1  # what captures variables of the stack by reference, if they are left there
    if acpp["host_pointers"]:
        unseen = r"for_each_n.*'stack', memory of the host \(stack\), and nvcpp does not look"
        with pytest.raises(UserError, match=unseen):
            replayed(file, implementation="nvcpp")
    else:
        assert replayed(file, implementation="nvcpp")["offloaded"] > 0


def empty_calls(recording: Recording) -> int:
    """Count the algorithms on the device that have no element, and so no kernel."""
    columns, count = recording.columns, 0
    for step, subject, detail in zip(
        *(columns[f"record.{name}"].tolist() for name in ("step", "subject", "detail")), strict=True
    ):
        if step == 0 and recording.dictionaries.sites[subject].is_algorithm:
            first = int(columns["items.first"][detail])
            on_host, kernels = columns["item.base"][first + 2 : first + 4].tolist()
            count += not on_host and not kernels
    return count


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["never", "first", "always", "after-sync"])
def test_prefetch_modes(file: Path, mode: str) -> None:
    measured = replayed(file, implementation="acpp", heuristic="off", prefetch=mode)
    assert (measured["prefetches"] > 0) == (mode != "never")


@pytest.mark.slow
def test_a_check_of_every_algorithm_finds_nothing(program: Path, tmp_path: Path) -> None:
    record([str(program)], tmp_path / "checked.raw", [None], RecordOptions(check=True))
    convert(tmp_path / "checked.raw", tmp_path / "checked.rec")
    report = report_of(tmp_path / "checked.rec")
    assert report.mistakes == ()
    assert not any("was given" in sentence for sentence in report.not_known)
    assert replayed(tmp_path / "checked.rec")["offloaded"]  # variables that end are no blocks of the heap


@pytest.mark.slow
def test_elements_that_touch_what_others_touch_are_told_with_the_lines_of_the_program(tmp_path: Path) -> None:
    program = built("algorithm_races.cpp", tmp_path, "-stdpar", "-std=c++17")
    record([str(program)], tmp_path / "races.raw", [None], RecordOptions(check=True))
    convert(tmp_path / "races.raw", tmp_path / "races.rec")
    lines = (PROGRAMS / "algorithm_races.cpp").read_text(encoding="utf-8").splitlines()
    at = {
        word: next(n for n, line in enumerate(lines, 1) if line.endswith(f"// {word}")) for word in ("neighbour", "sum")
    }
    found = {
        (mistake.kind, *(story.where for story in mistake.stories))
        for mistake in report_of(tmp_path / "races.rec").mistakes
    }
    sums = f"algorithm_races.cpp:{at['sum']}"
    assert ("race", sums, sums) in found
    assert any(f"algorithm_races.cpp:{at['neighbour']}" in places for _, *places in found)
    assert not any("offload_algorithms.hpp" in place for _, *places in found for place in places)


@pytest.mark.slow
def test_small_arrays_are_those_of_their_algorithms(tmp_path: Path) -> None:
    """Also rows that a kernel finds by pointers in memory: their launch is traced once more when they are known."""
    program = built("few.cpp", tmp_path, "-stdpar", "-std=c++17")
    (ran,) = record([str(program)], tmp_path / "few.raw", [None], RecordOptions())
    assert ran.exit == 0
    convert(tmp_path / "few.raw", tmp_path / "few.rec")
    opened = RecordingFile.read(tmp_path / "few.rec")
    recording = opened.load(opened.runs[0])
    sizes = [array.nbytes for array in recording.dictionaries.arrays if array.origin == "malloc"]
    assert sizes == [40] * 3 + [960] + [80] * 40
    assert recording.columns["record.step"].tolist().count(Step.FREE) == len(sizes)
    found = replayed(tmp_path / "few.rec", pool="off")
    assert (found["interposed"], found["offloaded"]) == (len(sizes), 9)
    assert (
        found["elided"] == 5
    )  # for_each before reduce, and before for_each: small arrays that become known cause no barrier


@pytest.mark.slow
def test_what_the_host_touches_is_put_down_to_the_array_that_it_lies_in(tmp_path: Path) -> None:
    """Not to its neighbours in the page: their pages would leave the device with it."""
    program = built("neighbours.cpp", tmp_path, "-stdpar", "-std=c++17")
    (ran,) = record([str(program)], tmp_path / "neighbours.raw", [None], RecordOptions())
    assert ran.exit == 0
    convert(tmp_path / "neighbours.raw", tmp_path / "neighbours.rec")
    opened = RecordingFile.read(tmp_path / "neighbours.rec")
    columns = opened.load(opened.runs[0]).columns
    assert len(set(columns["touch.array"].tolist())) == 1
    touches = zip(*(columns[f"touch.{name}"].tolist() for name in ("offset", "bytes", "kind")), strict=True)
    assert set(touches) == {(800, 1616, LOADS), (800, 16, STORES)}
    assert replayed(tmp_path / "neighbours.rec", pool="off", implementation="nvcpp")["offloaded"] == 7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "place"),
    [
        ("static double table[4]", "outside"),
        ("static double table[4]", "inside"),
        ("static const double table[4]", "outside"),
        ("double table[4]", "outside"),
    ],
)
def test_a_variable_of_the_host_in_an_algorithm_is_refused_with_its_line(
    variable: str, place: str, tmp_path: Path
) -> None:
    """Devices have none, or one that nobody initializes; one that is constexpr, or captured, is as good as a number."""
    find_compiler("cxx")
    outside, inside = (f"{variable} = {{1, 2, 3, 4}};", "")[:: 1 if place == "outside" else -1]
    body = "std::for_each(std::execution::par_unseq, a.begin(), a.end(), [](double &x) { x = table[long(x) % 4]; });"
    source = tmp_path / "named.cpp"
    source.write_text(
        f"#include <algorithm>\n#include <execution>\n#include <vector>\n{outside}\n"
        f"int main() {{ {inside}\nstd::vector<double> a(99, 1.);\n{body}\n return a[5] != 2; }}\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "offloadrt", "cxx", "-stdpar", "-g", "-std=c++17", str(source), "-o", "named"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode != 0
    assert re.search(
        r"named.cpp:7:\d+: error: a parallel algorithm uses the variable (main::)?table by its name", done.stderr
    )


@pytest.mark.slow
def test_a_cmake_project_is_built_by_the_environment_alone(tmp_path: Path) -> None:
    """A library and a program; where the function of an algorithm throws, C++ ends the program, with no catch."""
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    find_compiler("cxx")
    offloadrt = Path(sys.executable).with_name("offloadrt")
    environment = {**os.environ, "CXX": f"{offloadrt} cxx -stdpar"}
    for command in (["-S", str(PROGRAMS / "waves"), "-B", str(tmp_path)], ["--build", str(tmp_path)]):
        subprocess.run(["cmake", *command], check=True, capture_output=True, env=environment, timeout=600)
    found = {}
    for value in ("1", "-1"):
        raw = tmp_path / f"{value}.raw"
        record([str(tmp_path / "waves"), value], raw, [None], RecordOptions())
        convert(raw, raw.with_suffix(".rec"))
        opened = RecordingFile.read(raw.with_suffix(".rec"))
        found[value] = opened.load(opened.runs[0])
    calls = [(site.call, Path(site.file).name) for site in found["1"].dictionaries.sites if site.is_algorithm]
    assert sorted(calls) == [
        ("std::for_each", "steps.cpp"), ("std::for_each", "steps.cpp"), ("std::reduce", "main.cpp"),
    ]  # fmt: skip
    died = found["-1"].meta.died
    assert found["1"].meta.died is None and died is not None
    assert (died.how, Path(died.where).name) == ("is ended by SIGABRT", "steps.cpp:12")
    assert "negative" in died.message


def test_flags_of_other_compilers_for_offloaded_algorithms() -> None:
    for flag in ("-stdpar", "-stdpar=gpu", "--acpp-stdpar", "--hipstdpar", "-fsycl-pstl-offload=gpu"):
        kept, openmp = rewrite([flag, "-O3", "a.cpp"], "cxx")
        assert openmp, flag
        assert kept[0] == "-include" and Path(kept[1]).name == "offload_algorithms.hpp" and Path(kept[1]).is_file()
        assert kept[2:] == ["-O3", "a.cpp"]
    assert rewrite(["-stdpar=multicore", "a.cpp"], "cxx") == (["a.cpp"], False)
    assert rewrite(["-stdpar", "a.c"], "cc") == (["a.c"], False)
