"""Finds the operations of a trace that nothing disturbed, so that their time is their own cost.

A call that overlaps a call of another thread may have waited for a lock. A free that overlaps a kernel may have waited
for the kernel. A copy beside another one shared the link. A profile contains what an operation costs alone, so these
are left out.
"""

from __future__ import annotations

import bisect
import heapq
import importlib.resources
import tomllib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Final

import attrs
import numpy as np

from offloadrt.extensions.calibration.device_trace import Correlation, DeviceTrace, TracedCall, TracedCommand
from offloadrt.machine import MachineSpec

_IN_TIME: Final = 5_000
"""A kernel was submitted in time if its launch returned at least so many nanoseconds before the kernel before it ended.

This is more than the first step of a launch takes on any machine."""
_BEGUN: Final = 0.1
"""A copy counts as just begun in this first part of its time, as the clocks of host and device differ slightly."""
ENTRIES: Final[dict[str, dict[str, dict[str, Any]]]] = tomllib.loads(
    importlib.resources.files(__package__).joinpath("entries.toml").read_text(encoding="utf-8")
)
"""Which entries of a profile are measured by what, by kind of file (`entries.toml`)."""
SMALL: Final = 4096
"""A copy of at most so many bytes takes just its latency: at 10 GB/s they take 0.4 us."""
LARGE: Final = 256 * 1024
"""The time of a copy of at least so many bytes shows the link's bandwidth."""


