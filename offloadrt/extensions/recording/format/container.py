"""The file of a recording: a zip, or a folder, of text (JSON) and columns (NumPy's .npy).

meta.json                       {"format": "offloadrt recording", "version": 1 to 3, "runs": [...]}
RUN/dictionaries.json           the fields of `recording.Dictionaries`: meta, sites, kernels, arrays, …
RUN/columns/NAME.npy            one for each name of `recording.COLUMNS`
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

import attrs
import msgspec
import numpy as np

from offloadrt.extensions.recording.format.recording import (
    COLUMNS,
    GONE,
    LATER,
    NOBODY,
    NONE,
    BufferPlace,
    Column,
    Dictionaries,
    Meta,
    NotARecording,
    OmptOperation,
    PartKind,
    Recording,
    RecordingDamaged,
    RecordingTooNew,
    Step,
    TaskKind,
    TaskTree,
    narrowed,
    with_later_columns,
)
from offloadrt.extensions.recording.format.slots import COPIED_RANGE, COUNTERS, LOADS, STORES
from offloadrt.registry import regular

_LISTS: Final = {
    "items.first": "item.base",
    "operations.first": "operation.kind",
    "touches.first": "touch.array",
    "dependences.first": "dependence.kind",
    "copies.first": "copy.kind",
    "parts.first": "part.kind",
    "trace.first": "use.item",
    "use.first_run": "run.kind",
    "use.first_range": "range.kind",
}
"""The columns with the first entry of each list, and for each a column of the lists' entries."""
_KINDS: Final = {
    "record.step": (min(Step), max(Step)),
    "task.kind": (min(TaskKind), max(TaskKind)),
    "run.kind": (LOADS, STORES),
    "range.kind": (LOADS, COPIED_RANGE),
    "copy.kind": (OmptOperation.H2D, OmptOperation.D2H),
    "copy.brings_nothing": (0, 1),
    "part.kind": (min(PartKind), max(PartKind)),
    "part.memory": (min(BufferPlace), max(BufferPlace)),
}
"""The smallest and the largest number that each column of kinds may hold."""


_ADDRESSES: Final = 1 << 47
"""The bytes that a process of x86-64 or ARMv8 can have: no size and no offset is larger."""
_HIGHEST: Final = 1 << 56
"""No address of a process is larger: x86-64 has 57 bits of them, the upper half for the kernel, ARMv8 fewer."""
_COUNTS: Final = 1 << 50
"""An upper bound of counters: more than a program can count in days of recording."""
_THREADS: Final = 1 << 16
_THREAD_LEVELS: Final = 4
_FACTOR: Final = 1e6
"""The largest factor between the host times of two repeats, or between the work of two launches."""
_MOST: Final = {
    **dict.fromkeys(
        ("use.nbytes", "touch.offset", "touch.bytes", "operation.bytes", "range.begin", "range.end"), _ADDRESSES
    ),
    **dict.fromkeys(("record.cpu", "record.repeats", "launch.trip", "launch.gpu_threads"), _COUNTS),
    **dict.fromkeys(("launch.barriers", "launch.counts"), _COUNTS),
    **dict.fromkeys(("trace.warp_instructions", "trace.warp_sectors", "trace.lanes", "trace.other_bytes"), _COUNTS),
    **dict.fromkeys(("use.load_bytes", "use.store_bytes"), _COUNTS),
    **dict.fromkeys(("task.thread", "task.number", "task.size", "launch.threads"), _THREADS),
    "launch.teams": (1 << 31) - 1,
    "item.size": _ADDRESSES,
    "part.bytes": _ADDRESSES,
    "part.blocks": _ADDRESSES,
    "run.page": _ADDRESSES >> 12,
    "run.pages": _ADDRESSES >> 12,
}
"""The largest number that each column of sizes or counts may hold."""


