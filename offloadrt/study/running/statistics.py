"""Collects the counts of a run from the machine, the drivers and the runtime, which count.

`Ledger` has the figures at one time. Ledgers can be subtracted: a measured window is the difference of two. `Windows`
are the measured parts of a run: time, figures and API calls, with an estimate of skipped steps.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

import attrs

from offloadrt.driver import Driver, FaultBatch
from offloadrt.machine.managed.block import ManagedUsage
from offloadrt.models.host.program import OffloadProgram
from offloadrt.registry import Registry, broken
from offloadrt.runtime.device import ResultSection
from offloadrt.sim import Actor, LockUse, Simulation
from offloadrt.sim.errors import AsyncOnly
from offloadrt.study.errors import UserError, did_you_mean, installed
from offloadrt.study.reporting.results import DeviceFigures, ManagedFigures
from offloadrt.study.running.building import Built
from offloadrt.trace import Calls, HostTime

K = TypeVar("K", bound=Hashable)


@attrs.frozen(eq=False)
class RunStatistics:
    """Gives the counts and virtual seconds of the whole run so far; all are empty before the machine is built."""

    _built: Built | None

    @property
    def locks(self) -> Mapping[str, Any]:
        """Return the statistics of every lock by name: `device table`, `driver context`, and so on.

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
        """Return the statistics of the machine's parts and the driver's threads by name: `device 0 copy engine h2d`, ….

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
        """Return the counts of page faults by name; empty on a machine without page faults.

        On an APU: `gpu` (handled faults of kernels), `gpu_pages` (pages mapped for them), `gpu_duplicates` (faults on
        pages that another fault had mapped meanwhile), `cpu_pages` (pages given to the host at its first touch) and
        `prefault_pages` (pages that prefaults mapped). With managed memory: CUPTI's counters and the driver's own
        (`driver.UvmCounters`).
        """
        return _summed(driver.faults() for driver in self._kernel_drivers)

    @property
    def fault_batches(self) -> tuple[FaultBatch, ...]:
        """Return the batches in which GPU faults on managed memory were handled, device by device."""
        return tuple(batch for driver in self._kernel_drivers for batch in driver.fault_batches())

    @property
    def managed_objects(self) -> Mapping[str, ManagedUsage]:
        """Return the use of managed memory over all devices, by object name; the sums over objects are in `faults`."""
        objects: dict[str, ManagedUsage] = {}
        for device in self._devices:
            for name, usage in device.managed_objects.items():
                objects[name] = objects[name].plus(usage) if name in objects else usage
        return objects

    @property
    def kernels_of_drawn_uses(self) -> tuple[str, ...]:
        """Return kernels that use managed memory at random places, as their index arrays have no values (phantoms)."""
        kernels = [device.managed for device in self._devices if device.managed is not None]
        return tuple(dict.fromkeys(name for managed in kernels for name in managed.drawn_uses))

    @property
    def kernels_of_unknown_uses(self) -> tuple[str, ...]:
        """Return the kernels that do not declare what they access, and so count as using all managed arrays."""
        kernels = [device.managed for device in self._devices if device.managed is not None]
        return tuple(dict.fromkeys(name for managed in kernels for name in managed.unknown_uses))

    @property
    def sections(self) -> Mapping[str, ResultSection]:
        """Return what the memory configuration, such as `otm`, adds to the result (`MemoryConfiguration.sections`)."""
        devices = [device for program in self._programs for device in program.devices]
        given = devices[0].configuration.sections(devices) if devices else {}
        if not isinstance(given, Mapping) or not all(isinstance(each, ResultSection) for each in given.values()):
            chosen = devices[0].configuration
            raise broken("memory configuration", chosen, f"sections returns {given!r:.80}, no ResultSection by name")
        return given

    @property
    def algorithms(self) -> Mapping[str, int]:
        """Return the counts of a stdpar (C++ standard parallelism) program's algorithms; empty for other models.

        They count algorithms called, offloaded, and run on the host; waits; barriers left out; prefetches; intercepted
        allocations; and decisions of the offload heuristic.
        """
        return _summed(program.algorithms() for program in self._programs)

    @property
    def barriers(self) -> Mapping[Hashable, int]:
        """Return how often the host waited after a stdpar algorithm, or not, by decision (`Kept` or `Elided`)."""
        return _summed(program.barriers() for program in self._programs)

    @property
    def kernels(self) -> Mapping[str, float]:
        """Return kernels' virtual seconds over all devices: `wall_s`, `fault_service_s` and `fault_wait_s`.

        `wall_s` sums the times from start to end. The others: an APU's handling of page faults, and the stalls at them.
        """
        faults = [device.fault_statistics() for device in self._devices]
        return {
            "wall_s": math.fsum(device.compute.statistics().wall_s for device in self._devices),
            "fault_service_s": math.fsum(fault.service_s for fault in faults),
            "fault_wait_s": math.fsum(fault.wait_s for fault in faults),
        }

    @property
    def host_time(self) -> HostTime:
        """Return the host threads' time in virtual seconds, by category."""
        return HostTime() if self._built is None else self._built.machine.host_time

    @property
    def _programs(self) -> Sequence[OffloadProgram[Any]]:
        return () if self._built is None else self._built.programs

    @property
    def _kernel_drivers(self) -> Sequence[Driver]:
        """Return one driver of each device; other processes' drivers share the same kernel driver."""
        if self._built is None:
            return ()
        return [driver for node in self._built.nodes for driver in self._built.drivers[node.first_process]]

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
    """Statistics by name. The error for an unknown name lists the known ones."""

    def __init__(self, what: str, statistics: Mapping[str, Any]) -> None:
        super().__init__(statistics)
        self._what = what

    def __missing__(self, name: str) -> Any:
        raise KeyError(f"no {self._what} {name!r}{did_you_mean(str(name), self)}; there are: {', '.join(self)}")


