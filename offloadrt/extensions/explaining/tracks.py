"""The tracks of a run's picture: what `drawing.py` draws, kept as slices and counters.

`Timeline` is a `Canvas` that keeps what is drawn on it. `overview` joins short slices of a long run, `flame_of` makes a
flame graph of nested slices, and `means_of` averages a counter over pieces of time. A colour stands for a kind of work
(`KINDS`), the same in every picture. `report` and `timeline` draw the tracks.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from offloadrt.extensions.explaining.causal_log import FIRST_CALL, CausalLog
from offloadrt.extensions.explaining.critical_path import PathPart
from offloadrt.extensions.explaining.drawing import HOST, LOCKS, Drawing, Notes
from offloadrt.extensions.explaining.phases import ACTIVITIES
from offloadrt.trace import Row

MOST_SLICES = 40_000
"""If a run has more slices, short ones are joined, so that a page stays small and quick."""
CRITICAL_PATH = "critical path"
FAULT_TRACK = "page fault"
"""The names of tracks on which page faults are drawn contain this text."""


@attrs.frozen
class Slice:
    """A bar on a track of the timeline: something that took time, from `begin_ps` to `end_ps` in picoseconds.

    level: the number of bars around it on the same track. notes: details, as text.
    """

    begin_ps: int
    end_ps: int
    name: str
    notes: str
    level: int = 0
    kind: str = ""
    """For a slice that stands for several joined ones: the kind of work, of `KINDS`, that took most of their time."""
    fill: float = 1.0
    """The part of its length, 0 to 1, that is covered by the slices that were joined into it."""

    @property
    def ps(self) -> int:
        return self.end_ps - self.begin_ps


@attrs.define
class TimelineTrack:
    """One track of a timeline, for a thread or a resource.

    A resource (a lock or an engine) with several slices at one time has several tracks. `group` is the heading below
    which it is drawn; `slices` are its bars, in the order in which they ended.
    """

    group: str
    name: str
    slices: list[Slice] = attrs.field(factory=list)
    open: list[tuple[int, str, str]] = attrs.field(factory=list)
    """Begin in ps, name and notes of the slices that have begun and not ended, the outermost first."""


@attrs.define
class Counter:
    """A number over time: the times (in ps) at which it changes, and its value from each of them on.

    `group` is the heading below which it is drawn, and `unit` is "bytes" or "count"; `times_ps` and `values` are of
    equal length.
    """

    group: str
    name: str
    unit: str
    times_ps: list[int] = attrs.field(factory=list)
    values: list[int] = attrs.field(factory=list)


class Timeline:
    """Keeps what `Drawing` draws of a run: tracks with slices (bars over time), and counters.

    places: by directive, its line of the source, as "patch.cpp:41".
    """

    def __init__(self, places: Mapping[int, str] | None = None) -> None:
        self._places = places or {}
        """By directive: its line of the source, as "patch.cpp:41"."""
        self.tracks: list[TimelineTrack] = []
        self.counters: list[Counter] = []

    def thread(self, group: str, index: int, name: str, /) -> int:
        """Make a track for a host thread or task, and return the track's number.

        group: the heading below which it is drawn. index: the thread's number among all actors (threads and parts of
        the machine) of the run.
        """
        return self.lane(group, name)

    def lane(self, group: str, name: str, /) -> int:
        """Make a track of a resource (a lock or an engine), and return the track's number.

        A resource with several slices at one time has several tracks. group: the heading below which the track is
        drawn.
        """
        self.tracks.append(TimelineTrack(group, name))
        return len(self.tracks) - 1

    def counter(self, group: str, name: str, unit: str, /) -> int:
        """Make a counter (a number over time), and return the counter's number.

        group: the heading below which it is drawn. unit: "bytes" or "count".
        """
        self.counters.append(Counter(group, name, unit))
        return len(self.counters) - 1

    def begin(self, track: int, time_ps: int, name: str, flows: Sequence[int], notes: Notes, /) -> None:
        """Begin a slice (a bar) on a track at a time in picoseconds.

        name: the text on the slice. flows: numbers of arrows, which a timeline does not draw. notes: details, by name.
        """
        on = self.tracks[track]
        directive = int(notes.get("directive", 0))
        if on.group != HOST and (place := self._places.get(directive)):
            known = {key: value for key, value in notes.items() if key != "directive" or directive < FIRST_CALL}
            notes = {**known, "at": place}
        on.open.append((time_ps, name, _text(notes)))

    def end(self, track: int, time_ps: int, notes: Notes | None = None, /) -> None:
        """End the slice that began last on the track, at a time in ps, with notes that are known only at its end."""
        on = self.tracks[track]
        begin_ps, name, text = on.open.pop()
        text = ", ".join(filter(None, (text, _text(notes or {}))))
        on.slices.append(Slice(begin_ps, time_ps, name, text, len(on.open)))

    def instant(self, track: int, time_ps: int, name: str, notes: Notes, flows: Sequence[int] = (), /) -> None:
        """Do nothing: a timeline keeps only slices (bars) and counters, and no instants (marks at one moment)."""

    def value(self, track: int, time_ps: int, value: int, /) -> None:
        """Record the new value of a counter (`track`) at a time in picoseconds."""
        counter = self.counters[track]
        counter.times_ps.append(time_ps)
        counter.values.append(value)


def timeline_of(
    rows: Sequence[Row], path: Iterable[PathPart], window: tuple[int, int], causal_log: CausalLog | None = None
) -> Timeline:
    """Draw a run as a timeline, with its critical path on the first track.

    rows: the run's events. path: the parts of the critical path. window: begin and end, in picoseconds, to which slices
    (bars) are cut. causal_log: the log of who let whom go on, for waits and arrows.
    """
    timeline = Timeline(None if causal_log is None else causal_log.source_lines)
    drawing = Drawing(timeline, causal_log)
    drawing.draw(rows)
    drawing.finish()
    on_path = TimelineTrack(CRITICAL_PATH, CRITICAL_PATH)
    for part in path:
        words = (part.actor, part.call, part.directive, part.place and f"at: {part.place}")
        on_path.slices.append(Slice(part.begin_ps, part.end_ps, part.blame, ", ".join(filter(None, words))))
    timeline.tracks = [on_path, *_one_thread_each(timeline.tracks)]
    for track in timeline.tracks:
        cut = (_cut(one, window) for one in track.slices)
        track.slices = sorted((one for one in cut if one.ps > 0), key=lambda one: (one.begin_ps, one.level, one.end_ps))
    timeline.tracks = sorted((track for track in timeline.tracks if track.slices), key=_place)
    return timeline


def _cut(one: Slice, window: tuple[int, int]) -> Slice:
    begin_ps, end_ps = window
    if begin_ps <= one.begin_ps and one.end_ps <= end_ps:
        return one
    return attrs.evolve(one, begin_ps=max(one.begin_ps, begin_ps), end_ps=min(one.end_ps, end_ps))


def phases_of(causal_log: CausalLog) -> dict[str, int]:
    """Return the picosecond at which each named phase (`Run.phase`) first begins, by name.

    Call it before the run is drawn, because drawing takes the annotations out of `causal_log`.
    """
    begins: dict[str, int] = {}
    for annotation in causal_log.annotations:
        if annotation.what == "begin" and annotation.name not in ACTIVITIES:
            begins.setdefault(annotation.name, annotation.time_ps)
    return begins


def _one_thread_each(tracks: Sequence[TimelineTrack]) -> list[TimelineTrack]:
    """Merge the tracks of host threads that have the same name: consecutive teams consist of the same threads.

    Threads of one name that work at the same time, such as those of nested teams, keep tracks of their own.
    """
    kept: list[TimelineTrack] = []
    of_name: dict[str, list[TimelineTrack]] = {}
    for track in tracks:
        if track.group != HOST:
            kept.append(track)
            continue
        others = of_name.setdefault(track.name, [])
        free = next((other for other in others if not _overlap(other.slices, track.slices)), None)
        if free is not None:
            free.slices += track.slices
        elif track.slices:
            kept.append(track)
            others.append(track)
            if len(others) > 1:
                track.name = f"{track.name} ({len(others)})"
    return kept


def _overlap(some: Sequence[Slice], others: Sequence[Slice]) -> bool:
    """Tell whether outermost slices of two tracks overlap in time."""
    spans = sorted((one.begin_ps, one.end_ps) for one in (*some, *others) if one.level == 0 and one.ps)
    return any(after[0] < before[1] for before, after in itertools.pairwise(spans))


def _text(notes: Notes) -> str:
    return ", ".join(f"{key}: {value}" for key, value in notes.items())


def _place(track: TimelineTrack) -> tuple[object, ...]:
    """Return a sort key for tracks: the critical path, host threads by number, devices, and then locks."""
    groups = {CRITICAL_PATH: 0, HOST: 1, LOCKS: 3}
    return groups.get(track.group, 2), by_number(track.group), by_number(track.name)


def by_number(name: str) -> list[tuple[int, str]]:
    """Return a sort key for names, by which "device 2" comes before "device 10"."""
    return [(int(word), "") if word.isdigit() else (-1, word) for word in re.split(r"(\d+)", name)]


def overview(timeline: Timeline, most: int = MOST_SLICES) -> tuple[list[TimelineTrack], int]:
    """Return a timeline's tracks with at most `most` slices, and the length in ps below which slices were joined.

    That length is 0 if no slices were joined. Neighbours on one track and level that are shorter than it, and closer
    together, become one slice. Its text says how many slices it replaces, which part of its time they take, and what
    they did most. A joined slice is at most eight times as long as that length.
    """
    lengths = sorted((one.ps for track in timeline.tracks for one in track.slices), reverse=True)
    if len(lengths) <= most:
        return timeline.tracks, 0
    short_ps = max(1, lengths[most // 2])
    while True:
        tracks = [attrs.evolve(track, slices=_joined(track, short_ps)) for track in timeline.tracks]
        if sum(len(track.slices) for track in tracks) <= most:
            return tracks, short_ps
        short_ps *= 2


_LONGEST_JOINED = 8
"""A joined slice is at most this many times as long as the length below which slices are joined."""


@attrs.define
class _Join:
    """Short slices that follow one another on one level of a track, to be drawn as one."""

    first: Slice
    end_ps: int
    count: int = 1
    kinds: dict[str, int] = attrs.field(factory=dict)
    """By kind of work: the sum of the short slices' picoseconds."""

    def take(self, one: Slice, kind: str) -> None:
        self.end_ps = max(self.end_ps, one.end_ps)
        self.kinds[kind] = self.kinds.get(kind, 0) + one.ps

    def slice(self) -> Slice:
        if self.count == 1:
            return self.first
        kind = max(self.kinds, key=lambda kind: (self.kinds[kind], kind))
        filled = min(1.0, sum(self.kinds.values()) / max(1, self.end_ps - self.first.begin_ps))
        return Slice(
            self.first.begin_ps, self.end_ps, f"{self.count} short slices",
            f"{filled:.0%} of this time, mostly: {kind}", self.first.level, kind, filled,
        )  # fmt: skip


