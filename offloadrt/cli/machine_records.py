"""What `machines --json` and `calibrate --json` print: records of entries, machines and their differences."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from offloadrt.machine import MachineSpec, ProfileEntry
from offloadrt.machine.profile.difference import EntryDifference, differences
from offloadrt.study.running import profiles


@attrs.frozen
class EntryRecord:
    """An entry of a profile; value and ends of the range are in its unit, None for texts and truth values."""

    value: float | bool | str
    low: float | None
    high: float | None
    unit: str | None
    kind: str
    source: str
    source_text: str
    reference: bool

    @classmethod
    def of(cls, entry: ProfileEntry, spec: MachineSpec) -> EntryRecord:
        """Describe an entry of `spec`."""
        factor = 1.0 if entry.unit is None else entry.unit.factor
        low, high = (None if end is None else end / factor for end in (entry.low, entry.high))
        value = entry.value if isinstance(entry.value, (bool, str)) else entry.value / factor
        unit = None if entry.unit is None else entry.unit.text
        text = spec.sources.get(entry.source, entry.source)
        return cls(value, low, high, unit, entry.source_type, entry.source, text, entry.reference)


@attrs.frozen
class MachineRecord:
    """What `machines NAME` prints: a machine with a runtime, and its entries by key."""

    name: str
    title: str
    path: str
    runtime: str
    notes: list[str]
    entries: dict[str, EntryRecord]

    @classmethod
    def of(cls, spec: MachineSpec) -> MachineRecord:
        """Describe a machine."""
        entries = {key: EntryRecord.of(entry, spec) for key, entry in spec.entries.items()}
        return cls(spec.name, spec.title, spec.path, spec.runtime, list(spec.notes), entries)


@attrs.frozen
class MachineName:
    """A machine or a runtime in a list, with the number of its entries."""

    name: str
    title: str
    runtime: str
    entries: int

    @classmethod
    def of(cls, spec: MachineSpec) -> MachineName:
        """Name a machine or a runtime."""
        return cls(spec.name, spec.title, spec.runtime, len(spec.entries))


@attrs.frozen
class MachinesRecord:
    """What `machines` prints."""

    machines: list[MachineName]
    runtimes: list[MachineName]


@attrs.frozen
class DifferenceRecord:
    """An entry in which two machines differ; None where one does not have it."""

    entry: str
    one: EntryRecord | None
    other: EntryRecord | None


@attrs.frozen
class MachineDifferenceRecord:
    """What `machines ONE OTHER` prints."""

    one: str
    other: str
    runtimes: list[str]
    entries: list[DifferenceRecord]

    @classmethod
    def of(cls, one: MachineSpec, other: MachineSpec, found: list[EntryDifference]) -> MachineDifferenceRecord:
        """Describe the differences of two machines."""
        entries = [
            DifferenceRecord(
                pair.key,
                None if pair.one is None else EntryRecord.of(pair.one, one),
                None if pair.other is None else EntryRecord.of(pair.other, other),
            )
            for pair in found
        ]
        return cls(one.name, other.name, [one.runtime, other.runtime], entries)


def describe(specs: Sequence[MachineSpec]) -> MachinesRecord | MachineRecord | MachineDifferenceRecord:
    """Describe what two machines differ in, one machine, or, without any, all that there are."""
    if not specs:
        names = ([MachineName.of(spec) for spec in found] for found in (profiles.summaries(), profiles.runtimes()))
        return MachinesRecord(*names)
    if len(specs) == 1:
        return MachineRecord.of(specs[0])
    one, other = specs
    return MachineDifferenceRecord.of(one, other, differences(one, other))
