"""Walks the tasks of a recording record by record, each in the actor of the thread that runs it.

The order is that of the recorded synchronization: a region forks its team and joins it, barriers wait for all, tasks
follow those that they depend on, critical sections exclude one another, ordered regions keep their turns. When a task
runs, and on which thread of its team, is up to the replay.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from typing import Any, Final, Protocol

import attrs
import numpy as np

from offloadrt.extensions.recording.format.locks import IN_TURN
from offloadrt.extensions.recording.format.recording import (
    FLAG,
    NONE,
    ORDERED,
    RECORD,
    Recording,
    Step,
    TaskKind,
    TaskTree,
)
from offloadrt.extensions.recording.replay.frames import TaskFrame, TaskFrames
from offloadrt.extensions.recording.replay.phases import ReplayedPhases
from offloadrt.extensions.recording.replay.repeats import RepeatFinder
from offloadrt.machine.host import Cores
from offloadrt.models import openmp as omp
from offloadrt.models.host.program import OffloadProgram, ProgramThread
from offloadrt.models.openmp import Depend
from offloadrt.models.openmp.tasks import HiddenHelpers, Task, TaskRegion
from offloadrt.runtime.events import Awaited, Signalled, StrandBegan, StrandEnded, TaskMade, Tell
from offloadrt.sim import Actor, Lock, Signal, Simulation
from offloadrt.study.running.statistics import StepSampler
from offloadrt.trace import HostTime

_Steps = Generator[Any, Any, object] | Coroutine[Any, Any, object]


@attrs.define
class ThreadsBeside:
    """The threads of a recording that OpenMP did not make and that no recorded synchronization orders.

    Of each it is only known during which records (steps) of the program's first thread it ran; a replay keeps to that.
    Recordings without the host's synchronization have such threads, and some libraries make them.
    """

    main: int = NONE
    """The initial task of the first thread."""
    began: dict[int, Signal] = attrs.field(factory=dict)
    """By initial task: set when the first thread has done all that it had done when that thread began."""
    ended: dict[int, Signal] = attrs.field(factory=dict)
    """By initial task: set when that thread has ended."""
    begin_at: dict[int | None, list[int]] = attrs.field(factory=dict)
    """By index of a record among the first thread's: the initial tasks that may begin only once the records before it
    are done. None: those that begin when all are.
    """
    end_at: dict[int | None, list[int]] = attrs.field(factory=dict)
    """By index of a record among the first thread's: the initial tasks that must have ended before it begins."""

    @classmethod
    def of(cls, sim: Simulation, recording: Recording, tree: TaskTree) -> ThreadsBeside:
        """Return the threads of a recording whose order is not known; none if its first thread does nothing."""
        made, counts, roots = cls(), recording.columns["task.count"], tree.roots()
        known = {task: order for task, order in recording.dictionaries.beside.items() if task in roots}
        if not known or (first := tree.first_threads()[0]) not in roots:
            return made
        made.main = first
        for task, (after, before) in known.items():
            made.began[task], made.ended[task] = (Signal(sim, f"thread of task {task}") for _ in range(2))
            made.begin_at.setdefault(after if after < counts[first] else None, []).append(task)
            if before < counts[first]:
                made.end_at.setdefault(before, []).append(task)
        return made


@attrs.define(eq=False)
class Flag:
    """An atomic variable or a lock by which the program's threads synchronize: counts how often it was released.

    Each release has a number in the recording, and may come in another order in the replay. `releases` is how many of
    them, from the first one on, have come without a gap.
    """

    releases: int = 0
    detached: Callable[[], None] | None = None
    """Completes the task that has ended without it, if the flag stands for the event of a `detach` clause."""
    _early: set[int] = attrs.field(factory=set)
    _waiting: dict[int, dict[Callable[[], None], None]] = attrs.field(factory=dict)

    def has_come(self, releases: int, wake: Callable[[], None]) -> bool:
        """Tell whether the flag has been released so many times; if not, the last of these releases calls `wake`."""
        if self.releases < releases:
            self._waiting.setdefault(releases, {})[wake] = None
        return self.releases >= releases

    def release(self, number: int = NONE) -> None:
        """Release the flag. number: which of its recorded releases this is, from 1 on; NONE: the next one."""
        waiting: dict[Callable[[], None], None] = {}
        self._early.add(self.releases + 1 if number == NONE else number)
        while self.releases + 1 in self._early:
            self.releases += 1
            self._early.remove(self.releases)
            waiting |= self._waiting.pop(self.releases, {})
        if self.detached is not None:
            self.detached()
            self.detached = None
        for wake in waiting:
            wake()


