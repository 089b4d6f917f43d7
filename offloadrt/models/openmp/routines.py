"""The device memory routines of OpenMP (`omp_target_*`), but for copies (`memory_copies.py`).

Each is a method of `HostThread`, which is their first argument ``t``. Names and results are OpenMP's.
"""

from __future__ import annotations

from collections.abc import Awaitable

import numpy as np

from offloadrt.driver import DriverError
from offloadrt.models.host.section import Section
from offloadrt.models.openmp.routine_caller import (
    OFFLOAD_FAIL,
    Caller,
    chosen,
    host_place,
    in_place,
    in_routine,
    initial_device,
    integer,
    is_host,
)
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.device_pointer import DevicePointer
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.errors import InvalidFree
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.data_environment import get_present_pointer
from offloadrt.runtime.mapping.program_pointers import associate_pointer, disassociate_pointer


def omp_get_num_devices(t: Caller) -> int:
    return t.program.num_devices


def omp_get_initial_device(t: Caller) -> int:
    """Return the host's device number."""
    return initial_device(t)


def omp_get_default_device(t: Caller) -> int:
    return t.default_device


def omp_set_default_device(t: Caller, number: int) -> None:
    """Set the default device of this thread, as default-device-var is the task's own.

    The initial device is the host. Raises InvalidDevice.
    """
    if not is_host(t, number):
        t.program.device(number, "omp_set_default_device")
    t.default_device = number


def omp_pause_resource(t: Caller, kind: str, device: int | None = None) -> int:
    """Ask for a pause of a device, `soft` or `hard`. LLVM 22 refuses: returns 1, and nothing is given back; host: 0."""
    if kind not in ("soft", "hard"):
        raise ValueError(f"omp_pause_resource: kind is {kind!r}; there are soft and hard")
    return 0 if is_host(t, device) else 1


async def omp_target_alloc(
    t: Caller, nbytes: int, device: int | None = None, phantom: bool | None = None
) -> DevicePointer | None:
    """Allocate device memory, on the initial device of the host's heap.

    Returns None when there is none left, or for nothing.

    Its elements have no type: a kernel in source takes what ``pointer.viewed(np.float64)`` returns. phantom:
    without bytes; by default as the program's arrays.
    """
    if integer(nbytes, "omp_target_alloc", "its size") <= 0:
        return None
    ghost = t.program.phantom if phantom is None else phantom
    if is_host(t, device):
        array = t.array("omp_target_alloc", nbytes, np.uint8, phantom=ghost, kind="heap")
        return DevicePointer(array.address, nbytes, initial_device(t), ghost, host=array)
    addresses: list[int] = []

    async def allocate(where: OffloadDevice, queue: DirectiveQueue) -> None:
        try:
            addresses.append(await where.allocate(nbytes, None, 0, ghost))
            where.requested.add(addresses[0])
        except DriverError as error:
            where.report(f"omp_target_alloc: {error}")

    where = await in_routine(t, "omp_target_alloc", device, allocate)
    return DevicePointer(addresses[0], nbytes, where.number, ghost) if addresses else None


async def omp_target_free(t: Caller, pointer: DevicePointer | None) -> None:
    """Free what omp_target_alloc gave. Nothing happens for None.

    Raises InvalidFree where no block begins, or for the second time; TypeError for what is no pointer.
    """
    if pointer is None:
        return
    if not isinstance(pointer, DevicePointer):
        raise TypeError(f"omp_target_free takes what omp_target_alloc returned, not {pointer!r}")
    if pointer.host is not None:
        t.free(pointer.host)
        return
    address = pointer.address

    def free(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
        if where.block_size(address) is None:
            why = f"no block of the device begins at {address:#x}, or it was freed before"
            raise where.error(InvalidFree, f"omp_target_free: {why}", "omp_target_free", "")
        return where.free(address, None, 0)

    await in_routine(t, "omp_target_free", pointer.device, free)


async def omp_target_is_present(t: Caller, place: HostArray | Section | None, device: int | None = None) -> bool:
    """Return whether the first byte is in the device's present table; not of a null pointer, nor one of a device."""
    if place is None:
        return False
    if is_host(t, device):
        return True
    if isinstance(place, DevicePointer):
        return False
    return (await _find(t, "omp_target_is_present", place, 1, device))[0] is not None


async def omp_target_is_accessible(
    t: Caller, place: HostArray | Section, nbytes: int, device: int | None = None
) -> bool:
    """Return whether the device can use this host memory directly."""
    if is_host(t, device):
        return True
    return t.program.device(chosen(t, device), "omp_target_is_accessible").host_pointers


async def omp_get_mapped_ptr(
    t: Caller, place: HostArray | Section | None, device: int | None = None
) -> DevicePointer | None:
    """Return the device address of the first byte; on the initial device, where it is.

    None if it is not mapped, for a null pointer, a device pointer and a device that does not exist.
    """
    if place is None or isinstance(place, DevicePointer) or not 0 <= chosen(t, device) <= initial_device(t):
        return None
    array, begin = host_place(place)
    named = () if isinstance(place, HostArray) else place.extents
    shape = (*(extent.length for extent in named), *array.shape[len(named) :])
    if is_host(t, device):
        return in_place(array, begin, initial_device(t), shape)
    address, where = await _find(t, "omp_get_mapped_ptr", place, 1, device)
    if address is None:
        return None
    return DevicePointer(address, place.nbytes, where.number, array.phantom, array.dtype, shape)


async def omp_target_associate_ptr(
    t: Caller,
    place: HostArray | Section | None,
    pointer: DevicePointer | None,
    nbytes: int,
    device_offset: int = 0,
    device: int | None = None,
) -> int:
    """Enter host memory in the present table, with this device memory and an infinite count.

    Returns 0 or -1, which it always is for the initial device, a null pointer and no bytes.
    """
    if place is None or pointer is None or integer(nbytes, "omp_target_associate_ptr", "its size") <= 0:
        return OFFLOAD_FAIL
    number = pointer.device if device is None else device
    if is_host(t, number):
        return OFFLOAD_FAIL
    array, begin = host_place(place)
    result: list[int] = []

    async def associate(where: OffloadDevice, queue: DirectiveQueue) -> None:
        result.append(await associate_pointer(where, array, begin, nbytes, pointer.address + device_offset))

    await in_routine(t, "omp_target_associate_ptr", number, associate)
    return result[0]


async def omp_target_disassociate_ptr(t: Caller, place: HostArray | Section, device: int | None = None) -> int:
    """Remove what omp_target_associate_ptr entered; 0 or -1."""
    if is_host(t, device):
        return OFFLOAD_FAIL
    array, begin = host_place(place)
    result: list[int] = []

    async def disassociate(where: OffloadDevice, queue: DirectiveQueue) -> None:
        result.append(await disassociate_pointer(where, array, begin))

    await in_routine(t, "omp_target_disassociate_ptr", device, disassociate)
    return result[0]


async def _find(
    t: Caller, name: str, place: HostArray | Section, nbytes: int, device: int | None
) -> tuple[int | None, OffloadDevice]:
    array, begin = host_place(place)
    addresses: list[int | None] = []

    async def look(where: OffloadDevice, queue: DirectiveQueue) -> None:
        pointer = await get_present_pointer(where, array, begin, nbytes, queue.cause)
        addresses.append(None if pointer.entry is None else pointer.address)

    where = await in_routine(t, name, device, look)
    return addresses[0], where