def _joined(track: TimelineTrack, short_ps: int) -> list[Slice]:
    joins: list[_Join] = []
    last: dict[int, _Join] = {}
    """By level: the last join, which the next short slice may enter."""
    for one in track.slices:
        into = last.get(one.level)
        if one.ps >= short_ps:
            last.pop(one.level, None)
        elif (
            into is not None
            and one.begin_ps - into.end_ps < short_ps
            and one.end_ps - into.first.begin_ps <= _LONGEST_JOINED * short_ps
        ):
            into.count += 1
            into.take(one, kind_of(track, one))
            continue
        joins.append(_Join(one, one.end_ps))
        if one.ps < short_ps:
            last[one.level] = joins[-1]
            joins[-1].take(one, kind_of(track, one))
    return [join.slice() for join in joins]


PROGRAM = "outside of directives"
"""The kind of a host thread's time outside of all slices: its own work, other waits, or being in no team."""
_NUMBER = re.compile(r"\s+\d+(?=\s|$)")


@attrs.define
class Frame:
    """A node of the flame graph: a call, directive or wait, with the time of all host threads in it.

    Slices with the same name below the same parents form one node. `ps` is the node's time in picoseconds, including
    that of all `inner` nodes below it.
    """

    name: str
    kind: str = ""
    """The kind of work, one of `KINDS`; empty for the root."""
    ps: int = 0
    inner: dict[str, Frame] = attrs.field(factory=dict)

    def child(self, name: str, kind: str) -> Frame:
        """Return the inner frame of that name, which is made when it is first asked for, with that kind of work."""
        return self.inner.setdefault(name, Frame(name, kind))


