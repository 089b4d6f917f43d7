"""Which memory a launch touches: for the device, which may have page faults, and for whoever observes the program.

*The device* is told of each argument that the device uses in place: the ranges of elements that the kernel's source
says, as far as the region maps them. Where data decide, or the kernel is declared by its costs: the sections that the
region maps; the whole array when it maps none, as a pointer says nothing of its extent.

Of managed memory a launch also says in which order and how it is accessed (`accesses_of`). A loop nest's launch counts
it (`kernels/memory_streams.py`), and says where in the array (`kernels/ranges.py`). Of a kernel that is declared,
`ArrayUse` tells whether an array is swept in order (``constant`` and ``affine``) or met at random (``irregular`` and
``indirect``), read or written, and after how many loads of others. An array without one is swept once, read and
written.

*An observer* is told which bytes a launch reads and writes. Of a loop nest and of a recorded kernel the launch's counts
say it (`static_uses`). A body that computes on NumPy views is watched while it runs (`KernelWatch`). Of a kernel that
is declared by its costs alone nothing is known but its arguments: it may read and write them.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal

import attrs
import numpy as np

from offloadrt.driver import NOTHING, Touching
from offloadrt.kernels import ArrayUse, Launch
from offloadrt.kernels.costs import ArrayCounts, split_atomic
from offloadrt.kernels.execution import MappedSection
from offloadrt.kernels.memory_streams import AccessStream
from offloadrt.kernels.ranges import ElementRuns, merged
from offloadrt.machine import AccessFault, MemoryAccessFault
from offloadrt.machine.host import HostContents
from offloadrt.machine.managed.sweep import ByteRuns, ManagedAccess
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.events import HOST, KernelRan, KernelSubmitted, MemoryUse, Tell
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.kernel_arguments import Pointees, array_view, has_phantoms, pointed_to, reaches_host
from offloadrt.runtime.mapping.map_item import (
    ATTACH,
    LITERAL,
    NOT_MAPPED,
    PRIVATE,
    TARGET_PARAM,
    BlockUse,
    DirectiveQueue,
    MapItem,
)
from offloadrt.runtime.mapping.present_table import Binding, DevicePointer
from offloadrt.runtime.watched_array import watched
from offloadrt.sim import Actor


@attrs.define(eq=False)
class OffloadedRegion:
    """A target region, which may be run again and again: what a compiler makes of it, and what follows from that.

    arguments: what the kernel's body is called with, in order: HostArray, DevicePointer, Pointees or a value. follows:
    those that are addresses, or hold some. blocks: what is known of its use of memory that is not mapped, reads before
    writes.
    """

    launch: Launch
    items: Sequence[MapItem]
    arguments: Sequence[Any]
    follows: Sequence[object] = ()
    blocks: Sequence[BlockUse] = ()
    arrays: list[HostArray] = attrs.field(init=False)
    """Those among the arguments."""
    _touching: dict[int, tuple[Sequence[bool], Touching]] = attrs.field(factory=dict, init=False)
    """By device number what the launch touches, with the arrays in these places."""

    def __attrs_post_init__(self) -> None:
        named = [argument.pointers if isinstance(argument, Pointees) else argument for argument in self.arguments]
        self.arrays = [array for array in named if isinstance(array, HostArray)]

    def touching(self, device: OffloadDevice, on_host: Sequence[bool], queue: DirectiveQueue, call: str) -> Touching:
        """Say what of the host's memory the kernel touches, to a device that can reach it.

        on_host: of each of the arrays, whether the device uses it in place. On a device that migrates pages these are
        accesses to managed memory, on an APU ranges of host memory. Raises FreedHostMemory for managed memory that was
        freed.
        """
        plugin = device.plugin
        if device.driver.managed.uvm is not None:
            migrating = [
                device.manages(array) and in_place for array, in_place in zip(self.arrays, on_host, strict=True)
            ]
            for array, in_place in zip(self.arrays, migrating, strict=True):
                if in_place:
                    device.check_alive(array, call)
            touching = self._known(device, migrating)
            if self.follows and (pointed := pointed_to(device, self.follows)):
                more = [ManagedAccess(begin, nbytes) for begin, nbytes in pointed]
                touching = attrs.evolve(touching, accesses=tuple(dict.fromkeys([*touching.accesses, *more])))
            return touching
        if not plugin.kernels_fault:
            return NOTHING
        touching = self._known(device, on_host)
        if self.follows and (pointed := pointed_to(device, self.follows)):
            touching = attrs.evolve(touching, ranges=(*touching.ranges, *pointed))
        if plugin.kernels_die and touching.ranges:
            touching = dying(touching, queue, device.machine.host_memory.contents, device.sim.current)
        return touching

    def _known(self, device: OffloadDevice, on_host: Sequence[bool]) -> Touching:
        """Return what the launch touches through its arrays, computed once for their places."""
        places, touching = self._touching.get(device.number, (None, NOTHING))
        if places != on_host:
            if device.driver.managed.uvm is not None:
                touching = accesses_of(device.number, self.launch, self.items, self.arguments, self.arrays, on_host)
            else:
                touching = touching_of(device, self.launch, self.items, self.arguments, self.arrays, on_host)
            self._touching[device.number] = on_host, touching
        return touching


Range = tuple[int, int]
"""Address and bytes."""


def touching_of(
    device: OffloadDevice,
    launch: Launch,
    items: Sequence[MapItem],
    arguments: Sequence[Any],
    arrays: Sequence[HostArray],
    on_host: Sequence[bool],
) -> Touching:
    """Return what a launch touches of the host's memory.

    `arrays`: the arrays among the arguments; `on_host`: whether the device uses each in place.

    A global of the host is reached through a pointer on the device, which takes `usm.global_indirection` longer.
    """
    ranges: dict[Range, None] = {}
    indirect = False
    places = [k for k, argument in enumerate(arguments) if isinstance(argument, (HostArray, Pointees))]
    for position, array, in_place in zip(places, arrays, on_host, strict=True):
        if in_place:
            found: Sequence[Range] = sections(items, array)
            for counts in launch.counts.arrays if launch.counts and isinstance(arguments[position], HostArray) else ():
                if counts.position == position:
                    found = touched_ranges(counts.streams, array, counts.element_size, found)
            ranges.update(dict.fromkeys(found))
            indirect = indirect or (array.kind in ("global", "link") and device.globals_on_host)
    serial_s = device.plugin.global_indirection if indirect else 0.0
    return Touching(tuple(ranges), serial_s) if ranges else NOTHING


def touched_ranges(
    streams: Iterable[AccessStream], array: HostArray, element_size: int, mapped: Sequence[Range]
) -> Sequence[Range]:
    """Return what a launch touches of an array, as far as it is mapped (`sections`): all of it where data decide.

    When nothing of it is mapped the launch touches it all the same: the device uses the array in place.
    """
    around = [stream.reach.ranges for stream in streams]
    known = [found for found in around if found is not None]
    if len(known) < len(around):
        return mapped
    begin, parts = array.address, list[Range]()
    ranges = [(begin + low * element_size, begin + (high + 1) * element_size) for low, high in merged(chain(*known))]
    for low, high in ranges:
        ends = [(max(first, low), min(first + nbytes, high)) for first, nbytes in mapped]
        parts += [(first, end - first) for first, end in ends if first < end]
    return parts or [(low, high - low) for low, high in ranges]


def sections(items: Sequence[MapItem], array: HostArray) -> list[Range]:
    """List (address, bytes) of what a region maps of an array: the sections, or the whole array when it maps none."""
    mapped = [
        (item.begin, item.size)
        for item in items
        if item.array is array and item.size and not item.type & (ATTACH | LITERAL | PRIVATE) and not item.dimensions
    ]
    return mapped or ([(array.address, array.nbytes)] if array.nbytes else [])


def dying(touching: Touching, queue: DirectiveQueue, contents: HostContents, thread: Actor) -> Touching:
    """Have the thread that waits for the queue told, on a device on which a kernel dies of a missing page."""

    def fault(fault: AccessFault) -> None:
        array = contents.find(fault.address)
        queue.kernel_error = MemoryAccessFault(fault, "" if array is None else array.name, thread.name)

    return Touching(touching.ranges, touching.serial_s, fault)


def accesses_of(
    device: int,
    launch: Launch,
    items: Sequence[MapItem],
    arguments: Sequence[Any],
    arrays: Sequence[HostArray],
    on_host: Sequence[bool],
) -> Touching:
    """Return what a launch does with managed memory.

    `arrays`: the arrays among the arguments; `on_host`: whether each is managed memory, used in place.
    """
    managed = {array for array, in_place in zip(arrays, on_host, strict=True) if in_place}
    uses = {use.position: use for use in launch.kernel.arrays}
    found: dict[ManagedAccess, None] = {}
    for position, argument in enumerate(arguments):
        array = argument.pointers if isinstance(argument, Pointees) else argument
        if isinstance(array, HostArray) and array in managed:
            whole = isinstance(argument, Pointees)
            found.update(dict.fromkeys(_accesses(uses.get(position), launch, array, whole, sections(items, array))))
    return Touching(accesses=tuple(found)) if found else NOTHING


def _accesses(
    use: ArrayUse | None, launch: Launch, array: HostArray, whole: bool, mapped: Sequence[Range]
) -> Iterator[ManagedAccess]:
    """`whole`: the array holds the pointers that the kernel follows, of which its source says nothing."""
    if use is None:
        for begin, nbytes in mapped:
            yield ManagedAccess(begin, nbytes)
    elif launch.counts is None:
        for begin, nbytes, part in _parts(mapped):
            yield _declared(use, launch, begin, nbytes, part)
    else:
        counts = launch.counts.array(use.name)
        for stream in counts.streams:
            ranges = mapped if whole else touched_ranges([stream], array, counts.element_size, mapped)
            for begin, nbytes, part in _parts(ranges):
                yield _counted(stream, array.address, counts.element_size, begin, nbytes, part)


def _parts(ranges: Sequence[Range]) -> Iterator[tuple[int, int, float]]:
    """Return each range, and the part of the accesses that go there."""
    total = 0
    for _, nbytes in ranges:
        total += nbytes
    for begin, nbytes in ranges:
        if nbytes:
            yield begin, nbytes, nbytes / total


def _counted(
    stream: AccessStream, address: int, element_size: int, begin: int, nbytes: int, part: float
) -> ManagedAccess:
    """Return what a loop nest does, as its launch counts it."""
    picked = None
    if stream.order == "in order":
        places = stream.places * part
        run = max(stream.read, stream.written) * element_size / stream.places if places else 0.0
        picked = ByteRuns(places, run, element_size, among=stream.among * part)
    scattered = stream.places * part if stream.order == "random" else 0.0
    reads, writes = (
        tuple([_in_bytes(one, address, element_size, part) for one in places])
        for places in (stream.reach.read, stream.reach.written)
    )
    return ManagedAccess(begin, nbytes, stream.level, scattered, reads, writes, picked)


def _in_bytes(places: ElementRuns, address: int, element_size: int, part: float) -> ByteRuns:
    alignment = math.gcd(address, places.step * element_size)
    return ByteRuns(places.count * part, places.run * element_size, alignment, places.even, places.among * part)


def _declared(use: ArrayUse, launch: Launch, begin: int, nbytes: int, part: float) -> ManagedAccess:
    """Return what a kernel does that is declared by its costs."""
    scattered, often = 0.0, launch.iterations * part
    if use.pattern in ("irregular", "indirect"):
        scattered = (use.elements_read + use.elements_written or use.laf) * often
    reads, writes = (
        _of_declared(use, elements * often, scattered > 0.0)
        for elements in (use.elements_read or use.reads, use.elements_written or use.writes)
    )
    return ManagedAccess(begin, nbytes, use.level, scattered, reads, writes)


def _of_declared(use: ArrayUse, elements: float, at_random: bool) -> tuple[ByteRuns, ...] | None:
    """Return the elements that are loaded, or stored: of a use that says of neither how many, all that it touches."""
    if use.laf and not elements:
        return ()
    return (ByteRuns(elements, use.element_size, use.element_size),) if at_random else None


@attrs.frozen
class _Placed:
    """An argument where the kernel finds it: `begin` is the address of its first element in `memory`.

    low, high: the addresses that the kernel can use there.
    """

    name: str
    memory: int
    begin: int
    low: int
    high: int
    mapped: bool


def static_uses(
    device: OffloadDevice,
    region: OffloadedRegion,
    bindings: dict[HostArray, Binding],
    private: Sequence[tuple[MapItem, Binding]] = (),
) -> tuple[MemoryUse, ...]:
    """Return what is known of a launch before it runs: reads before writes. private: its private copies."""
    launch, arguments = region.launch, region.arguments
    counted = {} if launch.counts is None else {counts.position: counts for counts in launch.counts.arrays}
    declared = {} if launch.counts is not None else {use.position: use for use in launch.kernel.arrays}
    reads: list[MemoryUse] = []
    writes: list[MemoryUse] = []
    parts = _parts_of_uses(device, region.items, arguments, private)
    for position, argument in enumerate(arguments):
        if (part := parts.get(position)) is not None:
            placed = _bound(device, argument, part)
        else:
            placed = _placed(device, argument, bindings)
        if placed is None:
            continue
        counts = counted.get(position)
        if counts is None and launch.counts is not None:
            continue  # the kernel does not touch it
        use = declared.get(position)
        if counts is None and use is not None and use.laf and not isinstance(argument, Pointees):
            for often, writing, uses in ((use.reads, False, reads), (use.writes, True, writes)):
                if often and placed.high > placed.low:
                    nbytes = placed.high - placed.low
                    uses.append(
                        MemoryUse(placed.memory, placed.low, nbytes, writing, False, placed.name, placed.mapped)
                    )
            continue
        if counts is None or isinstance(argument, Pointees):
            maybe = MemoryUse(
                placed.memory, placed.low, placed.high - placed.low, True, False, placed.name, placed.mapped, True
            )
            if maybe.nbytes > 0:
                writes.append(maybe)
            continue
        reads += _of_kind(placed, counts, "read")
        writes += _of_kind(placed, counts, "write")
    return (*reads, *writes, *_reached(device, region))


def _parts_of_uses(
    device: OffloadDevice,
    items: Sequence[MapItem],
    arguments: Sequence[Any],
    private: Sequence[tuple[MapItem, Binding]],
) -> dict[int, Binding]:
    """Return where the arguments lie, by position, that share their array with another one: each has a part of it."""
    given = [item for item in items if item.type & TARGET_PARAM]
    if len(given) != len(arguments):
        return {}
    found: dict[int, Binding] = {}
    shared = {array for array, times in Counter(map(id, arguments)).items() if times > 1}
    for position, (item, argument) in enumerate(zip(given, arguments, strict=True)):
        if id(argument) not in shared or argument is not item.array:
            continue
        if item.type & NOT_MAPPED:
            binding = next((binding for own, binding in private if own is item), None)
        else:
            entry = device.table.lookup(item.begin, item.size).pointer.entry
            binding = None if entry is None else entry.binding
        if binding is not None:
            found[position] = binding
    return found


def _placed(device: OffloadDevice, argument: Any, bindings: dict[HostArray, Binding]) -> _Placed | None:
    """Find an argument's memory; None for a number, and for an array of which the kernel has nothing."""
    if isinstance(argument, Pointees):
        argument = argument.pointers
    if isinstance(argument, DevicePointer):
        if argument.binding is not None and argument.array is not None:
            return _bound(device, argument.array, argument.binding)
        nbytes = argument.nbytes or device.block_size(argument.address) or 0
        name = argument.array.name if argument.array is not None else "device memory"
        end = argument.address + nbytes
        return _Placed(name, device.number, argument.address, argument.address, end, False)
    return _bound(device, argument, bindings[argument]) if isinstance(argument, HostArray) else None


