"""The tables of a recording: what `README.md` describes, as a program sees it that has loaded one.

A *site* is a directive of the source as the compiler lowered it; a *record* is one thing that a task did: a directive
(with the site, its list of items, the kernel's costs and the operations that the real runtime made of it) or a step of
synchronization. Records are columns, in the order of tasks; each task has its own in program order. Lists that many
records share (items, operations, host touches) are stored once: list n has entries first[n] to first[n + 1].
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import msgspec
import numpy as np
import numpy.typing as npt

NONE: Final = -1
"""In a column: no list, no launch, no array."""

GONE: Final = -2
"""In the column of a use's items: device memory that was freed before the launch."""

ORDERED: Final = 7
"""The kind of a lock that is an ordered region, by OMPT's numbers of mutual exclusion."""

FLAG: Final = 8
"""The kind of one that is an atomic variable: who acquires it comes after those who have released it before."""


class Step(enum.IntEnum):
    """What a record is; `subject` and `detail` are columns."""

    DIRECTIVE = 0
    """subject: site; detail: list of items."""
    FORK = 1
    """A parallel region; subject: team. It ends with the record."""
    BARRIER = 2
    TASK = 3
    """An explicit or target task is made; subject: task; detail: list of dependences."""
    TASKWAIT = 4
    """detail: list of dependences, or none."""
    GROUP_BEGIN = 5
    GROUP_END = 6
    ACQUIRE = 7
    """subject: lock; detail: for an ordered region, whose turn it is; for a flag, after how many releases."""
    RELEASE = 8
    ALLOCATE = 9
    """subject: array."""
    FREE = 10
    """subject: array; detail: of one that is mapped to a device, its place in `Dictionaries.ends`."""
    REST = 11
    """Nothing more than the time and the touches up to the end of a task."""
    STOP = 12
    """What ends the window of the parallel algorithms before; subject: site."""
    MPI = 13
    """A call of MPI; subject: its place in `Dictionaries.mpi_calls`; detail: list of parts."""
    PHASE_BEGIN = 14
    """A range that the program names begins; subject: its name in `Dictionaries.phases`; detail: its number, where it
    ends in another task.
    """
    PHASE_END = 15


class PartKind(enum.IntEnum):
    """What a part of a call of MPI is; `native/ranks.h` has the same numbers."""

    SEND = 1
    """To a peer; it blocks where it has no request. A persistent one is here when it is started."""
    RECEIVE = 2
    """From the peer that it matched, where it asked for any."""
    PROBE = 3
    MATCHED = 4
    """What a blocking receive or a probe has found."""
    AWAITED = 5
    """A request that is waited for or tested."""
    COMPLETED = 6
    """One that is complete then; of a receive, with what it matched."""
    COLLECTIVE = 7
    """peer: the root, or -1."""
    GIVES = 8
    """What it brings to a collective call; peer: for whom alone, or -1."""
    TAKES = 9
    MAKES = 10
    """communicator: a new one; -1: this process is not in it."""
    FREES = 11
    """communicator: it ends."""
    DROPS = 12
    """MPI_Request_free."""
    CANCELS = 13
    PREPARES = 14
    """A persistent request is made."""
    OPAQUE = 15
    """Nothing but its name is known of the call."""
    REFUSED = 16
    """The call returned an error, and did nothing: it has no other part."""


class PartFlag(enum.IntFlag):
    """What else is known of a part; `native/ranks.h` has the same bits."""

    STRIDED = 1
    SYNCHRONOUS = 2
    BUFFERED = 4
    READY = 8
    PERSISTENT = 16
    ANY_SOURCE = 32
    ANY_TAG = 64
    IN_PLACE = 128
    CANCELLED = 256


ELEMENT_KINDS: Final = ("", "i", "f", "c", "b")
"""NumPy's letters of the kinds of elements that the bits of a part's flags from `ELEMENTS` on name."""
ELEMENTS: Final = 9


