"""A stored recording of parallel algorithms, replayed: what each implementation makes of it, and damaged copies."""

from __future__ import annotations

import io
import itertools
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest
from recorded_programs import PROGRAMS
from test_recorded_mistakes import report_of

from offloadrt.extensions.recording.format import RecordingError, RecordingFile
from offloadrt.extensions.recording.format.recording import Step
from offloadrt.study.errors import UserError
from offloadrt.study.running.execution import execute
from offloadrt.study.scripts import registry
from offloadrt.study.spec import RunSpec

TRIADS = Path(__file__).parent / "stored" / "algorithms" / "triads.rec"
"""Recorded of `programs/triads.cpp`: 16 algorithms on 65,536 elements."""
WRONG = TRIADS.parent.parent / "checked" / "wrong_algorithms.rec"
MIB = 1 << 20


def replayed(machine: str = "alex-a100", gear: str = "turbo", **parameters: object) -> dict[str, object]:
    result = execute(registry.find(str(TRIADS)), parameters, spec=RunSpec(machine=machine, gear=gear, hash=True))
    return {**result.measured, "elapsed_s": result.elapsed_s, "hash": result.trace_hash}


def test_barriers_stay_where_the_host_needs_a_result() -> None:
    """A value twice, the host's loop over the scan, and the call of printf: twelve others follow one another."""
    measured = replayed(heuristic="off")
    assert (measured["algorithms"], measured["offloaded"], measured["elided"]) == (16, 16, 12)
    assert (measured["kept_value"], measured["kept_access"], measured["kept_call"]) == (2, 1, 1)
    assert measured["waits"] == 4


def test_without_elision_every_algorithm_is_waited_for() -> None:
    kept, elided = replayed(heuristic="off", elision="off"), replayed(heuristic="off")
    assert (kept["elided"], kept["waits"], kept["kept_off"]) == (0, 16, 14)
    assert kept["elapsed_s"] > elided["elapsed_s"]


def test_allocations_are_prefetched_once_each() -> None:
    measured = replayed(heuristic="off", prefetch="first")
    assert (measured["prefetches"], measured["prefetched_bytes"]) == (4, 1.75 * MIB)
    assert replayed(heuristic="off", prefetch="never")["prefetches"] == 0


def test_nvcpp_waits_for_each_algorithm_and_faults_for_its_pages() -> None:
    measured = replayed(implementation="nvcpp")
    assert (measured["waits"], measured["prefetches"], measured["interposed"]) == (16, 0, 4)


def test_the_host_and_system_memory_take_nothing_over() -> None:
    for measured in (replayed(implementation="host"), replayed(machine="gh200", heuristic="off", system_usm=True)):
        assert measured["interposed"] == 0 == measured["prefetches"]


@pytest.mark.parametrize("implementation", ["acpp", "nvcpp", "rocstdpar", "icpx", "host"])
def test_an_apu_plays_all_implementations(implementation: str) -> None:
    found = replayed(machine="mi300a", implementation=implementation)
    assert found["offloaded"] == (0 if implementation == "host" else 16)


def test_kernels_of_an_apu_fault_for_what_nobody_has_mapped_for_them() -> None:
    spec = RunSpec(machine="mi300a")
    faulting, mapped = (
        execute(registry.find(str(TRIADS)), {"prefetch": mode}, spec=spec).faults for mode in ("never", "always")
    )
    assert faulting["gpu"] > 0 == mapped["gpu"]
    assert mapped["prefault_pages"] > 0 == faulting["prefault_pages"]


def test_a_part_of_the_program_is_measured() -> None:
    """A loop of five rounds with two algorithms each; the others stand behind it."""
    whole, rounds = replayed(heuristic="off"), replayed(heuristic="off", timed="triads.cpp:14")
    each = replayed(heuristic="off", timed="triads.cpp:14-triads.cpp:15")
    assert (whole["algorithms"], rounds["algorithms"], each["algorithms"]) == (16, 8, 5)
    assert whole["elapsed_s"] > rounds["elapsed_s"] > each["elapsed_s"] > 0
    with pytest.raises(UserError, match=r"no algorithm is called at 'triads.cpp:1', but at triads.cpp:"):
        replayed(timed="triads.cpp:1")
    with pytest.raises(UserError, match=r"timed: .* does not come from the one to the other"):
        replayed(timed="triads.cpp:19-triads.cpp:14")


