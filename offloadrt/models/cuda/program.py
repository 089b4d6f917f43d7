"""A CUDA program on an emulated machine: its driver library and its default stream."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from offloadrt.driver import Driver
from offloadrt.machine import Machine
from offloadrt.models.cuda.host_thread import HostThread, PrimaryContext
from offloadrt.models.cuda.options import CUDAOptions
from offloadrt.models.host.barrier import Barrier
from offloadrt.models.host.host_places import Arena
from offloadrt.models.host.program import Drivers, OffloadProgram
from offloadrt.runtime.device import OffloadDevice
from offloadrt.trace import Trace

R = TypeVar("R")


class CUDA(OffloadProgram[HostThread]):
    """The program's view of the machine.

    ValueError on a machine whose driver library is not CUDA's.
    """

    def __init__(
        self, machine: Machine, drivers: Drivers, options: CUDAOptions | None = None, trace: Trace | None = None
    ) -> None:
        super().__init__(machine, drivers, options or CUDAOptions(), trace)
        (driver,) = drivers
        if not isinstance(driver, Driver):
            raise ValueError(f"{machine.spec.name} has ROCr, and a CUDA program needs CUDA's driver library")
        self.driver = driver
        self._context: PrimaryContext | None = None

    def make_thread(self, number: int, num_threads: int, barrier: Barrier, heap: Arena, stack: Arena) -> HostThread:
        return HostThread(self, self.context, number, num_threads, barrier, heap, stack)

    async def parallel(self, body: Callable[[HostThread], Awaitable[R]], num_threads: int = 1) -> list[R]:
        """Run a team of host threads, each `await body(t)`; after a warm start the context is there already."""
        if self._context is None and not self._unstarted:
            await self._make_context()
        return await super().parallel(body, num_threads)

    async def context(self) -> PrimaryContext:
        """Return the context, which the program's first call makes unless the start was warm."""
        await self.start_devices()
        assert self._context is not None, "a region has begun"
        return self._context

    async def start_device(self, device: OffloadDevice) -> None:
        """Load the program and make the context."""
        await super().start_device(device)
        await self._make_context()

    async def _make_context(self) -> None:
        self._context = PrimaryContext(self.driver, self.devices[0].plugin, await self.driver.stream_create())

    async def complete_tasks(self) -> None:
        """Wait for all streams, as the end of the context does."""
        for stream in [*self.driver.streams]:
            await self.driver.stream_synchronize(stream)