def threads_of(tracks: Iterable[TimelineTrack]) -> list[TimelineTrack]:
    """Return the tracks of host threads."""
    return [track for track in tracks if track.group == HOST]


def own_times(track: TimelineTrack, window: tuple[int, int]) -> dict[str, int]:
    """Return how long a thread did each kind of work in a window, in picoseconds by kind.

    What counts at each time is the innermost slice (bar) of the thread's track. The times add up to the window's
    length.
    """
    times: dict[str, int] = {}
    outside = window[1] - window[0]
    for path, own_ps in _own(track.slices):
        kind = kind_of(track, path[-1])
        times[kind] = times.get(kind, 0) + own_ps
        outside -= own_ps
    if outside > 0:
        times[PROGRAM] = outside
    return times


def flame_of(tracks: Iterable[TimelineTrack]) -> Frame:
    """Return the root of the flame graph of all host threads' directives, calls and waits among `tracks`."""
    root = Frame("host threads")
    for track in tracks:
        for path, own_ps in _own(track.slices):
            frame = root
            frame.ps += own_ps
            for one in path:
                frame = frame.child(family(one.name), kind_of(track, one))
                frame.ps += own_ps
    return root


def family(name: str) -> str:
    """Return a slice's name without its number: `wait for copy 12 (d2h)` becomes `wait for copy (d2h)`."""
    return _NUMBER.sub("", name) or name


