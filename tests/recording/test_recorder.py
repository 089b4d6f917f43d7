"""What is recorded of a program beside its kernels' costs, and how a recording ends."""

from __future__ import annotations

import collections
import shutil
import signal
import subprocess

import numpy as np
import pytest
from raw_files import (
    ALLOC,
    CALL,
    DATA_BEGIN,
    DATA_END,
    DEPENDENCE,
    FREE,
    ITEM,
    KERNEL,
    MUTEX,
    OP,
    RET,
    TARGET_KERNEL,
    TASK_CREATE,
    TOUCH,
    Raw,
)
from recorded_programs import PROGRAMS, built, recorded

from offloadrt.extensions.recording.format.slots import Slot
from offloadrt.extensions.recording.toolchain import (
    DirectiveCounter,
    RecordingRefused,
    RecordOptions,
    find_compiler,
    parse_stop_after,
    record,
)

ALLOCATE, TO_DEVICE, FROM_DEVICE, DELETE = 1, 2, 3, 4
INOUT, IN = 3, 1
CRITICAL, ACQUIRED = 5, 2
STORES = 2
POLL = Slot.MPI, Slot.MPI_END


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("programs")


def test_directives_are_recorded_as_the_compiler_lowered_them(folder):
    run, raw = recorded(built("stencil.c", folder), 4096, 2)
    assert run.directives == len(raw.of(CALL)) == len(raw.of(RET)) == 2
    assert list(raw.of(KERNEL)[:, 4]) == [4094, 4094]  # the trip count
    sizes = collections.Counter(int(size) for size in raw.of(ITEM)[:, 3])
    assert sizes[4096 * 8] == 4  # u and v, twice
    parts = [text.rsplit("/", 1)[-1] for text in raw.strings()]
    assert "stencil.c;main;11;1;;" in parts  # the directive
    assert any(text.startswith(";u[:n];") for text in raw.strings())


def test_a_program_that_another_version_compiled_is_told_to_be_compiled_again(folder, capfd):
    run, _ = recorded(built("older.c", folder))
    assert run.exit == 0
    assert capfd.readouterr().err.count("compile it again") == 1


def test_a_loop_of_tasks_runs_in_a_target_region(folder):
    run, _ = recorded(built("taskloop.c", folder))
    assert run.exit == 0


def test_the_operations_of_the_real_runtime_are_recorded(folder):
    _, raw = recorded(built("stencil.c", folder), 4096, 1)
    assert sorted(raw.of(OP, TO_DEVICE)[:, 5]) == sorted(raw.of(OP, ALLOCATE)[:, 5])
    assert list(raw.of(OP, FROM_DEVICE)[:, 5]) == [4096 * 8]
    assert len(raw.of(OP, DELETE)) == len(raw.of(OP, ALLOCATE))
    call = raw.of(CALL)[0, 2]
    assert set(raw.of(OP)[:, 2]) == {call}


@pytest.mark.parametrize("threads", [1, 3])
def test_each_host_thread_has_its_own_slots_and_all_together_the_same_directives(folder, threads):
    run, raw = recorded(built("patches.c", folder), 12, threads=threads)
    assert len(raw.threads) == threads
    assert (run.threads, run.directives) == (threads, 12 * 6)
    for function, times in ((DATA_BEGIN, 12), (TARGET_KERNEL, 48), (DATA_END, 12)):
        assert len(raw.of(CALL, function)) == times
    ids = raw.of(CALL)[:, 2]
    assert len(set(ids)) == len(ids)


def test_tasks_dependences_and_locks_are_recorded(folder, capfd):
    _, raw = recorded(built("order.c", folder))
    assert capfd.readouterr().out == "4094 4\n"
    assert len(raw.of(TASK_CREATE)) >= 3
    kinds = collections.Counter(int(head >> 16 & 0xFFFF) for head in raw.of(DEPENDENCE)[:, 0])
    assert kinds == {INOUT: 2, IN: 1}  # to LLVM, out is inout
    assert len(set(raw.of(DEPENDENCE)[:, 3])) == 1  # all three name x
    critical = raw.of(MUTEX, ACQUIRED)
    assert sum(critical[:, 0] >> 32 == CRITICAL) == 4


