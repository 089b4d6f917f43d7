"""Several recordings of one program as one: host times are medians, and those of each repeat are kept as well.

Each task of a repeat is found by its way from the first thread: a team by its region, a member by its number in the
team, an explicit task by the record that makes it. Records without an operation (`REST`) may differ. The operations of
all repeats are aligned; where two repeats differ, the recording is refused with the place.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence

import attrs
import numpy as np

from offloadrt.extensions.recording.format.recording import (
    COLUMNS,
    NONE,
    Column,
    Dictionaries,
    RecordingError,
    Step,
    TaskTree,
)

Tables = tuple[Dictionaries, Mapping[str, Column]]
"""What was recorded of one process: dictionaries and columns."""


class RepeatsDiffer(RecordingError):
    """Raised when two repeats of a program did different operations, so that their times cannot be compared."""


def together(name: str, processes: Sequence[Sequence[Tables]]) -> tuple[list[dict[str, Column]], tuple[float, ...]]:
    """Join the repeats of a recorded program into one run: each host time becomes the median over the repeats.

    Returns the columns (tables of numbers) of each process with these medians, and for each repeat its host time over
    the sum of the medians. processes: for each process its repeats, in the same order. name: the run's name in
    messages. Raises RepeatsDiffer if the repeats did different operations.
    """
    made = [_of_process(name, repeats) for repeats in processes]
    totals = sum(columns["record.repeats"].sum(axis=0, dtype="f8") for columns in made)
    median = float(sum(int(columns["record.cpu"].sum()) for columns in made))
    return made, tuple(float(total) / median if median else 1.0 for total in np.atleast_1d(totals))


def _of_process(name: str, repeats: Sequence[Tables]) -> dict[str, Column]:
    known: dict[Hashable, int] = {}
    views = [_Repeat.of(tables, known) for tables in repeats]
    names = {number: key for key, number in known.items()}
    longest = max(range(len(views)), key=lambda number: (len(views[number].signs), -number))
    first = views[longest]
    times = np.zeros((len(first.signs), len(views)), "u8")
    for tasks in _aligned(name, views, names):
        rows = first.tree.rows(tasks[longest])
        gaps = [view.gaps(task) for view, task in zip(views, tasks, strict=True)]
        for number, gap in enumerate(gaps):
            times[rows, number] = _shared_out(first, rows, gaps[longest], gap)
    middle = np.rint(np.median(times, axis=1)).astype(COLUMNS["record.cpu"]) if len(times) else times[:, 0]
    return {**first.columns, "record.cpu": middle, "record.repeats": times}


def longest_of(repeats: Sequence[Tables]) -> Dictionaries:
    """Return the dictionaries (source lines, arrays, …) of the repeat with most records, the first of several.

    The columns that `together` returns refer to their rows.
    """
    return max(repeats, key=lambda tables: len(tables[1]["record.step"]))[0]


@attrs.frozen(eq=False)
class _Repeat:
    """One repeat of a process, with a number for the operation of each record that is the same in all repeats."""

    columns: Mapping[str, Column]
    tree: TaskTree
    signs: Column
    """By record: the number of its operation; -1: the record has CPU time only."""

    @classmethod
    def of(cls, tables: Tables, known: dict[Hashable, int]) -> _Repeat:
        dictionaries, columns = tables
        tree = TaskTree(columns)
        steps, subjects, details = (columns[f"record.{name}"] for name in ("step", "subject", "detail"))
        keys = np.stack([steps.astype("i8"), subjects.astype("i8"), details.astype("i8")], axis=1)
        numbers = np.full(len(steps), -1, "i8")
        if len(keys):
            pairs, place = np.unique(keys, axis=0, return_inverse=True)
            found = [_sign(dictionaries, columns, tree, *pair) for pair in pairs.tolist()]
            signs = [-1 if sign is None else known.setdefault(sign, len(known)) for sign in found]
            numbers = np.array(signs, "i8")[place.reshape(-1)]
        return cls(columns, tree, numbers)

    def does(self, task: int) -> Column:
        """Return the row indices of a task's records that have an operation."""
        rows = self.tree.rows(task)
        found: Column = np.flatnonzero(self.signs[rows] >= 0) + rows.start
        return found

    def gaps(self, task: int) -> Column:
        """Return the CPU time in ns before each record of a task that has an operation, then after the last one."""
        rows, does = self.tree.rows(task), self.does(task)
        total = np.concatenate([[0], np.cumsum(self.columns["record.cpu"][rows].astype("u8"))]).astype("u8")
        ends = np.concatenate([does - rows.start + 1, [rows.stop - rows.start]]).astype("i8")
        gaps: Column = np.diff(total[ends], prepend=np.uint64(0))
        return gaps

    def roots(self) -> list[int]:
        """Return the initial tasks that do something: the first thread's, then the others sorted by what they do."""
        first, *others = self.tree.roots() or [NONE]
        signs = {task: self.signs[self.does(task)] for task in others}
        others.sort(key=lambda task: (len(signs[task]), signs[task].tobytes(), task))
        return [] if first == NONE else [first, *others]


