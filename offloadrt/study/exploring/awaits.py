"""Where a program waits: every call of the driver libraries, and every wait of one of its threads.

`AwaitRecorder` records both in a run in the order of scheduling, in the gear ``native``, where each step of an actor
is a step of its Trio task; the other gear has the same history. `EndCheck` looks after a run with faults: it brings the
program to its end when an error has ended it, and says what does not hold of the runtime's state then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio
from trio.lowlevel import Task, add_instrument, remove_instrument

from offloadrt.runtime.invariants import held, unreturned, violations
from offloadrt.sim import Actor
from offloadrt.sim.scheduler import SELF
from offloadrt.study.exploring.outcome import RunOutcome, reported
from offloadrt.study.running.run import Run

NEVER = "call:1000000000000"
"""A fault that strikes nothing, with which a run counts the calls of its driver libraries."""
_ENDINGS = "rest of directive"
"""Beginning of the names of actors that finish a directive which its thread has left."""


@attrs.frozen
class Wait:
    """A thread waited from one virtual time to another."""

    actor: int
    thread: str
    begin: float
    end: float

    @property
    def fault(self) -> str:
        """Return the fault that kills the thread in the middle of this wait."""
        return f"thread:#{self.actor}@{(self.begin + self.end) / 2!r}s"


@attrs.define(eq=False)
class AwaitRecorder(trio.abc.Instrument):
    """Records the awaits of a run."""

    waits: list[Wait] = attrs.field(factory=list)
    calls: list[str] = attrs.field(factory=list)
    """The calls of the driver libraries, by name, in order."""
    _since: dict[Actor, float] = attrs.field(factory=dict)

    @asynccontextmanager
    async def around(self, run: Run) -> AsyncIterator[None]:
        """Record while the body runs."""
        add_instrument(self)
        try:
            yield
        finally:
            remove_instrument(self)
        if run.injector is not None:
            self.calls += run.injector.calls

    def before_task_step(self, task: Task) -> None:
        actor = _actor_of(task)
        if actor is not None and (since := self._since.pop(actor, None)) is not None and actor.sim.now > since:
            self.waits.append(Wait(actor.index, actor.name, since, actor.sim.now))

    def after_task_step(self, task: Task) -> None:
        if (actor := _actor_of(task)) is not None and not actor.finished:
            self._since[actor] = actor.sim.now

    def call_faults(self) -> list[str]:
        """Return a fault for each call; an allocation finds device memory exhausted from then on."""
        seen: Counter[str] = Counter()
        faults = []
        for number, call in enumerate(self.calls, 1):
            seen[call] += 1
            allocates = "Alloc" in call or "allocate" in call
            faults.append(f"{call}:{seen[call]}+" if allocates else f"call:{number}")
        return faults


def _actor_of(task: Task) -> Actor | None:
    """Return the thread of the program that a task is; None for daemons, the first actor and endings."""
    actor = task.context.get(SELF)
    if actor is None or actor.task is not task or actor.daemon or not actor.index:
        return None
    return None if actor.name.startswith(_ENDINGS) else actor


@attrs.define
class EndCheck:
    """Brings a program to its end after an error, and notes what does not hold then."""

    violations: list[str] = attrs.field(factory=list)

    def outcome(self, ended: RunOutcome) -> RunOutcome:
        """Return the outcome of a run that ended so, and left something behind."""
        return reported([f"{line} (after: {ended.text})" for line in self.violations])

    @asynccontextmanager
    async def around(self, run: Run) -> AsyncIterator[None]:
        """Look at the run's state after the body, unless the run itself has been ended."""
        try:
            yield
        except (trio.Cancelled, KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            for process in run.processes:
                await process.program.end_tasks()
            await run.finish(measure=False)
            self._look(run)
            raise
        self._look(run)

    def _look(self, run: Run) -> None:
        devices = [device for process in run.processes for device in process.program.devices]
        self.violations += held(run.sim)
        self.violations += [line for device in devices for line in violations(device)]
        if run.options.model in ("openmp", "openacc"):  # others call the driver library themselves
            self.violations += [line for device in devices for line in unreturned(device)]
        busy = [actor.name for actor in run.sim.actors.values() if not actor.daemon and actor is not run.sim.current]
        self.violations += [f"{name} has not ended" for name in busy]
