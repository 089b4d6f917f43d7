"""The tables of a loaded recording; `README.md` describes them.

A *site* is a directive of the source as the compiler lowered it; a *record* is one thing that a task did: a directive
(with the site, its list of items, the kernel's costs and the operations that the real runtime did for it) or a step of
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

from offloadrt.extensions.recording.format.findings import Findings

NONE: Final = -1
"""Stands in a column for "no list", "no launch" or "no array"."""

GONE: Final = -2
"""Stands in the column `use.item` for device memory that was freed before the launch."""

ORDERED: Final = 7
"""The kind of a lock that is an ordered region, among OMPT's numbers of mutual exclusion."""

FLAG: Final = 8
"""The kind of a lock that is an atomic variable: an acquire comes after all earlier releases."""


class Step(enum.IntEnum):
    """The kind of a record, which is one step of a task; it decides what the columns `subject` and `detail` mean."""

    DIRECTIVE = 0
    """subject: number of the site; detail: number of the list of items."""
    FORK = 1
    """A whole parallel region, from fork to join; subject: number of the team."""
    BARRIER = 2
    TASK = 3
    """An explicit or target task is made; subject: number of the task; detail: list of dependences."""
    TASKWAIT = 4
    """detail: list of dependences; NONE: the wait is for all child tasks."""
    GROUP_BEGIN = 5
    """A taskgroup region begins; GROUP_END: it ends, and waits for its tasks."""
    GROUP_END = 6
    ACQUIRE = 7
    """subject: number of the lock; detail: for an ordered region, the task's turn, and so for every lock in a recording
    for a check; for a flag, the number of releases to wait for. NONE for a flag: the task is complete when the flag is
    released, as the flag stands for the event of the task's `detach` clause.
    """
    RELEASE = 8
    """subject: number of the lock; detail: for a flag the number of this release, from 1 on; NONE: the next one."""
    ALLOCATE = 9
    """subject: number of the array."""
    FREE = 10
    """subject: number of the array; detail: an index of `Dictionaries.ends`, NONE for a realloc that did not move it.
    """
    REST = 11
    """No operation: only CPU time and memory accesses of the host, mostly those before the end of a task."""
    STOP = 12
    """AdaptiveCpp's host must wait here for the parallel algorithms before; subject: number of the site."""
    MPI = 13
    """An MPI call; subject: index of `Dictionaries.mpi_calls`; detail: list of parts."""
    PHASE_BEGIN = 14
    """A range that the program names begins; subject: index of `Dictionaries.phases`; detail: if it ends in another
    task, a number that its end has too.
    """
    PHASE_END = 15
    """A range that the program names ends; subject and detail: those of its `PHASE_BEGIN`."""


class PartKind(enum.IntEnum):
    """What a part of a recorded MPI call is: a buffer sent or received, an awaited request, a message that matched.

    `native/ranks.h` uses the same numbers.
    """

    SEND = 1
    """A send to the peer; it blocks if it has no request. A persistent send is recorded when it is started."""
    RECEIVE = 2
    """A receive; peer: the rank whose message it matched."""
    PROBE = 3
    """A check for a message that can be received (MPI_Probe, MPI_Iprobe)."""
    MATCHED = 4
    """The message that a blocking receive or a probe has matched."""
    AWAITED = 5
    """A request that the call waits for or tests."""
    COMPLETED = 6
    """A request that the call found complete; for a receive, with the message that it matched."""
    COLLECTIVE = 7
    """A collective; peer: the root, or -1."""
    GIVES = 8
    """Data that the process passes to a collective; peer: the only rank that gets it, or -1: all."""
    TAKES = 9
    """Data that the process gets from a collective."""
    MAKES = 10
    """A communicator is made; communicator: the new one, or -1 if the process is not in it."""
    FREES = 11
    """A communicator is freed; communicator: that one."""
    DROPS = 12
    """A request is freed (MPI_Request_free)."""
    CANCELS = 13
    """A request that the call cancels (MPI_Cancel)."""
    PREPARES = 14
    """A persistent request is created."""
    OPAQUE = 15
    """A call of which only the name is recorded."""
    REFUSED = 16
    """The call returned an error and did nothing; it has no other part."""


