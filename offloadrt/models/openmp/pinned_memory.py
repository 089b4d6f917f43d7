"""Pinned memory of the host in OpenMP programs: the allocator trait ``pinned``, and LLVM's routines for memory.

Copies between pinned memory and a device need no staging.  As in LLVM 22, an allocator with the trait has the device's
library lock what the C library allocated (cuMemHostRegister); ``llvm_omp_target_alloc_host`` asks the device's library
for the memory itself (cuMemAllocHost).
"""

from __future__ import annotations

import math
from collections.abc import Awaitable
from typing import Any

import attrs
import numpy as np
from numpy.typing import DTypeLike

from offloadrt.driver import DriverError
from offloadrt.models.openmp.routine_caller import Caller, chosen, in_routine, is_host
from offloadrt.models.openmp.routines import omp_target_alloc
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.device_pointer import DevicePointer
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.errors import InvalidFree
from offloadrt.runtime.host_array import HostArray, element_of, make_values, shape_of

_PAGE, _ALIGNMENT = 4096, 16
"""Bytes to which pinned blocks are aligned here, so that no two share a page, and others."""


@attrs.frozen
class OmpAllocator:
    """An allocator of host memory (omp_allocator_handle_t), with the traits that matter to devices."""

    pinned: bool = False


def omp_init_allocator(t: Caller, *, pinned: bool = False) -> OmpAllocator:
    """Make an allocator of the default memory space (omp_init_allocator). pinned: omp_atk_pinned."""
    return OmpAllocator(pinned)


async def omp_alloc(
    t: Caller,
    name: str,
    shape: int | tuple[int, ...],
    dtype: DTypeLike = np.float64,
    *,
    allocator: OmpAllocator,
    fill: Any = None,
    device: int | None = None,
) -> HostArray:
    """Allocate an array of the host by an allocator (omp_alloc); free it by `omp_free`.

    device: whose library pins it, by default the default device's. Raises DriverError where it cannot.
    """
    array = t.array(name, shape, dtype, fill, None, "heap", _PAGE if allocator.pinned else _ALIGNMENT)
    if allocator.pinned and array.nbytes and not is_host(t, device):

        def pin(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
            return where.driver.pinning.register(array.address, array.nbytes)

        await in_routine(t, "omp_alloc", device, pin, mandatory=False)
    return array


async def omp_free(t: Caller, array: HostArray, *, allocator: OmpAllocator, device: int | None = None) -> None:
    """Free what `omp_alloc` gave, by the same allocator (omp_free).

    Raises InvalidFree for other memory, or the second time, and DriverError for memory that is not pinned.
    """
    if allocator.pinned and array.nbytes and not array.freed and not is_host(t, device):

        def unpin(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
            return where.driver.pinning.unregister(array.address)

        await in_routine(t, "omp_free", device, unpin, mandatory=False)
    t.program.arrays.free(array)


async def llvm_omp_target_alloc_host(
    t: Caller,
    name: str,
    shape: int | tuple[int, ...],
    dtype: DTypeLike = np.float64,
    *,
    fill: Any = None,
    device: int | None = None,
) -> HostArray:
    """Allocate pinned memory of the host by the device's library; free it by `llvm_omp_target_free_host`.

    Raises ValueError for no bytes, and DriverError where the library has none.
    """
    lengths, element = shape_of(name, shape), element_of(name, dtype)
    nbytes = math.prod(lengths) * element.itemsize
    if not nbytes:
        raise ValueError(f"array {name!r} of no bytes")
    addresses: list[int] = []

    async def allocate(where: OffloadDevice, queue: DirectiveQueue) -> None:
        addresses.append(await where.driver.pinning.alloc(nbytes))

    await in_routine(t, "llvm_omp_target_alloc_host", device, allocate, mandatory=False)
    values = None if t.program.phantom else make_values(name, lengths, element, fill)
    return t.program.arrays.place(HostArray(name, addresses[0], lengths, element, "heap", 0, values), True)


async def llvm_omp_target_free_host(t: Caller, array: HostArray, device: int | None = None) -> None:
    """Free what `llvm_omp_target_alloc_host` gave. Raises InvalidFree for other memory, or the second time."""

    async def free(where: OffloadDevice, queue: DirectiveQueue) -> None:
        name = "llvm_omp_target_free_host"
        try:
            await where.driver.pinning.free(array.address)
        except DriverError as error:
            raise where.error(InvalidFree, f"{name} of {array.name!r}: {error}", name, array.name) from None

    await in_routine(t, "llvm_omp_target_free_host", device, free, mandatory=False)
    t.program.arrays.forget(array)


async def llvm_omp_target_alloc_device(t: Caller, nbytes: int, device: int | None = None) -> DevicePointer | None:
    """Allocate memory of a device, as `omp_target_alloc` does."""
    return await omp_target_alloc(t, nbytes, device)


async def llvm_omp_target_alloc_shared(
    t: Caller, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, device: int | None = None
) -> HostArray:
    """Allocate memory that migrates between host and device, as `HostThread.managed_array` does."""
    if chosen(t, device) != t.default_device:
        raise ValueError("llvm_omp_target_alloc_shared: managed memory is of the default device here")
    return await t.managed_array(name, shape, dtype)
