"""The figures that a run has counted so far. They can be subtracted: a measured window is a difference of two."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

import attrs

from offloadrt.sim import LockUse
from offloadrt.study.reporting.results import DeviceFigures, ManagedFigures
from offloadrt.study.running.statistics import RunStatistics
from offloadrt.trace import Calls

_Name = TypeVar("_Name", bound=Hashable)
_Figure = TypeVar("_Figure")
_Operation = Callable[[Any, Any], Any]
"""Joins two numbers, or two records of figures."""
_UNUSED = LockUse(0, 0, 0.0, 0.0)
_UNTOUCHED = ManagedFigures(0, 0, 0, 0, 0)


@attrs.frozen
class Ledger:
    """Counts and virtual seconds of one stretch of a run."""

    locks: Mapping[str, LockUse] = attrs.field(factory=dict)
    engines: Mapping[str, DeviceFigures] = attrs.field(factory=dict)
    bytes: Mapping[str, float] = attrs.field(factory=dict)
    faults: Mapping[str, float] = attrs.field(factory=dict)
    managed: Mapping[str, ManagedFigures] = attrs.field(factory=dict)
    """Managed memory, by the name of the object."""
    algorithms: Mapping[str, float] = attrs.field(factory=dict)
    barriers: Mapping[Hashable, float] = attrs.field(factory=dict)
    kernels: Mapping[str, float] = attrs.field(factory=dict)
    host_time: Mapping[str, float] = attrs.field(factory=dict)
    lived_s: float = 0.0
    """The lives of host threads that ended in this stretch."""
    elapsed_s: float = 0.0
    calls: Calls = attrs.field(factory=Calls, eq=False)
    """The API calls that returned in this stretch. `Windows` fills them in, because their extremes cannot be
    subtracted.
    """

    @classmethod
    def of(cls, statistics: RunStatistics, now: float) -> Ledger:
        """Take down everything since the run's start, without its calls."""
        return cls(
            locks={name: LockUse.of(lock) for name, lock in statistics.locks.items()},
            engines={name: DeviceFigures.of(engine) for name, engine in statistics.engines.items()},
            bytes=dict(statistics.bytes_moved),
            faults=dict(statistics.faults),
            managed={name: ManagedFigures.of(usage) for name, usage in statistics.managed_objects.items()},
            algorithms=dict(statistics.algorithms),
            barriers=dict(statistics.barriers),
            kernels=dict(statistics.kernels),
            host_time=dict(statistics.host_time.seconds),
            lived_s=statistics.host_time.lived_s,
            elapsed_s=now,
        )

    def __add__(self, other: Ledger) -> Ledger:
        return self._with(other, operator.add)

    def __sub__(self, earlier: Ledger) -> Ledger:
        return self._with(earlier, operator.sub)

    def times(self, factor: float) -> Ledger:
        """Return `factor` times these figures, without calls."""
        return self._with(self, lambda figure, _: figure * factor)

    def _parts(self, names: Iterable[str]) -> Mapping[str, DeviceFigures]:
        """Return the engines of these names; an engine that came into use later was idle in all of this stretch."""
        idle = DeviceFigures(0.0, self.elapsed_s, 0.0)
        return {name: self.engines.get(name, idle) for name in names}

    def _with(self, other: Ledger, operation: _Operation) -> Ledger:
        parts = {**self.engines, **other.engines}
        return Ledger(
            locks=_joined(self.locks, other.locks, operation, _UNUSED),
            engines=_joined(self._parts(parts), other._parts(parts), operation, None),
            bytes=_joined(self.bytes, other.bytes, operation, 0),
            faults=_joined(self.faults, other.faults, operation, 0),
            managed=_joined(self.managed, other.managed, operation, _UNTOUCHED),
            algorithms=_joined(self.algorithms, other.algorithms, operation, 0),
            barriers=_joined(self.barriers, other.barriers, operation, 0),
            kernels=_joined(self.kernels, other.kernels, operation, 0),
            host_time=_joined(self.host_time, other.host_time, operation, 0),
            lived_s=operation(self.lived_s, other.lived_s),
            elapsed_s=operation(self.elapsed_s, other.elapsed_s),
        )


def _joined(
    a: Mapping[_Name, _Figure], b: Mapping[_Name, _Figure], operation: _Operation, zero: _Figure | None
) -> dict[_Name, _Figure]:
    """Join the figures of each name; `zero` stands where one of the two does not have it."""
    return {name: operation(a.get(name, zero), b.get(name, zero)) for name in {**a, **b}}