class PartFlag(enum.IntFlag):
    """Bits that say more of a part of an MPI call, such as how a message is sent; `native/ranks.h` has the same.

    STRIDED: the buffer has gaps. SYNCHRONOUS, BUFFERED, READY: the mode of the send, as of MPI_Ssend, MPI_Bsend,
    MPI_Rsend. PERSISTENT: it belongs to a persistent request. ANY_SOURCE, ANY_TAG: the receive or probe accepts every
    rank, every tag. IN_PLACE: of MPI_IN_PLACE. CANCELLED: it was cancelled. EVEN: its pieces, and its gaps, are equal.
    """

    STRIDED = 1
    SYNCHRONOUS = 2
    BUFFERED = 4
    READY = 8
    PERSISTENT = 16
    ANY_SOURCE = 32
    ANY_TAG = 64
    IN_PLACE = 128
    CANCELLED = 256
    EVEN = 1 << 15


ELEMENT_KINDS: Final = ("", "i", "f", "c", "b")
"""NumPy's letters for kinds of elements, indexed by 3 bits of a part's flags from bit `ELEMENTS` on."""
ELEMENTS: Final = 9


class BufferPlace(enum.IntEnum):
    """Says in which memory the buffer of a part of an MPI call lies."""

    HOST = 0
    """Memory of the host."""
    MAPPED = 1
    """The device's copy of an array; the recorded address is the host's."""
    GIVEN = 2
    """A block of omp_target_alloc."""


NOBODY: Final = -2
"""The peer MPI_PROC_NULL."""


class MpiCall(msgspec.Struct, frozen=True):
    """An MPI call, as it stands in the source.

    call: its name. file, function, line, column: its place in the source; empty or 0 if not known.
    """

    call: str
    file: str = ""
    function: str = ""
    line: int = 0
    column: int = 0
    returned: bool = True
    """Whether the call returned before the recording ended."""

    @property
    def where(self) -> str:
        """Return the call's source line as FILE:LINE; the call's name if the program was built without line numbers."""
        return f"{self.file}:{self.line}" if self.line else self.call


class Communicator(msgspec.Struct, frozen=True):
    """A communicator, as one process sees it."""

    key: str
    """A text that is equal in all processes of the communicator: its parent's key, how it was made, and a number."""
    ranks: tuple[int, ...]
    """The members, as ranks of MPI_COMM_WORLD."""
    remote: tuple[int, ...] = ()
    """The members of the other group of an intercommunicator."""


class MpiWorld(msgspec.Struct, frozen=True):
    """The rank of a process in MPI_COMM_WORLD, and what the process asked of MPI when it began."""

    library: str = ""
    """The name and version that the MPI library gives itself."""
    rank: int = 0
    ranks: int = 1
    level: int = 0
    """The thread level that MPI granted: 0 single, 1 funneled, 2 serialized, 3 multiple."""


class TaskKind(enum.IntEnum):
    """The kind of a task in a recording, by the OpenMP construct that made it (IMPLICIT: a parallel region's)."""

    INITIAL = 0
    """The task of a thread that OpenMP did not make, such as the program's first one."""
    IMPLICIT = 1
    EXPLICIT = 2
    TARGET = 3
    """The task of a construct with ``nowait``."""
    UNDEFERRED = 4
    """A task that the thread that makes it executes at once."""
    TASKWAIT = 5
    """The empty task of a ``taskwait nowait depend``; LLVM 22 lets the thread wait for it."""


