"""The slices of a run, collected for a page, and the time of each host thread by what it did innermost.

`Timeline` is a `Canvas` that keeps what `offloadrt.trace` draws; `overview` shortens that of a long run. `flame_of`
makes a tree of what lay in what.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

import attrs

from offloadrt.extensions.explaining.critical_path import PathPart
from offloadrt.trace import CausalLog, Row
from offloadrt.trace.drawing import HOST, LOCKS, Drawing, Notes

MOST_SLICES = 40_000
"""More than these are aggregated, so that a page stays small and quick."""
CRITICAL_PATH = "critical path"


@attrs.frozen
class Slice:
    """Something that took time on a track; `level` counts the slices that it lies in. Times are picoseconds."""

    begin_ps: int
    end_ps: int
    name: str
    notes: str
    level: int = 0

    @property
    def ps(self) -> int:
        return self.end_ps - self.begin_ps


@attrs.define
class TimelineTrack:
    """A track of a thread or of a lane of a resource."""

    group: str
    name: str
    slices: list[Slice] = attrs.field(factory=list)
    open: list[tuple[int, str, str]] = attrs.field(factory=list)
    """What has begun and not ended, the outermost first."""


@attrs.define
class Counter:
    """A number over time: where it changes, and what it is from then on."""

    group: str
    name: str
    unit: str
    times_ps: list[int] = attrs.field(factory=list)
    values: list[int] = attrs.field(factory=list)


class Timeline:
    """A canvas that keeps what is drawn on it."""

    def __init__(self) -> None:
        self.tracks: list[TimelineTrack] = []
        self.counters: list[Counter] = []

    def thread(self, group: str, index: int, name: str, /) -> int:
        """Make a track for a thread."""
        return self.lane(group, name)

    def lane(self, group: str, name: str, /) -> int:
        """Make a track for a lane of a resource."""
        self.tracks.append(TimelineTrack(group, name))
        return len(self.tracks) - 1

    def counter(self, group: str, name: str, unit: str, /) -> int:
        """Make a counter."""
        self.counters.append(Counter(group, name, unit))
        return len(self.counters) - 1

    def begin(self, track: int, time_ps: int, name: str, flows: Sequence[int], notes: Notes, /) -> None:
        """Begin a slice."""
        self.tracks[track].open.append((time_ps, name, _text(notes)))

    def end(self, track: int, time_ps: int, notes: Notes | None = None, /) -> None:
        """End the slice that began last on the track."""
        on = self.tracks[track]
        begin_ps, name, text = on.open.pop()
        text = ", ".join(filter(None, (text, _text(notes or {}))))
        on.slices.append(Slice(begin_ps, time_ps, name, text, len(on.open)))

    def instant(self, track: int, time_ps: int, name: str, notes: Notes, flows: Sequence[int] = (), /) -> None:
        """Leave out what takes no time."""

    def value(self, track: int, time_ps: int, value: int, /) -> None:
        """Note the new value of a counter."""
        counter = self.counters[track]
        counter.times_ps.append(time_ps)
        counter.values.append(value)


def timeline_of(
    rows: Sequence[Row], path: Iterable[PathPart], window: tuple[int, int], causal_log: CausalLog | None = None
) -> Timeline:
    """Draw a run, its critical path on a track above all others; keep what lies in the window, in picoseconds."""
    timeline = Timeline()
    drawing = Drawing(timeline, causal_log)
    drawing.draw(rows)
    drawing.finish()
    on_path = TimelineTrack(CRITICAL_PATH, CRITICAL_PATH)
    for part in path:
        words = (part.actor, part.call, part.directive, part.place)
        on_path.slices.append(Slice(part.begin_ps, part.end_ps, part.blame, ", ".join(filter(None, words))))
    timeline.tracks = [on_path, *_one_thread_each(timeline.tracks)]
    for track in timeline.tracks:
        cut = (
            attrs.evolve(one, begin_ps=max(one.begin_ps, window[0]), end_ps=min(one.end_ps, window[1]))
            for one in track.slices
        )
        track.slices = sorted((one for one in cut if one.ps > 0), key=lambda one: (one.begin_ps, one.level, one.end_ps))
    timeline.tracks = sorted((track for track in timeline.tracks if track.slices), key=_place)
    return timeline


def _one_thread_each(tracks: Sequence[TimelineTrack]) -> list[TimelineTrack]:
    """Put what host threads of one name do on one track: teams that follow one another have the same threads.

    Threads of one name that work at the same time, as those of nested teams, keep tracks of their own.
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
    """Tell whether slices of two tracks lie over one another."""
    spans = sorted((one.begin_ps, one.end_ps) for one in (*some, *others) if one.level == 0 and one.ps)
    return any(after[0] < before[1] for before, after in itertools.pairwise(spans))


