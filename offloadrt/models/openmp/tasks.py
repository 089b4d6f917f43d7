"""Deferred target tasks: `nowait` with `depend`, run by hidden helper threads, awaited by `taskwait` and barriers.

Follows LLVM's libomp: the encountering thread creates the task and enters its dependences; when the last of them is
done the task goes to the hidden helper threads (8 unless LIBOMP_NUM_HIDDEN_HELPER_THREADS says otherwise), which run it
as a host thread would. A helper here waits for the device at the end of its directive. A helper of LLVM may put the
task back into the queue and check it later, so that LLVM can have more directives in flight than helpers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator

import attrs

from offloadrt.machine import Machine
from offloadrt.models.openmp.clauses import Depend
from offloadrt.runtime.events import Awaited, Signalled, StrandBegan, StrandEnded, TaskMade, Tell
from offloadrt.sim import Actor, Mailbox, Signal


@attrs.define(eq=False)
class Task:
    """A deferred target task; `done` is set when it has completed."""

    name: str
    run: Callable[[], Awaitable[object]]
    done: Signal
    number: int = 0
    """The task's number, from 1, among the tasks that its host thread has made."""
    waiting_for: int = 0
    """Number of unfinished tasks that must complete before this one."""
    observed: bool = True
    """Whether the program made the task, so that it is reported to an observer."""
    after: tuple[Hashable, ...] = ()
    """The `done` signals of all tasks that the dependences order before this one; set only for an observer."""
    successors: list[Task] = attrs.field(factory=list)
    """The tasks that wait for this one."""
    exclusions: list[_Exclusion] = attrs.field(factory=list)
    """Its mutual exclusions with other tasks, one for each object that its mutexinoutset dependences name."""


@attrs.define(eq=False)
class _Exclusion:
    """The mutual exclusion on one object of a mutexinoutset: the running task, and the ready tasks that wait for it."""

    holder: Task | None = None
    waiting: list[Task] = attrs.field(factory=list)


@attrs.frozen
class RunTask:
    """Asks a hidden helper thread to run this task, whose dependences are satisfied."""

    task: Task


MESSAGES = (RunTask,)


@attrs.define(eq=False)
class _LastUsers:
    """The last tasks that use one dependence object, as in libomp's `kmp_depend_info`.

    writer: the last task that wrote it; last_set: the tasks that have used it since, all in the same way (`way`);
    previous_set: the tasks that used it in another way just before.
    """

    writer: Task | None = None
    last_set: list[Task] = attrs.field(factory=list)
    previous_set: list[Task] = attrs.field(factory=list)
    way: str = ""
    exclusion: _Exclusion = attrs.field(factory=_Exclusion)

    def before(self, way: str) -> list[Task]:
        """Return the tasks that precede a new task that uses the object as `way`: in, out, inoutset, mutexinoutset."""
        if self.last_set and way != self.way:
            return self.last_set
        return [*self.previous_set, *([] if self.writer is None else [self.writer])]

    def enter(self, task: Task, way: str) -> None:
        if way == "out":
            self.writer, self.last_set, self.previous_set, self.way = task, [], [], ""
            return
        if self.last_set and way != self.way:
            self.previous_set, self.last_set, self.writer = self.last_set, [], None
        self.last_set.append(task)
        self.way = way
        if way == "mutexinoutset":
            task.exclusions.append(self.exclusion)


def _ways(depends: tuple[Depend, ...]) -> Iterator[tuple[Hashable, str]]:
    """Yield each dependence object with its use: ``in``, ``out`` (also inout), ``inoutset`` or ``mutexinoutset``."""
    for clause in depends:
        yield from ((item, "in") for item in clause.reads)
        yield from ((item, "mutexinoutset") for item in clause.exclusive)
        yield from ((item, "inoutset") for item in clause.together)
        yield from ((item, "out") for item in clause.writes)


@attrs.define(eq=False)
class TaskRegion:
    """The tasks that one host thread (its implicit task) has generated, and the order among them."""

    children: list[Task] = attrs.field(factory=list)
    _made: int = 0
    _users: dict[Hashable, _LastUsers] = attrs.field(factory=dict)

    def predecessors(self, depends: tuple[Depend, ...]) -> list[Task]:
        """Return the unfinished tasks that must complete before a task with these dependences, in order of creation."""
        unfinished = [task for task in self.ordered_before(depends) if not task.done.is_set]
        return sorted(unfinished, key=lambda task: task.number)

    def ordered_before(self, depends: tuple[Depend, ...]) -> dict[Task, None]:
        """Return the tasks, ended ones included, that must come before a task with these dependences."""
        before: dict[Task, None] = {}
        for item, way in _ways(depends):
            if (users := self._users.get(item)) is not None:
                before.update(dict.fromkeys(users.before(way)))
        return before

    def enter(self, task: Task, depends: tuple[Depend, ...]) -> None:
        """Add a task with its dependences. Call `predecessors` before: afterwards the task is its own predecessor."""
        self.children.append(task)
        task.number = self._made = self._made + 1
        for item, way in _ways(depends):
            self._users.setdefault(item, _LastUsers()).enter(task, way)


