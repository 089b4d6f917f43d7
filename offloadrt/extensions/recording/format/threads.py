"""Threads that OpenMP did not make, as a program is recorded: between which records of its first thread they ran.

Each has an initial task. How a program orders its own threads, as by pthread_create and pthread_join, is not recorded.
But what the first thread had done before another one began comes before that one, and what it does after that one did
something last may come after it: so a correct program has no race that its recording does not order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from offloadrt.extensions.recording.format.recording import TaskRow

_FIRST: Final = 4
"""Initial tasks among which the program's first one is looked for: libraries may have some before it."""


@attrs.define(eq=False)
class InitialTasks:
    """The initial tasks of a process, while its events come in."""

    _first: list[TaskRow] = attrs.field(factory=list)
    _began: dict[int, list[int]] = attrs.field(factory=dict)
    """How many records each of the first had done when an initial task began, by its number."""
    _ended: dict[int, list[int]] = attrs.field(factory=dict)
    """How many they had when it did something last."""

    def began(self, task: TaskRow, is_busy: Callable[[TaskRow], bool]) -> None:
        """Take a new initial task. `is_busy` tells whether the last record of one is not done yet."""
        self._began[task.index] = [max(0, each.count - is_busy(each)) for each in self._first]
        if len(self._first) < _FIRST:
            self._first.append(task)

    def did_something(self, task: TaskRow) -> None:
        """Note that a task did something, if it is an initial one beside others."""
        if len(self._began) > 1 and task.index in self._began:
            self._ended[task.index] = [each.count for each in self._first]

    def beside(self, main: int) -> dict[int, tuple[int, int]]:
        """Return `Dictionaries.beside`, by the number of the first thread's initial task."""
        place = next((place for place, each in enumerate(self._first) if each.index == main), None)
        if place is None:
            return {}
        after = {task: counts[place] for task, counts in self._began.items() if len(counts) > place}
        return {
            task: (count, max(count, self._ended.get(task, self._began[task])[place])) for task, count in after.items()
        }
