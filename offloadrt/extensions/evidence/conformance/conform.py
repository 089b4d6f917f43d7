"""Replay recorded OpenMP programs through the same actors that scenarios use, and compare every step.

A case is one line of a JSON Lines file: a sequential program on one device (`steps`) and what LLVM's libomptarget did
in each step: operations in order, present table, presence, host and device values, return codes, errors. The replay
starts from the clauses; the lowering (order of items, map types) is ours.

Each line of a file is one JSON object, which is read into the classes below. ``tests/data/conformance/SCHEMA.md``
explains the fields. Offsets and lengths are bytes unless said otherwise; unknown fields are ignored. A case is refused
if it has fields of the wrong type, steps of unknown kind, or names of arrays, blocks and regions that do not exist.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import attrs
import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from offloadrt.driver import open_driver
from offloadrt.extensions.recording.ompt import start_tool
from offloadrt.kernels import Kernel
from offloadrt.machine import Machine, load
from offloadrt.models import openmp as omp
from offloadrt.models.openmp.clauses import Clause
from offloadrt.models.openmp.host_thread import HostThread, TargetData
from offloadrt.models.openmp.program import OpenMP, OpenMPOptions
from offloadrt.registry import regular
from offloadrt.runtime.errors import OffloadError
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.map_types import NON_CONTIG
from offloadrt.runtime.mapping.present_table import INFINITE, DevicePointer
from offloadrt.sim import Gear, Simulation

Values = dict[str, list[int]]
DeviceValues = dict[str, list[int | None]]


class ArraySpec(msgspec.Struct, frozen=True):
    """An array of a recorded program; `init` holds its values before the first step.

    `kind` says how the program declares it: static, on the heap, as a global in `declare target` (`global`) or in
    `declare target link`, or associated with a device block by omp_target_associate_ptr (`assoc`); `bytes` is its size.
    """

    kind: Literal["static", "heap", "global", "link", "assoc"]
    bytes: int
    init: list[int]


class MapItemSpec(msgspec.Struct, frozen=True):
    """A list item of a map or motion clause of a recorded program.

    arr: the array's name. off, len: the section's begin and length in bytes. whole: whether it is written as the
    array's bare name, without a section. stride, count: for a strided update. type, mods: the map type and its
    modifiers.
    """

    arr: str
    type: Literal["to", "from", "tofrom", "alloc", "release", "delete"]
    mods: list[Literal["always", "present", "close", "ompx_hold"]] = []
    off: int = 0
    len: int = 0
    whole: bool = False
    stride: int | None = None
    count: int | None = None


class Statement(msgspec.Struct, frozen=True):
    """Changes elements lo to lo + len - 1 of an array: `add` a[i] += c, `set` a[i] = i + c, `mul` a[i] *= c.

    The arithmetic is modulo 2^32. `arr` is the array's name, `op` the operation, and `c` its constant.
    """

    arr: str
    op: Literal["add", "set", "mul"]
    lo: int
    len: int
    c: int


class Row(msgspec.Struct, frozen=True, order=True):
    """An entry of the present table as LLVM prints it: the bytes [off, off + len) of an array, and reference counts.

    arr: the array's name. dyn, hold: the dynamic count, and the count of maps with ompx_hold, as text.
    """

    arr: str
    off: int
    len: int
    dyn: str
    hold: str


class LoweredCall(msgspec.Struct, frozen=True):
    """A call of the runtime's function `fn` in the code that clang generated, with the map items that it passes."""

    fn: str
    maps: list[dict[str, Any]]


class Truth(msgspec.Struct, frozen=True):
    """What LLVM's runtime did in a step; `host` and `device` hold each array's values that changed in it.

    ops: its operations, such as copies. lowered: the calls that clang generated. table: the present table afterwards.
    present: by array, which ranges are mapped. rc: what a routine returned. fatal: whether the program died.
    """

    ops: list[dict[str, Any]]
    present: dict[str, list[list[int]]] = {}
    host: Values = {}
    device: DeviceValues = {}
    lowered: list[LoweredCall] | UnsetType = UNSET
    table: list[Row] | UnsetType = UNSET
    rc: int | UnsetType | None = UNSET
    fatal: bool = False


