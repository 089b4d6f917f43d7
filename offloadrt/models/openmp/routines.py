"""The routines of OpenMP for devices and their memory, as methods of a host thread (`RoutineCaller`).

Names and results are OpenMP's. If a driver call fails during a copy, the routine returns an error code, as LLVM's.

Copies between pinned memory and a device need no staging.  As in LLVM 22, an allocator with the trait ``pinned`` has
the device's library lock what the C library allocated (cuMemHostRegister); ``llvm_omp_target_alloc_host`` asks the
device's library for the memory itself (cuMemAllocHost).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeGuard

import attrs
import numpy as np
from numpy.typing import DTypeLike

from offloadrt.driver import Advice, DriverError
from offloadrt.kernels.integers import is_integer
from offloadrt.machine import Machine
from offloadrt.models.host.arguments import checks_arguments
from offloadrt.models.host.directive import Work, in_directive
from offloadrt.models.host.program import OffloadProgram, ProgramThread
from offloadrt.models.openmp.clauses import Depend, items_of
from offloadrt.models.openmp.lowering import INITIAL_DEVICE, check_dependences
from offloadrt.models.openmp.tasks import HiddenHelpers, TaskRegion
from offloadrt.runtime.configurations.managed import why_nothing_migrates
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.errors import InvalidFree, OutsideArray, UnifiedMemoryUnavailable
from offloadrt.runtime.events import ArrayMade, DataCopied, HostUsed
from offloadrt.runtime.host_array import (
    HostArray,
    HostSpan,
    Section,
    array_of,
    element_of,
    extent,
    make_values,
    shape_of,
)
from offloadrt.runtime.mapping.data_environment import get_present_pointer
from offloadrt.runtime.mapping.map_item import DirectiveQueue
from offloadrt.runtime.mapping.present_table import DevicePointer
from offloadrt.runtime.mapping.program_pointers import associate_pointer, disassociate_pointer

OFFLOAD_SUCCESS = 0
OFFLOAD_FAIL = -1
Pointer = HostArray | Section | DevicePointer
MAX_DIMENSIONS = 2**31 - 1
"""The number of dimensions that omp_target_memcpy_rect supports (INT_MAX): its result for two null pointers."""
_PAGE, _ALIGNMENT = 4096, 16
"""Alignment in bytes of pinned blocks, so that no two share a page, and of other blocks."""


@attrs.frozen
class OmpAllocator:
    """An allocator of host memory (omp_allocator_handle_t). pinned: its memory is page-locked."""

    pinned: bool = False


@checks_arguments
class RoutineCaller(ProgramThread):
    """The part of a host thread with OpenMP's routines, and with CUDA's for managed memory, which OpenMP lacks."""

    def __init__(self, program: OffloadProgram[Any], helpers: HiddenHelpers, *membership: Any) -> None:
        super().__init__(program, *membership)
        self.helpers = helpers
        self.tasks = TaskRegion()
        self.default_device = 0
        """The number of the default device: OpenMP's ICV default-device-var, which the thread's implicit task has."""

    def omp_get_num_devices(self) -> int:
        return self.program.num_devices

    def omp_get_initial_device(self) -> int:
        """Return the device number of the initial device, which is the host."""
        return initial_device(self)

    def omp_get_default_device(self) -> int:
        return self.default_device

    def omp_set_default_device(self, number: int) -> None:
        """Set this thread's default device (default-device-var of its implicit task).

        The number of the initial device stands for the host. Raises InvalidDevice for a number that does not exist.
        """
        if not is_host(self, number):
            self.program.device(number, "omp_set_default_device")
        self.default_device = number

    def omp_pause_resource(self, kind: Literal["soft", "hard"], device: int | None = None) -> int:
        """Request a `soft` or `hard` pause, which LLVM 22 refuses: return 1 for a device, and 0 for the host."""
        return 0 if is_host(self, device) else 1

    async def omp_target_alloc(
        self, nbytes: int, device: int | None = None, phantom: bool | None = None
    ) -> DevicePointer | None:
        """Allocate device memory; on the initial device, allocate from the host's heap.

        Returns None when no memory is left, or for 0 bytes. The memory has no element type: pass
        ``pointer.viewed(np.float64)`` to a kernel that is a loop nest. phantom: whether the memory has a size without
        bytes; by default as the program's arrays.
        """
        if nbytes <= 0:
            return None
        nbytes, ghost = int(nbytes), self.program.phantom if phantom is None else phantom
        if is_host(self, device):
            array = self.array("omp_target_alloc", nbytes, np.uint8, phantom=ghost, kind="heap")
            return DevicePointer(array.address, nbytes, initial_device(self), ghost, host=array)
        addresses: list[int] = []

        async def allocate(where: OffloadDevice, queue: DirectiveQueue) -> None:
            try:
                addresses.append(await where.allocate(nbytes, None, 0, ghost))
                where.requested.add(addresses[0])
            except DriverError as error:
                where.report(f"omp_target_alloc: {error}")

        where = await in_routine(self, "omp_target_alloc", device, allocate)
        return DevicePointer(addresses[0], nbytes, where.number, ghost) if addresses else None

    async def omp_target_free(self, pointer: DevicePointer | None, device: int | None = None) -> None:
        """Free memory of omp_target_alloc. Nothing happens for None.

        Raises InvalidFree where no block begins, or for a second free; TypeError for an object that is no pointer;
        ValueError for memory of another device.
        """
        if pointer is None:
            return
        _on(self, "omp_target_free", pointer=(pointer, device))
        if pointer.host is not None:
            self.free(pointer.host)
            return
        address = pointer.address

        def free(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
            if where.block_size(address) is None:
                why = f"no block of the device begins at {address:#x}, or it was freed before"
                raise where.error(InvalidFree, f"omp_target_free: {why}", "omp_target_free", "")
            return where.free(address, None, 0)

        await in_routine(self, "omp_target_free", pointer.device, free)

    async def omp_target_is_present(self, place: Pointer | None, device: int | None = None) -> bool:
        """Return whether the first byte of `place` is mapped on the device; False for a null or a device pointer."""
        if place is None:
            return False
        if is_host(self, device):
            return True
        if isinstance(place, DevicePointer):
            return False
        return (await _find(self, "omp_target_is_present", place, 1, device))[0] is not None

    async def omp_target_is_accessible(self, place: Pointer | None, nbytes: int, device: int | None = None) -> bool:
        """Return whether the device can use `nbytes` of host memory at `place` directly."""
        if is_host(self, device):
            return True
        return self.program.device(chosen(self, device), "omp_target_is_accessible").host_pointers

    async def omp_get_mapped_ptr(self, place: Pointer | None, device: int | None = None) -> DevicePointer | None:
        """Return the device address of the first byte of `place`; on the initial device, its host address.

        None if it is not mapped, for a null pointer, a device pointer and a device that does not exist.
        """
        if place is None or isinstance(place, DevicePointer) or not 0 <= chosen(self, device) <= initial_device(self):
            return None
        array, begin = host_span(place)
        named = () if isinstance(place, HostArray) else place.extents
        shape = (*(extent.length for extent in named), *array.shape[len(named) :])
        if is_host(self, device):
            return in_place(array, begin, initial_device(self), shape)
        address, where = await _find(self, "omp_get_mapped_ptr", place, 1, device)
        if address is None:
            return None
        return DevicePointer(address, place.nbytes, where.number, array.phantom, array.dtype, shape)

    async def omp_target_associate_ptr(
        self, place: HostArray | Section | None, pointer: DevicePointer | None, nbytes: int, device_offset: int = 0,
        device: int | None = None,
    ) -> int:  # fmt: skip
        """Associate the host memory `place` with device memory: a table entry with an infinite reference count.

        device_offset: bytes from `pointer` on. Returns 0 on success, else -1, as for the initial device, a null pointer
        or 0 bytes.
        """
        if place is None or pointer is None or nbytes <= 0:
            return OFFLOAD_FAIL
        number = pointer.device if device is None else device
        if is_host(self, number):
            return OFFLOAD_FAIL
        array, begin = host_span(place)
        result: list[int] = []

        async def associate(where: OffloadDevice, queue: DirectiveQueue) -> None:
            result.append(await associate_pointer(where, array, begin, nbytes, pointer.address + device_offset))

        await in_routine(self, "omp_target_associate_ptr", number, associate)
        return result[0]

    async def omp_target_disassociate_ptr(self, place: HostArray | Section, device: int | None = None) -> int:
        """Remove the association of `place` made by omp_target_associate_ptr; return 0, or -1 on failure."""
        if is_host(self, device):
            return OFFLOAD_FAIL
        array, begin = host_span(place)
        result: list[int] = []

        async def disassociate(where: OffloadDevice, queue: DirectiveQueue) -> None:
            result.append(await disassociate_pointer(where, array, begin))

        await in_routine(self, "omp_target_disassociate_ptr", device, disassociate)
        return result[0]

    async def omp_target_memcpy(
        self, dst: Pointer | None, src: Pointer | None, length: int, dst_offset: int = 0, src_offset: int = 0,
        dst_device: int | None = None, src_device: int | None = None,
    ) -> int:  # fmt: skip
        """Copy `length` bytes from `src` to `dst`; return 0, or -1 for a null pointer or a failed copy.

        Offsets are in bytes. Device numbers may be left out, because a pointer knows its device. Raises ValueError for
        a device to which the pointer given with it does not belong, OutsideArray for bytes outside of a host array.
        """
        if length == 0:
            return OFFLOAD_SUCCESS
        if dst is None or src is None or length < 0:
            return OFFLOAD_FAIL
        call = "omp_target_memcpy"
        _on(self, call, dst=(dst, dst_device), src=(src, src_device))
        if on_device(dst):
            if on_device(src):
                return await _device_to_device(self, call, dst + dst_offset, src + src_offset, length)
            return await _host_to_device(self, call, dst + dst_offset, *_piece(self, call, src, src_offset, length))
        if on_device(src):
            return await _device_to_host(self, call, *_piece(self, call, dst, dst_offset, length), src + src_offset)
        into, destination = _piece(self, call, dst, dst_offset, length)
        out_of, source = _piece(self, call, src, src_offset, length)
        await _touch(self, out_of, source, False)
        await _touch(self, into, destination, True)
        await self.program.machine.host_memory.copy(length)
        if (tell := self.program.tell) is not None:
            tell(HostUsed(out_of, source.address, length, False))
            tell(HostUsed(into, destination.address, length, True))
        _move(destination, source)
        return OFFLOAD_SUCCESS

    async def omp_target_memcpy_async(
        self, dst: Pointer | None, src: Pointer | None, length: int, dst_offset: int = 0, src_offset: int = 0,
        dst_device: int | None = None, src_device: int | None = None, depend: Depend | Sequence[Depend] = (),
    ) -> int:  # fmt: skip
        """Copy as omp_target_memcpy does, in a deferred task, for which `taskwait` waits."""
        if length and (dst is None or src is None):
            return OFFLOAD_FAIL
        _on(self, "omp_target_memcpy_async", dst=(dst, dst_device), src=(src, src_device))
        run = functools.partial(self.omp_target_memcpy, dst, src, length, dst_offset, src_offset)
        await _defer(self, "omp_target_memcpy_async", run, depend)
        return OFFLOAD_SUCCESS

    async def omp_target_memcpy_rect_async(
        self, dst: Pointer | None, src: Pointer | None, element_size: int, volume: Sequence[int],
        dst_offsets: Sequence[int], src_offsets: Sequence[int],
        dst_dimensions: Sequence[int], src_dimensions: Sequence[int],
        dst_device: int | None = None, src_device: int | None = None, depend: Depend | Sequence[Depend] = (),
    ) -> int:  # fmt: skip
        """Copy as omp_target_memcpy_rect does, in a deferred task, for which `taskwait` waits."""
        if dst is None or src is None or element_size < 1 or not volume:
            return _refused_box(dst, src)
        _on(self, "omp_target_memcpy_rect_async", dst=(dst, dst_device), src=(src, src_device))
        run = functools.partial(
            self.omp_target_memcpy_rect,
            dst, src, element_size, volume, dst_offsets, src_offsets, dst_dimensions, src_dimensions,
        )  # fmt: skip
        await _defer(self, "omp_target_memcpy_rect_async", run, depend)
        return OFFLOAD_SUCCESS

    async def omp_target_memset_async(
        self, pointer: DevicePointer | HostArray | None, value: int, nbytes: int, device: int | None = None,
        depend: Depend | Sequence[Depend] = (),
    ) -> DevicePointer | HostArray | None:  # fmt: skip
        """Set bytes as omp_target_memset does, in a deferred task, for which `taskwait` waits."""
        _on(self, "omp_target_memset_async", pointer=(pointer, device))
        await _defer(self, "omp_target_memset_async", lambda: self.omp_target_memset(pointer, value, nbytes), depend)
        return pointer

    async def omp_target_memcpy_rect(
        self, dst: Pointer | None, src: Pointer | None, element_size: int, volume: Sequence[int],
        dst_offsets: Sequence[int], src_offsets: Sequence[int],
        dst_dimensions: Sequence[int], src_dimensions: Sequence[int],
        dst_device: int | None = None, src_device: int | None = None,
    ) -> int:  # fmt: skip
        """Copy a box between two arrays; lengths and offsets are in elements, the innermost dimension last.

        element_size: in bytes. volume: the box's lengths. …_dimensions: the arrays' lengths. Makes a copy for each
        contiguous row, as LLVM does. Raises ValueError for lists of different lengths, and as omp_target_memcpy does.
        """
        if dst is None or src is None or element_size < 1 or not volume:
            return _refused_box(dst, src)
        for name, lengths in {
            "dst_offsets": dst_offsets, "src_offsets": src_offsets,
            "dst_dimensions": dst_dimensions, "src_dimensions": src_dimensions,
        }.items():  # fmt: skip
            if len(lengths) != len(volume):
                raise ValueError(
                    f"omp_target_memcpy_rect: volume has {len(volume)} dimensions, but {name} has {len(lengths)}"
                )
        _on(self, "omp_target_memcpy_rect", dst=(dst, dst_device), src=(src, src_device))
        rows: list[tuple[int, int]] = [(0, 0)]
        for axis, count in enumerate(volume):
            inner = axis == len(volume) - 1
            dst_stride = element_size * math.prod(dst_dimensions[axis + 1 :])
            src_stride = element_size * math.prod(src_dimensions[axis + 1 :])
            steps = range(1) if inner else range(count)
            rows = [
                (to + (dst_offsets[axis] + i) * dst_stride, start + (src_offsets[axis] + i) * src_stride)
                for to, start in rows
                for i in steps
            ]
        for to, start in rows:
            code = await self.omp_target_memcpy(dst, src, volume[-1] * element_size, to, start)
            if code != OFFLOAD_SUCCESS:
                return code
        return OFFLOAD_SUCCESS

    async def omp_target_memset(
        self, pointer: DevicePointer | HostArray | None, value: int, nbytes: int, device: int | None = None
    ) -> DevicePointer | HostArray | None:
        """Set `nbytes` bytes to `value`; return `pointer`. For a device, LLVM copies a filled host buffer.

        Raises ValueError for a pointer to another device's memory, OutsideArray for bytes beyond an array.
        """
        call = "omp_target_memset"
        _on(self, call, pointer=(pointer, device))
        if pointer is not None and nbytes > 0:
            filled = np.broadcast_to(np.uint8(value & 0xFF), nbytes)
            if not on_device(pointer):
                into, destination = _piece(self, call, pointer, 0, nbytes)
                await _touch(self, into, destination, True)
                await self.program.machine.host_memory.copy(nbytes)
                if (tell := self.program.tell) is not None:
                    tell(HostUsed(into, destination.address, nbytes, True))
                _move(destination, HostSpan(0, nbytes, filled))
            else:
                await self.program.machine.host_memory.copy(nbytes)
                buffer = HostSpan(0, nbytes, None if pointer.phantom else filled)
                await _host_to_device(self, call, pointer, None, buffer)
        return pointer

    def omp_init_allocator(self, *, pinned: bool = False) -> OmpAllocator:
        """Make an allocator of host memory (omp_init_allocator), which is page-locked if `pinned` (omp_atk_pinned)."""
        return OmpAllocator(pinned)

    async def omp_alloc(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, *, allocator: OmpAllocator,
        fill: Any = None, device: int | None = None,
    ) -> HostArray:  # fmt: skip
        """Allocate an array of the host by an allocator (omp_alloc); free it by `omp_free`.

        device: the device whose library pins the array, by default the default device; DriverError if it cannot pin.
        fill: its values.
        """
        array = self.array(name, shape, dtype, fill, None, "heap", _PAGE if allocator.pinned else _ALIGNMENT)
        if allocator.pinned and array.nbytes and not is_host(self, device):

            def pin(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
                return where.driver.pinning.register(array.address, array.nbytes)

            await in_routine(self, "omp_alloc", device, pin, mandatory=False)
        return array

    async def omp_free(self, array: HostArray, *, allocator: OmpAllocator, device: int | None = None) -> None:
        """Free memory of `omp_alloc` with the same allocator (omp_free).

        Raises InvalidFree for other memory or a second free, and DriverError for memory that is not pinned.
        """
        if allocator.pinned and array.nbytes and not array.freed and not is_host(self, device):

            def unpin(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
                return where.driver.pinning.unregister(array.address)

            await in_routine(self, "omp_free", device, unpin, mandatory=False)
        self.program.arrays.free(array)

    async def llvm_omp_target_alloc_host(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, *, fill: Any = None,
        device: int | None = None,
    ) -> HostArray:  # fmt: skip
        """Allocate pinned memory of the host by the device's library; free it by `llvm_omp_target_free_host`.

        Raises ValueError for 0 bytes, and DriverError where the library cannot pin memory.
        """
        lengths, element = shape_of(name, shape), element_of(name, dtype)
        nbytes = math.prod(lengths) * element.itemsize
        if not nbytes:
            raise ValueError(f"array {name!r} of no bytes")
        addresses: list[int] = []

        async def allocate(where: OffloadDevice, queue: DirectiveQueue) -> None:
            addresses.append(await where.driver.pinning.alloc(nbytes))

        await in_routine(self, "llvm_omp_target_alloc_host", device, allocate, mandatory=False)
        values = None if self.program.phantom else make_values(name, lengths, element, fill)
        return self.program.arrays.add(HostArray(name, addresses[0], lengths, element, "heap", 0, values), True)

    async def llvm_omp_target_free_host(self, array: HostArray, device: int | None = None) -> None:
        """Free memory of `llvm_omp_target_alloc_host`. Raises InvalidFree for other memory, or for a second free."""

        async def free(where: OffloadDevice, queue: DirectiveQueue) -> None:
            name = "llvm_omp_target_free_host"
            try:
                await where.driver.pinning.free(array.address)
            except DriverError as error:
                raise where.error(InvalidFree, f"{name} of {array.name!r}: {error}", name, array.name) from None

        await in_routine(self, "llvm_omp_target_free_host", device, free, mandatory=False)
        self.program.arrays.forget(array)

    async def llvm_omp_target_alloc_device(self, nbytes: int, device: int | None = None) -> DevicePointer | None:
        """Allocate memory of a device; return None when no memory is left, or for 0 bytes."""
        return await self.omp_target_alloc(nbytes, device)

    async def llvm_omp_target_alloc_shared(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, device: int | None = None
    ) -> HostArray:
        """Allocate memory that migrates between host and device (managed memory, cuMemAllocManaged)."""
        if chosen(self, device) != self.default_device:
            raise ValueError("llvm_omp_target_alloc_shared: managed memory is of the default device here")
        return await self.managed_array(name, shape, dtype)

    # managed memory: calls of CUDA, which OpenMP does not have

    async def managed_array(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, phantom: bool | None = None,
    ) -> HostArray:  # fmt: skip
        """Make an array of zeros that host and device both use in place: cuMemAllocManaged.

        The memory configuration does not matter. The pages are untouched, and migrate to whoever accesses them. A
        phantom has no values. Pass the array to kernels by ``is_device_ptr``. Raises UnifiedMemoryUnavailable on a
        machine without migration, and ValueError for 0 bytes.
        """
        lengths, element = shape_of(name, shape), element_of(name, dtype)
        nbytes = math.prod(lengths) * element.itemsize
        if not nbytes:
            raise ValueError(f"managed array {name!r} of no bytes")
        check_managed_memory(self.program.machine, f"array {name!r}")
        addresses: list[int] = []

        async def allocate(where: OffloadDevice, queue: DirectiveQueue) -> None:
            where.driver.managed.start()
            addresses.append(await where.driver.managed.alloc(nbytes, name=name))

        await in_directive(self.program, "cuMemAllocManaged", self.default_device, allocate, mandatory=False)
        ghost = self.program.phantom if phantom is None else phantom
        values = None if ghost else make_values(name, lengths, element, None)
        watch = self.program.arrays.watch
        array = HostArray(name, addresses[0], lengths, element, "heap", 0, values, managed=True, watch=watch)
        if (tell := self.program.tell) is not None:
            tell(ArrayMade(array))
        return array

    async def free_managed(self, array: HostArray) -> None:
        """Free a managed array: cuMemFree. Raises DriverError if `managed_array` did not make the array."""
        address = array.address

        def free(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
            return where.driver.managed.free(address)

        await in_directive(self.program, "cuMemFree", self.default_device, free, mandatory=False)
        array.freed = True

    def prefetch(self, place: HostArray | Section, to_host: bool = False) -> Awaitable[object]:
        """Migrate an array, or a section, to the device or to the host, and wait for it: cuMemPrefetchAsync.

        Raises DriverError when the program uses no managed memory, and FreedHostMemory for a freed array.
        """
        begin, nbytes = extent(place, "prefetch")

        def work(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
            where.check_alive(array_of(place), "cuMemPrefetchAsync")
            return where.plugin.prefetch(queue, begin, nbytes, to_host)

        return in_directive(self.program, "cuMemPrefetchAsync", self.default_device, work, mandatory=False)

    def advise(self, place: HostArray | Section, advice: Advice) -> Awaitable[object]:
        """Advise the driver where to keep an array, or a section, of managed memory: cuMemAdvise.

        `prefer_host` keeps it on the host, and devices access it over the link. `prefer_device` keeps it on the default
        device, and devices with a link to that one access it there. `accessed_by` maps it in the default device's page
        table in advance. With `read_mostly`, each device and the host keep a copy of what they read until somebody
        writes. `prefer_nothing`, `not_accessed_by` and `not_read_mostly` undo these. Raises DriverError when the
        program uses no managed memory, and FreedHostMemory for a freed array.
        """
        begin, nbytes = extent(place, "advise")

        def work(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
            where.check_alive(array_of(place), "cuMemAdvise")
            return where.driver.managed.advise(begin, nbytes, advice)

        return in_directive(self.program, "cuMemAdvise", self.default_device, work, mandatory=False)


def initial_device(t: RoutineCaller) -> int:
    """Return the device number of the initial device (the host) in the program of thread `t`."""
    return t.program.num_devices


def in_routine(
    t: RoutineCaller, name: str, device: int | None, work: Work, *, mandatory: bool = True
) -> Awaitable[OffloadDevice]:
    """Run `work` as the OpenMP routine `name` of thread `t`; return the device on which it ran.

    device: the device's number; None for the thread's default one. mandatory: whether a driver call that fails makes
    the device unusable from then on.
    """
    return in_directive(t.program, name, chosen(t, device), work, mandatory=mandatory)


def is_host(t: RoutineCaller, device: int | None) -> bool:
    """Return whether a device number, or thread `t`'s default device for None, is the initial device (the host)."""
    return chosen(t, device) == initial_device(t)


