"""What `offloadrt machines A B` prints: the entries in which two machines differ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from offloadrt.cli.render import range_of, shown, table_of
from offloadrt.machine.profile.difference import EntryDifference

if TYPE_CHECKING:
    from rich.console import RenderableType

    from offloadrt.machine import MachineSpec, ProfileEntry


def compared(one: MachineSpec, other: MachineSpec, found: list[EntryDifference]) -> Iterable[RenderableType]:
    """Show the two machines, and a row for each entry that differs."""
    for spec in (one, other):
        yield f"[bold]{spec.name}[/]: {escape(spec.title)}, with the runtime {escape(spec.runtime or 'none')}"
    if not found:
        yield "no entry differs"
        return
    table = table_of(
        "", "entry", *(f"{spec.name}{column}" for spec in (one, other) for column in ("", ": kind, source"))
    )
    for difference in found:
        sides = (cell for entry in (difference.one, difference.other) for cell in _cells(entry))
        table.add_row(escape(difference.key), *map(escape, sides))
    yield table


def _cells(entry: ProfileEntry | None) -> tuple[str, str]:
    """Return the value with its range, and where it comes from."""
    if entry is None:
        return "–", ""
    between = "" if entry.choices else range_of(entry)
    return shown(entry) + (f" ({between})" if between else ""), f"{entry.source_type}, {entry.source}"


def as_json(one: MachineSpec, other: MachineSpec, found: list[EntryDifference]) -> bytes:
    """Return the differences as one JSON object; numbers are in the entry's own unit."""
    import json

    entries = [
        {"entry": pair.key, "one": _as_fact(pair.one, one), "other": _as_fact(pair.other, other)} for pair in found
    ]
    facts = {"one": one.name, "other": other.name, "runtimes": [one.runtime, other.runtime], "entries": entries}
    return json.dumps(facts, ensure_ascii=False).encode()


def _as_fact(entry: ProfileEntry | None, spec: MachineSpec) -> dict[str, Any] | None:
    if entry is None:
        return None
    factor = 1.0 if entry.unit is None else entry.unit.factor
    low, high = (None if end is None else end / factor for end in (entry.low, entry.high))
    value = entry.value if isinstance(entry.value, (bool, str)) else entry.value / factor
    return {
        "value": value,
        "low": low,
        "high": high,
        "unit": None if entry.unit is None else entry.unit.text,
        "kind": entry.source_type,
        "source": entry.source,
        "source_text": spec.sources.get(entry.source, entry.source),
        "reference": entry.reference,
    }
