"""What commands print with --json fits the schemas that `offloadrt schema` prints of them."""

from __future__ import annotations

import gzip
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from offloadrt.cli import main
from offloadrt.cli.app import add_commands, app
from offloadrt.extensions.logs.schemas import commands as with_schema
from offloadrt.extensions.logs.schemas import schema_of

jsonschema = pytest.importorskip("jsonschema")

TOYS = Path(__file__).parent / "study" / "toys.py"
QUEUEING = f"{TOYS}:queueing"
RECORDING = str(next((Path(__file__).parents[1] / "bench" / "programs").glob("*.rec")))
CASES = Path(__file__).parent / "data" / "conformance" / "copy.jsonl.gz"
LOG = "LOG"
COMMANDS = [
    ["list"],
    ["show", QUEUEING],
    ["show", RECORDING],
    ["stats", LOG],
    ["stats", RECORDING],
    ["kernels", "overlap"],
    ["kernels", RECORDING],
    ["machines"],
    ["machines", "t4"],
    ["machines", "t4", "h100"],
    ["run", QUEUEING],
    ["run", "overlap", "threads=200", "n=64", "--repeat", "2", "--hash", "--set", "alloc.cudaFree=20s"],
    ["check", "overlap", "threads=2", "n=64"],
    ["why", "overlap", "threads=2", "n=64", "--budget", "0s"],
    ["compare", QUEUEING, "threads=1,2", "--jobs", "1"],
    ["explore", QUEUEING, "threads=2", "--runs", "3", "--result", "note"],
    ["explore", "overlap", "threads=2", "n=64", "--runs", "3", "--faults", "everywhere", "--jobs", "1"],
    ["sweep", QUEUEING, "threads=1,2", "policy=fair", "--jobs", "1"],
]


def printed(tokens: list[str], folder: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> Any:
    if LOG in tokens:
        assert main(["run", "overlap", "threads=2", "n=64", "--log", str(folder / "log.jsonl")]) == 0
        capsysbinary.readouterr()
    assert main([*(str(folder / "log.jsonl") if token == LOG else token for token in tokens), "--json"]) == 0
    return json.loads(capsysbinary.readouterr().out)


@pytest.mark.parametrize("tokens", COMMANDS, ids=" ".join)
def test_what_is_printed_fits_its_schema(
    tokens: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    record = printed(tokens, tmp_path, capsysbinary)
    assert main(["schema", tokens[0]]) == 0
    schema = json.loads(capsysbinary.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(closed(schema)).validate(record)


def closed(schema: Any) -> Any:
    """The schema with all classes closed: a field that it does not name is an error then."""
    if isinstance(schema, list):
        return [closed(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    return {**inner, "additionalProperties": False} if "properties" in inner and "type" in inner else inner


def test_a_record_that_does_not_fit_is_refused() -> None:
    schema = closed(schema_of("list"))
    entry = {"name": "a", "machine": "t4", "summary": "", "group": "programs"}
    jsonschema.validate([entry], schema)
    for wrong in ([{**entry, "name": 3}], [{**entry, "more": 1}], [{"name": "a"}], entry):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_a_conformance_report_fits_its_schema(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """One case as it was recorded, and one of which a value was changed."""
    (tmp_path / "right.jsonl").write_bytes(gzip.decompress(CASES.read_bytes()).splitlines()[0])
    case = json.loads((tmp_path / "right.jsonl").read_text())
    case["mode"] = "usm"
    (tmp_path / "wrong.jsonl").write_text(json.dumps(case))
    for name, code in (("right", 0), ("wrong", 1)):
        assert main(["conform", str(tmp_path / f"{name}.jsonl"), "--json"]) == code
        record = json.loads(capsysbinary.readouterr().out)
        jsonschema.validate(record, closed(schema_of("conform")))
        assert record["cases"] == 1 and record["differing"] == code


def test_every_command_with_json_has_a_schema_and_the_reverse() -> None:
    add_commands(["--help"])
    commands = {
        name: app[name].default_command for name in app if not name.startswith("-") and app[name].default_command
    }
    with_json = {name for name, function in commands.items() if "json" in inspect.signature(function).parameters}
    assert with_json == set(with_schema())


def test_a_command_without_json_has_no_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "record"]) == 2
    assert "schema: record prints no JSON" in capsys.readouterr().err