class OmptOperation(enum.IntEnum):
    """The numbers by which a recording names the runtime's operations: OMPT's data operations, and launches."""

    ALLOC = 1
    H2D = 2
    D2H = 3
    DELETE = 4
    ASSOCIATE = 5
    DISASSOCIATE = 6
    MEMSET = 7
    SUBMIT = 100


class StopKind(enum.IntEnum):
    """What a source line does, so that AdaptiveCpp's host must first wait (barrier) for earlier parallel algorithms."""

    ACCESS = 1
    """The line loads or stores memory on the host."""
    CALL = 2
    """The line calls a function that is not inlined."""
    EXIT = 3
    """The line leaves the function that called the algorithms."""
    ALLOCATION = 4
    """The line allocates or frees memory."""


class EndKind(enum.IntEnum):
    """How the memory of an array ends: for example, by a free or a delete, or at the end of a function."""

    FREE = 0
    REALLOC = 1
    """By a realloc that has moved the array elsewhere."""
    MUNMAP = 2
    SCOPE = 3
    """The program leaves the scope of a stack variable."""


class ArrayEnd(msgspec.Struct, frozen=True):
    """A source line where, and `how`, the memory of an array ends while the array is mapped to a device."""

    where: str
    """The line; empty if it is not known."""
    how: EndKind
    elsewhere: bool = False
    """Whether a thread that OpenMP did not make ends it, and not the thread of the task with the record."""


class ItemForm(msgspec.Struct, frozen=True):
    """A map item as the source has it: its type bits, text and line.

    type: the bits of `OMP_TGT_MAPTYPE_*`. name: the text, such as ``a[0:n]``. file, line: its place in the source.
    """

    type: int
    name: str = ""
    file: str = ""
    line: int = 0
    components: int = 0
    """How many of the following items its mapper function pushed."""
    dimensions: tuple[tuple[int, int, int], ...] = ()
    """For a strided section: (offset, count, stride) of each dimension."""


class Site(msgspec.Struct, frozen=True):
    """A directive, a routine or a parallel algorithm in the source.

    call: the runtime's entry point, or the routine's or algorithm's name. file, function, line, column: its place in
    the source; empty or 0 if not known. kernel: the index of its kernel in `Dictionaries.kernels`; NONE: it has none.
    flags: those that the compiler passes with a kernel launch. items: its map items. device: its device's number.
    """

    call: str
    file: str = ""
    function: str = ""
    line: int = 0
    column: int = 0
    device: int = -1
    kernel: int = NONE
    teams: int = 0
    """num_teams; 0: the program leaves it open, -1: the kernel has no teams."""
    threads: int = 0
    """thread_limit; 0: the program leaves it open."""
    flags: int = 0
    items: tuple[ItemForm, ...] = ()
    died: bool = False
    """Whether the process ended during the directive, so that the directive's operations are not all known."""

    @property
    def is_routine(self) -> bool:
        """Tell whether this is a call of a routine or algorithm, whose items are arguments and not map items."""
        return not self.call.startswith("__tgt_")

    @property
    def is_algorithm(self) -> bool:
        """Tell whether this is a parallel algorithm of C++; in a task, its kernels' records (steps) follow it."""
        return self.call.startswith("std::")

    @property
    def where(self) -> str:
        """Return the source line as FILE:LINE; the call's name if the program was built without line numbers."""
        return f"{self.file}:{self.line}" if self.line else self.call


class RecordedArray(msgspec.Struct, frozen=True):
    """A block of host memory that directives or kernels use, as the recording lists it."""

    name: str
    address: int
    nbytes: int
    origin: str
    """How the array comes to be. malloc, and scratch (memory of an algorithm): records ALLOCATE and FREE say when.
    global and link: declare target variables. variable and constant: of host code. mapped: only known because items map
    it. small: a block of the heap below 1 KiB that a directive maps; malloc if other blocks had its address.

    All but malloc and scratch exist from the beginning.
    """
    pointer: int = 0
    """For a link: the address of the pointer by which the device finds it."""
    own: int = 0
    """The array's own size in bytes, if a map reaches beyond the array's end; 0: `nbytes` is that size."""

    @property
    def is_there(self) -> bool:
        """Tell whether the array exists from the beginning of the program."""
        return self.origin not in ("malloc", "scratch")