class StepSpec(msgspec.Struct, frozen=True, tag_field="op", kw_only=True):
    """A step of a recorded program, with what LLVM's runtime did in it.

    `truth` is what the runtime did; `nowait` tells whether the directive has that clause.
    """

    truth: Truth
    nowait: bool = False


class HostStep(StepSpec, frozen=True, tag="host"):
    """A step of a recorded program in which the host changes arrays; `body` are the changes, in their order."""

    body: list[Statement]


class MapStep(StepSpec, frozen=True):
    """Base of the recorded steps that have list items of map or motion clauses (`maps`)."""

    maps: list[MapItemSpec]


class EnterStep(MapStep, frozen=True, tag="enter"):
    """A step of a recorded program: a `target enter data` directive."""


class ExitStep(MapStep, frozen=True, tag="exit"):
    """A step of a recorded program: a `target exit data` directive."""


class UpdateStep(MapStep, frozen=True, tag="update"):
    """A step of a recorded program: a `target update` directive."""


class DataBeginStep(MapStep, frozen=True, tag="data_begin"):
    """A step of a recorded program: the begin of a `target data` region."""


class DataEndStep(StepSpec, frozen=True, tag="data_end"):
    """A step of a recorded program: the end of the `target data` region that step number `begin` has begun."""

    begin: int


class TargetStep(MapStep, frozen=True, tag="target"):
    """A step of a recorded program: a target region, which runs the statements of `body` once, in their order."""

    body: list[Statement]


class DeviceTargetStep(StepSpec, frozen=True, tag="dtarget"):
    """A recorded target region that runs the statements of `body` on `h`, a block from omp_target_alloc."""

    h: str
    body: list[Statement]


class AllocStep(StepSpec, frozen=True, tag="alloc"):
    """A recorded call of omp_target_alloc; `h` is the name that the block gets, and `bytes` its size."""

    h: str
    bytes: int


class FreeStep(StepSpec, frozen=True, tag="free"):
    """A step of a recorded program: a call of omp_target_free for the block with the name `h`."""

    h: str


class AssociateStep(StepSpec, frozen=True, tag="assoc"):
    """A recorded call of omp_target_associate_ptr for the device block `h`; offsets are in bytes.

    off: where the associated bytes begin in the array `arr`. hoff: where they begin in the block. bytes: how many bytes
    are associated.
    """

    arr: str
    h: str
    off: int
    bytes: int
    hoff: int


class DisassociateStep(StepSpec, frozen=True, tag="disassoc"):
    """A recorded call of omp_target_disassociate_ptr with the address of byte `off` of the array `arr`."""

    arr: str
    off: int


class MemcpyStep(StepSpec, frozen=True, tag="memcpy"):
    """A recorded call of omp_target_memcpy between an array and the device block `h`; offsets are in bytes.

    `arr` is the array's name and `dir` the direction. `hoff` is the offset in the device block, `off` that in the
    array. `bytes` is the number of copied bytes.
    """

    h: str
    arr: str
    dir: Literal["h2d", "d2h"]
    hoff: int
    off: int
    bytes: int


RoutineStep = AllocStep | FreeStep | AssociateStep | DisassociateStep | MemcpyStep
Step = (
    HostStep | EnterStep | ExitStep | UpdateStep | DataBeginStep | DataEndStep | TargetStep | DeviceTargetStep
    | RoutineStep
)  # fmt: skip


class RecordedOutcome(msgspec.Struct, frozen=True):
    """Says how the recorded program ended; `errors` are the lines of its standard error.

    `completed` tells whether it reached its end. `final_host` and `final_device` are the values of the arrays and of
    the device blocks then; None if they were not recorded.
    """

    completed: bool
    errors: list[str]
    final_host: Values | None = None
    final_device: DeviceValues | None = None


