"""A device of CUDA's driver library, as the runtime's plugin.

Follows LLVM's CUDA plugin: streams come from a pool that grows (`StreamManager`), an event is recorded after transfers
that others may have to wait for, one stream serves one directive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from offloadrt.driver import NOTHING, CudaDriver, DriverError, KernelAccesses, Schedule
from offloadrt.driver.calls import INVALID
from offloadrt.driver.cuda.launches import Computed
from offloadrt.kernels import Launch
from offloadrt.machine import Machine
from offloadrt.runtime.host_array import HostSpan
from offloadrt.runtime.lock_wait import take
from offloadrt.runtime.plugins.plugin import DevicePlugin, GridDefaults, QueueLike
from offloadrt.sim import Lock, LockStatistics
from offloadrt.trace import HostTime

_THREADS: Final = 128
"""Default number of threads in a team (``GV_Default_WG_Size`` of ``NVPTXGridValues``)."""


@attrs.define(eq=False)
class StreamPool:
    """A device's idle streams, the last returned first, how many were `made`, and the mutex to take or make one."""

    driver: CudaDriver
    lock: Lock
    host_time: HostTime
    idle: list[Any] = attrs.field(factory=list)
    made: int = 0

    async def take(self) -> Any:
        await take(self.lock, self.host_time)
        try:
            if self.idle:
                return self.idle.pop()
            stream = await self.driver.streams.create()
            self.made += 1
            return stream
        finally:
            self.lock.release()

    async def give_back(self, stream: Any) -> None:
        await take(self.lock, self.host_time)
        self.idle.append(stream)
        self.lock.release()


