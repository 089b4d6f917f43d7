"""What a run counted so far, as figures that can be added and subtracted: a measured window is a difference of two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from offloadrt.study.running.run import Run

Figures = Mapping[str, Mapping[str, float]]
"""By name (of a lock, an engine, ...), the figures of each by their names."""
LOCK = ("acquired", "contended", "wait_s", "hold_s")
ENGINE = ("busy_s", "idle_s", "wait_s")
MANAGED = ("faults", "host_faults", "bytes_htod", "bytes_dtoh", "remote_bytes")


@attrs.frozen
class Ledger:
    """Counts and virtual seconds of one stretch of a run; calls are kept apart (`Run.calls`)."""

    locks: Figures = attrs.field(factory=dict)
    engines: Figures = attrs.field(factory=dict)
    bytes: Mapping[str, float] = attrs.field(factory=dict)
    faults: Mapping[str, float] = attrs.field(factory=dict)
    managed: Figures = attrs.field(factory=dict)
    """By name of the object."""
    algorithms: Mapping[str, float] = attrs.field(factory=dict)
    host_time: Mapping[str, float] = attrs.field(factory=dict)
    lived_s: float = 0.0
    """The lives of host threads that ended in it."""
    elapsed_s: float = 0.0

    @classmethod
    def of(cls, run: Run) -> Ledger:
        """Everything since the run's start."""
        if not run.is_built:
            return cls(elapsed_s=run.now)
        moved: dict[str, float] = {}
        for device in run.devices:
            moved = _joined(moved, device.bytes_moved(), _add)
        return cls(
            locks={name: _figures(lock, LOCK) for name, lock in run.locks.items()},
            engines={name: _figures(engine, ENGINE) for name, engine in run.engines.items()},
            bytes=moved,
            faults=dict(run.faults),
            managed={name: _figures(one, MANAGED) for name, one in run.managed_objects.items()},
            algorithms=dict(run.algorithms),
            host_time=dict(run.host_time.seconds),
            lived_s=run.host_time.lived_s,
            elapsed_s=run.now,
        )

    def __add__(self, other: Ledger) -> Ledger:
        return self._with(other, _add)

    def __sub__(self, earlier: Ledger) -> Ledger:
        return self._with(earlier, _subtract)

    def _parts(self, names: Iterable[str]) -> Figures:
        """The engines of these names; one that came into use later was idle in all of this stretch."""
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
            host_time=_joined(self.host_time, other.host_time, operation),
            lived_s=operation(self.lived_s, other.lived_s),
            elapsed_s=operation(self.elapsed_s, other.elapsed_s),
        )


def _add(a: float, b: float) -> float:
    return a + b


def _subtract(a: float, b: float) -> float:
    return a - b


def _figures(statistics: Any, names: Sequence[str]) -> dict[str, float]:
    return {name: getattr(statistics, name) for name in names}


def _joined(
    a: Mapping[str, float], b: Mapping[str, float], operation: Callable[[float, float], float]
) -> dict[str, float]:
    return {name: operation(a.get(name, 0), b.get(name, 0)) for name in {**a, **b}}


def _each(a: Figures, b: Figures, operation: Callable[[float, float], float]) -> dict[str, dict[str, float]]:
    return {name: _joined(a.get(name, {}), b.get(name, {}), operation) for name in {**a, **b}}
