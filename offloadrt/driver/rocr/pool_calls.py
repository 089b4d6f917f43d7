"""ROCr's calls for memory: blocks of the device's pool, and memory of the host that the device is to use.

The kernel driver (``driver/kfd``) does the work; the calls account for it and turn its exceptions into error codes.
"""

from __future__ import annotations

from offloadrt.driver.calls import CallAccounts
from offloadrt.driver.errors import INVALID_ARGUMENT, OUT_OF_RESOURCES, DriverError, OutOfDeviceMemory
from offloadrt.driver.kfd.kfd import Kfd
from offloadrt.driver.rocr.costs import RocrCosts
from offloadrt.machine import Device, InvalidDeviceAddress, Machine, OutOfSegments
from offloadrt.trace import events


class PoolCalls:
    """The memory of one device's library."""

    def __init__(self, machine: Machine, device: Device, costs: RocrCosts, calls: CallAccounts, kfd: Kfd) -> None:
        self._sim = machine.sim
        self._work = machine.work
        self._trace = machine.trace
        self._device = device
        self._costs = costs
        self._calls = calls
        self._kfd = kfd

    async def memory_pool_allocate(self, nbytes: int, phantom: bool = False) -> int:
        """Return the address of a new block of the device's pool; a phantom block has no bytes.

        Raises OutOfDeviceMemory, and DriverError for a size that is not positive.
        """
        with self._calls.call("memory_pool_allocate", nbytes=nbytes) as call:
            if nbytes <= 0:
                raise DriverError(call.api, INVALID_ARGUMENT, f"{nbytes} bytes asked for")
            try:
                address = await self._kfd.allocate(nbytes, phantom)
            except OutOfSegments:
                free, thread, device = self._device.memory.free_bytes, self._sim.current.name, self._device.index
                raise OutOfDeviceMemory(
                    call.api, nbytes, free, thread, self._sim.now, device, OUT_OF_RESOURCES
                ) from None
            if self._trace is not None:
                self._trace(events.Allocate, self._device.index, -1, call.cause, address, nbytes, call.api)
            return address

    async def host_pool_allocate(self, nbytes: int) -> int:
        """Return the address of new memory of the host's pool (hsa_amd_memory_pool_allocate)."""
        with self._calls.call("memory_pool_allocate"):
            return await self._kfd.allocate_host(nbytes)

    async def host_pool_free(self) -> None:
        """Give memory of the host's pool back (hsa_amd_memory_pool_free)."""
        with self._calls.call("memory_pool_free"):
            await self._kfd.free_host()

    async def memory_pool_free(self, address: int) -> None:
        """Give a block of the pool back.

        Raises DriverError for an address at which no block begins.
        """
        with self._calls.call("memory_pool_free") as call:
            try:
                block = await self._kfd.free(address)
            except InvalidDeviceAddress as error:
                raise DriverError(call.api, INVALID_ARGUMENT, str(error)) from None
            if self._trace is not None:
                self._trace(events.Free, self._device.index, -1, call.cause, address, block.size, call.api)

    async def memory_lock(self, address: int, nbytes: int) -> None:
        """Let the device use host memory (hsa_amd_memory_lock): pages that it lacks are mapped, and stay so.

        An address of 0 is host memory of which nobody tells the place, and which is mapped already.
        """
        with self._calls.call("memory_lock") as call:
            call.takes(bytes=nbytes, address=address)
            await self._work(self._costs.pin, "driver")
            await self._kfd.memory_lock(address, nbytes if address else 0)

    async def memory_unlock(self, address: int) -> None:
        """Give the use of host memory up (hsa_amd_memory_unlock): the library has nothing to undo in the kernel."""
        with self._calls.call("memory_unlock"):
            await self._work(self._costs.unpin, "driver")

    async def svm_attributes_set(self, address: int, nbytes: int) -> int:
        """Prefault host memory, so that kernels find its pages; return how many were new to the device."""
        with self._calls.call("svm_attributes_set") as call:
            call.takes(bytes=nbytes, address=address)
            return await self._kfd.svm_attributes_set(address, nbytes)
