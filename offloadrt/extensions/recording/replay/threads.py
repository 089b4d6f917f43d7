"""What orders replayed threads: ordered regions, atomic variables, and when threads that OpenMP did not make began.

These run between two records of the program's first thread.
"""

from __future__ import annotations

import attrs

from offloadrt.extensions.recording.format.recording import NONE, Recording, TaskTree
from offloadrt.sim import Signal, Simulation


@attrs.define
class ThreadsBeside:
    """Threads that the program made itself, as by pthread_create: between which records of its first thread they ran.

    Nothing else is known of their order, so among one another they are as concurrent as can be.
    """

    main: int = NONE
    """The initial task of the first thread."""
    began: dict[int, Signal] = attrs.field(factory=dict)
    """By initial task: set when the first thread has done what it had done when the thread began."""
    ended: dict[int, Signal] = attrs.field(factory=dict)
    begin_at: dict[int | None, list[int]] = attrs.field(factory=dict)
    """By the place of a record of the first thread: the tasks that begin before it; None is the end."""
    end_at: dict[int | None, list[int]] = attrs.field(factory=dict)
    """The same of the tasks that have ended before it."""

    @classmethod
    def of(cls, sim: Simulation, recording: Recording, tree: TaskTree) -> ThreadsBeside:
        """Read them; none where the first thread does nothing of the program's."""
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
    """An atomic variable of the program: how often it was released."""

    sim: Simulation
    releases: int = 0
    _changed: Signal | None = None

    async def wait_for(self, releases: int) -> None:
        """Wait until it was released so often."""
        while self.releases < releases:
            if self._changed is None:
                self._changed = Signal(self.sim, "a flag of the program")
            await self._changed.wait()

    def release(self) -> None:
        self.releases += 1
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
