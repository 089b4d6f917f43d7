"""Threads while a program is recorded; and beside which records of the first one those ran that OpenMP did not make.

Each of these has an initial task. In a recording for a check, pthread_create, pthread_join and locks are flags, which
order such threads as they order OpenMP's. Of other threads it is not known who orders them: all that the first thread
had done before such a thread began is taken to come before that thread, and what it did after that thread's last event
may come after it.

Where a program is stopped that has not ended, `halt_of` says what each thread was doing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from offloadrt.extensions.recording.format.recording import FLAG, ORDERED, TaskRow
from offloadrt.extensions.recording.format.slots import (
    MUTEX_BEGIN,
    RawProcess,
    Row,
    Slot,
    a_of,
    b_of,
    kind_of,
)

_FIRST: Final = 4
"""How many initial tasks are considered for the program's first one: libraries may have made some before it."""


@attrs.define(eq=False)
class InitialTasks:
    """Follows the initial tasks of a process (one per thread that OpenMP did not make) while its events are read.

    Of threads that no synchronization orders, it finds out during which steps of the program's first thread they ran.
    """

    _first: list[TaskRow] = attrs.field(factory=list)
    _began: dict[int, list[int]] = attrs.field(factory=dict)
    """By initial task: how many records each of the first initial tasks had done when it began."""
    _ended: dict[int, list[int]] = attrs.field(factory=dict)
    """By initial task: how many records each of the first initial tasks had at its last event."""
    _ordered: set[int] = attrs.field(factory=set)
    """The initial tasks that flags order."""
    _made: dict[int, int] = attrs.field(factory=dict)
    """By the flag of a thread that has not begun: how many arrays had been freed when the program made the thread."""

    def began(self, task: TaskRow, is_busy: Callable[[TaskRow], bool]) -> None:
        """Record that an initial task (a thread that OpenMP did not make) begins.

        is_busy: tells whether the last record (step) of a task is not done yet.
        """
        self._began[task.index] = [max(0, each.count - is_busy(each)) for each in self._first]
        if len(self._first) < _FIRST:
            self._first.append(task)

    def made(self, flag: int, frees: int) -> None:
        """Record that the program makes a thread, which begins when flag number `flag` is set.

        frees: how many arrays have been freed by now.
        """
        self._made[flag] = frees

    def is_ordered(self, task: TaskRow, flag: int, frees: int) -> int:
        """Record that an initial task waits for a flag which the thread that makes it sets, so that its order is known.

        flag: the flag's number. Returns how many arrays had been freed when the thread was made; `frees`, how many have
        been freed now, if that is not known.
        """
        self._ordered.add(task.index)
        return self._made.pop(flag, frees)

    def did_something(self, task: TaskRow) -> None:
        """Record, at an event of an initial task, how many steps the first initial tasks have done by then.

        The earliest few tasks are counted, as any of them may be the program's main thread. Nothing is done for other
        tasks, or while there is only one initial task.
        """
        if len(self._began) > 1 and task.index in self._began:
            self._ended[task.index] = [each.count for each in self._first]

    def beside(self, main: int, records: int) -> dict[int, tuple[int, int]]:
        """Return during which records (steps) of the first thread each initial task of unknown order ran.

        The result has (first, last) by task, and goes into `Dictionaries.beside`; the first thread's own task is left
        out. main: the number of the first thread's initial task. records: how many records it has.
        """
        place = next((place for place, each in enumerate(self._first) if each.index == main), None)
        unordered = {task: counts for task, counts in self._began.items() if task not in self._ordered}
        if place is None:
            return {task: (0, records) for task in unordered if task != main}
        after = {task: counts[place] for task, counts in unordered.items() if len(counts) > place}
        return {
            task: (count, max(count, self._ended.get(task, self._began[task])[place])) for task, count in after.items()
        }


@attrs.define(eq=False)
class RunningThread:
    """The state of a host thread while a recording is made from its events.

    task: the task that it runs. below: the tasks that were interrupted to run this one. work: its CPU time in ns since
    its last record. number: the number of the thread in the recording.
    """

    number: int
    task: TaskRow | None = None
    below: list[TaskRow | None] = attrs.field(factory=list)
    since: int | None = None
    """Its CPU time in ns at its last known event."""
    work: int = 0
    moving: list[tuple[TaskRow, int, int, int]] = attrs.field(factory=list)
    """Records of its last free, maybe by a realloc: (task, record's index, block's address, index in
    `Dictionaries.ends`)."""
    orders: bool = False
    """Whether the thread has locked or unlocked something before OpenMP reported the thread."""
    place: str = ""
    """The line of its last directive or routine."""
    deferring: int = 0
    """The call of a routine in which it is and that is about to make a deferred task; 0: none."""

    def worked(self, cpu: int) -> None:
        """Count the CPU time up to now, in ns, as work of the program, unless the thread was waiting."""
        waiting = self.task is not None and self.task.waiting
        if self.since is not None and not waiting and cpu > self.since:
            self.work += cpu - self.since
        self.since = cpu

    def take_work(self) -> int:
        work, self.work = self.work, 0
        return work


_BEGIN = 1
_ASKED, _TAKEN = 1, 2
"""What becomes of a lock, in a slot; 3: it is given back."""
_WAITS: Final = (1, 5, ORDERED, 9)
"""OMPT's numbers of locks, critical sections and ordered regions, for which a thread waits, and that of the mutexes of
POSIX and C. A nested lock may be taken again by its thread, and a lock that is tested is not waited for.
"""
_STEPS: Final = (
    Slot.CALL, Slot.RET, Slot.IMPLICIT, Slot.TASK_SCHEDULE, Slot.SYNC, Slot.MUTEX, Slot.MPI, Slot.MPI_END,
)  # fmt: skip
_QUIET_NS: Final = 500_000_000
"""Threads that have done nothing for so long before they were stopped were not just about to go on."""


