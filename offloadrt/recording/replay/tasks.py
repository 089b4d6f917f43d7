"""The tasks of a recording: each is walked record by record in the actor of the thread that runs it.

The order is that of the recorded synchronization: a region forks its team and joins it, barriers wait for all, tasks
follow those that they depend on, critical sections exclude one another, ordered regions keep their turns. When a task
runs, and on which thread of its team, is up to the replay.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Protocol

import attrs

from offloadrt.models import openmp as omp
from offloadrt.models.openmp import Depend, HostThread, OpenMP
from offloadrt.models.openmp.tasks import Task, TaskRegion
from offloadrt.recording.format.recording import NONE, ORDERED, Recording, Step, TaskKind
from offloadrt.recording.format.task_tree import TaskTree
from offloadrt.recording.replay.repeats import RepeatFinder
from offloadrt.recording.replay.teams import OrderedTurns, ReplayTeam
from offloadrt.runtime.program_events import Awaited, Signalled
from offloadrt.sim import Lock

_READS = (1,)
"""OMPT's ``in``; all other kinds of dependences exclude one another here, as ``inout`` does."""
_CHUNK = 1 << 12


class ReplayedDirectives(Protocol):
    """What a walk asks of the program."""

    recording: Recording
    openmp: OpenMP
    host_time: float

    def allocate(self, number: int, *, written: bool = False) -> None: ...
    def free(self, number: int, end: int = NONE) -> None: ...
    async def touch(self, t: HostThread, number: int) -> None: ...
    async def run(self, t: HostThread, site_number: int, items: int, launch: int, operations: int) -> None: ...


class ChoosesInstances(Protocol):
    """What a walk asks of whoever chooses the instances of repeated phases that are run."""

    @property
    def wanted(self) -> bool: ...
    def steps(self, count: int, key: Hashable = None, work: Sequence[float] = ()) -> Iterator[int]: ...


@attrs.define(eq=False)
class _Running:
    """A task while it runs: the thread that runs it, its team, and what it has made."""

    t: HostThread
    team: ReplayTeam
    tasks: TaskRegion = attrs.field(factory=TaskRegion)
    groups: list[list[Task]] = attrs.field(factory=list)
    """The task groups that it is in, the innermost last: with the tasks that were made in each."""