@attrs.define(eq=False)
class OrderedTurns:
    """Lets threads execute an ordered region one after the other, in the order of the recording.

    next: the number of the present turn, from 0 on.
    """

    sim: Simulation
    next: int = 0
    _waiting: dict[int, Signal] = attrs.field(factory=dict)

    async def take(self, turn: int) -> None:
        """Wait until it is the turn with this number, as at the begin of an ordered region."""
        if turn > self.next:
            signal = self._waiting[turn] = Signal(self.sim, "ordered region")
            await signal.wait()

    def give_up(self) -> None:
        """End the current turn, and let the next one begin."""
        self.next += 1
        if (signal := self._waiting.pop(self.next, None)) is not None:
            signal.set()


@attrs.frozen
class _OnTop:
    """Yielded by a coroutine to have `stacked` run this other coroutine first; the first one then goes on."""

    coroutine: _Steps


@types.coroutine
def _run_on_top(coroutine: _Steps) -> Generator[_OnTop, None, None]:
    """Run a coroutine before the awaiting one goes on; the thread must be run by `stacked`."""
    yield _OnTop(coroutine)


@types.coroutine
def stacked(first: _Steps) -> Generator[Any, Any, None]:
    """Run a coroutine (`first`) that calls others in deep nesting, without a deep stack of awaits.

    A coroutine yields `_OnTop` to have another one run to its end before it goes on itself. If each awaited the next
    one instead, every step of the innermost would pass through all of them by recursion.
    """
    stack = [first]
    value: Any = None
    error: BaseException | None = None
    while stack:
        try:
            step: Callable[..., Any] = stack[-1].send if error is None else stack[-1].throw
            wanted = step(value if error is None else error)
        except StopIteration:
            stack.pop()
            value = error = None
            continue
        except BaseException as raised:
            stack.pop()
            if not stack:
                raise
            error = raised
            continue
        value = error = None
        if type(wanted) is _OnTop:
            stack.append(wanted.coroutine)
            continue
        try:
            value = yield wanted
        except BaseException as raised:
            error = raised


@attrs.define(eq=False)
class TaskGroup:
    """A taskgroup region of OpenMP, with the tasks for which its end waits.

    The end waits for the tasks that are made in the region, by its task or by one of these tasks, but not in an inner
    taskgroup region. Nobody else has to wait for the tasks of an inner region, because its task ends after it.

    outer: the taskgroup region around it; None if there is none. unfinished: how many of these tasks have not ended.
    """

    outer: TaskGroup | None
    unfinished: int = 0
    made: list[Task] = attrs.field(factory=list)
    """All of these tasks; filled only if there is an observer."""


@attrs.define(eq=False)
class RunningTask:
    """A task while it runs: the thread that runs it, its team, and the tasks that it has made."""

    t: ProgramThread
    """The host thread that runs it."""
    team: ReplayTeam
    group: TaskGroup | None = None
    """The innermost taskgroup region in which it is."""
    tasks: TaskRegion = attrs.field(factory=TaskRegion)
    ready: deque[TeamTask] = attrs.field(factory=deque)
    """Its child tasks that may begin; those that threads at a barrier have begun stay here."""
    running: dict[RunningTask, None] = attrs.field(factory=dict)
    """Its child tasks that have begun and not ended (an ordered set)."""
    event: Flag | None = None
    """The event of its `detach` clause, if that is not fulfilled when it ends."""
    alone: bool = False
    """Whether it has an actor of its own, so that others begin the tasks for which it waits."""


@attrs.define(eq=False, kw_only=True)
class TeamTask(Task):
    """A task that belongs to the team of a parallel region, and is ready or waits for its dependences.

    maker: the task that made it. on_helpers: whether hidden helper threads run it. group: the taskgroup region in which
    it was made; None if there was none. has_begun: whether a thread has begun it.
    """

    maker: RunningTask
    group: TaskGroup | None
    on_helpers: bool
    waits: bool = False
    """Whether it, or a task that it makes, waits for what others release; then it has an actor of its own."""
    has_begun: bool = False
    event: Flag | None = None
    """What completes it, if it has ended before its event was fulfilled."""


