"""The points of a sweep, one run each.

A point describes its run so that another process, or the same command tomorrow, recognises it (`Point.key`).
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from offloadrt.study.errors import ParameterError
from offloadrt.study.running import profiles
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.listing import PACKAGE
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import AXES, RunSpec


@attrs.frozen
class Point:
    """One run of a sweep."""

    scenario: str
    """A reference that `registry.find` understands."""
    parameters: Mapping[str, Value]
    options: RunSpec = attrs.field(factory=RunSpec)
    varied: Mapping[str, Value] = attrs.field(factory=dict)
    """Those of its options that differ among the points, of `AXES`: results name them as they name parameters."""

    @property
    def axis_values(self) -> dict[str, Value]:
        """Return what tells this point from the others: its parameters and the options that are varied."""
        return {**self.parameters, **self.varied}

    def to_row(self) -> dict[str, Any]:
        """Return it as plain values, for the line of a file of points: of its options those that are not defaults."""
        return {
            "scenario": self.scenario,
            "parameters": dict(self.parameters),
            "options": self.options.changed(),
            "varied": dict(self.varied),
        }

    @property
    def key(self) -> str:
        """Return a hash of all that the result depends on: program, emulator, machine, runtime, every option.

        Raises ScenarioNotFound, ScriptFailed; UserError for a machine or a runtime that does not exist.
        """
        return Keys().of(self)


@attrs.define
class Keys:
    """Computes the keys of many points, and reads each program and each machine once: none may change meanwhile."""

    _known: dict[tuple[str, str | None, str | None], tuple[str | None, str]] = attrs.field(factory=dict)

    def of(self, point: Point) -> str:
        """Return a point's key. Raises what `Point.key` does."""
        options = point.options
        asked = point.scenario, options.machine, options.runtime
        digests = self._known.get(asked)
        if digests is None:
            scenario = registry.find(point.scenario)
            machine = profiles.load(options.machine or scenario.machine, runtime=options.runtime or scenario.runtime)
            file = registry.split(point.scenario)[0] or scenario.path
            digests = self._known[asked] = digest_of_file(file), machine.digest
        program, profile = digests
        policies = {name: _file_of(policy) for name, policy in options.policies.items()}
        files = {name: digest_of_file(file) for name, file in policies.items() if file is not None}
        # Not what is varied: a run is the same whatever it is compared with.
        facts = [point.scenario, point.parameters, options.changed(), digest_of_sources(), program, profile, files]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]


def grid(scenario: Scenario, axes: Mapping[str, Sequence[Any]], options: RunSpec) -> list[Point]:
    """Combine the values of `axes`, the last axis fastest, to points with all parameters bound.

    An axis may also be one of `AXES`, where the scenario has no such parameter.

    Raises ParameterError before anything runs when one of the values is not a value of its parameter, or an axis is
    what the options set for all points.
    """
    for name in AXES:
        if name in axes and (value := getattr(options, name)) is not None:
            raise ParameterError(name, f"--{name.replace('_', '-')} {value} sets it for all runs; leave out one")
    reference = registry.reference(scenario)
    points = []
    read = {name: read_axis(scenario, name, values) for name, values in axes.items()}
    for values in itertools.product(*read.values()):
        given = dict(zip(axes, values, strict=True))
        varied: dict[str, Any] = {name: str(given.pop(name)) for name in axes if is_option(scenario, name, given[name])}
        points.append(Point(reference, scenario.bind(given), attrs.evolve(options, **varied), varied))
    return points


def is_option(scenario: Scenario, name: str, value: Any) -> bool:
    """Tell whether a value of an axis is one of an option, and of no parameter of the scenario.

    A policy in a file (`FILE.py:NAME`) is never one of a parameter's choices.
    """
    return name in AXES and (name not in scenario.parameters or _file_of(value) is not None)


def _file_of(value: object) -> Path | None:
    """Return the file of a policy that is given as `FILE.py:NAME`."""
    file, colon, _ = str(value).rpartition(":")
    return Path(file) if colon and file.endswith(".py") else None


def read_axis(scenario: Scenario, name: str, values: Sequence[Any]) -> tuple[Value, ...]:
    """Read the values of an axis. Raises ParameterError for a bad value, and for one that is given twice."""
    read = tuple(read_value(scenario, name, value) for value in values)
    for number, value in enumerate(read):
        if value in read[:number]:
            raise ParameterError(name, f"{value} is given twice")
    return read


def read_value(scenario: Scenario, name: str, value: Any) -> Value:
    """Read one value of an axis. Raises ParameterError for one that its parameter does not have."""
    return str(value) if is_option(scenario, name, value) else scenario.bind_one(name, value)


def varied(points: Sequence[Point]) -> str:
    """Say in which parameters the points differ: `threads=64,128 batch=1,4,16`."""
    axes = {name: tuple(dict.fromkeys(point.axis_values[name] for point in points)) for name in points[0].axis_values}
    return " ".join(f"{name}={','.join(map(str, values))}" for name, values in axes.items() if len(values) > 1)


@functools.cache
def digest_of_sources() -> str:
    """Return a hash of the emulator's own sources and profiles."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")) + sorted(PACKAGE.rglob("*.toml")):
        digest.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def digest_of_file(path: Path | None) -> str | None:
    """Return a hash of a file, or of all files in a folder; None where there is none."""
    if path is None or not path.exists():
        return None
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()
