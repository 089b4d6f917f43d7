"""The plugin for AMD's devices: what LLVM's AMDGPU plugin asks of ROCr (`offload/plugins-nextgen/amdgpu`).

Streams come from a pool that grows; each time that one is taken it takes an HSA queue. Copies of `copy.async_limit`
bytes and more drain the directive's stream and are synchronous: the host memory is pinned, copied from or to, and
unpinned.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from offloadrt.driver import NOTHING, Advice, DriverError, HsaSignal, Rocr, Touching, Uvm
from offloadrt.driver.errors import INVALID_ARGUMENT
from offloadrt.kernels import Kernel, Launch
from offloadrt.machine import InvalidDeviceAddress, Machine
from offloadrt.machine.memory.backing import Bytes
from offloadrt.runtime.amdgpu_stream import AmdgpuStream, DeviceBytes
from offloadrt.runtime.host_array import HostSpan
from offloadrt.runtime.lock_wait import take
from offloadrt.runtime.plugin import QueueLike
from offloadrt.sim import Lock, LockStatistics, Signal

_IMAGE_COPY: Final = 64
"""Bytes of a copy when the program is loaded: a variable of the device's runtime library."""
_FILL = Kernel("memory_fill", bytes_per_iteration=1.0, threads_per_team=256)
_FILL_BYTES_PER_THREAD: Final = 16
_ONE_MEMORY: Final = "CPU and GPU share one memory: nothing is managed, and nothing could migrate"


