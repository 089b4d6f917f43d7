"""`CausalLog`: which actor resumed which other one, and at which source line each directive stands.

These are recorded beside the events and not among them: they enter neither the trace hash nor any count. So recording
them does not change a run.
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

FIRST_TASK = 1 << 50
"""The number of the first deferred task's arrow; smaller ones are numbers of directives and of resumptions."""

Arguments = Mapping[str, int | str]
"""Arguments of a call by name, such as {"bytes": 4096}."""


class Annotation(NamedTuple):
    """Something that a picture of a run shows besides its events: waits for other threads, arguments of calls.

    It says what one actor (a thread, or a part of the machine or driver) did at a time. Annotations are not among the
    trace's events, so that the trace hash and all counts are the same without them; by `position` they can be merged
    with the events into one order. `time_ps` is the time in picoseconds, and `actor` the actor's index. `arguments` is
    set only if `what` is "arguments".
    """

    position: int
    """How many events the trace had before it."""
    time_ps: int
    actor: int
    what: str
    """"begin" or "end" of an activity; "gave": the actor let `other` go on; "made": it created a deferred task; "run":
    its next directive is a deferred task; "arguments": those of the call that the actor is in."""
    name: str
    """The name of the activity or of the task."""
    other: int = 0
    """For "gave" the index of the actor that goes on; for "made" and "run" the number of the task and its arrow."""
    arguments: Arguments | None = None


NOBODY = -1
"""The giver of a resumption that no actor caused: a timeout of Trio, or the beginning of the run."""

FIRST_CALL = 1 << 45
"""Lines that call the driver outside of directives, as in a CUDA program, are numbered from here on."""
_PROJECT = __name__.partition(".")[0]
_FOLDER = f"{Path(__file__).parents[2]}/"
"""The emulator's own code. A directive's line is that of the innermost frame outside, or in a package of programs."""
_LIBRARY, _EVENT_LOOP = f"{Path(contextlib.__file__).parent}/", f"{Path(trio.__file__).parent}/"
"""Frames of the standard library are skipped. Code that the event loop called directly belongs to no program."""


class Resumption(NamedTuple):
    """Says that one actor, the giver, let another actor that waited, the taker, go on.

    An actor is a thread of the program, or a part of the machine or the driver, such as a copy engine. `time_ps` is the
    moment in picoseconds; `giver` and `taker` are the actors' indices.
    """

    position: int
    """How many events the trace had before it."""
    time_ps: int
    giver: int
    taker: int
    target: str
    """The name of what the taker waited for; empty if unknown here, as for a lock, whose waits are events."""
    since_ps: int
    """When the taker began to wait, in picoseconds."""
    turn: bool
    """Whether the taker waited for its turn at a lock or server, rather than for a result of the giver."""


WIDTH = len(Resumption._fields)