_Name = TypeVar("_Name", bound=Hashable)
_Figure = TypeVar("_Figure")
_Operation = Callable[[Any, Any], Any]
"""A function that combines two numbers, or two records of figures, such as `operator.sub`."""
_UNUSED = LockUse(0, 0, 0.0, 0.0)
_UNTOUCHED = ManagedFigures(0, 0, 0, 0, 0)


@attrs.frozen
class Ledger:
    """Sums of counts and virtual seconds of a part of a run (from its start, or a window), as in `RunStatistics`."""

    locks: Mapping[str, LockUse] = attrs.field(factory=dict)
    engines: Mapping[str, DeviceFigures] = attrs.field(factory=dict)
    bytes: Mapping[str, float] = attrs.field(factory=dict)
    faults: Mapping[str, float] = attrs.field(factory=dict)
    managed: Mapping[str, ManagedFigures] = attrs.field(factory=dict)
    """Page faults on managed memory, and bytes moved, by the name of the object."""
    algorithms: Mapping[str, float] = attrs.field(factory=dict)
    """Counts of a stdpar (C++ standard parallelism) program's algorithms; `barriers` has its barriers by decision."""
    barriers: Mapping[Hashable, float] = attrs.field(factory=dict)
    kernels: Mapping[str, float] = attrs.field(factory=dict)
    """Virtual seconds of kernels (`RunStatistics.kernels`)."""
    host_time: Mapping[str, float] = attrs.field(factory=dict)
    """Virtual seconds of all host threads by category."""
    lived_s: float = 0.0
    """The sum of the lifetimes, in virtual seconds, of the host threads that ended in this part of the run."""
    elapsed_s: float = 0.0
    calls: Calls = attrs.field(factory=Calls, eq=False)
    """The API calls that returned in this part. `Windows` fills them in, as minima and maxima cannot be subtracted."""

    @classmethod
    def of(cls, statistics: RunStatistics, now: float) -> Ledger:
        """Return the sums of the statistics from the run start to `now` (virtual seconds), without the API calls."""
        return cls(
            locks={name: LockUse.of(lock) for name, lock in statistics.locks.items()},
            engines={name: DeviceFigures.of(engine) for name, engine in statistics.engines.items()},
            bytes=dict(statistics.bytes_moved), faults=dict(statistics.faults),
            managed={name: ManagedFigures.of(usage) for name, usage in statistics.managed_objects.items()},
            algorithms=dict(statistics.algorithms), barriers=dict(statistics.barriers),
            kernels=dict(statistics.kernels), host_time=dict(statistics.host_time.seconds),
            lived_s=statistics.host_time.lived_s, elapsed_s=now,
        )  # fmt: skip

    def __add__(self, other: Ledger) -> Ledger:
        return self._with(other, operator.add)

    def __sub__(self, earlier: Ledger) -> Ledger:
        return self._with(earlier, operator.sub)

    def times(self, factor: float) -> Ledger:
        """Return these sums with all counts and seconds multiplied by `factor`, but without API calls."""
        return self._with(self, lambda figure, _: figure * factor)

    def _parts(self, names: Iterable[str]) -> Mapping[str, DeviceFigures]:
        """Return the figures of the engines `names`; one that did not exist yet counts as idle all the time."""
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
            lived_s=operation(self.lived_s, other.lived_s), elapsed_s=operation(self.elapsed_s, other.elapsed_s),
        )  # fmt: skip


