"""How long each lock was held in the measured time, by which calls, and how many waited for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from offloadrt.study.reporting.results import DeviceFigures
from offloadrt.study.why.history import Doing, History, plain
from offloadrt.trace.events import lock_family

Window = tuple[int, int]
"""Begin and end of a measured window, in picoseconds."""

MOST_HOLDERS = 3


@attrs.frozen
class Holder:
    """What held a lock, or a part of the machine, and for which share of all its holds."""

    call: str
    array: str
    directive: str
    place: str
    share: float


@attrs.frozen
class ResourceUse:
    """One resource in the measured time."""

    name: str
    utilisation: float
    """The share of the time in which it was held or busy; of many of one kind, as of entry locks, of the busiest."""
    mean_queue: float
    p95_queue: float | None
    """The number of waiters that is exceeded in 5 % of the time; None where only the mean is known."""
    holders: tuple[Holder, ...] = ()


def lock_uses(history: History, windows: Sequence[Window]) -> list[ResourceUse]:
    """Return how the locks were used, those held the longest first."""
    elapsed_ps = sum(end - begin for begin, end in windows)
    holds = _holds(history)
    queues: dict[str, list[Window]] = {}
    for lock, since, until in history.waits:
        queues.setdefault(lock_family(lock), []).extend(_inside((since, until), windows))
    uses = []
    for family, by_lock in holds.items():
        inside = {
            lock: [(piece, doing) for span, doing in spans for piece in _inside(span, windows)]
            for lock, spans in by_lock.items()
        }
        busiest = max((_covered([piece for piece, _ in pieces]) for pieces in inside.values()), default=0)
        if busiest and elapsed_ps:
            mean, p95 = _queue(queues.get(family, []), elapsed_ps)
            pieces = [piece for spans in inside.values() for piece in spans]
            uses.append(ResourceUse(family, busiest / elapsed_ps, mean, p95, _holders(history, pieces)))
    return sorted(uses, key=lambda use: (-use.utilisation, use.name))


def part_uses(devices: Mapping[str, DeviceFigures], elapsed_s: float) -> list[ResourceUse]:
    """Return how the parts of the machine were used, the busiest first."""
    uses = [
        ResourceUse(name, part.busy_s / whole, part.wait_s / elapsed_s if elapsed_s else 0.0, None)
        for name, part in devices.items()
        if (whole := part.busy_s + part.idle_s) > 0.0 and (part.busy_s or part.wait_s)
    ]
    return sorted(uses, key=lambda use: (-use.utilisation, use.name))


def _holds(history: History) -> dict[str, dict[str, list[tuple[Window, Doing]]]]:
    """Return the holds of every lock by family and name, with what the holder did when it took it."""
    holds: dict[str, dict[str, list[tuple[Window, Doing]]]] = {}
    for steps in history.steps.values():
        held: dict[str, tuple[int, Doing]] = {}
        before: tuple[str, ...] = ()
        for time_ps, doing in zip(steps.times, steps.doing, strict=True):
            if doing.locks == before:
                continue
            for lock in doing.locks:
                if lock not in before:
                    held[lock] = time_ps, doing
            for lock in before:
                if lock not in doing.locks and lock in held:
                    since, taken = held.pop(lock)
                    holds.setdefault(lock_family(lock), {}).setdefault(lock, []).append(((since, time_ps), taken))
            before = doing.locks
    return holds


def _inside(span: Window, windows: Sequence[Window]) -> list[Window]:
    pieces = [(max(span[0], begin), min(span[1], end)) for begin, end in windows]
    return [piece for piece in pieces if piece[0] < piece[1]]


def _covered(spans: list[Window]) -> int:
    """Return the time that lies in at least one of the spans."""
    covered = reached = 0
    for begin, end in sorted(spans):
        if end > reached:
            covered += end - max(begin, reached)
            reached = end
    return covered


def _queue(waits: Sequence[Window], elapsed_ps: int) -> tuple[float, float]:
    """Return the mean number of waiters and the number that is exceeded in 5 % of the time."""
    changes = sorted([(begin, 1) for begin, _ in waits] + [(end, -1) for _, end in waits])
    at: dict[int, int] = {}
    level = last = 0
    for time_ps, change in changes:
        at[level] = at.get(level, 0) + time_ps - last
        level, last = level + change, time_ps
    total = sum(number * ps for number, ps in at.items())
    left = elapsed_ps // 20
    for number in sorted(at, reverse=True):
        left -= at[number]
        if number and left < 0:
            return total / elapsed_ps, float(number)
    return total / elapsed_ps, 0.0


def _holders(history: History, pieces: Sequence[tuple[Window, Doing]]) -> tuple[Holder, ...]:
    sums: dict[tuple[str, str, str, str], int] = {}
    total = 0
    for (begin, end), doing in pieces:
        call = doing.call
        key = (
            "" if call is None else call.api,
            "" if call is None else plain(call.array),
            history.directives.get(doing.directive, ""),
            history.source_lines.get(doing.directive, ""),
        )
        sums[key] = sums.get(key, 0) + end - begin
        total += end - begin
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))[:MOST_HOLDERS]
    return tuple(Holder(*key, ps / total) for key, ps in ordered)
