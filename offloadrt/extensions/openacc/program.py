"""An OpenACC program on an emulated machine: its devices, its host threads, its async queues, its generated code."""

from __future__ import annotations

from typing import ClassVar

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
from offloadrt.machine import Machine
from offloadrt.models.host.arrays import Arena
from offloadrt.models.host.program import Barrier, Drivers, Model, OffloadProgram, ProgramOptions
from offloadrt.runtime.device import DeviceOptions
from offloadrt.runtime.launch.argument_blocks import ArgumentBlocks
from offloadrt.sim import LockStatistics
from offloadrt.trace import Trace


@attrs.frozen(kw_only=True)
class OpenACCOptions(ProgramOptions):
    """The options of an OpenACC program. Fixed once the machine is built."""

    model: ClassVar[str] = "openacc"
    compiler: str = "pgi"
    """Whose run-time library the program is linked with: `pgi` or `gcc`."""
    pools: bool = False
    """Whether GCC's library has JACC's two pools of device memory."""

    def check(self) -> None:
        """Raise ValueError, also for a compiler that does not exist."""
        super().check()
        compiler_model(self.compiler)


class OpenACC(OffloadProgram[HostThread]):
    """The program's view of the machine.

    ValueError for a compiler that does not exist.

    A program ends with `finish`: the async queues complete, pooled device memory is returned.
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
        """Return what the kernels of compute constructs took, by name, as far as they have ended."""
        return self.library.records.of_constructs

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of the runtime's locks of all devices, by name; those of async queues together."""
        return {**super().locks(), **self.library.queues.locks(), **self.code.locks()}

    async def complete_tasks(self) -> None:
        """Wait for all async queues, for some of which nobody may have waited, and close them.

        The queues of a device that a fatal error has ended are left alone.
        """
        begin = self.sim.now
        for device in self.devices:
            for queue in self.library.queues.in_use(device.number) if device.ended is None else ():
                await queue.give_back(device, self.next_directive())
        self.machine.host_time.lived(self.sim.now - begin)


MODEL = Model(OpenACCOptions, OpenACC, module="offloadrt.extensions.openacc")
