"""From the events of a process to the tables of its recording: tasks with their records, in program order."""

from __future__ import annotations

from typing import Final

import attrs

from offloadrt.recording.format.calls import RuntimeCalls
from offloadrt.recording.format.errors import RecordingDamaged
from offloadrt.recording.format.events import RecordedEvent
from offloadrt.recording.format.memory import MemoryEvents
from offloadrt.recording.format.recording import NONE, ORDERED, ArrayEnd, EndKind, Step, TaskKind
from offloadrt.recording.format.slots import DEFERRED, REALLOC, RawProcess, Row, Slot, a_of, b_of
from offloadrt.recording.format.tables import ListTable, TaskRow

_BARRIERS: Final = (1, 2, 3, 8)
"""Sync regions that are barriers of a team, by OMPT's numbers; the one that ends a parallel region is 9."""
_REGION_END, _TASKWAIT, _TASKGROUP = 9, 5, 6
_BEGIN, _END = 1, 2
_ACQUIRED, _RELEASED = 2, 3
_ATOMIC = 6
_TARGET_TASK, _TASKWAIT_TASK, _UNDEFERRED = 0x8, 0x10, 0x08000000
_INITIAL_TASK = 1


@attrs.define(eq=False)
class _Thread:
    """Where a thread is: the task that it runs, those below it, and the CPU time that no record has yet."""

    number: int
    task: TaskRow | None = None
    below: list[TaskRow | None] = attrs.field(factory=list)
    since: int | None = None
    """Its CPU time when it last did something that is known."""
    work: int = 0
    moving: list[tuple[TaskRow, int, int, int]] = attrs.field(factory=list)
    """Records of what it has freed last, perhaps by a realloc: task, place, the block's address, number of its end."""
    deferring: int = 0
    """The call of a routine that it is in, which makes a task of what is to be done; 0: none."""

    def worked(self, cpu: int) -> None:
        """Count the time up to now as work of the program, unless the thread was waiting."""
        waiting = self.task is not None and self.task.waiting
        if self.since is not None and not waiting and cpu > self.since:
            self.work += cpu - self.since
        self.since = cpu

    def take_work(self) -> int:
        work, self.work = self.work, 0
        return work


