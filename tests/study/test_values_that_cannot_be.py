"""Figures, costs, counts and files that cannot be are refused by name, with the limit or the reason."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from offloadrt import Run
from offloadrt import openmp as omp
from offloadrt.cli import main
from offloadrt.study.errors import ScenarioRefused, UserError
from offloadrt.study.reporting.results import measured_of


class Vague:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (np.zeros(3), r"array\(.*of shape \(3,\); figures are numbers"),
        (np.zeros(100_000), r"of shape \(100000,\)"),
        ({1, 2}, "figures are numbers"),
        (b"x", "figures are numbers"),
        ({"y": [1]}, "figures are numbers"),
        (Vague(), "'x': <Vague instance at .*; figures are numbers"),
        (1j, "figures are numbers"),
        (float("nan"), "a figure is finite"),
        (10**400, "a figure is finite"),
        ("\ud800", "printable characters"),
        ("two\nlines", "printable characters"),
    ],
)
def test_a_figure_that_is_none_is_refused_by_its_name(value: object, complaint: str) -> None:
    with pytest.raises(ScenarioRefused, match=f"(?s)scenario s returned 'x': .*{complaint}|{complaint}") as refused:
        measured_of({"x": value}, "s")
    assert len(str(refused.value)) < 300


def test_numbers_of_numpy_are_figures() -> None:
    figures = {"a": np.float32(2), "b": np.array(3.5), "c": np.bool_(True), "d": np.int64(7), "e": None, "f": "text"}
    assert measured_of(figures, "s") == {"a": 2.0, "b": 3.5, "c": True, "d": 7, "e": None, "f": "text"}


@pytest.mark.parametrize(
    ("entry", "value", "why"),
    [
        ("driver.launch", "1e300us", "no step takes longer than"),
        ("driver.launch", "1e30 s", "no step takes longer than"),
        ("mem.bw", "1e-30 GB/s", "a rate is 1 kB/s to"),
        ("mem.bw", "1e30 GB/s", "a rate is 1 kB/s to"),
        ("mem.size", "1e30 GiB", "no memory has more than"),
        ("page.size", "3 KiB", "it is a power of two from 4096 B to 1 GiB"),
        ("page.uvm_page", "1 B", "it is a power of two from 4096 B to 1 GiB"),
        ("remote.sector", "33 B", "it is a power of two from 8 B to 1 GiB"),
    ],
)
def test_a_cost_that_cannot_be_is_refused_with_the_limit(entry: str, value: str, why: str) -> None:
    run = Run()
    with pytest.raises(UserError, match=f"{entry}: '{value}' cannot be: {why}"):
        run.set(entry, value)


@pytest.mark.parametrize("option", ["num_processes", "num_devices"])
def test_a_number_that_no_run_can_have_is_refused(option: str) -> None:
    run = Run()
    run.configure(**{option: 10**30})
    with pytest.raises(UserError, match=rf"{option} is 1e\+30, and a run can have [\d,]+ at most"):
        _ = run.openmp


def test_a_team_has_no_more_threads_than_a_run_can_have() -> None:
    async def body(t: omp.HostThread) -> None: ...

    run = Run()
    with pytest.raises(ValueError, match="num_threads is 1000000000, and a run can have 65,536 at most"):
        run.sim.run(run.parallel, body, 10**9)


@pytest.mark.parametrize(
    "words",
    [
        ("check",),
        ("run",),
        ("show",),
        ("kernels",),
        ("stats",),
        ("compare",),
        ("run", "overlap", "--machine"),
        ("machines",),
    ],
)
@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
def test_what_is_no_file_is_not_read(words: tuple[str, ...], kind: str, tmp_path: Path, capsys: Any) -> None:
    path = {"device": Path("/dev/zero"), "pipe": tmp_path / "pipe", "folder": tmp_path}[kind]
    if kind == "pipe":
        os.mkfifo(path)
    assert main([*words, str(path)]) == 2
    assert f"{path}: cannot be read" in capsys.readouterr().err


def test_pages_are_no_larger_than_what_is_made_of_them(capsys: Any) -> None:
    assert main(["run", "unified_memory", "--machine", "h100", "--set", "page.uvm_block=4KiB", "--draws", "0"]) == 2
    assert "page.uvm_big: is 65536 bytes, more than page.uvm_block (4096)" in capsys.readouterr().err


def test_a_real_sleep_in_a_scenario_is_told_with_what_to_write_instead(tmp_path: Path, capsys: Any) -> None:
    script = tmp_path / "sleeps.py"
    script.write_text(
        "import time\nfrom offloadrt import Run, scenario\n\n\n@scenario\nasync def sleeps(run: Run):\n"
        "    async def body(t):\n        time.sleep(0)\n\n    await run.parallel(body)\n"
    )
    assert main(["run", str(script), "--draws", "0"]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "sleeps.py:8: time.sleep stops the emulator, and no virtual time passes; write `await t.compute" in told
