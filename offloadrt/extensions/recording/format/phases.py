"""The phases that a program names itself, while it is recorded: ranges of NVTX, rocTX, Kokkos and `omp_control_tool`.

A range that is pushed on a thread's stack ends in the task that began it, or in another one. A range with a number
(`nvtxRangeStartA`) may do so, too. If it ends in another task, its records `Step.PHASE_BEGIN` and `PHASE_END` have the
same number as `detail`, which connects them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from offloadrt.extensions.recording.format.recording import RecordingDamaged, Step, TaskRow
from offloadrt.extensions.recording.format.slots import RawProcess, Row, a_of

_PUSH, _POP, _START, _STOP = range(1, 5)
"""What a slot does with a range; `native/phases.h` has the same numbers."""
_UNNAMED: Final = "(no name)"

Add = Callable[[Step, int], int]
"""Adds a record with this step and subject to the running task; returns its place."""


@attrs.frozen
class _Open:
    """A range that has not ended: its name, and the task and place of the record that began it."""

    name: int
    task: TaskRow
    place: int


@attrs.define(eq=False)
class RecordedPhases:
    """Follows the ranges (phases) that a program names by profiling calls such as NVTX's, while its events are read.

    names: all their names, with a number for each, in order of appearance.
    """

    _process: RawProcess
    names: dict[str, int] = attrs.field(factory=dict)
    _stacks: dict[tuple[int, int], list[_Open]] = attrs.field(factory=dict)
    """By (thread, domain): the ranges that the thread has pushed and not popped."""
    _started: dict[int, _Open] = attrs.field(factory=dict)
    _crossing: int = 0
    """How many ranges ended in another task than the one that began them."""

    def take(self, row: Row, thread: int, task: TaskRow, add: Add) -> None:
        """Add a record (step of a task) for the begin or end of a range that the program names, as by NVTX.

        An end without a begin adds none. row: the range's row (slot) in the raw files. add: adds the record. thread:
        the number of the thread. task: the task that it runs. Raises RecordingDamaged for a row that neither begins nor
        ends one.
        """
        what, domain = a_of(row), row[3]
        stack = self._stacks.setdefault((thread, domain), [])
        if what in (_PUSH, _START):
            name = self._named(self._text(row[2]), self._text(domain))
            begun = _Open(name, task, add(Step.PHASE_BEGIN, name))
            if what == _PUSH:
                stack.append(begun)
            else:
                self._started[row[5]] = begun
        elif what == _POP:
            self._end(stack.pop() if stack else None, task, add)
        elif what == _STOP:
            self._end(self._started.pop(row[5], None), task, add)
        else:
            raise RecordingDamaged(f"thread {thread}: a range is of unknown kind {what}")

    def finish(self) -> None:
        """End the named ranges (phases) that the program left open, in the tasks that began them."""
        left = [*self._started.values(), *(one for stack in self._stacks.values() for one in stack)]
        for one in sorted(left, key=lambda one: (one.task.index, -one.place)):
            one.task.add(Step.PHASE_END, one.name, 0)

    def _end(self, begun: _Open | None, task: TaskRow, add: Add) -> None:
        if begun is None:
            return
        place = add(Step.PHASE_END, begun.name)
        if begun.task is not task:
            begun.task.put(begun.place, "detail", self._crossing)
            task.put(place, "detail", self._crossing)
            self._crossing += 1

    def _text(self, address: int) -> str:
        """Return a string of the program; the recorder kept its bytes as Latin-1, and most are UTF-8."""
        return self._process.strings.get(address, "").encode("latin-1", "replace").decode("utf-8", "replace")

    def _named(self, text: str, domain: str) -> int:
        name = text or _UNNAMED
        return self.names.setdefault(f"{domain}: {name}" if domain else name, len(self.names))