def _bound(device: OffloadDevice, array: HostArray, binding: Binding) -> _Placed | None:
    begin, end = array.address, array.address + array.nbytes
    if binding.is_host:
        return _Placed(array.name, HOST, begin, begin, end, False)
    if binding.address is None:
        return None
    shift = binding.address - binding.host_begin
    low, high = max(begin, binding.host_begin), min(end, binding.host_end)
    return _Placed(array.name, device.number, begin + shift, low + shift, high + shift, True)


def _of_kind(placed: _Placed, counts: ArrayCounts, kind: Literal["read", "write"]) -> Iterator[MemoryUse]:
    """Yield the ranges that a kernel loads from, or stores to."""
    often, around = (counts.reads, counts.read_range) if kind == "read" else (counts.writes, counts.written_range)
    if not often:
        return
    if (known := counts.known.get(kind)) is not None:
        for low, high, atomic in split_atomic(known, counts.known.get("atomic", ())):
            begin, end = placed.begin + low * counts.element_size, placed.begin + (high + 1) * counts.element_size
            first, after = max(placed.low, begin), min(placed.high, end)
            if first < after:
                yield MemoryUse(
                    placed.memory, first, after - first, kind == "write", True, placed.name, placed.mapped,
                    atomic=atomic,
                )  # fmt: skip
        return
    for stream in counts.streams:
        moved = stream.read if kind == "read" else stream.written
        if not moved:
            continue  # it loads what it has stored itself
        reach = stream.reach
        if reach.ranges is None or around is None:
            pieces: Sequence[tuple[int, int]] = [_elements(placed, counts.element_size)]
        else:
            clipped = [(max(low, around[0]), min(high, around[1])) for low, high in reach.ranges]
            pieces = [(low, high) for low, high in clipped if low <= high]
        whole = _touches_all(stream, kind, pieces) and often >= _length(pieces)
        for low, high in pieces:
            begin, end = placed.begin + low * counts.element_size, placed.begin + (high + 1) * counts.element_size
            first, after = max(placed.low, begin), min(placed.high, end)
            beyond = whole and (first, after) != (begin, end)
            if first < after or beyond:
                yield MemoryUse(
                    placed.memory, first, max(0, after - first), kind == "write", whole, placed.name, placed.mapped,
                    outside=beyond,
                )  # fmt: skip


