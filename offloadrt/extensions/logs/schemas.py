"""The command `schema`: the JSON schema of what a command prints with `--json`."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from offloadrt.registry import Registry
from offloadrt.study.errors import UserError, did_you_mean

SCHEMAS: Final = Registry[Any]("schema", "offloadrt.schemas")
"""The types that commands print as JSON, by `COMMAND`, or by `COMMAND.WHAT` for further types of a command."""


def commands() -> list[str]:
    """Return the commands that print JSON, sorted."""
    return sorted({name.partition(".")[0] for name in SCHEMAS.points()})


def types_of(command: str) -> list[Any]:
    """Return the types that a command may print as JSON. Raises UserError for a command that prints no JSON."""
    if command not in (known := commands()):
        raise UserError(
            f"schema: {command} prints no JSON{did_you_mean(command, known)} (these do: {', '.join(known)})"
        )
    return [SCHEMAS.load(name) for name in SCHEMAS.names() if name.partition(".")[0] == command]


def schema_of(command: str) -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a command's output. Raises UserError for one that prints no JSON."""
    types = types_of(command)
    schemas, components = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    one = schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"offloadrt {command} --json"}
    return {**head, **one, "$defs": components}


def schema(command: str, /) -> None:
    """Print the JSON schema of what a command prints with --json.

    Parameters
    ----------
    command:
        A command, as in `offloadrt schema run`.
    """
    print(json.dumps(schema_of(command), indent=2, ensure_ascii=False))
