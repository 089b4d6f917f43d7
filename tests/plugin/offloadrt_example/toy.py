"""A toy programming model: each host thread has an in-order queue, as in SYCL, and memory of the device."""

from typing import Any, ClassVar

import attrs

from offloadrt.driver import NOTHING
from offloadrt.kernels import Kernel
from offloadrt.models.host.directive import launch_of
from offloadrt.models.host.program import Model, OffloadProgram, ProgramOptions, ProgramThread
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import DirectiveQueue


@attrs.frozen(kw_only=True)
class ToyOptions(ProgramOptions):
    model: ClassVar[str] = "toy"


class HostThread(ProgramThread):
    """Given to the body of a host thread as `t`; what it submits runs in order."""

    def __init__(self, program: "Toy", *of_team: Any) -> None:
        super().__init__(program, *of_team)
        self.device = program.devices[0]
        self.queue = DirectiveQueue(0)

    async def malloc_device(self, array: HostArray) -> int:
        """Allocate device memory for an array; return its address."""
        await self.program.start_devices()
        return await self.device.allocate(array.nbytes, array, array.address, array.phantom)

    async def memcpy(self, address: int, array: HostArray) -> None:
        """Copy an array to the device."""
        await self.device.submit(self.queue, address, array.span(array.address, array.nbytes), array)

    async def parallel_for(self, kernel: Kernel, iterations: int) -> None:
        """Submit a kernel, and go on."""
        launch = launch_of(kernel, (), iterations=iterations)
        await self.device.plugin.launch_kernel(self.queue, launch, None, NOTHING, 0)

    async def leave_team(self) -> None:
        """Wait for everything in the queue."""
        await self.device.plugin.synchronize(self.queue)


class Toy(OffloadProgram[HostThread]):
    def make_thread(self, *of_thread: Any) -> HostThread:
        return HostThread(self, *of_thread)

    async def complete_tasks(self) -> None:
        """Do nothing: each thread waits for its queue."""


MODEL = Model(ToyOptions, Toy, module="offloadrt_example.toy")
