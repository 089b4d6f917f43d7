"""The calls of CUDA's driver library for managed memory; the unified-memory driver (``driver/uvm``) does the work."""

from __future__ import annotations

from offloadrt.driver.cuda.context import Context
from offloadrt.driver.cuda.kernel_driver import KernelDriver
from offloadrt.driver.errors import INVALID, DriverError
from offloadrt.driver.uvm.uvm import ADVICE, Advice, Uvm
from offloadrt.machine import Stream
from offloadrt.machine.messages import PrefetchPacket
from offloadrt.sim import Signal


class ManagedCalls:
    """The allocations of managed memory of one context, and what the program asks for them."""

    def __init__(self, context: Context, kernel_driver: KernelDriver) -> None:
        self._context = context
        self._kernel_driver = kernel_driver
        self._host_memory = context.machine.host_memory

    @property
    def uvm(self) -> Uvm | None:
        """Return the unified-memory driver, once a process on the device has called ``manage``."""
        return self._kernel_driver.uvm

    def manage(self) -> Uvm:
        """Use managed memory on all devices of the process: called by the runtime before the first allocation.

        Raises ProfileError on an APU, and when the profile lacks an entry.
        """
        return self._kernel_driver.manage()

    async def mem_alloc_managed(self, nbytes: int, cause: int | None = None, name: str = "") -> int:
        """Return the address of memory that host and device both use (cuMemAllocManaged).

        Nobody has touched its pages yet.  Small allocations share blocks of the unified-memory driver.  ``name`` is the
        object's, for reports.

        Raises DriverError without managed memory, and for a size that is not positive.
        """
        with self._context.call("cuMemAllocManaged", None, cause) as call:
            self._in_use(call.api)
            if nbytes <= 0:
                raise DriverError(call.api, INVALID, f"{nbytes} bytes asked for")
            async with self._context.locked(self._context.costs.allocate_managed):
                address = self._host_memory.allocate(nbytes, self._context.costs.managed_alignment, "managed")
                self._kernel_driver.space.allocate(address, nbytes, name)
            return address

    def free(self, address: int) -> bool:
        """Free the managed allocation that begins at ``address``; return False when there is none.

        It is the part of cuMemFree that concerns managed memory; the call itself is in ``memory_calls.py``.
        """
        if not self._kernel_driver.space.free(address):
            return False
        self._host_memory.release(address)
        return True

    async def mem_prefetch_async(
        self, address: int, nbytes: int, stream: Stream, to_host: bool = False, cause: int | None = None
    ) -> None:
        """Migrate managed memory to the device, or to the host, in the order of the stream (cuMemPrefetchAsync).

        Raises DriverError without managed memory.
        """
        with self._context.call("cuMemPrefetchAsync", stream, cause) as call:
            call.takes(bytes=nbytes, address=address)
            uvm = self._in_use(call.api)
            done = Signal(self._context.sim, f"prefetch of {nbytes} bytes")
            packet = PrefetchPacket(stream, call.cause, address, nbytes, to_host, done)
            await self._context.submit(packet, uvm.costs.prefetch_call)

    async def mem_advise(self, address: int, nbytes: int, advice: Advice, cause: int | None = None) -> None:
        """Give advice on the use of managed memory (cuMemAdvise).

        Raises DriverError without managed memory, and for an advice that does not exist.
        """
        with self._context.call("cuMemAdvise", None, cause) as call:
            call.takes(bytes=nbytes, address=address)
            uvm = self._in_use(call.api)
            if advice not in ADVICE:
                raise DriverError(call.api, INVALID, f"no advice {advice!r}; there are {', '.join(ADVICE)}")
            await uvm.advise(address, nbytes, advice)

    def _in_use(self, api: str) -> Uvm:
        """Return the unified-memory driver.

        Raises DriverError when the program uses no managed memory.
        """
        if self.uvm is None:
            raise DriverError(api, INVALID, "the program uses no managed memory")
        return self.uvm