class RecordedProgram(msgspec.Struct, frozen=True):
    """A sequential program on one device, as recorded; the recorder filled new device blocks with `device_fill`.

    `mode` says whether data is copied to the device or used in place (unified shared memory, `usm`). `arrays` are its
    arrays by name, `steps` what it does in order, and `outcome` is how it ended. `element_bytes` is the size of an
    array element.
    """

    name: str
    mode: Literal["copy", "usm"]
    device_fill: int
    arrays: dict[str, ArraySpec]
    steps: list[Step]
    outcome: RecordedOutcome
    element_bytes: Literal[4] = 4

    ELEMENT_BYTES: ClassVar[int] = 4
    """The only size of an array element that can be replayed."""

    def __post_init__(self) -> None:
        """Raise ValueError for an inconsistency; msgspec adds the place in the file."""
        if not 0 <= self.device_fill <= 255:
            raise ValueError(f"device_fill {self.device_fill} is no byte")
        for name, array in self.arrays.items():
            if any(not 0 <= value < 1 << 32 for value in array.init):
                raise ValueError(f"array {name!r} has an initial value that is no unsigned integer of 4 bytes")
            if array.bytes != self.ELEMENT_BYTES * len(array.init):
                raise ValueError(f"array {name!r} has {array.bytes} bytes and {len(array.init)} initial values")
        blocks: dict[str, int] = {}
        regions: set[int] = set()
        for number, step in enumerate(self.steps):
            for name in _arrays_of(step):
                if name not in self.arrays:
                    raise ValueError(f"step {number}: no array {name!r}")
            for what, value in _sizes_of(step):
                if value % self.ELEMENT_BYTES:
                    raise ValueError(f"step {number}: {what} is {value}, which is no multiple of {self.ELEMENT_BYTES}")
            if isinstance(step, AllocStep):
                blocks[step.h] = step.bytes
            elif isinstance(step, (FreeStep, MemcpyStep, AssociateStep, DeviceTargetStep)) and step.h not in blocks:
                raise ValueError(f"step {number}: no block {step.h!r}")
            for statement in step.body if isinstance(step, HostStep | TargetStep | DeviceTargetStep) else ():
                within = blocks[step.h] if isinstance(step, DeviceTargetStep) else self.arrays[statement.arr].bytes
                end = (statement.lo + statement.len) * self.ELEMENT_BYTES
                if statement.lo < 0 or statement.len < 0 or end > within:
                    last = f"{statement.arr}[{statement.lo}:{statement.len}]"
                    raise ValueError(f"step {number}: its body uses {last}, but there are {within} bytes")
                if not 0 <= statement.c < 1 << 32:
                    raise ValueError(f"step {number}: c is {statement.c}, which is no unsigned integer of 4 bytes")
            if isinstance(step, FreeStep):
                del blocks[step.h]
            elif isinstance(step, DataBeginStep):
                regions.add(number)
            elif isinstance(step, DataEndStep):
                if step.begin not in regions:
                    raise ValueError(f"step {number}: no region began in step {step.begin}")
                regions.remove(step.begin)


def _arrays_of(step: Step) -> Iterable[str]:
    """Yield the names of the arrays that a step uses; the statements of a `dtarget` are on a block instead."""
    if isinstance(step, MapStep):
        yield from (item.arr for item in step.maps)
    if isinstance(step, (HostStep, TargetStep)):
        yield from (statement.arr for statement in step.body)
    elif isinstance(step, (AssociateStep, DisassociateStep, MemcpyStep)):
        yield step.arr
    yield from (name for names in (step.truth.host, step.truth.device) for name in names)


def _sizes_of(step: Step) -> Iterable[tuple[str, int]]:
    """Yield name and value, in bytes, of the offsets and lengths of a step that must be whole elements."""
    if isinstance(step, MapStep):
        for item in step.maps:
            yield from ((f"off of {item.arr}", item.off), (f"len of {item.arr}", item.len))
            yield f"stride of {item.arr}", item.stride or 0
    elif isinstance(step, (AssociateStep, DisassociateStep)):
        yield f"off of {step.arr}", step.off