def _own(slices: Iterable[Slice]) -> Iterator[tuple[tuple[Slice, ...], int]]:
    """Yield each slice, as the path from the outermost slice to it, and its picoseconds outside of inner slices."""
    open_: list[Slice] = []
    left: list[int] = []
    for one in slices:
        while open_ and (open_[-1].level >= one.level or open_[-1].end_ps <= one.begin_ps):
            yield tuple(open_), left.pop()
            open_.pop()
        if left:
            left[-1] -= one.ps
        open_.append(one)
        left.append(one.ps)
    while open_:
        yield tuple(open_), left.pop()
        open_.pop()


# ---------------------------------------------------------------------- kinds of work and their colours
KINDS: Final[Mapping[str, str]] = {
    "directive of the program": "#d5dbe1",
    "call of the driver": "#8fb8de",
    "waits for a turn": "#d55e00",
    "waits for the device": "#f2c14e",
    "waits for other threads": "#f4a582",
    "computes on the host": "#7a9a01",
    "kernel": "#009e73",
    "copy to the device": "#0072b2",
    "copy to the host": "#cc79a7",
    "page faults": "#8c510a",
    "holds the lock": "#5b5b6b",
    "other work": "#b5b5b5",
}
"""By kind of work: its colour."""
_ON_PATH = {
    "program": "directive of the program", "runtime": "directive of the program", "driver": "call of the driver",
    "messages": "call of the driver",
    "kernel": "kernel", "launch": "kernel",
}  # fmt: skip
"""The kind of a part of the critical path by its resource; other names there are what was waited for."""
_OF_DEVICE = re.compile(r"wait for (copy|kernel|event|drain|queue|signal|memcpy|stream(?! pool)|device(?! table))")
_CALL = re.compile(r"(cu|hip|hsa|acc_|omp_)\w+")