class BufferPlace(enum.IntEnum):
    """Where the buffer of a part lies."""

    HOST = 0
    MAPPED = 1
    """In the device's copy of an array; the address is that of the host."""
    GIVEN = 2
    """In a block of omp_target_alloc."""


NOBODY: Final = -2
"""Of a peer: MPI_PROC_NULL."""


class MpiCall(msgspec.Struct, frozen=True):
    """A call of MPI in the source."""

    call: str
    file: str = ""
    function: str = ""
    line: int = 0
    column: int = 0
    returned: bool = True
    """Whether it came back before the recording ended."""

    @property
    def where(self) -> str:
        """Name the place in the source; the call where the program was built without lines."""
        return f"{self.file}:{self.line}" if self.line else self.call


class Communicator(msgspec.Struct, frozen=True):
    """A communicator of a process."""

    key: str
    """The same in each of its processes: its parent's, how it was made, and as which of its parent's."""
    ranks: tuple[int, ...]
    """Its members, as ranks of MPI_COMM_WORLD."""
    remote: tuple[int, ...] = ()
    """Those of the other group of an intercommunicator."""


class MpiWorld(msgspec.Struct, frozen=True):
    """What a process asked of MPI when it began."""

    library: str = ""
    rank: int = 0
    ranks: int = 1
    level: int = 0
    """The thread level that it was given: 0 single, 1 funneled, 2 serialized, 3 multiple."""


class TaskKind(enum.IntEnum):
    """Where a task's records come from."""

    INITIAL = 0
    IMPLICIT = 1
    EXPLICIT = 2
    TARGET = 3
    """The task of a ``nowait`` construct."""
    UNDEFERRED = 4
    """Runs at once in the thread that makes it."""
    TASKWAIT = 5
    """The empty task of a ``taskwait nowait depend``, for which LLVM 22 lets the thread wait."""


class OmptOperation(enum.IntEnum):
    """Data operations, by OMPT's numbers, and the launch of a kernel."""

    ALLOC = 1
    H2D = 2
    D2H = 3
    DELETE = 4
    ASSOCIATE = 5
    DISASSOCIATE = 6
    MEMSET = 7
    SUBMIT = 100


class StrayKind(enum.IntEnum):
    """Why an access of a kernel is to no memory that it may use."""

    AFTER = 1
    """It runs over the end of a mapped block."""
    BEFORE = 2
    HOST = 3
    """It is memory of the host's own."""
    CRASH = 4
    """There is no memory; the program ended there."""
    STACK = 5
    """The thread's stack has no more room; the program ended there."""
    FREED = 6
    """It is a block of device memory that was freed, by a routine or because its mapping ended."""
    LOST = 7
    """It is a copy of the kernel's own (firstprivate), and nobody uses what the kernel computes there."""


class Party(msgspec.Struct, frozen=True):
    """An access of a kernel that a finding is about: at which line, and by which thread of which team."""

    where: str
    writes: bool
    atomic: bool
    team: int
    thread: int


class KernelRace(msgspec.Struct, frozen=True):
    """Two accesses of a launch to the same bytes that nothing orders. array, offset: bytes from its beginning."""

    array: int
    offset: int
    parties: tuple[Party, Party]


class KernelStray(msgspec.Struct, frozen=True):
    """An access of a launch to memory that it may not use. array: the one that it runs over, or NONE."""

    kind: StrayKind
    array: int
    offset: int
    """Bytes from the array's beginning; the address where there is none."""
    party: Party
    name: str = ""
    """Of a variable of the kernel's own."""


class Findings(msgspec.Struct, frozen=True):
    """What a traced launch did that no launch may do."""

    races: tuple[KernelRace, ...] = ()
    strays: tuple[KernelStray, ...] = ()


