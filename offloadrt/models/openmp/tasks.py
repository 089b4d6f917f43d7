"""Deferred target tasks: `nowait` with `depend`, run by hidden helper threads, awaited by `taskwait` and barriers.

Follows LLVM's libomp: the encountering thread creates the task and enters its dependences; when the last of them is
done the task goes to the hidden helper threads (8 unless LIBOMP_NUM_HIDDEN_HELPER_THREADS says otherwise), which run it
as a host thread would. A helper waits for the device at the end of its directive; LLVM's may put the task back and look
at it again later, so that there more directives than helpers can be in flight.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable

import attrs

from offloadrt.models.openmp.clauses import Depend
from offloadrt.sim import Mailbox, Signal, Simulation
from offloadrt.trace import HostTime


@attrs.define(eq=False)
class Task:
    """A deferred target task; `done` is set when it has completed."""

    name: str
    run: Callable[[], Awaitable[object]]
    done: Signal
    waiting_for: int = 0
    successors: list[Task] = attrs.field(factory=list)


@attrs.frozen
class RunTask:
    """Sent to the hidden helper threads: run this, all its dependences are satisfied."""

    task: Task


MESSAGES = (RunTask,)


@attrs.define(eq=False)
class _LastUsers:
    """The task that wrote one dependence object last, and those that have read it since."""

    writer: Task | None = None
    readers: list[Task] = attrs.field(factory=list)


@attrs.define(eq=False)
class TaskRegion:
    """The tasks that one implicit task (a host thread) has generated, and the order among them."""

    children: list[Task] = attrs.field(factory=list)
    _users: dict[Hashable, _LastUsers] = attrs.field(factory=dict)

    def predecessors(self, depends: tuple[Depend, ...]) -> list[Task]:
        """Unfinished tasks that must complete first, each once, in order of creation."""
        unfinished: dict[Task, None] = {}
        for clause in depends:
            for item in (*clause.reads, *clause.writes):
                users = self._users.get(item)
                if users is not None and users.writer is not None:
                    unfinished[users.writer] = None
            for item in clause.writes:
                users = self._users.get(item)
                if users is not None:
                    unfinished.update(dict.fromkeys(users.readers))
        return [task for task in self.children if task in unfinished and not task.done.is_set]

    def enter(self, task: Task, depends: tuple[Depend, ...]) -> None:
        """Add a task after `predecessors` was asked."""
        self.children.append(task)
        for clause in depends:
            for item in clause.reads:
                self._users.setdefault(item, _LastUsers()).readers.append(task)
            for item in clause.writes:
                self._users[item] = _LastUsers(writer=task)


class HiddenHelpers:
    """The team of hidden helper threads: daemon actors that take ready tasks in order.

    A helper lives, for the accounting of host time, while it runs a task.
    """

    def __init__(self, sim: Simulation, count: int, host_time: HostTime) -> None:
        self.sim = sim
        self.count = count
        self._host_time = host_time
        self._unfinished: dict[Task, None] = {}
        self._ready = Mailbox(sim, "hidden helper threads")

    def start(self) -> None:
        for number in range(self.count):
            self.sim.spawn(self._serve, name=f"hidden helper thread {number}", daemon=True)

    async def _serve(self) -> None:
        while True:
            message = await self._ready.get()
            if not isinstance(message, RunTask):
                raise TypeError(f"a hidden helper thread does not understand {message!r}")
            task = message.task
            begin = self.sim.now
            await task.run()
            self._host_time.lived(self.sim.now - begin)
            del self._unfinished[task]
            task.done.set()
            for successor in task.successors:
                successor.waiting_for -= 1
                if not successor.waiting_for:
                    self._ready.put(RunTask(successor))

    def submit(
        self, region: TaskRegion, name: str, run: Callable[[], Awaitable[object]], depends: tuple[Depend, ...]
    ) -> Task:
        """Create a deferred task. It starts when its predecessors are done; nobody waits here."""
        task = Task(name, run, Signal(self.sim, name))
        before = region.predecessors(depends)
        region.enter(task, depends)
        self._unfinished[task] = None
        task.waiting_for = len(before)
        for predecessor in before:
            predecessor.successors.append(task)
        if not before:
            self._ready.put(RunTask(task))
        return task

    async def drain(self) -> None:
        """Wait for all tasks of all regions, those included that are created meanwhile."""
        while self._unfinished:
            await wait_for(list(self._unfinished))


async def wait_for(tasks: list[Task]) -> None:
    for task in tasks:
        await task.done.wait()


async def taskwait(region: TaskRegion, depends: tuple[Depend, ...] = ()) -> None:
    """Wait for all tasks of the region, or only for those that the dependences name."""
    if depends:
        await wait_for(region.predecessors(depends))
        return
    while region.children:
        await wait_for(list(region.children))
        region.children = [task for task in region.children if not task.done.is_set]