class CausalLog:
    """Observes a simulation: records which actor let which other one go on, what threads did, and source lines.

    An actor is a thread of the program, or a part of the machine or the driver. The critical path is found from this
    record. `position` returns the number of events so far (`Trace.count`). history: whether to keep every resumption
    (one actor letting another go on), for `rows`; without it only `annotations` are kept, which suffice for a picture.
    """

    def __init__(self, history: bool = True) -> None:
        self.annotations: deque[Annotation] = deque()
        """In order; a drawing removes them, the oldest first."""
        self._doing: dict[int, list[str]] = {}
        """By thread: the names of the activities that it is in, the innermost last."""
        self._tasks = FIRST_TASK
        self._history = history
        self.position: Callable[[], int] = int
        self.source_lines: dict[int, str] = {}
        """By directive: its source line, as "patch.cpp:41"; from FIRST_CALL on, those of calls outside directives."""
        self.arrivals: dict[int, tuple[int, int]] = {}
        """By kernel: when it reached the compute units, in picoseconds, and the number of resumptions until then."""
        self.launches: dict[int, Any] = {}
        """By kernel: its `Launch`, for those that reached the compute units."""
        self._rows: list[Any] = []
        """The fields of all resumptions in one flat list, times in seconds: no tuple per resumption is kept."""
        self._ended = NOBODY
        self._calling: dict[str, int] = {}

    def resumed(self, sim: Any, actor: Actor) -> None:
        """Record that the running actor lets `actor` (a thread or part of the machine) go on after a wait.

        It is also called when the running actor sets the timer that will let `actor` go on.
        """
        target = actor.waits_for
        giver = sim.running or SELF.get(None)
        if giver is actor:
            return
        if giver is None or not giver.is_actor:
            by = NOBODY
        else:
            by = giver.index
            if doing := self._doing.get(actor.index):
                self._annotate(giver, "gave", doing[-1], actor.index)
        if not self._history:
            return
        if target is None:
            self._rows += (self.position(), sim.now, by, actor.index, "", sim.now, False)
        else:
            is_service, turn = _nature(target.__class__)
            if not is_service:
                self._rows += (self.position(), sim.now, by, actor.index, target.name, actor.waits_since, turn)

    def joined(self, sim: Any, actor: Actor, since: float) -> None:
        """Record that a thread waited for the end of all threads that it had started.

        actor: the thread that waited. since: when it began to wait, in virtual seconds.
        """
        if sim.now > since and self._history:
            self._rows += (self.position(), sim.now, self._ended, actor.index, "end of its team", since, False)

    def finished(self, actor: Actor) -> None:
        """Record that a thread has ended; its parent, which waits for all (`joined`), waits for the last to end."""
        self._ended = actor.index

    def begin(self, actor: Actor, activity: str) -> None:
        """Record that a thread (`actor`) begins an activity, such as "barrier", "taskwait", "depend" or "compute"."""
        self._doing.setdefault(actor.index, []).append(activity)
        self._annotate(actor, "begin", activity)

    def end(self, actor: Actor) -> None:
        """Record that the innermost activity of a thread (`actor`) is over; drop it if nothing happened in it."""
        activities = self._doing[actor.index]
        activity = activities.pop()
        if not activities:
            del self._doing[actor.index]
        begun = (self.position(), round(actor.sim.now * PS_PER_S), actor.index, "begin", activity)
        if self.annotations and self.annotations[-1][:5] == begun:
            self.annotations.pop()  # the thread neither waited nor resumed another one in it
        else:
            self._annotate(actor, "end", activity)

    def activities_of(self, actor: Actor) -> Sequence[str]:
        """Return the names of the activities that a thread (`actor`) is in, such as "barrier", the innermost last."""
        return self._doing.get(actor.index, ())

    def task_made(self, actor: Actor, name: str) -> int:
        """Record that a thread (`actor`) creates a deferred task; return the number of the task, for `task_run`."""
        self._tasks += 1
        self._annotate(actor, "made", name, self._tasks)
        return self._tasks

    def task_run(self, actor: Actor, task: int) -> None:
        """Record that the next directive of a thread (`actor`) is the deferred task with this number."""
        self._annotate(actor, "run", "", task)

    def called_with(self, actor: Actor, arguments: Arguments) -> None:
        """Record the arguments of the call of the driver that a thread (`actor`) is in."""
        self._annotate(actor, "arguments", "", 0, arguments)

    def _annotate(self, actor: Actor, what: str, name: str, other: int = 0, arguments: Arguments | None = None) -> None:
        now_ps = round(actor.sim.now * PS_PER_S)
        self.annotations.append(Annotation(self.position(), now_ps, actor.index, what, name, other, arguments))

    def arrived(self, sim: Any, kernel: int, launch: Any) -> None:
        """Record that a kernel has reached the compute units.

        kernel: its number. launch: its `Launch`, kept for the counts of its work.
        """
        self.arrivals[kernel] = round(sim.now * PS_PER_S), len(self._rows) // WIDTH
        self.launches[kernel] = launch

    def locate(self, directive: int, actor: Actor) -> None:
        """Record the source line of a directive that a thread (`actor`) begins. directive: the directive's number."""
        line = actor.data.get("place")
        self.source_lines[directive] = _line_outside(sys._getframe(2)) if line is None else line

    def call_at(self) -> int:
        """Return a number that stands for the program's source line which makes the current call.

        `source_lines` has the line for each number. Returns NO_CAUSE if no history is kept, or if no line of the
        program calls.
        """
        if not self._history or not (line := _line_outside(sys._getframe(2))):
            return NO_CAUSE
        number = self._calling.setdefault(line, FIRST_CALL + len(self._calling))
        self.source_lines[number] = line
        return number

    @property
    def rows(self) -> list[Resumption]:
        """Return, in order, each moment at which one actor (thread, part of the machine) let another go on that waited.

        The list is empty if these moments are not kept.
        """
        fields = iter(self._rows)
        return [
            Resumption(position, round(time * PS_PER_S), by, to, target, round(since * PS_PER_S), turn)
            for position, time, by, to, target, since, turn in zip(*[fields] * WIDTH, strict=True)
        ]


@cache
def _nature(kind: type) -> tuple[bool, bool]:
    """Return whether a class that actors wait for is a service, and whether those who wait take turns."""
    return getattr(kind, "is_service", False), getattr(kind, "takes_turns", False)


def _line_outside(frame: FrameType | None) -> str:
    """Return the line of the innermost frame that is in a program, as "patch.cpp:41"; empty if there is none."""
    while frame is not None and (short := _name_outside(frame.f_code.co_filename)) is None:
        frame = frame.f_back
    return f"{short}:{frame.f_lineno}" if frame is not None and short else ""


@cache
def _name_outside(path: str) -> str | None:
    """Return the name of a source file, None for one of the emulator's own, and "" for the event loop.

    A package of the emulator that contains programs, such as `papers`, sets `HOLDS_PROGRAMS`.
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