def check(recording: Recording) -> None:
    """Raise RecordingDamaged when a column of a recording is missing, or refers to a row that does not exist."""
    for name in COLUMNS:
        if name not in recording.columns:
            raise RecordingDamaged(f"{recording.name}: column {name} is missing")
    _check_shapes(recording)
    _check_lists(recording)
    _check_tasks(recording)
    _check_references(recording)
    _check_steps(recording)
    _check_items(recording)
    _check_ranks(recording)
    _check_threads(recording)
    _check_sizes(recording)
    _check_sectors(recording)


def _check_shapes(recording: Recording) -> None:
    """Check that all columns of a table have the same length, and that columns of kinds hold known kinds only."""
    for name, column in recording.columns.items():
        widths = {"launch.counts": len(COUNTERS), "record.repeats": len(recording.meta.host_times)}
        if column.shape[1:] != ((widths[name],) if name in widths else ()):
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
    """Check that lists follow one another without gaps, and that the last one ends where the entries end."""
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
    """Check that the records of tasks follow one another without gaps, and that no task contains itself."""
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
        ("record.copies", NONE, len(columns["copies.first"]) - 1),
        ("launch.trace", NONE, len(columns["trace.first"]) - 1),
        ("item.array", NONE, len(dictionaries.arrays)),
        ("part.array", NONE, len(dictionaries.arrays)),
        ("part.communicator", NONE, len(dictionaries.communicators)),
        ("touch.array", 0, len(dictionaries.arrays)),
        ("use.array", NONE, len(dictionaries.arrays)),
        ("use.item", GONE, len(columns["item.base"])),
        ("trace.launch", 0, len(columns["launch.trip"])),
    ):
        _refer(recording, name, columns[name], least, count)
    kernels = np.array([site.kernel for site in dictionaries.sites], "i8")
    _refer(recording, "the kernel of a site", kernels, NONE, len(dictionaries.kernels))


def _check_steps(recording: Recording) -> None:
    """Check what the records refer to: which table depends on the record's step."""
    columns, dictionaries = recording.columns, recording.dictionaries
    steps = columns["record.step"]
    dependences = len(columns["dependences.first"]) - 1
    for step, name, least, count, what in (
        (Step.DIRECTIVE, "subject", 0, len(dictionaries.sites), "site"),
        (Step.DIRECTIVE, "detail", NONE, len(columns["items.first"]) - 1, "list of items"),
        (Step.STOP, "subject", 0, len(dictionaries.sites), "site"),
        (Step.STOP, "detail", NONE, len(columns["items.first"]) - 1, "list of items"),
        (Step.TASK, "subject", 0, len(columns["task.kind"]), "task"),
        (Step.TASK, "detail", NONE, dependences, "list of dependences"),
        (Step.TASKWAIT, "detail", NONE, dependences, "list of dependences"),
        (Step.ACQUIRE, "subject", 0, len(columns["lock.kind"]), "lock"),
        (Step.RELEASE, "subject", 0, len(columns["lock.kind"]), "lock"),
        (Step.ALLOCATE, "subject", 0, len(dictionaries.arrays), "array"),
        (Step.FREE, "subject", 0, len(dictionaries.arrays), "array"),
        (Step.FREE, "detail", NONE, len(dictionaries.ends), "end of an array"),
        (Step.MPI, "subject", 0, len(dictionaries.mpi_calls), "call of MPI"),
        (Step.MPI, "detail", 0, len(columns["parts.first"]) - 1, "list of parts"),
        (Step.PHASE_BEGIN, "subject", 0, len(dictionaries.phases), "phase"),
        (Step.PHASE_END, "subject", 0, len(dictionaries.phases), "phase"),
    ):
        _refer(recording, "a record", columns[f"record.{name}"][steps == step], least, count, f"{what} ")


