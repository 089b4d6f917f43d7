"""Makes records of a rank's MPI calls from the raw files: the parts of each call, and where its buffers lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from offloadrt.extensions.recording.format.blocks import MemoryEvents
from offloadrt.extensions.recording.format.recording import (
    FIELDS,
    NONE,
    BufferPlace,
    Communicator,
    ListTable,
    MpiCall,
    MpiWorld,
    PartFlag,
    PartKind,
    RecordingDamaged,
    TaskRow,
)
from offloadrt.extensions.recording.format.slots import EXACT, LOADS, STORES, RawProcess, Row, a_of, b_of, signed

PART: Final = (
    "kind", "flags", "communicator", "peer", "tag", "request", "bytes", "blocks", "memory", "array", "address",
)  # fmt: skip
"""The fields of a part, in the order of the table's columns."""
ENDS_ALL: Final = "MPI_Finalize"
POLLS: Final = (
    "MPI_Test", "MPI_Testall", "MPI_Testany", "MPI_Testsome", "MPI_Request_get_status", "MPI_Iprobe", "MPI_Improbe",
)  # fmt: skip
_LOOP_NS: Final = 1000
"""Nanoseconds. Less work between two polls is the polling loop itself, and no work of the program."""
_MOST_PIECES: Final = 1024
"""Of a buffer in more pieces it is not told which bytes MPI uses."""
_READ: Final = (PartKind.SEND, PartKind.GIVES)
WRITTEN: Final = (PartKind.RECEIVE, PartKind.TAKES)
BUFFERS: Final = (*_READ, *WRITTEN)
"""The kinds of parts that have a buffer, which MPI reads or writes."""


@attrs.define(eq=False)
class _Part:
    """A part of an MPI call while it is read."""

    kind: int
    flags: int
    communicator: int
    peer: int
    tag: int
    request: int
    nbytes: int
    address: int
    span: int
    blocks: int
    memory: BufferPlace = BufferPlace.HOST
    array: int = NONE

    @classmethod
    def of(cls, row: Row) -> _Part:
        """Read a part from its row in the raw files. Raises RecordingDamaged for an unknown kind of part."""
        kind, ranks = a_of(row), row[1]
        if not min(PartKind) <= kind <= max(PartKind):
            raise RecordingDamaged(f"a part of a call of MPI is of unknown kind {kind}")
        communicator, peer = _signed(ranks & 0xFFFFFFFF), _signed(ranks >> 32)
        return cls(kind, b_of(row), communicator, peer, signed(row[2]), signed(row[3]), *row[4:])

    def matched(self, message: _Part) -> None:
        """Give a receive the source and the tag of the message that it got, where it left them open.

        What it names itself stands: MPICH's status of a receive from MPI_PROC_NULL says rank 0.
        """
        self.peer = message.peer if self.peer == NONE else self.peer
        self.tag = message.tag if self.tag == NONE else self.tag

    def row(self) -> tuple[int, ...]:
        return (
            self.kind, self.flags, self.communicator, self.peer, self.tag, self.request, self.nbytes, self.blocks,
            self.memory, self.array, self.address,
        )  # fmt: skip


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


@attrs.define(eq=False)
class _RankCall:
    """An MPI call whose record is not complete yet."""

    name: int
    caller: int
    task: TaskRow
    place: int
    parts: list[_Part]
    returned: bool = False
    pending: int = 0
    """How many of its receives have not been matched yet."""


