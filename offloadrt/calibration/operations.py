"""Operations of a trace that nothing disturbed, so that their time is their own.

A call that overlaps another thread's may have waited for a lock, and a free that overlaps a kernel for that kernel. A
copy beside another one shared the link. A profile holds what an operation costs alone, so these are left out.
"""

from __future__ import annotations

import bisect
import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Final

import attrs
import numpy as np

from offloadrt.calibration.device_trace import Correlation, DeviceTrace, TracedCall, TracedCommand
from offloadrt.machine import MachineSpec

_IN_TIME: Final = 5_000
"""Nanoseconds before the end of what it waits for, by which a kernel's launch has returned that was submitted in time;
more than what the first step of a launch takes on any machine."""
_BEGUN: Final = 0.1
"""Part of a copy's time up to which it counts as just begun: the clocks of host and device do not agree exactly."""
SMALL: Final = 4096
"""Bytes up to which a copy's time is its latency: at 10 GB/s they take 0.4 us."""
LARGE: Final = 256 * 1024
"""Bytes from which on a copy's time shows the link's bandwidth."""


@attrs.define(slots=False)
class Operations:
    """The operations of one trace."""

    trace: DeviceTrace
    waits: Collection[str]
    """Names of calls that wait for the device; they disturb no other call."""

    def most_called(self, names: Sequence[str]) -> str:
        """Return which of several names of an operation the trace has most calls of; the first of these if none."""
        return max(names, key=lambda name: len(self._by_name.get(name, ())))

    def count(self, name: str) -> int:
        """Return how many calls of that name there are, disturbed ones included."""
        return len(self._by_name.get(name, ()))

    def alone(self, name: str, idle_device: bool = False) -> list[TracedCall]:
        """Return the calls of that name that no other thread's call overlaps; no command either, if `idle_device`."""
        calls = [call for call in self._by_name.get(name, ()) if call not in self._disturbed]
        return [call for call in calls if not self._overlaps_command(call)] if idle_device else calls

    @cached_property
    def names(self) -> Counter[str]:
        """Count the calls by name."""
        return Counter({name: len(calls) for name, calls in self._by_name.items()})

    @cached_property
    def _by_name(self) -> dict[str, list[TracedCall]]:
        """Calls by name, without those inside another one of the same name, which a wrapper makes of one call."""
        found: dict[str, list[TracedCall]] = defaultdict(list)
        last: dict[tuple[str, int], int] = {}
        for call in sorted(self.trace.calls, key=lambda call: (call.start, -call.end)):
            place = call.name, call.thread
            if call.start >= last.get(place, 0):
                found[call.name].append(call)
                last[place] = call.end
        return found

    @cached_property
    def _disturbed(self) -> set[TracedCall]:
        """Calls that overlap one of another thread of the process, but for waits."""
        disturbed: set[TracedCall] = set()
        running: dict[int, list[tuple[int, int, TracedCall]]] = defaultdict(list)
        for number, call in enumerate(sorted(self.trace.calls, key=lambda call: (call.start, call.end))):
            if call.name in self.waits:
                continue
            others = running[call.process]
            while others and others[0][0] <= call.start:
                heapq.heappop(others)
            beside = [other for _, _, other in others if other.thread != call.thread]
            disturbed.update(beside)
            if beside:
                disturbed.add(call)
            heapq.heappush(others, (call.end, number, call))
        return disturbed

    @cached_property
    def _busy(self) -> tuple[list[int], list[int]]:
        """Begins and ends of the times in which a device did something."""
        starts: list[int] = []
        ends: list[int] = []
        for command in sorted(self.trace.commands, key=lambda command: command.start):
            if ends and command.start <= ends[-1]:
                ends[-1] = max(ends[-1], command.end)
            else:
                starts.append(command.start)
                ends.append(command.end)
        return starts, ends

    def _overlaps_command(self, call: TracedCall) -> bool:
        starts, ends = self._busy
        at = bisect.bisect_left(starts, call.end) - 1
        return at >= 0 and ends[at] > call.start

    @cached_property
    def submitted(self) -> list[tuple[TracedCall, TracedCommand]]:
        """Each command with the call that submitted it, where the file says which one did."""
        calls: dict[Correlation, TracedCall] = {}
        for call in sorted(self.trace.calls, key=lambda call: (call.start, -call.end)):
            if call.correlation is not None:
                calls.setdefault(call.correlation, call)
        pairs = ((calls.get(command.correlation), command) for command in self.trace.commands if command.correlation)
        return [(call, command) for call, command in pairs if call is not None]

    def launch_latencies(self) -> list[float]:
        """Return seconds from a launch's return to the kernel's begin on a device that was idle when it was called."""
        idle_before = dict(self._idle_since())
        return [
            (command.start - call.end) * 1e-9
            for call, command in self.submitted
            if command.kind == "kernel" and idle_before[command] <= call.start and call not in self._disturbed
        ]

    def launch_gaps(self) -> list[float]:
        """Return seconds between kernels of a stream of which the later one had been submitted in time."""
        launches = {command: call for call, command in self.submitted}
        gaps = []
        for before, kernel in self._neighbours():
            call = launches.get(kernel)
            same = before.kind == kernel.kind == "kernel" and before.stream == kernel.stream
            if same and call is not None and call.end <= before.end - _IN_TIME and kernel.start >= before.end:
                gaps.append((kernel.start - before.end) * 1e-9)
        return gaps

    def wait_ends(self) -> tuple[list[float], list[float]]:
        """Return what waits take from the end of the thread's last command on, and those with nothing to wait for."""
        ends: dict[int, list[int]] = defaultdict(list)
        for call, command in self.submitted:
            ends[call.thread].append(command.end)
        for thread in ends:
            ends[thread] = sorted(ends[thread])
        waited, idle = [], []
        for call in (call for name in self.waits for call in self._by_name.get(name, ())):
            own = ends.get(call.thread, [])
            done = bisect.bisect_right(own, call.end)
            begun = bisect.bisect_right(own, call.start)
            if done > begun:
                waited.append((call.end - own[done - 1]) * 1e-9)
            elif begun and not self._overlaps_command(call):
                idle.append(call.seconds)
        return waited, idle

    @cached_property
    def lone_copies(self) -> list[TracedCommand]:
        """Copies between host and device beside which no other copy ran."""
        copies = sorted((c for c in self.trace.commands if c.kind == "copy"), key=lambda copy: copy.start)
        ends = [0, *accumulate((copy.end for copy in copies), max)]
        starts = [*(copy.start for copy in copies[1:]), 1 << 62]
        return [
            copy
            for copy, before, after in zip(copies, ends, starts, strict=False)
            if before <= copy.start and after >= copy.end and copy.direction
        ]

    @cached_property
    def engine_copies(self) -> list[TracedCommand]:
        """Lone copies whose time is the copy engine's alone.

        Those of pinned memory are, and small ones. A larger one from pageable memory is one if its call had returned
        when the engine began, because all of its bytes were staged then. In others the engine waits for the staging.
        """
        calls = {command: call for call, command in self.submitted}

        def is_engines(copy: TracedCommand) -> bool:
            if copy.pinned or copy.pinned is None or copy.nbytes <= SMALL:
                return True
            call = calls.get(copy)
            return (
                copy.direction == "h2d"
                and call is not None
                and call.end - copy.start < _BEGUN * (copy.end - copy.start)
            )

        return [copy for copy in self.lone_copies if copy.seconds > 0 and is_engines(copy)]

    def _by_device(self) -> Iterable[list[TracedCommand]]:
        found: dict[int, list[TracedCommand]] = defaultdict(list)
        for command in sorted(self.trace.commands, key=lambda command: (command.start, command.end)):
            found[command.device].append(command)
        return found.values()

    def _idle_since(self) -> Iterable[tuple[TracedCommand, int]]:
        """Yield each command, and when the last command that began before it on its device ended."""
        for commands in self._by_device():
            ends = accumulate((command.end for command in commands), max, initial=0)
            yield from zip(commands, ends, strict=False)

    def _neighbours(self) -> Iterable[tuple[TracedCommand, TracedCommand]]:
        for commands in self._by_device():
            yield from pairwise(commands)