AS_IT_EXITS: Final = " as it exits"
"""Ends the phrase on a process that died after it had come to its end, while what it left was taken down."""


class Death(msgspec.Struct, frozen=True):
    """Says how a program died: by a signal, or by an exit inside the runtime; or that its threads wait for ever."""

    how: str
    """A phrase that begins with a verb: ``is ended by SIGSEGV``."""
    where: str = ""
    """The line of the directive, or else of the program's own code, in which the program died; if neither is known,
    ``after`` and the last directive.
    """
    message: str = ""
    """The last message that the program or the runtime wrote."""

    @property
    def is_at_exit(self) -> bool:
        """Tell whether the program had finished, so that the process died during its exit."""
        return self.how.endswith(AS_IT_EXITS)

    def __str__(self) -> str:
        where = f"{' ' if self.where.startswith('after ') else ' at '}{self.where}" if self.where else ""
        return f"{self.how}{where}{self.message and ': '}{self.message}"


class Meta(msgspec.Struct, frozen=True):
    """How a process was recorded, and what else is known about it: program, runtime, compiler, threads.

    program: its command line. pid, rank: the numbers of the process and of its MPI rank. exit, signal: the exit code,
    or the number of the signal that ended it. host_touches: whether the memory accesses of the host were recorded.
    died: how it died, if it did. requires: the bits of its `requires` directives, as LLVM numbers them.
    """

    program: list[str] = []
    pid: int = 0
    rank: int | None = None
    threads: int = 1
    """The number of threads of the largest parallel region."""
    asked_threads: int | None = None
    """The number of threads that `offloadrt record --threads` asked for."""
    ended: str = "exit"
    """exit, exec, stopped, or cut: it crashed or was killed, and the recording ends there."""
    exit: int | None = None
    signal: int | None = None
    runtime: str = ""
    compiler: str = ""
    costs: bool = False
    """Whether kernels were counted, so that launches have costs."""
    oracle: bool = False
    """Whether the operations of the real runtime were recorded, to compare a replay with."""
    host_touches: bool = False
    exact: bool | None = None
    """Whether it was recorded for a check (`record --check`); None in recordings that do not say so yet."""
    instrumented: bool | None = None
    """Whether some of its host code was compiled by `offloadrt cc`; None in recordings that do not say so yet."""
    died: Death | None = None
    halted: str = ""
    """What its threads were doing when it was stopped by the user or after a given time; empty if it was not."""
    separate_copies: list[str] = []
    """Sentences that say where the program relies on separate copies of host and device; `blocks.py` finds them."""
    unset: list[tuple[str, str, int]] = []
    """Reads by host threads of their own variables that nobody has written: name, line and thread of each."""
    device_uses: list[tuple[str, str, int, bool]] = []
    """Uses of device memory by host code: array (empty: of none), directive before it, thread, whether it writes."""
    orders_left_out: bool = False
    """Whether threads ordered themselves by atomics and locks more often, or by more of them, than is recorded."""
    globals: dict[str, int] = {}
    """By name: the size in bytes of each declare target global."""
    algorithms: bool = False
    """Whether it calls parallel algorithms of C++."""
    requires: int = 0
    devices: int = 0
    """The number of devices of the recording machine, which is also the number of the initial device; 0: not known."""
    mpi: MpiWorld | None = None
    """None if the program did not begin MPI, or its MPI calls were not recorded."""
    host_times: tuple[float, ...] = ()
    """For each repeat (`record --repeat`): its host time over all processes, divided by that of the medians of all."""
    cost_errors: dict[str, float] = {}
    """By kernel: the counted work of its launches, divided by the work of the traced launches that stand for them."""