@attrs.define(eq=False)
class _LastSteps:
    """What a thread was doing when its process was stopped; `take` follows it from slot to slot.

    place: the last line that it came to. waits_at: the line where it waits, if that is known. call: the directive that
    it is in, or 0. asks_for: the lock that it waits for, or 0. holds: its locks. regions: its numbers in the teams of
    the parallel regions in which it is. task: the one that it runs. waiting: its tasks that are at a barrier or the
    like, and may have been left for others. since: the time of its last step in ns. is_programs: whether it runs the
    program, as no helper of the runtime does.
    """

    number: int
    is_programs: bool
    place: str = ""
    waits_at: str = ""
    call: int = 0
    mpi: str = ""
    asks_for: int = 0
    holds: set[int] = attrs.field(factory=set)
    regions: list[int] = attrs.field(factory=list)
    task: int = 0
    waiting: set[int] = attrs.field(factory=set)
    since: int = 0

    def take(self, row: Row, process: RawProcess, places: dict[int, str]) -> None:
        """Take a slot (a fixed-size row of the raw files). places: by address of the program's code, the line."""
        kind, phase = kind_of(row), a_of(row)
        if kind not in _STEPS:
            return
        self.since, self.asks_for = row[1], 0
        if kind == Slot.CALL and not row[3]:
            self.call, self.place = row[2], process.line_at(row[5]) or self.place
        elif kind == Slot.RET and row[2] == self.call:
            self.call = 0
        elif kind in (Slot.MPI, Slot.MPI_END):
            where = places.get(row[3], "")
            self.mpi = f"{process.strings.get(row[2], 'MPI')}{where and f' at {where}'}" if kind == Slot.MPI else ""
        elif kind == Slot.IMPLICIT:
            self.task = row[3] if phase == _BEGIN else 0
            if row[6] & 1 == 0:
                self.regions = [*self.regions, b_of(row)] if phase == _BEGIN else self.regions[:-1]
        elif kind == Slot.TASK_SCHEDULE:
            self.task = row[3] or self.task
        elif kind == Slot.SYNC:
            self.waits_at = places.get(row[6], "")
            (self.waiting.add if phase == _BEGIN else self.waiting.discard)(row[3])
        elif kind == Slot.MUTEX and b_of(row) == FLAG:
            self.is_programs = self.is_programs or row[2] & MUTEX_BEGIN != 0
        elif kind == Slot.MUTEX and phase == _ASKED and b_of(row) in _WAITS:
            self.asks_for, self.waits_at = row[2], places.get(row[6], "")
        elif kind == Slot.MUTEX and phase != _ASKED:
            (self.holds.add if phase == _TAKEN else self.holds.discard)(row[2])

    @property
    def waits(self) -> bool:
        """Tell whether it waits for other threads or tasks, and runs none meanwhile."""
        return self.task in self.waiting and not self.call

    @property
    def name(self) -> str:
        """Return what reports call it."""
        return f"host thread {self.regions[-1] if self.regions else self.number}"

    def does(self, others: list[_LastSteps]) -> str:
        """Say what it was doing. others: all threads."""
        after = f" after {self.place}" if self.place else ""
        if (self.asks_for or self.waits) and self.waits_at:
            after = f" at {self.waits_at}"
        if self.mpi:
            return f"is in {self.mpi}"
        if self.call:
            return f"is in the directive at {self.place}"
        if not self.asks_for:
            return f"{'waits for other threads or tasks' if self.waits else 'runs'}{after}"
        if self.asks_for % 2:  # the flag of a thread's end, where no lock lies
            return f"waits for the end of a thread{after}"
        holder = next((one for one in others if self.asks_for in one.holds), None)
        whose = "" if holder is None else f" that {'it' if holder is self else holder.name} holds"
        return f"waits for a lock{whose}{after}"


def halt_of(process: RawProcess, stopped_ns: int) -> tuple[str, str]:
    """Return what the threads of a process were doing when it was stopped, and the source line where it is stuck.

    The line is empty if the process is not stuck. It is stuck if a thread waits for a lock that it holds itself, or if
    all threads wait for one another and one of them for a lock that another one holds. A thread that waits for a
    condition variable counts as running. stopped_ns: when it was stopped.
    """
    threads, lines = [], [line for line in process.lines if line["k"] in ("waits", "place")]
    files = {int(line["at"]): process.place_of(line).split(";") for line in lines}  # FILE;FUNCTION;LINE;COLUMN
    places = {address: f"{words[0]}:{words[2]}" for address, words in files.items() if len(words) > 2}
    for number, rows in enumerate(process.slots()):
        steps = _LastSteps(number, number == 0)
        for row in rows.tolist():
            steps.take(tuple(row), process, places)
        if steps.regions or steps.call or steps.is_programs:
            threads.append(steps)
    said = {one: f"{one.name} {one.does(threads)}" for one in threads}
    held = {lock for one in threads for lock in one.holds}
    if any(not each.asks_for and not each.waits for each in threads):
        held = set()
    is_quiet = stopped_ns - max((one.since for one in threads), default=0) > _QUIET_NS
    stuck = [one for one in threads if is_quiet and one.asks_for in (held or one.holds)]
    order = [*stuck, *(one for one in threads if one not in stuck)]
    where = (stuck[0].waits_at or f"after {stuck[0].place}") if stuck else ""
    return "; ".join(said[one] for one in order), where
