"""A CUDA program on an emulated machine: its driver library and its default stream."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from offloadrt.driver import Driver
from offloadrt.machine import Machine, Stream
from offloadrt.models.cuda.host_thread import HostThread
from offloadrt.models.cuda.options import CUDAOptions
from offloadrt.models.host.barrier import Barrier
from offloadrt.models.host.host_places import Arena
from offloadrt.models.host.program import Drivers, OffloadProgram
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
        self.default_stream: Stream | None = None
        """Made with the context, before the first region of the program."""

    def make_thread(self, number: int, num_threads: int, barrier: Barrier, heap: Arena, stack: Arena) -> HostThread:
        assert self.default_stream is not None, "the first region makes it"
        return HostThread(self, self.driver, self.default_stream, number, num_threads, barrier, heap, stack)

    async def parallel(self, body: Callable[[HostThread], Awaitable[R]], num_threads: int = 1) -> list[R]:
        """Run a team of host threads, each `await body(t)`, with the context there from the beginning."""
        if self.default_stream is None:
            self.default_stream = await self.driver.stream_create()
        return await super().parallel(body, num_threads)

    async def complete_tasks(self) -> None:
        """Wait for all streams, as the end of the context does."""
        for stream in [*self.driver.streams]:
            await self.driver.stream_synchronize(stream)
