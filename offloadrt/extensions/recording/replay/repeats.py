"""Finds repeats: stretches of records that a task does several times in a row, of which a replay may walk only some."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt

from offloadrt.extensions.recording.format.recording import NONE, ORDERED, OmptOperation, Recording, Step, TaskTree

_LEAST: Final = 8
"""The smallest number of instances that make a repeat."""
_PERIODS: Final = 24
"""The largest number of periods that are tried for a stretch of records."""
_BEGINS: Final = (Step.ALLOCATE, Step.GROUP_BEGIN, Step.ACQUIRE)
_ENDS: Final = (Step.FREE, Step.GROUP_END, Step.RELEASE)

Signs = npt.NDArray[np.int64]


@attrs.frozen
class Repeat:
    """A part of a recorded task that repeats: `period` records (steps), `instances` times in a row, from `first` on."""

    first: int
    period: int
    instances: int
    work: tuple[float, ...] = attrs.field(repr=False)
    """By instance: recorded host work in nanoseconds."""
    key: tuple[int, ...] | None = None
    """Equal for repeats of a team's threads that contain the same barriers; None if the repeat contains none."""

    @property
    def end(self) -> int:
        return self.first + self.instances * self.period


@attrs.define(eq=False)
class RepeatFinder:
    """Finds repeats in the tasks of a recording, so that a replay can leave some of them out.

    A repeat is a sequence of records (steps) that occurs several times in a row. tree: the recording's tasks.
    """

    recording: Recording
    tree: TaskTree
    _signs: Signs = attrs.field(init=False)
    """By record: a number that is equal for records that do the same."""
    _cpu: npt.NDArray[np.float64] = attrs.field(init=False)
    """By record: host work in ns, with the longest thread of a region that it forks."""
    _shapes: dict[bytes, int] = attrs.field(factory=dict)
    _known: dict[int, tuple[int, float]] = attrs.field(factory=dict)
    _of_team: dict[int, dict[int, list[Repeat]]] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        columns = self.recording.columns
        step, subject = columns["record.step"].astype(np.int64), columns["record.subject"].astype(np.int64)
        nbytes = np.array([array.nbytes for array in self.recording.dictionaries.arrays] or [0], np.int64)
        arrays = (step == Step.ALLOCATE) | (step == Step.FREE)
        directives = step == Step.DIRECTIVE
        sited = directives | (step == Step.STOP)
        what = np.where(arrays, nbytes[np.where(arrays, subject, 0)], np.where(sited, subject, 0))
        locks = (step == Step.ACQUIRE) | (step == Step.RELEASE)
        what = np.where(locks, subject, what)
        rows = [step, what, np.where(directives, columns["record.operations"], NONE)]
        launch = columns["record.launch"].astype(np.int64)
        for name in ("trip", "teams", "threads"):
            column = columns[f"launch.{name}"].astype(np.int64)
            rows.append(np.where(launch >= 0, column[np.maximum(launch, 0)] if len(column) else 0, NONE))
        self._signs = np.unique(np.stack(rows), axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)
        self._cpu = columns["record.cpu"].astype(np.float64)
        for task in reversed(range(len(columns["task.kind"]))):  # tasks that a task makes have higher numbers
            self._shape(task)

    def of_task(self, task: int) -> list[Repeat]:
        """Return the repeats of a task, in order, of which a replay may leave some instances out.

        A repeat is a sequence of records (steps) that occurs several times in a row.
        """
        team = int(self.recording.columns["task.team"][task])
        members = self.tree.members.get(team, [task]) if team >= 0 else [task]
        if team not in self._of_team or team < 0:
            found = {member: list(self._found(member)) for member in members}
            self._of_team[team] = self._that_meet(team, found) if len(members) > 1 else found
        return self._of_team[team].get(task, [])

    # ------------------------------------------------------------------ alike records

    def _shape(self, task: int) -> None:
        """Find a number for all that a task does, with the tasks that it forks and makes, and sum up its host work."""
        rows = self.tree.rows(task)
        steps = self.recording.columns["record.step"][rows]
        for place in np.flatnonzero((steps == Step.FORK) | (steps == Step.TASK)).tolist():
            self._include(rows.start + place)
        key = self._signs[rows].tobytes()
        shape = self._shapes.setdefault(key, len(self._shapes))
        self._known[task] = shape, float(self._cpu[rows].sum())

    def _include(self, record: int) -> None:
        """Make the sign of a FORK or TASK record depend on what is in it; a region also adds its host work."""
        columns = self.recording.columns
        step, below = int(columns["record.step"][record]), int(columns["record.subject"][record])
        members = self.tree.members.get(below, []) if step == Step.FORK else [below]
        shapes = [self._known[member] for member in members]
        key = repr((step, [shape for shape, _ in shapes])).encode()
        self._signs[record] = -1 - self._shapes.setdefault(key, len(self._shapes))
        if step == Step.FORK:
            self._cpu[record] += max((cpu for _, cpu in shapes), default=0.0)

    # ------------------------------------------------------------------ repeats

    def _found(self, task: int) -> Iterator[Repeat]:
        rows = self.tree.rows(task)
        stretches = [(rows.start, rows.stop)]
        found: list[Repeat] = []
        while stretches:
            begin, end = stretches.pop()
            repeat = self._longest(begin, end)
            if repeat is not None:
                found.append(repeat)
                stretches += [(begin, repeat.first), (repeat.end, end)]
        yield from sorted(found, key=lambda repeat: repeat.first)

    def _longest(self, begin: int, end: int) -> Repeat | None:
        """Return the repeat in a stretch of records of which most records can be left out; None if there is none."""
        signs = self._signs[begin:end]
        best: tuple[int, int, int, int] | None = None
        for period in _periods(signs):
            for first, count in _runs(signs, period):
                left = (count - _LEAST) * period
                if best is None or left > best[0]:
                    best = left, first, period, count
        if best is None:
            return None
        _, first, period, count = best
        return self._balanced(begin + first, period, count)

    def _balanced(self, first: int, period: int, count: int) -> Repeat | None:
        """Return a repeat whose instances begin where least is allocated; None if instances leave something behind."""
        columns = self.recording.columns
        lists = columns["record.operations"][first : first + period].tolist()
        steps = columns["record.step"][first : first + period].tolist()
        subjects = columns["record.subject"][first : first + period].tolist()
        kinds = columns["lock.kind"]
        level, levels = 0, []
        for step, subject, list_ in zip(steps, subjects, lists, strict=True):
            levels.append(level)
            if step == Step.DIRECTIVE:
                level += self._stays(list_)
            elif step == Step.ACQUIRE and int(kinds[subject]) == ORDERED:
                return None
            else:
                level += (step in _BEGINS) - (step in _ENDS)
        if level:
            return None
        turn = levels.index(min(levels))
        if turn:
            first, count = first + turn, count - 1
        work = self._cpu[first : first + count * period].reshape(count, period).sum(axis=1)
        return Repeat(first, period, count, tuple(work.tolist()))

    def _stays(self, operations: int) -> int:
        """Return how many more device blocks a directive allocates than it frees."""
        kinds = self.recording.columns["operation.kind"]
        places = self.recording.range_of("operations", operations)
        done = kinds[places.start : places.stop]
        return int(np.count_nonzero(done == OmptOperation.ALLOC)) - int(np.count_nonzero(done == OmptOperation.DELETE))

    # ------------------------------------------------------------------ threads that meet

    def _that_meet(self, team: int, found: dict[int, list[Repeat]]) -> dict[int, list[Repeat]]:
        """Keep repeats with barriers only if all threads of the team have such repeats between the same barriers."""
        met = {
            task: [(self._barriers(self.tree.rows(task).start, repeat.first), self._barriers(repeat.first, repeat.end))
                   for repeat in repeats]
            for task, repeats in found.items()
        }  # fmt: skip
        meeting = [[meets for meets in of_task if meets[1]] for of_task in met.values()]
        counts = [[r.instances for r, m in zip(found[t], met[t], strict=True) if m[1]] for t in found]
        alike = all(one == meeting[0] for one in meeting) and all(one == counts[0] for one in counts)
        kept: dict[int, list[Repeat]] = {}
        for task, repeats in found.items():
            kept[task] = [
                repeat if not barriers else attrs.evolve(repeat, key=(team, before))
                for repeat, (before, barriers) in zip(repeats, met[task], strict=True)
                if alike or not barriers
            ]
        first = next(iter(kept.values()), [])
        work = {repeat.key: repeat.work for repeat in first if repeat.key is not None}
        return {
            task: [attrs.evolve(repeat, work=work.get(repeat.key or (), repeat.work)) for repeat in repeats]
            for task, repeats in kept.items()
        }

    def _barriers(self, begin: int, end: int) -> int:
        return int(np.count_nonzero(self.recording.columns["record.step"][begin:end] == Step.BARRIER))


def _periods(signs: Signs) -> list[int]:
    """Return distances in records at which equal records recur, those first that cover most records."""
    if len(signs) < 2 * _LEAST:
        return []
    order = np.argsort(signs, kind="stable")
    gaps = np.diff(order)[np.diff(signs[order]) == 0]
    periods, counts = np.unique(gaps, return_counts=True)
    wide = counts >= _LEAST - 1
    periods, counts = periods[wide], counts[wide]
    most = np.argsort(-(periods * counts), kind="stable")[:_PERIODS]
    return [int(period) for period in periods[most]]


def _runs(signs: Signs, period: int) -> Iterator[tuple[int, int]]:
    """Yield (first record, number of instances) of stretches where every record equals the one a period before."""
    alike = np.concatenate(([0], (signs[period:] == signs[:-period]).astype(np.int8), [0]))
    changes = np.flatnonzero(np.diff(alike))
    for first, last in zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True):
        count = (last - first + period) // period
        if count >= _LEAST:
            yield first, count
