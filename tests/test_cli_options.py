"""What the command line does with options: they stand in what it prints and writes, and none is lost silently."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from offloadrt.cli import main

TOYS = Path(__file__).parent / "study" / "toys.py"
QUEUEING = f"{TOYS}:queueing"
CHANGED = ["--set", "alloc.cudaFree=20us", "--env", "HSA_XNACK=0", "--strategy", "random(3)", "--gear", "native"]


def test_what_was_changed_stands_in_the_header(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", QUEUEING, *CHANGED]) == 0
    head = " ".join(capsys.readouterr().out.partition("measured")[0].split())
    assert "seed 0, alloc.cudaFree = 20us, HSA_XNACK = 0, gear = native, strategy = random(3)" in head


def test_machine_and_runtime_stand_in_every_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--machine", "mi300a", "--runtime", "nvhpc"]
    assert main(["run", QUEUEING, *chosen]) == 0
    assert "on mi300a with nvhpc, seed 0" in capsys.readouterr().out
    assert main(["compare", QUEUEING, "threads=1,2", "--jobs", "1", *chosen]) == 0
    assert "on mi300a with nvhpc, seed 0" in capsys.readouterr().out
    assert main(["sweep", QUEUEING, "threads=1", "--jobs", "1", "--out", str(tmp_path), *chosen]) == 0
    with (tmp_path / "results.csv").open() as file:
        assert {(row["machine"], row["runtime"]) for row in csv.DictReader(file)} == {("mi300a", "nvhpc")}


def test_a_runtime_that_is_not_there_gets_the_names_of_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["run", QUEUEING], ["machines", "mi300a"], ["validate"], ["compare", QUEUEING]):
        assert main([*command, "--runtime", "gnu"]) == 2
        assert "gnu: is neither a runtime that comes with offloadrt nor a file; there are" in capsys.readouterr().err


def test_the_list_of_machines_shows_their_runtimes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines"]) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert any(line.startswith("mi300a") and " llvm22 " in line for line in shown)
    assert any(line.startswith("nvhpc NVHPC") for line in shown)


def test_what_was_changed_stands_in_the_json(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["run", QUEUEING, "--json", *CHANGED]) == 0
    assert json.loads(capsysbinary.readouterr().out)["options"] == {
        "overrides": {"alloc.cudaFree": "20us"}, "environment": {"HSA_XNACK": "0"},
        "gear": "native", "strategy": "random(3)",
    }  # fmt: skip
    assert main(["run", QUEUEING, "--json"]) == 0
    assert "options" not in json.loads(capsysbinary.readouterr().out)


def test_what_was_changed_stands_in_the_tables_of_a_sweep(tmp_path: Path) -> None:
    sweep = ["sweep", QUEUEING, "threads=1,2", "policy=fair", "--jobs", "1"]
    assert main([*sweep, "--out", str(tmp_path), *CHANGED]) == 0
    with (tmp_path / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["options.overrides.alloc.cudaFree"] for row in rows] == ["20us", "20us"]


def test_what_was_changed_stands_above_a_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", QUEUEING, "threads=1,2", "--jobs", "1", "--set", "alloc.cudaFree=20us"]) == 0
    assert "seed 0, alloc.cudaFree = 20us" in capsys.readouterr().out


def test_a_sweep_says_which_runs_it_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", QUEUEING, "threads=1,2", "--jobs", "1", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().err.splitlines()[0] == "sweep queueing: 4 runs: threads=1,2 policy=fair,rude"


def test_a_comparison_says_which_runs_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", QUEUEING, "policy=fair", "--jobs", "1"]) == 0
    assert capsys.readouterr().err.splitlines()[0] == "compare queueing: 3 runs: threads=1,2,4"


def test_a_long_run_tells_its_virtual_time(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offloadrt.cli.terminal._NOW_AND_THEN_S", 1e-4)
    assert main(["run", "exahype", "threads=2", "patches=64"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert told and all(line.startswith("exahype: ") for line in told)
    assert any(line.endswith(" s of virtual time") for line in told)


def test_a_size_that_would_take_forever_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "exahype", "patches=1000000000000"]) == 2
    assert "parameter patches: 1000000000000 is out of range" in capsys.readouterr().err
