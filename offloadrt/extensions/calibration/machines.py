"""What the command `machines` prints: the entries of profiles with their sources, and differences of two machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from offloadrt import machine as machines
from offloadrt.cli.render import table_of
from offloadrt.machine import MachineSpec, ProfileEntry
from offloadrt.machine.profile.scaling import is_scalable
from offloadrt.study.reporting.words import seconds, size
from offloadrt.study.running.profiles import load

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


def differences(one: MachineSpec, other: MachineSpec) -> dict[str, tuple[ProfileEntry | None, ProfileEntry | None]]:
    """Return the entries whose value or range differs, in the order of the first machine, then of the second.

    The same number from another source is no difference. A reference entry, which is there only for comparison, is left
    out if one of the machines does not have it. one, other: the two machines.
    """
    keys = [*one.entries, *(key for key in other.entries if key not in one.entries)]
    pairs = {key: (one.entries.get(key), other.entries.get(key)) for key in keys}
    return {key: pair for key, pair in pairs.items() if _differs(*pair)}


def _differs(one: ProfileEntry | None, other: ProfileEntry | None) -> bool:
    if one is None or other is None:
        only = one or other
        return only is not None and not only.reference
    return (one.value, one.low, one.high) != (other.value, other.low, other.high)


@attrs.frozen
class EntryRecord:
    """An entry of a profile for JSON; value and range are in the unit of the entry, None for texts and truth values.

    `low` and `high` are the ends of the range. `kind` says what sort of source the value has, and `scaled_from` from
    which machine it was scaled, if it was. `source` is the source's short name, `source_text` its description.
    `reference` tells whether the entry is there only for comparison.
    """

    value: float | bool | str
    low: float | None
    high: float | None
    unit: str | None
    kind: str
    scaled_from: str | None
    source: str
    source_text: str
    reference: bool

    @classmethod
    def of(cls, entry: ProfileEntry, spec: MachineSpec) -> EntryRecord:
        """Convert an entry of the machine profile `spec` to the record that `--json` prints."""
        factor = 1.0 if entry.unit is None else entry.unit.factor
        low, high = (None if end is None else end / factor for end in (entry.low, entry.high))
        value = entry.value if isinstance(entry.value, (bool, str)) else entry.value / factor
        unit = None if entry.unit is None else entry.unit.text
        text = spec.sources.get(entry.source, entry.source)
        return cls(value, low, high, unit, entry.source_type, entry.scaled_from, entry.source, text, entry.reference)


@attrs.frozen
class MachineRecord:
    """A machine with a runtime, and its profile (costs and sizes, by key), as `machines NAME` prints them.

    `title` describes the machine in a few words; `notes` are the profile's remarks; `path` is the profile's file.
    """

    name: str
    title: str
    path: str
    runtime: str
    notes: list[str]
    entries: dict[str, EntryRecord]

    @classmethod
    def of(cls, spec: MachineSpec) -> MachineRecord:
        """Convert a machine (its profile `spec`) to the record that `--json` prints."""
        entries = {key: EntryRecord.of(entry, spec) for key, entry in spec.entries.items()}
        return cls(spec.name, spec.title, spec.path, spec.runtime, list(spec.notes), entries)


@attrs.frozen
class MachineName:
    """A listed machine or runtime: its `title` in a few words, its number of entries, and its profile's `runtime`."""

    name: str
    title: str
    runtime: str
    entries: int

    @classmethod
    def of(cls, spec: MachineSpec) -> MachineName:
        """Convert a machine or a runtime (its profile `spec`) to the record that `--json` prints."""
        return cls(spec.name, spec.title, spec.runtime, len(spec.entries))


@attrs.frozen
class MachinesRecord:
    """All machines and runtimes, as `machines` prints them."""

    machines: list[MachineName]
    runtimes: list[MachineName]


@attrs.frozen
class DifferenceRecord:
    """An entry in which two machines differ. It is None for a machine that does not have it.

    `entry` is its name; `one` and `other` are the entry on the first machine and on the second.
    """

    entry: str
    one: EntryRecord | None
    other: EntryRecord | None


@attrs.frozen
class MachineDifferenceRecord:
    """The entries in which two machines differ, as `machines ONE OTHER` prints them.

    `one` and `other` are the machines' names; `runtimes` are those of the two machines, in this order.
    """

    one: str
    other: str
    runtimes: list[str]
    entries: list[DifferenceRecord]

    @classmethod
    def of(cls, one: MachineSpec, other: MachineSpec) -> MachineDifferenceRecord:
        """Convert the differences of two machines, `one` and `other`, to the record that `--json` prints."""
        entries = []
        for key, pair in differences(one, other).items():
            sides = zip(pair, (one, other), strict=True)
            of_machines = (None if entry is None else EntryRecord.of(entry, spec) for entry, spec in sides)
            entries.append(DifferenceRecord(key, *of_machines))
        return cls(one.name, other.name, [one.runtime, other.runtime], entries)


