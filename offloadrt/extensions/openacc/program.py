"""An OpenACC program on an emulated machine: its devices, its host threads, its async queues, its generated code."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Final

import attrs

from offloadrt.extensions.openacc.host_thread import HostThread
from offloadrt.extensions.openacc.jacc.generation import CodeCache
from offloadrt.extensions.openacc.runtime_library import (
    AsyncQueues,
    KernelRecords,
    KernelTimes,
    RuntimeLibrary,
    compiler_model,
)
from offloadrt.machine import DeviceMemory, Machine
from offloadrt.models.host.arrays import Arena
from offloadrt.models.host.program import Barrier, Drivers, Model, OffloadProgram, ProgramOptions
from offloadrt.runtime.allocators import DeviceAllocator
from offloadrt.runtime.device import DeviceOptions
from offloadrt.runtime.host_array import HostSpan
from offloadrt.runtime.mapping.map_item import DirectiveQueue
from offloadrt.runtime.plugins.plugin import DevicePlugin
from offloadrt.sim import LockStatistics
from offloadrt.trace import Trace

ADDRESS_BYTES: Final = 8


@attrs.define(eq=False)
class ArgumentBlocks:
    """Blocks of device memory that hold the arguments of a device's launches, as in libgomp's plugin.

    Follows GOMP_OFFLOAD_openacc_exec and GOMP_OFFLOAD_openacc_async_exec (libgomp/plugin/plugin-nvptx.c): each launch
    allocates a block for the addresses of its data, copies them there, and frees the block when the launch is over. The
    free of an asynchronous launch is put off: a callback of the stream notes the block, and the next allocation frees
    it. Here an event stands for that callback.

    plugin: the runtime's plugin for the device. allocator: where the blocks come from (in libgomp the driver itself).
    memory: the device's memory, which tells whether a block is still allocated.
    """

    plugin: DevicePlugin
    allocator: DeviceAllocator
    memory: DeviceMemory
    _leaving: list[tuple[Any, int]] = attrs.field(factory=list)
    """Blocks of launches that may still be running, each with the event recorded behind its launch."""

    async def around(self, queue: DirectiveQueue, arguments: int, launch: Callable[[], Awaitable[None]]) -> None:
        """Call `launch` with a device block that holds its arguments; the block is freed when the launch is over.

        queue: the queue in which the addresses are copied to the block before the launch. arguments: how many addresses
        the block holds. Raises OutOfDeviceMemory.
        """
        await self._free_finished()
        nbytes = max(1, arguments) * ADDRESS_BYTES
        block = await self.allocator.allocate(nbytes, True)
        try:
            await self.plugin.submit_data(queue, block, HostSpan(0, nbytes, None))
            await launch()
            if queue.lasts:
                event = await self.plugin.record_event(queue)
        except BaseException:
            queue.post_processing.append(functools.partial(self._free, block))
            raise
        if queue.lasts:
            self._leaving.append((event, block))
        else:
            queue.post_processing.append(functools.partial(self._free, block))

    async def _free(self, block: int) -> None:
        """Free a block. If the call is left early, it can be repeated."""
        if self.memory.begins(block):
            await self.allocator.free(block)

    async def _free_finished(self) -> None:
        looked_at, self._leaving = self._leaving, []
        finished: list[tuple[Any, int]] = []
        for event, block in looked_at:
            (finished if self.plugin.is_complete(event) else self._leaving).append((event, block))
        try:
            while finished:
                await self._free(finished[0][1])
                del finished[0]
        finally:
            self._leaving[:0] = finished

    async def release(self) -> None:
        """Free the blocks whose free was put off, and give the memory of the allocator's pools back to the driver.

        The program calls this at its end, when no kernel runs any more.
        """
        leaving, self._leaving = self._leaving, []
        for _, block in leaving:
            await self._free(block)
        await self.allocator.release_pooled()

    def locks(self) -> dict[str, LockStatistics]:
        return self.allocator.locks()


@attrs.frozen(kw_only=True)
class OpenACCOptions(ProgramOptions):
    """The options of an OpenACC program. Fixed once the machine is built."""

    model: ClassVar[str] = "openacc"
    compiler: str = "pgi"
    """The compiler whose run-time library the program is linked with: `pgi` or `gcc`."""
    pools: bool = False
    """Whether GCC's library has the two pools of device memory that JACC gives it; PGI's always has its own pool."""

    def check(self) -> None:
        """Raise ValueError for impossible options, such as a compiler that does not exist."""
        super().check()
        compiler_model(self.compiler)


class OpenACC(OffloadProgram[HostThread]):
    """An OpenACC program, with the machine that it runs on.

    Raises ValueError for a compiler that does not exist.

    A program ends with `finish`: its async queues complete, and pooled device memory is returned. `tells_uses` says
    that its memory accesses are reported to a checker.
    """

    tells_uses: ClassVar[bool] = True

    def __init__(
        self, machine: Machine, drivers: Drivers, options: OpenACCOptions | None = None, trace: Trace | None = None
    ) -> None:
        options = options or OpenACCOptions()
        self.compiler = compiler_model(options.compiler, options.pools)
        super().__init__(machine, drivers, options, trace, DeviceOptions(allocator=self.compiler.allocator))
        if (arguments := self.compiler.arguments) is not None:
            for device in self.devices:
                device.argument_blocks = ArgumentBlocks(device.plugin, arguments(device.allocator_site), device.memory)
        self.library = RuntimeLibrary(
            self.compiler, AsyncQueues(machine.sim), CodeCache(machine, trace), KernelRecords(machine.devices)
        )
        for driver in drivers if self.compiler.one_buffer else ():
            driver.share_buffer()

    def make_thread(self, number: int, num_threads: int, barrier: Barrier, heap: Arena, stack: Arena) -> HostThread:
        return HostThread(self, self.library, number, num_threads, barrier, heap, stack)

    @property
    def code(self) -> CodeCache:
        """Return the kernels that JACC generated at run time."""
        return self.library.code

    @property
    def kernel_times(self) -> dict[str, KernelTimes]:
        """Return the times of the kernels of compute constructs that have ended, by name."""
        return self.library.records.of_constructs

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of all devices' runtime locks, by name. The locks of async queues are added up."""
        return {**super().locks(), **self.library.queues.locks(), **self.code.locks()}

    async def complete_tasks(self) -> None:
        """Wait for all async queues, also those that the program has not waited for, and give their streams back.

        The queues of a device that a fatal error has ended are left alone.
        """
        begin = self.sim.now
        for device in self.devices:
            for queue in self.library.queues.in_use(device.number) if device.ended is None else ():
                await queue.give_back(device, self.next_directive())
        self.machine.host_time.lived(self.sim.now - begin)


MODEL = Model(OpenACCOptions, OpenACC, module="offloadrt.extensions.openacc")