class AmdgpuPlugin:
    """One device as the runtime sees it; see `runtime.plugin.DevicePlugin`."""

    kernels_fault = True
    shared_streams = False
    managed: Uvm | None = None

    def __init__(self, machine: Machine, rocr: Rocr, number: int) -> None:
        spec = machine.spec
        self.driver = rocr
        self.kernels_die = not spec.flag("gpu.xnack")
        node = f"GPU node-{number + 1}"
        self.illegal_access = f"Memory access fault by {node}. Reason: Page not present or supervisor privilege"
        self.limit = spec.count("copy.async_limit")
        self.image_pending = True
        self._machine = machine
        self._memory = machine.devices[number].memory
        self._queues = machine.devices[number].hsa_queues
        self.global_indirection = spec.value("usm.global_indirection")
        self._image = spec.count("runtime.image_allocations"), spec.count("runtime.image_copies")
        self._stream_allocations = spec.count("runtime.stream_allocations")
        suffix = f" {number}" if number else ""
        self._lock = Lock(machine.sim, f"stream pool{suffix}")
        self._idle: list[AmdgpuStream] = []
        self._synchronous = self._queues.open_stream()
        """Of copies that go through none of the plugin's streams."""
        self._signal_lock = Lock(machine.sim, f"signal pool{suffix}")
        self._free_signals = self._signals = spec.count("signal.initial")
        self._image_queue = _ImageQueue()
        self._blocks: list[int] = []
        """Device memory of the plugin's own."""

    def start(self) -> None:
        """Spawn the actors below."""
        self.driver.start()

    def locks(self) -> dict[str, LockStatistics]:
        return {lock.name: lock.statistics() for lock in (self._lock, self._signal_lock)}

    async def load_image(self, cause: int) -> None:
        """Load the program on the device; done by the first thread that reaches it."""
        self.image_pending = False
        blocks, copies = self._image
        await self._allocate(max(blocks, 1) - len(self._blocks))  # all of them, unless it was left early before
        queue = self._image_queue
        queue.cause = cause
        for _ in range(copies):
            await self.submit_data(queue, self._blocks[0], HostSpan(0, _IMAGE_COPY, None))
            await self.synchronize(queue)

    async def unload(self) -> None:
        """Give the device memory back that the plugin has for itself, at the end of the program."""
        while self._blocks:
            await self.driver.memory_pool_free(self._blocks.pop())

    async def _allocate(self, blocks: int) -> None:
        for _ in range(blocks):
            self._blocks.append(await self.driver.memory_pool_allocate(self._memory.alignment, phantom=True))

    # streams

    def _ready(self, queue: QueueLike, signals: int) -> AmdgpuStream | None:
        """The queue's stream, with that many signals for it; None when that needs more than to look."""
        stream: AmdgpuStream | None = queue.stream
        if self._free_signals < signals:
            return None
        if stream is None:
            if not self._idle or not self._lock.pass_now():
                return None
            stream = queue.stream = self._idle.pop()
            self._queues.take(stream.stream)
        self._free_signals -= signals
        stream.signals += signals
        return stream

    async def _made_ready(self, queue: QueueLike, signals: int) -> AmdgpuStream:
        """The same, at whatever it takes."""
        if queue.stream is None:
            if not self._lock.take_now():
                await take(self._lock, self._machine.host_time)
            try:
                stream = self._idle.pop() if self._idle else await self._new_stream()
                self._queues.take(stream.stream)
            finally:
                self._lock.release()
            queue.stream = stream
        else:
            stream = queue.stream
        while self._free_signals < signals:
            await self._grow_signals(signals)
        self._free_signals -= signals  # nothing has been awaited since they were found
        stream.signals += signals
        return stream

    async def _new_stream(self) -> AmdgpuStream:
        await self._allocate(self._stream_allocations)
        return AmdgpuStream(self.driver, self._queues.open_stream())

    async def _grow_signals(self, wanted: int) -> None:
        """The pool of signals grows to twice those in use (`GenericDeviceResourceManagerTy::getResourcesImpl`).

        It does so under its mutex: whoever waits for that looks again whether signals are still missing.
        """
        if not self._signal_lock.take_now():
            await take(self._signal_lock, self._machine.host_time)
        try:
            if self._free_signals >= wanted:
                return
            used = self._signals - self._free_signals
            more = max(2 * used, used + wanted) - self._signals
            for _ in range(more):
                await self.driver.signal_create()
            self._signals += more
            self._free_signals += more
        finally:
            self._signal_lock.release()

    async def _later(
        self, queue: QueueLike, signals: int, operation: Callable[[AmdgpuStream], Awaitable[None]]
    ) -> None:
        await operation(await self._made_ready(queue, signals))

    async def open(self, queue: QueueLike) -> None:
        """Give the queue a stream before its first use."""
        await self._made_ready(queue, 0)

    async def synchronize(self, queue: QueueLike) -> None:
        """Wait for everything in the queue, then give its stream back unless the queue lasts."""
        if queue.copy is not None:
            await self._wait_for_copy(queue, queue.copy)
        stream: AmdgpuStream | None = queue.stream
        if stream is None:
            return
        last, done = stream.stream.last, stream.signals
        if last is not None and done:
            await self.driver.signal_wait_scacquire(stream.stream, last)
        if queue.lasts:
            done = min(done, stream.signals)  # somebody else may have waited, too
            self._free_signals += done
            stream.signals -= done
            return
        held = not self._lock.pass_now()
        if held:
            await take(self._lock, self._machine.host_time)
        queue.stream = None
        self._free_signals += stream.signals
        stream.signals = 0
        self._queues.give_back(stream.stream)
        self._idle.append(stream)
        if held:
            self._lock.release()

    # copies

    def submit_data(self, queue: QueueLike, device_address: int, source: HostSpan) -> Awaitable[None]:
        """Copy to the device; returns when the host may go on."""
        nbytes, cause = source.nbytes, queue.cause
        target = self._device_bytes(device_address, nbytes)
        if nbytes >= self.limit:
            data = source.bytes
            move = None if data is None or target is None else _moving(target, lambda: data)
            return self._copy_now(queue, "h2d", nbytes, source.address, move)
        stream = self._ready(queue, 2)
        if stream is None:
            return self._later(queue, 2, lambda stream: stream.copy_to_device(cause, source, target))
        return stream.copy_to_device(cause, source, target)

    def retrieve_data(self, queue: QueueLike, destination: HostSpan, device_address: int) -> Awaitable[None]:
        """Copy from the device."""
        nbytes, cause = destination.nbytes, queue.cause
        source = self._device_bytes(device_address, nbytes)
        if nbytes >= self.limit:
            data = destination.bytes
            move = None if data is None or source is None else _moving(lambda: data, source)
            return self._copy_now(queue, "d2h", nbytes, destination.address, move)
        stream = self._ready(queue, 2)
        if stream is None:
            return self._later(queue, 2, lambda stream: stream.copy_to_host(cause, destination, source))
        return stream.copy_to_host(cause, destination, source)

    def exchanges_with(self, device: int) -> bool:
        """No links between APUs are emulated."""
        return False

    async def reach(self, device: int) -> None:
        """Raises DriverError, as there are none."""
        raise DriverError("memory_async_copy", INVALID_ARGUMENT, f"no link to device {device}")

    async def exchange_data(
        self, queue: QueueLike, destination: int, source: int, nbytes: int, device: int | None = None
    ) -> None:
        """Copy within the device. Raises DriverError for another one."""
        if device is not None and device != self.driver.device.index:
            raise DriverError("memory_async_copy", INVALID_ARGUMENT, f"no link to device {device}")
        to, start = self._device_bytes(destination, nbytes), self._device_bytes(source, nbytes)
        move = None if to is None or start is None else _moving(to, start)
        if nbytes >= self.limit:
            await self._copy_now(queue, "d2d", nbytes, None, move)
            return
        stream = self._ready(queue, 1) or await self._made_ready(queue, 1)
        await stream.copy_within(queue.cause, nbytes, move)

    async def fill_data(self, queue: QueueLike, address: int, value: int, nbytes: int) -> None:
        """Fill device memory, by a kernel."""
        target = self._device_bytes(address, nbytes)
        teams = max(1, -(-nbytes // (_FILL.threads_per_team * _FILL_BYTES_PER_THREAD)))
        run = None if target is None else lambda: target().fill(value)
        await self.launch_kernel(queue, _FILL.launch(teams, iterations=nbytes), run)

    async def _copy_now(
        self, queue: QueueLike, direction: str, nbytes: int, host_address: int | None, move: Callable[[], None] | None
    ) -> None:
        """A large copy, when everything before it in the directive has completed."""
        await self.synchronize(queue)
        rocr, stream = self.driver, self._synchronous
        if host_address is not None:
            await rocr.memory_lock(host_address, nbytes)
        await rocr.signal_create()
        done = HsaSignal(self._machine.sim, "copy")
        await rocr.memory_async_copy_by_kernel(stream, queue.cause, direction, nbytes, move, done)
        queue.copy = done
        await self._wait_for_copy(queue, done)
        if host_address is not None:
            await rocr.memory_unlock(host_address)

    async def _wait_for_copy(self, queue: QueueLike, done: Signal) -> None:
        """Wait for a copy that goes through no stream of the queue's."""
        await self.driver.signal_wait_scacquire(self._synchronous, done, "copies")
        queue.copy = None

    def _device_bytes(self, address: int, nbytes: int) -> DeviceBytes | None:
        """How to see the bytes of a range of the device; None for a phantom. Raises DriverError."""
        memory = self._memory
        try:
            block = memory.block_of(address)
        except InvalidDeviceAddress as error:
            raise DriverError("memory_async_copy", INVALID_ARGUMENT, str(error)) from None
        if address + nbytes > block.address + block.size:
            reach = f"{nbytes} bytes at {address:#x} reach beyond their block"
            raise DriverError("memory_async_copy", INVALID_ARGUMENT, reach)
        return None if block.phantom else lambda: memory.view(address, nbytes)

    # kernels

    def launch_kernel(
        self,
        queue: QueueLike,
        launch: Launch,
        run: Callable[[], None] | None = None,
        touching: Touching = NOTHING,
    ) -> Awaitable[None]:
        """Launch a kernel; `run` computes its result at its end."""
        stream = self._ready(queue, 1)
        if stream is None:
            return self._later(queue, 1, lambda stream: stream.launch(queue.cause, launch, run, touching))
        return stream.launch(queue.cause, launch, run, touching)

    # events

    async def record_event(self, queue: QueueLike) -> HsaSignal | None:
        """A mark behind everything in the queue; None when that has completed."""
        stream: AmdgpuStream | None = queue.stream
        return None if stream is None else stream.unfinished

    def needs_wait(self, event: HsaSignal | None) -> bool:
        """Whether `wait_event` has anything to do."""
        return event is not None and not event.is_set

    def is_complete(self, event: HsaSignal | None) -> bool:
        """Whether everything before the mark has completed."""
        return not self.needs_wait(event)

    async def wait_event(self, queue: QueueLike, event: HsaSignal | None) -> None:
        """Make the queue's stream wait; the host does not."""
        if event is not None and not event.is_set:
            stream = self._ready(queue, 1) or await self._made_ready(queue, 1)
            await stream.wait_for(queue.cause, event)

    # host memory

    def prefault(self, address: int, nbytes: int) -> Awaitable[int]:
        """Fill the device's page table for a range of host memory."""
        return self.driver.svm_attributes_set(address, nbytes)

    def host_touch(self, address: int, nbytes: int) -> Awaitable[int]:
        """The calling thread touches host memory: pages that nobody has touched are populated."""
        return self.driver.kfd.host_touch(address, nbytes)

    def manage(self) -> Uvm:
        """Raises DriverError: nothing migrates within one memory."""
        raise DriverError("hipMallocManaged", INVALID_ARGUMENT, _ONE_MEMORY)

    async def alloc_managed(self, nbytes: int, name: str) -> int:
        """Raises DriverError: hipMallocManaged is not emulated where nothing migrates."""
        raise DriverError("hipMallocManaged", INVALID_ARGUMENT, _ONE_MEMORY)

    async def free_managed(self, address: int) -> None:
        """Raises DriverError, as there is none."""
        raise DriverError("hipFree", INVALID_ARGUMENT, _ONE_MEMORY)

    async def prefetch(self, queue: QueueLike, address: int, nbytes: int, to_host: bool) -> None:
        """Raises DriverError: nothing migrates within one memory."""
        raise DriverError("svm_prefetch_async", INVALID_ARGUMENT, _ONE_MEMORY)

    async def advise(self, address: int, nbytes: int, advice: Advice) -> None:
        """Raises DriverError, for the same reason."""
        raise DriverError("svm_attributes_set", INVALID_ARGUMENT, _ONE_MEMORY)


class _ImageQueue:
    """The queue of the copies that load the program."""

    def __init__(self) -> None:
        self.cause = 0
        self.stream: AmdgpuStream | None = None
        self.copy: Signal | None = None
        self.lasts = False


def _moving(target: Callable[[], Bytes], source: Callable[[], Bytes]) -> Callable[[], None]:
    def move() -> None:
        target()[:] = source()

    return move