def chosen(t: RoutineCaller, device: int | None) -> int:
    """Return the number of the device that the argument `device` means; None means thread `t`'s default one.

    Where the program can use no device, the host (the initial device) stands in for all. Raises InvalidDevice if that
    is forbidden (OMP_TARGET_OFFLOAD=mandatory), and TypeError for a number that is not whole.
    """
    number = t.default_device if device is None else device
    if device is not None and not is_integer(device):
        raise TypeError(f"device: its number is {device!r}, which is no whole number")
    if number == INITIAL_DEVICE:
        return initial_device(t)
    if t.program.num_devices:
        return number
    if not t.program.falls_back:
        t.program.device(number)  # raises InvalidDevice, with the reason
    return initial_device(t)


def in_place(array: HostArray, address: int, initial: int, shape: tuple[int, ...]) -> DevicePointer:
    """Return a pointer of the initial device, number `initial`, to an array in host memory at `address`."""
    nbytes = math.prod(shape) * array.itemsize
    return DevicePointer(address, nbytes, initial, array.phantom, array.dtype, shape, array)


def _on(t: RoutineCaller, call: str, **given: tuple[Pointer | None, int | None]) -> None:
    """Raise ValueError for a pair (pointer, device number) in `given` whose pointer does not belong to that device.

    Managed memory belongs to every device.
    """
    for name, (pointer, device) in given.items():
        if device is None or pointer is None or (not on_device(pointer) and array_of(host_span(pointer)[0]).managed):
            continue
        number, its = chosen(t, device), pointer.device if on_device(pointer) else initial_device(t)
        if number != its:
            kind = "the host" if its == initial_device(t) else f"device {its}"
            asked = "the host" if number == initial_device(t) else f"device {number}"
            raise ValueError(
                f"{call}: {name} is memory of {kind}, not of {asked}: give {its}, or leave the device out"
                + ("; omp_get_mapped_ptr returns where the host's memory is mapped" if kind == "the host" else "")
            )


