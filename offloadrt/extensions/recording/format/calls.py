"""Makes tasks and records from a process's raw events, with what the real runtime did for each directive."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

import attrs
import msgspec

from offloadrt.extensions.recording.format.blocks import HostBlock, MemoryEvents
from offloadrt.extensions.recording.format.launches import PAGE, LaunchTables, Run
from offloadrt.extensions.recording.format.locks import RecordedLocks
from offloadrt.extensions.recording.format.phases import RecordedPhases
from offloadrt.extensions.recording.format.ranks import RankCalls
from offloadrt.extensions.recording.format.recording import (
    FLAG,
    NONE,
    ORDERED,
    ArrayEnd,
    EndKind,
    ItemForm,
    ListTable,
    OmptOperation,
    RecordingDamaged,
    Site,
    Step,
    TaskKind,
    TaskRow,
)
from offloadrt.extensions.recording.format.slots import (
    ALGORITHM,
    BRINGS_KNOWN,
    BRINGS_NOTHING,
    CALLS,
    DEFERRED,
    MAPPER_COMPONENT,
    MUTEX_BEGIN,
    REALLOC,
    STOP,
    AlgorithmWords,
    RawProcess,
    RecordedEvent,
    Row,
    Slot,
    a_of,
    b_of,
    is_fortran,
    kind_of,
    memory_of,
    signed,
    user_of_helper,
)
from offloadrt.extensions.recording.format.threads import InitialTasks, RunningThread
from offloadrt.runtime.mapping.map_types import ATTACH, FIRST_MEMBER, LITERAL, MEMBER_OF, NON_CONTIG, PTR_AND_OBJ

_KERNELS: Final = (7, 8)
_FIRST_ROUTINE, _LAST_ROUTINE = 20, 39
_ASYNC: Final = 16
"""The difference between OMPT's numbers of asynchronous and synchronous data operations."""


@attrs.define(eq=False)
class _OpenCall:
    """A call of the runtime that has not returned, while its record is incomplete."""

    function: int
    row: Row
    kernel: Row | None
    items: list[Row]
    arguments: list[int]
    mapped: dict[int, tuple[int, int, HostBlock]]
    """By argument in an array or a device copy of one: (host address, bytes used from there on, array)."""
    blocks: list[HostBlock | None]
    task: TaskRow
    place: int
    dimensions: dict[int, list[tuple[int, int, int]]] = attrs.field(factory=dict)
    """The dimensions of strided items, by the `id` of their slots."""
    components: list[tuple[Row, HostBlock | None]] = attrs.field(factory=list)
    """The items that mapper functions pushed, each with its array at that time."""
    operations: list[tuple[int, int]] = attrs.field(factory=list)
    copies: list[tuple[int, int, int, int, int]] = attrs.field(factory=list)
    launch: int = NONE
    returned: int = 0
    deferred: bool = False
    """Whether a task executes it, which may end after the call has returned."""
    algorithm: _OpenCall | None = None
    """The parallel algorithm that launches this kernel; None for other calls."""
    kernels: list[int] = attrs.field(factory=list)
    """For a parallel algorithm: the addresses of its kernels, each once, in order of their first launches."""
    launches: int = 0
    """For a parallel algorithm: how many kernels it has launched."""


