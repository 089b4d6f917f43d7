"""A program as its compiler lowered it: arrays at given addresses, and directives as calls of LLVM's entry points.

    program = omp.LoweredProgram(run.openmp)
    x = program.array("x", 0x7F5400000010, 8 << 20)
    items = program.items([omp.LoweredItem(x.address, x.address, x.nbytes, 0x21)])
    await t.run(program.target(triad, items, trip_count=1 << 20))

So recordings of real programs, and the output of compilers, run through the same runtime as `t.target(…)` does. Nothing
is lowered here: the order of the items and their bits are the caller's.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import attrs
import numpy as np

from offloadrt.address_map import AddressMap
from offloadrt.kernels import Kernel, Launch
from offloadrt.models.host.directive import beginning, ending, launch_of, updating
from offloadrt.models.openmp.clauses import Depend
from offloadrt.models.openmp.lowering import Construct, HostRegion
from offloadrt.models.openmp.program import OpenMP
from offloadrt.runtime.host_array import POINTER_BYTES, Dimension, HostArray, Kind
from offloadrt.runtime.launch.kernel_arguments import required_alignment
from offloadrt.runtime.launch.target import OffloadedRegion, target
from offloadrt.runtime.mapping.data_environment import strided_pieces
from offloadrt.runtime.mapping.map_item import BlockUse, MapItem, MapItems
from offloadrt.runtime.mapping.map_types import (
    ATTACH,
    FIRST_MEMBER,
    FROM_MAPPER,
    LITERAL,
    NON_CONTIG,
    PTR_AND_OBJ,
    TARGET_PARAM,
    words,
)

DataCall = Literal["begin", "end", "update"]

_NAMES: Final[dict[DataCall, str]] = {
    "begin": "target data begin",
    "end": "target data end",
    "update": "target update",
}


@attrs.frozen
class LoweredItem:
    """One map item of a directive as the compiler passes it to the runtime: host addresses, bytes, and a map type.

    type: the bits of `OMP_TGT_MAPTYPE_*`. pointee: for an ATTACH or PTR_AND_OBJ item, the value of the pointer at
    `base`; None if it is not known. dimensions: for a NON_CONTIG item, whose `size` is their number. components: the
    items that the mapper function of this item pushes. base: the address of the pointer or array that the item is based
    on. begin, size: the address and the number of bytes of what it maps.
    """

    base: int
    begin: int
    size: int
    type: int
    name: str = ""
    pointee: int | None = None
    dimensions: tuple[Dimension, ...] = ()
    components: tuple[LoweredItem, ...] = ()

    def __str__(self) -> str:
        return f"{self.name or 'item'} at {self.begin:#x} ({self.size} bytes, {words(self.type)})"


class LoweredProgram:
    """Makes directives from the runtime calls (`__tgt_…`) of compiled OpenMP code; `HostThread.run` runs each.

    It knows which of the program's arrays lies at each host address, because the calls pass addresses only.
    """

    def __init__(self, program: OpenMP) -> None:
        self._program = program
        self._arrays: AddressMap[HostArray] = AddressMap()

    # memory

    def array(
        self, name: str, address: int, nbytes: int, kind: Kind = "heap", *, written: bool = False, pointer: int = 0
    ) -> HostArray:
        """Add an array without values at a host address. Raises ValueError if it would overlap another one.

        written: whether the program has populated its pages. kind: how the program declares it. A `global` or a `link`
        (of `declare target`) is put into the image of every device, with a reference pointer at the address `pointer`.
        """
        if address < 0 or nbytes < 0:
            raise ValueError(f"array {name!r}: {nbytes} bytes at {address:#x}")
        if (other := self.overlapped(address, nbytes)) is not None:
            raise ValueError(f"array {name!r} of {nbytes} bytes at {address:#x}: array {other.name!r} lies there")
        array = HostArray(name, address, (nbytes,), np.dtype(np.uint8), kind, pointer)
        self._arrays[address] = array
        self._program.arrays.add(array, written)
        if kind in ("global", "link"):
            self._program.globals.declare(array)
        return array

    def free(self, array: HostArray, freed: bool = True) -> None:
        """Forget an array. freed: whether the program frees it; else it ended unnoticed. KeyError if unknown."""
        if self._arrays.pop(array.address) is not array:
            raise KeyError(f"array {array.name!r} is none of the program's")
        self._program.arrays.forget(array, freed)

    def at(self, address: int) -> HostArray | None:
        """Return the array that holds an address, or ends there; None if there is none."""
        before = self._arrays.before(address)
        return before[1] if before is not None and address <= before[0] + before[1].nbytes else None

    def overlapped(self, address: int, nbytes: int) -> HostArray | None:
        """Return an array that overlaps a range of addresses, the last of several; None if there is none."""
        before = self._arrays.before(address + max(nbytes, 1) - 1)
        return before[1] if before is not None and address < before[0] + max(before[1].nbytes, 1) else None

    # directives

    def items(self, lowered: Iterable[LoweredItem]) -> MapItems:
        """Prepare the map items of a runtime call; they can be used for any number of calls while their arrays exist.

        lowered: the items as the compiler passes them. Raises ValueError for an item whose bytes do not all belong to
        one array.
        """
        return MapItems(self._lowered(list(lowered), False))

    def _lowered(self, given: list[LoweredItem], from_mapper: bool) -> list[MapItem]:
        bases = {item.begin: item.base for item in given if not item.type & (ATTACH | PTR_AND_OBJ | LITERAL)}
        items = []
        for position, item in enumerate(given):
            pointee = item.pointee
            if pointee is None and item.type & ATTACH:  # the item that maps the pointee names its base
                pointee = bases.get(item.begin)
            items.append(
                MapItem(
                    self._array_of(item),
                    item.base,
                    item.begin,
                    item.size,
                    item.type | FROM_MAPPER * (from_mapper and not position),
                    item.dimensions,
                    item.base if item.type & LITERAL else None,
                    self._owner_of(item) if item.type & (ATTACH | PTR_AND_OBJ) else None,
                    pointee,
                    _padding(item, given[position + 1].type >> 48 == position + 1)
                    if position + 1 < len(given) and item.type < FIRST_MEMBER
                    else 0,
                    tuple(self._lowered(list(item.components), True)),
                    from_mapper,
                )
            )
        return items

    def _owner_of(self, item: LoweredItem) -> HostArray | None:
        """Return the array that holds the pointer at an item's `base`; None if none does."""
        array = self.at(item.base)
        return array if array is not None and array.holds(item.base, POINTER_BYTES) else None

    def _array_of(self, item: LoweredItem) -> HostArray | None:
        captures = item.type & LITERAL and item.type >= FIRST_MEMBER
        if item.type & LITERAL and not captures:
            return None
        if item.type & NON_CONTIG:
            return self._array_of_pieces(item)
        begin, nbytes = item.begin, 0 if item.type & ATTACH else item.size
        array = self.at(begin)
        if array is not None and not item.size and begin == array.address + array.nbytes > array.address:
            array = None  # the table finds nothing there, and what the pointer is for is not known
        if captures and (array is None or not array.holds(begin, nbytes)):
            return None  # a variable that is not mapped: the device's lambda keeps the host's address of it
        if nbytes < 0 or (array is None and nbytes) or (array is not None and not array.holds(begin, nbytes)):
            where = "no array lies there" if array is None else f"array {array.name!r} has {array.nbytes} bytes"
            raise ValueError(f"{item}: {where}")
        return array

    def _array_of_pieces(self, item: LoweredItem) -> HostArray | None:
        """Return the array that holds the first piece of a section with gaps that any array holds, or its base."""
        specification = self._program.declarations.strided_update == "specification"
        section = MapItem(None, item.base, item.begin, item.size, item.type, item.dimensions)
        for begin, nbytes in strided_pieces(section, specification):
            array = self.at(begin)
            if array is not None and array.holds(begin, nbytes):
                return array
        return self.at(item.base)

    def data(
        self,
        call: DataCall,
        items: Sequence[MapItem],
        *,
        device: int | None = None,
        nowait: bool = False,
        depend: Sequence[Depend] = (),
        name: str = "",
    ) -> Construct:
        """Make the directive of a runtime call that begins or ends mappings, or updates data, for `HostThread.run`.

        items: the map items. name: the directive's, by default that of `call`. device: its number; None: the default
        device. call: which of `__tgt_target_data_begin_mapper`, `…_end_mapper` and `…_update_mapper` it is. nowait,
        depend: its clauses of these names.
        """
        name = name or _NAMES[call]
        if call == "update":
            work = updating(items, name, self._program.declarations.strided_update == "specification")
        else:
            work = ending(items, name) if call == "end" else beginning(items, name)
        return Construct(name, work, device, nowait, tuple(depend))

    def target(
        self,
        kernel: Kernel | Launch,
        items: Sequence[MapItem],
        *,
        teams: int = 0,
        threads: int = 0,
        trip_count: int = 0,
        device: int | None = None,
        nowait: bool = False,
        depend: Sequence[Depend] = (),
        follows: Sequence[object] = (),
        blocks: Sequence[BlockUse] = (),
    ) -> Construct:
        """Make the target region of a call of `__tgt_target_kernel`, for `HostThread.run`.

        The kernel's arguments are the items with TARGET_PARAM, in order: arrays, or numbers for items with LITERAL. A
        Launch is used as it is. follows: places (`DevicePointer`) of host memory that the kernel reaches through
        pointers in its arguments' memory. blocks: which known bytes it reads and writes so. device: its number; None:
        the default device. nowait, depend: its clauses of these names.

        teams, threads: 0 if the program leaves them open. trip_count: the iterations of its loop; 0 if not known.
        """
        arguments: list[Any] = [
            item.value if item.type & LITERAL else item.array for item in items if item.type & TARGET_PARAM
        ]
        launch = kernel
        if not isinstance(launch, Launch):
            grid = self._program.declarations.grid
            launch = launch_of(launch, arguments, teams or None, threads or None, trip_count or None, grid)

        offloaded = OffloadedRegion(launch, items, arguments, follows, blocks)
        region = functools.partial(target, region=offloaded, call="target", globals_of=self._program.globals.binding)
        return Construct("target", region, device, nowait, tuple(depend), HostRegion(launch, tuple(arguments), ()))


def first_byte(base: int, dimensions: tuple[Dimension, ...]) -> int:
    """Return the address of the first byte of a section with gaps (a NON_CONTIG item).

    base: the array's address. dimensions: as the call describes the section, the element last. offset counts elements
    of the dimension; its distance in bytes is `stride`, but clang multiplies the last array dimension's by the
    section's step there, so the element's size is taken instead. In outer dimensions a step of 1 is assumed.
    """
    pitches = [dimension.stride for dimension in dimensions]
    if len(pitches) > 1:
        pitches[-2] = pitches[-1]
    return base + sum([one.offset * pitch for one, pitch in zip(dimensions, pitches, strict=True)])


def _padding(item: LoweredItem, has_members: bool) -> int:
    """Return the bytes before a struct's part that its block needs to begin at an address aligned for the struct."""
    return item.begin % required_alignment(item.base) if has_members else 0
