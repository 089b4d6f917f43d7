"""Machines by the names or files that users give."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from offloadrt import machine as machines
from offloadrt.machine import MachineSpec, ProfileEntry, ProfileError
from offloadrt.study.errors import UserError

_ENDS = ("low", "mean", "high")
"""The named positions of an entry in its range."""


def load(
    machine: str,
    overrides: Mapping[str, str] | None = None,
    range_end: str | Mapping[str, str | float] = "mean",
    runtime: str | None = None,
) -> MachineSpec:
    """Load the profiles of a machine and a runtime by name or file. A runtime of None: the machine's default runtime.

    overrides: texts such as "20us", by entry. range_end: which value an entry takes that the profile gives as a range:
    `low`, `mean` or `high` as a text for all entries; in a mapping by entry, also a quantile from 0 to 1.

    Raises UserError with file, key and reason; for a bad entry of `overrides`, with `--set` instead of the file.
    """
    for key, end in {"all ranges": range_end}.items() if isinstance(range_end, str) else range_end.items():
        if end not in _ENDS and (isinstance(end, str) or not 0.0 <= end <= 1.0):
            raise UserError(f"range_end of {key}: {end!r} is neither {', '.join(_ENDS)} nor a number from 0 to 1")
    try:
        spec = machines.load(machine, range_end=range_end, runtime=runtime)  # type: ignore[arg-type]  # checked by load
    except ProfileError as error:
        raise UserError(str(error)) from None
    return _with_overrides(spec, overrides or {}, "--set")


def machine_of(name: str, path: Path | None, machine: str, chosen: str | None) -> str:
    """Return the machine to run on: the one that the user has `chosen`, or else `machine`, which the scenario has.

    Raises UserError, with the scenario's `name` and file (`path`), if the scenario's machine cannot be loaded.
    """
    if chosen is not None:
        return chosen
    try:
        load(machine)
    except UserError as error:
        raise UserError(f"{path}: scenario {name}, machine={machine!r}: {error}") from None
    return machine


def override(spec: MachineSpec, key: str, value: str | float | bool, *, said: str = "set") -> MachineSpec:
    """Replace one more entry of the profile. Raises UserError, in which `said` names where the value comes from."""
    return _with_overrides(spec, {key: value}, said)


def _with_overrides(spec: MachineSpec, overrides: Mapping[str, str | float | bool], said: str) -> MachineSpec:
    try:
        return spec.with_overrides(overrides)
    except ProfileError as error:
        raise UserError(f"{said} {error.key}: {error.reason} ({error.path})") from None


_FAR = 10.0
"""A value is doubtful beyond this factor outside of an entry's range; a single value counts as a range of factor 10."""


def far_off(machine: str, runtime: str | None, overrides: Mapping[str, str]) -> list[str]:
    """Return warnings about overrides that are 10 times beyond a profile's range or 100 times off a single value.

    A value of 0 is not reported: it asks how a run would be without that cost. UserError for a bad profile or entry.
    """
    if not overrides:
        return []
    before, after = load(machine, runtime=runtime), load(machine, overrides, runtime=runtime)
    found = []
    for key in overrides:
        old, new = before.entries[key], after.entries[key]
        if isinstance(old.value, bool | str) or isinstance(new.value, bool | str) or not old.value or not new.value:
            continue
        low, high = (old.value / _FAR, old.value * _FAR) if old.low is None or old.high is None else (old.low, old.high)
        if not low / _FAR <= new.value <= high * _FAR:
            has = old.shown if old.low is None else f"{_shown(old, low)} to {_shown(old, high)}"
            beyond = "far above" if new.value > high else "far below"
            found.append(f"--set {key}={overrides[key]} is {beyond} what {before.name} has: {has}")
    return found


def _shown(entry: ProfileEntry, value: float) -> str:
    return attrs.evolve(entry, value=value).shown
