"""The calls of CUDA's driver library for blocks of the device: cuMemAlloc and cuMemFree."""

from __future__ import annotations

from collections.abc import Callable

from offloadrt.driver.cuda.context import Context
from offloadrt.driver.cuda.kernel_driver import KernelDriver
from offloadrt.driver.cuda.managed_calls import ManagedCalls
from offloadrt.driver.cuda.stream_calls import StreamCalls
from offloadrt.driver.errors import INVALID, DriverError, OutOfDeviceMemory
from offloadrt.driver.halting import Halting
from offloadrt.machine import InvalidDeviceAddress, OutOfSegments
from offloadrt.trace import events


class MemoryCalls:
    """The blocks of one context.

    An allocation may evict managed memory, and a free makes room for it, so both know ``managed``.  A free looks at all
    streams of the context where the profile says so (``driver.free_visits_streams``).
    """

    def __init__(
        self, context: Context, managed: ManagedCalls, streams: StreamCalls, kernel_driver: KernelDriver
    ) -> None:
        machine, device = context.machine, context.device
        self._context = context
        self._costs = context.costs
        self._machine = machine
        self._device = device
        self._managed = managed
        self._streams = streams
        self._kernel_driver = kernel_driver
        self._halting = Halting(machine.sim, device, machine.spec.text("driver.halt"), machine.host_time)
        self.free_in_pool: Callable[[int], bool] | None = None
        """Frees memory of a pool, when the context has pools; returns whether one has it."""
        self.visited = 0
        """Streams that frees have looked at."""

    async def mem_alloc(self, nbytes: int, phantom: bool = False, cause: int | None = None) -> int:
        """Return the address of a new block (cuMemAlloc); a phantom block has no bytes.

        Raises OutOfDeviceMemory, and DriverError for a size that is not positive.
        """
        with self._context.call("cuMemAlloc", None, cause, nbytes) as call:
            if nbytes <= 0:
                raise DriverError(call.api, INVALID, f"{nbytes} bytes asked for")
            async with self._context.locked():
                halts = self._halting.concerns("alloc")
                # The device is halted with the context lock held, so other threads' calls wait for the drain as well.
                resume = await self._halting.begin("alloc", call.api, call.cause) if halts else None
                try:
                    address = await self.reserve("cuMemAlloc", nbytes, phantom)
                finally:
                    self._halting.end(resume)
            if (trace := self._machine.trace) is not None:
                trace(events.Allocate, self._device.index, -1, call.cause, address, nbytes, call.api)
            return address

    async def reserve(self, api: str, nbytes: int, phantom: bool) -> int:
        """Take a block, then let the time pass that the driver needs for it; return its address.

        The caller holds the context lock, for the call ``api``.

        Raises OutOfDeviceMemory.
        """
        memory, sim, uvm = self._device.memory, self._machine.sim, self._managed.uvm
        if uvm is not None and not memory.has_room(memory.needs(nbytes)):
            await uvm.make_room(nbytes, sim.current.cause)
        try:
            # The block is taken before the time passes, so that no other thread gets the same room meanwhile.
            block, segments = memory.allocate(nbytes, phantom)
        except OutOfSegments:
            free = memory.free_bytes
            await self._context.work(self._costs.allocate)
            raise OutOfDeviceMemory(api, nbytes, free, sim.current.name, sim.now, self._device.index) from None
        try:
            new = self._costs.allocate_segment + (segments - 1) * self._costs.further_segment
            await (self._kernel_driver.work(new) if segments else self._context.work(self._costs.allocate))
        except BaseException:
            memory.free(block.address)
            raise
        return block.address

    async def mem_free(self, address: int, cause: int | None = None, *, synchronizes: bool = False) -> None:
        """Free a block of the device or managed memory (cuMemFree).

        synchronizes: wait before for what all streams have, as CUDA's does, where frees halt the device at all.

        Raises DriverError for an address at which neither begins.
        """
        with self._context.call("cuMemFree", None, cause) as call:
            if synchronizes and self._halting.concerns("free"):
                begin = self._machine.sim.now
                for stream in [*self._streams.streams]:
                    if stream.last is not None:
                        await stream.last.wait()
                self._machine.host_time.add("drain", self._machine.sim.now - begin)
            async with self._context.locked():
                for _ in self._streams.streams if self._costs.visit else ():
                    await self._context.work(self._costs.visit)
                    self.visited += 1
                halts = self._halting.concerns("free")
                resume = await self._halting.begin("free", call.api, call.cause) if halts else None
                try:
                    await self._context.work(self._costs.free)
                    if self._managed.free(address) or (self.free_in_pool is not None and self.free_in_pool(address)):
                        return
                    try:
                        block, segments = self._device.memory.free(address)
                    except InvalidDeviceAddress as error:
                        raise DriverError(call.api, INVALID, str(error)) from None
                    if (trace := self._machine.trace) is not None:
                        trace(events.Free, self._device.index, -1, call.cause, address, block.size, call.api)
                    if (uvm := self._managed.uvm) is not None:
                        uvm.try_again()
                    if segments:
                        await self._kernel_driver.work(self._costs.give_back_s(segments))
                finally:
                    self._halting.end(resume)
