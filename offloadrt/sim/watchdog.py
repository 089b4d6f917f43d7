"""The watchdog: ends a run from within the clock hook, where no error may be raised."""

from __future__ import annotations

from math import inf

import outcome
from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled

from offloadrt.sim import story
from offloadrt.sim.actor import Scheduler


class Watchdog:
    """A task that waits for an error to raise. Its methods return what the clock hook is to return to Trio.

    An exception out of the clock hook would be an internal error of Trio, and would leave the tasks without clean-up.
    """

    def __init__(self, sim: Scheduler) -> None:
        self._sim = sim
        self._task: Task | None = None

    async def wait(self) -> None:
        """Wait for the error, for as long as the run lasts."""
        self._task = current_task()

        def abort(_: object) -> Abort:
            self._task = None
            return Abort.SUCCEEDED

        await wait_task_rescheduled(abort)

    def fail(self, error: BaseException) -> float:
        """Raise an error in the run: all actors are cancelled."""
        # What happens from now on is clean-up: no wake-up of it is a violation any more.
        self._sim.ending = True
        if (task := self._task) is None:  # the run is cancelled from outside, and with it the task that would raise it
            self._sim.violation = error
            return self.force_out()
        self._task = None
        self._sim.expected = task
        reschedule(task, outcome.Error(error))
        return 0

    def force_out(self) -> float:
        """End the waits of a run that is ending, but whose clean-up waits for ever (shielded from cancellation)."""
        sim = self._sim
        error = sim.violation or story.deadlock(sim)

        def raise_error() -> None:
            raise error

        # One after the other in order of spawning; whoever is not parked will be asked again when nothing is due.
        parked = [actor for actor in sim.actors.values() if actor.interruption is None and actor.interrupt(raise_error)]
        return 0 if parked else inf
