"""`CausalLog`: who let whom go on, and where in the source each directive stands.

Recorded beside the events and not among them: they are no part of the trace hash, nor of what a run counts, so a run
that records them is the run that does not.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import trio

from offloadrt.sim import Actor
from offloadrt.sim.scheduler import SELF
from offloadrt.trace.events import NO_CAUSE, PS_PER_S

# ---------------------------------------------------------------------- annotations
# `Annotations`: what a picture of a run shows besides its events: waits for other threads, arguments of calls.
#
# They are recorded beside the events, each with the number of events before it, so that the two can be put in one
# order and neither the trace hash nor any count knows of them.
FIRST_TASK = 1 << 50
"""The number of the first deferred task's arrow; smaller ones are numbers of directives and of resumptions."""

Arguments = Mapping[str, int | str]
"""Arguments of a call by name, as {"bytes": 4096}."""


class Annotation(NamedTuple):
    """Something that happened and is no event."""

    position: int
    """How many events the trace had before it."""
    time_ps: int
    actor: int
    what: str
    """"begin" and "end" of an activity; "gave": the actor let `other` go on; "made" and "run" of a deferred task;
    "arguments" of the call that the actor is in."""
    name: str
    """The activity, or the task."""
    other: int = 0
    """The actor that was let go on, or the number of the task's arrow."""
    arguments: Arguments | None = None


class Annotations:
    """Collects annotations in order; whoever draws them takes them from `waiting`, the oldest first."""

    def __init__(self) -> None:
        self.waiting: deque[Annotation] = deque()
        self.doing: dict[int, list[str]] = {}
        """The activities that each thread is in, the innermost last."""
        self._tasks = FIRST_TASK

    def begin(self, position: int, now: float, actor: int, activity: str) -> None:
        """Note that a thread begins an activity: "barrier", "taskwait", "depend", "critical", "compute"."""
        self.doing.setdefault(actor, []).append(activity)
        self._add(position, now, actor, "begin", activity)

    def end(self, position: int, now: float, actor: int) -> None:
        """Note that the innermost activity of a thread is over."""
        activities = self.doing[actor]
        activity = activities.pop()
        if not activities:
            del self.doing[actor]
        begun = (position, round(now * PS_PER_S), actor, "begin", activity)
        if self.waiting and self.waiting[-1][:5] == begun:
            self.waiting.pop()  # it had nothing to wait for, and let nobody go on
        else:
            self._add(position, now, actor, "end", activity)

    def gave(self, position: int, now: float, giver: int, taker: int) -> None:
        """Note that an actor let another one go on, which is in an activity."""
        self._add(position, now, giver, "gave", self.doing[taker][-1], taker)

    def made(self, position: int, now: float, actor: int, name: str) -> int:
        """Note that a thread made a deferred task; return the number of its arrow."""
        self._tasks += 1
        self._add(position, now, actor, "made", name, self._tasks)
        return self._tasks

    def run(self, position: int, now: float, actor: int, task: int) -> None:
        """Note that the next directive of a thread is that task."""
        self._add(position, now, actor, "run", "", task)

    def call(self, position: int, now: float, actor: int, arguments: Arguments) -> None:
        """Note the arguments of the call that a thread is in."""
        self._add(position, now, actor, "arguments", "", 0, arguments)

    def _add(
        self, position: int, now: float, actor: int, what: str, name: str, other: int = 0,
        arguments: Arguments | None = None,
    ) -> None:  # fmt: skip
        self.waiting.append(Annotation(position, round(now * PS_PER_S), actor, what, name, other, arguments))


NOBODY = -1
"""The giver of a resumption that no actor made: a timeout of Trio's, or the beginning of the run."""

FIRST_CALL = 1 << 45
"""The number of the first line that calls the driver outside of every directive, as a CUDA program does."""
_PROJECT = __name__.partition(".")[0]
_FOLDER = f"{Path(__file__).parents[2]}/"
"""Where the emulator's own code is. A directive stands in the first frame outside, or in a package of programs."""
_LIBRARY, _EVENT_LOOP = f"{Path(contextlib.__file__).parent}/", f"{Path(trio.__file__).parent}/"
"""Frames of the standard library are passed over. What the event loop called itself is no program."""


class Resumption(NamedTuple):
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