def machines_record(specs: Sequence[MachineSpec]) -> MachinesRecord | MachineRecord | MachineDifferenceRecord:
    """Return what `machines --json` prints: one machine's entries, two machines' differences, or a list of all.

    specs: one or two machines; empty for the list of all machines and runtimes.
    """
    if not specs:
        names = ([MachineName.of(spec) for spec in found] for found in (summaries(), runtimes()))
        return MachinesRecord(*names)
    if len(specs) == 1:
        return MachineRecord.of(specs[0])
    return MachineDifferenceRecord.of(*specs)


def listed(specs: Iterable[MachineSpec]) -> Table:
    """Return a table with a line for each machine in `specs`."""
    table = table_of("", "machine", "what it is", "runtime", "entries", right=(3,))
    for spec in specs:
        table.add_row(spec.name, escape(spec.title), spec.runtime, str(len(spec.entries)))
    return table


def listed_runtimes(specs: Iterable[MachineSpec]) -> Table:
    """Return a table with a line for each offloading runtime in `specs`."""
    table = table_of("\nthey go with any machine", "runtime", "what it is", "entries", right=(2,))
    for spec in specs:
        table.add_row(spec.name, escape(spec.title), str(len(spec.entries)))
    return table


def shown_machine(spec: MachineSpec) -> Iterable[RenderableType]:
    """Show the entries of a machine (`spec`): the value in its unit, the range, and the source of the value."""
    runtime = f", with the runtime {spec.runtime}" if spec.runtime else ""
    yield f"[bold]{spec.name}[/]: {escape(spec.title)} ({escape(spec.path)}){escape(runtime)}"
    for note in spec.notes:
        yield f"  {escape(note)}"
    scalable = Counter(entry.source_type for entry in spec.entries.values() if is_scalable(entry))
    kinds = ", ".join(f"{count} {kind}" for kind, count in scalable.most_common())
    yield f"  times and rates that depend on the machine, by kind: {kinds}"
    yield "an entry: its value, its range or choices, how it is known (source); below it what it means"
    names, values = (max(map(len, texts)) for texts in (spec.entries, map(shown, spec.entries.values())))
    for key, entry in spec.entries.items():
        known = f"{kind_of(entry)} ({entry.source})"
        told = "  ".join(filter(None, (f"{key:{names}} {shown(entry):>{values}}", range_of(entry), known)))
        yield escape(told)
        yield Padding(Text(entry.note, style="dim"), (0, 0, 0, 4)) if entry.note else ""
    table = table_of("\nsources", "name", "what it is")
    for name, text in spec.sources.items():
        table.add_row(escape(name), escape(text))
    yield table


def kind_of(entry: ProfileEntry) -> str:
    """Return how an entry's value is known: "measured", for example, or "scaled from NAME" (another machine)."""
    return entry.source_type if entry.scaled_from is None else f"scaled from {entry.scaled_from}"


def shown(entry: Any) -> str:
    """Return an entry's value as text: times and sizes in a readable unit, others in the unit that the profile uses."""
    unit = "" if entry.unit is None else entry.unit.text
    if unit in ("s", "ms", "us", "ns"):
        return seconds(entry.value)
    return size(entry.value) if unit == "B" else str(entry.shown)


def range_of(entry: Any) -> str:
    """Return a profile entry's range or choices as text; an empty text if it has neither."""
    if entry.choices:
        return " | ".join(entry.choices)
    if entry.low is None or entry.high is None:
        return ""
    if entry.unit is not None and entry.unit.text in ("s", "ms", "us", "ns"):
        return f"{seconds(entry.low)} to {seconds(entry.high)}"
    factor, unit = (entry.unit.factor, entry.unit.text) if entry.unit is not None else (1.0, "")
    return f"{entry.low / factor:.6g} to {entry.high / factor:.6g} {unit}"


def shown_difference(one: MachineSpec, other: MachineSpec) -> Iterable[RenderableType]:
    """Show the machines `one` and `other`, and a row for each entry that differs."""
    found = differences(one, other)
    for spec in (one, other):
        yield f"[bold]{spec.name}[/]: {escape(spec.title)}, with the runtime {escape(spec.runtime or 'none')}"
    if not found:
        yield "no entry differs"
        return
    table = table_of(
        "", "entry", *(f"{spec.name}{column}" for spec in (one, other) for column in ("", ": kind, source"))
    )
    for key, pair in found.items():
        table.add_row(escape(key), *(escape(cell) for entry in pair for cell in _entry_cells(entry)))
    yield table


def _entry_cells(entry: ProfileEntry | None) -> tuple[str, str]:
    """Return two cells of a table: the value with its range, and its kind and source."""
    if entry is None:
        return "–", ""
    between = "" if entry.choices else range_of(entry)
    return shown(entry) + (f" ({between})" if between else ""), f"{kind_of(entry)}, {entry.source}"


def summaries() -> list[MachineSpec]:
    """Load all machines that come with offloadrt or with another package, each with its default runtime."""
    return [load(name) for name in (*machines.available(), *machines.of_packages())]


def runtimes() -> list[MachineSpec]:
    """Load the profiles of all offloading runtimes that come with offloadrt, each without a machine's entries."""
    return [machines.load_runtime(name) for name in machines.available_runtimes()]