def _joined(
    a: Mapping[_Name, _Figure], b: Mapping[_Name, _Figure], operation: _Operation, zero: _Figure | None
) -> dict[_Name, _Figure]:
    """Combine the figures of `a` and `b` name by name; `zero` stands in for a name that one of them lacks."""
    return {name: operation(a.get(name, zero), b.get(name, zero)) for name in {**a, **b}}


StepNumbers = Callable[[int], Iterable[int]]
"""Returns the numbers of those steps, of a given count, that are run: `range` all, `run.steps` perhaps fewer."""


@attrs.frozen
class PhaseEstimate:
    """Estimates the repetitions (instances) of a phase that were skipped, from those that all its threads ran."""

    begin_s: float
    end_s: float
    """The threads were all in measured instances of the phase from `begin_s` to this time, in virtual seconds."""
    threads: int
    """The number of threads that ran the phase."""
    instances: int
    """The number of instances of the phase in each thread, of which `skipped` were not run."""
    skipped: int
    seconds: float
    """Estimated virtual seconds of the skipped instances."""
    error_s: float
    """The standard error of `seconds`, in seconds."""
    settled: bool
    """Whether the threads were in a steady state when the instances were measured."""
    more: Ledger = attrs.field(repr=False)
    """Estimated counts and times of the skipped instances."""

    @property
    def weight(self) -> float:
        """Return the factor by which counts and times of the measured instances grow to include the skipped ones."""
        return 1.0 + self.seconds / (self.end_s - self.begin_s)


class StepSampler(Protocol):
    """Chooses which steps of a program's loops to run: all, or with `sample_phases` a few that stand for the others."""

    wanted: bool
    """Whether any step may be left out."""

    def steps(self, count: int, key: Hashable = None, work: Sequence[float] = ()) -> Iterator[int]:
        """Yield the numbers of those of a loop's `count` steps that are to be run.

        key: loops with the same key, in threads that wait for one another in the loop, skip the same steps; without a
        key, this holds for loops of the same count at the same position in their threads. work: seconds of the host's
        own work in each step, if known.
        """
        ...

    def estimates(self, begin_s: float, end_s: float) -> Sequence[PhaseEstimate]:
        """Return the estimates for the steps that were skipped between two virtual times (seconds), phase by phase."""
        ...


class EveryStep:
    """Runs all steps of every loop."""

    wanted = False

    def steps(self, count: int, key: Hashable = None, work: Sequence[float] = ()) -> Iterator[int]:
        return iter(range(count))

    def estimates(self, begin_s: float, end_s: float) -> Sequence[PhaseEstimate]:
        return ()


SAMPLERS: Final = Registry[Any]("way to sample phases", "offloadrt.phases")


