"""Memory, as the driver library gives it: blocks of the device, pinned memory of the host, managed memory."""

from __future__ import annotations

from functools import cached_property

from offloadrt.driver.errors import INVALID, DriverError, OutOfDeviceMemory
from offloadrt.driver.library import Library
from offloadrt.driver.uvm import ADVICE, Advice, Uvm
from offloadrt.machine import InvalidDeviceAddress, OutOfSegments, Stream
from offloadrt.machine.messages import PrefetchPacket
from offloadrt.sim import Signal
from offloadrt.trace import events


class DriverMemory(Library):
    """The calls that allocate and free, pin, prefetch and advise."""

    # The device's

    async def mem_alloc(self, nbytes: int, phantom: bool = False, cause: int | None = None) -> int:
        """cuMemAlloc: the address of a new block; a phantom block has no bytes.

        Raises OutOfDeviceMemory, and DriverError for a size that is not positive.
        """
        with self._context.call("cuMemAlloc", None, cause) as call:
            if nbytes <= 0:
                raise DriverError(call.api, INVALID, f"{nbytes} bytes asked for")
            async with self._context.locked():
                halts = self._halting.concerns("alloc")
                resume = await self._halting.begin("alloc", call.api, call.cause) if halts else None
                try:
                    address = await self._allocate(nbytes, phantom)
                finally:
                    self._halting.end(resume)
            if (trace := self.machine.trace) is not None:
                trace(events.Allocate, self.device.index, -1, call.cause, address, nbytes, call.api)
            return address

    async def _allocate(self, nbytes: int, phantom: bool) -> int:
        memory, sim = self.device.memory, self.machine.sim
        if self.uvm is not None and not memory.has_room(memory.needs(nbytes)):
            await self.uvm.make_room(nbytes, sim.current.cause)
        try:
            block, segments = memory.allocate(nbytes, phantom)
        except OutOfSegments:
            free = memory.free_bytes
            await self._context.work(self.costs.allocate)
            raise OutOfDeviceMemory("cuMemAlloc", nbytes, free, sim.current.name, sim.now, self.device.index) from None
        try:
            new = self.costs.allocate_segment + (segments - 1) * self.costs.further_segment
            await self._context.work(new if segments else self.costs.allocate)
        except BaseException:
            memory.free(block.address)
            raise
        return block.address

    async def mem_free(self, address: int, cause: int | None = None) -> None:
        """cuMemFree, also of managed memory.  Raises DriverError for an address at which no block begins."""
        with self._context.call("cuMemFree", None, cause) as call:
            async with self._context.locked():
                for _ in self.streams if self.costs.visit else ():
                    await self._context.work(self.costs.visit)
                    self._visited += 1
                halts = self._halting.concerns("free")
                resume = await self._halting.begin("free", call.api, call.cause) if halts else None
                try:
                    await self._context.work(self.costs.free)
                    if self.uvm is not None and address in self._managed_sizes:
                        self.uvm.remove(address, self._managed_sizes.pop(address))
                        self.machine.host_memory.release(address)
                        return
                    try:
                        block, segments = self.device.memory.free(address)
                    except InvalidDeviceAddress as error:
                        raise DriverError(call.api, INVALID, str(error)) from None
                    if (trace := self.machine.trace) is not None:
                        trace(events.Free, self.device.index, -1, call.cause, address, block.size, call.api)
                    if self.uvm is not None:
                        self.uvm.try_again()
                    if segments:
                        await self._context.work(segments * self.costs.free_segment)
                finally:
                    self._halting.end(resume)

    # The host's

    async def mem_host_register(self, address: int, nbytes: int, cause: int | None = None) -> None:
        """cuMemHostRegister: pin a range of host memory.

        Raises DriverError when any of it is pinned already, and for a size that is not positive.
        """
        with self._context.call("cuMemHostRegister", None, cause) as call:
            if nbytes <= 0:
                raise DriverError(call.api, INVALID, f"{nbytes} bytes at {address:#x}")
            async with self._context.locked():
                if self._copies.pinned.overlaps(address, nbytes):
                    code = "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"
                    raise DriverError(call.api, code, f"{nbytes} bytes at {address:#x}")
                await self._context.work(self.costs.register + nbytes * self.costs.register_per_byte)
                self._copies.pinned.add(address, nbytes)

    async def mem_host_unregister(self, address: int, cause: int | None = None) -> None:
        """cuMemHostUnregister.  Raises DriverError when no pinned range begins there."""
        with self._context.call("cuMemHostUnregister", None, cause) as call:
            async with self._context.locked():
                if not self._copies.pinned.remove(address):
                    code = "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"
                    raise DriverError(call.api, code, f"nothing is pinned at {address:#x}")
                await self._context.work(self.costs.unregister)

    @cached_property
    def _malloc_host(self) -> float:
        return self.machine.spec.value("usm.malloc_host")

    async def mem_alloc_host(self, nbytes: int, cause: int | None = None) -> int:
        """cuMemAllocHost: the address of pinned host memory.  Raises DriverError for a size that is not positive."""
        with self._context.call("cuMemAllocHost", None, cause) as call:
            if nbytes <= 0:
                raise DriverError(call.api, INVALID, f"{nbytes} bytes asked for")
            async with self._context.locked(self._malloc_host + nbytes * self.costs.register_per_byte):
                address = self.machine.host_memory.allocate(nbytes, self.costs.managed_alignment)
                self._copies.pinned.add(address, nbytes)
            return address

    async def mem_free_host(self, address: int, cause: int | None = None) -> None:
        """cuMemFreeHost.  Raises DriverError for an address at which no such memory begins."""
        with self._context.call("cuMemFreeHost", None, cause) as call:
            async with self._context.locked():
                if not self._copies.pinned.remove(address):
                    raise DriverError(call.api, INVALID, f"no pinned memory begins at {address:#x}")
                await self._context.work(self._malloc_host)
                self.machine.host_memory.release(address)

    # Managed

    async def mem_alloc_managed(self, nbytes: int, cause: int | None = None, name: str = "") -> int:
        """cuMemAllocManaged: the address of memory that host and device both use; nobody has touched its pages yet.

        Small allocations share blocks of the unified-memory driver.  ``name`` is the object's, for reports.

        Raises DriverError without managed memory, and for a size that is not positive.
        """
        with self._context.call("cuMemAllocManaged", None, cause) as call:
            uvm = self._managed(call.api)
            if nbytes <= 0:
                raise DriverError(call.api, INVALID, f"{nbytes} bytes asked for")
            async with self._context.locked(self.costs.allocate_managed):
                address = self.machine.host_memory.allocate(nbytes, self.costs.managed_alignment, "managed")
                self._managed_sizes[address] = nbytes
                uvm.add(address, nbytes, populated=False, name=name)
            return address

    async def mem_prefetch_async(
        self, address: int, nbytes: int, stream: Stream, to_host: bool = False, cause: int | None = None
    ) -> None:
        """cuMemPrefetchAsync: managed memory migrates to the device, or to the host, in the order of the stream.

        Raises DriverError without managed memory.
        """
        with self._context.call("cuMemPrefetchAsync", stream, cause) as call:
            uvm = self._managed(call.api)
            done = Signal(self.machine.sim, f"prefetch of {nbytes} bytes")
            packet = PrefetchPacket(stream, call.cause, address, nbytes, to_host, done)
            await self._context.submit(packet, uvm.costs.prefetch_call)

    async def mem_advise(self, address: int, nbytes: int, advice: Advice, cause: int | None = None) -> None:
        """cuMemAdvise.  Raises DriverError without managed memory, and for an advice that there is not."""
        with self._context.call("cuMemAdvise", None, cause) as call:
            uvm = self._managed(call.api)
            if advice not in ADVICE:
                raise DriverError(call.api, INVALID, f"no advice {advice!r}; there are {', '.join(ADVICE)}")
            await uvm.advise(address, nbytes, advice)

    def _managed(self, api: str) -> Uvm:
        if self.uvm is None:
            raise DriverError(api, INVALID, "the program uses no managed memory")
        return self.uvm
