"""The JSON schemas of what commands print with `--json`, generated from the classes of the records."""

from __future__ import annotations

import importlib
from types import GenericAlias
from typing import Any, Final

import msgspec

from offloadrt.study.errors import UserError, did_you_mean

RECORDS: Final[dict[str, tuple[str, ...]]] = {
    "calibrate": ("cli.calibration:CalibrationRecord",),
    "check": ("study.running.checked:CheckReport",),
    "compare": ("study.reporting.compare:Comparison",),
    "conform": ("cli.records:ConformanceRecord",),
    "explore": ("cli.exploring_records:ExplorationRecord", "cli.exploring_records:EverywhereRecord"),
    "kernels": ("cli.kernels:KernelsRecord", "cli.recording_records:RecordedKernelsRecord[]"),
    "list": ("study.scripts.listing:ListedScenario[]",),
    "machines": (
        "cli.records:MachinesRecord",
        "cli.records:MachineRecord",
        "cli.records:MachineDifferenceRecord",
    ),
    "replay": ("cli.exploring_records:ReplayRecord",),
    "run": ("study.reporting.results:Result",),
    "show": ("cli.records:ScenarioRecord", "cli.recording_records:RecordingRecord"),
    "stats": ("trace.statistics:LogStatistics", "cli.recording_records:RealRuntimeRecord[]"),
    "sweep": ("cli.records:SweepRecord",),
    "why": ("study.why.explain:Page",),
    "validate": ("study.validation.validate:ValidationRecord", "study.independent.prediction:IndependentRecord"),
}
"""The classes of the records that a command may print, by module in offloadrt; `[]` is a list of such records."""


def types_of(command: str) -> list[Any]:
    """Return the types of what a command may print. Raises UserError for one that prints no JSON."""
    if command not in RECORDS:
        known = ", ".join(RECORDS)
        raise UserError(f"schema: {command} prints no JSON{did_you_mean(command, RECORDS)} (these do: {known})")
    return [_type(name) for name in RECORDS[command]]


def _type(name: str) -> Any:
    module, _, of = name.partition(":")
    record = getattr(importlib.import_module(f"offloadrt.{module}"), of.removesuffix("[]"))
    return GenericAlias(list, (record,)) if of.endswith("[]") else record


def schema_of(command: str) -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of what a command prints. Raises UserError as `types_of`."""
    types = types_of(command)
    schemas, components = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    one = schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"offloadrt {command} --json"}
    return {**head, **one, "$defs": components}
