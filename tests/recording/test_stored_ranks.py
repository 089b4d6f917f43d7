"""Stored recordings of MPI programs, played on one node and on several; no MPI is needed."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from recorded_programs import PROGRAMS
from test_recorded_mistakes import report_of

from offloadrt.extensions.recording.format import RecordingDamaged, RecordingFile
from offloadrt.extensions.recording.scenario import scenario_of
from offloadrt.study.errors import UserError
from offloadrt.study.running.execution import execute

STORED = Path(__file__).parent / "stored"
HALO, CALLS = STORED / "halo.rec", STORED / "calls_of_mpi.rec"


def changed(path, folder, column, number, place=0):
    """A copy of a recording with another number in a column of its first rank."""
    copy = folder / path.name
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(copy, "w") as target:
        first = json.loads(source.read("meta.json"))["runs"][0]["folder"]
        for name in source.namelist():
            data = source.read(name)
            if name == f"{first}/columns/{column}.npy":
                values = np.load(io.BytesIO(data)).astype("i8")
                values[place] = number
                written = io.BytesIO()
                np.save(written, values)
                data = written.getvalue()
            target.writestr(name, data)
    return copy


def played(path, gear="turbo", overrides=None, **parameters):
    return execute(scenario_of(path), parameters, machine="a100-node4", hash=True, gear=gear, overrides=overrides or {})


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_all_ranks_are_played_on_nodes(nodes):
    result = played(HALO, nodes=nodes, gpus_per_node=4 // nodes)
    assert result.measured["directives"] == result.measured["operations_equal"] == 100
    assert result.where_time_went["ranks"].total_s > 0
    busy = {name for name, device in result.devices.items() if "compute units" in name and device.busy_s > 0}
    assert len(busy) == 4  # each rank has taken a device of its own


@pytest.mark.parametrize(("nodes", "waits"), [(1, False), (4, True)])
def test_a_slow_network_is_waited_for_between_nodes_only(nodes, waits):
    usual, slow = (
        played(HALO, overrides=entries, nodes=nodes, gpus_per_node=4 // nodes) for entries in ({}, {"nic.bw": "1 MB/s"})
    )
    assert (slow.elapsed_s > usual.elapsed_s + 0.1) is waits  # 128 KiB of the broadcast take 131 ms
    assert waits or slow.trace_hash == usual.trace_hash


def test_both_gears_agree():
    turbo, native = (played(HALO, gear=gear, nodes=2, gpus_per_node=1) for gear in ("turbo", "native"))
    assert native.trace_hash == turbo.trace_hash


def test_each_kind_of_call_is_played():
    result = played(CALLS, nodes=2)
    assert result.where_time_went["ranks"].total_s > 0


def test_a_rank_alone_takes_no_time_in_mpi():
    alone = played(HALO, process=2)
    assert "ranks" not in alone.where_time_went
    assert alone.measured["mpi"].endswith("calls left out, for this process is played alone")


def test_only_the_recorded_number_of_ranks_is_played():
    with pytest.raises(UserError, match=r"ranks=3: .*halo.rec was recorded with 4; what a rank of 3 does"):
        played(HALO, ranks=3)


@pytest.mark.parametrize(
    ("column", "number", "message"),
    [
        ("part.kind", 99, "part.kind holds a kind that is not from 1 to 16"),
        ("part.communicator", 7, "part.communicator names 7 of 2"),
        ("part.peer", -3, "part.peer of part 0 is -3 of 4"),
        ("part.bytes", 1 << 50, "part.bytes is 1125899906842624; it can be 0 to"),
        ("part.array", 99, "part.array names 99 of"),
        ("parts.first", 3, "parts.first does not rise from 0"),
    ],
)
def test_parts_that_name_what_does_not_exist_are_refused(column, number, message, tmp_path):
    path = changed(HALO, tmp_path, column, number)
    file = RecordingFile.read(path)
    with pytest.raises(RecordingDamaged, match=message):
        file.load(file.runs[0])


def test_a_buffer_is_its_messages_until_a_call_finds_it_complete():
    """By waits, tests and MPI_Request_get_status, of persistent requests as of others, in host and device memory."""
    messages, wrong = STORED / "checked" / "messages.rec", STORED / "checked" / "wrong_messages.rec"
    assert report_of(messages).mistakes == ()
    lines = (PROGRAMS / "messages.c").read_text().splitlines()
    told = {
        (mistake.subject, call.split()[0], lines[int(where.rpartition(":")[2]) - 1].rpartition("// ")[2])
        for mistake in report_of(wrong).mistakes
        for call, where in [(story.who, story.where) for story in mistake.stories]
        if call.startswith("MPI")
    }
    assert told == {
        ("x on the host", "MPI_Isend", "sends"),
        ("x on the host", "MPI_Irecv", "receives"),
        ("x on device 0", "MPI_Irecv", "receives in device memory"),
    }
