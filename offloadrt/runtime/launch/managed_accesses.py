"""What a kernel does with managed memory, which its launch says: for each array, the range, the order and the way.

A loop nest's launch counts it (`kernels/memory_streams.py`), and says where in the array (`kernels/ranges.py`). Of
a kernel that is declared, `ArrayUse` tells whether an array is swept in order (``constant`` and ``affine``) or met at
random (``irregular`` and ``indirect``), read or written, and after how many loads of others. An array without one is
swept once, read and written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from offloadrt.driver import NOTHING, Touching
from offloadrt.kernels import ArrayUse, Launch
from offloadrt.kernels.memory_streams import AccessStream
from offloadrt.kernels.ranges import ElementRuns
from offloadrt.machine.managed.access import ByteRuns, ManagedAccess
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.kernel_arguments import Pointees
from offloadrt.runtime.launch.touching import KnownTouching, Range, sections, touched_ranges
from offloadrt.runtime.mapping.map_item import MapItem, MapItems


def accesses_of(
    device: int,
    launch: Launch,
    items: Sequence[MapItem],
    arguments: Sequence[Any],
    arrays: Sequence[HostArray],
    on_host: Sequence[bool],
) -> Touching:
    """Return what a launch does with managed memory, remembered with a construct.

    `arrays`: the arrays among the arguments; `on_host`: whether each is managed memory, used in place.
    """
    known = items.touching.get(device) if isinstance(items, MapItems) else None
    if isinstance(known, KnownTouching) and known.on_host == on_host and known.launch is launch:
        return known.touching
    managed = {array for array, in_place in zip(arrays, on_host, strict=True) if in_place}
    uses = {use.position: use for use in launch.kernel.arrays}
    found: dict[ManagedAccess, None] = {}
    for position, argument in enumerate(arguments):
        array = argument.pointers if isinstance(argument, Pointees) else argument
        if isinstance(array, HostArray) and array in managed:
            whole = isinstance(argument, Pointees)
            found.update(dict.fromkeys(_accesses(uses.get(position), launch, array, whole, sections(items, array))))
    touching = Touching(accesses=tuple(found)) if found else NOTHING
    if isinstance(items, MapItems):
        items.touching[device] = KnownTouching(launch, on_host, touching)
    return touching


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
