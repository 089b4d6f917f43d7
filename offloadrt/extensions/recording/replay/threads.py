"""Threads that OpenMP did not make, as they are replayed: each between two records of the program's first thread."""

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