def _elements(placed: _Placed, element_size: int) -> tuple[int, int]:
    """Return the first and the last element that the kernel can use."""
    return (placed.low - placed.begin) // element_size, (placed.high - placed.begin) // element_size - 1


def _length(pieces: Sequence[tuple[int, int]]) -> int:
    return sum([high - low + 1 for low, high in pieces])


def _touches_all(stream: AccessStream, kind: str, pieces: Sequence[tuple[int, int]]) -> bool:
    """Tell whether accesses in order come to every element of the ranges around them."""
    if stream.order != "swept" or not math.isinf(stream.among):
        return False
    runs = stream.reach.read if kind == "read" else stream.reach.written
    return math.fsum([one.count * one.run for one in runs]) >= _length(pieces)


def _reached(device: OffloadDevice, region: OffloadedRegion) -> Iterator[MemoryUse]:
    """Yield what the kernel touches, or may touch, through pointers that are no mapped arguments."""
    for use in region.blocks:
        writes, maybe = use.writes or not use.exact, not use.exact
        yield MemoryUse(
            device.number, use.address, use.nbytes, writes, use.exact, "device memory", maybe=maybe, atomic=use.atomic
        )
    for pointer in region.follows:
        if isinstance(pointer, DevicePointer) and pointer not in region.arguments and pointer.nbytes:
            entry = device.table.lookup(pointer.address, pointer.nbytes).pointer.entry
            if entry is not None:
                low = max(pointer.address, entry.host_begin)
                nbytes = min(pointer.address + pointer.nbytes, entry.host_end) - low
                if nbytes > 0:
                    begin = entry.device_address(low)
                    yield MemoryUse(device.number, begin, nbytes, True, False, entry.name, False, True)


