"""Watches what Trio does with the tasks of a run: anything that it decides by itself could differ from run to run.

`TrioWatch` finds violations. `Watchdog` raises them in a task, because the clock hook that finds them must not raise.
"""

from __future__ import annotations

import inspect
import os
import sys
from functools import partial
from math import inf
from typing import Any

import outcome
import trio
from trio.lowlevel import (
    Abort,
    Task,
    current_root_task,
    current_statistics,
    current_task,
    reschedule,
    wait_task_rescheduled,
)

from offloadrt.sim import story
from offloadrt.sim.errors import RealInputOutput, SimulationError, UncontrolledNondeterminism
from offloadrt.sim.scheduler import SELF, Scheduler, task_in_a_step


# ---------------------------------------------------------------------- the watchdog
# The watchdog: ends a run from within the clock hook, where no error may be raised.
class Watchdog:
    """Raises errors of a run in a Trio task of its own, from which Trio cancels all actors.

    Trio asks the clock how long to sleep (`deadline_to_sleep_time`). An exception raised there would be an internal
    error of Trio, and the tasks would get no clean-up.
    """

    def __init__(self, sim: Scheduler) -> None:
        self._sim = sim
        self._task: Task | None = None

    async def wait(self) -> None:
        """Wait until `fail` reports an error of the run, and raise it; the run's end cancels this wait."""
        self._task = current_task()

        def abort(_: object) -> Abort:
            self._task = None
            return Abort.SUCCEEDED

        await wait_task_rescheduled(abort)

    def fail(self, error: BaseException) -> float:
        """Raise `error` in the watchdog's task, which cancels all actors; return how long the clock lets Trio sleep."""
        # What happens from now on is clean-up: no wake-up of it is a violation any more.
        self._sim.ending = True
        if (task := self._task) is None:  # the run is cancelled from outside, and with it the task that would raise it
            self._sim.violation = error
            return 0
        self._task = None
        self._sim.expected = task
        reschedule(task, outcome.Error(error))
        return 0


OUTSIDE = tuple(f"trio._{name}" for name in ("threads", "core._io_", "core._wakeup", "subprocess", "signals", "socket"))
"""Modules of Trio in which a task waits for something outside virtual time (a diagnosis; a test pins the list)."""

HELP = "put it before or after the run, or give it a cost: 'await sim.sleep(dt)'"