@attrs.define(eq=False)
class RuntimeCalls:
    """Makes records (steps of tasks) of the runtime calls of a process that is being converted to a recording.

    Its tables are `sites`, the source lines of directives, `kernels`, `items` and `launches`, and, if the real
    runtime's operations were recorded (`has_operations`), `operations` and `copies`. A record refers to their rows by
    number.
    """

    _process: RawProcess
    memory: MemoryEvents
    sites: dict[Site, int] = attrs.field(factory=dict)
    kernels: dict[str, int] = attrs.field(factory=dict)
    items: ListTable = attrs.field(factory=lambda: ListTable("items", "item", ("base", "begin", "size", "array")))
    operations: ListTable = attrs.field(factory=lambda: ListTable("operations", "operation", ("kind", "bytes")))
    copies: ListTable = attrs.field(
        factory=lambda: ListTable("copies", "copy", ("kind", "host", "bytes", "content", "brings_nothing"))
    )
    launches: LaunchTables = attrs.field(init=False)
    has_operations: bool = False
    has_launches: bool = False
    last_place: str = ""
    """The place in the source of the last call."""
    _open: dict[int, _OpenCall] = attrs.field(factory=dict)
    _roots: dict[int, int] = attrs.field(factory=dict)
    """By nested call: the outermost call that it belongs to."""
    _entries: dict[int, str] = attrs.field(factory=dict)
    _forms: dict[tuple[int, int], ItemForm] = attrs.field(factory=dict)
    """The source's description of items, by (type bits, address of the item's text)."""
    _numbers: dict[tuple[object, ...], int] = attrs.field(factory=dict)
    """Numbers of sites, by the slots' words that describe them."""
    _touched: dict[tuple[int, ...], list[tuple[int, HostBlock, int, Run]]] = attrs.field(factory=dict)
    _contents: dict[tuple[int, int, int], int] = attrs.field(factory=dict)
    """By (host address, bytes, digest): a number for this content of the range."""

    _devices: int = attrs.field(init=False)
    """The number of the initial device, which comes after all others."""

    def __attrs_post_init__(self) -> None:
        self._devices = sum(line["k"] == "device" for line in self._process.lines)
        self.launches = LaunchTables(self.memory.arrays, self.memory.device, self._process.strings)
        self._entries = {int(line["at"]): str(line["name"]) for line in self._process.lines if line["k"] == "entry"}

    def is_nested(self, row: Row, parts: Sequence[Row]) -> bool:
        """Tell whether a call (an event's `row` and `parts`) is made inside another, which gets its operations."""
        outer = self._roots.get(row[3], row[3])
        if not outer or self.algorithm_of(row) is not None:
            return False
        self._roots[row[2]] = outer
        if a_of(row) == MAPPER_COMPONENT and outer in self._open:
            made = [part for part in parts if kind_of(part) == Slot.ITEM]
            self._open[outer].components += [(part, self._block_of(part, self._form(part).name)) for part in made]
        return True

    def algorithm_of(self, row: Row) -> _OpenCall | None:
        """Return the open call of a parallel algorithm that launches the kernel of event `row`; else None."""
        outer = self._open.get(row[3])
        return outer if outer is not None and outer.function == ALGORITHM and a_of(row) in _KERNELS else None

    def _where(self, row: Row) -> str:
        """Return the place of a call in the source; the name of the call if that is not known."""
        file, _, line, _ = self._location(row[5])
        return f"{file}:{line}" if line not in ("", "0") else CALLS.get(a_of(row), f"call {a_of(row)}")

    def _location(self, address: int) -> list[str]:
        """Split the compiler's string for a place in the source: ``;FILE;FUNCTION;LINE;COLUMN;;``.

        For a map item it begins with the item's text and its file. Without such a string, all parts are empty.
        """
        return (self._process.strings.get(address, "") + ";;;;;").split(";")[1:5]

    def begin(self, event: RecordedEvent, task: TaskRow, place: int) -> None:
        """Begin the record of a call; look up its map items' arrays now. place: the record's index in `task`."""
        parts = event.parts
        items = [part for part in parts if kind_of(part) == Slot.ITEM]
        kernel = next((part for part in parts if kind_of(part) == Slot.KERNEL), None)
        arguments = [word for part in parts if kind_of(part) == Slot.ARG for word in part[1:]]
        function = a_of(event.row)
        blocks = [self._block_of(item, name) for item, name in zip(items, self._names(items), strict=True)]
        mapped = self._routine_memory(function, arguments)
        if _FIRST_ROUTINE <= function <= _LAST_ROUTINE:  # now, as a block may be gone when the call has ended
            arguments = [
                word if place in mapped else self.memory.device.recorded(word) for place, word in enumerate(arguments)
            ]
        call = _OpenCall(function, event.row, kernel, items, arguments, mapped, blocks, task, place)
        if function == ALGORITHM:
            call.blocks = [self._pointed_at(word) for word in AlgorithmWords(arguments).pointers]
        elif kernel is not None and (algorithm := self.algorithm_of(event.row)) is not None:
            call.algorithm, algorithm.launches = algorithm, algorithm.launches + 1
            call.blocks = [  # pointers are among the words passed by value
                self._pointed_at(item[1]) if item[4] & LITERAL else block
                for item, block in zip(items, blocks, strict=True)
            ]
            if kernel[1] not in algorithm.kernels:
                algorithm.kernels.append(kernel[1])
        for part in parts:
            if kind_of(part) == Slot.DIMENSION:
                call.dimensions.setdefault(id(items[a_of(part)]), []).append((part[1], part[2], part[3]))
        self._open[event.row[2]] = call
        self.last_place = self._where(event.row)

    def _routine_memory(self, function: int, arguments: Sequence[int]) -> dict[int, tuple[int, int, HostBlock]]:
        """Note host memory that a routine uses; return the arguments that are in arrays or in device copies of them."""
        mapped: dict[int, tuple[int, int, HostBlock]] = {}
        if CALLS.get(function) == "omp_target_associate_ptr":
            mapped[0] = arguments[0], arguments[2], self.memory.arrays.spanned(arguments[0], arguments[2], "")
        for memory in memory_of(function, arguments):
            host, copy = memory.address, self.memory.device.at(memory.address)
            of_host = memory.device >> 63 or memory.device == self._devices or self.memory.arrays.at(host)
            if copy is not None:
                host, of_host = copy.host + memory.address - copy.device, copy.host
            if of_host and memory.nbytes:
                block = self.memory.arrays.spanned(host, memory.nbytes, "")
                before = memory.address - arguments[memory.argument]
                mapped[memory.argument] = host - before, before + memory.nbytes, block
        return mapped

    def _pointed_at(self, address: int) -> HostBlock | None:
        """Return the array into which an argument of an algorithm points; None if none is known."""
        block = self.memory.arrays.at(address)
        return None if block is None else self.memory.arrays.use(block, "")

    def _names(self, items: Sequence[Row]) -> list[str]:
        """Return the names of items; an item without a name gets that of the structure member before it.

        flang makes several items of a variable: its descriptor, the address in the descriptor, and the data.
        """
        names = [self._form(item).name for item in items]
        if all(names):
            return names
        groups: dict[int, list[int]] = {}
        for place, item in enumerate(items):
            parent = (item[4] & MEMBER_OF) // FIRST_MEMBER
            groups.setdefault(parent - 1 if parent else place, []).append(place)
        for places in groups.values():
            name = next((names[place] for place in places if names[place]), "")
            for place in places:
                structure = name.partition("%")[0] if place == places[0] else name
                name = names[place] = names[place] or structure
        return names

    def _block_of(self, item: Row, text: str) -> HostBlock | None:
        begin, size, type_bits = item[2], signed(item[3]), item[4]
        if type_bits & NON_CONTIG:  # `begin` is the address of its dimensions, `size` their number
            begin, size = item[1], 0
        elif type_bits & ATTACH:  # `size` is that of the pointer itself
            size = 0
        if type_bits & LITERAL or (not begin and size <= 0):
            return None  # a null pointer with a size is an array at 0: the runtime gives it a block of the device
        if type_bits & PTR_AND_OBJ and item[1] in self.memory.links:
            link = self.memory.arrays.spanned(begin, size, self.memory.links[item[1]])
            link.origin, link.pointer = "link", item[1]
            return link
        name = text.partition("[")[0]
        if size > 0:
            return self.memory.arrays.spanned(begin, size, name)
        block = self.memory.arrays.at(begin)
        return None if block is None else self.memory.arrays.use(block, name)

    def _form(self, item: Row) -> ItemForm:
        found = self._forms.get((item[4], item[5]))
        if found is None:
            found = self._forms[item[4], item[5]] = self._read_form(item)
        return found

    def _read_form(self, item: Row) -> ItemForm:
        name, file, line, _ = self._location(item[5])
        if is_fortran(name):  # flang puts the file first, and writes the kind of an index behind it
            name, file = re.sub(r"\b(\d+)_\d+\b", r"\1", file) if file != "unknown" else "", name
        return ItemForm(item[4], name, file, int(line) if line.isdigit() else 0)

    def operation(self, kind: int, row: Row, in_task: int) -> None:
        """Add an operation (an event's kind and row) to its call. in_task: the task's call, if no other makes it."""
        self.has_operations = True
        call = self._open.get(self._roots.get(row[2], row[2]) or in_task)
        if kind == Slot.SUBMIT:
            found = (int(OmptOperation.SUBMIT), 0)
        else:
            number = a_of(row) - _ASYNC if a_of(row) > _ASYNC else a_of(row)
            nbytes = 0 if number in (OmptOperation.DELETE, OmptOperation.DISASSOCIATE) else row[5]
            region = call is not None and call.kernel is not None
            self.memory.operation(number, row[3], row[4], row[5], None if call is None else call.task, of_region=region)
            found = (number, nbytes)
        if call is not None:
            call.operations.append(found)
            if kind == Slot.OP and b_of(row) & BRINGS_KNOWN:
                self._copied(call, found[0], row)

    def _copied(self, call: _OpenCall, kind: int, row: Row) -> None:
        """Note the bytes that a copy transfers: a number for their content, and whether the target had them already."""
        host, nbytes = row[3] if kind == OmptOperation.H2D else row[4], row[5]
        content = self._contents.setdefault((host, nbytes, row[1]), len(self._contents))
        call.copies.append((kind, host, nbytes, content, int(bool(b_of(row) & BRINGS_NOTHING))))

    def has_open(self, task: TaskRow) -> bool:
        """Tell whether a task is inside a call of the runtime at the moment."""
        return any(call.task is task for call in self._open.values())

    def launched(self, row: Row, parts: Sequence[Row]) -> None:
        """Store a launch's counted work and traced accesses. row, parts: those of its event in the raw files."""
        self.has_launches = True
        call = self._open.get(self._roots.get(row[2], row[2]))
        if call is None or call.kernel is None:
            return
        kernel = call.kernel[1]
        call.launch, touched = self.launches.add(kernel, row, parts, call.items, self._caller(call))
        self._kernel_touches((kernel, *row[3:6]), call, touched)

    def _caller(self, call: _OpenCall) -> str:
        """Return the line of the parallel algorithm that launches a kernel; empty for other kernels."""
        if call.algorithm is None:
            return ""
        file, _, line, _ = self._location(call.algorithm.row[5])
        return f"{PurePath(file).name}:{line}"

    def _kernel_touches(
        self, shape: tuple[int, ...], call: _OpenCall, touched: list[tuple[HostBlock, int, Run]]
    ) -> None:
        """Report a kernel's touches to `SeparateCopies`; an untraced launch has those of its shape's traced one."""
        if touched:
            begins = {item[2]: number for number, item in enumerate(call.items) if not item[4] & LITERAL}
            self._touched[shape] = [(begins.get(host, NONE), block, host, run) for block, host, run in touched]
        for number, block, host, run in self._touched.get(shape, ()):
            begin = host if number == NONE else call.items[number][2]
            own = block if number == NONE else call.blocks[number]
            if own is not None:
                address = begin // PAGE * PAGE + run[1] * PAGE
                self.memory.copies.on_device(
                    own, address, run[2] * PAGE, run[0], f"the kernel at {self._where(call.row)}"
                )

    def _kernel(self, call: _OpenCall) -> int:
        assert call.kernel is not None
        address, symbol = call.kernel[1], self._entries.get(call.kernel[1], "")
        if call.algorithm is None:
            name = symbol or f"kernel at {address:#x}"
        else:  # the symbol is that of a template instance
            _, algorithm, *_ = self._location(call.algorithm.row[5])
            then = f", kernel {number + 1}" if (number := call.algorithm.kernels.index(address)) else ""
            name = f"{algorithm} at {self._caller(call)}{user_of_helper(symbol)}{then}"
        return self.kernels.setdefault(name, len(self.kernels))

    def returned(self, row: Row) -> None:
        """Complete the record of a call that returns (event `row`), unless a deferred task has yet to do its work."""
        call = self._open.get(row[2])
        if call is not None:
            call.returned = self.memory.device.recorded(row[3])
            if not call.deferred:
                self.done(row[2])

    def defer(self, identifier: int, made: TaskRow) -> tuple[TaskRow, int]:
        """Move the record of call `identifier` to `made`, the task that executes it; return old task and old index."""
        call = self._open[identifier]
        place = call.task, call.place
        call.task, call.place, call.deferred = made, made.add(Step.DIRECTIVE, 0, 0), True
        return place

    def done(self, identifier: int) -> None:
        """Complete the record (step) of a call that has ended. identifier: the number of the call."""
        call = self._open.pop(identifier, None)
        if call is not None:
            self._complete(call, whole=True)

    def finish(self) -> None:
        """Complete the records (steps) of calls that never returned, without operations, which may be incomplete."""
        for call in self._open.values():
            self._complete(call, whole=False, unfinished=call.launch == NONE)

    def fatal_call(self) -> int:
        """Return the number of the call in which the program died; 0 if it was in none, or if that is not known."""
        ending = self._process.ending
        number = self._roots.get(number := int(ending.get("call", 0)), number)
        if not ending and len(self._open) == 1:
            return next(iter(self._open))
        return number if number in self._open else 0

    def died_at(self) -> str:
        """Return the source line of the directive or algorithm in which the program died; empty if it was in none."""
        call = self._open.get(self.fatal_call())
        return "" if call is None else self._where((call.algorithm or call).row)

    def _complete(self, call: _OpenCall, whole: bool, unfinished: bool = False) -> None:
        items, blocks, behind = self._expanded(call)
        if call.function == ALGORITHM:
            numbers = [NONE if block is None else block.number for block in call.blocks]
            rows = AlgorithmWords(call.arguments).items(call.launches, numbers)
        elif call.function == STOP:
            rows = [(call.arguments[0], 0, 0, NONE)]
            call.task.put(call.place, "step", Step.STOP)
        elif _FIRST_ROUTINE <= call.function <= _LAST_ROUTINE:
            rows = [(word, 0, 0, NONE) for word in (*call.arguments, call.returned)]
            for argument, (host, nbytes, array) in call.mapped.items():
                rows[argument] = call.arguments[argument], host, nbytes, array.number
        else:
            recorded = self.memory.device.recorded
            rows = [
                (
                    recorded(item[1]) if item[4] & LITERAL else item[1],
                    item[2],
                    signed(item[3]),
                    NONE if block is None else block.number,
                )
                for item, block in zip(items, blocks, strict=True)
            ]
        call.task.put(call.place, "subject", self._site(call, items, behind, unfinished))
        call.task.put(call.place, "detail", self.items.add(rows))
        if call.kernel is not None and call.launch == NONE:
            call.launch = self.launches.uncounted(call.kernel[4])
        call.task.put(call.place, "launch", call.launch)
        if whole and self.has_operations and call.function < ALGORITHM:
            call.task.put(call.place, "operations", self.operations.add(sorted(call.operations)))
        if call.copies:
            call.task.put(call.place, "copies", self.copies.add(call.copies))

    def _expanded(self, call: _OpenCall) -> tuple[list[Row], list[HostBlock | None], list[int]]:
        """Put the items that a mapper pushed behind its item; return items, arrays, and the number behind each item.

        A target region calls a mapper twice, to map and to unmap; only the first call counts.
        """
        if not call.components:
            return call.items, call.blocks, [0] * len(call.items)
        items: list[Row] = []
        blocks: list[HostBlock | None] = []
        behind: list[int] = []
        for (item, block), own in zip(zip(call.items, call.blocks, strict=True), self._by_item(call), strict=True):
            items += [item, *(part for part, _ in own)]
            blocks += [block, *(array for _, array in own)]
            behind += [len(own)] + [0] * len(own)
        return items, blocks, behind

    def _by_item(self, call: _OpenCall) -> list[list[tuple[Row, HostBlock | None]]]:
        """Return the items that mappers pushed for each item; those of a member's own mapper follow the others."""
        made = call.components[: len(call.components) // 2] if call.kernel is not None else call.components
        found: list[list[tuple[Row, HostBlock | None]]] = [[] for _ in call.items]
        spans = [(item[2], item[2] + max(1, signed(item[3]))) if item[6] else (0, 0) for item in call.items]
        owner = next((place for place, item in enumerate(call.items) if item[6]), 0)
        for part, block in made:
            owner = next((place for place, (low, high) in enumerate(spans) if low <= part[1] < high), owner)
            found[owner].append((part, block))
        return found

    def _site(self, call: _OpenCall, items: Sequence[Row], behind: Sequence[int], unfinished: bool) -> int:
        """Return the number of a call's site. It is looked up by the slots' words, as most calls come again."""
        plain = not (call.dimensions or call.components or unfinished)
        kernel = (0, 0, 0, 0) if call.kernel is None else (*call.kernel[1:4], call.kernel[5])
        forms = tuple([(item[4], item[5]) for item in items])
        within = 0 if call.algorithm is None else call.algorithm.row[5]
        key = call.function, call.row[5], call.row[6], kernel, forms, within
        number = self._numbers.get(key) if plain else None
        if number is None:
            site = msgspec.structs.replace(self._read_site(call, items, behind), died=unfinished)
            number = self.sites.setdefault(site, len(self.sites))
            if plain:
                self._numbers[key] = number
        return number

    def _read_site(self, call: _OpenCall, items: Sequence[Row], behind: Sequence[int]) -> Site:
        place = call.row if call.algorithm is None else call.algorithm.row
        file, function, line, column = self._location(place[5])
        kernel = call.kernel
        name = CALLS.get(call.function, f"call {call.function}")
        if call.function == ALGORITHM:
            name, function = f"std::{function}", ""
        elif call.function == STOP:
            name = function
        return Site(
            call=name,
            file=file if file != "unknown" else "",
            function=function if function != "unknown" else "",
            line=int(line) if line.isdigit() else 0,
            column=int(column) if column.isdigit() else 0,
            device=signed(call.row[6]),
            kernel=NONE if kernel is None else self._kernel(call),
            teams=0 if kernel is None else signed(kernel[2]),
            threads=0 if kernel is None else signed(kernel[3]),
            flags=0 if kernel is None else kernel[5],
            items=tuple(
                msgspec.structs.replace(
                    self._form(item),
                    name=name,
                    components=after,
                    dimensions=tuple(call.dimensions.get(id(item), ())),
                )
                for item, name, after in zip(items, self._names(items), behind, strict=True)
            ),
        )


_REGION_END, _TASKWAIT, _TASKGROUP = 9, 5, 6
_SYNCHRONIZES: Final = dict.fromkeys((1, 2, 3, 8), Step.BARRIER) | {5: Step.TASKWAIT, 6: Step.GROUP_BEGIN}
"""By OMPT's number of a sync region, its record; `_REGION_END`, the barrier that ends a parallel region, has none."""
_BEGIN, _END = 1, 2
_ACQUIRED, _RELEASED = 2, 3
_ATOMIC, _POSIX = 6, 9
_DETACHED, _FULFILLED = 4, (5, 6)
"""OMPT's numbers of what becomes of a task whose event is not fulfilled, and of one whose event is."""
_TARGET_TASK, _TASKWAIT_TASK, _UNDEFERRED = 0x8, 0x10, 0x08000000
_INITIAL_TASK = 1


@attrs.define(eq=False)
class Assembler:
    """Makes a recording's tasks, with their records (steps), from one process's events in order; `finish` ends it.

    It passes events on by kind: to `memory`, `calls` (of the runtime), `locks`, `ranks` (MPI calls) and `phases` (named
    ranges). `initial` follows threads that OpenMP did not make.
    """

    process: RawProcess
    memory: MemoryEvents = attrs.field(factory=MemoryEvents)
    tasks: list[TaskRow] = attrs.field(factory=list)
    teams: dict[int, int] = attrs.field(factory=dict)
    """By parallel region: the number of its team."""
    locks: RecordedLocks = attrs.field(factory=RecordedLocks)
    dependences: ListTable = attrs.field(factory=lambda: ListTable("dependences", "dependence", ("address", "kind")))
    _threads: dict[int, RunningThread] = attrs.field(factory=dict)
    _by_identifier: dict[int, TaskRow] = attrs.field(factory=dict)
    _made: dict[int, tuple[TaskRow, int]] = attrs.field(factory=dict)
    """By task identifier: the record that makes the task, as (task, place)."""
    _depends: dict[int, list[tuple[int, int]]] = attrs.field(factory=dict)
    _detached: dict[int, tuple[TaskRow, int]] = attrs.field(factory=dict)
    """By identifier of a task whose event is not fulfilled yet: the record at its end, as (task, place)."""
    _fulfilled: set[int] = attrs.field(factory=set)
    initial: InitialTasks = attrs.field(factory=InitialTasks)
    calls: RuntimeCalls = attrs.field(init=False)
    touches: bool = True
    """Whether the host's memory accesses are recorded; `exact`: whether each byte is told apart."""
    exact: bool = False
    ranks: RankCalls = attrs.field(init=False)
    phases: RecordedPhases = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.calls, self.phases = RuntimeCalls(self.process, self.memory), RecordedPhases(self.process)
        self.ranks = RankCalls(self.process, self.memory, self.touches, self.exact)

    def take(self, event: RecordedEvent) -> None:
        """Add what the next event of the process says to the tasks and their records (steps), arrays and calls."""
        row = event.row
        thread = self._threads.get(event.thread)
        if thread is None:
            thread = self._threads[event.thread] = RunningThread(event.thread)
        match event.kind:
            case Slot.ALLOC:
                self._allocated(thread, row)
            case Slot.FREE:
                self._freed(thread, row)
            case Slot.TOUCH:
                self.memory.touched(event.thread, row, thread.place or self.calls.last_place)
            case Slot.THREAD:
                thread.since = row[4]
            case Slot.CALL:
                self._call(thread, event)
            case Slot.RET:
                self.calls.returned(row)
                thread.since, thread.deferring = row[4], 0
            case Slot.OP | Slot.SUBMIT:
                self.calls.operation(event.kind, row, 0 if thread.task is None else thread.task.call)
            case Slot.LAUNCH:
                self.calls.launched(row, event.parts)
            case Slot.PARALLEL_BEGIN:
                thread.worked(row[4])
                self.add(thread, Step.FORK, self._team(row[2]))
                self.memory.parallel(row[2], begins=True)
            case Slot.PARALLEL_END | Slot.IMPLICIT | Slot.SYNC:
                self._synchronized(thread, event.kind, row)
            case Slot.TASK_CREATE | Slot.TASK_SCHEDULE | Slot.DEPENDENCE:
                self._tasking(thread, event.kind, row)
            case Slot.MUTEX:
                self._mutex(thread, row)
            case Slot.MPI:
                thread.worked(row[4])
                self.ranks.reads(event.thread, event.parts)
                self.ranks.begin(event.thread, row, event.parts, self.task_of(thread), self.add(thread, Step.MPI, 0))
            case Slot.PHASE:
                thread.worked(row[4])
                self.phases.take(row, thread.number, self.task_of(thread), lambda *what: self.add(thread, *what))
            case Slot.MPI_END:
                self.ranks.end(event.thread, event.parts)
                thread.since = row[4]
        if thread.task is not None:
            self.initial.did_something(thread.task)

    def add(self, thread: RunningThread, step: Step, subject: int, detail: int = NONE) -> int:
        """Add a record (a step, with the numbers that its kind needs) to the thread's task, and return its index."""
        task = self.task_of(thread)
        touches = self.memory.take_touches(thread.number, task.index)
        return task.add(step, subject, thread.take_work(), touches, detail)

    def task_of(self, thread: RunningThread) -> TaskRow:
        """Return the task that a thread runs; a thread that OpenMP did not make gets an initial task."""
        if thread.task is None:
            thread.task = self.make_task(TaskKind.INITIAL, thread.number)
        return thread.task

    def make_task(self, kind: TaskKind, thread: int, identifier: int = 0) -> TaskRow:
        """Add a task that `thread` makes; another thread may run it. identifier: the runtime's name for the task."""
        task = TaskRow(len(self.tasks), kind, thread, frees=self.memory.free_count)
        self.tasks.append(task)
        if kind == TaskKind.INITIAL:
            self.initial.began(task, self._is_busy)
        if identifier:
            self._by_identifier[identifier] = task
        return task

    def _is_busy(self, task: TaskRow) -> bool:
        """Tell whether an initial task is inside a call or a parallel region, of which its last record is the begin."""
        thread = self._threads.get(task.thread)
        return self.calls.has_open(task) or (thread is not None and thread.task is not task)

    def _call(self, thread: RunningThread, event: RecordedEvent) -> None:
        if self.calls.is_nested(event.row, event.parts):
            return
        if self.calls.algorithm_of(event.row) is None:  # other code in an algorithm is the library's
            thread.worked(event.row[4])
        place = self.add(thread, Step.DIRECTIVE, 0)
        self.calls.begin(event, self.task_of(thread), place)
        thread.place = self.calls.last_place
        thread.deferring = event.row[2] if a_of(event.row) in DEFERRED else 0

    # the host's memory

    def _allocated(self, thread: RunningThread, row: Row) -> None:
        for task, place, address, end in thread.moving:
            if a_of(row) == REALLOC:
                task.put(place, "detail", NONE if address == row[2] else end)
        thread.moving.clear()
        block = self.memory.begins(row, self.process.strings.get(row[5], ""))
        self.memory.allocated.append((self.task_of(thread), self.add(thread, Step.ALLOCATE, 0), block))

    def _freed(self, thread: RunningThread, row: Row) -> None:
        how = a_of(row)
        if how > EndKind.SCOPE:
            raise RecordingDamaged(f"thread {thread.number}: memory ends in a way that is not known: {how}")
        where = self.process.strings.get(row[5], "")
        thread.moving.clear()
        for block in self.memory.freed(row[2], row[3], self.task_of(thread)):
            copy, task = self.memory.device.copy_of(block.address, block.nbytes), self.task_of(thread)
            elsewhere = copy is not None and copy.task is not None and self._is_strange(task, copy.task)
            owner = copy.task if elsewhere and copy is not None and copy.task is not None else task
            end = self.memory.end_of(ArrayEnd(where, EndKind(how), elsewhere))
            place = owner.add(Step.FREE, 0, 0) if elsewhere else self.add(thread, Step.FREE, 0)
            if how != EndKind.REALLOC:
                owner.put(place, "detail", end)
            self.memory.allocated.append((owner, place, block))
            thread.moving.append((owner, place, row[2], end))

    def _is_strange(self, task: TaskRow, mapping: TaskRow) -> bool:
        """Tell whether `task` frees what `mapping` maps, where both are initial tasks that nothing orders."""
        both_initial = task.kind == mapping.kind == TaskKind.INITIAL
        return both_initial and task.thread != mapping.thread and not self.calls.has_open(mapping)

    def _team(self, region: int) -> int:
        return self.teams.setdefault(region, len(self.teams))

    # synchronization

    def _synchronized(self, thread: RunningThread, kind: int, row: Row) -> None:
        phase = a_of(row)
        if kind == Slot.PARALLEL_END:
            thread.since = row[4]
            self.memory.parallel(row[2], begins=False)
        elif kind == Slot.IMPLICIT and phase == _BEGIN:
            self._implicit(thread, row)
        elif kind == Slot.IMPLICIT:
            thread.worked(row[4])
            self._leave(thread)
        else:
            self._sync(thread, phase, b_of(row), row[4])

    def _implicit(self, thread: RunningThread, row: Row) -> None:
        thread.since = row[4]
        thread.below.append(thread.task)
        initial = row[6] & 0xF == _INITIAL_TASK
        known = thread.task
        if initial and known is not None:  # it called MPI, or locked, before OpenMP reported the thread; or it is the
            self._by_identifier[row[3]] = known  # first of the teams that a region has on the host
            return
        task = self.make_task(TaskKind.INITIAL if initial else TaskKind.IMPLICIT, thread.number, row[3])
        if not initial:
            task.team, task.number, task.size = self._team(row[2]), b_of(row), max(1, row[5])
        thread.task = task

    def _leave(self, thread: RunningThread) -> None:
        """End a task; CPU time and touches since its last record become a record of the kind REST."""
        if thread.task is not None and (thread.work or self.memory.has_touches(thread.number)):
            self.add(thread, Step.REST, 0)
        thread.task = thread.below.pop() if thread.below else None

    def _sync(self, thread: RunningThread, phase: int, kind: int, cpu: int) -> None:
        if kind != _REGION_END and kind not in _SYNCHRONIZES:
            return
        if phase == _BEGIN:
            thread.worked(cpu)
            if (step := _SYNCHRONIZES.get(kind)) is not None:
                self.add(thread, step, 0)
            self.task_of(thread).waiting = kind != _TASKGROUP
            return
        thread.since = cpu
        self.task_of(thread).waiting = False
        if kind == _TASKGROUP:
            self.add(thread, Step.GROUP_END, 0)

    # tasks

    def _tasking(self, thread: RunningThread, kind: int, row: Row) -> None:
        if kind == Slot.DEPENDENCE:
            self._depends.setdefault(row[2], []).append((row[3], a_of(row)))
        elif kind == Slot.TASK_CREATE:
            thread.worked(row[4])
            self._create(thread, row[2], row[5], nowait=bool(a_of(row)))
        else:
            self._schedule(thread, row)

    def _create(self, thread: RunningThread, identifier: int, flags: int, nowait: bool) -> None:
        maker = self.task_of(thread)
        self.memory.makes_task(thread.number, bool(flags & _TARGET_TASK))
        if flags & _TASKWAIT_TASK:
            made = self.make_task(TaskKind.TASKWAIT, thread.number, identifier).index if nowait else 0
            self._made[identifier] = maker, self.add(thread, Step.TASK if nowait else Step.TASKWAIT, made)
            return
        deferred = TaskKind.TARGET if flags & _TARGET_TASK else TaskKind.EXPLICIT
        task = self.make_task(TaskKind.UNDEFERRED if flags & _UNDEFERRED else deferred, thread.number, identifier)
        if thread.deferring:
            task.call, thread.deferring = thread.deferring, 0
            owner, place = self._made[identifier] = self.calls.defer(task.call, task)
            owner.put(place, "step", Step.TASK)
            owner.put(place, "subject", task.index)
            return
        self._made[identifier] = maker, self.add(thread, Step.TASK, task.index)

    def _schedule(self, thread: RunningThread, row: Row) -> None:
        thread.worked(row[4])
        status, ended = a_of(row), self._by_identifier.get(row[2])
        if status in _FULFILLED:
            self.add(thread, Step.RELEASE, self.locks.number(-row[2], FLAG))
            self._fulfilled.add(row[2])
            self._detached.pop(row[2], None)
            return
        completed = status in (1, 3)
        follower = self._by_identifier.get(row[3])
        for lock in self.locks.ends(row[2]) if completed or status == _DETACHED else ():
            self.add(thread, Step.RELEASE, lock)
        if ended is thread.task and ended is not None and (status == _DETACHED or row[2] in self._fulfilled):
            place = self.add(thread, Step.ACQUIRE, self.locks.number(-row[2], FLAG))
            if status == _DETACHED:
                self._detached[row[2]] = ended, place
        if completed and ended is not None and ended.call:
            self.calls.done(ended.call)
        if ended is thread.task and ((completed and thread.work) or self.memory.has_touches(thread.number)):
            self.add(thread, Step.REST, 0)
        if follower is not None:
            self.memory.runs(thread.number, follower)
            thread.task = follower
        thread.take_work()
        if self.exact and follower is not None and follower.kind in (TaskKind.EXPLICIT, TaskKind.TARGET):
            for lock, turn in self.locks.begins(row[3], self._depends.get(row[3], [])):
                self.add(thread, Step.ACQUIRE, lock, turn)

    # locks

    def _mutex(self, thread: RunningThread, row: Row) -> None:
        phase, kind = a_of(row), b_of(row)
        if kind == _ATOMIC:
            return
        thread.orders = thread.orders or not thread.below
        if phase == _ACQUIRED:
            lock, turn = self.locks.number(row[2], kind), row[5] if kind == FLAG else NONE
            if kind == _POSIX:
                thread.worked(row[4])
                if not self.locks.mutexes.take(lock, thread.number):
                    return
            if kind == ORDERED or (kind != FLAG and self.exact):
                turn = self.locks.next_turn(lock)
            self.add(thread, Step.ACQUIRE, lock, turn)
            if kind == FLAG and row[2] & MUTEX_BEGIN:
                frees = self.initial.is_ordered(self.task_of(thread), row[2], self.memory.free_count)
                self.memory.thread_begins(thread.number, frees)
            thread.since = row[4]
            return
        thread.worked(row[4])
        if kind == _POSIX and phase != _RELEASED:
            return  # it waits for the mutex
        if kind == _POSIX and not self.locks.mutexes.give_back(self.locks.number(row[2], kind), thread.number):
            return
        if phase == _RELEASED:
            if kind == FLAG and row[2] & MUTEX_BEGIN:
                self.initial.made(row[2], self.memory.free_count)
            self.add(thread, Step.RELEASE, self.locks.number(row[2], kind), row[5] if kind == FLAG else NONE)

    # the end

    def finish(self) -> None:
        """Complete the tasks and their records (steps) at the end of the events, also where a crash left them open."""
        self.calls.finish()
        self.ranks.finish()
        self.phases.finish()
        for task, place in self._detached.values():  # nobody has fulfilled its event
            task.put(place, "step", Step.REST)
        for thread in self._threads.values():
            if thread.task is not None and self.memory.has_touches(thread.number):
                self.add(thread, Step.REST, 0)
        for identifier, (task, place) in self._made.items():
            if identifier in self._depends:
                task.put(place, "detail", self.dependences.add(self._depends[identifier]))
