"""A CUDA program on an emulated machine: the contexts of its devices, and what its threads share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import ClassVar, Literal, TypeVar, get_args

import attrs

from offloadrt.driver import CudaDriver, DriverError
from offloadrt.machine import Machine, MachineSpec
from offloadrt.models.cuda.calling_thread import Allocations, MappedMemory, PrimaryContext, ProgramState
from offloadrt.models.cuda.host_thread import HostThread
from offloadrt.models.host.arrays import Arena
from offloadrt.models.host.program import Barrier, Drivers, Model, OffloadProgram, ProgramOptions, has_devices
from offloadrt.runtime.configurations.usm import translates
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.environment import PER_THREAD, is_on
from offloadrt.runtime.events import ProgramObserver
from offloadrt.runtime.lock_wait import take
from offloadrt.trace import Trace

DefaultStreams = Literal["legacy", "per-thread"]


@attrs.frozen(kw_only=True)
class CUDAOptions(ProgramOptions):
    """The options of a CUDA program. Fixed once the machine is built."""

    model: ClassVar[str] = "cuda"

    default_stream: DefaultStreams = "legacy"
    """The stream of a call that names none: the device's legacy default stream, or the thread's own (`per-thread`).

    This is nvcc's option ``--default-stream``.
    """

    def check(self) -> None:
        """Raise ValueError for a value that an option cannot have."""
        super().check()
        if self.default_stream not in get_args(DefaultStreams):
            choices = " or ".join(get_args(DefaultStreams))
            raise ValueError(f"default_stream is {self.default_stream!r}; it can be {choices}")

    def chosen_on(self, spec: MachineSpec, environment: Mapping[str, str]) -> CUDAOptions:
        """Return the options with the default stream that `environment` chooses; `spec` does not matter.

        Raises ValueError if CUDA_API_PER_THREAD_DEFAULT_STREAM is neither true nor false.
        """
        return attrs.evolve(self, default_stream="per-thread") if is_on(environment, PER_THREAD) else self


R = TypeVar("R")


class CUDA(OffloadProgram[HostThread]):
    """A CUDA program on an emulated machine: its devices' contexts, and its teams of host threads.

    `drivers`: this process's driver library of each device. Raises ValueError on a machine whose library is not CUDA's.
    """

    tells_uses: ClassVar[bool] = True

    def __init__(
        self, machine: Machine, drivers: Drivers, options: CUDAOptions | None = None, trace: Trace | None = None
    ) -> None:
        options = options or CUDAOptions()
        super().__init__(machine, drivers, options, trace)
        libraries = [driver for driver in drivers if isinstance(driver, CudaDriver)]
        if len(libraries) < len(drivers):
            raise ValueError(f"{machine.spec.name} has ROCr, and a CUDA program needs CUDA's driver library")
        self.driver = libraries[0]
        self.driver.process.share_pinned()
        for driver in libraries:
            driver.device.queues.barriers = machine.spec.flag("stream.barriers")
            if translates(machine.spec):
                driver.managed.manage().use_system_memory()
        self._drivers = libraries
        self._contexts: dict[int, PrimaryContext] = {}
        own_streams, shared = options.default_stream == "per-thread", machine.spec.text("usm.shared")
        self._state = ProgramState(Allocations(machine.sim), MappedMemory(), own_streams, shared)

    def observe(self, observer: ProgramObserver) -> None:
        super().observe(observer)
        self._state.told = observer.watch_calls(self, observer, self._state.devices)

    def make_thread(self, number: int, num_threads: int, barrier: Barrier, heap: Arena, stack: Arena) -> HostThread:
        return HostThread(self, self.context, self._state, number, num_threads, barrier, heap, stack)

    async def parallel(self, body: Callable[[HostThread], Awaitable[R]], num_threads: int = 1) -> list[R]:
        """Run `num_threads` host threads, each `await body(t)`; return their results by thread number."""
        if not self._contexts and not self._unstarted and has_devices(self.machine.spec):
            for number in range(len(self.devices)):
                await self._make_context(number)
        return await super().parallel(body, num_threads)

    async def context(self, number: int) -> PrimaryContext:
        """Return the context of device `number`; without a warm start, the first call on the device makes it.

        Other threads that need the context meanwhile wait. Raises InvalidDevice on a machine without devices.
        """
        device = self.device(number)
        if number not in self._contexts:
            lock = self.globals.lock
            await take(lock, self.machine.host_time)
            try:
                if number not in self._contexts:
                    await self.start_device(device)
            finally:
                lock.release()
        return self._contexts[number]

    async def start_device(self, device: OffloadDevice) -> None:
        """Load the program on the device, and make the device's context."""
        await super().start_device(device)
        await self._make_context(self.devices.index(device))

    async def _make_context(self, number: int) -> None:
        driver = self._drivers[number]
        stream = await driver.streams.create(order="legacy")
        if self._state.told is not None:
            self._state.told.legacy[stream] = number
        self._contexts[number] = PrimaryContext(number, driver, self.devices[number].plugin, stream)

    async def complete_tasks(self) -> None:
        """Wait for all streams, as the destruction of the contexts does; errors of work in streams are not reported."""
        for driver in self._drivers:
            for stream in [*driver.streams.all]:
                with suppress(DriverError):
                    await driver.streams.synchronize(stream)


MODEL = Model(CUDAOptions, CUDA, module="offloadrt.models.cuda")
