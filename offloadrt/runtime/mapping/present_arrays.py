"""Device addresses of arrays that have to be on the device: several look-ups in one hold of the table, no count.

A program that asks for the same arrays again and again keeps what was found (`ResolvedArrays`): it holds until an
entry of the table comes or goes. The look-ups take their time all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.device_pointer import DevicePointer
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.errors import NotPresent
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.present_table import Entry
from offloadrt.runtime.mapping.table_visits import trace_lookup


@attrs.frozen(eq=False)
class ResolvedArrays:
    """Arrays of one device, at one state of its table. pointers: where they lie, in their order."""

    generation: int
    pointers: tuple[DevicePointer, ...]
    entries: tuple[Entry, ...]


async def device_pointers(
    device: OffloadDevice,
    arrays: Sequence[HostArray],
    queue: DirectiveQueue,
    call: str,
    known: ResolvedArrays | None = None,
) -> ResolvedArrays:
    """Find where these arrays lie; the queue then waits for copies to them that are in progress.

    known: what the last call for the same arrays returned. Raises NotPresent for an array of which not all is mapped.
    """
    await device.table_lock.enter(device.costs.lookup * len(arrays))
    try:
        if known is None or known.generation != device.table.generation or device.trace is not None:
            known = _look_up(device, arrays, queue, call)
        is_complete = device.plugin.is_complete
        pending = [e.event for e in known.entries if e.event is not None and not is_complete(e.event)]
    finally:
        device.table_lock.release()
    for event in pending:
        await device.plugin.wait_event(queue, event)
    return known


def _look_up(device: OffloadDevice, arrays: Sequence[HostArray], queue: DirectiveQueue, call: str) -> ResolvedArrays:
    pointers: list[DevicePointer] = []
    entries: list[Entry] = []
    for array in arrays:
        found = device.table.lookup(array.address, array.nbytes)
        if device.trace is not None:
            trace_lookup(device, queue.cause, array, array.address, array.nbytes, found.contained)
        entry = found.entry
        if entry is None or not found.contained:
            raise device.error(
                NotPresent, f"array {array.name!r} ({array.nbytes} bytes) is not present", call, array.name
            )
        address = entry.device_address(array.address)
        pointers.append(DevicePointer(address, array.nbytes, device.number, array.phantom, array.dtype, array.shape))
        entries.append(entry)
    return ResolvedArrays(device.table.generation, tuple(pointers), tuple(entries))
