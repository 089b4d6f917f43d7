"""Sums over the events of a trace: API calls, locks, copy engines, kernels and bytes.

`TraceStatistics` computes them from a trace alone, and thus also checks the counts that a run makes itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

from offloadrt.extensions.logs.reading import lock_family, read_json_lines
from offloadrt.sim import LockUse
from offloadrt.study.errors import UserError
from offloadrt.trace import Calls
from offloadrt.trace.events import Row
from offloadrt.trace.statistics import ProfiledCalls

_OF_LOCKS = frozenset({"LockWait", "LockAcquire", "LockRelease"})


@attrs.frozen
class EndedWait:
    """A wait of an actor (a thread, or a part of the machine) for a lock, which has ended.

    `lock` is the lock's name, and `since_ps` the time at which the wait began, in picoseconds.
    """

    lock: str
    since_ps: int
    got: bool
    """Whether the actor got the lock; if not, it gave up (it was cancelled) at some time before."""


class LockWaits:
    """Finds out from a trace's events when actors (threads or parts of the machine) wait for locks, and how that ends.

    `follow` is given the events in order.
    """

    def __init__(self) -> None:
        self._waits: dict[int, tuple[str, int]] = {}
        self._woken: set[int] = set()
        """The waiting actors that were woken by a release and try again."""
        self._holders: dict[str, int] = {}
        self._released: dict[str, int] = {}

    def tries_again(self, actor: int) -> bool:
        """Tell whether the last event of a thread or part of the machine (`actor`) continues a wait for a lock."""
        return actor in self._woken

    def since(self, actor: int) -> tuple[str, int] | None:
        """Return the lock that a thread or part of the machine (`actor`) waits for, and since when; None if for none.

        The time is in picoseconds.
        """
        return self._waits.get(actor)

    def follow(self, label: str, time_ps: int, actor: int, lock: str) -> EndedWait | None:
        """Read the next event of a trace; return the wait of its actor that ends with this event, or None.

        An actor is a thread or a part of the machine. label, time_ps, actor: the event's kind, its time in picoseconds,
        and the index of its actor. lock: the lock that the event is about; ignored for other events.

        A waiting actor gives up if its wait is cancelled; the trace has no event for that. So an actor that waited
        counts as having given up if its next event is another one than getting the lock. It also does if it gets the
        lock long after the lock became free, since somebody who waited would have got it at once. An actor that was
        woken to try again may get it later; it then has a second `LockWait`.
        """
        if label not in _OF_LOCKS and actor not in self._waits:
            return None
        waits_for_it = actor in self._waits and self._waits[actor][0] == lock
        was_released = not self._holders.get(lock) or self._released.get(lock) == time_ps
        if label == "LockWait" and waits_for_it and was_released:
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
    """The use of a lock, or of a family of locks, in a trace; times are virtual seconds.

    `longest_wait_s` is the longest time for which one thread waited for it.
    """

    longest_wait_s: float


_UNUSED = TracedLock(0, 0, 0.0, 0.0, 0.0)


@attrs.define
class EngineUse:
    """The copies of one copy engine of a device in a trace; `busy_s` sums their virtual seconds.

    `copies` is their number, `bytes` the bytes of all of them. `engine` is the engine's name.
    """

    device: int
    engine: str
    copies: int
    bytes: int
    busy_s: float


@attrs.define
class KernelUse:
    """Says how often a kernel was `launched` on a device, and the sum of its virtual seconds from start to end."""

    device: int
    kernel: str
    launched: int
    resident_s: float


@attrs.frozen
class CopiedBytes:
    """Bytes that were copied in one direction (h2d or d2h) from or to pinned or pageable host memory."""

    direction: str
    memory: str
    bytes: int


@attrs.frozen
class LogStatistics:
    """The sums over the events of a log that `offloadrt stats` prints: calls, locks, engines, kernels, bytes."""

    calls: dict[str, ProfiledCalls]
    locks: dict[str, TracedLock]
    engines: list[EngineUse]
    kernels: list[KernelUse]
    bytes: list[CopiedBytes]


class TraceStatistics:
    """Sums up the events of a trace; it is a sink of `Trace`, or is made from rows by `TraceStatistics.of(rows)`.

    locks: by name of the lock (the locks of table entries are summed). engines: by (device, engine). kernels: by
    (device, name). bytes: by (direction, memory), such as ("h2d", "pinned"). calls: how often each API function was
    called, and how long that took.
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
        """Return all sums as one record, with engines, kernels and bytes in lists."""
        moved = [CopiedBytes(*where, nbytes) for where, nbytes in self.bytes.items()]
        return LogStatistics(
            self.calls.table(), self.locks, list(self.engines.values()), list(self.kernels.values()), moved
        )

    def write(self, rows: Sequence[Row], /) -> None:
        """Add the next rows of the trace to the sums."""
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
        """Do nothing; every sink of a trace is closed, but this one has nothing to write."""

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


def statistics_of(path: Path) -> TraceStatistics:
    """Compute the statistics of the log that `offloadrt run --log` wrote. Raises UserError for another file."""

    def on_cut(number: int) -> None:
        print(f"offloadrt: {path}: is cut off in line {number}; these are the events before it", file=sys.stderr)

    statistics = TraceStatistics()
    events = 0
    try:
        for events, event in enumerate(read_json_lines(path, on_cut), start=1):  # noqa: B007
            statistics.write([(event.label, *attrs.astuple(event, recurse=False))])
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from None
    statistics.close()
    if not events:
        raise UserError(f"{path}: holds no event")
    return statistics