class Dictionaries(msgspec.Struct, frozen=True):
    """All parts of a recording that are not columns of numbers; the columns refer to their items by number.

    meta: how the process was recorded. sites: its directives, routines and algorithms in the source. kernels: their
    names. arrays: its blocks of host memory. mpi_calls, communicators: what it uses of MPI.
    """

    meta: Meta
    sites: tuple[Site, ...]
    kernels: tuple[str, ...]
    arrays: tuple[RecordedArray, ...]
    findings: dict[int, Findings] = {}
    """By number of the trace; traces without findings are left out."""
    ends: tuple[ArrayEnd, ...] = ()
    """The places to which `detail` refers in records of `Step.FREE`."""
    mpi_calls: tuple[MpiCall, ...] = ()
    communicators: tuple[Communicator, ...] = ()
    phases: tuple[str, ...] = ()
    """The names of ranges that the program names, with their domains."""
    beside: dict[int, tuple[int, int]] = {}
    """For threads that OpenMP did not make and that no synchronization orders, by the number of the thread's initial
    task: how many records of the program's first thread were done when the thread began, and how many had begun when it
    ended.
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
"""By name of the column: its type when loaded. Files have the narrowest type of the same kind that fits."""


LATER: Final = (
    "use.first_range", "range.kind", "range.begin", "range.end", "launch.traced",
    "record.copies", "copies.first", "copy.kind", "copy.host", "copy.bytes", "copy.content", "copy.brings_nothing",
    "parts.first", "part.kind", "part.flags", "part.communicator", "part.peer", "part.tag", "part.request",
    "part.bytes", "part.blocks", "part.memory", "part.array", "part.address", "record.repeats",
)  # fmt: skip
"""Columns that recordings of earlier offloadrts lack."""


def with_later_columns(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return a file's columns, with empty ones added for those that an older offloadrt did not write yet."""
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
    """Count the directives and routine calls in a recording's columns; a parallel algorithm counts once."""
    within = any(site.is_algorithm for site in sites)
    counted = np.array([not within or site.is_routine for site in sites] or [True])
    subjects = columns["record.subject"][columns["record.step"] == Step.DIRECTIVE]
    return int(np.count_nonzero(counted[subjects]))


@attrs.frozen(eq=False)
class Recording:
    """One recorded process, loaded from a file: tables of numbers (`columns`), and what the numbers refer to."""

    name: str
    """The file and the run from which it was loaded, for messages."""
    dictionaries: Dictionaries
    columns: Mapping[str, Column]

    @property
    def meta(self) -> Meta:
        return self.dictionaries.meta

    @property
    def run(self) -> str:
        """Return the name of the run in its file."""
        return self.name.rpartition(":")[2]

    @property
    def directives(self) -> int:
        """Count the recorded directives and routine calls; a parallel algorithm counts once, without its kernels."""
        return directives_in(self.columns, self.dictionaries.sites)

    def on_initial_device(self, site: Site) -> bool:
        """Tell whether the directives at a source line (`site`) ran on the initial device, which is the host."""
        return 0 < self.meta.devices <= site.device

    @property
    def device_numbers(self) -> set[int]:
        """Return the numbers of the devices that directives name, without the initial device."""
        return {max(0, site.device) for site in self.dictionaries.sites if not self.on_initial_device(site)}

    @property
    def devices_used(self) -> int:
        """Return the number of devices that the program needs: one more than the largest device number."""
        return 1 + max(self.device_numbers, default=0)

    def range_of(self, table: str, number: int) -> range:
        """Return the indices of the rows of list `number` in a table of lists, such as ``items`` or ``operations``."""
        if number < 0:
            return range(0)
        first = self.columns[f"{table}.first"]
        return range(int(first[number]), int(first[number + 1]))


RECORD: Final = ("step", "subject", "detail", "cpu", "launch", "operations", "touches", "copies")
"""The fields of a record, in the order in which `TaskRow` has them."""
FIELDS: Final = len(RECORD)