class Windows:
    """Measures the windows of a run, the parts of virtual time in `Run.measure`, and adds up what happens in them.

    Without any window, the whole run is measured. ledger: returns the counts of the whole run so far. calls: the object
    in which the machine counts API calls. sample_phases: whether some iterations (steps) of long loops are not run;
    `phases` chooses them. All figures then include an estimate of the steps that are not run, except `spans`, which has
    (begin, end, actor that closed it) of each window.
    """

    def __init__(
        self, sim: Simulation, ledger: Callable[[], Ledger], calls: Calls, sample_phases: bool = False
    ) -> None:
        self._sim = sim
        self.phases: StepSampler = EveryStep()
        if sample_phases:
            self.phases = installed(SAMPLERS, "phases", "--sample-phases: ")(
                sim, lambda: attrs.evolve(ledger(), calls=self.calls)
            )
        self._ledger_now = ledger
        self._counting = calls
        self._outside = Calls()
        self._inside = Calls()
        self._closed = Ledger()
        self._at_start = Ledger()
        self._closed_s = 0.0
        self._open: float | None = 0.0
        self._explicit = False
        self.spans: list[tuple[float, float, Actor]] = []
        """Begin and end of each closed window in virtual seconds, and the actor that closed it."""

    def start(self) -> None:
        """Open a measured window. Raises UserError if one is open already."""
        if not self._explicit:
            self._explicit, self._open = True, None
        if self._open is not None:
            raise UserError(
                "run.measure(): a measured window is open already; in a team, open it around `run.parallel`, or let "
                "thread 0 alone open it between two barriers"
            )
        self._open = self._sim.now
        self._at_start = self._ledger_now()
        self._outside.include(self._counting.cut())

    def end(self) -> None:
        """Close the measured window. Raises UserError if none is open."""
        if not self._explicit or self._open is None:
            raise UserError("run.measure(): no measured window is open")
        self._close(self._open)

    def finish(self) -> None:
        """End the program's measurement; if no window was ever opened, everything up to now is measured."""
        if self._open is not None and not self._explicit:
            self._close(self._open)

    def _close(self, opened: float) -> None:
        self._closed_s += self._since(opened)
        self.spans.append((opened, self._sim.now, self._sim.current))
        self._open = None
        self._closed += self._counted_since(opened)
        self._inside.include(self._counting.cut())
        for phase in self.phases.estimates(opened, self._sim.now):
            self._inside.include(phase.more.calls)

    def _since(self, opened: float) -> float:
        skipped = math.fsum(phase.seconds for phase in self.phases.estimates(opened, self._sim.now))
        return self._sim.now - opened + skipped

    def _counted_since(self, opened: float) -> Ledger:
        counted = self._ledger_now() - self._at_start
        for phase in self.phases.estimates(opened, self._sim.now):
            counted += phase.more
        return counted

    @property
    def elapsed(self) -> float:
        """Return the virtual seconds in the measured windows so far."""
        running = 0.0 if self._open is None else self._since(self._open)
        return self._closed_s + running

    @property
    def measured(self) -> Ledger:
        """Return the counts of the measured windows so far."""
        figures = self._closed if self._open is None else self._closed + self._counted_since(self._open)
        calls = _all_of(self._inside)
        if self._open is not None:
            left_out = self.phases.estimates(self._open, self._sim.now)
            calls = _all_of(calls, self._counting, *(phase.more.calls for phase in left_out))
        return attrs.evolve(figures, calls=calls)

    @property
    def counted(self) -> Ledger:
        """Return the counts of the whole run so far, in windows or not, with the estimates for all skipped steps."""
        phases = self.phases.estimates(0.0, self._sim.now)
        return reduce(Ledger.__add__, (phase.more for phase in phases), self._ledger_now())

    @property
    def skipped(self) -> list[PhaseEstimate]:
        """Return, phase by phase, the estimates for the loop steps not run in measured windows that have ended."""
        return [phase for begin, end, _ in self.spans for phase in self.phases.estimates(begin, end)]

    @property
    def calls_outside(self) -> Calls:
        """Return the counts and times of API calls outside all windows so far; empty if there was no window."""
        if not self._explicit:
            return Calls()
        return _all_of(self._outside, self._counting) if self._open is None else _all_of(self._outside)

    @property
    def calls(self) -> Calls:
        """Return the counts and times of all API calls of the run so far, inside and outside the measured windows."""
        return _all_of(self._outside, self._inside, self._counting)


def _all_of(*parts: Calls) -> Calls:
    calls = Calls()
    for part in parts:
        calls.include(part)
    return calls


class MeasuredPart(AsyncOnly):
    """A measured window: the block of `async with run.measure():`."""

    directive = "run.measure()"

    def __init__(self, windows: Windows) -> None:
        self._windows = windows

    async def __aenter__(self) -> None:
        self._windows.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._windows.end()