@attrs.define(eq=False)
class ReplayTeam:
    """The team of a parallel region in a replay, of `size` threads: its barriers and its tasks.

    A thread that waits may run another task meanwhile, unless that task might wait for what the thread has begun. A
    task that may have to wait gets an actor of its own, and while it waits, the thread goes on. So a replay never ends
    in a deadlock if the recorded run did not.

    helpers: the hidden helper threads, which run target tasks. cores: the cores of the host. host_time: counts the time
    of the host's work.
    """

    sim: Simulation
    size: int
    helpers: HiddenHelpers
    cores: Cores
    host_time: HostTime
    _apart: dict[Actor, Signal] = attrs.field(factory=dict)
    """By actor of a task: set when the thread that has begun the task may go on."""
    _ready: deque[TeamTask] = attrs.field(factory=deque)
    """Tasks that may begin, in order; it still has those that a waiting maker has begun."""
    _ready_count: int = 0
    """The number of tasks that may begin and have not."""
    _made: list[Task] = attrs.field(factory=list)
    """The tasks made since the last barrier; filled only if there is an observer."""
    _unfinished: int = 0
    _arrived: int = 0
    _ended: int = 0
    """The threads that have reached the end of the region; in a recording that was cut off they may miss barriers."""
    _barriers: int = 0
    _changed: Signal | None = None

    async def barrier(self) -> None:
        """Wait for all threads of the team and for all tasks; the thread runs tasks meanwhile."""
        passed, tell = self._barriers, self.helpers.tell
        if tell is not None:
            tell(Signalled((self, passed)))
        tasks = self._made
        self._arrived += 1
        self._open_barrier()
        await self.work_until(lambda: self._barriers > passed)
        if tell is not None:
            tell(Awaited((self, passed)))
            if tasks is self._made:
                self._tell_awaited(tell)
                tell(Signalled((self, passed)))

    def _tell_awaited(self, tell: Tell) -> None:
        """Report all tasks since the last barrier as awaited, in the first thread that passes; others follow it."""
        tasks, self._made = self._made, []
        for task in tasks:
            tell(Awaited(task.done))

    async def end(self, awaits: bool = True) -> None:
        """End a thread's part of a parallel region. awaits: whether the program has the region's last barrier."""
        self._ended += 1
        self._open_barrier()
        self.wake()
        await self.work_until(lambda: self._ended == self.size and not self._unfinished)
        if self.helpers.tell is not None and awaits:
            self._tell_awaited(self.helpers.tell)

    async def work_until(self, done: Callable[[], bool], below: RunningTask | None = None) -> None:
        """Run ready tasks of the team, or wait for some to become ready, until `done` returns true.

        below: the task that waits. By OpenMP's task scheduling constraint for tied tasks, the thread may then begin
        only descendants of that task; None, at a barrier: any task. Untied tasks are treated as tied ones.
        """
        while not done():
            task = self._next(below)
            if task is not None:
                await (self._run_apart(task) if task.waits else _run_on_top(self._run(task)))
                continue
            self.lets_go()
            if self._changed is None:
                self._changed = Signal(self.sim, "tasks of a team")
            since = self.sim.now
            await self._changed.wait()
            self.host_time.add("threads", self.sim.now - since)

    async def _run_apart(self, task: TeamTask) -> None:
        """Run a task in an actor of its own, until it has ended or waits."""
        here, goes_on = self.sim.current, Signal(self.sim, task.name)
        actor = self.sim.spawn(self._run_alone, task, name=here.name)
        actor.data |= here.data
        self.cores.inherit([actor], here)
        self._apart[actor] = goes_on
        await goes_on.wait()

    async def _run_alone(self, task: TeamTask) -> None:
        born = self.sim.now
        await stacked(self._run(task))
        self.lets_go()
        self.host_time.lived(self.sim.now - born)

    def lets_go(self) -> None:
        """Let the thread go on that began the running task, because the task has to wait.

        Nothing is done if the task runs in the thread's own actor, rather than in an actor of its own.
        """
        if (goes_on := self._apart.pop(self.sim.current, None)) is not None:
            goes_on.set()

    def _next(self, below: RunningTask | None) -> TeamTask | None:
        """Return the next task that a waiting thread may begin, and mark it as begun; None if there is none."""
        if not self._ready_count:
            return None
        makers = [below]
        while makers:
            maker = makers.pop()
            queue = self._ready if maker is None else maker.ready
            while queue:
                task = queue.popleft()
                if not task.has_begun:
                    task.has_begun = True
                    self._ready_count -= 1
                    return task
            if maker is not None:
                makers += maker.running
        return None

    def submit(
        self,
        maker: RunningTask,
        name: str,
        run: Callable[[], Awaitable[object]],
        depends: tuple[Depend, ...],
        on_helpers: bool,
        waits: bool,
    ) -> TeamTask:
        """Make a task that calls `run`; it becomes ready when the tasks that it depends on are done.

        maker: the task that makes it. on_helpers: whether hidden helper threads run it. waits: whether it may have to
        wait for a flag or for its turn at a lock.
        """
        tell, region, group = self.helpers.tell, maker.tasks, maker.group
        task = TeamTask(name, run, Signal(self.sim, name), maker=maker, group=group, on_helpers=on_helpers, waits=waits)
        predecessors = region.predecessors(depends)
        if tell is not None:
            task.after = tuple([earlier.done for earlier in region.ordered_before(depends)])
            tell(TaskMade(task, name))
            self._made.append(task)
        region.enter(task, depends)
        self._unfinished += 1
        if group is not None:
            group.unfinished += 1
            if tell is not None:
                group.made.append(task)
        task.waiting_for = len(predecessors)
        for predecessor in predecessors:
            predecessor.successors.append(task)
        if not predecessors:
            self._start(task)
        return task

    async def _run(self, task: TeamTask) -> None:
        tell = self.helpers.tell
        if tell is not None:
            tell(StrandBegan(task.name, task.after, task))
        await task.run()
        if tell is not None:
            tell(StrandEnded(task.done))
        if task.event is None:
            self._complete(task)
        else:
            task.event.detached = lambda: self._fulfilled(task)

    def _fulfilled(self, task: TeamTask) -> None:
        """Complete a task that has ended, by the fulfilment of its event in the running actor."""
        if (tell := self.helpers.tell) is not None:
            tell(Signalled(task.done))
        self._complete(task)

    def _complete(self, task: TeamTask) -> None:
        task.done.set()
        for successor in task.successors:
            successor.waiting_for -= 1
            if not successor.waiting_for:
                assert isinstance(successor, TeamTask)
                self._start(successor)
        self._unfinished -= 1
        if task.group is not None:
            task.group.unfinished -= 1
        self._open_barrier()
        self.wake()

    def _start(self, task: TeamTask) -> None:
        if task.on_helpers and task.waits:
            self.sim.spawn(self._run_alone, task, name=task.name).data |= self.sim.current.data
        elif task.on_helpers:
            self.helpers.submit(TaskRegion(), task.name, lambda: self._run(task), (), observed=False)
        else:
            self._ready.append(task)
            task.maker.ready.append(task)
            self._ready_count += 1
            self.wake()

    def _open_barrier(self) -> None:
        """Let the threads pass the barrier if all have arrived and no task is unfinished."""
        if self._arrived and self._arrived + self._ended == self.size and not self._unfinished:
            self._arrived = 0
            self._barriers += 1
            self.wake()

    def wake(self) -> None:
        """Wake the threads that wait in `work_until`, because a task is ready or something has ended."""
        if self._changed is not None:
            changed, self._changed = self._changed, None
            changed.set()


