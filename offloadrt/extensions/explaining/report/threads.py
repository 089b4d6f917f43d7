"""Where the time of each host thread went: by what it did innermost, and as a tree of what lay in what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import attrs

from offloadrt.extensions.explaining.report.timeline import Slice, TimelineTrack
from offloadrt.trace.drawing import HOST

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
