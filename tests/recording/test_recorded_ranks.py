"""Programs of MPI as they are recorded and replayed, against what they say of themselves. Needs MPICH or Open MPI."""

import itertools
import sys

import numpy as np
import pytest
from recorded_programs import PROGRAMS
from recorded_ranks import LIBRARIES, built_with, calls_of, ranks_in, recorded_ranks

from offloadrt.cli import main
from offloadrt.extensions.recording.format.ranks import POLLS
from offloadrt.extensions.recording.format.recording import NOBODY, BufferPlace, PartKind
from offloadrt.extensions.recording.format.summary import last_call_of
from offloadrt.extensions.recording.scenario import scenario_of
from offloadrt.extensions.recording.toolchain import ToolchainMissing
from offloadrt.study.errors import ScriptFailed, UserError
from offloadrt.study.running.execution import execute

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="programs are recorded on Linux")

with_each_library = pytest.mark.parametrize(
    "library", [LIBRARIES[0], *(pytest.param(name, marks=pytest.mark.slow) for name in LIBRARIES[1:])]
)


def said(file):
    """What a rank wrote of its calls."""
    lines = [line.split() for line in file.read_text().splitlines()]
    return once([(name, int(line), int(gave), int(got)) for name, line, gave, got in lines])


def once(calls):
    """Leave out polls in a loop that got nothing, but for the first: those that found nothing are recorded once."""
    return [
        call for before, call in itertools.pairwise([None, *calls])
        if call != before or call[0] not in POLLS or call[3]
    ]  # fmt: skip


@with_each_library
def test_each_call_in_c_is_recorded_with_its_line_and_bytes(library, tmp_path, monkeypatch):
    program = built_with(library, "calls_of_mpi.c", tmp_path, "-O1", "-w", offloads=False)
    recording = recorded_ranks(monkeypatch, library, program, 4, tmp_path / "said")
    for number, rank in enumerate(ranks_in(recording)):
        assert (rank.meta.mpi.rank, rank.meta.mpi.ranks, rank.meta.mpi.level) == (number, 4, 1)
        assert once(calls_of(rank)[:-1]) == said(tmp_path / f"said.{number}")
        assert calls_of(rank)[-1][0] == "MPI_Finalize"
    result = execute(scenario_of(recording))
    assert result.measured["directives"] == 0
    assert result.where_time_went["ranks"].total_s > 0


@with_each_library
def test_a_call_that_returned_an_error_did_nothing(library, tmp_path, monkeypatch):
    program = built_with(library, "returned_errors.c", tmp_path, "-w", offloads=False)
    recording = recorded_ranks(monkeypatch, library, program, 2)
    for rank in ranks_in(recording):
        moved = [(call, gave, got) for call, _, gave, got in calls_of(rank) if gave or got]
        assert moved == [("MPI_Send", 4, 0), ("MPI_Wait", 0, 4)]
        assert PartKind.REFUSED in rank.columns["part.kind"]
    assert execute(scenario_of(recording)).measured["directives"] == 0


@with_each_library
def test_a_program_that_handles_truncated_messages_goes_on(library, tmp_path, monkeypatch):
    """Long messages are announced: that they are cut off does not keep their senders waiting.

    Open MPI 4.1 crashes when a message is cut off that it copies from the other process, so there they are shorter.
    """
    integers = 100_000 if library == "mpich" else 100
    program = built_with(library, "truncated.c", tmp_path, "-w", f"-DINTS={integers}", offloads=False)
    recording = recorded_ranks(monkeypatch, library, program, 2)
    sender, receiver = ranks_in(recording)
    assert PartKind.REFUSED not in receiver.columns["part.kind"]
    assert not np.isin(sender.columns["part.kind"], (PartKind.COMPLETED, PartKind.REFUSED)).any()
    kinds = receiver.columns["part.kind"].tolist()
    assert (kinds.count(PartKind.COMPLETED), kinds.count(PartKind.RECEIVE)) == (4, 7)
    measured = execute(scenario_of(recording)).measured
    told = [text for name, text in measured.items() if name.startswith("mpi_mistake")]
    assert len(told) == 6
    room = f"MPI_ERR_TRUNCATE: a message of {4 * integers} bytes from rank 0, room for 16"
    assert all(room in text for text in told)