@attrs.define(eq=False)
class ListTable:
    """Collects lists for a recording, each of rows of whole numbers, such as map items; equal lists are stored once.

    ``add`` returns the number of a list. table, row: names of the table and of its rows. fields: names of a row's
    numbers.
    """

    table: str
    row: str
    fields: tuple[str, ...]
    _numbers: dict[tuple[Any, ...], int] = attrs.field(factory=dict)

    def add(self, rows: Iterable[tuple[int, ...]]) -> int:
        """Return the number of a list of rows; a list that is not known yet is added."""
        return self._numbers.setdefault(tuple(rows), len(self._numbers))

    def lists(self) -> list[tuple[tuple[int, ...], ...]]:
        """Return all lists, in order of their numbers."""
        return list(self._numbers)

    def columns(self) -> dict[str, Column]:
        return list_columns(self.table, self.row, self.fields, self.lists())


def list_columns(
    table: str, row: str, fields: Sequence[str], lists: Sequence[Sequence[Sequence[int]]]
) -> dict[str, Column]:
    """Make the columns that store lists of rows: where each list begins, and the values of all rows in order.

    table, row: the beginnings of the columns' names, for the lists and for their rows. fields: the names of a row's
    numbers.
    """
    first = np.zeros(len(lists) + 1, "u8")
    first[1:] = np.cumsum([len(rows) for rows in lists], dtype="u8")
    rows = [entry for entries in lists for entry in entries]
    return {f"{table}.first": first, **row_columns(row, fields, rows)}


def row_columns(table: str, fields: Sequence[str], rows: Sequence[Sequence[int]]) -> dict[str, Column]:
    """Make the columns of a table from its rows: for each of `fields`, the values of all rows."""
    names = [f"{table}.{field}" for field in fields]
    if not rows:
        return {name: np.zeros(0, COLUMNS[name]) for name in names}
    return {
        name: np.fromiter(values, COLUMNS[name], len(rows))
        for name, values in zip(names, zip(*rows, strict=True), strict=True)
    }


@attrs.define(eq=False)
class TaskRow:
    """A task while a recording is made, with its records (steps), each of eight numbers, one after the other.

    index: its number in the recording. kind: a `TaskKind`. thread: the host thread that makes it. team, number, size:
    the team that it belongs to, its number there, and the team's size.
    """

    index: int
    kind: int
    thread: int
    team: int = -1
    number: int = 0
    size: int = 1
    waiting: bool = False
    """Whether it is waiting at a barrier or for tasks."""
    call: int = 0
    """The routine call that the task executes; 0: none."""
    since: int = 0
    """For an explicit task: how many host accesses to memory without a known array had come when it began."""
    frees: int = 0
    """How many blocks of the heap had been freed when it was made."""
    records: array[int] = attrs.field(factory=lambda: array("q"))

    @property
    def count(self) -> int:
        """Return how many records (steps) the task has."""
        return len(self.records) // FIELDS

    def add(self, step: int, subject: int, cpu: int, touches: int = -1, detail: int = -1) -> int:
        """Add a record (one step of the task) and return its index in `records`.

        step: its kind, which decides what `subject` and `detail` mean. cpu: the CPU time in ns since the record before.
        touches: the number of the list of the host's memory accesses since then.
        """
        place = len(self.records)
        self.records.extend((step, subject, detail, cpu, -1, -1, touches, -1))
        return place

    def get(self, place: int, field: str) -> int:
        """Return a field, by its name, of the record (step) with this place (index) in `records`."""
        return self.records[place + RECORD.index(field)]

    def put(self, place: int, field: str, value: int) -> None:
        """Change a field, by its name, of the record (step) with this place (index) in `records`."""
        self.records[place + RECORD.index(field)] = value