class CudaPlugin(DevicePlugin):
    """The plugin for a device of CUDA's driver library.

    `migrates`: whether the program's arrays are managed memory; `system`: whether kernels use malloc'ed ones in place.
    """

    driver: CudaDriver
    kernels_die = False
    global_indirection = 0.0
    illegal_access = "CUDA error: an illegal memory access was encountered"
    shared_streams = True

    def __init__(
        self, machine: Machine, driver: CudaDriver, number: int, migrates: bool = False, system: bool = False
    ) -> None:
        self.driver = driver
        self.grid = GridDefaults.of(machine.spec, machine.spec.count("teams.default"), _THREADS)
        self._start = machine.spec.text("runtime.start")
        self._calls = machine.spec.text("driver.calls")
        self.image_pending = self._start != "warm"
        self._found: set[str] | None = set() if self.image_pending else None
        """Names of the kernels that have been loaded so far; None after a warm start, when all are loaded."""
        if migrates or system:
            driver.managed.manage()
        if system:
            driver.managed.manage().use_system_memory()
        self.kernels_fault = migrates or system
        self.streams = StreamPool(driver, Lock(machine.sim, machine.named("stream pool", number)), machine.host_time)
        self._number = number
        self._peers = machine.peers
        self._accesses = Lock(machine.sim, machine.named("peer accesses", number))
        self._asked: set[int] = set()
        """Numbers of the devices to which peer access has been requested."""
        self._host_time = machine.host_time
        self._host_memory = machine.host_memory

    def set_schedule(self, schedule: Schedule) -> None:
        """Set how threads wait for the device (cuDevicePrimaryCtxSetFlags), if the library is CUDA's, not HIP's."""
        if self._calls == "cuda":
            self.driver.set_schedule(schedule)

    def locks(self) -> dict[str, LockStatistics]:
        locks = [self.streams.lock, *([self._accesses] if self._asked else [])]
        return {lock.name: lock.statistics() for lock in locks}

    def in_use(self) -> dict[str, int]:
        return {"streams": self.streams.made - len(self.streams.idle)}

    async def load_program(self) -> None:
        """Load the program's module; a cold start first initializes the driver, once, and makes the primary context.

        LLVM's runtime looks up all kernels of the program here, other runtimes each kernel at its first launch. The
        emulator charges a kernel's look-up at its first launch under every runtime (`find_kernel`).
        """
        if self._start == "warm":
            return
        if self._start == "cold":
            if self._number == 0:
                await self.driver.loading.init()
            await self.driver.loading.retain_primary_context()
        await self.driver.loading.load_module()

    async def find_kernel(self, name: str) -> None:
        """Let the thread look kernel `name` up at its first launch (cuModuleGetFunction), unless the start was warm."""
        if self._found is not None and name not in self._found:
            # Another thread that launches it meanwhile waits for the context lock, which the driver holds to load it.
            self._found.add(name)
            await self.driver.loading.get_function()

    async def open(self, queue: QueueLike) -> Any:
        if queue.stream is None:
            queue.stream = await self.streams.take()
        return queue.stream

    async def submit_data(self, queue: QueueLike, device_address: int, source: HostSpan) -> None:
        """Submit a copy, which may outlast the call, of host `source` to `device_address`; pageable data is staged."""
        stream = queue.stream or await self.open(queue)
        await self.driver.copies.htod(device_address, source, source.nbytes, stream, queue.cause)

    async def retrieve_data(self, queue: QueueLike, destination: HostSpan, device_address: int) -> None:
        stream = queue.stream or await self.open(queue)
        await self.driver.copies.dtoh(destination, device_address, destination.nbytes, stream, queue.cause)

    def exchanges_with(self, device: int) -> bool:
        """Tell whether the profile has links between devices (`nvlink.topology`), so that any two can exchange data."""
        return self._peers is not None and self._peers.linked

    async def exchange_data(
        self, queue: QueueLike, destination: int, source: int, nbytes: int, device: int | None = None
    ) -> None:
        """Copy from address `source` to `destination`, within the device or to another one, number `device`.

        As LLVM does, the first copy to another device enables access to its memory, if there is a link. Without one
        LLVM calls cuMemcpyDtoDAsync, which goes the same way as cuMemcpyPeerAsync.
        """
        if device is None or device == self._number:
            stream = queue.stream or await self.open(queue)
            await self.driver.copies.dtod(destination, source, nbytes, stream, queue.cause)
            return
        if device not in self._asked:
            await self.reach(device)
        stream = queue.stream or await self.open(queue)
        await self.driver.peers.copy(stream, queue.cause, device, destination, self._number, source, nbytes)

    async def reach(self, device: int) -> None:
        """Enable access to another device's memory if there is a link. The first thread does it, others wait."""
        await take(self._accesses, self._host_time)
        try:
            if device not in self._asked and await self.driver.peers.can_access(device):
                await self.driver.peers.enable_access(device)
            self._asked.add(device)
        finally:
            self._accesses.release()

    async def launch_kernel(
        self,
        queue: QueueLike,
        launch: Launch,
        run: Callable[[], None] | None = None,
        touching: KernelAccesses = NOTHING,
        arguments: int = 0,
    ) -> None:
        stream = queue.stream or await self.open(queue)
        await self.find_kernel(launch.kernel.name)
        await self.driver.kernels.launch(launch, Computed(run), stream, queue.cause, touching)

    async def record_event(self, queue: QueueLike) -> Any:
        stream = queue.stream or await self.open(queue)
        return await self.driver.streams.record_event(stream)

    def needs_wait(self, event: Any) -> bool:
        """Return True: CUDA's plugin calls the driver in `wait_event` even if the event has completed."""
        return True

    def is_complete(self, event: Any) -> bool:
        return bool(event.is_complete)

    async def wait_event(self, queue: QueueLike, event: Any) -> None:
        stream = queue.stream or await self.open(queue)
        await self.driver.streams.wait_event(stream, event)

    async def synchronize(self, queue: QueueLike) -> None:
        if queue.stream is None:
            return
        stream = queue.stream
        await self.driver.streams.synchronize(stream)
        if not queue.lasts:
            await self.streams.give_back(stream)
            queue.stream = None

    async def prefault(self, address: int, nbytes: int) -> None:
        """Prefetch managed memory and wait for it. Raises DriverError for other memory: CUDA has no call for that."""
        if self.driver.managed.uvm is None:
            reason = "the memory is not managed, and CUDA cannot fill a device's page table for host memory"
            raise DriverError("cuMemPrefetchAsync", INVALID, reason)
        stream = await self.streams.take()
        try:
            await self.driver.managed.prefetch(address, nbytes, stream)
            await self.driver.streams.synchronize(stream)
            await self.streams.give_back(stream)
        except BaseException:
            self.streams.idle.append(stream)  # without waiting; what others put into it comes after this thread's work
            raise

    async def host_touch(self, address: int, nbytes: int, writes: bool = True) -> None:
        """Read or write host memory in the calling thread.

        Pages without memory are populated, by the operating system or, for managed memory, by the unified-memory
        driver; pages of managed memory that a device owns migrate back by faults.
        """
        uvm = self.driver.managed.uvm
        if uvm is None or not uvm.populates(address):
            await self._host_memory.populate(address, nbytes)
        if uvm is not None:
            await uvm.host_access(address, nbytes, writes)

    async def prefetch(self, queue: QueueLike, address: int, nbytes: int, to_host: bool) -> None:
        """Migrate managed memory to the device, or to the host, in the queue's stream (cuMemPrefetchAsync)."""
        stream = queue.stream or await self.open(queue)
        await self.driver.managed.prefetch(address, nbytes, stream, to_host, queue.cause)
