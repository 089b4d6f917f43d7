"""How the command line reads what people write: numbers, parameters written as options, what is likely a mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.cli import main
from offloadrt.study import ParameterError, execute, find_scenario
from offloadrt.study.reporting.words import figure
from offloadrt.study.scripts.parameters import read_float, read_int, unit_of

TOYS = Path(__file__).parent / "study" / "toys.py"
QUEUEING, PICKY = f"{TOYS}:queueing", f"{TOYS}:picky"
SMALL = {"threads": 2, "n": 64}


@pytest.mark.parametrize(
    ("name", "text", "number"),
    [
        ("n", "1M", 1_000_000),
        ("n", "64Ki", 65_536),
        ("n", "0.5k", 500),
        ("n", "2K", 2_000),
        ("n", "0x10", 16),
        ("n", "1e6", 1_000_000),
        ("threads", "4 threads", 4),
        ("nbytes", "64KiB", 65_536),
        ("nbytes", "1.5kB", 1_500),
    ],
)
def test_whole_numbers(name: str, text: str, number: int) -> None:
    assert read_int(name, text) == number and type(read_int(name, text)) is int


@pytest.mark.parametrize(
    ("name", "text", "number"),
    [("size_gb", "1GiB", 1.073741824), ("size_gb", "20GB", 20.0), ("wait_s", "10us", 1e-5), ("factor", "1.5", 1.5)],
)
def test_quantities_are_turned_into_the_parameter_s_unit(name: str, text: str, number: float) -> None:
    assert read_float(name, text) == number


@given(number=st.integers(0, 10**6), power=st.sampled_from(["k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"]))
def test_a_prefix_multiplies_exactly(number: int, power: str) -> None:
    base, exponent = (1024 if power.endswith("i") else 1000), 1 + "kMGT".index(power[0].replace("K", "k"))
    assert read_int("n", f"{number}{power}") == number * base**exponent


@given(st.text(max_size=8))
def test_whatever_is_written_is_a_number_or_refused(text: str) -> None:
    for read in (read_int, read_float):
        try:
            assert isinstance(read("size_gb", text), int | float)
        except (ValueError, ParameterError):
            pass


def test_the_name_of_a_parameter_tells_its_unit() -> None:
    assert [unit_of(name) for name in ("nbytes", "size_gb", "reported_s", "s", "threads")] == [
        "B",
        "GB",
        "s",
        None,
        None,
    ]


@pytest.mark.parametrize("written", [["--threads=4"], ["--threads", "4"], ["threads=4"]])
def test_a_parameter_may_be_written_as_an_option(
    written: list[str], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["run", QUEUEING, *written, "--json", "--hold-s=0.25"]) == 0
    record = json.loads(capsysbinary.readouterr().out)
    assert record["parameters"]["threads"] == 4 and record["elapsed_s"] == 1.0


def test_a_sweep_has_a_folder_without_being_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", QUEUEING, "--threads=1,2", "policy=fair", "--jobs", "1"]) == 0
    assert (tmp_path / "results" / "queueing" / "results.csv").exists()


def test_a_figure_s_name_tells_its_unit() -> None:
    shown = [figure(name, 2e9) for name in ("copy_bytes_per_s", "flop_per_s", "copy_s", "moved_bytes")]
    assert shown == ["2 GB/s", "2e+09 /s", "2e+09 s", "1.863 GiB"]


def test_the_configuration_that_is_asked_for_is_the_one_that_runs() -> None:
    overlap = find_scenario("overlap")
    by_parameter = execute(overlap, {**SMALL, "configuration": "managed"}, hash=True)
    by_option = execute(overlap, SMALL, configuration="managed", hash=True)
    assert by_option == by_parameter != execute(overlap, SMALL, hash=True)


def test_a_program_that_chooses_its_configuration_gets_the_one_that_is_asked_for() -> None:
    run = execute(find_scenario("exahype"), {"threads": 2, "patches": 4}, configuration="managed")
    assert sum(usage.faults for usage in run.managed.values()) > 0 and run.options == {"configuration": "managed"}


def test_what_is_likely_a_mistake_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "overlap", "threads=5", "n=64", "--machine", "t4", "--set", "alloc.cudaFree=20s"]) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert (
        len(warnings) == 2
        and "--set alloc.cudaFree=20s is far above what t4 has: 4.88506 us to 93.7803 us" in warnings[0]
    )
    assert "5 host threads share the 4 cores of t4" in warnings[1]


def test_what_is_likely_no_mistake_is_not_said(capsys: pytest.CaptureFixture[str]) -> None:
    ordinary = ["--set", "alloc.cudaFree=60us", "--set", "copy.latency=0us", "--set", "driver.halt=suspend"]
    assert main(["run", "overlap", "threads=4", "n=64", "--machine", "t4", *ordinary]) == 0
    assert "warning" not in capsys.readouterr().err


def test_exit_codes_tell_wrong_use_from_a_program_that_failed(tmp_path: Path) -> None:
    assert main(["run", PICKY, "left=none"]) == 2
    assert main(["run", PICKY, "bang=true"]) == 3
    assert main(["sweep", PICKY, "bang=true,false", "--jobs", "1", "--out", str(tmp_path)]) == 3
    assert main(["compare", PICKY, "bang=false,true", "--jobs", "1"]) == 3
