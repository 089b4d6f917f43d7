"""What `offloadrt machines A B` prints: the entries in which two machines differ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.markup import escape

from offloadrt.cli.render import range_of, shown, table_of
from offloadrt.machine.profile.files import differences

if TYPE_CHECKING:
    from rich.console import RenderableType

    from offloadrt.machine import MachineSpec, ProfileEntry


def compared(one: MachineSpec, other: MachineSpec) -> Iterable[RenderableType]:
    """Show the two machines, and a row for each entry that differs."""
    found = differences(one, other)
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