def test_arrays_and_their_first_touches_are_known_before_the_first_directive(folder):
    _, raw = recorded(built("stencil.c", folder), 64 * 1024, 1)
    arrays = [row for row in raw.of(ALLOC) if row[3] == 512 * 1024]
    assert len(arrays) == 2
    first_call = raw.of(CALL)[0, 1]
    touched = [row for row in raw.of(TOUCH, STORES) if row[1] < first_call]
    for array in arrays:
        pages = (int(array[2]) + 512 * 1024 - 1 >> 16) - (int(array[2]) >> 16) + 1
        covered = sum(
            min(int(t[2] + t[3]) >> 16, (int(array[2]) + 512 * 1024 - 1 >> 16) + 1)
            - max(int(t[2]) >> 16, int(array[2]) >> 16)
            for t in touched
        )
        assert covered == pages


def test_what_the_host_touches_between_directives_is_recorded(folder):
    """After each step the host stores the two ends of an array: in the first and the last 64 KiB."""
    _, raw = recorded(built("stencil.c", folder), 64 * 1024, 3)
    calls = raw.of(CALL)[:, 1]
    between = [row for row in raw.of(TOUCH, STORES) if calls[0] < row[1] < calls[1]]
    assert [int(row[3]) for row in between] == [65536, 65536]


def test_host_touches_can_be_left_out(folder):
    _, raw = recorded(built("stencil.c", folder), 64 * 1024, 3, host_touches=False)
    assert len(raw.of(TOUCH)) == 0


def test_what_is_freed_was_allocated(folder):
    _, raw = recorded(built("patches.c", folder), 4, 4096)
    allocated = {int(row[2]) for row in raw.of(ALLOC)}
    assert len(raw.of(FREE)) >= 8
    assert {int(row[2]) for row in raw.of(FREE) if row[3] > 4096 * 8} <= allocated


@pytest.mark.parametrize(
    ("ending", "code", "killed_by"),
    [("exit", 0, None), ("code", 7, None), ("crash", None, signal.SIGSEGV), ("kill", None, signal.SIGKILL)],
)
def test_what_was_recorded_is_readable_however_the_program_ends(folder, ending, code, killed_by):
    run, raw = recorded(built("endings.c", folder), ending)
    assert (run.exit, run.signal, run.stopped) == (code, killed_by, False)
    assert run.directives == len(raw.of(RET)) == 5
    assert any(line["k"] == "end" for line in raw.lines) == (killed_by is None)


def test_a_recording_stops_after_so_many_directives(folder):
    run, raw = recorded(built("endings.c", folder), "exit", 1000, stop_directives=3)
    assert run.stopped and run.directives == len(raw.of(RET)) == 3
    assert [line["how"] for line in raw.lines if line["k"] == "end"] == ["stopped"]


def test_parent_and_child_of_a_fork_have_parts_of_their_own(folder):
    run, raw = recorded(built("endings.c", folder), "fork")
    processes = {line["forked"]: line["pid"] for line in raw.lines if line["k"] == "process"}
    assert len(processes) == 2 and processes[True] != processes[False]
    assert sorted(len(thread[thread[:, 0] & 0xFF == CALL]) for thread in raw.threads) == [2, 5]
    assert run.directives == 7


def test_times_of_a_thread_never_go_back(folder):
    _, raw = recorded(built("patches.c", folder), threads=2)
    for thread in raw.threads:
        calls = thread[np.isin(thread[:, 0] & 0xFF, (CALL, RET))]
        assert np.all(np.diff(calls[:, 1].astype(np.int64)) >= 0)
        assert np.all(np.diff(calls[:, 4].astype(np.int64)) >= 0)


def test_directives_are_counted_though_the_recorder_takes_polls_back(tmp_path):
    """The file ends before what was read of it, or has a directive where a poll was."""
    file, counter = tmp_path / "1.0.slots", DirectiveCounter(tmp_path)
    counts = []
    for kinds in ([CALL, *POLL], [CALL], [CALL, CALL, *POLL], [CALL, CALL, CALL, 0]):
        slots = np.zeros((len(kinds), 8), "<u8")
        slots[:, 0] = kinds
        slots.tofile(file)
        counts.append(counter.count())
    assert counts == [1, 1, 2, 3]


