"""`offloadrt validate --independent`: what it prints, and what it says of bad files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from offloadrt.cli import main
from offloadrt.extensions.logs.schemas import schema_of

QUEUEING = f"{Path(__file__).parent / 'study' / 'toys.py'}:queueing"
ENTRY = f"""
[[result]]
id = "four-threads"
kind = "toy"
weakness = "numbers of threads"
machine = "T4"
values = [{{ name = "all", value = 1.0, unit = "s" }}, {{ name = "blind", unit = "ms" }}]

[result.run]
scenario = "{QUEUEING}"
machine = "t4"
parameters = {{ threads = 4 }}
figures = {{ all = "elapsed_s", blind = "per_thread_s" }}

[[result]]
id = "unknown"
kind = "toy"
machine = "abacus"
not_predicted = "nothing counts beads"
values = [{{ name = "beads", value = 7, unit = "beads" }}]
"""


def test_each_value_has_reported_emulated_and_ratio(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "measured.toml"
    file.write_text(ENTRY)
    assert main(["validate", "--independent", str(file), "--jobs", "1"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    # reported, first, left out, emulated, ratio, and what is known of why it is off
    assert ["all", "s", "1", "–", "2", "2", "2", "numbers", "of", "threads"] in rows
    assert ["blind", "ms", "–", "–", "500", "500", "–"] in rows
    assert ["toy", "1", "2", "2", "–", "–", "–", "2", "2"] in rows  # one value counts, a factor of two
    assert any(row[:4] == ["unknown:", "nothing", "counts", "beads"] for row in rows)


def test_the_report_is_one_json_object(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    file = tmp_path / "measured.toml"
    file.write_text(ENTRY)
    assert main(["validate", "--independent", str(file), "--jobs", "1", "--json"]) == 0
    report = json.loads(capsysbinary.readouterr().out)
    assert [value["emulated"] for value in report["entries"][0]["values"]] == [2.0, 500.0]
    assert [value["left_out"] for value in report["entries"][0]["values"]] == [2.0, 500.0]
    assert report["accuracies"][0]["today"]["values"] == 1
    pytest.importorskip("jsonschema").validate(report, schema_of("validate"))


def test_a_bad_file_is_an_error_that_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "measured.toml"
    file.write_text(ENTRY.replace('unit = "ms"', "unit = 3"))
    assert main(["validate", "--independent", str(file)]) == 2
    assert "measured.toml: result 'four-threads': values[1].unit: Expected `str`, got `int`" in capsys.readouterr().err


def test_an_entry_without_a_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "measured.toml"
    file.write_text(ENTRY.replace('not_predicted = "nothing counts beads"', ""))
    assert main(["validate", "--independent", str(file), "--quick"]) == 0
    assert "it names no run: a table [result.run] has scenario, machine and figures" in " ".join(
        capsys.readouterr().out.split()
    )


def test_a_file_without_independent_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(tmp_path / "x.toml")]) == 2
    assert "a file of measured results is for --independent" in capsys.readouterr().err


def test_a_machine_that_is_left_out_is_predicted_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "measured.toml"
    file.write_text(ENTRY)
    assert main(["validate", str(file), "--leave-out", "t4", "--quick", "--jobs", "1"]) == 0
    printed = capsys.readouterr().out
    assert "t4 as if nobody had measured it" in printed and "scaled from titan-v" in printed
    assert "four-threads" in printed and "unknown" not in printed
    assert main(["validate", str(file), "--leave-out", "t5", "--quick"]) == 2
    assert "--leave-out t5: nothing is measured there, but on t4" in capsys.readouterr().err