@with_each_library
@pytest.mark.parametrize("binding", ["OLD", *(pytest.param(name, marks=pytest.mark.slow) for name in ("NEW", "F08"))])
def test_each_call_in_fortran_is_recorded_once(library, binding, tmp_path, monkeypatch):
    program = built_with(
        library, "calls_of_mpi.F90", tmp_path, f"-D{binding}", "-ffree-line-length-none", offloads=False
    )
    recording = recorded_ranks(monkeypatch, library, program, 2, tmp_path / "said")
    lines = binding == "OLD"  # gfortran gives calls of module procedures other lines at times
    for number, rank in enumerate(ranks_in(recording)):
        found, expected = once(calls_of(rank)[:-1]), said(tmp_path / f"said.{number}")
        assert [(n, line * lines, *rest) for n, line, *rest in found] == [
            (n, line * lines, *rest) for n, line, *rest in expected
        ]
    assert execute(scenario_of(recording)).measured["directives"] == 0


@with_each_library
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_halo_exchange_in_device_memory(library, ranks, tmp_path, monkeypatch):
    program = built_with(library, "halo.c", tmp_path, "-O2")
    recording = recorded_ranks(monkeypatch, library, program, ranks)
    for number, rank in enumerate(ranks_in(recording)):
        columns = rank.columns
        sends = columns["part.kind"] == PartKind.SEND
        assert set(columns["part.memory"][sends].tolist()) == {BufferPlace.MAPPED}
        assert set(columns["part.peer"][sends].tolist()) == {(number + 1) % ranks, (number - 1) % ranks}
        arrays = rank.dictionaries.arrays
        assert {arrays[array].name for array in columns["part.array"][sends].tolist()} == {"a"}
        blocks = (columns["part.memory"] == BufferPlace.GIVEN).sum()
        assert blocks == 1  # the broadcast of a block of omp_target_alloc
    together = execute(scenario_of(recording))
    assert together.measured["directives"] == together.measured["operations_equal"] == 25 * ranks
    assert together.where_time_went["ranks"].total_s > 0
    alone = execute(scenario_of(recording), {"process": 1})
    assert alone.measured["directives"] == 25
    assert alone.measured["mpi"] == "29 calls left out, for this process is played alone"
    with pytest.raises(UserError, match=f"ranks=8: .* was recorded with {ranks}; what a rank of 8 does is known of no"):
        execute(scenario_of(recording), {"ranks": 8})


@pytest.mark.slow
def test_the_check_knows_what_mpi_reads_and_writes(tmp_path, monkeypatch, capsys):
    """Device buffers are used on the device, so the halo exchange is right; the other program forgets its updates."""
    right = recorded_ranks(monkeypatch, "mpich", built_with("mpich", "halo.c", tmp_path, "-O2"), 2, check=True)
    assert main(["check", str(right)]) == 0, capsys.readouterr().out
    wrong = recorded_ranks(monkeypatch, "mpich", built_with("mpich", "forgotten.c", tmp_path, "-O2"), 2, check=True)
    assert main(["check", str(wrong)]) == 1
    printed = capsys.readouterr().out
    assert "`target update from(a)` before the read" in printed
    assert "`target update to(a)` after the write" in printed


@pytest.mark.slow
def test_the_check_knows_each_piece_of_a_column(tmp_path, monkeypatch, capsys):
    program = built_with("mpich", "columns.c", tmp_path, "-O1")
    right = recorded_ranks(monkeypatch, "mpich", program, 2, check=True)
    assert main(["check", str(right)]) == 0, capsys.readouterr().out
    wrong = recorded_ranks(monkeypatch, "mpich", program, 2, "forgets", check=True)
    assert main(["check", str(wrong)]) == 1
    printed = capsys.readouterr().out
    assert "stale data: a (16 times)" in printed
    assert "`target update to(a)` after the write" in printed


def test_a_deadlock_is_told_with_both_lines(tmp_path, monkeypatch):
    program = built_with("mpich", "deadlock.c", tmp_path, offloads=False)
    recording = recorded_ranks(monkeypatch, "mpich", program, 2, stop_seconds=2.0)
    lines = (PROGRAMS / "deadlock.c").read_text().splitlines()
    receive, send = (next(n for n, line in enumerate(lines, 1) if call in line) for call in ("MPI_Recv", "MPI_Ssend"))
    last = [last_call_of(rank) for rank in ranks_in(recording)]
    assert [words.partition(" at ")[0] for words in last] == ["MPI_Recv", "MPI_Ssend"]
    assert [words.partition(":")[2] for words in last] == [f"{n}, which never returned" for n in (receive, send)]
    halted = ranks_in(recording)[0].meta.halted
    assert halted == f"host thread 0 is in MPI_Recv at {PROGRAMS / 'deadlock.c'}:{receive}"
    with pytest.raises(ScriptFailed, match="Deadlock") as deadlock:
        execute(scenario_of(recording))
    story = str(deadlock.value)
    assert f"deadlock.c:{receive})" in story
    assert f"deadlock.c:{send})" in story
    assert "MPI_Recv from rank 1 with tag 5" in story