class HiddenHelpers:
    """The team of hidden helper threads of LLVM's runtime: daemon actors that run deferred tasks in order of readiness.

    In the sums of host time, a helper counts only while it runs a task.
    """

    def __init__(self, machine: Machine, count: int) -> None:
        self.sim = sim = machine.sim
        self.count = count
        self._host_time = machine.host_time
        self._inherit = machine.cores.inherit
        self._threads: list[Actor] = []
        """The helpers until the first task is submitted, when they inherit the pinning of its maker; then empty."""
        self._unfinished: dict[Task, None] = {}
        self._ready = Mailbox(sim, "hidden helper threads")
        self.tell: Tell | None = None

    def start(self) -> None:
        for number in range(self.count):
            name = f"hidden helper thread {number}"
            self._threads.append(self.sim.spawn(self._serve, name=name, daemon=True, serves=self._ready))

    async def _serve(self) -> None:
        while True:
            message = await self._ready.get()
            if not isinstance(message, RunTask):
                raise TypeError(f"a hidden helper thread does not understand {message!r}")
            task = message.task
            taken = next((one for one in task.exclusions if one.holder is not None), None)
            if taken is not None:
                taken.waiting.append(task)
                continue
            for one in task.exclusions:
                one.holder = task
            begin = self.sim.now
            tell = self.tell if task.observed else None
            if tell is not None:
                tell(StrandBegan(task.name, (*task.after, *task.exclusions), task))
            await task.run()
            if tell is not None:
                for one in task.exclusions:
                    tell(Signalled(one))
                tell(StrandEnded(task.done))
            self._host_time.lived(self.sim.now - begin)
            del self._unfinished[task]
            task.done.set()
            for one in task.exclusions:
                one.holder = None
                while one.waiting:
                    self._ready.put(RunTask(one.waiting.pop(0)))
            for successor in task.successors:
                successor.waiting_for -= 1
                if not successor.waiting_for:
                    self._ready.put(RunTask(successor))

    def submit(
        self,
        region: TaskRegion,
        name: str,
        run: Callable[[], Awaitable[object]],
        depends: tuple[Depend, ...],
        *,
        observed: bool = True,
    ) -> Task:
        """Return a new deferred task, which calls `run` after its dependences. observed: reported to observers."""
        task = Task(name, run, Signal(self.sim, name), observed=observed)
        before = region.predecessors(depends)
        if self.tell is not None and observed:
            task.after = tuple([one.done for one in region.ordered_before(depends)])
            self.tell(TaskMade(task, f"the task of {name} nowait"))
        region.enter(task, depends)
        if self._threads:
            self._inherit(self._threads, self.sim.current)
            self._threads = []
        self._unfinished[task] = None
        task.waiting_for = len(before)
        for predecessor in before:
            predecessor.successors.append(task)
        if not before:
            self._ready.put(RunTask(task))
        return task

    async def drain(self) -> None:
        """Wait for all tasks of all threads, including tasks that are created meanwhile."""
        while self._unfinished:
            await wait_for(list(self._unfinished))


async def wait_for(tasks: Iterable[Task], tell: Tell | None = None) -> None:
    """Wait until all these tasks have ended. tell: a function that reports the waits as events."""
    for task in tasks:
        await task.done.wait()
        if tell is not None:
            tell(Awaited(task.done))


async def taskwait(region: TaskRegion, depends: tuple[Depend, ...] = (), tell: Tell | None = None) -> None:
    """Wait for a thread's tasks (`region`), or those that precede a task with `depends`. tell: reports it as events."""
    if depends:
        await wait_before(region, depends, tell)
        return
    while region.children:
        await wait_for(list(region.children), tell)
        region.children = [task for task in region.children if not task.done.is_set]


async def wait_before(region: TaskRegion, depends: tuple[Depend, ...], tell: Tell | None = None) -> None:
    """Wait for a thread's tasks (`region`) that come before work with these dependences. tell: reports it as events."""
    await wait_for(region.predecessors(depends) if tell is None else region.ordered_before(depends), tell)
