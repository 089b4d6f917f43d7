"""`offloadrt compare A.jsonl B.jsonl`: two logs beside one another, and the first event in which they differ.

The two logs are of the same program, for example before and after a change, on two machines or by two versions of the
emulator. The largest differences of time come first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from offloadrt.extensions.logs.statistics import TraceStatistics
from offloadrt.study.errors import UserError
from offloadrt.trace import EVENTS
from offloadrt.trace.events import PS_PER_S

if TYPE_CHECKING:
    from rich.console import RenderableType

    from offloadrt.trace import Event

_MOST = 8
"""Half the most rows that the table of differences shows."""


@attrs.frozen
class LoggedDifference:
    """A call, lock, engine, kernel or directive that differs between two logs.

    what, name: which of these it is, and its name. counts, seconds: how often it occurred in each log, and its virtual
    seconds there.
    """

    what: str
    name: str
    counts: tuple[int, int]
    seconds: tuple[float, float]

    @property
    def more_s(self) -> float:
        """Return how many seconds it takes longer in the second log than in the first."""
        return self.seconds[1] - self.seconds[0]


@attrs.frozen
class LogComparison:
    """The comparison of two logs. In each pair, the first value is that of the first log.

    `logs` are the names of the files, and `events` the numbers of events in them.
    """

    logs: tuple[str, str]
    events: tuple[int, int]
    elapsed_s: tuple[float, float]
    """Virtual seconds from the beginning to the last event."""
    equal: int
    """How many events from the first one on are equal in both logs; all events if the logs do not differ."""
    first: tuple[str, str] | None
    """The first event in which the logs differ, as each has it, in words; None if they do not differ."""
    differences: tuple[LoggedDifference, ...]
    """Everything with different counts or times, the largest difference of time first."""
    bytes: Mapping[str, tuple[int, int]]
    """By direction and memory, as "h2d (pinned)": bytes copied."""


def _events_of(path: Path) -> Iterator[Event]:
    """Read a log event by event; a last line that was cut off is left out. Raises UserError."""
    from offloadrt.extensions.logs.reading import read_json_lines

    try:
        yield from read_json_lines(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from None


@attrs.define
class _Read:
    """The sums over a log, which was read to its end."""

    statistics: TraceStatistics
    events: int = 0
    last_ps: int = 0
    directives: dict[str, tuple[int, float]] = attrs.field(factory=dict)
    waits: dict[str, tuple[int, float]] = attrs.field(factory=dict)

    @classmethod
    def of(cls, path: Path) -> _Read:
        read = cls(TraceStatistics())
        begun: dict[tuple[int, str], list[int]] = {}
        for event in _events_of(path):
            read.events += 1
            read.statistics.write([(event.label, *attrs.astuple(event, recurse=False))])
            read.last_ps = max(read.last_ps, event.time_ps)
            label = event.label
            for begins, ends, sums, name in (
                ("DirectiveBegin", "DirectiveEnd", read.directives, ""),
                ("SignalWaitBegin", "SignalWaitEnd", read.waits, "waits for the device"),
                ("PageFaultBegin", "PageFaultEnd", read.waits, "kernels that wait for pages"),
            ):
                if label == begins:
                    begun.setdefault((event.actor, ends), []).append(event.time_ps)
                elif label == ends and (open_ := begun.get((event.actor, ends))):
                    of = name or str(_payload(event)["name"])
                    count, seconds = sums.get(of, (0, 0.0))
                    sums[of] = count + 1, seconds + (event.time_ps - open_.pop()) / PS_PER_S
        if not read.events:
            raise UserError(f"{path}: holds no event")
        return read

    def figures(self) -> dict[tuple[str, str], tuple[int, float]]:
        """Return count and virtual seconds by kind and name, such as ("call", "cuMemFree")."""
        statistics = self.statistics
        found = {("directive", name): of for name, of in self.directives.items()}
        found |= {("call", name): (one.count, one.total_s) for name, one in statistics.calls.statistics().items()}
        for name, lock in statistics.locks.items():
            found["waiting for", name] = lock.contended, lock.wait_s
            found["holding", name] = lock.acquired, lock.hold_s
        for (device, engine), engine_use in statistics.engines.items():
            found["copies of", f"device {device} {engine}"] = engine_use.copies, engine_use.busy_s
        for (device, name), use in statistics.kernels.items():
            found["kernel", f"{name} on device {device}"] = use.launched, use.resident_s
        return found | {("", name): of for name, of in self.waits.items()}


def compared(one: Path, other: Path) -> LogComparison:
    """Compare two logs. Raises UserError for a file that cannot be read as a log."""
    read = [_Read.of(path) for path in (one, other)]
    figures = [each.figures() for each in read]
    differences = []
    for key in dict.fromkeys((*figures[0], *figures[1])):
        (count, seconds), (other_count, other_s) = (each.get(key, (0, 0.0)) for each in figures)
        if count != other_count or abs(other_s - seconds) >= 1 / PS_PER_S:
            differences.append(LoggedDifference(*key, (count, other_count), (seconds, other_s)))
    differences.sort(key=lambda each: (-abs(each.more_s), each.what, each.name))
    moved = [{f"{way} ({memory})": nbytes for (way, memory), nbytes in each.statistics.bytes.items()} for each in read]
    equal, first = _first_difference(one, other)
    return LogComparison(
        (str(one), str(other)), (read[0].events, read[1].events),
        (read[0].last_ps / PS_PER_S, read[1].last_ps / PS_PER_S), equal, first, tuple(differences),
        {name: (moved[0].get(name, 0), moved[1].get(name, 0)) for name in dict.fromkeys((*moved[0], *moved[1]))},
    )  # fmt: skip


def _first_difference(one: Path, other: Path) -> tuple[int, tuple[str, str] | None]:
    """Return how many events are equal from the beginning on, and the next event of each log; None if all are equal."""
    names: tuple[dict[int, str], dict[int, str]] = ({}, {})
    equal = 0
    for pair in itertools.zip_longest(_events_of(one), _events_of(other)):
        for event, known in zip(pair, names, strict=True):
            if event is not None and event.label == "ActorSpawned":
                known[event.actor] = str(_payload(event).get("name", ""))
        if pair[0] != pair[1]:
            said = [_told(event, known) for event, known in zip(pair, names, strict=True)]
            return equal, (said[0], said[1])
        equal += 1
    return equal, None


def _payload(event: Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in EVENTS[event.label].payload}


def _told(event: Event | None, names: Mapping[int, str]) -> str:
    """Return an event in words: "CallBegin of host thread 1 at 3.2 us: api cuMemFree"."""
    from offloadrt.study.reporting.words import seconds

    if event is None:
        return "has ended"
    payload = ", ".join(f"{name} {value}" for name, value in _payload(event).items() if value != "")
    by = names.get(event.actor, f"actor {event.actor}")
    return f"{event.label} of {by} at {seconds(event.time_ps / PS_PER_S)}" + (f": {payload}" if payload else "")


def printed(found: LogComparison) -> Iterable[RenderableType]:
    """Yield the lines and tables that show a comparison of two logs."""
    from rich.markup import escape

    from offloadrt.cli.render import table_of
    from offloadrt.study.reporting.words import seconds, size

    names = [escape(name) for name in found.logs]
    for name, events, elapsed in zip(names, found.events, found.elapsed_s, strict=True):
        yield f"{name}: {events:,} {'event' if events == 1 else 'events'}, {seconds(elapsed)}"
    if found.first is None:
        yield "the two logs are the same, event by event"
        return
    if found.elapsed_s[1]:
        yield f"the first takes {found.elapsed_s[0] / found.elapsed_s[1]:.4g} times as long as the second"
    yield f"the first {found.equal:,} events are the same; then"
    for name, said in zip(names, found.first, strict=True):
        yield f"  {name}: {escape(said)}"
    if not found.differences:
        yield "every sum is the same: they differ in the order of events, or in addresses"
        return
    columns = ("", "", "count", "", "time", "", "more or less")
    table = table_of("\nwhat differs, the first log before the second", *columns, right=(2, 3, 4, 5, 6))
    for each in found.differences[: 2 * _MOST]:
        sign = "+" if each.more_s > 0 else "−"
        change = f"{sign}{seconds(abs(each.more_s))}" if each.more_s else ""
        counts = (f"{count:,}" for count in each.counts)
        table.add_row(each.what, escape(each.name), *counts, *map(seconds, each.seconds), change)
    yield table
    if (more := len(found.differences) - 2 * _MOST) > 0:
        yield f"and {more} more with smaller differences (all of them with --json)"
    moved = {name: sizes for name, sizes in found.bytes.items() if sizes[0] != sizes[1]}
    if moved:
        told = ", ".join(f"{name} {size(sizes[0])} and {size(sizes[1])}" for name, sizes in moved.items())
        yield f"\nbytes copied: {told}"