def on_device(pointer: Pointer) -> TypeGuard[DevicePointer]:
    """Tell whether a pointer leads to memory of a device other than the initial one."""
    return isinstance(pointer, DevicePointer) and pointer.host is None


def host_span(pointer: Pointer) -> tuple[HostArray, int]:
    if isinstance(pointer, DevicePointer):
        assert pointer.host is not None, "a pointer of the initial device"
        return pointer.host, pointer.address
    return (pointer.array, pointer.begin) if isinstance(pointer, Section) else (pointer, pointer.address)


def check_managed_memory(machine: Machine, what: str) -> None:
    """Raise UnifiedMemoryUnavailable on a machine without managed memory; `what` names the request in the message."""
    if why := why_nothing_migrates(machine):
        raise UnifiedMemoryUnavailable(f"managed memory for {what} on {machine.spec.name}: {why}")


async def _find(
    t: RoutineCaller, name: str, span: HostArray | Section, nbytes: int, device: int | None
) -> tuple[int | None, OffloadDevice]:
    array, begin = host_span(span)
    addresses: list[int | None] = []

    async def look(where: OffloadDevice, queue: DirectiveQueue) -> None:
        pointer = await get_present_pointer(where, array, begin, nbytes, queue.cause)
        addresses.append(None if pointer.entry is None else pointer.address)

    where = await in_routine(t, name, device, look)
    return addresses[0], where


