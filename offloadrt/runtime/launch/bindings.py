"""Where a kernel finds its arguments, each looked up in the present table (`processDataBefore` in omptarget.cpp)."""

from __future__ import annotations

from collections.abc import Sequence

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.private_arguments import PrivateArguments
from offloadrt.runtime.mapping.binding import NOWHERE, ON_HOST, Binding
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.map_type import LITERAL, PRIVATE, TARGET_PARAM
from offloadrt.runtime.mapping.unmapping import find_present


async def bind_arguments(
    device: OffloadDevice, items: Sequence[MapItem], queue: DirectiveQueue, bindings: dict[HostArray, Binding]
) -> PrivateArguments:
    """Bind the arguments that are not bound yet, one by one; returns the private ones among them, transferred."""
    private = PrivateArguments(device, queue)
    queue.private = private.free
    table, lookup_s = device.table_lock, device.costs.lookup
    absent = ON_HOST if device.configuration.host_pointers or device.plugin.kernels_fault else NOWHERE
    for item in items:
        if not item.type & TARGET_PARAM or item.array is None or item.array in bindings:
            continue
        if item.type & LITERAL:
            bindings[item.array] = _in_hand(device, item.array)
            continue
        if item.type & PRIVATE:
            await private.add(item)
            continue
        await table.enter(lookup_s, item.begin, item.size, False)
        entry = (await find_present(device, item.array, item.begin, item.size, cause=queue.cause)).entry
        bindings[item.array] = absent if entry is None else entry.binding
        if entry is None and item.array.managed:
            bindings[item.array] = ON_HOST
    await private.transfer()
    for array, address in private.addresses.items():
        bindings[array] = Binding(address, array.address, array.address + array.nbytes)
    return private


def _in_hand(device: OffloadDevice, array: HostArray) -> Binding:
    """Bind an array whose device address the program passes itself (has_device_addr).

    The runtime searches nothing, so this takes no time.
    """
    if array.managed:
        return ON_HOST
    found = device.table.lookup(array.address, array.nbytes)
    if found.entry is not None and found.overlaps:
        return found.entry.binding
    return Binding(None, is_host=device.configuration.host_pointers)
