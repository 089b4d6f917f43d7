"""What a run's time was spent on, as sums: always-on counters, and the same from recorded events.

`Calls` (API calls by name) and `HostTime` (where the time of host threads went) count in every run. `TraceStatistics`
computes the use of locks, engines and kernels from events, where only a trace is left, and as a check of the counters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from offloadrt.sim import LockUse
from offloadrt.trace.events import Row, lock_family


@attrs.frozen
class CallStatistics:
    """All calls of one driver or runtime function, under its real name; times are virtual seconds."""

    count: int
    total_s: float
    mean_s: float
    min_s: float
    max_s: float

    def joined(self, other: CallStatistics) -> CallStatistics:
        """Add the other calls to these."""
        count, total = self.count + other.count, self.total_s + other.total_s
        return CallStatistics(count, total, total / count, min(self.min_s, other.min_s), max(self.max_s, other.max_s))


@attrs.frozen
class ProfiledCalls(CallStatistics):
    """All calls of one function beside those of the others."""

    percent: float
    """Share of `total_s` in the total of all calls, in percent (0 when no call took time)."""


@attrs.define
class _Tally:
    count: int
    total_s: float
    min_s: float
    max_s: float


class Calls:
    """Counts and times of API calls by name."""

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
        """Return the counts so far as `Calls` of their own; counting goes on from zero."""
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
        """Return what was counted after `earlier`; the extremes are those of both."""
        later = Calls()
        for api, tally in self._tallies.items():
            before = earlier._tallies.get(api, _Tally(0, 0.0, 0.0, 0.0))
            if tally.count > before.count:
                count, total_s = tally.count - before.count, tally.total_s - before.total_s
                later._tallies[api] = _Tally(count, total_s, tally.min_s, tally.max_s)
        return later

    def times(self, factor: float) -> Calls:
        """Return `factor` times these figures, in whole calls."""
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
        """Return the statistics as `statistics` does, with the share of each function in the total of all."""
        everything = 0.0
        for tally in self._tallies.values():
            everything += tally.total_s
        percent = {
            api: 100.0 * tally.total_s / everything if everything else 0.0 for api, tally in self._tallies.items()
        }
        return {
            api: ProfiledCalls(**attrs.asdict(calls), percent=percent[api]) for api, calls in self.statistics().items()
        }

    def lines(self) -> list[str]:
        """Format a table in the columns of `rocprof --stats`, times in integer nanoseconds."""
        head = ("Name", "Calls", "TotalDurationNs", "AverageNs", "MinNs", "MaxNs", "Percentage")
        rows = [
            (
                api,
                str(row.count),
                *(str(round(seconds * 1e9)) for seconds in (row.total_s, row.mean_s, row.min_s, row.max_s)),
                f"{row.percent:.2f}",
            )
            for api, row in self.table().items()
        ]
        return aligned(head, rows)


def aligned(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Format a text table: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()
        for row in (head, *rows)
    ]


@attrs.frozen
class EndedWait:
    """A wait that is over."""

    lock: str
    since_ps: int
    got: bool
    """The actor has the lock; else it had given up (it was cancelled), at some time before."""


class LockWaits:
    """Follows the events of a trace in their order."""

    def __init__(self) -> None:
        self._waits: dict[int, tuple[str, int]] = {}
        self._woken: set[int] = set()
        """Those who wait and were woken by a release, to try again."""
        self._holders: dict[str, int] = {}
        self._released: dict[str, int] = {}

    def tries_again(self, actor: int) -> bool:
        """Tell whether the actor's last event was a `LockWait` that goes on with the wait before it."""
        return actor in self._woken

    def follow(self, label: str, time_ps: int, actor: int, lock: str) -> EndedWait | None:
        """Return the wait that an event of its actor shows to be over. `lock` matters for events of locks only.

        Whoever waits and then does anything but get the lock has given up; so has who gets one that was free before,
        unless it was woken to try: then a second `LockWait` came while the lock was free.
        """
        waits_for_it = actor in self._waits and self._waits[actor][0] == lock
        if label == "LockWait" and waits_for_it and not self._holders.get(lock):
            self._woken.add(actor)
            return None
        ended, woken = None, actor in self._woken
        self._woken.discard(actor)
        if (wait := self._waits.pop(actor, None)) is not None:
            was_free = not self._holders.get(wait[0]) and self._released.get(wait[0]) != time_ps
            got = label == "LockAcquire" and lock == wait[0] and (woken or not was_free)
            ended = EndedWait(*wait, got)
        if label == "LockWait":
            self._waits[actor] = lock, time_ps
        elif label == "LockAcquire":
            self._holders[lock] = self._holders.get(lock, 0) + 1
        elif label == "LockRelease":
            self._holders[lock] = max(0, self._holders.get(lock, 0) - 1)
            self._released[lock] = time_ps
        return ended