ELEMENT: Final = np.dtype("<u4")
ALIGNMENT: Final = 256
WHOLE_CASE: Final = -1
"""The step number of a difference that concerns the program as a whole."""


@attrs.frozen
class ReplayDifference:
    """A field in which the emulator's replay of a recorded program differs from what the real runtime did.

    step: the number of the step; -1 (WHOLE_CASE) for the outcome of the whole program. case, field: the program's name,
    and what differs. expected: what the real runtime did. actual: what the emulator did.
    """

    case: str
    step: int
    field: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        where = "outcome" if self.step == WHOLE_CASE else f"step {self.step}"
        return f"{self.case}: {where}: {self.field}\n  recorded: {self.expected}\n  emulated: {self.actual}"


class _Record:
    """An OMPT tool that records the operations of a step, and fills new device blocks as the recorder did."""

    def __init__(self, memory: Any, fill: int) -> None:
        self.ops: list[dict[str, Any]] = []
        self.lowered: list[dict[str, Any]] = []
        self._memory = memory
        self._fill = fill

    def target_map(self, device: int, call: str, items: Sequence[MapItem]) -> None:
        self.lowered.extend(_lowered(item) for item in items)

    def target_data_op(
        self, device: int, op: str, array: HostArray | None, host_address: int, device_address: int, nbytes: int
    ) -> None:
        if op == "alloc":
            self._memory.view(device_address, nbytes)[:] = self._fill
        at = None if array is None else {"arr": array.name, "off": host_address - array.address}
        self.ops.append({"op": op, "at": at, "bytes": nbytes})

    def target_submit(self, device: int, kernel: str) -> None:
        self.ops.append({"op": "kernel"})


def _lowered(item: MapItem) -> dict[str, Any]:
    """Return a map item as records have it: its addresses as array and offset in bytes, None outside the array."""

    def at(address: int) -> dict[str, Any] | None:
        array = item.array
        if array is None or not array.address <= address < array.address + array.nbytes:
            return None
        return {"arr": array.name, "off": address - array.address}

    begin = None if item.type & NON_CONTIG else at(item.begin)
    return {"base": at(item.base), "begin": begin, "size": item.size, "type": hex(item.type)}


_MODIFIERS: Final = {"always": "always", "present": "present", "close": "close", "ompx_hold": "hold"}


