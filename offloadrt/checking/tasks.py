"""Deferred tasks: who made them, at which line, and whether anybody waits for them before the program ends."""

from __future__ import annotations

from collections.abc import Hashable

import attrs

from offloadrt.checking.mistakes import Mistakes, Story
from offloadrt.checking.strands import Strand, Strands


@attrs.define(eq=False)
class Tasks:
    """The deferred tasks of a program, by what `TaskMade` calls them."""

    strands: Strands
    mistakes: Mistakes
    _made: dict[Hashable, Story] = attrs.field(factory=dict)
    _running: dict[Strand, Hashable] = attrs.field(factory=dict)
    _ends: dict[Hashable, Hashable] = attrs.field(factory=dict)

    def made(self, task: Hashable, name: str, where: str) -> None:
        """Let the running strand make a task."""
        maker = self.strands.current()
        who = maker.name if maker.deferred else f"task of {maker.name}"
        self._made[task] = Story(who, f"is {name}", where, self.strands.sim.now)
        self.strands.signalled(task)

    def began(self, task: Hashable, after: tuple[Hashable, ...]) -> None:
        made = self._made[task]
        self.strands.began(made.who, (task, *after), True, made.where)
        self._running[self.strands.current()] = task

    def named(self, strand: Strand, source: str) -> None:
        """Take the line that a task comes to for its own, when none was known where it was made."""
        task = self._running.get(strand)
        if task is not None and not self._made[task].where:
            self._made[task] = attrs.evolve(self._made[task], where=source)

    def ended(self, what: Hashable) -> None:
        """Let the running strand, which may be a task, signal its end."""
        task = self._running.pop(self.strands.current(), None)
        if task is not None:
            self._ends[task] = what

    def finish(self) -> None:
        """Report the tasks that nobody has waited for."""
        for task, what in self._ends.items():
            if what not in self.strands.awaited:
                made = self._made[task]
                advice = "Nobody waits for this task before the program ends: a taskwait would."
                subject = f"a task of {made.where}" if made.where else f"a {made.who}"
                self.mistakes.add("never awaited", subject, (made,), advice)
