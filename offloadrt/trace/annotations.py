"""`Annotations`: what a picture of a run shows besides its events: waits for other threads, arguments of calls.

They are recorded beside the events, each with the number of events before it, so that the two can be put in one order
and neither the trace hash nor any count knows of them. `offloadrt.trace.annotation_tracks` draws them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from offloadrt.trace.event import PS_PER_S

FIRST_TASK = 1 << 50
"""The number of the first deferred task's arrow; smaller ones are numbers of directives and of hand-overs."""

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
        self,
        position: int,
        now: float,
        actor: int,
        what: str,
        name: str,
        other: int = 0,
        arguments: Arguments | None = None,
    ) -> None:
        self.waiting.append(Annotation(position, round(now * PS_PER_S), actor, what, name, other, arguments))