class Replay:
    """Replays a recorded program (case) and compares each step with the record.

    lowering: whether the map items that the compiler passes to the runtime are compared, too.
    """

    def __init__(self, case: RecordedProgram, sim: Simulation, machine: str, lowering: bool) -> None:
        self.case = case
        self.lowering = lowering
        self.step = 0
        self.differences: list[ReplayDifference] = []
        self.machine = Machine(sim, load(machine))
        driver = open_driver(self.machine)
        self.program = OpenMP(self.machine, [driver], OpenMPOptions(configuration=case.mode, allocator="malloc"))
        self.device = self.program.devices[0]
        self.record = _Record(self.device.memory, case.device_fill)
        start_tool(self.device, self.record)
        self.arrays: dict[str, HostArray] = {}
        self.blocks: dict[str, DevicePointer | None] = {}
        self.regions: dict[int, TargetData] = {}

    async def run(self) -> None:
        t = self.program.host_thread()
        for name, spec in self.case.arrays.items():
            self.arrays[name] = self._declare(t, name, spec)
        await self.program.globals.load()
        host: dict[str, Any] = {name: array.data.tolist() for name, array in self.arrays.items()}
        device: dict[str, Any] = {name: self._device_values(array) for name, array in self.arrays.items()}
        completed = True
        for number, step in enumerate(self.case.steps):
            self.step = number
            truth = step.truth
            self.record.ops.clear()
            self.record.lowered.clear()
            try:
                code = await self._do(t, number, step)
            except OffloadError:
                completed = False
                self._check(number, "ops", truth.ops, list(self.record.ops))
                self._check(number, "fatal", truth.fatal, True)
                break
            self._check(number, "fatal", truth.fatal, False)
            if truth.fatal:
                break
            self._compare_step(number, truth, code, host, device)
        self._compare_outcome(completed)

    def _declare(self, t: HostThread, name: str, spec: ArraySpec) -> HostArray:
        fill = np.array(spec.init, ELEMENT)
        count = len(spec.init)
        if spec.kind == "global":
            return self.program.declare_target(name, count, ELEMENT, fill, align=ALIGNMENT)
        if spec.kind == "link":
            return self.program.declare_target_link(name, count, ELEMENT, fill, align=ALIGNMENT)
        return t.array(name, count, ELEMENT, fill, kind="heap" if spec.kind == "heap" else "static", align=ALIGNMENT)

    # steps

    async def _do(self, t: HostThread, number: int, step: Step) -> int | None:
        """Run a step; return the value of its OpenMP routine, None if it has none."""
        match step:
            case HostStep():
                for statement in step.body:
                    _apply(statement, self.arrays[statement.arr].data)
            case EnterStep():
                await t.target_enter_data(*self._maps(step.maps), nowait=step.nowait)
            case ExitStep():
                await t.target_exit_data(*self._maps(step.maps), nowait=step.nowait)
            case UpdateStep():
                await t.target_update(*self._motions(step.maps), nowait=step.nowait)
            case DataBeginStep():
                self.regions[number] = t.target_data(*self._maps(step.maps))
                await self.regions[number].__aenter__()
            case DataEndStep():
                await self.regions.pop(step.begin).__aexit__(None, None, None)
            case TargetStep():
                names = list(dict.fromkeys(statement.arr for statement in step.body))
                kernel = _kernel(step.body, names)
                arguments = [self.arrays[name] for name in names]
                await t.target(kernel, *arguments, maps=self._maps(step.maps), nowait=step.nowait)
            case DeviceTargetStep():
                block = self._block(step.h).viewed(ELEMENT)
                await t.target(_kernel(step.body, [step.h]), block, is_device_ptr=block)
            case _:
                return await self._routine(t, step)
        if step.nowait:
            await t.taskwait()
        return None

    async def _routine(self, t: HostThread, step: RoutineStep) -> int | None:
        match step:
            case AllocStep():
                self.blocks[step.h] = await t.omp_target_alloc(step.bytes)
                return int(self.blocks[step.h] is not None)
            case FreeStep():
                await t.omp_target_free(self.blocks.pop(step.h))
                return None
            case DisassociateStep():
                place = omp.section(self.arrays[step.arr], step.off // ELEMENT.itemsize)
                return await t.omp_target_disassociate_ptr(place)
            case AssociateStep():
                place = omp.section(self.arrays[step.arr], step.off // ELEMENT.itemsize)
                return await t.omp_target_associate_ptr(place, self._block(step.h), step.bytes, step.hoff)
            case MemcpyStep():
                array, block = self.arrays[step.arr], self._block(step.h)
                if step.dir == "h2d":
                    return await t.omp_target_memcpy(block, array, step.bytes, step.hoff, step.off)
                return await t.omp_target_memcpy(array, block, step.bytes, step.off, step.hoff)

    def _block(self, handle: str) -> DevicePointer:
        block = self.blocks[handle]
        if block is None:
            raise ValueError(f"omp_target_alloc gave no block {handle!r}")
        return block

    def _place(self, item: MapItemSpec) -> Any:
        array = self.arrays[item.arr]
        if item.whole:
            return array
        lower = item.off // ELEMENT.itemsize
        if item.stride is not None:
            return omp.section(array, lower, item.count, item.stride // ELEMENT.itemsize)
        return omp.section(array, lower, item.len // ELEMENT.itemsize)

    def _maps(self, items: Sequence[MapItemSpec]) -> list[Any]:
        clauses = []
        for item in items:
            kind = "from_" if item.type == "from" else item.type
            modifiers: dict[str, Any] = {_MODIFIERS[name]: True for name in item.mods}
            clauses.append(omp.map(**{kind: self._place(item)}, **modifiers))
        return clauses

    def _motions(self, items: Sequence[MapItemSpec]) -> list[Clause]:
        motions: dict[str, Callable[..., Clause]] = {"to": omp.to, "from": omp.from_}
        return [motions[item.type](self._place(item), present="present" in item.mods) for item in items]

    # comparison

    def _check(self, step: int, field: str, expected: Any, actual: Any) -> None:
        if expected != actual:
            self.differences.append(ReplayDifference(self.case.name, step, field, expected, actual))

    def _compare_step(
        self, number: int, truth: Truth, code: int | None, host: dict[str, Any], device: dict[str, Any]
    ) -> None:
        self._check(number, "ops", truth.ops, list(self.record.ops))
        if self.lowering and truth.lowered is not UNSET:
            items = [item for call in truth.lowered for item in call.maps]
            self._check(number, "lowered", items, list(self.record.lowered))
        if truth.rc is not UNSET:
            self._check(number, "rc", truth.rc, code)
        if truth.table is not UNSET:
            self._check(number, "table", sorted(truth.table), sorted(self._table()))
        self._check(
            number, "present", truth.present, {name: self._present(array) for name, array in self.arrays.items()}
        )
        host.update(truth.host)
        device.update(truth.device)
        for name, array in self.arrays.items():
            self._check(number, f"host {name}", host[name], array.data.tolist())
            self._check(number, f"device {name}", device[name], self._device_values(array))

    def _compare_outcome(self, completed: bool) -> None:
        outcome = self.case.outcome
        self._check(WHOLE_CASE, "completed", outcome.completed, completed)
        self._check(
            WHOLE_CASE, "errors", [_without_source(line) for line in outcome.errors],
            [_without_source(line) for line in self.device.messages],
        )  # fmt: skip
        if outcome.final_host is not None:
            for name, expected in outcome.final_host.items():
                self._check(WHOLE_CASE, f"final_host {name}", expected, self.arrays[name].data.tolist())
        if completed and outcome.final_device is not None:  # a device that an error has ended is not read any more
            for name, values in outcome.final_device.items():
                self._check(WHOLE_CASE, f"final_device {name}", values, self._device_values(self.arrays[name]))

    def _table(self) -> list[Row]:
        rows = []
        for entry in self.device.table:
            array = self.arrays.get(entry.name)
            if array is not None:
                counts = count_text(entry.dynamic), count_text(entry.hold)
                rows.append(Row(entry.name, entry.host_begin - array.address, entry.size, *counts))
        return rows

    def _address(self, host_address: int) -> int | None:
        """Return the device address of a host byte, looked up as omp_target_is_present does; None if not present."""
        result = self.device.table.lookup(host_address, 1)
        entry = result.entry
        return entry.device_address(host_address) if result.overlaps and entry is not None else None

    def _present(self, array: HostArray) -> list[list[int]]:
        """Return the contiguous pieces of an array that are present, as [offset, length] in bytes."""
        runs: list[list[int]] = []
        for offset in range(0, array.nbytes, ELEMENT.itemsize):
            if self._address(array.address + offset) is not None:
                if runs and runs[-1][0] + runs[-1][1] == offset:
                    runs[-1][1] += ELEMENT.itemsize
                else:
                    runs.append([offset, ELEMENT.itemsize])
        return runs

    def _device_values(self, array: HostArray) -> list[int | None]:
        values: list[int | None] = []
        for offset in range(0, array.nbytes, ELEMENT.itemsize):
            address = self._address(array.address + offset)
            if address is None:
                values.append(None)
            else:
                values.append(int(self.device.memory.view(address, ELEMENT.itemsize).view(ELEMENT)[0]))
        return values


def _without_source(line: str) -> str:
    """Return a line of output; from a fatal error, remove the source position, which only the real program has."""
    return re.sub(r"^.*?: (omptarget fatal error)", r"\1", line)


def _kernel(body: Sequence[Statement], names: Sequence[str]) -> Kernel:
    """Make a kernel that executes the statements of a target region; `names` are the order of its array arguments."""

    def run(*views: Any) -> None:
        for statement in body:
            _apply(statement, views[names.index(statement.arr)])

    return Kernel("region", run)


def _apply(statement: Statement, values: Any) -> None:
    lower, upper = statement.lo, statement.lo + statement.len
    constant = np.uint32(statement.c)
    if statement.op == "add":
        values[lower:upper] = values[lower:upper] + constant
    elif statement.op == "mul":
        values[lower:upper] = values[lower:upper] * constant
    else:
        values[lower:upper] = np.arange(lower, upper, dtype=ELEMENT) + constant


MACHINES: Final = {"copy": "alex-a100", "usm": "mi300a"}
"""By mode of a case: the machine on which it is replayed, whose devices support the mode."""


@attrs.frozen
class ConformanceReport:
    """Says how many cases were replayed, and the first difference of each case that differs.

    `cases` is the number of replayed programs; `differences` has one item for each program that differs.
    """

    cases: int
    differences: tuple[ReplayDifference, ...]

    @property
    def agrees(self) -> bool:
        return not self.differences

    @property
    def differing(self) -> int:
        return len(self.differences)

    def __str__(self) -> str:
        lines = [str(difference) for difference in self.differences]
        lines.append(f"{self.cases - self.differing} of {self.cases} cases agree, {self.differing} differ")
        return "\n".join(lines)


class ConformanceFileError(ValueError):
    """Raised for a file that cannot be read as conformance cases; says the file, the line and the error."""


def read_cases(path: Path) -> Iterator[RecordedProgram]:
    """Read the recorded programs (cases) of a JSON Lines file, plain or gzipped. Raises ConformanceFileError."""
    try:
        raw = regular(path).read_bytes()
        text = gzip.decompress(raw) if path.suffix == ".gz" else raw
    except OSError as error:
        raise ConformanceFileError(f"{path}: {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise ConformanceFileError(f"{path}: {error}") from None
    decoder = msgspec.json.Decoder(RecordedProgram)
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConformanceFileError(f"{path}: line {number}: no conformance case: {error}") from None


def conform(paths: Sequence[str | Path], gear: Gear = "turbo") -> ConformanceReport:
    """Replay every recorded program (case) of the files `paths`, and return the report.

    gear: how the emulator steps its tasks, `native` or the faster `turbo`; both give the same events. Raises
    ConformanceFileError for a bad file.
    """
    cases = 0
    first: list[ReplayDifference] = []
    for path in paths:
        for case in read_cases(Path(path)):
            cases += 1
            first.extend(replay_case(case, gear)[:1])
    if not cases:
        raise ConformanceFileError(f"{', '.join(map(str, paths))}: holds no case")
    return ConformanceReport(cases, tuple(first))


def replay_case(
    case: RecordedProgram, gear: Gear = "turbo", machine: str = "", lowering: bool = False
) -> list[ReplayDifference]:
    """Replay one recorded program; return all differences in order, none if the emulator does what was recorded.

    gear: how the emulator steps its tasks, `native` or the faster `turbo`; both give the same events. machine: replaces
    the default machine for the program's mode (copy or usm). lowering: compare also the map items that the compiler
    passes to the runtime (order, addresses, sizes, map types) with clang's.
    """
    sim = Simulation(gear=gear)
    replay = Replay(case, sim, machine or MACHINES[case.mode], lowering)
    try:
        sim.run(replay.run)
    except Exception as error:  # the emulator differs from the record by whatever it raises
        replay.differences.append(
            ReplayDifference(case.name, replay.step, "error", None, f"{type(error).__name__}: {error}")
        )
    return replay.differences


def count_text(count: int) -> str:
    """Return a reference count as LLVM prints it.

    >>> count_text(2), count_text(INFINITE)
    ('2', 'INF')
    """
    return "INF" if count == INFINITE else str(count)