@with_each_library
def test_a_rank_at_the_end_of_a_line_receives_from_nobody(library, tmp_path, monkeypatch, capsys):
    """MPICH's status of a nonblocking receive from MPI_PROC_NULL says rank 0, from which no message comes."""
    program = built_with(library, "line.c", tmp_path, offloads=False)
    recording = recorded_ranks(monkeypatch, library, program, 3)
    for number, rank in enumerate(ranks_in(recording)):
        receives = rank.columns["part.kind"] == PartKind.RECEIVE
        peers = [number - 1 if number else NOBODY, number + 1 if number < 2 else NOBODY]
        assert rank.columns["part.peer"][receives].tolist() == peers
        assert last_call_of(rank).startswith("MPI_Finalize")  # another thread made the call before
    assert "mpi_mistake_1" not in execute(scenario_of(recording)).measured


def test_ranks_that_forget_finalize_are_told(tmp_path, monkeypatch, capsys):
    """A mistake is a line below the table, which keeps its columns."""
    program = built_with("mpich", "line.c", tmp_path, offloads=False)
    recording = recorded_ranks(monkeypatch, "mpich", program, 1, "forgets")
    assert main(["run", str(recording), "--draws", "0"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert f"mpi_mistake_1: rank 0 ends without MPI_Finalize, after MPI_Barrier at {PROGRAMS / 'line.c'}:6" in printed
    assert any(line.startswith("elapsed (virtual time)") for line in printed)


@with_each_library
def test_an_error_that_ends_all_ranks_is_told_in_the_words_of_mpi(library, tmp_path, monkeypatch):
    program = built_with(library, "cut_off.c", tmp_path, offloads=False)
    ranks = ranks_in(recorded_ranks(monkeypatch, library, program, 2))
    assert all("message truncated" in rank.meta.died.message.lower() for rank in ranks if rank.meta.died)
    assert any(rank.meta.died for rank in ranks)


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_mistakes_of_a_program_that_comes_to_its_end(library, tmp_path, monkeypatch):
    program = built_with(library, "mistaken.c", tmp_path, offloads=False)
    recording = recorded_ranks(monkeypatch, library, program, 2)
    assert len(calls_of(ranks_in(recording)[1])) < 2000  # 100,000 polls that found nothing are few calls
    lines = (PROGRAMS / "mistaken.c").read_text().splitlines()
    sent, unwaited, unreceived = (
        next(n for n, line in enumerate(lines, 1) if line.endswith(words))
        for words in ("received as double", "never waited for", "never received")
    )
    taken = next(n for n, line in enumerate(lines, 1) if "0, 1, MPI_COMM_WORLD" in line)
    measured = execute(scenario_of(recording)).measured
    told = [text.replace(f"{PROGRAMS}/", "") for name, text in measured.items() if name.startswith("mpi_mistake")]
    assert sorted(told) == [
        f"rank 0's MPI_Isend (mistaken.c:{unwaited}) is never waited for",
        f"rank 0's MPI_Send (mistaken.c:{sent}) of int32 meets rank 1's MPI_Recv (mistaken.c:{taken}) of float64",
        f"rank 0's MPI_Send (mistaken.c:{unreceived}) is never received, 32 bytes",
    ]


def test_a_program_without_a_matching_mpicc_is_refused(tmp_path, monkeypatch):
    program = built_with("mpich", "deadlock.c", tmp_path, offloads=False)
    monkeypatch.setenv("OFFLOADRT_MPICC", "true")
    with pytest.raises(
        ToolchainMissing, match=r"linked with .*libmpich\.so.*, and no mpicc for that is here; .*true is"
    ):
        recorded_ranks(monkeypatch, "mpich", program, 2)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_halo_exchange_in_fortran_with_target_regions(ranks, tmp_path, monkeypatch):
    program = built_with("mpich", "halo.f90", tmp_path, "-O2")  # Open MPI's mpif.h declares types that flang has not
    recording = recorded_ranks(monkeypatch, "mpich", program, ranks)
    result = execute(scenario_of(recording))
    assert result.measured["operations_equal"] == result.measured["directives"] == 18 * ranks
