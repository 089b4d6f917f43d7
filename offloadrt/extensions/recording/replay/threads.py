"""Orders replayed threads: ordered regions, atomic variables, and threads that OpenMP did not make.

Threads that OpenMP did not make run between two records of the program's first thread.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from offloadrt.extensions.recording.format.recording import NONE, Recording, TaskTree
from offloadrt.sim import Signal, Simulation


@attrs.define
class ThreadsBeside:
    """The threads that the program made itself, as by pthread_create, and beside which records each of them ran.

    Nothing else is known of their order, so they are unordered among one another.
    """

    main: int = NONE
    """The initial task of the first thread."""
    began: dict[int, Signal] = attrs.field(factory=dict)
    """By initial task: set when the first thread has done all that it had done when that thread began."""
    ended: dict[int, Signal] = attrs.field(factory=dict)
    begin_at: dict[int | None, list[int]] = attrs.field(factory=dict)
    """By record of the first thread: the initial tasks that begin before it; None: at the end."""
    end_at: dict[int | None, list[int]] = attrs.field(factory=dict)
    """By record of the first thread: the initial tasks that have ended before it."""

    @classmethod
    def of(cls, sim: Simulation, recording: Recording, tree: TaskTree) -> ThreadsBeside:
        """Read them from a recording; empty if the first thread does nothing of the program."""
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
    """An atomic variable or a lock of the program by which threads synchronize: counts its releases.

    They have the numbers of the recording, and others may come earlier here. So what is counted is how many of the
    first ones have come.
    """

    releases: int = 0
    detached: Callable[[], None] | None = None
    """Completes the task that has ended without it, if the flag stands for the event of a `detach` clause."""
    _early: set[int] = attrs.field(factory=set)
    _waiting: dict[Callable[[], None], None] = attrs.field(factory=dict)

    def has_come(self, releases: int, wake: Callable[[], None]) -> bool:
        """Tell whether the flag has been released this many times; if not, its next release calls `wake`."""
        if self.releases < releases:
            self._waiting[wake] = None
        return self.releases >= releases

    def release(self, number: int = NONE) -> None:
        """Release the flag as its release of this number; NONE means the next one."""
        self._early.add(self.releases + 1 if number == NONE else number)
        while self.releases + 1 in self._early:
            self.releases += 1
            self._early.remove(self.releases)
        if self.detached is not None:
            self.detached()
            self.detached = None
        waiting, self._waiting = self._waiting, {}
        for wake in waiting:
            wake()


@attrs.define(eq=False)
class OrderedTurns:
    """An ordered region, whose turns come in the order of the recording."""

    sim: Simulation
    next: int = 0
    _waiting: dict[int, Signal] = attrs.field(factory=dict)

    async def take(self, turn: int) -> None:
        """Wait for a turn, by its number."""
        if turn > self.next:
            signal = self._waiting[turn] = Signal(self.sim, "ordered region")
            await signal.wait()

    def give_up(self) -> None:
        """End the current turn, and let the next one begin."""
        self.next += 1
        if (signal := self._waiting.pop(self.next, None)) is not None:
            signal.set()