LEAST: Final = 3
"""Values that an entry needs, but for what happens once in a program's life."""
_GAP: Final = 5.0
"""Two groups of calls are told apart where no call takes between a time and this many times it."""
_MINORITY: Final = 0.1
"""Part of the calls that the smaller one of two groups has at least; fewer are outliers."""


@attrs.frozen
class Measurement:
    """What one file says of one entry of a profile, in SI units."""

    key: str
    value: float
    """The median."""
    low: float
    high: float
    """The tenth and the ninetieth percentile."""
    count: int
    """Operations that were measured."""
    what: str
    """What was measured, as in `cudaLaunchKernel calls`."""


def measurement(key: str, values: Sequence[float], what: str, least: int = LEAST) -> Measurement | None:
    """Return what values say of an entry; None if they are too few, or are no cost."""
    return _measurement(key, values, what, len(values)) if len(values) >= least else None


def _measurement(key: str, values: Sequence[float], what: str, count: int) -> Measurement | None:
    low, median, high = np.quantile(values, [0.1, 0.5, 0.9]).tolist()
    return Measurement(key, median, low, high, count, what) if median > 0 else None


@attrs.frozen
class LinearCost:
    """A cost that is a line over sizes."""

    intercepts: list[float]
    """What a call takes besides its size, by each call of a small one."""
    slopes: list[float]
    """What a unit of size adds, by each two sizes."""
    count: int
    """The operations from which both were made."""

    def fixed(self, key: str, what: str) -> Measurement | None:
        """Return the part that does not depend on the size; None if it is nothing."""
        return _measurement(key, self.intercepts, what, self.count)

    def per_unit(self, key: str, what: str) -> Measurement | None:
        """Return what a unit of size adds; None if it is nothing."""
        return _measurement(key, self.slopes, what, self.count)