_READS: Final = 1
"""OMPT's number of the dependence ``in``; kinds without a constant here, as ``inout``, exclude all others."""
_TOGETHER: Final = 7
"""OMPT's number of the dependence ``inoutset``."""
_ALL_MEMORY: Final = (34, 35)
"""OMPT's numbers of ``omp_all_memory``, as ``out`` and as ``inout``."""
_CHUNK = 1 << 12


class ReplayedDirectives(Protocol):
    """The methods of a replayed program that `TaskWalk` calls for steps that do not synchronize threads.

    In them, t is the host thread that makes the step, and `thread` the number of the thread that made it when it was
    recorded. Other parameters are numbers in the recording: of an array, of a directive's source line (site), of a
    launch, or of a list of map items, operations, memory accesses or MPI arguments. host_time: virtual seconds of host
    work for each second of it in the recording.
    """

    recording: Recording
    host_time: float
    frame: TaskFrame
    """Where the stack variables of the task lie whose record (step) is executed next."""

    @property
    def offload(self) -> OffloadProgram[Any]: ...
    @property
    def helpers(self) -> HiddenHelpers: ...
    async def allocates(self, t: ProgramThread, number: int) -> None: ...
    async def frees(self, t: ProgramThread, number: int, end: int) -> None: ...
    async def stops(self, t: ProgramThread, site_number: int, items: int) -> None: ...
    async def touch(self, t: ProgramThread, touches: int, thread: int) -> None: ...
    def knows_copies(self, number: int) -> None: ...
    async def run(self, t: ProgramThread, site_number: int, items: int, launch: int, operations: int) -> None: ...
    async def call_mpi(self, t: ProgramThread, call: int, parts: int) -> None: ...