def _shared_out(first: _Repeat, rows: slice, own: Column, other: Column) -> Column:
    """Divide another repeat's gaps among a task's records as this one's are; a gap without own time goes to its last.

    A gap is the CPU time between two operations. It has several records if the task rests in it. own, other: the gaps
    of both repeats in ns.
    """
    does = first.signs[rows] >= 0
    gap: Column = np.cumsum(does) - does
    cpu = first.columns["record.cpu"][rows].astype("f8")
    whole = own.astype("f8")[gap]
    is_last = does | (np.arange(len(does)) == len(does) - 1)
    share = np.where(whole > 0, cpu / np.maximum(whole, 1.0), is_last.astype("f8"))
    shared: Column = np.rint(share * other.astype("f8")[gap]).astype("u8")
    return shared


def _sign(
    dictionaries: Dictionaries, columns: Mapping[str, Column], tree: TaskTree, step: int, subject: int, detail: int
) -> Hashable | None:
    """Return what a record does, without numbers that differ from repeat to repeat; None if it has CPU time only."""
    match step:
        case Step.REST | Step.ALLOCATE | Step.FREE:
            # Only used blocks have records of allocations, and addresses differ from repeat to repeat.
            return None
        case Step.DIRECTIVE | Step.STOP:
            site = dictionaries.sites[subject]
            first = columns["items.first"]
            places = slice(int(first[detail]), int(first[detail + 1])) if detail >= 0 else slice(0)
            sizes = () if site.is_routine else tuple(columns["item.size"][places].tolist())
            kernel = dictionaries.kernels[site.kernel] if site.kernel >= 0 else ""
            return step, site.call, site.where, site.device, kernel, tuple(form.type for form in site.items), sizes
        case Step.FORK:
            return step, "a parallel region", len(tree.members.get(subject, ()))
        case Step.TASK:
            return step, "a task", int(columns["task.kind"][subject])
        case Step.ACQUIRE | Step.RELEASE:
            return step, "a lock", int(columns["lock.kind"][subject])
        case Step.PHASE_BEGIN | Step.PHASE_END:
            return step, "a range", dictionaries.phases[subject]
        case Step.MPI:
            call = dictionaries.mpi_calls[subject]
            return step, call.call, call.where
        case _:
            return step, Step(step).name.lower()


def _aligned(name: str, views: Sequence[_Repeat], names: Mapping[int, Hashable]) -> Iterator[tuple[int, ...]]:
    """Yield each task as a tuple of its numbers in all repeats. Raises RepeatsDiffer."""
    roots = [view.roots() for view in views]
    if len({*map(len, roots)}) > 1:
        counts = " and ".join(str(count) for count in dict.fromkeys(map(len, roots)))
        raise RepeatsDiffer(f"{name}: the repeats differ: {counts} threads of the program's own do something")
    waiting = [*zip(*roots, strict=True)]
    while waiting:
        tasks = waiting.pop()
        does = [view.does(task) for view, task in zip(views, tasks, strict=True)]
        for number in range(1, len(views)):
            _compare(name, names, views, tasks, number)
        yield tasks
        steps = views[0].columns["record.step"][does[0]]
        for made in np.flatnonzero((steps == Step.FORK) | (steps == Step.TASK)).tolist():
            subjects = [
                int(view.columns["record.subject"][places[made]]) for view, places in zip(views, does, strict=True)
            ]
            if steps[made] == Step.TASK:
                waiting.append(tuple(subjects))
            else:
                members = [view.tree.members.get(team, []) for view, team in zip(views, subjects, strict=True)]
                waiting += zip(*members, strict=True)