@attrs.define(eq=False)
class KernelWatch:
    """Tells of one launch what the kernel uses: of its uses at once, or when the body that showed them has run."""

    _device: OffloadDevice
    _tell: Tell
    _region: OffloadedRegion
    _bindings: dict[HostArray, Binding]
    _private: Sequence[tuple[MapItem, Binding]]
    _cause: int
    _uses: list[MemoryUse] = attrs.field(factory=list, init=False)
    _shows: bool = attrs.field(init=False)
    """Whether what the kernel uses shows only while its body runs."""

    def __attrs_post_init__(self) -> None:
        has_body = self._region.launch.counts is None and self._region.launch.kernel.body is not None
        self._shows = has_body and not has_phantoms(self._region.arguments)

    def view(self, argument: Any, seen: Any) -> Any:
        """Return what the body sees of an argument: an array that tells of its uses."""
        if not self._shows:
            return seen
        if isinstance(argument, Pointees):
            return [self._pointee(argument, number, array) for number, array in enumerate(seen)]
        placed = _placed(self._device, argument, self._bindings)
        if placed is None:
            return seen
        if isinstance(seen, MappedSection):
            row = seen.values.nbytes // max(1, len(seen.values))
            values = self._watched(seen.values, attrs.evolve(placed, begin=placed.begin + seen.lower * row))
            return attrs.evolve(seen, values=values)
        if not isinstance(seen, np.ndarray):
            return seen
        partial = isinstance(argument, HostArray) and seen.nbytes < argument.nbytes
        return self._watched(seen, attrs.evolve(placed, begin=placed.low) if partial else placed)

    def _pointee(self, argument: Pointees, number: int, array: Any) -> Any:
        """Watch what lies behind a stored pointer; where that is, only the view of the pointers says."""
        binding = self._bindings[argument.pointers]
        pointers = array_view(self._device, argument.pointers, binding)
        address = argument.addresses(pointers)[number]
        on_host = self._device.machine.host_memory.contents.find(address) is not None
        memory = HOST if on_host and reaches_host(self._device) else self._device.number
        end = address + argument.nbytes
        name = f"what {argument.pointers.name} points to"
        return self._watched(array, _Placed(name, memory, address, address, end, False))

    def _watched(self, values: Any, placed: _Placed) -> Any:
        def tell(low: int, high: int, writes: bool, exact: bool) -> None:
            self._note(placed, placed.begin + low, placed.begin + high, writes, exact)

        return watched(values, tell) if values.size else values

    def _note(self, placed: _Placed, low: int, high: int, writes: bool, exact: bool) -> None:
        """Note one access; one that lengthens the one before it is joined to it."""
        use = MemoryUse(placed.memory, low, high - low, writes, exact, placed.name, placed.mapped)
        if self._uses and exact:
            last = self._uses[-1]
            alike = attrs.evolve(last, begin=low, nbytes=use.nbytes) == use
            if alike and last.begin <= low <= last.begin + last.nbytes:
                after = max(last.begin + last.nbytes, high)
                self._uses[-1] = attrs.evolve(last, nbytes=after - last.begin)
                return
        self._uses.append(use)

    def submitted(self, run: Callable[[], None] | None) -> Callable[[], None] | None:
        """Tell of the launch, and return what runs at its end."""
        known = None
        if not self._shows or run is None:
            known = static_uses(self._device, self._region, self._bindings, self._private)
        self._tell(KernelSubmitted(self._cause, self._device.number, self._region.launch.kernel.name, known))
        return run if known is not None or run is None else functools.partial(self._run, run)

    def _run(self, run: Callable[[], None]) -> None:
        run()
        self._tell(KernelRan(self._cause, tuple(self._uses)))