class TaskWalk:
    """Walks the tasks of a recording."""

    def __init__(self, program: ReplayedDirectives, phases: ChoosesInstances | None = None) -> None:
        self._program = program
        self._recording = program.recording
        self._sim = program.openmp.sim
        self._columns = program.recording.columns
        self._host_time = program.openmp.machine.host_time
        kinds = self._columns["lock.kind"].tolist()
        self._locks = {number: Lock(self._sim, f"lock {number} of the program") for number in range(len(kinds))}
        self._turns = {number: OrderedTurns(self._sim) for number, kind in enumerate(kinds) if kind == ORDERED}
        self._exclusions = ["ordered" if kind == ORDERED else "lock" for kind in kinds]
        self._tree = TaskTree(self._columns)
        self._repeats: RepeatFinder | None = None
        if phases is not None and phases.wanted:
            self._steps = phases.steps
            self._repeats = RepeatFinder(self._recording, self._tree)

    def roots(self) -> list[int]:
        """Return the initial tasks that do something of the program's."""
        return self._tree.roots()

    async def thread(self, t: HostThread, task: int) -> None:
        """Walk an initial task, with a team of its own."""
        team = self._team(1)
        await self._walk(_Running(t, team), task)
        await team.end(awaits=False)

    def _team(self, size: int) -> ReplayTeam:
        return ReplayTeam(self._sim, size, self._program.openmp.helpers, self._host_time)

    def _records(self, task: int) -> Iterator[tuple[int, int, int, int, int, int, int]]:
        """Yield the records of a task, some of them at a time as Python's numbers."""
        columns = self._columns
        names = ("step", "subject", "detail", "cpu", "launch", "operations", "touches")
        for first, end in self._stretches(task):
            for begin in range(first, end, _CHUNK):
                rows = slice(begin, min(end, begin + _CHUNK))
                yield from zip(*(columns[f"record.{name}"][rows].tolist() for name in names), strict=True)

    def _stretches(self, task: int) -> Iterator[tuple[int, int]]:
        """Yield first record and end of what is walked: all of a task, or less of its repeated phases."""
        rows = self._tree.rows(task)
        first, end = rows.start, rows.stop
        if self._repeats is not None:
            for repeat in self._repeats.of_task(task):
                yield first, repeat.first
                work = [nanoseconds * self._program.host_time * 1e-9 for nanoseconds in repeat.work]
                for instance in self._steps(repeat.instances, repeat.key, work):
                    begin = repeat.first + instance * repeat.period
                    yield begin, begin + repeat.period
                first = repeat.end
        yield first, end

    async def _walk(self, running: _Running, task: int) -> None:
        program, t, scale = self._program, running.t, self._program.host_time * 1e-9
        for step, subject, detail, cpu, launch, operations, touches in self._records(task):
            if touches >= 0:
                await program.touch(t, touches)
            if cpu and scale:
                await t.compute(cpu * scale)
            if step == Step.DIRECTIVE:
                await program.run(t, subject, detail, launch, operations)
            elif step == Step.ALLOCATE:
                program.allocate(subject)
            elif step == Step.FREE:
                program.free(subject, detail)
            elif step != Step.REST:
                await self._synchronize(running, step, subject, detail)

    async def _synchronize(self, running: _Running, step: int, subject: int, detail: int) -> None:
        if step == Step.FORK:
            await self._fork(subject)
        elif step == Step.BARRIER:
            with running.t.doing("barrier"):
                await running.team.barrier()
        elif step == Step.TASK:
            await self._make(running, subject, detail)
        elif step == Step.TASKWAIT:
            with running.t.doing("taskwait"):
                await self._wait(running, detail)
        elif step == Step.GROUP_BEGIN:
            running.groups.append([])
        elif step == Step.GROUP_END:
            made = running.groups.pop() if running.groups else []
            with running.t.doing("taskgroup"):
                await running.team.work_until(lambda: all(task.done.is_set for task in made))
            self._awaited(made)
        elif step == Step.ACQUIRE:
            with running.t.doing(self._exclusions[subject]):
                await self._acquire(subject, detail)
        else:
            if (observer := self._program.openmp.observer) is not None:
                observer.handle(Signalled((self, subject)))
            if subject in self._turns:
                self._turns[subject].give_up()
            else:
                self._locks[subject].release()

    async def _acquire(self, lock: int, turn: int) -> None:
        since = self._sim.now
        if lock in self._turns:
            await self._turns[lock].take(turn)
        else:
            await self._locks[lock].acquire()
        if (observer := self._program.openmp.observer) is not None:
            observer.handle(Awaited((self, lock)))
        self._host_time.add("threads", self._sim.now - since)

    async def _fork(self, team_number: int) -> None:
        """Run a parallel region; the thread that came to it waits, for member 0 is an actor of its own."""
        members = self._tree.members.get(team_number, [])
        if not members:
            return
        team = self._team(len(members))

        async def member(t: HostThread) -> None:
            await self._walk(_Running(t, team), members[t.number])
            await team.end()

        since = self._sim.now
        await self._program.openmp.parallel(member, num_threads=len(members))
        self._host_time.add("threads", self._sim.now - since)

    # tasks

    async def _make(self, running: _Running, task: int, dependences: int) -> None:
        kind = int(self._columns["task.kind"][task])
        depends = self._depends(dependences)
        if kind == TaskKind.UNDEFERRED:
            await self._wait(running, dependences)
            await self._walk(_Running(running.t, running.team), task)
            return
        openmp, on_helpers = self._program.openmp, kind == TaskKind.TARGET
        if on_helpers:
            await openmp.devices[0].work(openmp.costs.task)

        log = None if openmp.trace is None else openmp.trace.causal_log
        arrow = None if log is None or not on_helpers else log.task_made(self._sim.current, "target nowait")

        async def body() -> None:
            if log is not None and arrow is not None:
                log.task_run(self._sim.current, arrow)
            t = openmp.host_thread(number=0) if on_helpers else running.t
            await self._walk(_Running(t, running.team), task)

        made = running.team.submit(running.tasks, f"task {task}", body, depends, on_helpers)
        for group in running.groups:
            group.append(made)

    async def _wait(self, running: _Running, dependences: int) -> None:
        """Wait for the tasks that this one has made, or for those that the dependences name."""
        depends = self._depends(dependences)
        tasks = list(running.tasks.ordered_before(depends)) if depends else list(running.tasks.children)
        await running.team.work_until(lambda: all(task.done.is_set for task in tasks))
        self._awaited(tasks)
        if depends and self._program.openmp.observer is not None:
            return  # a later wait for all of them is told of all
        running.tasks.children = [task for task in running.tasks.children if not task.done.is_set]

    def _awaited(self, tasks: Iterable[Task]) -> None:
        if (observer := self._program.openmp.observer) is not None:
            for task in tasks:
                observer.handle(Awaited(task.done))

    def _depends(self, number: int) -> tuple[Depend, ...]:
        columns = self._columns
        return tuple(
            omp.depend(in_=int(columns["dependence.address"][place]))
            if int(columns["dependence.kind"][place]) in _READS
            else omp.depend(inout=int(columns["dependence.address"][place]))
            for place in self._recording.range_of("dependences", number)
        )