async def _defer(
    t: RoutineCaller, name: str, run: Callable[[], Awaitable[object]], depend: Depend | Sequence[Depend]
) -> None:
    """Submit a deferred task that runs `run`, with the `depend` clauses of a routine."""
    depends = items_of(depend)
    check_dependences(name, depends)
    await t.program.devices[0].work(t.program.costs.task)
    t.helpers.submit(t.tasks, name, run, depends)


def _refused_box(dst: Pointer | None, src: Pointer | None) -> int:
    """Return the result of a refused box copy: the limit for two null pointers, else OFFLOAD_FAIL."""
    return MAX_DIMENSIONS if dst is None and src is None else OFFLOAD_FAIL


async def _touch(t: RoutineCaller, array: HostArray, span: HostSpan, writes: bool) -> None:
    """Access a piece of host memory, so that managed pages which a device owns migrate back."""
    if t.program.devices[0].manages(array):
        await t.program.devices[0].plugin.host_touch(span.address, span.nbytes, writes)


def _piece(t: RoutineCaller, call: str, pointer: Pointer, offset: int, length: int) -> tuple[HostArray, HostSpan]:
    """Return the array of a host pointer, and its bytes [offset, offset + length) from there. Raises OutsideArray."""
    array, begin = host_span(pointer)
    if not array.holds(begin + offset, length):
        raise OutsideArray.now(
            t.sim,
            f"{length} bytes from offset {begin + offset - array.address} reach outside array {array.name!r}, "
            f"which has {array.nbytes} bytes",
            call=call,
            array=array.name,
            device=initial_device(t),
        )
    return array, array.span(begin + offset, length)