class TaskWalk:
    """Replays the tasks of a recording: executes their records (steps) in the order that was recorded.

    program: makes the steps that do not synchronize. phases: chooses which repeated steps are executed; None: all.
    """

    def __init__(self, program: ReplayedDirectives, phases: StepSampler | None = None) -> None:
        self._program = program
        self._recording = program.recording
        self._offload = program.offload
        self._sim = program.offload.sim
        self._columns = program.recording.columns
        self._host_time = program.offload.machine.host_time
        kinds = self._columns["lock.kind"].tolist()
        self._locks = {number: Lock(self._sim, f"lock {number} of the program") for number in range(len(kinds))}
        self._turns = {number: OrderedTurns(self._sim) for number, kind in enumerate(kinds) if kind == ORDERED}
        self._flags = {number: Flag() for number, kind in enumerate(kinds) if kind == FLAG}
        self._locked = {number: Flag() for number in self._locks}
        self._exclusions = ["ordered" if kind == ORDERED else "flag" if kind == FLAG else "lock" for kind in kinds]
        self._uses_all_memory = bool(np.isin(self._columns["dependence.kind"], _ALL_MEMORY).any())
        self._tree = TaskTree(self._columns)
        is_whole = phases is None or not phases.wanted
        self._waiting = self._tree.waiting() if program.recording.meta.exact and is_whole else set()
        self._frames = TaskFrames(self._recording)
        self._phases = ReplayedPhases(self._offload.trace, self._recording.dictionaries.phases)
        self._beside = ThreadsBeside()
        if is_whole:
            self._beside = ThreadsBeside.of(self._sim, program.recording, self._tree)
        self._repeats: RepeatFinder | None = None
        if phases is not None and phases.wanted:
            self._steps = phases.steps
            self._repeats = RepeatFinder(self._recording, self._tree)

    def roots(self) -> list[int]:
        """Return the tasks of threads that OpenMP did not make and that do something; the first thread comes first."""
        return self._tree.roots()

    async def thread(self, t: ProgramThread, task: int) -> None:
        """Replay the task of a thread that OpenMP did not make on thread `t`, once the program has made that thread."""
        if task in self._beside.began:
            with t.doing("the creation of the thread"):
                await self._ordered(self._beside.began[task])
        await stacked(self._member(RunningTask(t, self._team(1)), task, awaits=False))
        if task in self._beside.ended:
            self._tell(self._beside.ended[task])

    async def _ordered(self, signal: Signal) -> None:
        """Wait for a signal, and report the order to an observer."""
        since = self._sim.now
        await signal.wait()
        if (tell := self._offload.tell) is not None:
            tell(Awaited(signal))
        self._host_time.add("threads", self._sim.now - since)

    def _tell(self, signal: Signal) -> None:
        if (tell := self._offload.tell) is not None:
            tell(Signalled(signal))
        signal.set()

    async def _member(self, running: RunningTask, task: int, awaits: bool = True) -> None:
        """Walk an implicit or an initial task. awaits: False for an initial one: nobody awaits its tasks at its end."""
        await self._walk(running, task)
        await running.team.end(awaits)

    def _team(self, size: int) -> ReplayTeam:
        cores = self._offload.machine.cores
        return ReplayTeam(self._sim, size, self._program.helpers, cores, self._host_time)

    def _records(self, task: int) -> Iterator[tuple[int, ...]]:
        """Yield the records of a task as tuples of Python ints; columns are converted in chunks."""
        columns = self._columns
        for first, end in self._stretches(task):
            for begin in range(first, end, _CHUNK):
                rows = slice(begin, min(end, begin + _CHUNK))
                yield from zip(*(columns[f"record.{name}"][rows].tolist() for name in RECORD), strict=True)

    def _stretches(self, task: int) -> Iterator[tuple[int, int]]:
        """Yield (first record, end) of the stretches to walk: the whole task, or only some instances of its repeats."""
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

    async def _walk(self, running: RunningTask, task: int) -> None:
        program, t, scale = self._program, running.t, self._program.host_time * 1e-9
        beside = self._beside if task == self._beside.main else None
        frame, thread = self._frames.of(task), int(self._columns["task.thread"][task])
        for place, record in enumerate(self._records(task)):
            step, subject, detail, cpu, launch, operations, touches, copies = record
            if beside is not None:
                await self._meet(beside, place)
            if touches >= 0:
                program.frame = frame
                await program.touch(t, touches, thread)
            if cpu and scale:
                await t.compute(cpu * scale)
            program.frame = frame
            if step == Step.DIRECTIVE:
                program.knows_copies(copies)
                await program.run(t, subject, detail, launch, operations)
            elif step == Step.ALLOCATE:
                await program.allocates(t, subject)
            elif step == Step.FREE:
                await program.frees(t, subject, detail)
            elif step == Step.STOP:
                await program.stops(t, subject, detail)
            elif step == Step.MPI:
                await program.call_mpi(t, subject, detail)
            elif step == Step.PHASE_BEGIN:
                self._phases.begin(self._sim.current, subject, detail)
            elif step == Step.PHASE_END:
                self._phases.end(self._sim.current, subject, detail)
            elif step != Step.REST:
                await self._synchronize(running, step, subject, detail)
        if beside is not None:
            await self._meet(beside, None)

    async def _meet(self, beside: ThreadsBeside, place: int | None) -> None:
        """Before a record, let threads begin that the program had made by then, and wait for those that had ended."""
        for task in beside.begin_at.pop(place, ()):
            self._tell(beside.began[task])
        for task in beside.end_at.pop(place, ()):
            await self._ordered(beside.ended[task])

    async def _synchronize(self, running: RunningTask, step: int, subject: int, detail: int) -> None:
        if step == Step.FORK:
            await self._fork(running, subject)
        elif step == Step.BARRIER:
            with running.t.doing("barrier"):
                await running.team.barrier()
        elif step == Step.TASK:
            await self._make(running, subject, detail)
        elif step == Step.TASKWAIT:
            with running.t.doing("taskwait"):
                await self._wait(running, detail)
        elif step == Step.GROUP_BEGIN:
            running.group = TaskGroup(running.group)
        elif step == Step.GROUP_END:
            with running.t.doing("taskgroup"):
                await self._end_group(running)
        elif step == Step.ACQUIRE:
            with running.t.doing(self._exclusions[subject]):
                await self._acquire(running, subject, detail)
        else:
            if (tell := self._offload.tell) is not None:
                tell(Signalled((self, subject)))
            if subject in self._flags:
                self._flags[subject].release(detail)
            else:
                self._locked[subject].release()
                if subject in self._turns:
                    self._turns[subject].give_up()
                else:
                    self._locks[subject].release()

    async def _acquire(self, running: RunningTask, lock: int, turn: int) -> None:
        flag = self._flags.get(lock)
        if flag is not None and turn == NONE:
            running.event = None if flag.releases else flag
        elif self._recording.meta.exact and self._repeats is None:
            counted, team = flag or self._locked[lock], running.team
            if not running.alone:
                await team.work_until(lambda: counted.has_come(turn, team.wake))
            elif not counted.has_come(turn, (come := Signal(self._sim, "turn")).set):
                team.lets_go()
                await come.wait()
        since = self._sim.now
        if lock in self._turns:
            await self._turns[lock].take(turn)
        elif flag is None:
            await self._locks[lock].acquire()
        if (tell := self._offload.tell) is not None:
            tell(Awaited((self, lock)))
        self._host_time.add("threads", self._sim.now - since)

    async def _fork(self, running: RunningTask, team_number: int) -> None:
        """Run a parallel region; the encountering thread waits, because member 0 is an actor of its own."""
        members = self._tree.members.get(team_number, [])
        if not members:
            return
        team = self._team(len(members))

        async def member(t: ProgramThread) -> None:
            await stacked(self._member(RunningTask(t, team), members[t.number]))

        since = self._sim.now
        if self._waiting:
            self._stand_in(running, joined := Signal(self._sim, "end of a nested region"))
        await self._offload.parallel(member, num_threads=len(members))
        if self._waiting:
            joined.set()
            running.team.wake()
        self._host_time.add("threads", self._sim.now - since)

    def _stand_in(self, running: RunningTask, joined: Signal) -> None:
        """Have tasks begin for which the nested region may wait, as another thread had begun them."""

        async def begins() -> None:
            await stacked(running.team.work_until(lambda: joined.is_set))

        running.team.lets_go()
        self._sim.spawn(begins, name=self._sim.current.name).data |= self._sim.current.data

    # tasks

    async def _make(self, running: RunningTask, task: int, dependences: int) -> None:
        kind, waits = int(self._columns["task.kind"][task]), task in self._waiting
        depends = self._depends(dependences)
        if kind == TaskKind.UNDEFERRED:
            if depends:
                await self._wait(running, dependences)
            await _run_on_top(
                self._walk(RunningTask(running.t, running.team, running.group, alone=running.alone), task)
            )
            return
        program, on_helpers = self._offload, kind == TaskKind.TARGET
        if on_helpers:
            await program.devices[0].work(program.costs.task)

        log = None if program.trace is None else program.trace.causal_log
        arrow = None if log is None or not on_helpers else log.task_made(self._sim.current, "target nowait")

        async def run() -> None:
            if log is not None and arrow is not None:
                log.task_run(self._sim.current, arrow)
            t = program.host_thread(number=0) if on_helpers else running.t
            this = RunningTask(t, running.team, made.group, alone=waits)
            running.running[this] = None
            await (stacked(self._walk(this, task)) if on_helpers else self._walk(this, task))
            del running.running[this]
            made.event = this.event

        made = running.team.submit(running, f"task {task}", run, depends, on_helpers, waits)
        if kind == TaskKind.TASKWAIT:  # the thread waits in LLVM 22; OpenMP does not order it, so no observer is told
            await running.team.work_until(lambda: made.done.is_set, running)

    async def _wait(self, running: RunningTask, dependences: int) -> None:
        """Wait for all child tasks of this task, or for those that the dependences name."""
        depends = self._depends(dependences)
        tasks = list(running.tasks.ordered_before(depends)) if depends else list(running.tasks.children)
        left = 0

        def are_done() -> bool:
            nonlocal left
            while left < len(tasks) and tasks[left].done.is_set:
                left += 1
            return left == len(tasks)

        await running.team.work_until(are_done, running)
        self._awaited(tasks)
        if depends and self._offload.tell is not None:
            return  # a later wait for all of them reports all
        running.tasks.children = [task for task in running.tasks.children if not task.done.is_set]

    async def _end_group(self, running: RunningTask) -> None:
        """Wait for the tasks of the innermost taskgroup region, and leave the region."""
        group = running.group
        if group is not None:
            await running.team.work_until(lambda: not group.unfinished, running)
            self._awaited(group.made)
            running.group = group.outer

    def _awaited(self, tasks: Iterable[Task]) -> None:
        if (tell := self._offload.tell) is not None:
            for task in tasks:
                tell(Awaited(task.done))

    def _depends(self, number: int) -> tuple[Depend, ...]:
        """Return the dependences of a list by its number.

        A dependence on all memory follows all earlier dependences and precedes all later ones: it writes an item that
        every other dependence reads.
        """
        columns = self._columns
        depends: list[Depend] = []
        for place in self._recording.range_of("dependences", number):
            address, kind = int(columns["dependence.address"][place]), int(columns["dependence.kind"][place])
            if kind in _ALL_MEMORY:
                return (omp.depend(inout="omp_all_memory"),)
            if kind == _READS:
                depends.append(omp.depend(in_=address))
            elif kind == IN_TURN:  # its tasks exclude one another by a lock
                depends.append(omp.depend(mutexinoutset=address))
            else:
                depends.append(omp.depend(inoutset=address) if kind == _TOGETHER else omp.depend(inout=address))
        if depends and self._uses_all_memory:
            depends.append(omp.depend(in_="omp_all_memory"))
        return tuple(depends)
