"""What commands print and write: readable at any width, whole, beside what was there, and nothing of another kind."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from offloadrt.cli import main, terminal

QUEUEING = f"{Path(__file__).parent / 'study' / 'toys.py'}:queueing"
MANY = "threads=1,2,3,4,5,6,7,8,9"


def shown(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main([*words]) == code
    return capsys.readouterr().out if code == 0 else capsys.readouterr().err


@pytest.mark.parametrize("columns", ["80", "120", "400"])
def test_a_comparison_of_eighteen_variants_is_readable_at_any_width(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "PIPED", int(columns))
    text = shown(capsys, "compare", "overlap", "threads=1,2,3,4,5,6,7,8,9", "n=64,128", "--draws", "0", "--jobs", "1")
    lines = text.splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert not [line for line in lines if line != line.rstrip()], "nothing is padded"
    calls = text.partition("\ncalls")[2].partition("\nhow the host")[0]
    launches = re.search(r"cuLaunchKernel +.*", calls)
    assert launches is not None and re.search(r"\d+(\.\d+)? [mµ]?s", launches[0]), "numbers are whole"


def test_a_machine_says_what_each_entry_means(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "PIPED", 60)
    text = " ".join(shown(capsys, "machines", "alex-a100").split())
    assert "process.time_slices.uncontended" in text, "long names are whole"
    assert "CPU and GPU have a memory each" in text


def test_a_sweep_draws_what_the_command_line_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sweep", QUEUEING, "threads=1,2", "hold_s=1,2,4", "policy=fair", "--jobs", "1", "--out", str(tmp_path)]
    chosen = ["--x", "hold_s", "--y", "elapsed_s", "--series", "threads", "--scale", "linear"]
    shown(capsys, *command, *chosen)
    picture = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert re.findall(r"<!-- (hold|elapsed)\b", picture) == ["hold", "elapsed"]
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
    for option, name in (("--x", "policy_s"), ("--series", "hold"), ("--y", "elapsed")):
        assert f"{option} {name}: " in shown(capsys, *command, option, name, code=2)


def test_the_table_of_a_sweep_has_what_was_measured_and_all_counts_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["sweep", "overlap", "threads=1,2", "n=64", "--jobs", "1", "--out", str(tmp_path)]
    heads = []
    for more in ([], ["--full"]):
        shown(capsys, *command, *more)
        with (tmp_path / "results.csv").open(encoding="utf-8") as file:
            heads.append(next(csv.reader(file)))
    assert len(heads[0]) < 25 < 100 < len(heads[1]) and set(heads[0]) < set(heads[1])


def test_two_sweeps_do_not_share_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import fcntl

    shown(capsys, "sweep", QUEUEING, "threads=1", "policy=fair", "--jobs", "1", "--out", str(tmp_path))
    other = ["sweep", "overlap", "threads=1", "n=64", "--jobs", "1", "--out", str(tmp_path)]
    assert "holds a sweep of" in shown(capsys, *other, code=2)
    with (tmp_path / "points.jsonl").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        same = ["sweep", QUEUEING, "threads=2", "policy=fair", "--jobs", "1", "--out", str(tmp_path)]
        assert "another sweep writes to it" in shown(capsys, *same, code=2)


@pytest.mark.parametrize(("option", "name"), [("--log", "a.jsonl"), ("--perfetto", "a.pftrace"), ("--figure", "a.png")])
def test_a_file_of_another_kind_stays_and_one_of_its_own_is_replaced(
    option: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text("my notes\n")
    command = ["run", "overlap", "n=64", "threads=1", "--draws", "0", option, str(path)]
    assert "is a file of another kind; name another, or delete it" in shown(capsys, *command, code=2)
    assert path.read_text() == "my notes\n"
    path.unlink()
    shown(capsys, *command)
    first = path.read_bytes()
    shown(capsys, *command)
    assert path.read_bytes() == first and [*tmp_path.iterdir()] == [path], "what is written beside is gone"


def test_a_disk_that_is_full_leaves_the_report_that_was_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "report.html"
    command = ["report", str(out), "overlap", "n=64", "threads=1", "--budget", "0s"]
    shown(capsys, *command)
    whole = out.read_bytes()

    def full(path: Path, *_: object, **__: object) -> int:
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    assert f"{out}: cannot be written: No space left on device" in shown(capsys, *command, code=2)
    assert out.read_bytes() == whole and [*tmp_path.iterdir()] == [out]
