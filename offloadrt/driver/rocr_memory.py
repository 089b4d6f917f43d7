"""Memory, as ROCr gives it: blocks of the device's pool, pinned and prefaulted memory of the host."""

from __future__ import annotations

from offloadrt.driver.errors import INVALID_ARGUMENT, OUT_OF_RESOURCES, DriverError, OutOfDeviceMemory
from offloadrt.driver.rocr_library import RocrLibrary
from offloadrt.machine import InvalidDeviceAddress, OutOfSegments
from offloadrt.trace import events


class RocrMemory(RocrLibrary):
    """The calls that allocate and free, pin and prefault."""

    async def memory_pool_allocate(self, nbytes: int, phantom: bool = False) -> int:
        """The address of a new block of the device's pool; a phantom block has no bytes.

        Raises OutOfDeviceMemory, and DriverError for a size that is not positive.
        """
        api = "memory_pool_allocate"
        begin = self._enter(api)
        try:
            if nbytes <= 0:
                raise self._failed(DriverError(api, INVALID_ARGUMENT, f"{nbytes} bytes asked for"))
            try:
                address = await self.kfd.allocate(nbytes, phantom)
            except OutOfSegments:
                free, thread, device = self.device.memory.free_bytes, self.sim.current.name, self.device.index
                error = OutOfDeviceMemory(api, nbytes, free, thread, self.sim.now, device, OUT_OF_RESOURCES)
                raise self._failed(error) from None
            if (trace := self._trace) is not None:
                trace(events.Allocate, self.device.index, -1, self._cause(), address, nbytes, api)
            return address
        finally:
            self._leave(api, begin)

    async def memory_pool_free(self, address: int) -> None:
        """Give a block back.  Raises DriverError for an address at which none begins."""
        api = "memory_pool_free"
        begin = self._enter(api)
        try:
            try:
                block = await self.kfd.free(address)
            except InvalidDeviceAddress as error:
                raise self._failed(DriverError(api, INVALID_ARGUMENT, str(error))) from None
            if (trace := self._trace) is not None:
                trace(events.Free, self.device.index, -1, self._cause(), address, block.size, api)
        finally:
            self._leave(api, begin)

    mem_alloc = memory_pool_allocate
    mem_free = memory_pool_free

    async def memory_lock(self, address: int, nbytes: int) -> None:
        """Pin host memory, so that the device can copy it; pages that nobody has touched are populated."""
        begin = self._enter("memory_lock")
        try:
            if address and not self.kfd.host_pages.covers(address, nbytes):
                await self.kfd.host_touch(address, nbytes)
            await self.kfd.in_kernel(self.costs.pin)
        finally:
            self._leave("memory_lock", begin)

    async def memory_unlock(self, address: int) -> None:
        """Take that back."""
        begin = self._enter("memory_unlock")
        try:
            await self.kfd.in_kernel(self.costs.unpin)
        finally:
            self._leave("memory_unlock", begin)

    async def svm_attributes_set(self, address: int, nbytes: int) -> int:
        """Prefault host memory: kernels find its pages afterwards.  Returns how many were new to the device."""
        begin = self._enter("svm_attributes_set")
        try:
            return await self.kfd.svm_attributes_set(address, nbytes)
        finally:
            self._leave("svm_attributes_set", begin)