class StopKind(enum.IntEnum):
    """Why AdaptiveCpp's compiler lets the barrier of parallel algorithms stay at a place."""

    ACCESS = 1
    """The host loads or stores."""
    CALL = 2
    """A function is called that is not inlined."""
    EXIT = 3
    """The function ends."""
    ALLOCATION = 4


class EndKind(enum.IntEnum):
    """How the memory of an array ends."""

    FREE = 0
    """free, or delete."""
    REALLOC = 1
    """realloc has moved the array elsewhere."""
    MUNMAP = 2
    SCOPE = 3
    """The program leaves the scope of a variable of the stack."""


class ArrayEnd(msgspec.Struct, frozen=True):
    """A place of the program where the memory of an array ends that is mapped to a device."""

    where: str
    """Its line; empty where none is known."""
    how: EndKind
    elsewhere: bool = False
    """Whether a thread that OpenMP did not make does so, and not the one that has the record."""


class ItemForm(msgspec.Struct, frozen=True):
    """What the source says of a map item: type bits, its text and its line."""

    type: int
    name: str = ""
    file: str = ""
    line: int = 0
    components: int = 0
    """How many of the items after it are what its mapper function made of it."""
    dimensions: tuple[tuple[int, int, int], ...] = ()
    """Of a strided section: offset, count and stride of each dimension."""


class Site(msgspec.Struct, frozen=True):
    """A directive or a routine in the source."""

    call: str
    file: str = ""
    function: str = ""
    line: int = 0
    column: int = 0
    device: int = -1
    kernel: int = NONE
    teams: int = 0
    """num_teams: 0 is left open, -1 none."""
    threads: int = 0
    """thread_limit: 0 is left open."""
    flags: int = 0
    items: tuple[ItemForm, ...] = ()
    died: bool = False
    """Whether the process ended before it was done: what it did is not known as a whole."""

    @property
    def is_routine(self) -> bool:
        """Tell whether its items are the arguments of a call, and not what a directive maps."""
        return not self.call.startswith("__tgt_")

    @property
    def is_algorithm(self) -> bool:
        """Tell whether it is a parallel algorithm of C++, whose kernels are the records behind it."""
        return self.call.startswith("std::")

    @property
    def where(self) -> str:
        """Name the place in the source; the call where the program was built without lines."""
        return f"{self.file}:{self.line}" if self.line else self.call


class RecordedArray(msgspec.Struct, frozen=True):
    """A block of host memory that directives or kernels use, from its allocation to its end."""

    name: str
    address: int
    nbytes: int
    origin: str
    """malloc and scratch of an algorithm's own (ALLOCATE and FREE say when), global, link, variable or constant (of the
    host's code), or mapped: unknown.

    All but the first two are there from the beginning.
    """
    pointer: int = 0
    """Of a link: the address of the pointer through which the device finds it."""
    own: int = 0
    """The bytes that the program has there, where a map reaches beyond them; 0: all."""

    @property
    def is_there(self) -> bool:
        """Tell whether it is there from the beginning."""
        return self.origin not in ("malloc", "scratch")


class Death(msgspec.Struct, frozen=True):
    """How a program died: by a signal, or by an exit inside of the runtime."""

    how: str
    """With a verb: ``is ended by SIGSEGV``."""
    where: str = ""
    """The line of the directive that it was in, or that of its own code; ``after`` the last directive's if neither."""
    message: str = ""
    """What it, or the runtime, has written last."""

    def __str__(self) -> str:
        where = f"{' ' if self.where.startswith('after ') else ' at '}{self.where}" if self.where else ""
        return f"{self.how}{where}{self.message and ': '}{self.message}"


