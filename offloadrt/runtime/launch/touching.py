"""What a kernel touches of the host's memory, which a device with page faults has to be told at its launch.

Of each argument that the device uses in place: the ranges of elements that the kernel's source says, as far as the
region maps them. Where data decide, or the kernel is declared by its costs: the sections that the region maps; the
whole array when it maps none, as a pointer says nothing of its extent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import attrs

from offloadrt.driver import NOTHING, Touching
from offloadrt.kernels import Launch
from offloadrt.kernels.costs.streams import AccessStream
from offloadrt.kernels.ranges.reach import merged
from offloadrt.machine import AccessFault, MemoryAccessFault
from offloadrt.machine.host.host_contents import HostContents
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.kernel_arguments import Pointees
from offloadrt.runtime.mapping.map_item import MapItem, MapItems
from offloadrt.runtime.mapping.map_type import ATTACH, LITERAL, PRIVATE
from offloadrt.sim import Actor


@attrs.define(eq=False)
class KnownTouching:
    """What was found for a construct: with these arguments in these places."""

    launch: Launch
    on_host: Sequence[bool]
    touching: Touching


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
    """Return what a launch touches of the host's memory, remembered with a construct.

    `arrays`: the arrays among the arguments; `on_host`: whether the device uses each in place.

    A global of the host is reached through a pointer on the device, which takes `usm.global_indirection` longer.
    """
    known = items.touching.get(device.number) if isinstance(items, MapItems) else None
    known = known if isinstance(known, KnownTouching) and known.launch is launch else None
    if known is not None and (known.on_host is on_host or known.on_host == on_host):
        known.on_host = on_host  # the same list next time, which need not be compared
        return known.touching
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
    touching = Touching(tuple(ranges), serial_s) if ranges else NOTHING
    if isinstance(items, MapItems):
        items.touching[device.number] = KnownTouching(launch, on_host, touching)
    return touching


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
