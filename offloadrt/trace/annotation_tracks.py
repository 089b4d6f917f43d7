"""Draws `Annotations` on the tracks of host threads: activities, hand-overs, and which thread made a deferred task."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from offloadrt.trace.annotations import Annotation
from offloadrt.trace.call_notes import CallNotes
from offloadrt.trace.tracks import Notes, ThreadTracks

DOING = "doing"
"""How `ThreadTracks` knows an activity."""


@attrs.define(eq=False)
class AnnotationTracks:
    """Takes annotations from a queue as the events pass by to which they belong.

    arrow: gives the number of a new arrow. is_thread: tells whether an actor has a track among the host threads.
    """

    _waiting: deque[Annotation]
    _threads: ThreadTracks
    _calls: CallNotes
    _arrow: Callable[[], int]
    _is_thread: Callable[[int], bool]
    _givers: dict[int, str] = attrs.field(factory=dict, init=False)
    """Who let each thread go on last, in its activity."""
    _tasks: dict[int, int] = attrs.field(factory=dict, init=False)
    """The arrow to the deferred task that each thread is about to run."""
    _devices: dict[int, int] = attrs.field(factory=dict, init=False)

    def until(self, position: int) -> None:
        """Draw what happened before the event of that number."""
        waiting = self._waiting
        while waiting and waiting[0].position <= position:
            self._draw(waiting.popleft())

    def finish(self) -> None:
        """Draw what is left."""
        while self._waiting:
            self._draw(self._waiting.popleft())

    def enters(self, actor: int, device: int) -> None:
        """Note the device of the call that a thread enters."""
        self._devices[actor] = device

    def task_of(self, actor: int) -> tuple[int, ...]:
        """Return the arrow into the directive that a thread begins, if it is a deferred task."""
        task = self._tasks.pop(actor, None)
        return () if task is None else (task,)

    def _draw(self, annotation: Annotation) -> None:
        actor, threads, now = annotation.actor, self._threads, annotation.time_ps
        match annotation.what:
            case "begin":
                self._givers.pop(actor, None)
                threads.begin(actor, now, (DOING, annotation.name), annotation.name)
            case "end":
                giver = self._givers.pop(actor, "")
                notes: Notes = {"let go on by": giver} if giver else {}
                threads.end(actor, now, (DOING, annotation.name), notes)
            case "gave":
                self._gave(annotation)
            case "made":
                name = f"make task {annotation.name}"
                threads.canvas.instant(threads.track(actor), now, name, {}, (annotation.other,))
            case "run":
                self._tasks[actor] = annotation.other
            case "arguments":
                self._calls.tell(actor, self._devices.get(actor, -1), dict(annotation.arguments or {}))
            case _:
                raise ValueError(f"an annotation of no known kind: {annotation}")

    def _gave(self, annotation: Annotation) -> None:
        """Lead an arrow from a thread to the one that it lets go on; a device has no track to begin it on."""
        giver, taker, threads = annotation.actor, annotation.other, self._threads
        if not threads.is_innermost(taker, (DOING, annotation.name)):
            return  # it waits for something else meanwhile, inside of the activity
        self._givers[taker] = threads.name(giver)
        if self._is_thread(giver):
            flows = (self._arrow(),)
            name = f"{annotation.name}: let go on {threads.name(taker)}"
            threads.canvas.instant(threads.track(giver), annotation.time_ps, name, {}, flows)
            name = f"{annotation.name}: let go on by {threads.name(giver)}"
            threads.canvas.instant(threads.track(taker), annotation.time_ps, name, {}, flows)