WIDTH = len(Resumption._fields)


class CausalLog:
    """The observer of a simulation; `position` gives the number of events so far (`Trace.count`).

    history: keep every resumption, for `rows`; without it only `annotations` are kept, which is what a picture shows.
    """

    def __init__(self, history: bool = True) -> None:
        self.annotations = Annotations()
        self._history = history
        self.position: Callable[[], int] = int
        self.source_lines: dict[int, str] = {}
        """Where each directive stands in the source, as "patch.cpp:41", by number; of other calls from FIRST_CALL."""
        self.arrivals: dict[int, tuple[int, int]] = {}
        """When each kernel reached the compute units, in picoseconds, and how many resumptions there had been."""
        self.launches: dict[int, Any] = {}
        """The `Launch` of each of them."""
        self._rows: list[Any] = []
        """The fields of one resumption after another, times in seconds: no tuple is made that lasts."""
        self._ended = NOBODY
        self._calling: dict[str, int] = {}

    def resumed(self, sim: Any, actor: Actor) -> None:
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

    def activities_of(self, actor: Actor) -> Sequence[str]:
        """Return the activities that a thread is in, the innermost last."""
        return self.annotations.doing.get(actor.index, ())

    def task_made(self, actor: Actor, name: str) -> int:
        """Note that a thread makes a deferred task; return its number, for `task_run`."""
        return self.annotations.made(self.position(), actor.sim.now, actor.index, name)

    def task_run(self, actor: Actor, task: int) -> None:
        """Note that the next directive of a thread is that task."""
        self.annotations.run(self.position(), actor.sim.now, actor.index, task)

    def called_with(self, actor: Actor, arguments: Arguments) -> None:
        """Note the arguments of the call that a thread is in."""
        self.annotations.call(self.position(), actor.sim.now, actor.index, arguments)

    def arrived(self, sim: Any, kernel: int, launch: Any) -> None:
        """Note that a kernel has reached the compute units."""
        self.arrivals[kernel] = round(sim.now * PS_PER_S), len(self._rows) // WIDTH
        self.launches[kernel] = launch

    def locate(self, directive: int, actor: Actor) -> None:
        """Note where the directive stands that the running actor begins."""
        line = actor.data.get("place")
        self.source_lines[directive] = _line_outside(sys._getframe(2)) if line is None else line

    def call_at(self) -> int:
        """Return the number of the program's line that calls the driver; NO_CAUSE where no history is kept."""
        if not self._history or not (line := _line_outside(sys._getframe(2))):
            return NO_CAUSE
        number = self._calling.setdefault(line, FIRST_CALL + len(self._calling))
        self.source_lines[number] = line
        return number

    @property
    def rows(self) -> list[Resumption]:
        """Return every resumption, in order."""
        fields = iter(self._rows)
        return [
            Resumption(position, round(time * PS_PER_S), by, to, target, round(since * PS_PER_S), turn)
            for position, time, by, to, target, since, turn in zip(*[fields] * WIDTH, strict=True)
        ]


@cache
def _nature(kind: type) -> tuple[bool, bool]:
    """Tell whether what an actor waits for is a service, and whether it is waited for by turns."""
    return getattr(kind, "is_service", False), getattr(kind, "takes_turns", False)


def _line_outside(frame: FrameType | None) -> str:
    """Return where the innermost frame of a program stands, as "patch.cpp:41"; empty where there is none."""
    while frame is not None and (short := _name_outside(frame.f_code.co_filename)) is None:
        frame = frame.f_back
    return f"{short}:{frame.f_lineno}" if frame is not None and short else ""


@cache
def _name_outside(path: str) -> str | None:
    """Return the name of a source file, None for one of the emulator's own, and "" for the event loop.

    A package in it that has programs, as a user's would be, says so by `HOLDS_PROGRAMS`.
    """
    if path.startswith(_EVENT_LOOP):
        return ""
    if path.startswith(_LIBRARY) and "-packages" not in path:
        return None
    if path.startswith(_FOLDER):
        package = sys.modules.get(f"{_PROJECT}.{path.removeprefix(_FOLDER).partition('/')[0]}")
        if package is not None and not getattr(package, "HOLDS_PROGRAMS", False):
            return None
    return path.rpartition("/")[2]