@attrs.define(slots=False)
class Operations:
    """The calls and commands in one profiler's trace, with methods that return the times of the undisturbed ones.

    A call is undisturbed if it overlaps no call of another thread, and a copy if it overlaps no other copy. Only then
    is the measured time the operation's own cost. `trace` is the profiler's trace.
    """

    trace: DeviceTrace
    waits: Collection[str]
    """Names of the calls that wait for the device. A call that overlaps only such calls is undisturbed."""

    def most_called(self, names: Sequence[str]) -> str:
        """Return which one of several names of one API function has most calls in the trace; the first if none has."""
        return max(names, key=lambda name: len(self._by_name.get(name, ())))

    def count(self, name: str) -> int:
        """Return how many calls with a name there are, also those that overlap a call of another thread."""
        return len(self._by_name.get(name, ()))

    def alone(self, name: str, idle_device: bool = False) -> list[TracedCall]:
        """Return the calls of this name that overlap no call of another thread and, with `idle_device`, no command."""
        calls = [call for call in self._by_name.get(name, ()) if call not in self._disturbed]
        return [call for call in calls if not self._overlaps_command(call)] if idle_device else calls

    @cached_property
    def names(self) -> Counter[str]:
        """Count the calls by name."""
        return Counter({name: len(calls) for name, calls in self._by_name.items()})

    @cached_property
    def _by_name(self) -> dict[str, list[TracedCall]]:
        """Calls by name, without those inside a call of the same name: a wrapper makes two of one call."""
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
        """Calls that overlap a call of another thread of the process; waits do not count."""
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
        """Begins and ends of the times in which at least one command ran on a device, in ns."""
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
        """Pair each command with the call that submitted it, where the file says which call that was."""
        calls: dict[Correlation, TracedCall] = {}
        for call in sorted(self.trace.calls, key=lambda call: (call.start, -call.end)):
            if call.correlation is not None:
                calls.setdefault(call.correlation, call)
        pairs = ((calls.get(command.correlation), command) for command in self.trace.commands if command.correlation)
        return [(call, command) for call, command in pairs if call is not None]

    def launch_latencies(self) -> list[float]:
        """Return the seconds from the return of each launch on an idle device to the start of the kernel."""
        idle_before = dict(self._idle_since())
        return [
            (command.start - call.end) * 1e-9
            for call, command in self.submitted
            if command.kind == "kernel" and idle_before[command] <= call.start and call not in self._disturbed
        ]

    def launch_gaps(self) -> list[float]:
        """Return the seconds between neighbouring kernels of a stream, if the later one did not come late.

        These are pairs whose second kernel was submitted at least 5 us before the first one ended.
        """
        launches = {command: call for call, command in self.submitted}
        gaps = []
        for before, kernel in self._neighbours():
            call = launches.get(kernel)
            same = before.kind == kernel.kind == "kernel" and before.stream == kernel.stream
            if same and call is not None and call.end <= before.end - _IN_TIME and kernel.start >= before.end:
                gaps.append((kernel.start - before.end) * 1e-9)
        return gaps

    def wait_ends(self) -> tuple[list[float], list[float]]:
        """Return the seconds from the end of a thread's last command to the return of the wait for that command.

        The second list has the lengths, in seconds, of waits that had nothing to wait for.
        """
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
        """Return the copies between host and device that overlap no other copy."""
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
        """Return the lone copies that take as long as the copy engine alone needs.

        These are copies of pinned memory, small copies, and larger copies of pageable memory whose call had returned
        when the engine began, since all of their bytes were staged then. In other copies the engine waits for the
        staging.
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
        """Yield each command, and the time at which all commands that began before it on its device had ended."""
        for commands in self._by_device():
            ends = accumulate((command.end for command in commands), max, initial=0)
            yield from zip(commands, ends, strict=False)

    def _neighbours(self) -> Iterable[tuple[TracedCommand, TracedCommand]]:
        for commands in self._by_device():
            yield from pairwise(commands)


LEAST: Final = 3
"""The least number of values from which an entry is measured, except for what a program does once."""
_GAP: Final = 5.0
"""Calls form two groups if there is a gap: no call takes between some time and this many times that time."""
_MINORITY: Final = 0.1
"""The smaller of two groups has at least this part of the calls; fewer calls are outliers."""


@attrs.frozen
class Measurement:
    """The measured value of the entry `key` (a cost or rate) of a machine profile, from one file, in SI units."""

    key: str
    value: float
    """The median."""
    low: float
    high: float
    """The tenth (low) and the ninetieth (high) percentile."""
    count: int
    """How many operations were measured."""
    what: str
    """What was measured in words, such as `cudaLaunchKernel calls`."""


def measurement(key: str, values: Sequence[float], what: str, least: int = LEAST) -> Measurement | None:
    """Summarise measured values (in SI units) as the measurement of the profile entry `key`: median and percentiles.

    what: what was measured, in words. Returns None if the values are fewer than `least`, or if their median is 0.
    """
    return _measurement(key, values, what, len(values)) if len(values) >= least else None


def _measurement(key: str, values: Sequence[float], what: str, count: int) -> Measurement | None:
    low, median, high = np.quantile(values, [0.1, 0.5, 0.9]).tolist()
    return Measurement(key, median, low, high, count, what) if median > 0 else None


@attrs.frozen
class LinearCost:
    """A cost that is a linear function of a size (in bytes, pages or segments): estimates of both of its parts."""

    intercepts: list[float]
    """Estimates of the constant part in seconds, one from each call with a small size."""
    slopes: list[float]
    """Estimates of the seconds per unit of size, one from each pair of sizes."""
    count: int
    """How many operations the estimates are made from."""

    def fixed(self, key: str, what: str) -> Measurement | None:
        """Return the constant part of the cost (its estimates' median) as a measurement of the profile entry `key`.

        what: what was measured, in words. Returns None if the median is not above 0.
        """
        return _measurement(key, self.intercepts, what, self.count)

    def per_unit(self, key: str, what: str) -> Measurement | None:
        """Return the cost per unit of size (its estimates' median) as a measurement of the profile entry `key`.

        what: what was measured, in words. Returns None if the median is not above 0.
        """
        return _measurement(key, self.slopes, what, self.count)


def linear_cost(points: Sequence[tuple[float, float]], count: int | None = None) -> LinearCost | None:
    """Fit a line to points (size, seconds) by the median of the slopes between sizes (Theil and Sen).

    count: the number of operations behind the points, if these are medians. Returns None for fewer than three points,
    and if the sizes do not span a factor of four, so that the two parts of the cost cannot be separated.
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
    """Divide times (`values`) into two groups at their widest gap; without a wide gap, the second group is empty.

    This separates two sorts of allocations: some get memory that the driver holds, and the others call the kernel
    driver, which takes many times as long.
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
    """Tell whether a measured time is nearer to a cost in the base profile than to another time, by ratio.

    value: the measured time in seconds. key: the entry of `spec` with the cost. other: the other time in seconds.
    """
    return (
        value * value < spec.value(key) * other if spec.value(key) < other else value * value > spec.value(key) * other
    )


def latencies(copies: Sequence[TracedCommand]) -> list[float]:
    """Return how many seconds each copy took, for the copies of at most `SMALL` (4096) bytes."""
    return [copy.seconds for copy in copies if copy.nbytes <= SMALL]


def rates(copies: Sequence[TracedCommand], direction: str, otherwise: float) -> list[float]:
    """Return the bytes/s of each copy of at least `LARGE` (256 KiB) bytes in a direction, or in both if it is empty.

    The latency is subtracted from the copy's time first. It is the time of small copies in the same direction, or
    `otherwise`, in seconds, if there are none.
    """
    chosen = [copy for copy in copies if direction in ("", copy.direction)]
    small = latencies(chosen)
    latency = float(np.median(small)) if small else otherwise
    return [
        copy.nbytes / (copy.seconds - latency) for copy in chosen if copy.nbytes >= LARGE and copy.seconds > latency
    ]


def described(copies: Sequence[TracedCommand], which: str, direction: str = "") -> str:
    """Return in words which copies were measured, as in `copies of pinned memory of 256 KiB and more, h2d`.

    which: the size in words. direction: ``h2d`` or ``d2h``; empty for both.
    """
    memories = {copy.pinned for copy in copies}
    of = " of pinned memory" if memories == {True} else " of pageable memory" if memories == {False} else ""
    return f"copies{of} {which}{direction and f', {direction}'}"