async def _copied(t: RoutineCaller, call: str, device: int, copy: Work) -> int:
    """Run a copy as the work of a routine; return OFFLOAD_SUCCESS, or OFFLOAD_FAIL if a driver call fails."""
    try:
        await in_routine(t, call, device, copy, mandatory=False)
    except DriverError:
        return OFFLOAD_FAIL
    return OFFLOAD_SUCCESS


def _host_to_device(
    t: RoutineCaller, call: str, dst: DevicePointer, array: HostArray | None, source: HostSpan
) -> Awaitable[int]:
    def copy(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
        return where.submit(queue, dst.address, source, array)

    return _copied(t, call, dst.device, copy)


def _device_to_host(
    t: RoutineCaller, call: str, array: HostArray | None, destination: HostSpan, src: DevicePointer
) -> Awaitable[int]:
    def copy(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
        return where.retrieve(queue, destination, src.address, array)

    return _copied(t, call, src.device, copy)


async def _device_to_device(t: RoutineCaller, call: str, dst: DevicePointer, src: DevicePointer, length: int) -> int:
    """Copy within a device or between devices with a link directly, otherwise through a buffer on the host."""
    plugin = t.program.device(src.device, call).plugin
    if dst.device != src.device and not plugin.exchanges_with(dst.device):
        ghost = dst.phantom or src.phantom
        buffer = HostSpan(0, length, None if ghost else np.zeros(length, np.uint8))
        code = await _device_to_host(t, call, None, buffer, src)
        return code if code != OFFLOAD_SUCCESS else await _host_to_device(t, call, dst, None, buffer)

    def copy(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
        if where.tell is not None:
            where.tell(DataCopied(queue.cause, dst.device, "d2d", src.address, dst.address, length, None, src.device))
        return plugin.exchange_data(queue, dst.address, src.address, length, device=dst.device)

    return await _copied(t, call, src.device, copy)


def _move(dst: HostSpan, src: HostSpan) -> None:
    data: Any = src.bytes
    if dst.bytes is not None and data is not None:
        dst.bytes[:] = data
