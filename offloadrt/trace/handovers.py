"""`Handovers`: who let whom go on, and where in the source each directive stands.

Recorded beside the events and not among them: they are no part of the trace hash, nor of what a run counts, so a run
that records them is the run that does not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from offloadrt.sim import Actor
from offloadrt.sim.actor import SELF
from offloadrt.trace.annotations import Annotations, Arguments
from offloadrt.trace.event import PS_PER_S

NOBODY = -1
"""The giver of a hand-over that no actor made: a timeout of Trio's, or the beginning of the run."""

_PROJECT = __name__.partition(".")[0]
_FOLDER = f"{Path(__file__).parents[1]}/"
"""Where the emulator's own code is. A directive stands in the first frame outside, or in a package of programs."""


class Handover(NamedTuple):
    """An actor was let go on by another one."""

    position: int
    """How many events the trace had before it."""
    time_ps: int
    giver: int
    taker: int
    target: str
    """What the taker had waited for; empty when it is not known here, as with a lock that has events of its own."""
    since_ps: int
    """When it began to wait."""
    turn: bool
    """Whether it had waited for its turn (a lock, a server), and for no result of the giver's."""


WIDTH = len(Handover._fields)


class Handovers:
    """The observer of a simulation; `position` gives the number of events so far (`Trace.count`).

    history: keep every hand-over, for `rows`; without it only `annotations` are kept, which is what a picture shows.
    """

    def __init__(self, history: bool = True) -> None:
        self.annotations = Annotations()
        self._history = history
        self.position: Callable[[], int] = int
        self.places: dict[int, str] = {}
        """Where in the source each directive stands, as "patch.cpp:41", by its number."""
        self.arrivals: dict[int, tuple[int, int]] = {}
        """When each kernel reached the compute units, in picoseconds, and how many hand-overs there had been."""
        self._rows: list[Any] = []
        """The fields of one hand-over after another, times in seconds: no tuple is made that lasts."""
        self._ended = NOBODY

    def handed_over(self, sim: Any, actor: Actor) -> None:
        """Note that the running actor lets `actor` go on, or has set the timer with which it does."""
        target = actor.waits_for
        giver = sim.running or SELF.get(None)
        if giver is actor:
            return
        if giver is None or not giver.is_actor:
            by = NOBODY
        else:
            by = giver.index
            if actor.index in self.annotations.doing:
                self.annotations.gave(self.position(), sim.now, by, actor.index)
        if not self._history:
            return
        if target is None:
            self._rows += (self.position(), sim.now, by, actor.index, "", sim.now, False)
        else:
            is_service, turn = _nature(target.__class__)
            if not is_service:
                self._rows += (self.position(), sim.now, by, actor.index, target.name, actor.waits_since, turn)

    def joined(self, sim: Any, actor: Actor, since: float) -> None:
        """Note that `actor` waited from `since` until the last of its children had ended."""
        if sim.now > since and self._history:
            self._rows += (self.position(), sim.now, self._ended, actor.index, "end of its team", since, False)

    def finished(self, actor: Actor) -> None:
        """Note that an actor has ended: somebody may have waited for it in Trio."""
        self._ended = actor.index

    def begin(self, actor: Actor, activity: str) -> None:
        """Note that a thread begins an activity of `Annotations.begin`."""
        self.annotations.begin(self.position(), actor.sim.now, actor.index, activity)

    def end(self, actor: Actor) -> None:
        """Note that the thread's innermost activity is over."""
        self.annotations.end(self.position(), actor.sim.now, actor.index)

    def task_made(self, actor: Actor, name: str) -> int:
        """Note that a thread makes a deferred task; return its number, for `task_run`."""
        return self.annotations.made(self.position(), actor.sim.now, actor.index, name)

    def task_run(self, actor: Actor, task: int) -> None:
        """Note that the next directive of a thread is that task."""
        self.annotations.run(self.position(), actor.sim.now, actor.index, task)

    def called_with(self, actor: Actor, arguments: Arguments) -> None:
        """Note the arguments of the call that a thread is in."""
        self.annotations.call(self.position(), actor.sim.now, actor.index, arguments)

    def arrived(self, sim: Any, kernel: int) -> None:
        """Note that a kernel has reached the compute units."""
        self.arrivals[kernel] = round(sim.now * PS_PER_S), len(self._rows) // WIDTH

    def place(self, directive: int, actor: Actor) -> None:
        """Note where the directive stands that the running actor begins."""
        place = actor.data.get("place")
        if place is None:
            frame = sys._getframe(2)
            while (short := _name_outside(frame.f_code.co_filename)) is None and frame.f_back is not None:
                frame = frame.f_back
            place = "" if short is None else f"{short}:{frame.f_lineno}"
        self.places[directive] = place

    @property
    def rows(self) -> list[Handover]:
        """Return every hand-over, in order."""
        fields = iter(self._rows)
        return [
            Handover(position, round(time * PS_PER_S), by, to, target, round(since * PS_PER_S), turn)
            for position, time, by, to, target, since, turn in zip(*[fields] * WIDTH, strict=True)
        ]


@cache
def _nature(kind: type) -> tuple[bool, bool]:
    """Tell whether what an actor waits for is a service, and whether it is waited for by turns."""
    return getattr(kind, "is_service", False), getattr(kind, "takes_turns", False)


@cache
def _name_outside(path: str) -> str | None:
    """Return the name of a source file, or None for one of the emulator's own.

    A package in it that has programs, as a user's would be, says so by `HOLDS_PROGRAMS`.
    """
    if path.startswith(_FOLDER):
        package = sys.modules.get(f"{_PROJECT}.{path.removeprefix(_FOLDER).partition('/')[0]}")
        if package is not None and not getattr(package, "HOLDS_PROGRAMS", False):
            return None
    return path.rpartition("/")[2]
