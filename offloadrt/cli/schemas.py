"""The JSON schemas of what commands print with `--json`, generated from the classes of the records."""

from __future__ import annotations

import importlib
from types import GenericAlias
from typing import Any, Final

import msgspec

from offloadrt.registry import Registry
from offloadrt.study.errors import UserError, did_you_mean

RECORDS: Final[dict[str, tuple[str, ...]]] = {
    "compare": ("study.reporting.compare:Comparison",),
    "list": ("study.scripts.listing:ListedScenario[]",),
    "machines": (
        "cli.records:MachinesRecord",
        "cli.records:MachineRecord",
        "cli.records:MachineDifferenceRecord",
    ),
    "run": ("study.reporting.results:Result",),
    "show": ("cli.records:ScenarioRecord",),
    "stats": ("trace.statistics:LogStatistics",),
    "sweep": ("cli.records:SweepRecord",),
}
"""The classes of the records that a command may print, by module in offloadrt; `[]` is a list of such records."""
SCHEMAS: Final = Registry[Any]("schema", "offloadrt.schemas")
"""The types of what other commands print: `COMMAND`, or `COMMAND.WHAT` for what it prints besides."""


def commands() -> list[str]:
    """Return the commands that print JSON, sorted."""
    return sorted({*RECORDS, *(name.partition(".")[0] for name in SCHEMAS.points())})


def types_of(command: str) -> list[Any]:
    """Return the types of what a command may print. Raises UserError for one that prints no JSON."""
    if command not in (known := commands()):
        raise UserError(
            f"schema: {command} prints no JSON{did_you_mean(command, known)} (these do: {', '.join(known)})"
        )
    others = [name for name in SCHEMAS.names() if name.partition(".")[0] == command]
    return [*map(_type, RECORDS.get(command, ())), *map(SCHEMAS.load, others)]


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
