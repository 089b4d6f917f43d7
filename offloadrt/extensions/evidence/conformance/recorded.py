"""A recorded program as its file has it: one JSON object a line, read into these classes.

The fields are explained in ``tests/data/conformance/SCHEMA.md``. Offsets and lengths are bytes unless said otherwise;
what a file has besides is ignored. Reading refuses whatever a replay could not understand: fields of the wrong type,
steps of unknown kind, and names of arrays, blocks and regions that do not exist.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType

Values = dict[str, list[int]]
DeviceValues = dict[str, list[int | None]]


class ArraySpec(msgspec.Struct, frozen=True):
    """An array of the program; init: its values before the first step."""

    kind: Literal["static", "heap", "global", "link", "assoc"]
    bytes: int
    init: list[int]


class MapItemSpec(msgspec.Struct, frozen=True):
    """A list item of a map or motion clause. whole: written as the bare name. stride, count: of a strided update."""

    arr: str
    type: Literal["to", "from", "tofrom", "alloc", "release", "delete"]
    mods: list[Literal["always", "present", "close", "ompx_hold"]] = []
    off: int = 0
    len: int = 0
    whole: bool = False
    stride: int | None = None
    count: int | None = None


class Statement(msgspec.Struct, frozen=True):
    """On elements lo to lo + len - 1: `add` a[i] += c, `set` a[i] = i + c, `mul` a[i] *= c, modulo 2^32."""

    arr: str
    op: Literal["add", "set", "mul"]
    lo: int
    len: int
    c: int


class Row(msgspec.Struct, frozen=True, order=True):
    """An entry of the present table; counts as LLVM prints them."""

    arr: str
    off: int
    len: int
    dyn: str
    hold: str


class LoweredCall(msgspec.Struct, frozen=True):
    """A call of the runtime as clang made it."""

    fn: str
    maps: list[dict[str, Any]]


class Truth(msgspec.Struct, frozen=True):
    """What LLVM's runtime did in a step. host, device: values of the arrays that changed."""

    ops: list[dict[str, Any]]
    present: dict[str, list[list[int]]] = {}
    host: Values = {}
    device: DeviceValues = {}
    lowered: list[LoweredCall] | UnsetType = UNSET
    table: list[Row] | UnsetType = UNSET
    rc: int | UnsetType | None = UNSET
    fatal: bool = False


class StepSpec(msgspec.Struct, frozen=True, tag_field="op", kw_only=True):
    """A step of the program, and what it did."""

    truth: Truth
    nowait: bool = False


class HostStep(StepSpec, frozen=True, tag="host"):
    """Code on the host."""

    body: list[Statement]


class MapStep(StepSpec, frozen=True):
    """A step with list items of map or motion clauses."""

    maps: list[MapItemSpec]


class EnterStep(MapStep, frozen=True, tag="enter"):
    """target enter data."""


class ExitStep(MapStep, frozen=True, tag="exit"):
    """target exit data."""


class UpdateStep(MapStep, frozen=True, tag="update"):
    """target update."""


class DataBeginStep(MapStep, frozen=True, tag="data_begin"):
    """A target data region begins."""


class DataEndStep(StepSpec, frozen=True, tag="data_end"):
    """The region that began in step `begin` ends."""

    begin: int


class TargetStep(MapStep, frozen=True, tag="target"):
    """A target region."""

    body: list[Statement]


class DeviceTargetStep(StepSpec, frozen=True, tag="dtarget"):
    """A target region on the block `h` of omp_target_alloc."""

    h: str
    body: list[Statement]


class AllocStep(StepSpec, frozen=True, tag="alloc"):
    """omp_target_alloc."""

    h: str
    bytes: int


class FreeStep(StepSpec, frozen=True, tag="free"):
    """omp_target_free."""

    h: str


class AssociateStep(StepSpec, frozen=True, tag="assoc"):
    """omp_target_associate_ptr; hoff: offset in the block."""

    arr: str
    h: str
    off: int
    bytes: int
    hoff: int


class DisassociateStep(StepSpec, frozen=True, tag="disassoc"):
    """omp_target_disassociate_ptr."""

    arr: str
    off: int


class MemcpyStep(StepSpec, frozen=True, tag="memcpy"):
    """omp_target_memcpy between an array and a block."""

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
    """How the program ended; errors: the lines of its standard error."""

    completed: bool
    errors: list[str]
    final_host: Values | None = None
    final_device: DeviceValues | None = None


class RecordedProgram(msgspec.Struct, frozen=True):
    """A sequential program on one device. device_fill: what the recorder filled new device blocks with."""

    name: str
    mode: Literal["copy", "usm"]
    device_fill: int
    arrays: dict[str, ArraySpec]
    steps: list[Step]
    outcome: RecordedOutcome
    element_bytes: Literal[4] = 4

    ELEMENT_BYTES: ClassVar[int] = 4

    def __post_init__(self) -> None:
        """ValueError for an inconsistency; msgspec adds where it is."""
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
    """Yield the names of arrays that a step uses; a `dtarget` has statements on a block."""
    if isinstance(step, MapStep):
        yield from (item.arr for item in step.maps)
    if isinstance(step, (HostStep, TargetStep)):
        yield from (statement.arr for statement in step.body)
    elif isinstance(step, (AssociateStep, DisassociateStep, MemcpyStep)):
        yield step.arr
    yield from (name for names in (step.truth.host, step.truth.device) for name in names)


def _sizes_of(step: Step) -> Iterable[tuple[str, int]]:
    """Yield the offsets and lengths of a step that count whole elements, by name."""
    if isinstance(step, MapStep):
        for item in step.maps:
            yield from ((f"off of {item.arr}", item.off), (f"len of {item.arr}", item.len))
            yield f"stride of {item.arr}", item.stride or 0
    elif isinstance(step, (AssociateStep, DisassociateStep)):
        yield f"off of {step.arr}", step.off