def _check_items(recording: Recording) -> None:
    """Check that directives have as many items as their sites, and that kernels refer to existing items."""
    columns, sites = recording.columns, recording.dictionaries.sites
    directives = columns["record.step"] == Step.DIRECTIVE
    lengths = np.append(np.diff(columns["items.first"].astype("i8")), 0)  # index -1 finds the last entry
    counts = lengths[columns["record.detail"][directives]]
    expected = np.array([NONE if site.is_routine else len(site.items) for site in sites], "i8")
    forms = expected[columns["record.subject"][directives]]
    if ((forms != NONE) & (forms != counts)).any():
        raise RecordingDamaged(f"{recording.name}: a directive has not as many items as its site")
    last = np.full(len(columns["trace.launch"]) + 1, NONE, "i8")
    of_trace = np.repeat(np.arange(len(last) - 1), np.diff(columns["trace.first"].astype("i8")))
    np.maximum.at(last, of_trace, columns["use.item"].astype("i8"))
    traces = np.append(columns["launch.trace"].astype("i8"), NONE)
    if (last[traces[columns["record.launch"][directives]]] >= counts).any():
        raise RecordingDamaged(f"{recording.name}: use.item names an item that a directive of its kernel has not")


def _check_threads(recording: Recording) -> None:
    """Check that threads that OpenMP did not make began and ended between records of the first thread."""
    columns, beside = recording.columns, recording.dictionaries.beside
    if not beside:
        return
    first, *others = TaskTree(columns).first_threads() or [NONE]
    for task, (after, before) in beside.items():
        if task not in others or not 0 <= after <= before <= columns["task.count"][first]:
            place = f"beside records {after} to {before} of the first thread"
            raise RecordingDamaged(f"{recording.name}: task {task} is {place}, which cannot be")


_OF_NO_RANK: Final = (
    PartKind.AWAITED, PartKind.MAKES, PartKind.DROPS, PartKind.CANCELS, PartKind.OPAQUE, PartKind.REFUSED,
)  # fmt: skip


def _check_ranks(recording: Recording) -> None:
    """Check that MPI calls name existing communicators, and ranks of these."""
    columns, dictionaries = recording.columns, recording.dictionaries
    world = dictionaries.meta.mpi
    if world is None:
        if dictionaries.communicators or len(columns["part.kind"]):
            raise RecordingDamaged(f"{recording.name}: it has communicators of MPI, and no rank")
        return
    if not 0 <= world.rank < world.ranks <= _THREADS or not 0 <= world.level < _THREAD_LEVELS:
        raise RecordingDamaged(f"{recording.name}: rank {world.rank} of {world.ranks} with thread level {world.level}")
    for number, communicator in enumerate(dictionaries.communicators):
        members = (*communicator.ranks, *communicator.remote)
        twice = len(set(communicator.ranks)) < len(communicator.ranks)
        if twice or not all(NONE <= rank < world.ranks for rank in members):
            raise RecordingDamaged(f"{recording.name}: communicator {number} has members that are no ranks: {members}")
    sizes = np.array([max(len(one.ranks), len(one.remote)) for one in dictionaries.communicators] or [0], "i8")
    of = columns["part.communicator"]
    kinds = columns["part.kind"]
    without = np.isin(kinds, _OF_NO_RANK) | (kinds == PartKind.COMPLETED)
    peers, most = columns["part.peer"].astype("i8"), sizes[np.where(of == NONE, 0, of)]
    if ((of == NONE) & ~without).any():
        raise RecordingDamaged(f"{recording.name}: a part of a call of MPI is of no communicator")
    asked = np.isin(kinds, (PartKind.SEND, PartKind.RECEIVE, PartKind.PROBE))  # MPI refuses ranks that are none
    if (wrong := np.flatnonzero((peers < NOBODY) | (~without & ~asked & (peers >= most)))).size:
        part = int(wrong[0])
        raise RecordingDamaged(f"{recording.name}: part.peer of part {part} is {int(peers[part])} of {int(most[part])}")


