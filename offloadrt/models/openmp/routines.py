"""The device memory routines of OpenMP (`omp_target_*`), as methods of a host thread.

Names and results are OpenMP's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, TypeGuard

import numpy as np

from offloadrt.driver import OutOfDeviceMemory
from offloadrt.models.host.barrier import Barrier
from offloadrt.models.host.directive import Work, in_directive
from offloadrt.models.host.host_places import Arena
from offloadrt.models.host.host_thread import ProgramThread
from offloadrt.models.host.program import OffloadProgram
from offloadrt.models.host.section import Section
from offloadrt.models.openmp.clauses import Depend
from offloadrt.models.openmp.declarations import Declarations
from offloadrt.models.openmp.tasks import HiddenHelpers, TaskRegion
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.device_pointer import DevicePointer
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.errors import InvalidFree, OutsideArray
from offloadrt.runtime.host_array import HostArray, HostSpan
from offloadrt.runtime.mapping.association import associate_pointer, disassociate_pointer
from offloadrt.runtime.mapping.unmapping import get_present_pointer

OFFLOAD_SUCCESS = 0
OFFLOAD_FAIL = -1
MAX_DIMENSIONS = 2**31 - 1
"""What omp_target_memcpy_rect answers to null pointers: how many dimensions it can take (INT_MAX)."""

Place = HostArray | Section | DevicePointer


class MemoryRoutines(ProgramThread):
    """What a host thread can call besides directives. Wide because it has one method for each routine of OpenMP."""

    def __init__(
        self,
        program: OffloadProgram[Any],
        declarations: Declarations,
        helpers: HiddenHelpers,
        number: int,
        num_threads: int,
        barrier: Barrier,
        heap: Arena,
        stack: Arena,
    ) -> None:
        super().__init__(program, number, num_threads, barrier, heap, stack)
        self.declarations = declarations
        self.helpers = helpers
        self.tasks = TaskRegion()
        self.default_device = 0
        """default-device-var, of the thread's implicit task."""

    # devices

    def omp_get_num_devices(self) -> int:
        return len(self.program.devices)

    def omp_get_initial_device(self) -> int:
        """Return the host's device number."""
        return len(self.program.devices)

    def omp_get_default_device(self) -> int:
        return self.default_device

    def omp_set_default_device(self, number: int) -> None:
        """Set the default device of this thread, as default-device-var is the task's own.

        The initial device takes routines, but runs no target regions here. Raises InvalidDevice.
        """
        if not self._is_host(number):
            self.program.device(number, "omp_set_default_device")
        self.default_device = number

    # memory

    async def omp_target_alloc(
        self, nbytes: int, device: int | None = None, phantom: bool | None = None
    ) -> DevicePointer | None:
        """Allocate device memory, on the initial device of the host's heap.

        Returns None when there is none left, or for nothing.

        Its elements have no type: a kernel in source takes what ``pointer.viewed(np.float64)`` returns. phantom:
        without bytes; by default as the program's arrays.
        """
        if nbytes <= 0:
            return None
        ghost = self.program.phantom if phantom is None else phantom
        if self._is_host(device):
            array = self.array("omp_target_alloc", nbytes, np.uint8, phantom=ghost, kind="heap")
            return DevicePointer(array.address, nbytes, self.omp_get_initial_device(), ghost, host=array)
        addresses: list[int] = []

        async def allocate(where: OffloadDevice, queue: DirectiveQueue) -> None:
            try:
                addresses.append(await where.allocate(nbytes, None, 0, ghost))
            except OutOfDeviceMemory as error:
                where.report(f"omp_target_alloc: {error}")

        where = await self._call("omp_target_alloc", device, allocate)
        return DevicePointer(addresses[0], nbytes, where.number, ghost) if addresses else None

    async def omp_target_free(self, pointer: DevicePointer | None) -> None:
        """Free what omp_target_alloc gave. Nothing happens for None.

        Raises InvalidFree where no block begins, or for the second time; TypeError for what is no pointer.
        """
        if pointer is None:
            return
        if not isinstance(pointer, DevicePointer):
            raise TypeError(f"omp_target_free takes what omp_target_alloc returned, not {pointer!r}")
        if pointer.host is not None:
            self.free(pointer.host)
            return
        address = pointer.address

        def free(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
            if where.block_size(address) is None:
                why = f"no block of the device begins at {address:#x}, or it was freed before"
                raise where.error(InvalidFree, f"omp_target_free: {why}", "omp_target_free", "")
            return where.free(address, None, 0)

        await self._call("omp_target_free", pointer.device, free)

    async def omp_target_memcpy(
        self, dst: Place | None, src: Place | None, length: int, dst_offset: int = 0, src_offset: int = 0
    ) -> int:
        """Copy bytes between host and devices, offsets in bytes; returns 0, or -1 for a null pointer.

        Raises OutsideArray for bytes that an array of the host does not have.
        """
        if length == 0:
            return OFFLOAD_SUCCESS
        if dst is None or src is None or length < 0:
            return OFFLOAD_FAIL
        call = "omp_target_memcpy"
        if _on_device(dst):
            if _on_device(src):
                await self._device_to_device(call, dst + dst_offset, src + src_offset, length)
            else:
                await self._host_to_device(call, dst + dst_offset, *self._piece(call, src, src_offset, length))
        elif _on_device(src):
            await self._device_to_host(call, *self._piece(call, dst, dst_offset, length), src + src_offset)
        else:
            into, destination = self._piece(call, dst, dst_offset, length)
            out_of, source = self._piece(call, src, src_offset, length)
            await self._reach(out_of, source)
            await self._reach(into, destination)
            await self.program.machine.host_memory.copy(length)
            _move(destination, source)
        return OFFLOAD_SUCCESS

    async def omp_target_memcpy_async(
        self,
        dst: Place | None,
        src: Place | None,
        length: int,
        dst_offset: int = 0,
        src_offset: int = 0,
        depend: Depend | Sequence[Depend] = (),
    ) -> int:
        """Copy as omp_target_memcpy does, by a deferred task that `taskwait` waits for."""
        if length and (dst is None or src is None):
            return OFFLOAD_FAIL
        depends = (depend,) if isinstance(depend, Depend) else tuple(depend)

        async def run() -> None:
            await self.omp_target_memcpy(dst, src, length, dst_offset, src_offset)

        await self.program.devices[0].work(self.program.costs.task)
        self.helpers.submit(self.tasks, "omp_target_memcpy_async", run, depends)
        return OFFLOAD_SUCCESS

    async def omp_target_memcpy_rect(
        self,
        dst: Place | None,
        src: Place | None,
        element_size: int,
        volume: Sequence[int],
        dst_offsets: Sequence[int],
        src_offsets: Sequence[int],
        dst_dimensions: Sequence[int],
        src_dimensions: Sequence[int],
    ) -> int:
        """Copy a box between two arrays, lengths in elements, innermost last.

        One copy for each contiguous row, as LLVM does.
        """
        if dst is None and src is None:
            return MAX_DIMENSIONS
        if dst is None or src is None or element_size < 1 or not volume:
            return OFFLOAD_FAIL
        rows: list[tuple[int, int]] = [(0, 0)]
        for axis, count in enumerate(volume):
            inner = axis == len(volume) - 1
            dst_stride = element_size * _product(dst_dimensions[axis + 1 :])
            src_stride = element_size * _product(src_dimensions[axis + 1 :])
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
        self, pointer: DevicePointer | HostArray, value: int, nbytes: int
    ) -> DevicePointer | HostArray:
        """Set bytes; returns the pointer. On a device LLVM fills a buffer on the host and copies it.

        Raises OutsideArray for bytes that an array of the host does not have.
        """
        call = "omp_target_memset"
        if nbytes > 0:
            filled = np.full(nbytes, value & 0xFF, np.uint8)
            if not _on_device(pointer):
                _, destination = self._piece(call, pointer, 0, nbytes)
                await self.program.machine.host_memory.copy(nbytes)
                _move(destination, HostSpan(0, nbytes, filled))
            else:
                await self.program.machine.host_memory.copy(nbytes)
                buffer = HostSpan(0, nbytes, None if pointer.phantom else filled)
                await self._host_to_device(call, pointer, None, buffer)
        return pointer

    # what is mapped

    async def omp_target_is_present(self, place: HostArray | Section, device: int | None = None) -> bool:
        """Return whether the first byte is in the device's present table."""
        if self._is_host(device):
            return True
        return (await self._find("omp_target_is_present", place, 1, device))[0] is not None

    async def omp_target_is_accessible(
        self, place: HostArray | Section, nbytes: int, device: int | None = None
    ) -> bool:
        """Return whether the device can use this host memory directly."""
        if self._is_host(device):
            return True
        return self.program.device(self._chosen(device), "omp_target_is_accessible").configuration.host_pointers

    async def omp_get_mapped_ptr(self, place: HostArray | Section, device: int | None = None) -> DevicePointer | None:
        """Return the device address of the first byte, None if it is not mapped; on the initial device, where it is."""
        array, begin = _host_place(place)
        shape = array.shape if isinstance(place, HostArray) else (place.length, *array.shape[1:])
        if self._is_host(device):
            initial = self.omp_get_initial_device()
            return DevicePointer(begin, place.nbytes, initial, array.phantom, array.dtype, shape, array)
        address, where = await self._find("omp_get_mapped_ptr", place, 1, device)
        if address is None:
            return None
        return DevicePointer(address, place.nbytes, where.number, array.phantom, array.dtype, shape)

    async def omp_target_associate_ptr(
        self,
        place: HostArray | Section,
        pointer: DevicePointer,
        nbytes: int,
        device_offset: int = 0,
        device: int | None = None,
    ) -> int:
        """Enter host memory in the present table, with this device memory and an infinite count.

        Returns 0 or -1, which it always is for the initial device.
        """
        number = pointer.device if device is None else device
        if self._is_host(number):
            return OFFLOAD_FAIL
        array, begin = _host_place(place)
        result: list[int] = []

        async def associate(where: OffloadDevice, queue: DirectiveQueue) -> None:
            result.append(await associate_pointer(where, array, begin, nbytes, pointer.address + device_offset))

        await self._call("omp_target_associate_ptr", number, associate)
        return result[0]

    async def omp_target_disassociate_ptr(self, place: HostArray | Section, device: int | None = None) -> int:
        """Remove what omp_target_associate_ptr entered; 0 or -1."""
        if self._is_host(device):
            return OFFLOAD_FAIL
        array, begin = _host_place(place)
        result: list[int] = []

        async def disassociate(where: OffloadDevice, queue: DirectiveQueue) -> None:
            result.append(await disassociate_pointer(where, array, begin))

        await self._call("omp_target_disassociate_ptr", device, disassociate)
        return result[0]

    # how routines run

    def _call(self, name: str, device: int | None, work: Work) -> Awaitable[OffloadDevice]:
        return in_directive(self.program, name, self._chosen(device), work)

    def _is_host(self, device: int | None) -> bool:
        """Return whether it is the initial device, on which memory is the host's and everything is present."""
        return self._chosen(device) == self.omp_get_initial_device()

    def _chosen(self, device: int | None) -> int:
        return self.default_device if device is None else device

    async def _reach(self, array: HostArray, span: HostSpan) -> None:
        """Touch a piece of the host's memory: what the device owns of managed memory comes back."""
        if self.program.devices[0].manages(array):
            await self.program.devices[0].plugin.host_touch(span.address, span.nbytes)

    def _piece(self, call: str, place: Place, offset: int, length: int) -> tuple[HostArray, HostSpan]:
        """Return the bytes [offset, offset + length) of a place on the host. Raises OutsideArray."""
        array, begin = _host_place(place)
        if not array.holds(begin + offset, length):
            raise OutsideArray(
                f"{length} bytes from offset {begin + offset - array.address} reach outside array {array.name!r}, "
                f"which has {array.nbytes} bytes",
                call=call,
                array=array.name,
                thread=self.sim.current.name,
                time_s=self.sim.now,
                device=self.omp_get_initial_device(),
            )
        return array, array.span(begin + offset, length)

    async def _host_to_device(self, call: str, dst: DevicePointer, array: HostArray | None, source: HostSpan) -> None:
        def copy(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
            return where.submit(queue, dst.address, source, array)

        await self._call(call, dst.device, copy)

    async def _device_to_host(
        self, call: str, array: HostArray | None, destination: HostSpan, src: DevicePointer
    ) -> None:
        def copy(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
            return where.retrieve(queue, destination, src.address, array)

        await self._call(call, src.device, copy)

    async def _device_to_device(self, call: str, dst: DevicePointer, src: DevicePointer, length: int) -> None:
        """Copy at once within a device and between devices with a link, otherwise through a buffer on the host."""
        plugin = self.program.device(src.device, call).plugin
        if dst.device != src.device and not plugin.exchanges_with(dst.device):
            ghost = dst.phantom or src.phantom
            buffer = HostSpan(0, length, None if ghost else np.zeros(length, np.uint8))
            await self._device_to_host(call, None, buffer, src)
            await self._host_to_device(call, dst, None, buffer)
            return

        def copy(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
            return plugin.exchange_data(queue, dst.address, src.address, length, device=dst.device)

        await self._call(call, src.device, copy)

    async def _find(
        self, name: str, place: HostArray | Section, nbytes: int, device: int | None
    ) -> tuple[int | None, OffloadDevice]:
        array, begin = _host_place(place)
        addresses: list[int | None] = []

        async def look(where: OffloadDevice, queue: DirectiveQueue) -> None:
            pointer = await get_present_pointer(where, array, begin, nbytes, cause=queue.cause)
            addresses.append(None if pointer.entry is None else pointer.address)

        where = await self._call(name, device, look)
        return addresses[0], where


def _product(lengths: Sequence[int]) -> int:
    result = 1
    for length in lengths:
        result *= length
    return result


def _on_device(place: Place) -> TypeGuard[DevicePointer]:
    """Return whether it is memory of a device other than the initial one."""
    return isinstance(place, DevicePointer) and place.host is None


def _host_place(place: Place) -> tuple[HostArray, int]:
    if isinstance(place, DevicePointer):
        assert place.host is not None, "a pointer of the initial device"
        return place.host, place.address
    return (place.array, place.begin) if isinstance(place, Section) else (place, place.address)


def _move(dst: HostSpan, src: HostSpan) -> None:
    data: Any = src.bytes
    if dst.bytes is not None and data is not None:
        dst.bytes[:] = data
