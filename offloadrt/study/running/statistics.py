"""Collects what a run has counted since its start from the floors that count it.

`Ledger` has the figures of one time. They can be subtracted: a measured window is a difference of two.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from offloadrt.driver import Driver, FaultBatch
from offloadrt.machine.managed.block import ManagedUsage
from offloadrt.models.host.program import OffloadProgram
from offloadrt.runtime.device import OffloadDevice, ResultSection
from offloadrt.sim import LockUse
from offloadrt.study.errors import did_you_mean
from offloadrt.study.reporting.results import DeviceFigures, ManagedFigures
from offloadrt.study.running.building import Built
from offloadrt.trace import Calls, HostTime

K = TypeVar("K", bound=Hashable)


@attrs.frozen(eq=False)
class RunStatistics:
    """Counts and virtual seconds of the whole run so far. All are empty while there is no machine."""

    _built: Built | None

    @property
    def locks(self) -> Mapping[str, Any]:
        """Return every lock, by name: `device table`, `driver context`, and so on.

        Locks of a process other than the first have its number in their names: `device table of process 1`.
        Each has `.acquired`, `.contended`, `.wait_s` and `.hold_s`.
        """
        if self._built is None:
            return _ByName("lock", {})
        locks = _ByName("lock", {})
        for program, drivers in zip(self._built.programs, self._built.drivers, strict=True):
            locks.update(program.locks())
            for driver in drivers:
                locks.update(driver.locks())
        return locks

    @property
    def engines(self) -> Mapping[str, Any]:
        """Return every part of the machine and the driver's own threads, by name: `device 0 copy engine h2d`, ….

        Each has `.busy_s` and `.idle_s`.
        """
        if self._built is None:
            return _ByName("part", {})
        engines = _ByName("part", {})
        for node in self._built.nodes:
            engines.update(node.statistics())
        engines.update(self._built.processes[0].message_statistics())
        for drivers in self._built.drivers:
            for driver in drivers:
                engines.update(driver.engines())
        return engines

    @property
    def bytes_moved(self) -> Mapping[str, int]:
        """Return the bytes that device copies moved, by direction, over all devices."""
        return _summed(device.bytes_moved() for device in self._devices)

    @property
    def faults(self) -> Mapping[str, int]:
        """Return the page faults; empty on a machine without them.

        On an APU, pages of host memory: what kernels faulted in (`gpu`: faults that were served, `gpu_pages`: pages
        that they mapped, `gpu_duplicates`: faults for pages that somebody else had mapped meanwhile), what the host
        populated by touching it first (`cpu_pages`), what prefaults mapped (`prefault_pages`). Of managed memory:
        CUPTI's counters and the driver's own (`driver.UvmCounters`).
        """
        return _summed(driver.faults() for driver in self._kernel_drivers)

    @property
    def fault_batches(self) -> tuple[FaultBatch, ...]:
        """Return the batches in which GPU faults on managed memory were served, device by device."""
        return tuple(batch for driver in self._kernel_drivers for batch in driver.fault_batches())

    @property
    def managed_objects(self) -> Mapping[str, ManagedUsage]:
        """Return what became of managed memory, by name of the object, over all devices: its sums are `faults`."""
        objects: dict[str, ManagedUsage] = {}
        for device in self._devices:
            for name, usage in device.managed_objects.items():
                objects[name] = objects[name].plus(usage) if name in objects else usage
        return objects

    @property
    def kernels_of_drawn_uses(self) -> tuple[str, ...]:
        """Return the kernels whose places in managed memory were drawn, as their indices are data without numbers."""
        kernels = [device.managed for device in self._devices if device.managed is not None]
        return tuple(dict.fromkeys(name for managed in kernels for name in managed.drawn_uses))

    @property
    def kernels_of_unknown_uses(self) -> tuple[str, ...]:
        """Return the kernels that were taken to read and write all their managed arrays, as nothing says which."""
        kernels = [device.managed for device in self._devices if device.managed is not None]
        return tuple(dict.fromkeys(name for managed in kernels for name in managed.unknown_uses))

    @property
    def sections(self) -> Mapping[str, ResultSection]:
        """Return what the memory configuration has to say of the run (`MemoryConfiguration.sections`), by name."""
        devices = self._runtime_devices
        return devices[0].configuration.sections(devices) if devices else {}

    @property
    def algorithms(self) -> Mapping[str, int]:
        """Return what became of the algorithms of a stdpar program; empty for other models.

        Algorithms called, offloaded and on the host, waits, barriers elided, prefetches, allocations taken over,
        decisions of the offload heuristic.
        """
        return _summed(program.algorithms() for program in self._programs)

    @property
    def barriers(self) -> Mapping[Hashable, int]:
        """Return how often each decision on a barrier of a stdpar program was taken: elided, or kept for a reason."""
        return _summed(program.barriers() for program in self._programs)

    @property
    def kernels(self) -> Mapping[str, float]:
        """Return what kernels took, over all devices: `wall_s`, and at page faults `fault_service_s`, `fault_wait_s`.

        The last two are those of an APU, whose kernels stand still at the first touch of a page.
        """
        faults = [device.fault_statistics() for device in self._devices]
        return {
            "wall_s": math.fsum(device.compute.statistics().wall_s for device in self._devices),
            "fault_service_s": math.fsum(fault.service_s for fault in faults),
            "fault_wait_s": math.fsum(fault.wait_s for fault in faults),
        }

    @property
    def host_time(self) -> HostTime:
        """Return where the host threads' time went."""
        return HostTime() if self._built is None else self._built.machine.host_time

    @property
    def _programs(self) -> Sequence[OffloadProgram[Any]]:
        return () if self._built is None else self._built.programs

    @property
    def _kernel_drivers(self) -> Sequence[Driver]:
        """Return a driver of each device; those of other processes have the same kernel driver."""
        if self._built is None:
            return ()
        return [driver for node in self._built.nodes for driver in self._built.drivers[node.first_process]]

    @property
    def _runtime_devices(self) -> Sequence[OffloadDevice]:
        return [device for program in self._programs for device in program.devices]

    @property
    def _devices(self) -> Any:
        return () if self._built is None else [device for node in self._built.nodes for device in node.devices]


def _summed(parts: Iterable[Mapping[K, int]]) -> dict[K, int]:
    """Add up counts by name."""
    sums: dict[K, int] = {}
    for part in parts:
        for name, count in part.items():
            sums[name] = sums.get(name, 0) + count
    return sums


class _ByName(dict[str, Any]):
    """Statistics by name. The error for a name that does not exist says which there are."""

    def __init__(self, what: str, statistics: Mapping[str, Any]) -> None:
        super().__init__(statistics)
        self._what = what

    def __missing__(self, name: str) -> Any:
        raise KeyError(f"no {self._what} {name!r}{did_you_mean(name, self)}; there are: {', '.join(self)}")


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