def _refer(recording: Recording, name: str, column: Column, least: int, count: int, what: str = "") -> None:
    """Check that the numbers in a column are at least `least` and below `count`, the number of things they refer to."""
    if not len(column):
        return
    low, high = int(column.min()), int(column.max())
    if low < least or high >= count:
        raise RecordingDamaged(f"{recording.name}: {name} names {what}{low if low < least else high} of {count}")


def _check_sizes(recording: Recording) -> None:
    """Check that sizes and counts are possible for a program: none is negative, and none larger than a process."""
    dictionaries = recording.dictionaries
    sizes = [(name, recording.columns[name], most) for name, most in _MOST.items()]
    meta = dictionaries.meta
    for what, numbers, most in (
        ("the size of an array", [array.nbytes for array in dictionaries.arrays], _ADDRESSES),
        ("the address of an array", [array.address for array in dictionaries.arrays], _HIGHEST),
        ("the size of a global", list(meta.globals.values()), _ADDRESSES),
        ("meta.threads", [meta.threads], _THREADS),
        ("meta.asked_threads", [meta.asked_threads or 0], _THREADS),
        ("meta.devices", [meta.devices], _THREADS),
    ):
        sizes.append((what, np.array(numbers, object), most))
    factors = (*meta.host_times, *meta.cost_errors.values())
    if not all(1.0 / _FACTOR <= factor <= _FACTOR for factor in factors):
        raise RecordingDamaged(f"{recording.name}: meta.host_times or meta.cost_errors is no factor: {factors}")
    for what, column, most in sizes:
        if column.size and not 0 <= int(column.min()) <= int(column.max()) <= most:
            wrong = int(column.min()) if column.min() < 0 else int(column.max())
            raise RecordingDamaged(f"{recording.name}: {what} is {wrong}; it can be 0 to {most}")


def _check_sectors(recording: Recording) -> None:
    """Check that a use of an array counts no more sectors of 32 bytes than the array has, or its accesses reach."""
    columns = recording.columns
    room = columns["use.nbytes"] // 32 + 2  # with both ends
    for verb, accessed in (("read", columns["use.load_bytes"]), ("written", columns["use.store_bytes"])):
        once, by_teams = columns[f"use.sectors_{verb}"], columns[f"use.team_sectors_{verb}"]
        for name, column, most, why in (
            (f"use.sectors_{verb}", once, room, "what it uses has"),
            (f"use.team_sectors_{verb}", by_teams, 2 * accessed, "its accesses reach"),
            (f"use.sectors_{verb}", once, by_teams, "its teams reach"),
        ):
            if (wrong := np.flatnonzero(column > most)).size:
                use = int(wrong[0])
                raise RecordingDamaged(
                    f"{recording.name}: {name} of use {use} is {int(column[use])}; {why} {int(most[use])} at most"
                )
    lanes, instructions = columns["trace.lanes"], columns["trace.warp_instructions"]
    if (wrong := np.flatnonzero(lanes > 64 * instructions)).size:
        raise RecordingDamaged(
            f"{recording.name}: trace.lanes of trace {int(wrong[0])} is {int(lanes[wrong[0]])}, with "
            f"{int(instructions[wrong[0]])} instructions of warps"
        )


FORMAT: Final = "offloadrt recording"
VERSION: Final = 3
_FIRST, _OF_RANKS = 1, 2
"""The format versions of recordings with neither MPI calls nor named phases, and with MPI calls only: older readers can
read them.
"""


