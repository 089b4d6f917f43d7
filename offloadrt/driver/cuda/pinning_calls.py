"""The calls of CUDA's driver library for pinned memory of the host."""

from __future__ import annotations

from functools import cached_property

from offloadrt.driver.cuda.context import Context
from offloadrt.driver.cuda.copies import Copies
from offloadrt.driver.errors import INVALID, DriverError


class PinningCalls:
    """Pins ranges of host memory and allocates pinned ones; ``copies`` look at what is pinned."""

    def __init__(self, context: Context, copies: Copies) -> None:
        self._context = context
        self._costs = context.costs
        self._machine = context.machine
        self._copies = copies

    async def mem_host_register(self, address: int, nbytes: int, cause: int | None = None) -> None:
        """Pin a range of host memory (cuMemHostRegister).

        Raises DriverError when any of it is pinned already, and for a size that is not positive.
        """
        with self._context.call("cuMemHostRegister", None, cause) as call:
            call.takes(bytes=nbytes, address=address)
            if nbytes <= 0:
                raise DriverError(call.api, INVALID, f"{nbytes} bytes at {address:#x}")
            async with self._context.locked():
                if self._copies.pinned.overlaps(address, nbytes):
                    code = "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"
                    raise DriverError(call.api, code, f"{nbytes} bytes at {address:#x}")
                await self._context.work(self._costs.register + nbytes * self._costs.register_per_byte)
                self._copies.pinned.add(address, nbytes)

    async def mem_host_unregister(self, address: int, cause: int | None = None) -> None:
        """Unpin a range of host memory (cuMemHostUnregister).

        Raises DriverError when no pinned range begins there.
        """
        with self._context.call("cuMemHostUnregister", None, cause) as call:
            async with self._context.locked():
                if not self._copies.pinned.remove(address):
                    code = "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"
                    raise DriverError(call.api, code, f"nothing is pinned at {address:#x}")
                await self._context.work(self._costs.unregister)

    @cached_property
    def _malloc_host(self) -> float:
        # Read at the first use: profiles of machines whose programs never ask for pinned memory need not have it.
        return self._machine.spec.value("usm.malloc_host")

    async def mem_alloc_host(self, nbytes: int, cause: int | None = None) -> int:
        """Return the address of new pinned host memory (cuMemAllocHost).

        Raises DriverError for a size that is not positive.
        """
        with self._context.call("cuMemAllocHost", None, cause) as call:
            call.takes(bytes=nbytes)
            if nbytes <= 0:
                raise DriverError(call.api, INVALID, f"{nbytes} bytes asked for")
            async with self._context.locked(self._malloc_host + nbytes * self._costs.register_per_byte):
                address = self._machine.host_memory.allocate(nbytes, self._costs.managed_alignment)
                self._copies.pinned.add(address, nbytes)
            return address

    async def mem_free_host(self, address: int, cause: int | None = None) -> None:
        """Free pinned host memory (cuMemFreeHost).

        Raises DriverError for an address at which no such memory begins.
        """
        with self._context.call("cuMemFreeHost", None, cause) as call:
            async with self._context.locked():
                if not self._copies.pinned.remove(address):
                    raise DriverError(call.api, INVALID, f"no pinned memory begins at {address:#x}")
                await self._context.work(self._malloc_host)
                self._machine.host_memory.release(address)