def task_columns(tasks: Sequence[TaskRow]) -> dict[str, Column]:
    """Make the columns of a recording for its tasks, and for the records (steps) of all tasks."""
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
    """Return the columns with the narrowest types that hold their numbers, as files have them."""
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
    """The tasks of a recording as a tree: by team, and by which task made them."""

    columns: Mapping[str, Column]
    members: dict[int, list[int]] = attrs.field(factory=dict)
    """By team: its implicit tasks, in the order of their numbers in the team."""

    def __attrs_post_init__(self) -> None:
        numbers = self.columns["task.number"].tolist()
        for task, team in enumerate(self.columns["task.team"].tolist()):
            if team >= 0:
                self.members.setdefault(team, []).append(task)
        for members in self.members.values():
            members.sort(key=lambda task: int(numbers[task]))

    def roots(self) -> list[int]:
        """Return the tasks of threads that OpenMP did not make and that do something; the first thread comes first."""
        initial = [task for task, kind in enumerate(self.columns["task.kind"].tolist()) if kind == TaskKind.INITIAL]
        return [task for task in initial if self._works(task)]

    def first_threads(self) -> list[int]:
        """Return the tasks of all threads that OpenMP did not make; that of the program's first thread comes first."""
        kinds = self.columns["task.kind"].tolist()
        initial = [task for task, kind in enumerate(kinds) if kind == TaskKind.INITIAL]
        first = next(
            (task for task in initial if {*self.columns["record.step"][self.rows(task)].tolist()} - {Step.REST}), NONE
        )
        return [] if first == NONE else [first, *(task for task in initial if task != first)]

    def widest(self) -> int:
        """Return the number of threads of the largest team."""
        teams = [team for root in self.roots() for team in self._teams_below(root)]
        return max([1, *(len(self.members.get(team, ())) for team in teams)])

    def rows(self, task: int) -> slice:
        """Return the row indices of a task's records (steps) in the recording's columns."""
        first = int(self.columns["task.first"][task])
        return slice(first, first + int(self.columns["task.count"][task]))

    def makers(self) -> dict[int, int]:
        """Return for each task the task that made it, or that forked its team; tasks of other threads have none."""
        step, subject = self.columns["record.step"], self.columns["record.subject"]
        makers = {}
        for task in range(len(self.columns["task.kind"])):
            rows = self.rows(task)
            for row in (np.flatnonzero(np.isin(step[rows], (Step.TASK, Step.FORK))) + rows.start).tolist():
                what = int(subject[row])
                made = [what] if step[row] == Step.TASK else self.members.get(what, ())
                makers.update(dict.fromkeys(made, task))
        return makers

    def waiting(self) -> set[int]:
        """Return the explicit tasks that wait for a flag's release or a turn at a lock, and their makers."""
        columns = self.columns
        waits = columns["record.step"] == Step.ACQUIRE
        is_flag = (columns["lock.kind"] == FLAG)[columns["record.subject"][waits]]
        waits[waits] = is_flag | (columns["record.detail"][waits] > 0)
        if not waits.any():
            return set()
        makers, found = self.makers(), set[int]()
        for task in range(len(columns["task.kind"])):
            if waits[self.rows(task)].any():
                above: int | None = task
                while above is not None and above not in found:
                    found.add(above)
                    above = makers.get(above)
        kinds = columns["task.kind"]
        return {task for task in found if kinds[task] not in (TaskKind.INITIAL, TaskKind.IMPLICIT)}

    def _works(self, task: int) -> bool:
        if set(self.columns["record.step"][self.rows(task)].tolist()).difference(_IDLE):
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
    """Raised for a recording that cannot be read, made or used."""


class NotARecording(RecordingError):
    """Raised for a file or folder that is no recording."""


class RecordingDamaged(RecordingError):
    """Raised for a recording of which a part is missing or cut off, or whose parts contradict one another."""


class RecordingTooNew(RecordingError):
    """Raised for a recording written in a later version of the format than this offloadrt reads."""