class RunSummary(msgspec.Struct, frozen=True):
    """One process (number `pid`) of one run of the program, as the file's `meta.json` describes it."""

    folder: str
    """The folder in the file that has its columns."""
    threads: Annotated[int, msgspec.Meta(ge=1, le=_THREADS)]
    """The number of host threads: as `offloadrt record --threads` asked for, or of the largest team."""
    rank: int | None = None
    """Its rank in MPI_COMM_WORLD; None if it calls no MPI, or its MPI calls were not recorded."""
    ranks: Annotated[int, msgspec.Meta(ge=0, le=_THREADS)] = 0
    """The number of MPI ranks; 0: it calls no MPI, or its MPI calls were not recorded."""
    pid: int = 0
    ended: str = "exit"
    """How it ended, as in `Meta`: exit, exec, stopped or cut."""
    directives: Annotated[int, msgspec.Meta(ge=0)] = 0
    """How many directives and routines it has called."""
    died: str = ""
    """How, where and with which message the program died; empty if it did not die."""


class _Index(msgspec.Struct, frozen=True):
    format: str = ""
    version: int = 0
    runs: list[RunSummary] = []


class _Head(msgspec.Struct, frozen=True):
    """The part of a run's dictionaries that `RecordingFile.meta` reads."""

    meta: Meta


class _Members(Protocol):
    """The files inside a recording, whether it is a zip or a folder."""

    def read(self, name: str) -> bytes: ...


@attrs.frozen
class _Folder:
    path: Path

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()


@attrs.frozen
class RecordingFile:
    """A file with one or more runs of a program."""

    path: Path
    runs: tuple[RunSummary, ...]

    @classmethod
    def read(cls, path: Path) -> RecordingFile:
        """Read the list of the runs that a file contains; a RecordingError says why a file cannot be read."""
        with _opened(path) as members:
            text = _part(path, members, "meta.json")
            if text is None:
                raise NotARecording(f"{path}: is no recording: it has no meta.json")
            index = _decoded(path, "meta.json", text, _Index)
        if index.format != FORMAT:
            raise NotARecording(f"{path}: is no recording: meta.json does not say so")
        if index.version > VERSION:
            raise RecordingTooNew(
                f"{path}: is in version {index.version} of the format; this offloadrt reads up to {VERSION}"
            )
        if not index.runs:
            raise RecordingDamaged(f"{path}: meta.json lists no run")
        return cls(path, tuple(index.runs))

    def meta(self, run: RunSummary) -> Meta:
        """Read how a run was recorded and how it ended (`Meta`). Raises RecordingDamaged if that cannot be read."""
        name = f"{run.folder}/dictionaries.json"
        with _opened(self.path) as members:
            head: _Head = _decoded(self.path, name, self._needed(members, name), _Head)
        return head.meta

    def load(self, run: RunSummary) -> Recording:
        """Load one run. Raises RecordingDamaged if a part is missing, cannot be read, or contradicts another one."""
        columns: dict[str, Column] = {}
        with _opened(self.path) as members:
            text = self._needed(members, f"{run.folder}/dictionaries.json")
            found = _decoded(self.path, f"{run.folder}/dictionaries.json", text, Dictionaries)
            for name, kind in COLUMNS.items():
                part = f"{run.folder}/columns/{name}.npy"
                data = _part(self.path, members, part) if name in LATER else self._needed(members, part)
                if data is None:
                    continue
                try:
                    columns[name] = _whole(np.load(io.BytesIO(data), allow_pickle=False), kind)
                except Exception as error:  # NumPy raises whatever its parser of the column's head does
                    reason = (
                        "" if "pickle" in str(error) else f": {error}"
                    )  # pickles are never read: no advice to do so
                    raise RecordingDamaged(f"{self.path}: {part} is damaged{reason}") from None
        recording = Recording(f"{self.path}:{run.folder}", found, with_later_columns(columns))
        try:
            check(recording)
        except OverflowError:
            part = f"{run.folder}/dictionaries.json"
            raise RecordingDamaged(f"{self.path}: {part}: has a number that takes more than 64 bits") from None
        return recording

    def _needed(self, members: _Members, name: str) -> bytes:
        part = _part(self.path, members, name)
        if part is None:
            raise RecordingDamaged(f"{self.path}: a part is missing: {name}")
        return part


