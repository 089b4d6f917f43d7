"""Sums of what a run's time was spent on.

`Calls` (API calls by name) and `HostTime` (where the time of host threads went) count in every run.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs


@attrs.frozen
class CallStatistics:
    """Number and latencies of the calls of one function of the driver or runtime; times are virtual seconds."""

    count: int
    total_s: float
    mean_s: float
    min_s: float
    max_s: float

    def joined(self, other: CallStatistics) -> CallStatistics:
        """Return the sum of these calls and the `other` calls."""
        count, total = self.count + other.count, self.total_s + other.total_s
        return CallStatistics(count, total, total / count, min(self.min_s, other.min_s), max(self.max_s, other.max_s))


@attrs.frozen
class ProfiledCalls(CallStatistics):
    """All calls of one function, with their share in the time of all calls."""

    percent: float
    """Share of `total_s` in the total of all calls, in percent (0 when no call took time)."""


@attrs.define
class _Tally:
    count: int
    total_s: float
    min_s: float
    max_s: float


class Calls:
    """Counts calls of the API and their times, by name of the function."""

    __slots__ = ("_tallies",)

    def __init__(self) -> None:
        self._tallies: dict[str, _Tally] = {}

    def add(self, api: str, duration_s: float) -> None:
        """Count a call of `api` that took `duration_s` virtual seconds."""
        try:
            tally = self._tallies[api]
        except KeyError:
            self._tallies[api] = _Tally(1, duration_s, duration_s, duration_s)
            return
        tally.count += 1
        tally.total_s += duration_s
        if duration_s < tally.min_s:
            tally.min_s = duration_s
        elif duration_s > tally.max_s:
            tally.max_s = duration_s

    def cut(self) -> Calls:
        """Return the counts so far as a separate `Calls` object, and restart the count here from zero."""
        earlier = Calls()
        earlier._tallies, self._tallies = self._tallies, {}
        return earlier

    def include(self, other: Calls) -> None:
        """Add the counts of another `Calls`."""
        for api, tally in other._tallies.items():
            mine = self._tallies.get(api)
            if mine is None:
                self._tallies[api] = _Tally(tally.count, tally.total_s, tally.min_s, tally.max_s)
            else:
                mine.count += tally.count
                mine.total_s += tally.total_s
                mine.min_s = min(mine.min_s, tally.min_s)
                mine.max_s = max(mine.max_s, tally.max_s)

    def since(self, earlier: Calls) -> Calls:
        """Return the calls counted after `earlier`, an older copy; the minima and maxima are those of the whole run."""
        later = Calls()
        for api, tally in self._tallies.items():
            before = earlier._tallies.get(api, _Tally(0, 0.0, 0.0, 0.0))
            if tally.count > before.count:
                count, total_s = tally.count - before.count, tally.total_s - before.total_s
                later._tallies[api] = _Tally(count, total_s, tally.min_s, tally.max_s)
        return later

    def times(self, factor: float) -> Calls:
        """Return the counts and times multiplied by `factor`, with counts rounded to whole calls."""
        more = Calls()
        for api, tally in self._tallies.items():
            if count := round(tally.count * factor):
                more._tallies[api] = _Tally(count, tally.total_s * factor, tally.min_s, tally.max_s)
        return more

    def count(self, api: str) -> int:
        """Return how many calls of `api` there were."""
        tally = self._tallies.get(api)
        return 0 if tally is None else tally.count

    def statistics(self) -> dict[str, CallStatistics]:
        """Return the statistics by name: the largest total first, equal totals by name."""
        ordered = sorted(self._tallies.items(), key=lambda item: (-item[1].total_s, item[0]))
        return {
            api: CallStatistics(tally.count, tally.total_s, tally.total_s / tally.count, tally.min_s, tally.max_s)
            for api, tally in ordered
        }

    def table(self) -> dict[str, ProfiledCalls]:
        """Return the statistics by name, the largest total first, with each function's percentage of the total time."""
        everything = 0.0
        for tally in self._tallies.values():
            everything += tally.total_s
        percent = {
            api: 100.0 * tally.total_s / everything if everything else 0.0 for api, tally in self._tallies.items()
        }
        return {
            api: ProfiledCalls(**attrs.asdict(calls), percent=percent[api]) for api, calls in self.statistics().items()
        }


HOST_TIME: dict[str, str] = {
    "compute": "the program's own work on a core, waiting for a core included",
    "compile": "the compiler that generates kernels at run time (JACC), on a core",
    "runtime": "the offloading runtime's own steps: table look-up, bookkeeping, lock hand-over",
    "table lock": "waiting for the lock of the device table",
    "entry lock": "waiting for the lock of a table entry, or for another thread's pending copy of it",
    "runtime lock": "waiting for another lock of the runtime: stream pool, pooled blocks, loading of the globals",
    "manager lock": "waiting for the semaphore of a GPU memory manager of the program",
    "driver lock": "waiting for a lock of the driver",
    "driver": "in a call of the driver, while it does its work",
    "drain": "in an allocation or a free that waits until running kernels have been drained",
    "copies": "staging a copy, or waiting while a copy of its own stream is in progress",
    "kernels": "waiting while a kernel of its own stream runs",
    "device": "waiting for the device while its own work is queued behind that of others",
    "threads": "waiting for other host threads: barrier, taskwait, a lock or a queue of the program",
    "ranks": "in calls of MPI: waiting for other processes of the program, and the library's own work",
}
"""The categories in the order in which they are reported, each with a description of what belongs to it."""

OTHER = "other"
"""The name in `shares()` for the part of the threads' lives that no category has."""


class HostTime:
    """Virtual seconds of all host threads (hidden helper threads included), by category.

    seconds: the sum for each category of `HOST_TIME`.
    lived_s: the sum of the lifetimes of all host threads.
    """

    __slots__ = ("lived_s", "seconds")

    def __init__(self) -> None:
        self.seconds: dict[str, float] = dict.fromkeys(HOST_TIME, 0.0)
        self.lived_s = 0.0

    def add(self, category: str, dt: float) -> None:
        """Add `dt` virtual seconds that a host thread has just spent in `category`; ValueError for an unknown one."""
        try:
            self.seconds[category] += dt
        except KeyError:
            raise ValueError(f"no category {category!r} of host time; there are {', '.join(HOST_TIME)}") from None

    def add_wait(self, begin: float, end: float, spans: Iterable[tuple[str, float, float]]) -> None:
        """Add the wait of a host thread for the device from `begin` to `end` (virtual seconds).

        spans: (category, begin, end) of what the awaited stream was doing, "copies" or "kernels", in order and without
        overlap. The part of the wait inside a span counts for the span's category, the rest for "device".
        """
        rest = end - begin
        for category, span_begin, span_end in spans:
            inside = (span_end if span_end < end else end) - (span_begin if span_begin > begin else begin)
            if inside > 0.0:
                self.seconds[category] += inside
                rest -= inside
        if rest > 0.0:
            self.seconds["device"] += rest

    def lived(self, dt: float) -> None:
        """Add the lifetime of a host thread that has ended, `dt` virtual seconds."""
        self.lived_s += dt
