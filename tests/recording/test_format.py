"""What the recorder wrote is in the recording, once, and a bad file is refused by name."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from raw_program import BEGIN, END, FROM, KERNEL, PARAM, TO, RawProgram, only
from replaying import replayed

from offloadrt.extensions.recording.format import (
    NotARecording,
    RecordingDamaged,
    RecordingFile,
    RecordingTooNew,
    convert,
)
from offloadrt.extensions.recording.format.blocks import DeviceBlocks, HostArrays, MemoryEvents
from offloadrt.extensions.recording.format.container import check
from offloadrt.extensions.recording.format.recording import Step
from offloadrt.extensions.recording.format.slots import EXACT, STORES
from offloadrt.runtime.mapping.map_types import ATTACH

X, DEVICE = 0x10000, 0x9000000


def mapped(times: int = 1) -> RawProgram:
    """A program that maps x, runs a kernel and copies x back, `times` times."""
    program = RawProgram()
    for _ in range(times):
        program.work(5_000)
        program.directive(
            BEGIN, (X, 8000, TO | FROM), line=10, ops=[("alloc", X, DEVICE, 8000), ("h2d", X, DEVICE, 8000)]
        )
        program.work(7_000)
        program.directive(KERNEL, (X, 8000, PARAM), line=11, cost={"f64": 2000, "ldB": 8000, "stB": 8000})
        program.directive(END, (X, 8000, FROM), line=12, ops=[("d2h", DEVICE, X, 8000), ("delete", DEVICE, 0, 0)])
    return program


def traced() -> RawProgram:
    """A program whose kernel loads from its only array, after the host has touched it."""
    program = RawProgram()
    program.malloc(X, 8000)
    program.touches(X, 8000, 2)
    use = {"host": X, "dev": DEVICE, "size": 8000, "ldB": 8000, "stB": 0, "rd": [250, 2], "wr": [0, 0]}
    program.directive(KERNEL, (X, 8000, TO | PARAM), line=11, cost={"f64": 1000, "arrays": [use]})
    return program


def steps(recording) -> list[Step]:
    return [Step(step) for step in recording.columns["record.step"]]


def test_directives_keep_their_place_in_the_source_and_their_items(tmp_path: Path) -> None:
    recording = only(mapped().recorded(tmp_path))
    assert [site.where for site in recording.dictionaries.sites] == ["app.c:10", "app.c:11", "app.c:12"]
    assert recording.columns["item.begin"].tolist() == [X] and recording.columns["item.size"].tolist() == [8000]
    assert [array.nbytes for array in recording.dictionaries.arrays] == [8000]
    assert recording.dictionaries.kernels == ("saxpy",)


def test_what_repeats_is_stored_once(tmp_path: Path) -> None:
    recording = only(mapped(50).recorded(tmp_path))
    assert recording.directives == 150
    assert len(recording.dictionaries.sites) == 3
    assert len(recording.columns["items.first"]) - 1 == 1
    assert len(recording.columns["operations.first"]) - 1 == 3
    assert len(recording.columns["launch.trip"]) == 1


def test_the_time_of_the_host_between_directives_is_what_its_thread_worked(tmp_path: Path) -> None:
    recording = only(mapped().recorded(tmp_path))
    assert recording.columns["record.cpu"].tolist()[:2] == [5_000, 7_000]


def test_waiting_at_a_barrier_is_no_work(tmp_path: Path) -> None:
    program = mapped()
    program.synchronize(3, "begin")
    program.work(9_000_000)
    program.synchronize(3, "end")
    program.work(11)
    program.directive(BEGIN, (X, 8, TO))
    recording = only(program.recorded(tmp_path))
    assert steps(recording)[3:] == [Step.BARRIER, Step.DIRECTIVE]
    assert int(recording.columns["record.cpu"][-1]) == 11


def test_memory_that_is_allocated_anew_is_another_array(tmp_path: Path) -> None:
    program = RawProgram()
    for nbytes in (8192, 16384):
        program.malloc(X, nbytes)
        program.directive(BEGIN, (X, nbytes, TO))
        program.free(X, nbytes)
    recording = only(program.recorded(tmp_path))
    assert [array.nbytes for array in recording.dictionaries.arrays] == [8192, 16384]
    assert steps(recording) == [Step.ALLOCATE, Step.DIRECTIVE, Step.FREE] * 2


def test_sections_that_overlap_are_one_array(tmp_path: Path) -> None:
    program = RawProgram()
    program.directive(BEGIN, (X, 100, TO))
    program.directive(BEGIN, (X + 200, 100, TO))
    program.directive(BEGIN, (X + 50, 200, TO))
    recording = only(program.recorded(tmp_path))
    assert [(array.address, array.nbytes) for array in recording.dictionaries.arrays] == [(X, 300)]
    assert recording.columns["item.array"].tolist() == [0, 0, 0]


def test_arrays_that_one_map_after_another_makes_one_are_one() -> None:
    arrays = HostArrays()
    spans = [(0x1020, 8), (0x1010, 8), (0x1010, 0x20), (0x1000, 8), (0x1000, 0x40)]
    for address, nbytes in spans:
        arrays.spanned(address, nbytes, "a")
    table, known = arrays.table()
    assert [(array.address, array.nbytes) for array in table] == [(0x1000, 0x40)]
    assert {place.number for place in known} == {0}


def test_a_touch_belongs_to_each_array_that_later_maps_make_known_in_its_bytes() -> None:
    memory = MemoryEvents()
    memory.parallel(1, begins=True)
    memory.arrays.spanned(0x1100, 0x100, "a")
    memory.touch(0, STORES | EXACT, 0x1000, 0x400)
    memory.arrays.spanned(0x1080, 0x180, "a")  # a map of more of it
    memory.arrays.spanned(0x1300, 0x200, "b")
    memory.take_touches(0, 0)
    arrays, places = memory.arrays.table()
    columns, _ = memory.columns(places)
    touched = zip(columns["touch.array"], columns["touch.offset"], columns["touch.bytes"], strict=True)
    assert [array.name for array in arrays] == ["a", "b"]
    assert sorted(touched) == [(0, 0, 0x80), (0, 0x80, 0x100), (1, 0, 0x100)]


LOCK, POSIX, BARRIER, ASKED, TAKEN, GIVEN_BACK = 1, 9, 1, 1, 2, 3


@pytest.mark.parametrize("kind", [LOCK, POSIX])
@pytest.mark.parametrize("gives_back", [False, True])
def test_a_program_that_is_stopped_hangs_if_all_wait_and_one_for_a_lock_that_another_one_holds(
    tmp_path: Path, gives_back: bool, kind: int
) -> None:
    program = mapped()
    program.begin_team(1, 2)
    for tid in (0, 1):
        program.member(1, 10 + tid, tid, 2, tid)
    program.mutex(ASKED, kind, 0x70, 0)
    program.mutex(TAKEN, kind, 0x70, 0)
    if gives_back:
        program.mutex(GIVEN_BACK, kind, 0x70, 0)
    program.synchronize(BARRIER, "begin", 10, 0)
    program.mutex(ASKED, kind, 0x70, 1)
    program.rare.remove({"k": "end", "how": "exit"})
    program.write(tmp_path / "raw" / "run-0")
    record = {"runs": [{"folder": "run-0", "stopped": True, "ended_ns": program.now() + 1_000_000_000}]}
    (tmp_path / "raw" / "record.json").write_text(json.dumps(record))
    convert(tmp_path / "raw", tmp_path / "app.rec")
    meta = only(tmp_path / "app.rec").meta
    held = "" if gives_back else " that host thread 0 holds"
    assert f"host thread 1 waits for a lock{held}" in meta.halted
    assert "host thread 0 waits for other threads or tasks after app.c:12" in meta.halted
    assert (meta.died is None) == gives_back
    assert gives_back or str(meta.died).startswith("hangs")


def test_blocks_of_the_device_at_one_place_one_after_the_other_have_addresses_of_their_own() -> None:
    blocks, seen = DeviceBlocks(), []
    for _ in range(3):
        blocks.add(0x5000, 0, 64)  # of omp_target_alloc
        seen.append(blocks.recorded(0x5008))
        blocks.remove(0x5000)
    blocks.add(0x5000, 0x1000, 64)  # a copy of an array
    assert seen == [0x5008, 0x5008 + (1 << 48), 0x5008 + (2 << 48)] and blocks.recorded(0x5008) == 0x5008


def test_places_in_an_array_are_those_in_the_array_that_it_becomes(tmp_path: Path) -> None:
    """An array of unknown origin grows downwards when a later map begins before it."""
    used = {"host": X, "dev": DEVICE, "size": 100, "ldB": 100, "stB": 0, "rd": (4, 1), "wr": (0, 0)}
    program = RawProgram()
    program.directive(KERNEL, (X, 100, PARAM), cost={"arrays": [used]})
    program.touches(X, 100, 1)
    program.directive(BEGIN, (X - 50, 100, TO))
    recording = only(program.recorded(tmp_path))
    assert [(array.address, array.nbytes) for array in recording.dictionaries.arrays] == [(X - 50, 150)]
    assert recording.columns["use.offset"].tolist() == recording.columns["touch.offset"].tolist() == [50]


def test_a_kernel_finds_what_is_present_beside_a_pointer_into_the_same_array(tmp_path: Path) -> None:
    """Small blocks that lay at one place after another are one array, of which one part is present and one is not."""
    used = {"host": X + 144, "dev": DEVICE, "size": 32, "ldB": 32, "stB": 32, "rd": (1, 1), "wr": (1, 1)}
    program = RawProgram()
    for call in (BEGIN, END):
        program.directive(call, (X, 512, TO))
    program.directive(BEGIN, (X + 144, 32, TO))
    program.directive(KERNEL, (X + 144, 0, PARAM), (X, 0, PARAM), cost={"arrays": [used]})
    outcome = replayed(program.recorded(tmp_path)).outcome
    assert outcome.directives == 4


def test_a_null_pointer_that_is_mapped_with_a_size_is_an_array_at_zero(tmp_path: Path) -> None:
    program = RawProgram()
    operations = [("alloc", 0, DEVICE, 4), ("delete", DEVICE, 0, 0)]
    program.directive(KERNEL, (0, 4, PARAM), (0, 0, PARAM), ops=operations, cost={"f64": 1})
    recording = program.recorded(tmp_path)
    assert [(array.address, array.nbytes) for array in only(recording).dictionaries.arrays] == [(0, 4)]
    outcome = replayed(recording).outcome
    assert outcome.agrees and outcome.equal == 1


def test_an_attached_pointer_says_nothing_of_the_size_of_what_it_points_to(tmp_path: Path) -> None:
    program = RawProgram()
    pointer = {"base": 0x8000, "begin": X, "size": 8, "type": ATTACH, "name": ";p;app.c;1;1;;"}
    program.directive(BEGIN, (X, 4, TO), pointer)
    assert [array.nbytes for array in only(program.recorded(tmp_path)).dictionaries.arrays] == [4]


def test_a_program_that_crashed_has_a_recording_that_says_so(tmp_path: Path) -> None:
    program = mapped()
    program.rare = [line for line in program.rare if line["k"] != "end"]
    program.rows[0] = program.rows[0][:-3]
    program.write(tmp_path / "raw" / "run-0")
    with (tmp_path / "raw" / "run-0" / "1.0.slots").open("ab") as slots:
        slots.write(b"\0" * 70)
    with (tmp_path / "raw" / "run-0" / "1.jsonl").open("a") as lines:
        lines.write('{"k": "stri')
    (summary,) = convert(tmp_path / "raw", tmp_path / "app.rec")
    recording = only(tmp_path / "app.rec")
    assert summary.ended == recording.meta.ended == "cut"
    assert recording.columns["record.operations"].tolist() == [0, 1, -1]


def test_a_program_that_offloads_nothing_has_no_recording(tmp_path: Path) -> None:
    program = RawProgram()
    program.work(1)
    program.write(tmp_path / "raw" / "run-0")
    with pytest.raises(NotARecording, match="no directive"):
        convert(tmp_path / "raw", tmp_path / "app.rec")


def test_a_recording_is_the_same_in_a_folder(tmp_path: Path) -> None:
    program = mapped()
    zipped = only(program.recorded(tmp_path))
    (tmp_path / "folder.rec").mkdir()
    convert(tmp_path / "raw", tmp_path / "folder.rec")
    folder = only(tmp_path / "folder.rec")
    assert folder.dictionaries == zipped.dictionaries
    assert all(np.array_equal(folder.columns[name], zipped.columns[name]) for name in zipped.columns)


def test_the_same_raw_files_give_the_same_bytes(tmp_path: Path) -> None:
    first = mapped().recorded(tmp_path).read_bytes()
    convert(tmp_path / "raw", tmp_path / "again.rec")
    assert (tmp_path / "again.rec").read_bytes() == first


def changed(path: Path, name: str, data: bytes | None) -> Path:
    """A copy of a recording with one member changed, or left out."""
    other = path.with_name("other.rec")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for member in old.namelist():
            part = data if member.endswith(name) else old.read(member)
            if part is not None:
                new.writestr(member, part)
    return other


def test_bad_files_are_refused_by_name(tmp_path: Path) -> None:
    path = mapped().recorded(tmp_path)
    (tmp_path / "text.rec").write_text("hello")
    with pytest.raises(NotARecording, match=r"text.rec: is no recording"):
        RecordingFile.read(tmp_path / "text.rec")
    with pytest.raises(NotARecording, match=r"no.rec: cannot be read: no such file"):
        RecordingFile.read(tmp_path / "no.rec")
    (tmp_path / "cut.rec").write_bytes(path.read_bytes()[:-100])
    with pytest.raises(RecordingDamaged, match=r"cut.rec: is cut off"):
        RecordingFile.read(tmp_path / "cut.rec")
    with pytest.raises(NotARecording, match=r"meta.json does not say so"):
        RecordingFile.read(changed(path, "meta.json", b"{}"))
    index = json.dumps({"format": "offloadrt recording", "version": 4, "runs": []}).encode()
    with pytest.raises(RecordingTooNew, match=r"version 4 of the format; this offloadrt reads up to 3"):
        RecordingFile.read(changed(path, "meta.json", index))


@pytest.mark.parametrize(
    ("member", "data", "message"),
    [
        ("record.cpu.npy", None, "a part is missing"),
        ("record.cpu.npy", b"nonsense", "columns/record.cpu.npy is damaged"),
        ("dictionaries.json", b'{"meta": 3}', "dictionaries.json: "),
    ],
)
def test_a_damaged_part_is_named(tmp_path: Path, member: str, data: bytes | None, message: str) -> None:
    file = RecordingFile.read(changed(mapped().recorded(tmp_path), member, data))
    with pytest.raises(RecordingDamaged, match=message):
        file.load(file.runs[0])


def test_parts_that_contradict_one_another_are_found(tmp_path: Path) -> None:
    recording = only(mapped().recorded(tmp_path))
    recording.columns["record.subject"][0] = 7
    with pytest.raises(RecordingDamaged, match="a record names site 7 of 3"):
        check(recording)


@pytest.mark.parametrize(
    ("column", "place", "value", "message"),
    [
        ("record.step", 0, 99, "record.step holds a kind that is not from 0 to 15"),
        ("record.detail", -1, 9, "a record names list of items 9 of 1"),
        ("items.first", 0, 1, "items.first does not rise from 0"),
        ("task.count", 0, 5, "the tasks have 5 records together"),
        ("record.launch", 0, -7, "record.launch names -7 of 1"),
        ("use.item", 0, 1, "use.item names 1 of 1"),
        ("touch.array", 0, -1, "touch.array names -1 of 1"),
    ],
)
def test_references_to_what_does_not_exist_are_found(
    tmp_path: Path, column: str, place: int, value: int, message: str
) -> None:
    recording = only(traced().recorded(tmp_path))
    recording.columns[column][place] = value
    with pytest.raises(RecordingDamaged, match=message):
        check(recording)


def test_a_program_may_be_killed_between_any_two_slots(tmp_path: Path) -> None:
    whole = traced()
    whole.routine("omp_target_memcpy", dst=X, src=DEVICE, bytes=8, doff=0, soff=0, dev=1, sdev=0)
    for slots in range(len(whole.rows[0])):
        program = traced()
        program.rows[0] = whole.rows[0][:slots]
        program.write(tmp_path / f"raw-{slots}" / "run-0")
        try:
            convert(tmp_path / f"raw-{slots}", tmp_path / f"{slots}.rec")
        except NotARecording:
            assert slots < 6  # the only directive is not complete
        else:
            assert only(tmp_path / f"{slots}.rec").directives


def test_newer_raw_files_are_refused(tmp_path: Path) -> None:
    program = mapped()
    program.rare[0]["version"] = 9
    program.write(tmp_path / "raw" / "run-0")
    with pytest.raises(RecordingTooNew, match="raw version 9"):
        convert(tmp_path / "raw", tmp_path / "app.rec")


@pytest.mark.parametrize(
    ("name", "directives"),
    [
        ("babelstream_1M", 105), ("exahype_nowait_8threads", 326), ("hecbench_wyllie_barriers", 8),
        ("overlap_4threads", 384), ("saxpy_fortran", 5), ("usm_touch", 5), ("xsbench_event_small", 1),
    ],
)  # fmt: skip
def test_the_samples_have_all_their_directives(sample, name: str, directives: int) -> None:
    assert only(sample(name)).directives == directives
