"""Device addresses of arrays that have to be on the device: several look-ups in one hold of the table, no count."""

from __future__ import annotations

from collections.abc import Sequence

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.device_pointer import DevicePointer
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.errors import NotPresent
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping import trace_lookup


async def device_pointers(
    device: OffloadDevice, arrays: Sequence[HostArray], queue: DirectiveQueue, call: str
) -> list[DevicePointer]:
    """Where these arrays lie; the queue then waits for copies to them that are in progress. Raises NotPresent for one
    of which not all is mapped.
    """
    pointers: list[DevicePointer] = []
    pending = []
    device.table_lock.take_now() or await device.lock_table()
    try:
        await device.table_work(device.costs.lookup * len(arrays))
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
            pointers.append(
                DevicePointer(address, array.nbytes, device.number, array.phantom, array.dtype, array.shape)
            )
            if entry.event is not None and not device.plugin.is_complete(entry.event):
                pending.append(entry.event)
    finally:
        device.table_lock.release()
    for event in pending:
        await device.plugin.wait_event(queue, event)
    return pointers