def linear_cost(points: Sequence[tuple[float, float]], count: int | None = None) -> LinearCost | None:
    """Fit a line to (size, seconds) by Theil's and Sen's median of slopes between sizes.

    `count`: the operations behind the points, where these are medians. Return None where the sizes do not tell the two
    parts apart: they have to span a factor of four.
    """
    by_size = defaultdict(list)
    for size, seconds in points:
        by_size[size].append(seconds)
    sizes = sorted(by_size)
    if len(points) < LEAST or not sizes or sizes[-1] < 4 * sizes[0]:
        return None
    medians = {size: float(np.median(by_size[size])) for size in sizes}
    slopes = [
        (medians[large] - medians[small]) / (large - small)
        for at, small in enumerate(sizes)
        for large in sizes[at + 1 :]
        if large >= 2 * small
    ]
    slope = float(np.median(slopes))
    intercepts = [seconds - slope * size for size, seconds in points if size <= 2 * sizes[0]]
    return LinearCost(intercepts, slopes, count or len(points))


def two_groups(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Divide times at their widest gap, if they have one; otherwise the second group is empty.

    An allocation either finds memory that the driver holds or calls the kernel driver, which takes many times as long.
    """
    ordered = np.sort(np.asarray(values, float))
    fewest = max(LEAST, int(len(ordered) * _MINORITY))
    if len(ordered) < 2 * fewest or ordered[0] <= 0:
        return ordered.tolist(), []
    ratios = ordered[fewest : len(ordered) - fewest + 1] / ordered[fewest - 1 : len(ordered) - fewest]
    at = int(np.argmax(ratios)) + fewest
    if ordered[at] < _GAP * ordered[at - 1]:
        return ordered.tolist(), []
    return ordered[:at].tolist(), ordered[at:].tolist()


def nearer_to(spec: MachineSpec, value: float, key: str, other: float) -> bool:
    """Return whether a time is nearer, by ratio, to an entry of the base profile than to another time."""
    return (
        value * value < spec.value(key) * other if spec.value(key) < other else value * value > spec.value(key) * other
    )


def latencies(copies: Sequence[TracedCommand]) -> list[float]:
    """Return the seconds of small copies."""
    return [copy.seconds for copy in copies if copy.nbytes <= SMALL]


def rates(copies: Sequence[TracedCommand], direction: str, otherwise: float) -> list[float]:
    """Return the bytes/s of large copies in a direction, or in both if it is empty, besides the latency.

    The latency is that of small copies in that direction, or `otherwise` where the trace has none.
    """
    chosen = [copy for copy in copies if direction in ("", copy.direction)]
    small = latencies(chosen)
    latency = float(np.median(small)) if small else otherwise
    return [
        copy.nbytes / (copy.seconds - latency) for copy in chosen if copy.nbytes >= LARGE and copy.seconds > latency
    ]


def described(copies: Sequence[TracedCommand], which: str, direction: str = "") -> str:
    """Say what kind of copies were measured, as in `copies of pinned memory of 256 KiB and more, h2d`."""
    memories = {copy.pinned for copy in copies}
    of = " of pinned memory" if memories == {True} else " of pageable memory" if memories == {False} else ""
    return f"copies{of} {which}{direction and f', {direction}'}"
