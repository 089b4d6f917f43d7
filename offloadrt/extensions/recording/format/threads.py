"""Threads while a program is recorded; and beside which records of the first one those ran that OpenMP did not make.

Each of these has an initial task. In a recording for a check, pthread_create, pthread_join and locks are flags, which
order such threads as they order OpenMP's. Of other threads it is not known who orders them: all that the first thread
had done before such a thread began is taken to come before that thread, and what it did after that thread's last event
may come after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from offloadrt.extensions.recording.format.recording import TaskRow

_FIRST: Final = 4
"""How many initial tasks are considered for the program's first one: libraries may have made some before it."""


@attrs.define(eq=False)
class InitialTasks:
    """Follows the initial tasks of a process (one per thread that OpenMP did not make) while its events are read.

    It finds out during which steps of the program's first thread the others ran, where no synchronization says so.
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
        """Record that the program makes a thread that will begin by a flag. frees: how many arrays have been freed."""
        self._made[flag] = frees

    def is_ordered(self, task: TaskRow, flag: int, frees: int) -> int:
        """Record that a recorded flag says after what an initial task begins, so that its order is known.

        Returns how many arrays had been freed when the thread was made. frees: how many have been freed now.
        """
        self._ordered.add(task.index)
        return self._made.pop(flag, frees)

    def did_something(self, task: TaskRow) -> None:
        """Record how far the program's first threads have got at an event of an initial task.

        Nothing is done for other tasks, or while there is only one initial task.
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

    task: the task that it runs. below: the tasks that this one interrupts. work: its CPU time in ns since its last
    record. number: the number of the thread in the recording.
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
