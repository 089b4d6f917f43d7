"""Arrays by their recorded numbers, with the variables of explicit tasks and of nested regions apart from one another.

A thread runs many explicit tasks one after the other, and is in many nested parallel regions, one after the other, of
several threads. Their variables then lie at the same addresses of its stack. In a replay other threads may run some of
these tasks meanwhile. So what a task has on the stack for itself gets addresses of its own: that is what it ends by
itself, and what the tasks that it makes see of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import numpy as np

from offloadrt.address_map import AddressMap
from offloadrt.extensions.recording.format.recording import NONE, EndKind, Recording, Step, TaskKind, TaskTree
from offloadrt.runtime.host_array import HostArray

_ADDRESS_BITS: Final = 48
_SHIFTS: Final = (1 << 14) - 1
"""The number of tasks whose variables are kept apart, in bits above those of addresses."""


@attrs.frozen(eq=False)
class TaskFrame:
    """Says where the stack variables that a task can use lie in a replay.

    Tasks that the recorded thread ran one after the other had their variables at the same addresses. A replay may run
    them at the same time, so it moves them apart. shifts: by number of the variable, what is added to its recorded
    address.
    """

    shifts: Mapping[int, int] = attrs.field(factory=dict)
    _ranges: Sequence[tuple[int, int, int]] = ()
    """The recorded addresses of these variables: (begin, end, number)."""

    def at(self, address: int) -> tuple[int, int]:
        """Return (number of the variable at a recorded host address, what to add to the address); else (NONE, 0)."""
        found = next((number for begin, end, number in self._ranges if begin <= address < end), NONE)
        return found, self.shifts.get(found, 0)


@attrs.define(eq=False)
class TaskFrames:
    """Says for each task of a recording where its stack variables lie in the replay (`TaskFrame`)."""

    recording: Recording
    outside: TaskFrame = attrs.field(factory=TaskFrame)
    """The frame of a task that is not in any explicit task or nested region."""
    _own: dict[int, list[int]] = attrs.field(factory=dict)
    """By task: the variables of the stack whose scope it ends."""
    _makers: dict[int, int] = attrs.field(factory=dict)
    """By task: the one that has made it, or has forked its team."""
    _known: dict[int, TaskFrame] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        columns, arrays = self.recording.columns, self.recording.dictionaries.arrays
        step, subject, detail = (columns[f"record.{name}"] for name in ("step", "subject", "detail"))
        kinds = columns["task.kind"].tolist()
        if not self.recording.meta.exact:
            return
        is_mapped = np.array([array.origin == "mapped" for array in arrays])
        if not is_mapped[subject[step == Step.FREE]].any():
            return
        ends = self.recording.dictionaries.ends
        tree = TaskTree(columns)
        self._makers = tree.makers()
        for task in range(len(kinds)):
            rows = tree.rows(task)
            for row in (np.flatnonzero(step[rows] == Step.FREE) + rows.start).tolist():
                what, end = int(subject[row]), int(detail[row])
                if is_mapped[what] and (end == NONE or ends[end].how == EndKind.SCOPE):
                    self._own.setdefault(task, []).append(what)
        self._own = {task: own for task, own in self._own.items() if self._is_inside(task, kinds)}

    def _is_inside(self, task: int, kinds: Sequence[int]) -> bool:
        """Tell whether a task is an explicit one or of a nested parallel region, or is made in one."""
        while kinds[task] != TaskKind.EXPLICIT and (maker := self._makers.get(task)) is not None:
            if kinds[task] == TaskKind.IMPLICIT and kinds[maker] != TaskKind.INITIAL:
                return True
            task = maker
        return kinds[task] == TaskKind.EXPLICIT

    def of(self, task: int) -> TaskFrame:
        """Return where the stack variables lie that a task can use: its own, and those of the tasks that made it."""
        if not self._own:
            return self.outside
        below = []
        while task not in self._known and task in self._makers:
            below.append(task)
            task = self._makers[task]
        frame = self._known.setdefault(task, self.outside)
        for task in reversed(below):
            if own := self._own.get(task):
                shift = (task % _SHIFTS + 1) << _ADDRESS_BITS
                frame = self._frame({**frame.shifts, **dict.fromkeys(own, shift)})
            self._known[task] = frame
        return frame

    def _frame(self, shifts: dict[int, int]) -> TaskFrame:
        arrays = self.recording.dictionaries.arrays
        own = [(arrays[number].address, arrays[number].nbytes, number) for number in reversed(shifts)]
        return TaskFrame(shifts, [(begin, begin + nbytes, number) for begin, nbytes, number in own])


@attrs.define(eq=False)
class PlacedArrays:
    """The arrays of a recorded program that exist now in its replay, by their numbers in the recording.

    A stack variable may exist several times, once for each task that has it; `frame`, in the methods, tells which of
    them a task means. count: how many arrays the recording lists.
    """

    count: int
    _of_all: list[HostArray | None] = attrs.field(init=False)
    _of_frames: dict[tuple[int, int], HostArray] = attrs.field(factory=dict)
    _places: dict[HostArray, tuple[int, int]] = attrs.field(factory=dict)
    _freed: dict[int, HostArray] = attrs.field(factory=dict)
    """By number: arrays of the heap that the program has freed."""
    _gone: AddressMap[HostArray] = attrs.field(factory=AddressMap)
    """Those of them in whose memory no other array has been since."""

    def __attrs_post_init__(self) -> None:
        self._of_all = [None] * self.count

    def at(self, number: int, frame: TaskFrame) -> HostArray | None:
        """Return array number `number`, as the task with this frame sees it; None if it does not exist now."""
        shift = frame.shifts.get(number, 0)
        return self._of_frames.get((number, shift)) if shift else self._of_all[number]

    def put(self, number: int, frame: TaskFrame, array: HostArray) -> None:
        """Record that array `number` exists from now on. frame: says which tasks see it."""
        shift = frame.shifts.get(number, 0)
        end = array.address + array.nbytes
        while (near := self._gone.before(end - 1)) is not None and near[0] + near[1].nbytes > array.address:
            self._gone.pop(near[0])
        self._places[array] = number, shift
        if shift:
            self._of_frames[number, shift] = array
        else:
            self._of_all[number] = array

    def freed(self, number: int, array: HostArray) -> None:
        """Record that the program frees array `number`, which lies on the heap."""
        self._freed[number] = array
        self._gone.pop(array.address)
        self._gone[array.address] = array

    def was_freed(self, number: int) -> bool:
        """Tell whether the program has freed array `number`, which lies on the heap."""
        return number in self._freed

    def gone(self, number: int) -> HostArray | None:
        """Return array `number` of the heap if it was freed and no other memory has lain there since; else None."""
        array = self._freed.get(number)
        return array if array is not None and self._gone.get(array.address) is array else None

    def remove(self, array: HostArray) -> None:
        """Note that an array exists no more."""
        number, shift = self._places.pop(array)
        if shift:
            del self._of_frames[number, shift]
        else:
            self._of_all[number] = None

    def seen_in(self, frame: TaskFrame) -> Sequence[HostArray | None]:
        """Return, by number, all arrays that a task with this frame sees; None for those that do not exist now."""
        if not frame.shifts:
            return self._of_all
        seen = [*self._of_all]
        for number in frame.shifts:
            seen[number] = self.at(number, frame)
        return seen