class Meta(msgspec.Struct, frozen=True):
    """How a process was recorded, and what is known of it besides the tables."""

    program: list[str] = []
    pid: int = 0
    rank: int | None = None
    threads: int = 1
    """The most host threads of a parallel region."""
    asked_threads: int | None = None
    """What `offloadrt record --threads` asked for."""
    ended: str = "exit"
    """exit, exec, stopped, or cut: it crashed or was killed, and what was recorded up to then is here."""
    exit: int | None = None
    signal: int | None = None
    runtime: str = ""
    compiler: str = ""
    costs: bool = False
    """Whether launches have counters."""
    oracle: bool = False
    """Whether the real runtime's operations were recorded."""
    host_touches: bool = False
    exact: bool | None = None
    """Whether it was recorded for a check (`record --check`); None in recordings of before."""
    instrumented: bool | None = None
    """Whether some of its host code was compiled by `offloadrt cc`; None in recordings of before."""
    died: Death | None = None
    separate_copies: list[str] = []
    """Where the program relies on host and device having copies of their own; found by `blocks.py`."""
    globals: dict[str, int] = {}
    """Bytes of each declare target global."""
    algorithms: bool = False
    """Whether it calls parallel algorithms of C++."""
    requires: int = 0
    devices: int = 0
    """Devices of the machine that it was recorded on, which is the number of the initial device; 0: not known."""
    mpi: MpiWorld | None = None
    """None: it does not begin MPI, or was recorded without its calls."""
    host_times: tuple[float, ...] = ()
    """Of each repeat (`record --repeat`), the host time of all its processes over that of the medians."""
    cost_errors: dict[str, float] = {}
    """By kernel: the work that its launches were counted to do, over what its traced launches stand for."""


class Dictionaries(msgspec.Struct, frozen=True):
    """The parts of a recording that hold text."""

    meta: Meta
    sites: tuple[Site, ...]
    kernels: tuple[str, ...]
    arrays: tuple[RecordedArray, ...]
    findings: dict[int, Findings] = {}
    """By trace; those without any are left out."""
    ends: tuple[ArrayEnd, ...] = ()
    """What the details of `Step.FREE` name."""
    mpi_calls: tuple[MpiCall, ...] = ()
    communicators: tuple[Communicator, ...] = ()
    phases: tuple[str, ...] = ()
    """The names of ranges of the program's own, with their domains."""
    beside: dict[int, tuple[int, int]] = {}
    """By the initial task of a thread that OpenMP did not make: how many records of the first thread (the first that is
    not idle) had been done when it began, and how many had begun when it ended.
    """


Column = npt.NDArray[Any]

COLUMNS: Final[Mapping[str, str]] = {
    "record.step": "u1", "record.subject": "u4", "record.detail": "i4", "record.cpu": "u8", "record.launch": "i4",
    "record.operations": "i4", "record.touches": "i4", "record.copies": "i4",
    "task.kind": "u1", "task.thread": "u4", "task.team": "i4", "task.number": "u4", "task.size": "u4",
    "task.first": "u8", "task.count": "u8",
    "lock.kind": "u1",
    "items.first": "u8", "item.base": "u8", "item.begin": "u8", "item.size": "i8", "item.array": "i4",
    "operations.first": "u8", "operation.kind": "u1", "operation.bytes": "u8",
    "touches.first": "u8", "touch.array": "i4", "touch.offset": "u8", "touch.bytes": "u8", "touch.kind": "u1",
    "dependences.first": "u8", "dependence.address": "u8", "dependence.kind": "u1",
    "launch.trip": "u8", "launch.teams": "u4", "launch.threads": "u4", "launch.gpu_threads": "u8",
    "launch.barriers": "u8", "launch.trace": "i4", "launch.counts": "u8",
    "trace.first": "u8", "trace.launch": "i4", "trace.warp_instructions": "u8", "trace.warp_sectors": "u8",
    "trace.lanes": "u8", "trace.other_bytes": "u8",
    "use.item": "i4", "use.array": "i4", "use.offset": "u8", "use.nbytes": "u8", "use.load_bytes": "u8",
    "use.store_bytes": "u8", "use.sectors_read": "u8", "use.sectors_written": "u8", "use.team_sectors_read": "u8",
    "use.team_sectors_written": "u8", "use.first_run": "u8",
    "run.kind": "u1", "run.page": "u8", "run.pages": "u4", "run.first_team": "u4", "run.last_team": "u4",
    "use.first_range": "u8", "range.kind": "u1", "range.begin": "u8", "range.end": "u8",
    "launch.traced": "u1",
    "copies.first": "u8", "copy.kind": "u1", "copy.host": "u8", "copy.bytes": "u8", "copy.content": "u4",
    "copy.brings_nothing": "u1",
    "parts.first": "u8", "part.kind": "u1", "part.flags": "u2", "part.communicator": "i4", "part.peer": "i4",
    "part.tag": "i8", "part.request": "i4", "part.bytes": "u8", "part.blocks": "u8", "part.memory": "u1",
    "part.array": "i4", "part.address": "u8",
    "record.repeats": "u8",
}  # fmt: skip
"""Every column and its type when loaded; files hold the narrowest type of the same kind that fits."""


