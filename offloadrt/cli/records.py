"""The records that `--json` prints of scenarios, sweeps, recorded cases and machines. Schemas are made of them.

`RECORDS` in `app.py` says which class, here or in `study`, belongs to which command.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from offloadrt.study.scripts.parameters import Value

if TYPE_CHECKING:
    from offloadrt.machine import MachineSpec, ProfileEntry
    from offloadrt.machine.profile.machine_spec import EntryDifference
    from offloadrt.study.scripts.definition import Scenario
    from offloadrt.study.sweep import SweepOutcome


@attrs.frozen
class ParameterRecord:
    """A parameter of a scenario; `low` and `high` are the ends of its range, None where it is open."""

    name: str
    type: str
    choices: list[Value]
    low: float | None
    high: float | None
    optional: bool
    required: bool
    default: Value
    help: str


@attrs.frozen
class ScenarioRecord:
    """A scenario as `show` prints it; `sweep` has the axes of its own sweep."""

    name: str
    machine: str
    runtime: str | None
    path: str | None
    description: str
    parameters: list[ParameterRecord]
    sweep: dict[str, list[Value]]

    @classmethod
    def of(cls, scenario: Scenario) -> ScenarioRecord:
        """Describe a scenario."""
        parameters = [
            ParameterRecord(
                found.name, found.type.__name__, list(found.choices), found.range.low, found.range.high,
                found.optional, found.required, found.default, found.help,
            )
            for found in scenario.parameters.values()
        ]  # fmt: skip
        return cls(
            name=scenario.name,
            machine=scenario.machine,
            runtime=scenario.runtime,
            path=None if scenario.path is None else str(scenario.path),
            description=scenario.description,
            parameters=parameters,
            sweep={name: list(values) for name, values in scenario.sweep.items()},
        )


@attrs.frozen
class SweepFailure:
    """A run of a sweep that could not be made; `of_program` tells whether the program raised."""

    parameters: dict[str, Value]
    message: str
    of_program: bool


@attrs.frozen
class SweepRecord:
    """The outcome of `sweep`: numbers of runs in all, finished, and kept from an earlier sweep; the files written."""

    scenario: str
    runs: int
    finished: int
    kept: int
    written: list[str]
    failures: list[SweepFailure]

    @classmethod
    def of(cls, scenario: str, outcome: SweepOutcome, written: list[Any]) -> SweepRecord:
        """Describe the outcome of a sweep."""
        failures = [
            SweepFailure(failure.point.axis_values, failure.message, failure.of_program) for failure in outcome.failures
        ]
        runs, finished = len(outcome.points), len(outcome.finished)
        return cls(scenario, runs, finished, outcome.kept, [str(path) for path in written], failures)


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
    """A machine with a runtime, and its entries by key, as `machines NAME` prints them."""

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
    """All machines and runtimes, as `machines` prints them."""

    machines: list[MachineName]
    runtimes: list[MachineName]


@attrs.frozen
class DifferenceRecord:
    """An entry in which two machines differ. It is None for a machine that does not have it."""

    entry: str
    one: EntryRecord | None
    other: EntryRecord | None


@attrs.frozen
class MachineDifferenceRecord:
    """The entries in which two machines differ, as `machines ONE OTHER` prints them."""

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


def machines_record(specs: Sequence[MachineSpec]) -> MachinesRecord | MachineRecord | MachineDifferenceRecord:
    """Describe what two machines differ in, one machine, or, without any, all that there are."""
    from offloadrt.machine.profile.machine_spec import differences
    from offloadrt.study.running import profiles

    if not specs:
        names = ([MachineName.of(spec) for spec in found] for found in (profiles.summaries(), profiles.runtimes()))
        return MachinesRecord(*names)
    if len(specs) == 1:
        return MachineRecord.of(specs[0])
    one, other = specs
    return MachineDifferenceRecord.of(one, other, differences(one, other))