_BY_WORDS: Final[Iterable[tuple[str, tuple[str, ...]]]] = (
    ("page faults", ("page fault", "eviction", "prefetch")),
    ("copy to the device", ("h2d",)),
    ("copy to the host", ("d2h",)),
)
_OF_COUNTERS: Final[Iterable[tuple[str, str]]] = (
    ("waiting for", "waits for a turn"),
    ("bytes in flight h2d", "copy to the device"),
    ("bytes in flight d2h", "copy to the host"),
    ("resident kernels", "kernel"),
    ("pages", "page faults"),
    ("faults", "page faults"),
)


def kind_of(track: TimelineTrack, one: Slice) -> str:
    """Return which kind of work, one of `KINDS`, a slice (bar) shows, from its name and the name of its track."""
    name = one.name
    if one.kind:
        return one.kind
    if track.group == LOCKS:
        return "holds the lock"
    if name.startswith("wait for "):
        return "waits for the device" if _OF_DEVICE.match(name) else "waits for a turn"
    if track.group == HOST:
        if name in ACTIVITIES:
            return ACTIVITIES[name]
        if name.startswith(FAULT_TRACK) or name in ("evict", "map", "unmap"):
            return "page faults"
        is_directive = one.notes.startswith("directive: ") or not (one.level or _CALL.fullmatch(name))
        return "directive of the program" if is_directive else "call of the driver"
    if FAULT_TRACK in track.name:
        return "page faults"
    for kind, words in _BY_WORDS:
        if any(word in name for word in words):
            return kind
    if track.group == CRITICAL_PATH:
        return _ON_PATH.get(name, "waits for a turn")
    return "kernel" if track.name.startswith(("compute units", "hardware queue")) else "other work"


def kind_of_counter(counter: Counter) -> str:
    """Return which kind of thing, one of `KINDS`, a counter counts, from the counter's name."""
    return next((kind for begin, kind in _OF_COUNTERS if counter.name.startswith(begin)), "other work")


MOST_PIECES = 4_000
"""Into so many pieces of time a counter is divided at most; more than a screen has pixels."""


def means_of(counter: Counter, window: tuple[int, int]) -> list[tuple[int, float, int]]:
    """Divide a window into pieces; return for each its begin in ps, and the counter's mean and maximum in it.

    If the counter changes less often than `MOST_PIECES` times, a piece goes from one change to the next.
    """
    begin, end = window
    first = bisect.bisect_right(counter.times_ps, begin)
    value = counter.values[first - 1] if first else 0
    last = bisect.bisect_left(counter.times_ps, end)
    steps = list(zip(counter.times_ps[first:last], counter.values[first:last], strict=True))
    if len(steps) <= MOST_PIECES:
        at = dict([(begin, value), *steps])  # of several changes at an instant the last one counts
        return [(ps, float(number), number) for ps, number in at.items()]
    piece = max(1, -(-(end - begin) // MOST_PIECES))
    found: list[tuple[int, float, int]] = []
    since, upcoming = begin, iter([*steps, (end, 0)])
    changes, following = next(upcoming)
    while since < end:
        until, area, most, now = min(since + piece, end), 0, value, since
        while changes < until:
            area, now, value = area + value * (changes - now), changes, following
            most = max(most, value)
            changes, following = next(upcoming)
        found.append((since, (area + value * (until - now)) / (until - since), most))
        since = until
    return found