def test_the_heuristic_chooses_from_sampling_runs(tmp_path: Path) -> None:
    file = str(tmp_path / "times.json")
    assert replayed(sampling="host", database=file)["on_host"] == 16
    assert replayed(sampling="offload", database=file)["offloaded"] == 16
    decided = replayed(heuristic="on", database=file)
    assert decided["decisions"] >= 1
    assert decided["on_host"] + decided["offloaded"] == 16


@pytest.mark.parametrize("machine", ["alex-a100", "isambard-mi100", "idc-max1550", "mi300a"])
def test_both_gears_give_the_same_events(machine: str) -> None:
    assert replayed(machine, "native")["hash"] == replayed(machine, "turbo")["hash"]


def test_a_check_finds_nothing_in_a_right_program() -> None:
    assert report_of(TRIADS).mistakes == ()


def test_a_check_finds_what_algorithms_do_to_memory_that_they_come_to_by_pointers() -> None:
    report = report_of(WRONG)
    lines = (PROGRAMS / "wrong_algorithms.cpp").read_text(encoding="utf-8").splitlines()
    at = {f"wrong_algorithms.cpp:{number}": line.rpartition("// ")[2] for number, line in enumerate(lines, 1)}
    told = {(mistake.kind, *sorted(at[story.where] for story in mistake.stories)) for mistake in report.mistakes}
    assert told == {
        ("outside of what is mapped", "beyond"),
        ("uninitialised data", "unwritten"),
        ("race", "one", "other"),
    }
    (captured,) = [where for where, word in at.items() if word == "stack"]
    assert f"capture by reference ({captured})" in report.not_known[-1]


def test_a_variable_whose_scope_ends_is_no_block_of_the_heap(tmp_path: Path) -> None:
    opened = RecordingFile.read(WRONG)
    recording, file = opened.load(opened.runs[0]), tmp_path / "ended.rec"
    subjects, steps = recording.columns["record.subject"].copy(), recording.columns["record.step"]
    names = [array.name for array in recording.dictionaries.arrays]
    subjects[np.flatnonzero(steps == Step.FREE)[0]] = names.index("sum")  # the kernel's result, on the stack
    with zipfile.ZipFile(WRONG) as archive, zipfile.ZipFile(file, "w") as changed:
        for name in archive.namelist():
            written = io.BytesIO()
            np.save(written, subjects)
            is_changed = name.endswith("record.subject.npy")
            changed.writestr(name, written.getvalue() if is_changed else archive.read(name))
    assert execute(registry.find(str(file)), {}, spec=RunSpec()).measured["algorithms"] == 7


def test_an_option_of_an_implementation_that_has_it_not() -> None:
    with pytest.raises(UserError, match=r"sampling.*nvcpp has no heuristic here"):
        replayed(implementation="nvcpp", sampling="host")


@pytest.mark.parametrize("process", [0, 1])
def test_a_rank_of_mpi_that_computes_by_algorithms_is_played_alone(process: int) -> None:
    measured = execute(registry.find(str(TRIADS.with_name("reduced.rec"))), {"process": process}).measured
    assert (measured["algorithms"], measured["offloaded"]) == (7, 7)


_ODD = (-1, -7, 1 << 40, 1 << 62, (1 << 63) - 1, -(1 << 63), 255, 65536, 0, 1, 2, 3, 7, 12)


def damaged(members: dict[str, bytes], draw: random.Random, file: Path) -> None:
    """Write a copy in which up to six numbers of the columns are others."""
    changed = dict(members)
    names = [name for name in members if name.endswith(".npy")]
    for name in draw.choices(names, k=draw.randint(1, 6)):
        values = np.load(io.BytesIO(changed[name])).astype(np.int64)
        if values.size:
            values.reshape(-1)[draw.randrange(values.size)] = draw.choice(_ODD)
            written = io.BytesIO()
            np.save(written, values)
            changed[name] = written.getvalue()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in changed.items():
            archive.writestr(name, content)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_damaged_recordings_are_replayed_or_refused_with_a_reason(seed: int, tmp_path: Path) -> None:
    draw, reasons = random.Random(seed), list[str]()
    with zipfile.ZipFile(TRIADS) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for number, implementation in zip(range(50), itertools.cycle(("acpp", "nvcpp", "host")), strict=False):
        file = tmp_path / f"damaged{number}.rec"
        damaged(members, draw, file)
        try:
            execute(registry.find(str(file)), {"implementation": implementation, "heuristic": "auto"})
        except (UserError, RecordingError) as error:
            reasons.append(str(error))
    assert 0 < len(reasons) < 50
    assert all(reason.strip() for reason in reasons)
