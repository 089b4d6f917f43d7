"""The locks of a recorded program: their numbers, and in which order they were taken.

A lock is one of OpenMP's or POSIX', a critical section, an ordered region, an atomic variable, or an object in a
`mutexinoutset`, which a task holds while it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from offloadrt.extensions.recording.format.recording import FLAG, NONE, ORDERED

IN_TURN: Final = 36
"""The kind of a dependence `mutexinoutset` in a recording for a check, where its tasks hold a lock in recorded turns.

It is none of OMPT's numbers.
"""
_MUTEXINOUTSET: Final = 4
"""OMPT's number of the dependence."""


@attrs.define(eq=False)
class HeldMutexes:
    """The mutexes of POSIX and C that threads hold, each with its thread and how often that thread has locked it.

    Code that was compiled without the compiler plugin may lock or unlock a mutex unseen. A lock or unlock that then
    contradicts what was seen before is not recorded.
    """

    _held: dict[int, tuple[int, int]] = attrs.field(factory=dict)

    def take(self, mutex: int, thread: int) -> bool:
        """Record that a thread locks a mutex; tell whether nobody held the mutex before.

        It is False if the thread itself holds the mutex already, as a recursive mutex allows.
        """
        holder, times = self._held.get(mutex, (thread, 0))
        if holder == thread:
            self._held[mutex] = thread, times + 1
        return holder == thread and not times

    def give_back(self, mutex: int, thread: int) -> bool:
        """Record that a thread unlocks a mutex; tell whether the thread held the mutex and no longer does."""
        holder, times = self._held.get(mutex, (NONE, 0))
        if holder != thread:
            return False
        self._held[mutex] = thread, times - 1
        if times == 1:
            del self._held[mutex]
        return times == 1


@attrs.define(eq=False)
class RecordedLocks:
    """Follows the locks of a process while its events are read, and gives them their numbers in the recording.

    mutexes: who holds the mutexes of POSIX and C.
    """

    numbers: dict[tuple[int, int], int] = attrs.field(factory=dict)
    """By identifier and kind: the number in the recording."""
    mutexes: HeldMutexes = attrs.field(factory=HeldMutexes)
    _turns: dict[int, int] = attrs.field(factory=dict)
    _excluded: dict[int, list[int]] = attrs.field(factory=dict)
    """By identifier of a task that has begun and not ended: the locks that it holds by its dependences."""

    def number(self, identifier: int, kind: int) -> int:
        """Return the number of a lock in the recording.

        identifier: what the runtime names the lock by, such as its address. kind: its kind, as in the column
        `lock.kind`.
        """
        key = identifier, kind if kind in (ORDERED, FLAG) else 0
        return self.numbers.setdefault(key, len(self.numbers))

    def next_turn(self, lock: int) -> int:
        """Count one more acquisition of a lock; return how often the lock was acquired before."""
        turn = self._turns[lock] = self._turns.get(lock, NONE) + 1
        return turn

    def begins(self, task: int, depends: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Record that a task begins whose `mutexinoutset` dependences exclude other tasks; each acts like a lock.

        Yields (lock, turn) for each object of such dependences, where turn is how often the lock was acquired before;
        nothing if the task has begun before. depends: (address of the object, OMPT's number of the kind) of each of the
        task's dependences; the kind of `mutexinoutset` is changed to IN_TURN, as the lock orders the tasks in the
        recorded turns.
        """
        if task in self._excluded:
            return
        objects = {address for address, kind in depends if kind == _MUTEXINOUTSET}
        depends[:] = [(address, IN_TURN if kind == _MUTEXINOUTSET else kind) for address, kind in depends]
        locks = self._excluded[task] = sorted(self.number(-address, 0) for address in objects)
        for lock in locks:
            yield lock, self.next_turn(lock)

    def ends(self, task: int) -> Iterable[int]:
        """Record that a task has ended; return the locks that it held by its `mutexinoutset` dependences."""
        return self._excluded.pop(task, ())
