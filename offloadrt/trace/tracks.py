"""Tracks of a picture of a run, on which slices nest and never overlap.

A host thread has one track, on which directives, calls and waits nest as the thread entered them (`ThreadTracks`). A
resource (lock, hardware queue, copy engine, compute units) has as many lanes as it ever had things going on at once;
a slice takes the lowest lane that is free, so the layout depends on nothing but the order of the events (`Lanes`).
What the picture is drawn with is a `Canvas`.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

Notes = Mapping[str, int | str]
"""Details shown when the reader of the picture clicks on a slice."""


class Canvas(Protocol):
    """Draws tracks, known by the numbers that `thread`, `lane` and `counter` return; times are picoseconds."""

    def thread(self, group: str, index: int, name: str, /) -> int:
        """Make a new track for the actor of that index."""

    def lane(self, group: str, name: str, /) -> int:
        """Make a new track for one lane of a resource."""

    def counter(self, group: str, name: str, unit: str, /) -> int:
        """Make a new track for a number over time; unit: "bytes" or "count"."""

    def begin(self, track: int, time_ps: int, name: str, flows: Sequence[int], notes: Notes, /) -> None:
        """Begin a slice; slices anywhere that name the same flow are joined by arrows, in order of time."""

    def end(self, track: int, time_ps: int, notes: Notes | None = None, /) -> None:
        """End the slice that began last on the track; notes: what is known of it only now."""

    def instant(self, track: int, time_ps: int, name: str, notes: Notes, flows: Sequence[int] = (), /) -> None:
        """Mark something that takes no time; flows as of a slice."""

    def value(self, track: int, time_ps: int, value: int, /) -> None:
        """Give a counter a new value."""


@attrs.define
class _Thread:
    track: int
    open: list[tuple[str, object]] = attrs.field(factory=list)
    """What is open on the track, the outermost first."""


@attrs.define
class ThreadTracks:
    """One track a host thread; an end closes whatever was left open inside it, so that slices always nest."""

    canvas: Canvas
    group: str
    names: dict[int, str] = attrs.field(factory=dict)
    """Names of actors by index, filled in by the owner."""
    _threads: dict[int, _Thread] = attrs.field(factory=dict)

    def name(self, actor: int) -> str:
        """Return the name of an actor."""
        return self.names.get(actor, f"actor {actor}")

    def track(self, actor: int) -> int:
        """Return the actor's track, made when it is first drawn on."""
        return self._thread(actor).track

    def begin(
        self,
        actor: int,
        time_ps: int,
        what: tuple[str, object],
        name: str,
        flows: Sequence[int] = (),
        notes: Notes | None = None,
    ) -> None:
        """Begin a slice that `what` identifies on the actor's track."""
        thread = self._thread(actor)
        thread.open.append(what)
        self.canvas.begin(thread.track, time_ps, name, flows, notes or {})

    def is_innermost(self, actor: int, what: tuple[str, object]) -> bool:
        """Tell whether `what` is open on the actor's track, and nothing inside it."""
        thread = self._threads.get(actor)
        return thread is not None and bool(thread.open) and thread.open[-1] == what

    def end(self, actor: int, time_ps: int, what: tuple[str, object], notes: Notes | None = None) -> None:
        """End `what`, and what was left open inside it; an end without its begin is passed over."""
        thread = self._threads.get(actor)
        if thread is None or what not in thread.open:
            return
        while thread.open.pop() != what:
            self.canvas.end(thread.track, time_ps)
        self.canvas.end(thread.track, time_ps, notes or {})

    def end_all(self, actor: int, time_ps: int) -> None:
        """End whatever is open on the track of an actor that is gone."""
        thread = self._threads.get(actor)
        if thread is not None:
            for _ in thread.open:
                self.canvas.end(thread.track, time_ps)
            thread.open.clear()

    def finish(self, time_ps: int) -> None:
        """End whatever is open on any track."""
        for actor in self._threads:
            self.end_all(actor, time_ps)

    def _thread(self, actor: int) -> _Thread:
        thread = self._threads.get(actor)
        if thread is None:
            thread = self._threads[actor] = _Thread(self.canvas.thread(self.group, actor, self.name(actor)))
        return thread


@attrs.define
class _Lane:
    track: int
    busy: bool = False


@attrs.define
class Lanes:
    """Resources, each with as many tracks as it has slices at once."""

    canvas: Canvas
    _lanes: dict[tuple[str, str], list[_Lane]] = attrs.field(factory=dict)
    _open: dict[tuple[object, ...], list[_Lane]] = attrs.field(factory=dict)

    def begin(
        self,
        group: str,
        resource: str,
        time_ps: int,
        what: tuple[object, ...],
        name: str,
        flows: Sequence[int] = (),
        notes: Notes | None = None,
    ) -> None:
        """Begin a slice that `what` identifies on the lowest free lane of the resource."""
        lanes = self._lanes.setdefault((group, resource), [])
        lane = next((lane for lane in lanes if not lane.busy), None)
        if lane is None:
            lane = _Lane(self.canvas.lane(group, f"{resource} ({len(lanes) + 1})" if lanes else resource))
            lanes.append(lane)
        lane.busy = True
        self._open.setdefault(what, []).append(lane)
        self.canvas.begin(lane.track, time_ps, name, flows, notes or {})

    def end(self, time_ps: int, what: tuple[object, ...]) -> bool:
        """End the oldest open slice of `what`; False for an end without its begin, which is passed over."""
        lanes = self._open.get(what)
        if not lanes:
            return False
        lane = lanes.pop(0)
        if not lanes:
            del self._open[what]
        lane.busy = False
        self.canvas.end(lane.track, time_ps)
        return True

    def finish(self, time_ps: int) -> None:
        """End whatever is open."""
        for what in list(self._open):
            while what in self._open:
                self.end(time_ps, what)


@attrs.define
class CounterTracks:
    """Numbers over time, each on a track of its own."""

    canvas: Canvas
    _tracks: dict[tuple[str, str], int] = attrs.field(factory=dict)
    _values: dict[tuple[str, str], int] = attrs.field(factory=dict)

    def add(self, group: str, name: str, unit: str, time_ps: int, change: int) -> None:
        """Change the number by `change`; it was 0 before its first change."""
        key = group, name
        track = self._tracks.get(key)
        if track is None:
            track = self._tracks[key] = self.canvas.counter(group, name, unit)
        value = self._values[key] = self._values.get(key, 0) + change
        self.canvas.value(track, time_ps, value)