LATER: Final = (
    "use.first_range", "range.kind", "range.begin", "range.end", "launch.traced",
    "record.copies", "copies.first", "copy.kind", "copy.host", "copy.bytes", "copy.content", "copy.brings_nothing",
    "parts.first", "part.kind", "part.flags", "part.communicator", "part.peer", "part.tag", "part.request",
    "part.bytes", "part.blocks", "part.memory", "part.array", "part.address", "record.repeats",
)  # fmt: skip
"""Columns that the first recordings do not have."""


def with_later_columns(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return columns of a file with those that were not made yet when it was recorded, without entries."""
    made = dict(columns)
    if "use.first_range" not in columns and "use.first_run" in columns:
        made |= {name: np.zeros(0, COLUMNS[name]) for name in LATER if name.startswith("range.")}
        made["use.first_range"] = np.zeros(len(columns["use.first_run"]), "u8")
        made["launch.traced"] = np.zeros(len(columns["launch.trip"]), "u1")
    if "record.copies" not in columns and "record.step" in columns:
        made |= {name: np.zeros(0, COLUMNS[name]) for name in LATER if name.startswith("copy.")}
        made["copies.first"] = np.zeros(1, "u8")
        made["record.copies"] = np.full(len(columns["record.step"]), NONE, "i4")
    if "parts.first" not in columns:
        made |= {name: np.zeros(0, COLUMNS[name]) for name in LATER if name.startswith("part.")}
        made["parts.first"] = np.zeros(1, "u8")
    if "record.repeats" not in columns and "record.step" in columns:
        made["record.repeats"] = np.zeros((len(columns["record.step"]), 0), "u8")
    return made


def directives_in(columns: Mapping[str, Column], sites: Sequence[Site]) -> int:
    """Count directives and routines; of parallel algorithms these, and not their kernels."""
    within = any(site.is_algorithm for site in sites)
    counted = np.array([not within or site.is_routine for site in sites] or [True])
    subjects = columns["record.subject"][columns["record.step"] == Step.DIRECTIVE]
    return int(np.count_nonzero(counted[subjects]))


@attrs.frozen(eq=False)
class Recording:
    """One recorded process."""

    name: str
    """Where it was read, for messages."""
    dictionaries: Dictionaries
    columns: Mapping[str, Column]

    @property
    def meta(self) -> Meta:
        return self.dictionaries.meta

    @property
    def run(self) -> str:
        """Name the run in its file."""
        return self.name.rpartition(":")[2]

    @property
    def directives(self) -> int:
        """Count directives and routines; of parallel algorithms these, and not their kernels."""
        return directives_in(self.columns, self.dictionaries.sites)

    def on_initial_device(self, site: Site) -> bool:
        """Tell whether a directive went to the initial device, which is the host."""
        return 0 < self.meta.devices <= site.device

    @property
    def device_numbers(self) -> set[int]:
        """Return the numbers of the devices that directives name; the initial device is none of them."""
        return {max(0, site.device) for site in self.dictionaries.sites if not self.on_initial_device(site)}

    @property
    def devices_used(self) -> int:
        """Count the devices up to the last that a directive names."""
        return 1 + max(self.device_numbers, default=0)

    def range_of(self, table: str, number: int) -> range:
        """Return the places of list `number` of a table: ``items``, ``operations``, ``touches``, ``dependences``."""
        if number < 0:
            return range(0)
        first = self.columns[f"{table}.first"]
        return range(int(first[number]), int(first[number + 1]))


RECORD: Final = ("step", "subject", "detail", "cpu", "launch", "operations", "touches", "copies")
"""The fields of a record, in order."""
FIELDS: Final = len(RECORD)


@attrs.define(eq=False)
class ListTable:
    """Lists of rows of whole numbers; equal lists are one. ``add`` returns a list's number."""

    table: str
    row: str
    fields: tuple[str, ...]
    _numbers: dict[tuple[Any, ...], int] = attrs.field(factory=dict)

    def add(self, rows: Iterable[tuple[int, ...]]) -> int:
        return self._numbers.setdefault(tuple(rows), len(self._numbers))

    def lists(self) -> list[tuple[tuple[int, ...], ...]]:
        """Return all lists, in order of their numbers."""
        return list(self._numbers)

    def columns(self) -> dict[str, Column]:
        return list_columns(self.table, self.row, self.fields, self.lists())


def list_columns(
    table: str, row: str, fields: Sequence[str], lists: Sequence[Sequence[Sequence[int]]]
) -> dict[str, Column]:
    """Join lists of rows to columns: the index at which each list begins, and the rows of all lists in order."""
    first = np.zeros(len(lists) + 1, "u8")
    first[1:] = np.cumsum([len(rows) for rows in lists], dtype="u8")
    rows = [entry for entries in lists for entry in entries]
    return {f"{table}.first": first, **row_columns(row, fields, rows)}


def row_columns(table: str, fields: Sequence[str], rows: Sequence[Sequence[int]]) -> dict[str, Column]:
    """Make the columns of a table of rows."""
    names = [f"{table}.{field}" for field in fields]
    if not rows:
        return {name: np.zeros(0, COLUMNS[name]) for name in names}
    return {
        name: np.fromiter(values, COLUMNS[name], len(rows))
        for name, values in zip(names, zip(*rows, strict=True), strict=True)
    }


@attrs.define(eq=False)
class TaskRow:
    """A task while its records come in: eight numbers each, one record after the other."""

    index: int
    kind: int
    thread: int
    team: int = -1
    number: int = 0
    size: int = 1
    waiting: bool = False
    """Whether it waits at a barrier, or for tasks."""
    call: int = 0
    """The call of a routine that it does; 0: none."""
    records: array[int] = attrs.field(factory=lambda: array("q"))

    @property
    def count(self) -> int:
        """Return how many records it has."""
        return len(self.records) // FIELDS

    def add(self, step: int, subject: int, cpu: int, touches: int = -1, detail: int = -1) -> int:
        """Add a record; returns its place."""
        place = len(self.records)
        self.records.extend((step, subject, detail, cpu, -1, -1, touches, -1))
        return place

    def get(self, place: int, field: str) -> int:
        """Return a field of a record."""
        return self.records[place + RECORD.index(field)]

    def put(self, place: int, field: str, value: int) -> None:
        """Change a field of a record."""
        self.records[place + RECORD.index(field)] = value


def task_columns(tasks: Sequence[TaskRow]) -> dict[str, Column]:
    """Make the columns of tasks and of their records, task by task."""
    counts = [len(task.records) // FIELDS for task in tasks]
    words = [np.zeros(0, "i8"), *(np.frombuffer(task.records, "i8") for task in tasks if len(task.records))]
    fields = np.concatenate(words).reshape(-1, FIELDS)
    first = np.zeros(len(tasks), "u8")
    first[1:] = np.cumsum(counts, dtype="u8")[:-1]
    rows = [(task.kind, task.thread, task.team, task.number, task.size) for task in tasks]
    return {
        **{f"record.{name}": fields[:, place].astype(COLUMNS[f"record.{name}"]) for place, name in enumerate(RECORD)},
        **row_columns("task", ("kind", "thread", "team", "number", "size"), rows),
        "task.first": first,
        "task.count": np.array(counts, "u8"),
    }


def narrowed(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return the columns in the narrowest types that hold them, as files have them."""
    return {name: _narrowest(column) for name, column in columns.items()}


def _narrowest(column: Column) -> Column:
    if not column.size:
        return column
    low, high = int(column.min()), int(column.max())
    kind = "i" if column.dtype.kind == "i" else "u"
    for width in (1, 2, 4):
        limits = np.iinfo(f"{kind}{width}")
        if limits.min <= low and high <= limits.max:
            return column.astype(f"<{kind}{width}")
    return column.astype(f"<{kind}8")


_IDLE = (Step.FORK, Step.BARRIER, Step.REST)


@attrs.define(eq=False)
class TaskTree:
    """The tasks of a recording by team."""

    columns: Mapping[str, Column]
    members: dict[int, list[int]] = attrs.field(factory=dict)
    """The implicit tasks of each team, by their numbers in it."""

    def __attrs_post_init__(self) -> None:
        numbers = self.columns["task.number"].tolist()
        for task, team in enumerate(self.columns["task.team"].tolist()):
            if team >= 0:
                self.members.setdefault(team, []).append(task)
        for members in self.members.values():
            members.sort(key=lambda task: int(numbers[task]))

    def roots(self) -> list[int]:
        """Return the initial tasks that do something of the program's, the one of its first thread first."""
        initial = [task for task, kind in enumerate(self.columns["task.kind"].tolist()) if kind == TaskKind.INITIAL]
        return [task for task in initial if self._works(task)]

    def first_threads(self) -> list[int]:
        """Return the initial tasks, with that of the program's first thread first: the first one that is not idle."""
        kinds = self.columns["task.kind"].tolist()
        initial = [task for task, kind in enumerate(kinds) if kind == TaskKind.INITIAL]
        first = next(
            (task for task in initial if {*self.columns["record.step"][self.rows(task)].tolist()} - {Step.REST}), NONE
        )
        return [] if first == NONE else [first, *(task for task in initial if task != first)]

    def widest(self) -> int:
        """Return the most threads of a team below these."""
        teams = [team for root in self.roots() for team in self._teams_below(root)]
        return max([1, *(len(self.members.get(team, ())) for team in teams)])

    def rows(self, task: int) -> slice:
        """Return where the records of a task are."""
        first = int(self.columns["task.first"][task])
        return slice(first, first + int(self.columns["task.count"][task]))

    def _works(self, task: int) -> bool:
        steps = set(self.columns["record.step"][self.rows(task)].tolist())
        if steps.difference(_IDLE):
            return True
        return any(self._works(member) for team in self._forks(task) for member in self.members.get(team, ()))

    def _teams_below(self, task: int) -> list[int]:
        forks = self._forks(task)
        below = [team for fork in forks for member in self.members.get(fork, ()) for team in self._teams_below(member)]
        return [*forks, *below]

    def _forks(self, task: int) -> list[int]:
        rows = self.rows(task)
        teams: list[int] = self.columns["record.subject"][rows][self.columns["record.step"][rows] == Step.FORK].tolist()
        return teams


class RecordingError(ValueError):
    """A recording cannot be read, made or used."""


class NotARecording(RecordingError):
    """A file or folder is no recording."""


class RecordingDamaged(RecordingError):
    """A part of a recording is missing or cut off, or its parts contradict one another."""


class RecordingTooNew(RecordingError):
    """A recording was written in a later version of the format than this offloadrt reads."""
