"""What a kernel touches of the host's memory, which a device with page faults has to be told at its launch.

Of each argument that the device uses in place: the sections of it that the region maps; the whole array when it maps
none, as a pointer says nothing of its extent.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from offloadrt.driver import NOTHING, Touching
from offloadrt.machine import AccessFault, MemoryAccessFault
from offloadrt.machine.host_contents import HostContents
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.map_item import MapItem, MapItems
from offloadrt.runtime.map_type import ATTACH, LITERAL, PRIVATE
from offloadrt.sim import Actor


@attrs.define(eq=False)
class _Known:
    """What was found for a construct: with these arguments in these places."""

    on_host: Sequence[bool]
    touching: Touching


def touching_of(
    device: OffloadDevice, items: Sequence[MapItem], arrays: Sequence[HostArray], on_host: Sequence[bool]
) -> Touching:
    """`arrays`: the region's arguments; `on_host`: whether the device uses each in place. Remembered with a construct.

    A global of the host is reached through a pointer on the device, which takes `usm.global_indirection` longer.
    """
    known = items.touching.get(device.number) if isinstance(items, MapItems) else None
    if isinstance(known, _Known) and (known.on_host is on_host or known.on_host == on_host):
        known.on_host = on_host  # the same list next time, which need not be compared
        return known.touching
    ranges: dict[tuple[int, int], None] = {}
    indirect = False
    for array, in_place in zip(arrays, on_host, strict=True):
        if in_place:
            ranges.update(dict.fromkeys(sections(items, array)))
            indirect = indirect or (array.kind in ("global", "link") and device.configuration.globals_on_host)
    serial_s = device.plugin.global_indirection if indirect else 0.0
    touching = Touching(tuple(ranges), serial_s) if ranges else NOTHING
    if isinstance(items, MapItems):
        items.touching[device.number] = _Known(on_host, touching)
    return touching


def sections(items: Sequence[MapItem], array: HostArray) -> list[tuple[int, int]]:
    """(address, bytes) of what a region maps of an array: the sections, or the whole array when it maps none."""
    mapped = [
        (item.begin, item.size)
        for item in items
        if item.array is array and item.size and not item.type & (ATTACH | LITERAL | PRIVATE) and not item.dimensions
    ]
    return mapped or ([(array.address, array.nbytes)] if array.nbytes else [])


def dying(touching: Touching, queue: DirectiveQueue, contents: HostContents, thread: Actor) -> Touching:
    """The same for a device on which a kernel dies of a missing page: the thread that waits for the queue is told."""

    def fault(fault: AccessFault) -> None:
        array = contents.find(fault.address)
        queue.kernel_error = MemoryAccessFault(fault, "" if array is None else array.name, thread.name)

    return Touching(touching.ranges, touching.serial_s, fault)
