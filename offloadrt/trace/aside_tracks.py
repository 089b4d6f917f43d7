"""Draws `Asides` on the tracks of host threads: activities, who let whom go on, and from where deferred tasks come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from offloadrt.trace.asides import Aside
from offloadrt.trace.call_notes import CallNotes
from offloadrt.trace.tracks import Notes, ThreadTracks

DOING = "doing"
"""How `ThreadTracks` knows an activity."""


@attrs.define(eq=False)
class AsideTracks:
    """Takes asides from a queue as the events pass by to which they belong.

    arrow: gives the number of a new arrow. is_thread: tells whether an actor has a track among the host threads.
    """

    _waiting: deque[Aside]
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

    def _draw(self, aside: Aside) -> None:
        actor, threads, now = aside.actor, self._threads, aside.time_ps
        match aside.what:
            case "begin":
                self._givers.pop(actor, None)
                threads.begin(actor, now, (DOING, aside.name), aside.name)
            case "end":
                giver = self._givers.pop(actor, "")
                notes: Notes = {"let go on by": giver} if giver else {}
                threads.end(actor, now, (DOING, aside.name), notes)
            case "gave":
                self._gave(aside)
            case "made":
                threads.canvas.instant(threads.track(actor), now, f"make task {aside.name}", {}, (aside.other,))
            case "run":
                self._tasks[actor] = aside.other
            case "arguments":
                self._calls.tell(actor, self._devices.get(actor, -1), dict(aside.arguments or {}))
            case _:
                raise ValueError(f"an aside of no known kind: {aside}")

    def _gave(self, aside: Aside) -> None:
        """Lead an arrow from a thread to the one that it lets go on; a device has no track to begin it on."""
        giver, taker, threads = aside.actor, aside.other, self._threads
        if not threads.is_innermost(taker, (DOING, aside.name)):
            return  # it waits for something else meanwhile, inside of the activity
        self._givers[taker] = threads.name(giver)
        if self._is_thread(giver):
            flows = (self._arrow(),)
            name = f"{aside.name}: let go on {threads.name(taker)}"
            threads.canvas.instant(threads.track(giver), aside.time_ps, name, {}, flows)
            name = f"{aside.name}: let go on by {threads.name(giver)}"
            threads.canvas.instant(threads.track(taker), aside.time_ps, name, {}, flows)