def test_a_program_that_does_not_offload_is_refused(tmp_path, folder):
    built("endings.c", folder)  # skips where there is no compiler
    with pytest.raises(RecordingRefused, match=r"true ended with exit code 0 and called no OpenMP offloading runtime"):
        record(["true"], tmp_path / "raw", [None], RecordOptions())


def test_a_program_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(RecordingRefused, match=r"no-such-program: no such program"):
        record(["./no-such-program"], tmp_path / "raw", [None], RecordOptions())


def test_a_folder_of_somebody_else_s_is_not_deleted(tmp_path, folder):
    built("endings.c", folder)  # skips where there is no compiler
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "thesis.txt").write_text("three years")
    with pytest.raises(RecordingRefused, match=r"raw: is no folder of raw files, which would be made there; move it"):
        record(["true"], tmp_path / "raw", [None], RecordOptions())
    assert (tmp_path / "raw" / "thesis.txt").exists()


@pytest.mark.parametrize("how", ["linked", "loaded"])
def test_a_library_with_regions_is_recorded_in_a_program_that_knows_no_openmp(folder, how):
    library = built("loaded.c", folder, "-DLIBRARY", "-fPIC", "-shared")
    program = folder / f"{how}.program"
    flags = ["-DLINKED", str(library)] if how == "linked" else []
    command = [str(find_compiler("cc").path), str(PROGRAMS / "loaded.c"), *flags, "-o", str(program)]
    subprocess.run(command, check=True)
    run, raw = recorded(program, library)
    assert (run.exit, run.directives, len(raw.launches())) == (0, 1, 1)
    assert len(raw.of(OP)) > 0


def test_who_is_about_to_lock_a_mutex_that_is_not_free_says_so(folder):
    _, raw = recorded(built("endings.c", folder), "locks", check=True)
    phases = [int(row[0]) >> 16 & 0xFFFF for row in raw.of(MUTEX) if int(row[0]) >> 32 == 9]
    assert phases == [2, 1, 2, 3, 3]  # taken, asked for, taken, given back


def test_stop_after_counts_directives_or_seconds():
    assert parse_stop_after("1000") == (1000, None)
    assert parse_stop_after("1.5s") == (None, 1.5)
    for wrong in ("0", "-3", "many", "s", "nans"):
        with pytest.raises(RecordingRefused, match=r"give a number of directives"):
            parse_stop_after(wrong)


def test_without_a_device_the_directives_are_recorded_and_the_host_runs_the_kernels(folder, monkeypatch, capfd):
    monkeypatch.setenv("OMP_TARGET_OFFLOAD", "DISABLED")
    run, raw = recorded(built("stencil.c", folder), 4096, 2)
    assert capfd.readouterr().out == "4.000000\n"
    assert run.directives == 2
    assert list(raw.of(RET, TARGET_KERNEL)[:, 3].astype(np.int64)) == [-1, -1]
    assert len(raw.of(OP)) == 0 and not raw.launches()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_programs_of_gcc_make_the_same_directives_as_those_of_clang(folder, tmp_path):
    _, of_clang = recorded(built("patches.c", folder), 12, threads=2)
    program = tmp_path / "patches"
    subprocess.run(["gcc", "-O2", "-fopenmp", PROGRAMS / "patches.c", "-o", program], check=True)
    run, of_gcc = recorded(program, 12, threads=2)
    assert run.directives == 12 * 6

    def moves(raw: Raw) -> collections.Counter[tuple[int, int]]:
        """The sizes of items with what they copy to and from the device."""
        items = raw.of(ITEM)
        return collections.Counter((int(row[3]), int(row[4]) & 3) for row in items if row[3] >= 4096)

    assert moves(of_gcc) == moves(of_clang)
    for function in (DATA_BEGIN, TARGET_KERNEL, DATA_END):
        assert len(of_gcc.of(CALL, function)) == len(of_clang.of(CALL, function))
