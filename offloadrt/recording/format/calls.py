"""The directives and routines of a recording: their sites, items, kernels, and what the real runtime made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import msgspec

from offloadrt.recording.format.blocks import HostBlock
from offloadrt.recording.format.events import RecordedEvent
from offloadrt.recording.format.launches import PAGE, LaunchTables, Run
from offloadrt.recording.format.memory import MemoryEvents
from offloadrt.recording.format.recording import NONE, ItemForm, OmptOperation, Site, Step
from offloadrt.recording.format.routines import memory_of
from offloadrt.recording.format.slots import CALLS, MAPPER_COMPONENT, RawProcess, Row, Slot, a_of, kind_of, signed
from offloadrt.recording.format.tables import ListTable, TaskRow
from offloadrt.runtime.mapping.map_type import ATTACH, LITERAL, NON_CONTIG, PTR_AND_OBJ

_KERNELS: Final = (7, 8)
_FIRST_ROUTINE, _LAST_ROUTINE = 20, 39
_FORTRAN: Final = (".f", ".for", ".f90", ".f95", ".f03", ".f08", ".f18")
_ASYNC: Final = 16
"""What OMPT adds to the number of an operation that is asynchronous."""


@attrs.define(eq=False)
class _OpenCall:
    """A call that has not returned."""

    function: int
    row: Row
    kernel: Row | None
    items: list[Row]
    arguments: list[int]
    mapped: dict[int, tuple[int, HostBlock]]
    """The host's address and the array, for each argument that is an address of a mapped array's device memory."""
    blocks: list[HostBlock | None]
    task: TaskRow
    place: int
    dimensions: dict[int, list[tuple[int, int, int]]] = attrs.field(factory=dict)
    """The dimensions of strided items, by the identity of their slots."""
    components: list[Row] = attrs.field(factory=list)
    operations: list[tuple[int, int]] = attrs.field(factory=list)
    launch: int = NONE
    returned: int = 0
    deferred: bool = False
    """Whether a task does it, which may end after the call has returned."""


@attrs.define(eq=False)
class RuntimeCalls:
    """Follows the calls of a process to the runtime."""

    _process: RawProcess
    memory: MemoryEvents
    sites: dict[Site, int] = attrs.field(factory=dict)
    kernels: dict[str, int] = attrs.field(factory=dict)
    items: ListTable = attrs.field(factory=lambda: ListTable("items", "item", ("base", "begin", "size", "array")))
    operations: ListTable = attrs.field(factory=lambda: ListTable("operations", "operation", ("kind", "bytes")))
    launches: LaunchTables = attrs.field(init=False)
    has_operations: bool = False
    has_launches: bool = False
    _open: dict[int, _OpenCall] = attrs.field(factory=dict)
    _roots: dict[int, int] = attrs.field(factory=dict)
    """The outermost call that a nested one belongs to."""
    _entries: dict[int, str] = attrs.field(factory=dict)
    _forms: dict[tuple[int, int], ItemForm] = attrs.field(factory=dict)
    """What the source says of items, by their type bits and the address of their text."""
    _numbers: dict[tuple[object, ...], int] = attrs.field(factory=dict)
    """Numbers of sites, by the words of the slots that describe them."""
    _touched: dict[tuple[int, ...], list[tuple[int, HostBlock, int, Run]]] = attrs.field(factory=dict)

    _devices: int = attrs.field(init=False)
    """The number of the initial device, which comes after all others."""

    def __attrs_post_init__(self) -> None:
        self._devices = sum(line["k"] == "device" for line in self._process.lines)
        self.launches = LaunchTables(self.memory.arrays, self.memory.device, self._process.strings)
        self._entries = {int(line["at"]): str(line["name"]) for line in self._process.lines if line["k"] == "entry"}

    def is_nested(self, row: Row, parts: Sequence[Row]) -> bool:
        """Tell whether a call is made inside another one; what it does is then the outer one's."""
        outer = self._roots.get(row[3], row[3])
        if not outer:
            return False
        self._roots[row[2]] = outer
        if a_of(row) == MAPPER_COMPONENT and outer in self._open:
            self._open[outer].components += [part for part in parts if kind_of(part) == Slot.ITEM]
        return True

    def _where(self, row: Row) -> str:
        """Name the place of a call in the source."""
        file, _, line, _ = self._location(row[5])
        return f"{file}:{line}" if line not in ("", "0") else CALLS.get(a_of(row), f"call {a_of(row)}")

    def _location(self, address: int) -> list[str]:
        """Split the string that the compiler makes for a place in the source: ``;FILE;FUNCTION;LINE;COLUMN;;``.

        That of an item begins with its text and its file. All are empty where the program has no such string.
        """
        return (self._process.strings.get(address, "") + ";;;;;").split(";")[1:5]

    def begin(self, event: RecordedEvent, task: TaskRow, place: int) -> None:
        """Note a call, with the arrays that its items are in now."""
        parts = event.parts
        items = [part for part in parts if kind_of(part) == Slot.ITEM]
        kernel = next((part for part in parts if kind_of(part) == Slot.KERNEL), None)
        arguments = [word for part in parts if kind_of(part) == Slot.ARG for word in part[1:]]
        function = a_of(event.row)
        blocks = [self._block_of(item) for item in items]
        mapped = self._routine_memory(function, arguments)
        if _FIRST_ROUTINE <= function <= _LAST_ROUTINE:  # now, as a block may be gone when the call has ended
            arguments = [
                word if place in mapped else self.memory.device.recorded(word) for place, word in enumerate(arguments)
            ]
        call = _OpenCall(function, event.row, kernel, items, arguments, mapped, blocks, task, place)
        for part in parts:
            if kind_of(part) == Slot.DIMENSION:
                call.dimensions.setdefault(id(items[a_of(part)]), []).append((part[1], part[2], part[3]))
        self._open[event.row[2]] = call

    def _routine_memory(self, function: int, arguments: Sequence[int]) -> dict[int, tuple[int, HostBlock]]:
        """Note the host's memory that a routine uses; returns which arguments are device memory of mapped arrays."""
        mapped: dict[int, tuple[int, HostBlock]] = {}
        if CALLS.get(function) == "omp_target_associate_ptr":
            self.memory.arrays.spanned(arguments[0], arguments[2], "")
        for memory in memory_of(function, arguments):
            if not memory.nbytes:
                continue
            if self._is_host(memory.device):
                self.memory.arrays.spanned(memory.address, memory.nbytes, "")
            elif (copy := self.memory.device.at(memory.address)) is not None and copy.host:
                host = copy.host + memory.address - copy.device
                block = self.memory.arrays.spanned(host, memory.nbytes, "")
                mapped[memory.argument] = host - memory.address + arguments[memory.argument], block
        return mapped

    def _is_host(self, device: int) -> bool:
        return device >> 63 != 0 or device == self._devices

    def _block_of(self, item: Row) -> HostBlock | None:
        begin, size, type_bits = item[2], signed(item[3]), item[4]
        if type_bits & NON_CONTIG:  # its begin is that of its dimensions, its size their number
            begin, size = item[1], 0
        elif type_bits & ATTACH:  # its size is that of the pointer
            size = 0
        if type_bits & LITERAL or (not begin and size <= 0):
            return None  # a null pointer with a size is an array at 0: the runtime gives it a block of the device
        if type_bits & PTR_AND_OBJ and item[1] in self.memory.links:
            link = self.memory.arrays.spanned(begin, size, self.memory.links[item[1]])
            link.origin, link.pointer = "link", item[1]
            return link
        if size > 0:
            return self.memory.arrays.spanned(begin, size, self._form(item).name.partition("[")[0])
        block = self.memory.arrays.at(begin)
        return None if block is None else self.memory.arrays.use(block, self._form(item).name.partition("[")[0])

    def _form(self, item: Row) -> ItemForm:
        found = self._forms.get((item[4], item[5]))
        if found is None:
            found = self._forms[item[4], item[5]] = self._read_form(item)
        return found

    def _read_form(self, item: Row) -> ItemForm:
        name, file, line, _ = self._location(item[5])
        if name.lower().endswith(_FORTRAN):  # flang puts the file first
            name, file = file if file != "unknown" else "", name
        return ItemForm(item[4], name, file, int(line) if line.isdigit() else 0)

    def operation(self, kind: int, row: Row, in_task: int) -> None:
        """Note what the real runtime did in a call; `in_task`: the call whose task runs, 0 if it is of no call."""
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

    def has_open(self, task: TaskRow) -> bool:
        """Tell whether a task is in a call."""
        return any(call.task is task for call in self._open.values())

    def launched(self, row: Row, parts: Sequence[Row]) -> None:
        """Note what a launch cost."""
        self.has_launches = True
        call = self._open.get(self._roots.get(row[2], row[2]))
        if call is None or call.kernel is None:
            return
        kernel = self._kernel(call.kernel)
        call.launch, touched = self.launches.add(kernel, row, parts, call.items)
        self._kernel_touches((kernel, *row[3:6]), call, touched)

    def _kernel_touches(
        self, shape: tuple[int, ...], call: _OpenCall, touched: list[tuple[HostBlock, int, Run]]
    ) -> None:
        """Tell what watches for separate copies; an untraced launch touches what the traced one of its shape did."""
        if touched:
            begins = {item[2]: number for number, item in enumerate(call.items) if not item[4] & LITERAL}
            self._touched[shape] = [(begins.get(host, NONE), block, host, run) for block, host, run in touched]
        for number, block, host, run in self._touched.get(shape, ()):
            begin = host if number == NONE else call.items[number][2]
            own = block if number == NONE else call.blocks[number]
            if own is not None:
                address = begin // PAGE * PAGE + run[1] * PAGE
                self.memory.copies.kernel(own, address, run[2] * PAGE, run[0], self._where(call.row))

    def _kernel(self, kernel: Row) -> int:
        name = self._entries.get(kernel[1], f"kernel at {kernel[1]:#x}")
        return self.kernels.setdefault(name, len(self.kernels))

    def returned(self, row: Row) -> None:
        """Complete the record of a call, unless a task does it."""
        call = self._open.get(row[2])
        if call is not None:
            call.returned = self.memory.device.recorded(row[3])
            if not call.deferred:
                self.done(row[2])

    def defer(self, identifier: int, made: TaskRow) -> tuple[TaskRow, int]:
        """Move the record of a call to the task that does it; returns the place that it had, for the making of it."""
        call = self._open[identifier]
        place = call.task, call.place
        call.task, call.place, call.deferred = made, made.add(Step.DIRECTIVE, 0, 0), True
        return place

    def done(self, identifier: int) -> None:
        """Complete the record of a call that has ended."""
        call = self._open.pop(identifier, None)
        if call is not None:
            self._complete(call, whole=True)

    def finish(self) -> None:
        """Complete the calls that never returned; what the runtime did in them is not known as a whole."""
        for call in self._open.values():
            self._complete(call, whole=False)

    def _complete(self, call: _OpenCall, whole: bool) -> None:
        items, blocks, behind = self._expanded(call)
        if _FIRST_ROUTINE <= call.function <= _LAST_ROUTINE:
            rows = [(word, 0, 0, NONE) for word in (*call.arguments, call.returned)]
            for argument, (host, array) in call.mapped.items():
                rows[argument] = call.arguments[argument], host, 0, array.number
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
        call.task.put(call.place, "subject", self._site(call, items, behind))
        call.task.put(call.place, "detail", self.items.add(rows))
        if call.kernel is not None and call.launch == NONE:
            call.launch = self.launches.uncounted(call.kernel[4])
        call.task.put(call.place, "launch", call.launch)
        if whole and self.has_operations:
            call.task.put(call.place, "operations", self.operations.add(sorted(call.operations)))

    def _expanded(self, call: _OpenCall) -> tuple[list[Row], list[HostBlock | None], list[int]]:
        """Put what a mapper made of an item behind it; returns items, their arrays, and how many each has behind it.

        A target region calls a mapper twice, to map and to unmap; the first time counts.
        """
        if not call.components:
            return call.items, call.blocks, [0] * len(call.items)
        items: list[Row] = []
        blocks: list[HostBlock | None] = []
        behind: list[int] = []
        for item, block in zip(call.items, call.blocks, strict=True):
            low, high = item[2], item[2] + max(1, signed(item[3]))
            own = [part for part in call.components if low <= part[1] < high] if item[6] else []
            if call.kernel is not None:
                own = own[: len(own) // 2]
            items += [item, *own]
            blocks += [block, *(self._block_of(part) for part in own)]
            behind += [len(own)] + [0] * len(own)
        return items, blocks, behind

    def _site(self, call: _OpenCall, items: Sequence[Row], behind: Sequence[int]) -> int:
        """Find the number of a call's site; looked up by the slots' words, as most calls come again."""
        plain = not (call.dimensions or call.components)
        kernel = (0, 0, 0, 0) if call.kernel is None else (*call.kernel[1:4], call.kernel[5])
        forms = tuple([(item[4], item[5]) for item in items])
        key = call.function, call.row[5], call.row[6], kernel, forms
        number = self._numbers.get(key) if plain else None
        if number is None:
            site = self._read_site(call, items, behind)
            number = self.sites.setdefault(site, len(self.sites))
            if plain:
                self._numbers[key] = number
        return number

    def _read_site(self, call: _OpenCall, items: Sequence[Row], behind: Sequence[int]) -> Site:
        file, function, line, column = self._location(call.row[5])
        kernel = call.kernel
        return Site(
            call=CALLS.get(call.function, f"call {call.function}"),
            file=file if file != "unknown" else "",
            function=function if function != "unknown" else "",
            line=int(line) if line.isdigit() else 0,
            column=int(column) if column.isdigit() else 0,
            device=signed(call.row[6]),
            kernel=NONE if kernel is None else self._kernel(kernel),
            teams=0 if kernel is None else signed(kernel[2]),
            threads=0 if kernel is None else signed(kernel[3]),
            flags=0 if kernel is None else kernel[5],
            items=tuple(
                msgspec.structs.replace(
                    self._form(item), components=after, dimensions=tuple(call.dimensions.get(id(item), ()))
                )
                for item, after in zip(items, behind, strict=True)
            ),
        )