def _text(notes: Notes) -> str:
    return ", ".join(f"{key}: {value}" for key, value in notes.items())


def _place(track: TimelineTrack) -> tuple[object, ...]:
    """Order tracks for a reader: the critical path, host threads by number, the device, and then locks."""
    groups = {CRITICAL_PATH: 0, HOST: 1, LOCKS: 3}
    words = [(int(word), "") if word.isdigit() else (-1, word) for word in re.split(r"(\d+)", track.name)]
    return groups.get(track.group, 2), track.group, words


def overview(timeline: Timeline, most: int = MOST_SLICES) -> tuple[list[TimelineTrack], int]:
    """Return tracks of about `most` slices at most, and the length in ps below which neighbours are drawn as one.

    Neighbours on a track and level that are shorter, and no further apart, become one slice that says how many it
    stands for. A length of 0 means that nothing was aggregated.
    """
    lengths = sorted((one.ps for track in timeline.tracks for one in track.slices), reverse=True)
    if len(lengths) <= most:
        return timeline.tracks, 0
    short_ps = lengths[most // 2]
    while True:
        tracks = [attrs.evolve(track, slices=_joined(track.slices, short_ps)) for track in timeline.tracks]
        if sum(len(track.slices) for track in tracks) <= most:
            return tracks, short_ps
        short_ps *= 2


def _joined(slices: Sequence[Slice], short_ps: int) -> list[Slice]:
    joined: list[Slice] = []
    counts: list[int] = []
    """How many slices each of `joined` stands for."""
    last: dict[int, int] = {}
    """By level, where in `joined` the slice stands that a next short one may join."""
    for one in slices:
        at = last.get(one.level)
        if one.ps >= short_ps:
            last.pop(one.level, None)
        elif at is not None and one.begin_ps - joined[at].end_ps < short_ps:
            joined[at] = attrs.evolve(joined[at], end_ps=max(joined[at].end_ps, one.end_ps))
            counts[at] += 1
            continue
        else:
            last[one.level] = len(joined)
        joined.append(one)
        counts.append(1)
    return [
        one if count == 1 else attrs.evolve(one, name=f"{count} short slices", notes=f"the first is {one.name}")
        for one, count in zip(joined, counts, strict=True)
    ]


PROGRAM = "outside of directives"
"""A host thread outside of every directive: its own work, waits that belong to no directive, and no team."""
_NUMBER = re.compile(r"\s+\d+(?=\s|$)")


@attrs.define
class Frame:
    """A node of the flame graph: the time of all host threads in slices of this name at this place."""

    name: str
    ps: int = 0
    inner: dict[str, Frame] = attrs.field(factory=dict)

    def child(self, name: str) -> Frame:
        """Return the inner frame of that name, made when it is first asked for."""
        return self.inner.setdefault(name, Frame(name))


def threads_of(tracks: Iterable[TimelineTrack]) -> list[TimelineTrack]:
    """Return the tracks of host threads."""
    return [track for track in tracks if track.group == HOST]


def own_times(track: TimelineTrack, window: tuple[int, int]) -> dict[str, int]:
    """Return the picoseconds of a thread by what it did innermost; they add up to the window."""
    times: dict[str, int] = {}
    outside = window[1] - window[0]
    for path, own_ps in _own(track.slices):
        name = family(path[-1].name)
        times[name] = times.get(name, 0) + own_ps
        outside -= own_ps
    if outside > 0:
        times[PROGRAM] = outside
    return times


def flame_of(tracks: Iterable[TimelineTrack]) -> Frame:
    """Return the tree of directives, calls and waits of all host threads."""
    root = Frame("host threads")
    for track in tracks:
        for path, own_ps in _own(track.slices):
            frame = root
            frame.ps += own_ps
            for one in path:
                frame = frame.child(family(one.name))
                frame.ps += own_ps
    return root


def family(name: str) -> str:
    """Leave out the number of one of many: `wait for copy 12 (d2h)` becomes `wait for copy (d2h)`."""
    return _NUMBER.sub("", name) or name


def _own(slices: Iterable[Slice]) -> Iterator[tuple[tuple[Slice, ...], int]]:
    """Give each slice with those that it lies in, and its time that no inner slice takes."""
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