def _whole(column: Column, kind: str) -> Column:
    """Return a column of whole numbers with the type that it has when loaded. Raises ValueError if one does not fit."""
    if column.size:
        limits = np.iinfo(kind)
        if column.dtype.kind not in "iu":
            raise ValueError(f"it holds {column.dtype}, not whole numbers")
        for number in (int(column.min()), int(column.max())):
            if not limits.min <= number <= limits.max:
                raise ValueError(f"it holds {number}; its numbers are {limits.min} to {limits.max}")
    return column.astype(kind, copy=False)


def is_recording(path: Path) -> bool:
    """Tell whether a path looks like a recording: a zip or a folder with a meta.json, or a name that ends in .rec."""
    if path.is_dir():
        return (path / "meta.json").is_file() or path.suffix == ".rec"
    return path.suffix == ".rec" or (path.is_file() and zipfile.is_zipfile(path))


def write(path: Path, recordings: Sequence[tuple[RunSummary, Dictionaries, Mapping[str, Column]]]) -> None:
    """Write a recording: a zip, which replaces an existing file; if `path` is a folder, files in that folder.

    recordings: for each process of each run, its summary, its dictionaries and its columns.
    """
    parts: dict[str, bytes] = {}
    version = _FIRST
    if any(dictionaries.phases for _, dictionaries, _ in recordings):
        version = VERSION
    elif any(dictionaries.mpi_calls for _, dictionaries, _ in recordings):
        version = _OF_RANKS
    index = _Index(FORMAT, version, [summary for summary, _, _ in recordings])
    parts["meta.json"] = msgspec.json.format(msgspec.json.encode(index))
    for summary, dictionaries, columns in recordings:
        parts[f"{summary.folder}/dictionaries.json"] = msgspec.json.encode(dictionaries)
        for name, column in narrowed(columns).items():
            data = io.BytesIO()
            np.save(data, column, allow_pickle=False)
            parts[f"{summary.folder}/columns/{name}.npy"] = data.getvalue()
    if path.is_dir():
        for name, part in parts.items():
            target = path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(part)
        return
    partial = path.with_name(path.name + ".partial")
    with zipfile.ZipFile(partial, "w") as archive:
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name), part, zipfile.ZIP_DEFLATED)  # the same bytes at any time
    partial.replace(path)


@attrs.define
class _opened:
    """Opens a recording, a zip or a folder: ``with _opened(path) as members``."""

    path: Path
    _archive: zipfile.ZipFile | None = None

    def __enter__(self) -> _Members:
        if self.path.is_dir():
            return _Folder(self.path)
        try:
            self._archive = zipfile.ZipFile(regular(self.path))
        except FileNotFoundError:
            raise NotARecording(f"{self.path}: cannot be read: no such file") from None
        except (NotImplementedError, OSError, ValueError) as error:  # zipfile's own errors for a damaged directory
            raise RecordingDamaged(f"{self.path}: is damaged: {error}") from None
        except zipfile.BadZipFile:
            what = "is cut off: record or copy it again" if _begins_as_zip(self.path) else "is no recording"
            what = what if self.path.stat().st_size else "is empty"
            kind = RecordingDamaged if _begins_as_zip(self.path) else NotARecording
            raise kind(f"{self.path}: {what}") from None
        return self._archive

    def __exit__(self, *raised: object) -> None:
        if self._archive is not None:
            self._archive.close()


def _part(path: Path, members: _Members, name: str) -> bytes | None:
    """Return the bytes of one file of a recording; None if it is missing. Raises RecordingDamaged."""
    try:
        return members.read(name)
    except (KeyError, FileNotFoundError):
        return None
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError) as error:
        # Damage can look like a method of compression that zipfile does not know, a password, or an offset below zero.
        raise RecordingDamaged(f"{path}: {name} is damaged: {error}") from None


def _begins_as_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _decoded(path: Path, name: str, text: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordingDamaged(f"{path}: {name}: {error}") from None
