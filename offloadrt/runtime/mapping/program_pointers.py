"""Device addresses in the program's own hands: what it associates with the host's memory, and what it asks for.

Several look-ups for one request come in one hold of the table and count nothing. A program that asks for the same
arrays again and again keeps what was found (`ResolvedArrays`): it holds until an entry of the table comes or goes. The
look-ups take their time all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.errors import NotPresent
from offloadrt.runtime.events import PointerAssociated, PointerDisassociated, SectionFound
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.data_environment import enter_entry, remove_entry
from offloadrt.runtime.mapping.map_item import DirectiveQueue
from offloadrt.runtime.mapping.present_table import INFINITE, DevicePointer, Entry

SUCCESS = 0
FAIL = -1


async def associate_pointer(
    device: OffloadDevice, array: HostArray, begin: int, nbytes: int, device_address: int
) -> int:
    """Enter [begin, begin + nbytes) with an infinite count. Fails if something else begins there (`associatePtr`)."""
    if device.tell is not None:
        device.tell(PointerAssociated(device.number, array, begin, device_address, nbytes))
    await device.table_lock.enter(device.costs.insert)
    try:
        known = device.table.at(begin)
        if known is not None:
            await device.lock_entry(known)
            same = known.size == nbytes and known.device_begin == device_address
            device.unlock_entry(known)
            if not same:
                device.report(
                    "omptarget error: Not allowed to re-associate a different device ptr+offset with the same host ptr"
                )
            return SUCCESS if same else FAIL
        entry = Entry(
            name=array.name,
            host_base=begin,
            host_begin=begin,
            host_end=begin + nbytes,
            device_begin=device_address,
            dynamic=INFINITE,
            hold=0,
            lock=device.entry_locks.take(array.name),
            phantom=array.phantom,
            owned=False,
            offset=begin - array.address,
        )
        enter_entry(device, device.sim.current.cause, entry)
        return SUCCESS
    finally:
        device.table_lock.release()


async def disassociate_pointer(device: OffloadDevice, array: HostArray, begin: int) -> int:
    """Remove an association. Fails for what was mapped, is held or is not there (`disassociatePtr`)."""
    if device.tell is not None:
        device.tell(PointerDisassociated(device.number, begin))
    await device.table_lock.enter(device.costs.erase)
    try:
        entry = device.table.at(begin)
        if entry is None:
            device.report("omptarget error: Association not found")
            return FAIL
        await device.lock_entry(entry)
        held, infinite = entry.hold, entry.dynamic == INFINITE
        device.unlock_entry(entry)
        if held:
            device.report("omptarget error: Trying to disassociate a pointer with a non-zero hold reference count")
            return FAIL
        if not infinite:
            device.report(
                "omptarget error: Trying to disassociate a pointer which was not mapped via omp_target_associate_ptr"
            )
            return FAIL
        remove_entry(device, device.sim.current.cause, entry)
        device.entry_locks.give_back(entry.lock)
        return SUCCESS
    finally:
        device.table_lock.release()


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
        if known is None or known.generation != device.table.generation or device.tell is not None:
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
        if device.tell is not None:
            begin, nbytes = array.address, array.nbytes
            device.tell(SectionFound(queue.cause, device.number, array, begin, nbytes, found.contained))
        entry = found.entry
        if entry is None or not found.contained:
            raise device.error(
                NotPresent, f"array {array.name!r} ({array.nbytes} bytes) is not present", call, array.name
            )
        address = entry.device_address(array.address)
        pointers.append(DevicePointer(address, array.nbytes, device.number, array.phantom, array.dtype, array.shape))
        entries.append(entry)
    return ResolvedArrays(device.table.generation, tuple(pointers), tuple(entries))