def _compare(
    name: str, names: Mapping[int, Hashable], views: Sequence[_Repeat], tasks: Sequence[int], number: int
) -> None:
    """Raise RepeatsDiffer if a task does other operations in repeat `number` than in the first one."""
    own, others = (views[repeat].signs[views[repeat].does(tasks[repeat])] for repeat in (0, number))
    if np.array_equal(own, others):
        return
    count = min(len(own), len(others))
    parts = np.flatnonzero(own[:count] != others[:count])
    at = int(parts[0]) if parts.size else count
    told = [
        f"repeat {repeat + 1} {'comes to ' + _words(names[int(signs[at])]) if at < len(signs) else 'ends'}"
        for repeat, signs in ((0, own), (number, others))
    ]
    thread = int(views[0].columns["task.thread"][tasks[0]])
    before = next((_words(names[int(sign)]) for sign in own[:at][::-1] if len(_key(names[int(sign)])) > 2), "")
    after = f", after {before}," if before else ","
    raise RepeatsDiffer(
        f"{name}: the repeats part at operation {at + 1} of thread {thread}{after} where {told[0]} and {told[1]}: the "
        "program does not do the same each time (which thread gets an iteration or a task, what a message brings "
        "first, or random numbers decide), so its times have no medians; record it without --repeat"
    )


def _key(sign: Hashable) -> tuple[object, ...]:
    assert isinstance(sign, tuple)
    return sign


def _words(sign: Hashable) -> str:
    """Return an operation in words, with its place and the bytes that it maps."""
    step, what, *rest = _key(sign)
    if step in (Step.DIRECTIVE, Step.STOP):
        where, sizes = rest[0], rest[-1]
        name = str(what).removeprefix("__tgt_").removesuffix("_mapper")
        nbytes = sum(size for size in sizes if size > 0) if isinstance(sizes, tuple) else 0
        return f"{name} at {where}{f' of {nbytes} B' if nbytes else ''}"
    if step == Step.FORK:
        return f"a parallel region of {rest[0]} threads"
    if step in (Step.PHASE_BEGIN, Step.PHASE_END):
        return f"the {'begin' if step == Step.PHASE_BEGIN else 'end'} of {rest[0]}"
    if step == Step.MPI and str(rest[0]) != what:
        return f"{what} at {rest[0]}"
    return {Step.ACQUIRE: "the begin of a lock", Step.RELEASE: "the end of a lock"}.get(Step(int(str(step))), str(what))


def at_times(columns: Mapping[str, Column], ratios: Sequence[float], wanted: float) -> dict[str, Column]:
    """Return a recording's columns with other host times, whose sum is `wanted` times that of the medians.

    ratios: the host time of each repeat over that of the medians. The times are interpolated between the two nearest
    repeats (or the medians), so what was slow in a repeat stays slow.
    """
    cpu, times = columns["record.cpu"], columns["record.repeats"]
    known = sorted([(1.0, -1), *((ratio, number) for number, ratio in enumerate(ratios))])
    wanted = min(max(wanted, known[0][0]), known[-1][0])
    (below, one), (above, other) = next(
        (low, high) for low, high in itertools.pairwise(known) if low[0] <= wanted <= high[0]
    )
    share = (wanted - below) / (above - below) if above > below else 0.0
    ends = [cpu if number < 0 else times[:, number] for number in (one, other)]
    mixed = np.rint((1.0 - share) * ends[0].astype("f8") + share * ends[1].astype("f8")).astype(cpu.dtype)
    return {**columns, "record.cpu": mixed}
