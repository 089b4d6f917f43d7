"""An OpenACC program on an emulated machine: its devices, its host threads, its async queues, its generated code."""

from __future__ import annotations

from collections.abc import Sequence

from offloadrt.driver import Rocr
from offloadrt.machine import Machine
from offloadrt.models.host.barrier import Barrier
from offloadrt.models.host.host_places import Arena
from offloadrt.models.host.program import Program
from offloadrt.models.openacc.compilers import compiler_model
from offloadrt.models.openacc.host_thread import HostThread
from offloadrt.models.openacc.jacc.code_cache import CodeCache
from offloadrt.models.openacc.kernel_times import KernelRecords, KernelTimes
from offloadrt.runtime.argument_blocks import ArgumentBlocks
from offloadrt.runtime.lasting_queue import LastingQueue
from offloadrt.runtime.plugin import UserModeDriver
from offloadrt.sim import Lock, LockStatistics
from offloadrt.trace import Trace


class OpenACC(Program[HostThread]):
    """The program's view of the machine.

    compiler: whose run-time library it is linked with (`pgi`, `gcc`); pools: GCC with JACC's two pools. phantom: are
    arrays made without values unless they say otherwise? ValueError for a compiler that does not exist.

    A program ends with `finish`: the async queues complete, pooled device memory is returned.
    """

    def __init__(
        self,
        machine: Machine,
        drivers: Sequence[UserModeDriver | Rocr],
        *,
        trace: Trace | None = None,
        compiler: str = "pgi",
        pools: bool = False,
        phantom: bool = False,
    ) -> None:
        self.compiler = compiler_model(compiler, pools)
        super().__init__(
            machine, drivers, trace=trace, configuration="copy", allocator=self.compiler.allocator, phantom=phantom
        )
        if (arguments := self.compiler.arguments) is not None:
            for device in self.devices:
                device.argument_blocks = ArgumentBlocks(device.plugin, arguments(device.allocator_site), device.memory)
        self.code = CodeCache(machine, trace)
        """Kernels that were generated at run time."""
        self.records = KernelRecords(machine.devices)
        self.kernel_times: dict[str, KernelTimes] = {}
        """By name, of the kernels of compute constructs, as far as they have ended; those of JACC have their own."""
        self._queues: dict[tuple[int, int], LastingQueue] = {}

    def make_thread(self, number: int, num_threads: int, barrier: Barrier, heap: Arena, stack: Arena) -> HostThread:
        return HostThread(self, number, num_threads, barrier, heap, stack)

    # async queues

    def queue(self, device: int, value: int) -> LastingQueue:
        """The activity queue of a device for an async value; all host threads share it."""
        found = self._queues.get((device, value))
        if found is None:
            found = LastingQueue(Lock(self.sim, f"async queue {value} of device {device}"))
            self._queues[device, value] = found
        return found

    def queues(self, device: int) -> list[LastingQueue]:
        """All activity queues of a device that are in use, in the order of their first use."""
        return [queue for (number, _), queue in self._queues.items() if number == device and queue.used]

    def locks(self) -> dict[str, LockStatistics]:
        """Statistics of the runtime's locks, by name, of all devices; those of the async queues together."""
        queues = [queue.lock.statistics() for queue in self._queues.values()]
        together = {"async queue locks": LockStatistics.total(queues)} if queues else {}
        return {**super().locks(), **together, **self.code.locks()}

    async def complete_tasks(self) -> None:
        """Wait for all async queues, for some of which nobody may have waited, and close them; not those of a device
        that a fatal error has ended.
        """
        begin = self.sim.now
        for device in self.devices:
            for queue in self.queues(device.number) if device.ended is None else ():
                await queue.give_back(device, self.next_directive())
        self.machine.host_time.lived(self.sim.now - begin)