S_PER_PS = 1e-12


@attrs.frozen
class TracedLock(LockUse):
    """The use of one lock in a trace, in virtual seconds."""

    longest_wait_s: float


_UNUSED = TracedLock(0, 0, 0.0, 0.0, 0.0)


@attrs.define
class EngineUse:
    """What one copy engine did in a trace."""

    device: int
    engine: str
    copies: int
    bytes: int
    busy_s: float


@attrs.define
class KernelUse:
    """How often a kernel ran on a device, and the sum of the times from its starts to its ends."""

    device: int
    kernel: str
    launched: int
    resident_s: float


@attrs.frozen
class CopiedBytes:
    """Bytes that were copied in one direction from or to one kind of host memory."""

    direction: str
    memory: str
    bytes: int


@attrs.frozen
class LogStatistics:
    """The sums over a log, as `offloadrt stats` prints them."""

    calls: dict[str, ProfiledCalls]
    locks: dict[str, TracedLock]
    engines: list[EngineUse]
    kernels: list[KernelUse]
    bytes: list[CopiedBytes]


class TraceStatistics:
    """Sums over events; a sink of `Trace`, or made from rows with `TraceStatistics.of(rows)`.

    locks: by name of the lock (entry locks are summed).  engines: by (device, engine).  kernels: by (device, name).
    bytes: by (direction, memory), as ("h2d", "pinned").  calls: the API calls, as the driver's own `Calls`.
    """

    def __init__(self) -> None:
        self.locks: dict[str, TracedLock] = {}
        self.engines: dict[tuple[int, str], EngineUse] = {}
        self.kernels: dict[tuple[int, str], KernelUse] = {}
        self.bytes: dict[tuple[str, str], int] = {}
        self.calls = Calls()
        self._waits = LockWaits()
        self._holds: dict[tuple[str, int], int] = {}
        self._open_calls: dict[int, list[int]] = {}
        self._copies: dict[int, int] = {}
        self._kernels: dict[int, int] = {}

    @classmethod
    def of(cls, rows: Iterable[Row]) -> TraceStatistics:
        """Compute the statistics of recorded rows (`trace.rows`)."""
        statistics = cls()
        statistics.write(list(rows))
        return statistics

    def record(self) -> LogStatistics:
        """Return all sums, engines, kernels and bytes in lists."""
        moved = [CopiedBytes(*where, nbytes) for where, nbytes in self.bytes.items()]
        return LogStatistics(
            self.calls.table(), self.locks, list(self.engines.values()), list(self.kernels.values()), moved
        )

    def write(self, rows: Sequence[Row], /) -> None:
        """Count some rows."""
        for label, time_ps, actor, device, _queue, _cause, *payload in rows:
            waited = self._waits.follow(label, time_ps, actor, payload[0] if payload else "")
            match label:
                case "LockWait" | "LockAcquire" | "LockRelease":
                    self._lock(label, time_ps, actor, payload[0], waited)
                case "CallBegin":
                    self._open_calls.setdefault(actor, []).append(time_ps)
                case "CallEnd":
                    if begun := self._open_calls.get(actor):
                        self.calls.add(payload[0], (time_ps - begun.pop()) * S_PER_PS)
                case "CopyBegin":
                    self._copies[payload[0]] = time_ps
                case "CopyEnd":
                    self._copy_end(time_ps, device, *payload)
                case "KernelStart":
                    self._kernels[payload[0]] = time_ps
                case "KernelEnd":
                    kernel, name = payload
                    use = self.kernels.setdefault((device, name), KernelUse(device, name, 0, 0.0))
                    use.launched += 1
                    use.resident_s += (time_ps - self._kernels.pop(kernel, time_ps)) * S_PER_PS
                case _:
                    pass

    def close(self) -> None:
        """Do nothing: a sink is closed, but nothing is left to write."""

    def _lock(self, label: str, time_ps: int, actor: int, name: str, ended: EndedWait | None) -> None:
        family = lock_family(name)
        use = self.locks.setdefault(family, _UNUSED)
        match label:
            case "LockWait":
                pass
            case "LockAcquire":
                self._holds[name, actor] = time_ps
                contended = ended is not None and ended.got
                waited = (time_ps - ended.since_ps) * S_PER_PS if ended is not None and ended.got else 0.0
                self.locks[family] = attrs.evolve(
                    use,
                    acquired=use.acquired + 1,
                    contended=use.contended + contended,
                    wait_s=use.wait_s + waited,
                    longest_wait_s=max(use.longest_wait_s, waited),
                )
            case _:
                since = self._holds.pop((name, actor), None)
                if since is not None:
                    self.locks[family] = attrs.evolve(use, hold_s=use.hold_s + (time_ps - since) * S_PER_PS)

    def _copy_end(
        self, time_ps: int, device: int, copy: int, direction: str, engine: str, nbytes: int, memory: str
    ) -> None:
        use = self.engines.setdefault((device, engine), EngineUse(device, engine, 0, 0, 0.0))
        use.copies += 1
        use.bytes += nbytes
        use.busy_s += (time_ps - self._copies.pop(copy, time_ps)) * S_PER_PS
        self.bytes[direction, memory] = self.bytes.get((direction, memory), 0) + nbytes


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
"""The categories, in the order in which they are reported, and what belongs to each."""