@attrs.define(eq=False)
class Assembler:
    """Makes tasks with their records of the events of one process, taken in order; `finish` completes them."""

    process: RawProcess
    memory: MemoryEvents = attrs.field(factory=MemoryEvents)
    tasks: list[TaskRow] = attrs.field(factory=list)
    teams: dict[int, int] = attrs.field(factory=dict)
    """The number of each parallel region's team."""
    locks: dict[tuple[int, int], int] = attrs.field(factory=dict)
    dependences: ListTable = attrs.field(factory=lambda: ListTable("dependences", "dependence", ("address", "kind")))
    _threads: dict[int, _Thread] = attrs.field(factory=dict)
    _by_identifier: dict[int, TaskRow] = attrs.field(factory=dict)
    _made: dict[int, tuple[TaskRow, int]] = attrs.field(factory=dict)
    """The record that makes a task."""
    _depends: dict[int, list[tuple[int, int]]] = attrs.field(factory=dict)
    _turns: dict[int, int] = attrs.field(factory=dict)
    calls: RuntimeCalls = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.calls = RuntimeCalls(self.process, self.memory)

    def take(self, event: RecordedEvent) -> None:
        """Take the next event."""
        row = event.row
        thread = self._threads.get(event.thread)
        if thread is None:
            thread = self._threads[event.thread] = _Thread(event.thread)
        match event.kind:
            case Slot.THREAD:
                thread.since = row[4]
            case Slot.CALL:
                self._call(thread, event)
            case Slot.RET:
                self.calls.returned(row)
                thread.since, thread.deferring = row[4], 0
            case Slot.OP | Slot.SUBMIT:
                self.calls.operation(event.kind, row, 0 if thread.task is None else thread.task.call)
            case Slot.LAUNCH:
                self.calls.launched(row, event.parts)
            case Slot.PARALLEL_BEGIN:
                thread.worked(row[4])
                self.add(thread, Step.FORK, self._team(row[2]))
            case Slot.PARALLEL_END | Slot.IMPLICIT | Slot.SYNC:
                self._synchronized(thread, event.kind, row)
            case Slot.TASK_CREATE | Slot.TASK_SCHEDULE | Slot.DEPENDENCE:
                self._tasking(thread, event.kind, row)
            case Slot.MUTEX:
                self._mutex(thread, row)
            case Slot.ALLOC:
                self._allocated(thread, row)
            case Slot.FREE:
                self._freed(thread, row)
            case Slot.TOUCH:
                self.memory.touched(event.thread, row)

    def add(self, thread: _Thread, step: Step, subject: int, detail: int = NONE) -> int:
        """Add a record to the task that a thread runs, with the time and the touches since the last one."""
        task = self.task_of(thread)
        touches = self.memory.take_touches(thread.number)
        return task.add(step, subject, thread.take_work(), touches, detail)

    def task_of(self, thread: _Thread) -> TaskRow:
        """Return the task that a thread runs; a thread that OpenMP did not make has an initial task of its own."""
        if thread.task is None:
            thread.task = self.make_task(TaskKind.INITIAL, thread.number)
        return thread.task

    def make_task(self, kind: TaskKind, thread: int, identifier: int = 0) -> TaskRow:
        """Add a task; it may run in another thread than the one that makes it."""
        task = TaskRow(len(self.tasks), kind, thread)
        self.tasks.append(task)
        if identifier:
            self._by_identifier[identifier] = task
        return task

    def _call(self, thread: _Thread, event: RecordedEvent) -> None:
        if self.calls.is_nested(event.row, event.parts):
            return
        thread.worked(event.row[4])
        place = self.add(thread, Step.DIRECTIVE, 0)
        self.calls.begin(event, self.task_of(thread), place)
        thread.deferring = event.row[2] if a_of(event.row) in DEFERRED else 0

    # the host's memory

    def _allocated(self, thread: _Thread, row: Row) -> None:
        for task, place, address, end in thread.moving:
            if a_of(row) == REALLOC:
                task.put(place, "detail", NONE if address == row[2] else end)
        thread.moving.clear()
        block = self.memory.arrays.allocate(row[2], row[3], "malloc")
        task = self.task_of(thread)
        self.memory.allocated.append((task, self.add(thread, Step.ALLOCATE, 0), block))

    def _freed(self, thread: _Thread, row: Row) -> None:
        how = a_of(row)
        if how > EndKind.SCOPE:
            raise RecordingDamaged(f"thread {thread.number}: memory ends in a way that is not known: {how}")
        where = self.process.strings.get(row[5], "")
        thread.moving.clear()
        for block in self.memory.freed(row[2], row[3]):
            copy, task = self.memory.device.copy_of(block.address, block.nbytes), self.task_of(thread)
            if copy is None:
                self.memory.allocated.append((task, self.add(thread, Step.FREE, 0), block))
                continue
            elsewhere = copy.task if copy.task is not None and self._is_strange(task, copy.task) else None
            end = self.memory.end_of(ArrayEnd(where, EndKind(how), elsewhere is not None))
            place = self.add(thread, Step.FREE, 0) if elsewhere is None else elsewhere.add(Step.FREE, 0, 0)
            if how != EndKind.REALLOC:
                (elsewhere or task).put(place, "detail", end)
            self.memory.allocated.append((elsewhere or task, place, block))
            thread.moving.append((elsewhere or task, place, row[2], end))

    def _is_strange(self, task: TaskRow, mapping: TaskRow) -> bool:
        """Tell whether OpenMP made none of the threads of two tasks, of which the second one maps what the first frees.

        No recorded synchronization orders such threads. So the free is recorded where it came among what the second one
        did, which is between two of its directives.
        """
        both_initial = task.kind == mapping.kind == TaskKind.INITIAL
        return both_initial and task.thread != mapping.thread and not self.calls.has_open(mapping)

    def _team(self, region: int) -> int:
        return self.teams.setdefault(region, len(self.teams))

    # synchronization

    def _synchronized(self, thread: _Thread, kind: int, row: Row) -> None:
        phase = a_of(row)
        if kind == Slot.PARALLEL_END:
            thread.since = row[4]
        elif kind == Slot.IMPLICIT and phase == _BEGIN:
            self._implicit(thread, row)
        elif kind == Slot.IMPLICIT:
            thread.worked(row[4])
            self._leave(thread)
        else:
            self._sync(thread, phase, b_of(row), row[4])

    def _implicit(self, thread: _Thread, row: Row) -> None:
        thread.since = row[4]
        thread.below.append(thread.task)
        initial = row[6] & 0xF == _INITIAL_TASK
        task = self.make_task(TaskKind.INITIAL if initial else TaskKind.IMPLICIT, thread.number, row[3])
        if not initial:
            task.team, task.number, task.size = self._team(row[2]), b_of(row), max(1, row[5])
        thread.task = task

    def _leave(self, thread: _Thread) -> None:
        """End a task: what it did since its last record is its rest."""
        if thread.task is not None and (thread.work or self.memory.has_touches(thread.number)):
            self.add(thread, Step.REST, 0)
        thread.task = thread.below.pop() if thread.below else None

    def _sync(self, thread: _Thread, phase: int, kind: int, cpu: int) -> None:
        if kind not in (*_BARRIERS, _REGION_END, _TASKWAIT, _TASKGROUP):
            return
        if phase == _BEGIN:
            thread.worked(cpu)
            if kind in _BARRIERS:
                self.add(thread, Step.BARRIER, 0)
            elif kind == _TASKWAIT:
                self.add(thread, Step.TASKWAIT, 0)
            elif kind == _TASKGROUP:
                self.add(thread, Step.GROUP_BEGIN, 0)
            self.task_of(thread).waiting = kind != _TASKGROUP
            return
        thread.since = cpu
        self.task_of(thread).waiting = False
        if kind == _TASKGROUP:
            self.add(thread, Step.GROUP_END, 0)

    # tasks

    def _tasking(self, thread: _Thread, kind: int, row: Row) -> None:
        if kind == Slot.DEPENDENCE:
            self._depends.setdefault(row[2], []).append((row[3], a_of(row)))
        elif kind == Slot.TASK_CREATE:
            thread.worked(row[4])
            self._create(thread, row[2], row[5])
        else:
            self._schedule(thread, row)

    def _create(self, thread: _Thread, identifier: int, flags: int) -> None:
        maker = self.task_of(thread)
        if flags & _TASKWAIT_TASK:
            self._made[identifier] = maker, self.add(thread, Step.TASKWAIT, 0)
            return
        deferred = TaskKind.TARGET if flags & _TARGET_TASK else TaskKind.EXPLICIT
        task = self.make_task(TaskKind.UNDEFERRED if flags & _UNDEFERRED else deferred, thread.number, identifier)
        if thread.deferring:
            task.call, thread.deferring = thread.deferring, 0
            owner, place = self._made[identifier] = self.calls.defer(task.call, task)
            owner.put(place, "step", Step.TASK)
            owner.put(place, "subject", task.index)
            return
        self._made[identifier] = maker, self.add(thread, Step.TASK, task.index)

    def _schedule(self, thread: _Thread, row: Row) -> None:
        thread.worked(row[4])
        ended = self._by_identifier.get(row[2])
        completed = a_of(row) in (1, 3)
        follower = self._by_identifier.get(row[3])
        if completed and ended is not None and ended.call:
            self.calls.done(ended.call)
        if ended is thread.task and completed and (thread.work or self.memory.has_touches(thread.number)):
            self.add(thread, Step.REST, 0)
        if follower is not None:
            follower.thread = thread.number if follower.kind > TaskKind.IMPLICIT else follower.thread
            thread.task = follower
        thread.take_work()

    # locks

    def _mutex(self, thread: _Thread, row: Row) -> None:
        phase, kind = a_of(row), b_of(row)
        if kind == _ATOMIC:
            return
        if phase == _ACQUIRED:
            lock, turn = self._lock(row[2], kind), NONE
            if kind == ORDERED:
                turn = self._turns[lock] = self._turns.get(lock, -1) + 1
            self.add(thread, Step.ACQUIRE, lock, turn)
            thread.since = row[4]
            return
        thread.worked(row[4])
        if phase == _RELEASED:
            self.add(thread, Step.RELEASE, self._lock(row[2], kind))

    def _lock(self, identifier: int, kind: int) -> int:
        return self.locks.setdefault((identifier, ORDERED if kind == ORDERED else 0), len(self.locks))

    # the end

    def finish(self) -> None:
        """Complete what a crash may have left open, and what is known only at the end."""
        self.calls.finish()
        for thread in self._threads.values():
            if thread.task is not None and self.memory.has_touches(thread.number):
                self.add(thread, Step.REST, 0)
        for identifier, (task, place) in self._made.items():
            if identifier in self._depends:
                task.put(place, "detail", self.dependences.add(self._depends[identifier]))