@attrs.define(eq=False)
class RankCalls:
    """Follows a process's MPI calls, to make the recording's records (steps of tasks) of them.

    sites: the calls as they stand in the source, each with its number. parts: the lists of the calls' buffers, requests
    and messages.
    """

    _process: RawProcess
    _memory: MemoryEvents
    _touches: bool
    """Whether host touches are recorded."""
    _exact: bool
    sites: dict[MpiCall, int] = attrs.field(factory=dict)
    parts: ListTable = attrs.field(factory=lambda: ListTable("parts", "part", PART))
    last_place: str = ""
    """The name and the place of the process's last MPI call."""
    _open: dict[int, _RankCall] = attrs.field(factory=dict)
    """By thread: the call in which it is."""
    _receives: dict[int, tuple[_RankCall, _Part]] = attrs.field(factory=dict)
    """By request: receives that nobody has waited for yet."""
    _tasks: set[int] = attrs.field(factory=set)
    _read: dict[tuple[int, int, bool], MpiCall] = attrs.field(factory=dict)
    _places: Mapping[int, str] = attrs.field(init=False)
    """By return address of a call: ``file;function;line;column``."""

    def __attrs_post_init__(self) -> None:
        places = [line for line in self._process.lines if line["k"] == "place"]
        self._places = {int(line["at"]): self._process.place_of(line) for line in places}

    def begins_in(self, task: TaskRow | None) -> bool:
        """Tell whether `task` has made any MPI call so far."""
        return task is not None and task.index in self._tasks

    def reads(self, thread: int, parts: Sequence[Row]) -> None:
        """Record which host memory an MPI call reads when it begins.

        thread: the number of the calling thread. parts: the slots (rows of the raw files) with the call's buffers.
        """
        for part in map(_Part.of, parts):
            if part.kind in _READ and self._memory.device.at(part.address) is None:
                self._touch(thread, part, LOADS)

    def begin(self, thread: int, row: Row, parts: Sequence[Row], task: TaskRow, place: int) -> None:
        """Begin the record of an MPI call. row: its slot in the raw files. parts: the slots of its buffers and peers.

        place: the index of the call's record (step) among the records of `task`. thread: the number of the calling
        thread.
        """
        call = _RankCall(row[2], row[3], task, place, [_Part.of(part) for part in parts])
        self._tasks.add(task.index)
        for part in call.parts:
            self._locate(part)
            if part.kind in _READ and part.memory == BufferPlace.MAPPED:
                self._on_device(call, part, LOADS)
            if part.kind == PartKind.RECEIVE and part.request != NONE:
                self._matched(part.request)  # of an earlier call, which freed it or is still under way
                call.pending += 1
                self._receives[part.request] = call, part
        self._open[thread] = call
        site = self._site(call)
        self.last_place = f"{site.call} at {site.where}" if site.line else site.call

    def end(self, thread: int, parts: Sequence[Row]) -> None:
        """Complete the record of the MPI call that a thread is in, by the call's results.

        parts: the slots of the raw files that have the results, such as the messages that were received.
        """
        call = self._open.pop(thread, None)
        if call is None:
            return
        call.returned = True
        results = [_Part.of(part) for part in parts]
        if any(part.kind == PartKind.REFUSED for part in results):
            for part in call.parts:
                self._receives.pop(part.request, None)
            call.parts, call.pending = [], 0
        matched = next((part for part in results if part.kind == PartKind.MATCHED), None)
        for part in call.parts:
            if part.kind == PartKind.RECEIVE and part.request == NONE and matched is not None:
                part.matched(matched)
            if part.kind in WRITTEN and part.request == NONE:
                self._written(thread, call, part, part.nbytes if matched is None else matched.nbytes)
        for part in results:
            if part.kind == PartKind.COMPLETED:
                self._completed(thread, part)
        call.parts += results
        if not call.pending:
            self._complete(call)
            if not results and self._site(call).call in POLLS:
                self._join_polls(call)

    def _join_polls(self, call: _RankCall) -> None:
        """Drop the record of an unsuccessful poll if the record before it is of the same poll.

        A program that polls in a loop waits: the number of its polls only says how fast the recording machine was.
        """
        records, before = call.task.records, call.place - FIELDS
        same = ("step", "subject", "detail")
        if before < 0 or call.place + FIELDS != len(records):
            return
        if any(call.task.get(before, name) != call.task.get(call.place, name) for name in same):
            return
        if call.task.get(call.place, "touches") != NONE:
            return
        work = call.task.get(call.place, "cpu")
        del records[call.place :]
        if work >= _LOOP_NS:
            call.task.put(before, "cpu", call.task.get(before, "cpu") + work)

    def _completed(self, thread: int, result: _Part) -> None:
        call, part = self._receives.get(result.request, (None, None))
        if call is None or part is None:
            return
        if result.flags & PartFlag.CANCELLED:
            part.flags |= PartFlag.CANCELLED
        else:
            part.matched(result)
            self._written(thread, call, part, result.nbytes)
        self._matched(result.request)

    def _matched(self, request: int) -> None:
        """Follow a receive no longer; complete the record of its call if it was the call's last one."""
        call, _ = self._receives.pop(request, (None, None))
        if call is None:
            return
        call.pending -= 1
        if call.returned and not call.pending:
            self._complete(call)

    def _locate(self, part: _Part) -> None:
        """Find out in which memory a buffer lies."""
        if not part.nbytes:
            part.address = 0
            return
        block = self._memory.device.at(part.address)
        if block is not None and block.host:
            part.memory, part.address = BufferPlace.MAPPED, block.host + part.address - block.device
        elif block is not None:
            part.memory, part.address = BufferPlace.GIVEN, self._memory.device.recorded(part.address)
        if part.memory != BufferPlace.GIVEN and (array := self._memory.arrays.at(part.address)) is not None:
            part.array = self._memory.arrays.use(array).number

    def _written(self, thread: int, call: _RankCall, part: _Part, nbytes: int) -> None:
        if part.memory == BufferPlace.HOST:
            self._touch(thread, part, STORES, nbytes)
        elif part.memory == BufferPlace.MAPPED:
            self._on_device(call, part, STORES)

    def _touch(self, thread: int, part: _Part, kind: int, nbytes: int | None = None) -> None:
        """Report that MPI uses a buffer of the host, or its first `nbytes` bytes; piece by piece if these are known."""
        if not self._touches or not part.nbytes:
            return
        used = part.nbytes if nbytes is None else min(nbytes, part.nbytes)
        if self._exact and part.flags & PartFlag.EVEN and 1 < part.blocks <= _MOST_PIECES:
            piece = part.nbytes // part.blocks
            step = (part.span - piece) // (part.blocks - 1)
            for at in range(-(-used // piece)):
                self._memory.touch(thread, kind | EXACT, part.address + at * step, piece)
        elif part.flags & PartFlag.STRIDED:
            span = part.span if used == part.nbytes else used
            self._memory.touch(thread, kind, part.address, span)
        elif used:
            self._memory.touch(thread, kind | (EXACT if self._exact else 0), part.address, used)

    def _on_device(self, call: _RankCall, part: _Part, kind: int) -> None:
        """Report to `SeparateCopies` that MPI uses the device's copy of an array."""
        array, site = self._memory.arrays.at(part.address), self._site(call)
        if array is not None:
            self._memory.copies.on_device(array, part.address, part.span, kind, f"{site.call} at {site.where}")

    def _site(self, call: _RankCall) -> MpiCall:
        key = call.name, call.caller, call.returned
        site = self._read.get(key)
        if site is None:
            site = self._read[key] = self._read_site(call)
        return site

    def _read_site(self, call: _RankCall) -> MpiCall:
        file, function, line, column = (self._places.get(call.caller, "") + ";;;").split(";")[:4]
        row, place = (int(text) if text.isdigit() else 0 for text in (line, column))
        name = self._process.strings.get(call.name, "MPI").removesuffix("_c")
        return MpiCall(name, file, function, row, place, call.returned)

    def _complete(self, call: _RankCall) -> None:
        call.task.put(call.place, "subject", self.sites.setdefault(self._site(call), len(self.sites)))
        call.task.put(call.place, "detail", self.parts.add(part.row() for part in call.parts))

    def finish(self) -> None:
        """Complete the calls that never returned, and those whose receives nobody waited for."""
        left = {id(call): call for call, _ in self._receives.values()}
        for call in [*left.values(), *(call for call in self._open.values() if id(call) not in left)]:
            self._complete(call)

    def communicators(self) -> tuple[Communicator, ...]:
        """Return the communicators of the process in the order of their numbers."""
        return tuple(
            Communicator(str(line["key"]), _ranks(line["ranks"]), _ranks(line["remote"]))
            for line in self._process.lines
            if line["k"] == "communicator"
        )

    def world(self) -> MpiWorld | None:
        """Return the process's rank and what it asked of MPI at its begin; None if it did not begin MPI."""
        line = self._process.line("mpi")
        if not line:
            return None
        library = " ".join(str(line["library"]).replace("Version:", "").split())
        return MpiWorld(library, int(line["rank"]), int(line["ranks"]), int(line["level"]))


def _ranks(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(",") if word)