class TrioWatch(trio.abc.Instrument):
    """A Trio instrument that looks for wake-ups of tasks that the scheduler did not cause, and for endless loops.

    The first violation becomes ``sim.violation``, which ``watchdog`` raises. A run may take `livelock_limit` steps at
    one instant, more with many actors. The instrument costs a tenth of a step at each wake-up, so it is added only when
    a task of the run may wait in Trio itself: an actor has parked outside the primitives of `sim`, or Trio runs tasks
    that are not new actors.
    """

    def __init__(self, sim: Scheduler, watchdog: Watchdog, livelock_limit: int) -> None:
        self.sim = sim
        self._watchdog = watchdog
        self._livelock_limit = livelock_limit
        self._looks = 0
        self._still = 0
        self._still_at = -1.0
        self.root: Task | None = None
        self.dormant = False
        """Whether the run has begun and no task of it can be waiting in Trio yet."""
        self._counting = False
        """Whether passes of Trio are counted: from the first wake-up that Trio caused itself."""
        self._passes = 0
        self._woken_in = -1
        self._woken: Task | None = None
        self._wakes = 0
        self._wakes_at = -1.0

    def begin(self, dormant: bool) -> None:
        """Begin to watch the run; with `dormant`, watch wake-ups only after a call of `wake_up`."""
        self.dormant = True
        if not dormant:
            self.wake_up()

    def wake_up(self) -> None:
        """Begin to watch the wake-ups of Trio's tasks, if `begin` was called with `dormant`."""
        if self.dormant:
            self.dormant = False
            trio.lowlevel.add_instrument(self)

    def end(self) -> None:
        if not self.dormant:  # pragma: no branch - only Ctrl-C ends a run before Trio has woken somebody
            trio.lowlevel.remove_instrument(self)
        self.dormant = False

    def unordered_pass(self) -> None:
        """Count a pass of Trio's loop that the scheduler did not cause; watch wake-ups if a task in it is no new actor.

        A pass runs all tasks that are ready. Before it, Trio asks the clock for the time, and the clock calls this.
        """
        if not (self.dormant or self._counting):
            return
        if task_in_a_step() is not None:  # it is not Trio that asks for the time
            return
        self._passes += 1
        if not self.dormant:
            return
        self.dormant = False  # current_statistics asks the clock for the time
        runnable = current_statistics().tasks_runnable
        self.dormant = True
        if runnable:
            self.sim.running = None
            if runnable != self.sim.newborn:
                self.wake_up()
            self.sim.newborn = 0

    def task_scheduled(self, task: Task) -> None:
        sim = self.sim
        if task is sim.expected:
            sim.expected = None
            return
        if not sim.turbo:
            sim.running = None  # other tasks than the actor that the scheduler knows of may run next
        if sim.by_scheduler or sim.violation is not None or sim.ending:
            return
        actor = task.context.get(SELF)
        # A new task is no violation: Trio takes new tasks in any order, and an actor's first step only parks it.
        if actor is None or actor.sim is not sim or inspect.getcoroutinestate(task.coro) == inspect.CORO_CREATED:
            return
        waker = task_in_a_step()
        if waker is None and sim.running is not None and sim.running.is_actor:
            sim.violation = story.detached_call(sim, sim.running, story.running(sys._getframe()))
            return
        # Neither a task of the run nor a deadline has woken it, so something outside did, such as a thread that has
        # ended.
        if (waker is None and not sim.timer_due) or (waker and waker is not self.root and _is_system_task(waker)):
            sim.violation = self._outside(task, "was woken by")
            return
        if self._many_steps_at_one_instant():
            self._watchdog.fail(story.livelock(sim, self._wakes))
            return
        self._counting = True
        # Trio runs the tasks of one pass in random order. A task that a step wakes runs in the next pass, all others in
        # this one.
        batch = self._passes + (waker is not None)
        other, self._woken = self._woken, task
        same_batch, self._woken_in = batch == self._woken_in, batch
        if same_batch and other is not None and not _cancelled(task) and not _cancelled(other):
            sim.violation = UncontrolledNondeterminism(
                f"t={sim.now:g}: Trio woke {other.name!r} and {task.name!r} at the same instant and orders them at "
                "random; let them wait on primitives of the run (sim.sleep, Lock, Signal, ...), or at different times"
            )

    def _many_steps_at_one_instant(self) -> bool:
        """Tell whether an instant had too many wake-ups: a task that spins in Trio's checkpoints stops the clock."""
        if self.sim.now != self._wakes_at:
            self._wakes_at = self.sim.now
            self._wakes = 0
        self._wakes += 1
        return self._wakes > self._limit()

    def look_around(self, steps: int) -> None:
        """Look for a livelock and for waits on real input or output; the scheduler calls this every ``steps`` steps."""
        sim = self.sim
        self._still = self._still + steps if sim.now == self._still_at else 0
        self._still_at = sim.now
        self._looks += 1
        if sim.violation is not None:
            return
        if self._still > self._limit():
            sim.violation = story.livelock(sim, self._still)
        elif self._looks & (self._looks - 1) == 0:  # at looks 1, 2, 4, 8, ...: walking through all frames is slow
            sim.violation = self.blocked_outside()

    def _limit(self) -> int:
        """Return how many steps a run may take at one instant before it is a livelock; more with many actors."""
        return self._livelock_limit + 1000 * len(self.sim.actors)

    def quiescent(self) -> float:
        """Report an error if no actor is due but some remain: a deadlock, or a wait for the real world.

        Returns how many real seconds Trio may sleep.
        """
        sim = self.sim
        if sim.ending:
            return self._force_out(sim.violation or story.deadlock(sim))
        if any(not actor.daemon for actor in sim.actors.values()):
            return self._watchdog.fail(self.blocked_outside() or story.deadlock(sim))
        return inf

    def _force_out(self, error: BaseException) -> float:
        """End waits that last for ever because clean-up is shielded from cancellation; return how long Trio sleeps."""

        def raise_error() -> None:
            raise error

        # In order of spawning; actors that are not parked come again here when nothing is due.
        actors = self.sim.actors.values()
        if [actor for actor in actors if actor.interruption is None and actor.interrupt(raise_error)]:
            return 0
        if any(not actor.daemon for actor in actors) and not self.blocked_outside():
            raise error  # breaks Trio, where real time would be waited for without end
        return inf

    def blocked_outside(self) -> SimulationError | None:
        """Return an error if a task of the run waits for something in real time (a thread, a socket); else None."""
        for actor in self.sim.actors.values():
            if actor.task is None or actor.waits_for is not None:
                continue
            for task in _family(actor.task):
                names = [(f.f_globals.get("__name__", ""), f.f_code.co_name) for f, _ in task.iter_await_frames()]
                if any(name == "wait_all_tasks_blocked" for _, name in names):
                    return SimulationError(
                        f"t={self.sim.now:g}: {task.name!r} waits in trio.testing.wait_all_tasks_blocked(), which "
                        "makes no sense in virtual time: whenever all tasks are blocked, time passes; use sim.sleep(0)"
                    )
                if any(module.startswith(OUTSIDE) for module, _ in names):
                    return self._outside(task, "waits for")
        return None

    def _outside(self, task: Task, verb: str) -> RealInputOutput:
        return RealInputOutput(
            f"t={self.sim.now:g}: {task.name!r} {verb} something outside virtual time (a thread, socket, process or "
            f"signal); real time does not pass in a run: {HELP}"
        )


def _forked(is_child: bool) -> None:
    """End a run whose program calls `os.fork`, as the new process would go on with the run, too; it ends at once.

    What another process of the standard library does, such as one of `multiprocessing`, is none of the run.
    """
    actor, caller = SELF.get(None), sys._getframe(1)
    if actor is None or not story.is_users(caller.f_code.co_filename):
        return
    if is_child:
        os._exit(0)
    actor.sim.violation = actor.sim.violation or SimulationError(
        f"{story.site([(caller, caller.f_lineno)])}: t={actor.sim.now:g}: {actor.name} calls os.fork, and a run is one "
        "process; `subprocess`, `multiprocessing` and ranks, `run.mpiexec`, are others"
    )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_parent=partial(_forked, False), after_in_child=partial(_forked, True))


def _is_system_task(task: Task) -> bool:
    parent = task.parent_nursery
    return parent is None or parent.parent_task is current_root_task()


def _cancelled(task: Task) -> bool:
    nursery = task.parent_nursery
    return nursery is not None and nursery.cancel_scope.cancel_called


def _family(task: Task) -> list[Task]:
    """Collect a task and the plain Trio tasks below it; actors among them are reported by themselves."""
    family: list[Any] = [task]
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            if child.context.get(SELF) is task.context.get(SELF):
                family.extend(_family(child))
    return family
