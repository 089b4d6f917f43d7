"""Whether the tables of a recording fit together: every column is there, and refers only to what exists.

A file may be damaged, or written by hand. What is checked here need not be checked where a recording is used.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from offloadrt.recording.format.errors import RecordingDamaged
from offloadrt.recording.format.recording import COLUMNS, NONE, Column, Recording, Step, TaskKind
from offloadrt.recording.format.slots import ATOMIC_RANGE, COUNTERS, LOADS, STORES

_LISTS: Final = {
    "items.first": "item.base",
    "operations.first": "operation.kind",
    "touches.first": "touch.array",
    "dependences.first": "dependence.kind",
    "trace.first": "use.item",
    "use.first_run": "run.kind",
    "use.first_range": "range.kind",
}
"""The columns that say where lists begin, each with a column of the entries of these lists."""
_KINDS: Final = {
    "record.step": (min(Step), max(Step)),
    "task.kind": (min(TaskKind), max(TaskKind)),
    "run.kind": (LOADS, STORES),
    "range.kind": (LOADS, ATOMIC_RANGE),
}
"""The smallest and the largest number that a column of kinds may hold."""


def check(recording: Recording) -> None:
    """Raise RecordingDamaged when a column is missing, or refers to what does not exist."""
    for name in COLUMNS:
        if name not in recording.columns:
            raise RecordingDamaged(f"{recording.name}: column {name} is missing")
    _check_shapes(recording)
    _check_lists(recording)
    _check_tasks(recording)
    _check_references(recording)
    _check_steps(recording)
    _check_items(recording)


def _check_shapes(recording: Recording) -> None:
    """Check that the columns of a table have one length, and hold only kinds that there are."""
    for name, column in recording.columns.items():
        if column.shape[1:] != ((len(COUNTERS),) if name == "launch.counts" else ()):
            raise RecordingDamaged(f"{recording.name}: column {name} has the shape {column.shape}")
    tables: dict[str, list[str]] = {}
    for name in COLUMNS:
        if name not in _LISTS:
            tables.setdefault(name.partition(".")[0], []).append(name)
    for table, names in tables.items():
        lengths = {name: len(recording.columns[name]) for name in names}
        if len(set(lengths.values())) > 1:
            raise RecordingDamaged(f"{recording.name}: columns of {table} differ in length: {lengths}")
    for name, (least, most) in _KINDS.items():
        column = recording.columns[name]
        if len(column) and not least <= int(column.min()) <= int(column.max()) <= most:
            raise RecordingDamaged(f"{recording.name}: {name} holds a kind that is not from {least:d} to {most:d}")


def _check_lists(recording: Recording) -> None:
    """Check that lists follow one another without a gap, and end where their entries end."""
    for name, entries in _LISTS.items():
        first = recording.columns[name]
        if not len(first) or int(first[-1]) != len(recording.columns[entries]):
            raise RecordingDamaged(f"{recording.name}: {name} does not end where {entries} ends")
        if int(first[0]) or (first[1:] < first[:-1]).any():
            raise RecordingDamaged(f"{recording.name}: {name} does not rise from 0")
    owners = {"trace.first": "trace.launch", "use.first_run": "use.item", "use.first_range": "use.item"}
    for name, table in owners.items():
        if len(recording.columns[name]) != len(recording.columns[table]) + 1:
            raise RecordingDamaged(f"{recording.name}: {name} has not one list for each entry of {table}")


def _check_tasks(recording: Recording) -> None:
    """Check that the records of tasks follow one another without a gap, and that no task contains itself."""
    columns = recording.columns
    first, counts = columns["task.first"].tolist(), columns["task.count"].tolist()
    expected = 0
    for begin, count in zip(first, counts, strict=True):
        if begin != expected:
            raise RecordingDamaged(f"{recording.name}: the records of a task begin at {begin}, not at {expected}")
        expected += count
    if expected != len(columns["record.step"]):
        raise RecordingDamaged(f"{recording.name}: the tasks have {expected} records together")
    maker = np.repeat(np.arange(len(counts)), counts)
    earliest: dict[int, int] = {}  # the first task of each team; tasks have numbers in order of their beginning
    for task, team in enumerate(columns["task.team"].tolist()):
        earliest.setdefault(team, task)
    made = np.flatnonzero((columns["record.step"] == Step.TASK) | (columns["record.step"] == Step.FORK))
    steps, subjects = columns["record.step"][made].tolist(), columns["record.subject"][made].tolist()
    for task, step, subject in zip(maker[made].tolist(), steps, subjects, strict=True):
        if (subject if step == Step.TASK else earliest.get(subject, task + 1)) <= task:
            raise RecordingDamaged(f"{recording.name}: task {task} makes a task that began before it")


def _check_references(recording: Recording) -> None:
    columns, dictionaries = recording.columns, recording.dictionaries
    for name, least, count in (
        ("record.launch", NONE, len(columns["launch.trip"])),
        ("record.operations", NONE, len(columns["operations.first"]) - 1),
        ("record.touches", NONE, len(columns["touches.first"]) - 1),
        ("launch.trace", NONE, len(columns["trace.first"]) - 1),
        ("item.array", NONE, len(dictionaries.arrays)),
        ("touch.array", 0, len(dictionaries.arrays)),
        ("use.array", NONE, len(dictionaries.arrays)),
        ("use.item", NONE, len(columns["item.base"])),
        ("trace.launch", 0, len(columns["launch.trip"])),
    ):
        _refer(recording, name, columns[name], least, count)
    kernels = np.array([site.kernel for site in dictionaries.sites], "i8")
    _refer(recording, "the kernel of a site", kernels, NONE, len(dictionaries.kernels))


def _check_steps(recording: Recording) -> None:
    """Check what records refer to by their steps."""
    columns, dictionaries = recording.columns, recording.dictionaries
    steps = columns["record.step"]
    dependences = len(columns["dependences.first"]) - 1
    for step, name, least, count, what in (
        (Step.DIRECTIVE, "subject", 0, len(dictionaries.sites), "site"),
        (Step.DIRECTIVE, "detail", NONE, len(columns["items.first"]) - 1, "list of items"),
        (Step.TASK, "subject", 0, len(columns["task.kind"]), "task"),
        (Step.TASK, "detail", NONE, dependences, "list of dependences"),
        (Step.TASKWAIT, "detail", NONE, dependences, "list of dependences"),
        (Step.ACQUIRE, "subject", 0, len(columns["lock.kind"]), "lock"),
        (Step.RELEASE, "subject", 0, len(columns["lock.kind"]), "lock"),
        (Step.ALLOCATE, "subject", 0, len(dictionaries.arrays), "array"),
        (Step.FREE, "subject", 0, len(dictionaries.arrays), "array"),
        (Step.FREE, "detail", NONE, len(dictionaries.ends), "end of an array"),
    ):
        _refer(recording, "a record", columns[f"record.{name}"][steps == step], least, count, f"{what} ")


def _check_items(recording: Recording) -> None:
    """Check that directives have as many items as their sites, and as their kernels refer to."""
    columns, sites = recording.columns, recording.dictionaries.sites
    directives = columns["record.step"] == Step.DIRECTIVE
    lengths = np.append(np.diff(columns["items.first"].astype("i8")), 0)  # the last is what -1 finds
    counts = lengths[columns["record.detail"][directives]]
    expected = np.array([NONE if site.call.startswith("omp_") else len(site.items) for site in sites], "i8")
    forms = expected[columns["record.subject"][directives]]
    if ((forms != NONE) & (forms != counts)).any():
        raise RecordingDamaged(f"{recording.name}: a directive has not as many items as its site")
    last = np.full(len(columns["trace.launch"]) + 1, NONE, "i8")
    of_trace = np.repeat(np.arange(len(last) - 1), np.diff(columns["trace.first"].astype("i8")))
    np.maximum.at(last, of_trace, columns["use.item"].astype("i8"))
    traces = np.append(columns["launch.trace"].astype("i8"), NONE)
    if (last[traces[columns["record.launch"][directives]]] >= counts).any():
        raise RecordingDamaged(f"{recording.name}: use.item names an item that a directive of its kernel has not")


def _refer(recording: Recording, name: str, column: Column, least: int, count: int, what: str = "") -> None:
    """Check that numbers of a column are those of things that exist, of which there are `count`."""
    if not len(column):
        return
    low, high = int(column.min()), int(column.max())
    if low < least or high >= count:
        raise RecordingDamaged(f"{recording.name}: {name} names {what}{low if low < least else high} of {count}")
