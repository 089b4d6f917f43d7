"""What a run counted so far, as figures that can be added and subtracted: a measured window is a difference of two."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from offloadrt.study.running.statistics import RunStatistics
from offloadrt.trace import Calls

_Name = TypeVar("_Name", bound=Hashable)
Figures = Mapping[str, Mapping[str, float]]
"""The figures of each lock, engine or object, by its name."""
LOCK = ("acquired", "contended", "wait_s", "hold_s")
ENGINE = ("busy_s", "idle_s", "wait_s")
MANAGED = ("faults", "host_faults", "bytes_htod", "bytes_dtoh", "remote_bytes")


@attrs.frozen
class Ledger:
    """Counts and virtual seconds of one stretch of a run."""

    locks: Figures = attrs.field(factory=dict)
    engines: Figures = attrs.field(factory=dict)
    bytes: Mapping[str, float] = attrs.field(factory=dict)
    faults: Mapping[str, float] = attrs.field(factory=dict)
    managed: Figures = attrs.field(factory=dict)
    """Figures of managed memory by the name of the object."""
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
            locks={name: _figures(lock, LOCK) for name, lock in statistics.locks.items()},
            engines={name: _figures(engine, ENGINE) for name, engine in statistics.engines.items()},
            bytes=dict(statistics.bytes_moved),
            faults=dict(statistics.faults),
            managed={name: _figures(usage, MANAGED) for name, usage in statistics.managed_objects.items()},
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
        """Return what as much would be, `factor` times; without calls."""
        return self._with(self, lambda figure, _: figure * factor)

    def _parts(self, names: Iterable[str]) -> Figures:
        """Return the engines of these names; one that came into use later was idle in all of this stretch."""
        idle = {"busy_s": 0.0, "idle_s": self.elapsed_s, "wait_s": 0.0}
        return {name: self.engines.get(name, idle) for name in names}

    def _with(self, other: Ledger, operation: Callable[[float, float], float]) -> Ledger:
        parts = {**self.engines, **other.engines}
        return Ledger(
            locks=_each(self.locks, other.locks, operation),
            engines=_each(self._parts(parts), other._parts(parts), operation),
            bytes=_joined(self.bytes, other.bytes, operation),
            faults=_joined(self.faults, other.faults, operation),
            managed=_each(self.managed, other.managed, operation),
            algorithms=_joined(self.algorithms, other.algorithms, operation),
            barriers=_joined(self.barriers, other.barriers, operation),
            kernels=_joined(self.kernels, other.kernels, operation),
            host_time=_joined(self.host_time, other.host_time, operation),
            lived_s=operation(self.lived_s, other.lived_s),
            elapsed_s=operation(self.elapsed_s, other.elapsed_s),
        )


def _figures(statistics: Any, names: Sequence[str]) -> dict[str, float]:
    return {name: getattr(statistics, name) for name in names}


def _joined(
    a: Mapping[_Name, float], b: Mapping[_Name, float], operation: Callable[[float, float], float]
) -> dict[_Name, float]:
    return {name: operation(a.get(name, 0), b.get(name, 0)) for name in {**a, **b}}


def _each(a: Figures, b: Figures, operation: Callable[[float, float], float]) -> dict[str, dict[str, float]]:
    return {name: _joined(a.get(name, {}), b.get(name, {}), operation) for name in {**a, **b}}
