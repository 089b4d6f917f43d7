"""Public tables of messages between ranks lie within the ranges of the machines' profiles."""

from __future__ import annotations

import msgspec
import pytest

from offloadrt.extensions.evidence.independent.prediction import MeasuredResult, converted, plan
from offloadrt.papers.independent import results
from offloadrt.study import execute, find_scenario
from offloadrt.study.running import profiles
from offloadrt.study.spec import RunSpec

TABLES = {entry.id: entry for entry in results() if entry.run is not None and entry.run.scenario == "osu"}
MANY_RANKS = "aws-mbw-mr-48-pairs"


def corners(machine: str) -> list[dict[str, str | float]]:
    """The machine's ranges at their means, with all costs low and rates high, and the other way round."""
    spec = profiles.load(machine)
    units = {key: unit for key in spec.ranges() if (unit := spec.entries[key].unit) is not None}
    ends = (("low", "high"), ("high", "low"))
    return [{}, *({key: rate if unit.is_rate else cost for key, unit in units.items()} for cost, rate in ends)]


def outside(entry: MeasuredResult) -> list[str]:
    """The values of a table that are outside of what the profile's corners give."""
    found = []
    for value in plan(entry, "results.toml").values:
        if value.point is None:
            assert "noisy" in value.reason, value.reason
            continue
        machine, reported = str(value.point.options.machine), value.value.value
        assert reported is not None
        emulated = []
        for ends in corners(machine):
            spec = RunSpec(machine=machine, range_end=ends)
            measured = execute(find_scenario("osu"), value.point.parameters, spec=spec).measured
            emulated.append(converted(float(measured[value.figure]), value.unit, value.value.unit))
        low, high = min(emulated), max(emulated)
        if not low <= reported <= high:
            found.append(f"{value.value.name}: {reported} is not in {low:.4g} to {high:.4g} {value.value.unit}")
    return found


def test_there_is_a_table_of_each_kind() -> None:
    assert len(TABLES) == 8


@pytest.mark.parametrize("name", sorted(TABLES.keys() - {MANY_RANKS}))
def test_a_table_lies_within_the_ranges(name: str) -> None:
    """Every third size is tried here, all of them by `offloadrt validate --independent`."""
    entry = TABLES[name]
    assert outside(_with(entry, entry.values[:1] + entry.values[2::3])) == []


@pytest.mark.slow
def test_the_rate_of_48_pairs_lies_within_the_ranges() -> None:
    entry = TABLES[MANY_RANKS]
    assert outside(_with(entry, [value for value in entry.values if value.name.endswith(("_8_B", "_2048_B"))])) == []


def test_a_wrong_profile_would_be_found() -> None:
    """A table that is off by a half is outside."""
    entry = TABLES["clariden-gh200-osu-lat-host"]
    off = [msgspec.structs.replace(value, value=(value.value or 0.0) * 1.5) for value in entry.values[:1]]
    assert len(outside(_with(entry, off))) == 1


def _with(entry: MeasuredResult, values: object) -> MeasuredResult:
    """The entry with some of its values, and the figures of these."""
    kept = tuple(values)  # type: ignore[call-overload]
    names = {value.name for value in kept}
    run = entry.run
    assert run is not None
    figures = {name: figure for name, figure in run.figures.items() if name in names}
    not_predicted = {name: why for name, why in run.not_predicted.items() if name in names}
    run = msgspec.structs.replace(run, figures=figures, not_predicted=not_predicted)
    return msgspec.structs.replace(entry, values=kept, run=run)
