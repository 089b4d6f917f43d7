"""`offloadrt calibrate`: the profile that it writes, what it tells, and what it refuses."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from made_traces import US, MadeNsys
from test_benchmark_rows import row, written

from offloadrt.cli import main
from offloadrt.extensions.logs.schemas import schema_of
from offloadrt.machine import load

PATCHES = Path(__file__).parent.parent / "recording" / "stored" / "patches.rec"


@pytest.fixture
def trace(tmp_path):
    """Five launches of 4 us, which is above the base's range, and of 2 us to the kernel's begin, which is below."""
    made = MadeNsys(tmp_path / "made.sqlite")
    for number in range(5):
        start = number * 1000 * US
        call = made.call("cuLaunchKernel", start, start + 4 * US)
        made.kernel(call, start + 6 * US, start + 106 * US, name="__omp_offloading_fd00_1a2b_main_l15")
    return made.written()


def calibrated(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main(["calibrate", *map(str, arguments)]) == 0
    return " ".join(capsys.readouterr().out.split())


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main(["calibrate", *map(str, arguments)]) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    return said.err


def test_the_profile_has_the_measured_entries_and_everything_else_of_the_base(tmp_path, trace, capsys):
    output = tmp_path / "mine.toml"
    calibrated(capsys, trace, "--base", "alex-a100", "-o", output)
    mine, base = load(output), load("alex-a100")
    changed = {key for key in base.entries if mine.entries[key] != base.entries[key]}
    assert changed == {"driver.launch", "launch.latency"} and mine.name == "mine"
    launch = mine.entries["driver.launch"]
    assert (launch.value, launch.source_type, launch.low) == (pytest.approx(4e-6), "measured", None)
    assert launch.note == "median of 5: cuLaunchKernel calls; the middle 80 % from 4 to 4 us"
    assert mine.sources[launch.source] == "made.sqlite: Nsight Systems, schema 3.13.2, a made GPU"


def test_a_profile_of_ones_own_can_be_the_base_and_the_output_can_be_moved(tmp_path, trace, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calibrated(capsys, trace, "--base", "alex-a100", "-o", "first.toml")
    rows = written(tmp_path / "made.jsonl", row("sync", "idle", 0, 1e-6))
    calibrated(capsys, rows, "--base", "first.toml", "-o", "second.toml")
    (tmp_path / "elsewhere").mkdir()
    moved = (tmp_path / "second.toml").rename(tmp_path / "elsewhere" / "second.toml")
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = load(moved)
    assert (found.value("driver.launch"), found.value("driver.sync_idle")) == pytest.approx((4e-6, 1e-6))


def test_it_tells_what_disagrees_and_what_the_files_do_not_show(tmp_path, trace, capsys):
    said = calibrated(capsys, trace, "--base", "alex-a100", "-o", tmp_path / "mine.toml")
    outside = said.partition("outside of what the base holds possible")[2].partition("not in the files")[0]
    assert "launch.latency: 0.885 times 2.261 µs to 5.859 µs" in outside
    assert "driver.launch" not in outside, "4 µs lie in the range that the base has"
    stays = said.partition("not in the files, as in the base")[2]
    assert "alloc.cudaFree," in stays and "driver.launch" not in stays


def test_the_json_has_what_was_measured_and_fits_its_schema(tmp_path, trace, capsysbinary):
    assert main(["calibrate", str(trace), "--base", "alex-a100", "-o", str(tmp_path / "mine.toml"), "--json"]) == 0
    record = json.loads(capsysbinary.readouterr().out)
    pytest.importorskip("jsonschema").validate(record, schema_of("calibrate"))
    measured = {entry["entry"]: (entry["value"], entry["count"]) for entry in record["entries"]}
    assert measured == {"driver.launch": (pytest.approx(4e-6), 5), "launch.latency": (pytest.approx(2e-6), 5)}


def test_benchmarks_are_taken_before_traces_and_the_trace_is_told(tmp_path, trace, capsys):
    rows = written(tmp_path / "made.jsonl", row("launch", "call", 0, 2.5e-6))
    said = calibrated(capsys, trace, rows, "--base", "alex-a100", "-o", tmp_path / "mine.toml")
    assert load(tmp_path / "mine.toml").value("driver.launch") == pytest.approx(2.5e-6)
    not_taken = said.partition("not taken, because another file shows the same")[2]
    assert "driver.launch 1.077 µs to 4.235 µs 4 µs" in not_taken


def test_kernels_are_compared_with_what_a_recordings_counts_say(tmp_path, trace, capsys):
    """A launch of `patches` reads two arrays of 1024 doubles and writes one, on eight of the SMs at most."""
    said = calibrated(capsys, trace, "--base", "alex-a100", "-o", tmp_path / "mine.toml", "--recording", PATCHES)
    kernel, launches, *_, ratio = said.partition("by counts ratio ")[2].split()
    assert (kernel, launches) == ("main:15", "5")
    machine = load("alex-a100")
    rates = machine.value("sm.bandwidth"), machine.value("mem.bw")
    slowest, fastest = (24 * 1024 / rate / 100e-6 for rate in rates)
    assert fastest < float(ratio) < slowest


def test_a_recording_of_another_program_is_refused(tmp_path, capsys):
    made = MadeNsys(tmp_path / "made.sqlite")
    for number in range(5):
        made.call("cuLaunchKernel", number * 1000 * US, (number * 1000 + 4) * US)
    arguments = [made.written(), "--base", "alex-a100", "-o", tmp_path / "mine.toml", "--recording", PATCHES]
    assert "patches.rec: no kernel with counts has a name that the files know" in refused(capsys, *arguments)


def _empty(path: Path) -> None:
    sqlite3.connect(path).close()
    path.write_bytes(b"SQLite format 3\0" + bytes(100))


def _other_tables(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE cats (name TEXT)")
    db.commit()
    db.close()


def _without_column(path: Path) -> None:
    made = MadeNsys(path)
    made.db.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME RENAME COLUMN nameId TO title")
    made.written()


def _text_for_a_time(path: Path) -> None:
    made = MadeNsys(path)
    made.call("cuLaunchKernel", 0, 1)
    made.db.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = 'noon'")
    made.written()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "cannot be read: No such file or directory"),
        (lambda path: path.mkdir(), "cannot be read: Is a directory"),
        (lambda path: path.write_bytes(b""), "has no measurements"),
        (lambda path: path.write_bytes(bytes(range(128, 256))), "is neither SQLite nor text"),
        (lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\n"), "is a pointer of git LFS"),
        (_empty, "cannot be read as SQLite"),
        (_other_tables, "is neither an export of Nsight Systems with CUDA calls"),
        (lambda path: MadeNsys(path).written(), "nothing in it says what an entry of alex-a100 costs"),
        (_without_column, "table CUPTI_ACTIVITY_KIND_RUNTIME has no column nameId"),
        (_text_for_a_time, "table CUPTI_ACTIVITY_KIND_RUNTIME, column start: 'noon' is no number"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_name(tmp_path, capsys, make, reason):
    path = tmp_path / "made"
    make(path)
    said = refused(capsys, path, "--base", "alex-a100", "-o", tmp_path / "mine.toml")
    assert f"{path}: " in said and reason in said
    assert not (tmp_path / "mine.toml").exists()


def test_a_base_of_another_vendor_or_without_the_entries_is_refused(tmp_path, trace, capsys):
    said = refused(capsys, trace, "--base", "mi300a", "-o", tmp_path / "mine.toml")
    assert f"{trace}: has calls of cuda, but the driver of mi300a is hip" in said
    alone = tmp_path / "alone.toml"
    alone.write_text('[machine]\nname = "alone"\n')
    assert "alone.toml: driver.api: no such entry" in refused(capsys, trace, "--base", alone, "-o", tmp_path / "b.toml")


def test_what_it_reads_is_not_overwritten_and_what_it_writes_can_be_written(tmp_path, trace, capsys):
    assert "would be overwritten" in refused(capsys, trace, "--base", "alex-a100", "-o", trace)
    assert "cannot be written" in refused(capsys, trace, "--base", "alex-a100", "-o", tmp_path / "no" / "mine.toml")
    assert "name at least one file" in refused(capsys, "--base", "alex-a100", "-o", tmp_path / "mine.toml")
    assert "did you mean alex-a100" in refused(capsys, trace, "--base", "alex-a10", "-o", tmp_path / "mine.toml")
