"""What the threads of a parallel region share in a replay: barriers, and the explicit tasks that are ready.

As in LLVM's libomp, a thread that waits at a barrier or for tasks runs those that are ready. Target tasks go to the
hidden helper threads instead. What comes after what is in `models/openmp/tasks.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import attrs

from offloadrt.models.openmp.clauses import Depend
from offloadrt.models.openmp.tasks import HiddenHelpers, Task, TaskRegion
from offloadrt.runtime.program_events import Awaited, Signalled, StrandBegan, StrandEnded, TaskMade
from offloadrt.sim import Signal, Simulation
from offloadrt.trace import HostTime


@attrs.define(eq=False)
class ReplayTeam:
    """The team of a parallel region; `size` threads."""

    sim: Simulation
    size: int
    helpers: HiddenHelpers
    host_time: HostTime
    _ready: deque[Task] = attrs.field(factory=deque)
    _on_helpers: set[Task] = attrs.field(factory=set)
    _made: list[Task] = attrs.field(factory=list)
    """The tasks that were made since the last barrier; filled only for an observer."""
    _unfinished: int = 0
    _arrived: int = 0
    _ended: int = 0
    """Threads that have come to the end of the region; in a recording that was cut off they may miss barriers."""
    _barriers: int = 0
    _changed: Signal | None = None

    async def barrier(self) -> None:
        """Wait for all threads of the team, and for all tasks, at which the thread works meanwhile."""
        passed, observer = self._barriers, self.helpers.observer
        if observer is not None:
            observer.handle(Signalled((self, passed)))
        tasks = self._made
        self._arrived += 1
        self._open_barrier()
        await self.work_until(lambda: self._barriers > passed)
        if observer is not None:
            for signal in ((self, passed), *[task.done for task in tasks]):
                observer.handle(Awaited(signal))
            if tasks is self._made:
                self._made = []

    async def end(self, awaits: bool = True) -> None:
        """End a thread's part: the barrier at the end of the region; `awaits` is False where the program has none."""
        observer = self.helpers.observer
        self._ended += 1
        self._open_barrier()
        self._wake()
        await self.work_until(lambda: self._ended == self.size and not self._unfinished)
        if observer is not None and awaits:
            for task in self._made:
                observer.handle(Awaited(task.done))

    async def work_until(self, done: Callable[[], bool]) -> None:
        """Run tasks of the team that are ready, or wait for some to become so, until a condition holds."""
        while not done():
            if self._ready:
                await self._ready.popleft().run()
                continue
            if self._changed is None:
                self._changed = Signal(self.sim, "tasks of a team")
            since = self.sim.now
            await self._changed.wait()
            self.host_time.add("threads", self.sim.now - since)

    def submit(
        self,
        region: TaskRegion,
        name: str,
        body: Callable[[], Awaitable[object]],
        depends: Sequence[Depend],
        on_helpers: bool,
    ) -> Task:
        """Make a task of this body; it is ready when the tasks that it depends on are done."""
        observer = self.helpers.observer

        async def run() -> None:
            if observer is not None:
                observer.handle(StrandBegan(name, task.after, task))
            await body()
            if observer is not None:
                observer.handle(StrandEnded(task.done))
            self._finished(task)

        task = Task(name, run, Signal(self.sim, name))
        predecessors = region.predecessors(tuple(depends))
        if observer is not None:
            task.after = tuple([earlier.done for earlier in region.ordered_before(tuple(depends))])
            observer.handle(TaskMade(task, name))
            self._made.append(task)
        region.enter(task, tuple(depends))
        self._unfinished += 1
        task.waiting_for = len(predecessors)
        if on_helpers:
            self._on_helpers.add(task)
        for predecessor in predecessors:
            predecessor.successors.append(task)
        if not predecessors:
            self._start(task)
        return task

    def _start(self, task: Task) -> None:
        if task in self._on_helpers:
            self._on_helpers.remove(task)
            self.helpers.submit(TaskRegion(), task.name, task.run, (), observed=False)
        else:
            self._ready.append(task)
            self._wake()

    def _finished(self, task: Task) -> None:
        task.done.set()
        for successor in task.successors:
            successor.waiting_for -= 1
            if not successor.waiting_for:
                self._start(successor)
        self._unfinished -= 1
        self._open_barrier()
        self._wake()

    def _open_barrier(self) -> None:
        """Let the threads pass when all are there and no task is left."""
        if self._arrived and self._arrived + self._ended == self.size and not self._unfinished:
            self._arrived = 0
            self._barriers += 1
            self._wake()

    def _wake(self) -> None:
        """Let the threads that wait in `work_until` look again: a task is ready, or something has ended."""
        if self._changed is not None:
            changed, self._changed = self._changed, None
            changed.set()


@attrs.define(eq=False)
class OrderedTurns:
    """An ordered region: its turns come in the order of the recording."""

    sim: Simulation
    next: int = 0
    _waiting: dict[int, Signal] = attrs.field(factory=dict)

    async def take(self, turn: int) -> None:
        """Wait until it is this turn."""
        if turn > self.next:
            signal = self._waiting[turn] = Signal(self.sim, "ordered region")
            await signal.wait()

    def give_up(self) -> None:
        """End the present turn, and let the next one begin."""
        self.next += 1
        if (signal := self._waiting.pop(self.next, None)) is not None:
            signal.set()