OTHER = "other"
"""The name in `shares()` of the part of the threads' lives that nobody claimed."""


class HostTime:
    """Virtual seconds of all host threads (hidden helper threads included), by category.

    seconds: by category, every category of `HOST_TIME` being present.
    lived_s: the lives of all host threads together.
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

        spans: (category, begin, end) of what the stream that it waited for was doing, "copies" or "kernels", in order
        and without overlap. What of the wait falls into a span goes to the span's category, the rest to "device".
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
        """Add the life of a host thread that ends, `dt` virtual seconds."""
        self.lived_s += dt

    def shares(self) -> dict[str, float]:
        """Return each category's share of the threads' lives, "other" for what nobody claimed; 0 when no time passed.

        Every category is present. A hidden helper that was never reported with `lived` can make claims exceed lives;
        the shares are then of the claims, and "other" is 0.
        """
        claimed = self._claimed()
        whole = max(self.lived_s, claimed)
        if whole <= 0.0:
            return {**dict.fromkeys(self.seconds, 0.0), OTHER: 0.0}
        return {**{category: dt / whole for category, dt in self.seconds.items()}, OTHER: (whole - claimed) / whole}

    def lines(self) -> list[str]:
        """Format a readable table: each category in which time was spent, its seconds, its share, and what it means."""
        shares = self.shares()
        spent = {**self.seconds, OTHER: max(self.lived_s - self._claimed(), 0.0)}
        meanings = {**HOST_TIME, OTHER: "not accounted for"}
        return [
            f"{category:<12} {spent[category]:>12.6f} s {100.0 * shares[category]:>6.1f} %  {meanings[category]}"
            for category in spent
            if shares[category] >= 0.0005
        ]

    def _claimed(self) -> float:
        """Return the seconds of all categories, added one by one: `sum` rounds otherwise from Python 3.12 on."""
        claimed = 0.0
        for dt in self.seconds.values():
            claimed += dt
        return claimed
