"""Device addresses that the program associates with the host's memory (`omp_target_associate_ptr`)."""

from __future__ import annotations

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.events import PointerAssociated, PointerDisassociated
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.data_environment import enter_entry, remove_entry
from offloadrt.runtime.mapping.present_table import INFINITE, Entry

SUCCESS = 0
FAIL = -1


async def associate_pointer(
    device: OffloadDevice, array: HostArray, begin: int, nbytes: int, device_address: int
) -> int:
    """Map host bytes from `begin` on to `device_address`, for ever; return SUCCESS, or FAIL if mapped elsewhere."""
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
    """Remove the association of host address `begin`; return SUCCESS, or FAIL if there is none or a map uses it."""
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
