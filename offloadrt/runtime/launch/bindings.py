"""Where a kernel finds its arguments, each looked up in the present table (`processDataBefore` in omptarget.cpp)."""

from __future__ import annotations

from collections.abc import Sequence

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.private_arguments import PrivateArguments
from offloadrt.runtime.mapping.binding import NOWHERE, ON_HOST, Binding
from offloadrt.runtime.mapping.data_environment import pointer_span
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.map_type import FIRST_MEMBER, LAMBDA, LITERAL
from offloadrt.runtime.mapping.present_table import ShadowPointer
from offloadrt.runtime.mapping.table_visits import lock_visited, pass_visited, trace_lookup
from offloadrt.runtime.mapping.unmapping import get_present_pointer


async def bind_arguments(
    device: OffloadDevice, items: Sequence[MapItem], queue: DirectiveQueue, bindings: dict[HostArray, Binding]
) -> PrivateArguments:
    """Bind the arguments that are not bound yet, one by one; returns the private ones among them, transferred."""
    private = PrivateArguments(device, queue)
    queue.private = private.free
    table, lookup_s, trace = device.table_lock, device.costs.lookup, device.trace
    present, known = device.table, device.table.known
    absent = unmapped(device)
    for position, item in enumerate(items):
        flags, array = item.flags, item.array
        if not flags.parameter or array is None:
            bits = item.type
            if bits & LAMBDA == LAMBDA and bits >= FIRST_MEMBER:
                await _capture(device, item, items[(item.type >> 48) - 1], private, queue)
            continue
        if flags.not_mapped:
            if item.type & LITERAL:
                bindings[array] = _in_hand(device, array)
            else:
                following = items[position + 1].type if position + 1 < len(items) else 0
                await private.add(item, at_once=following >= FIRST_MEMBER)
            continue
        begin, size = section = item.section
        await table.enter(lookup_s, begin, size, False)
        try:
            lookup = known.get(section) or present.lookup(begin, size)
            if not pass_visited(device, lookup):
                await lock_visited(device, lookup, False)
            if trace is not None:
                trace_lookup(device, queue.cause, array, begin, size, lookup.contained)
        finally:
            table.release()
        if (entry := lookup.pointer.entry) is not None:
            bindings[array] = entry.binding
        else:
            # Another part of the array may be present: a pointer beside it that nobody follows hides nothing.
            bindings.setdefault(array, ON_HOST if array.managed else absent)
    if private.packed:
        await private.transfer()
    for item, binding in private.placed:
        if item.array is not None:
            bindings[item.array] = binding
    return private


def unmapped(device: OffloadDevice) -> Binding:
    """Return where a kernel finds an array of which nothing is mapped."""
    return ON_HOST if device.host_pointers or device.plugin.kernels_fault else NOWHERE


async def _capture(
    device: OffloadDevice, item: MapItem, parent: MapItem, private: PrivateArguments, queue: DirectiveQueue
) -> None:
    """Write the device address of a variable into the device's copy of the lambda that captured it by reference."""
    captured = await get_present_pointer(device, item.array, item.begin, item.size, queue.cause)
    into = next((binding.address for item, binding in private.placed if item is parent), None)
    if into is None and (entry := device.table.lookup(parent.begin, parent.size).entry) is not None:
        into = entry.device_address(parent.begin)
    if captured.entry is None or into is None:
        return
    value, block = captured.entry.device_address(item.begin), captured.entry.binding
    source = pointer_span(ShadowPointer(item.base, into, item.begin, value, block))
    await device.submit(queue, into + item.base - parent.begin, source, None, op="attach")


def _in_hand(device: OffloadDevice, array: HostArray) -> Binding:
    """Bind an array whose device address the program passes itself (has_device_addr).

    The runtime searches nothing, so this takes no time.
    """
    if array.managed:
        return ON_HOST
    found = device.table.lookup(array.address, array.nbytes)
    if found.entry is not None and found.overlaps:
        return found.entry.binding
    return Binding(None, is_host=device.host_pointers)
