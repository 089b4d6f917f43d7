"""The plugin for AMD's devices: what LLVM's AMDGPU plugin asks of ROCr (`offload/plugins-nextgen/amdgpu`).

Streams and signals come from pools. Copies of `copy.async_limit` bytes and more drain the
directive's stream and are synchronous: the host memory is locked, copied from or to, and unlocked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import attrs
import numpy as np

from offloadrt.driver import NOTHING, DriverError, HsaSignal, KernelAccesses, Rocr, RunHandler
from offloadrt.driver.calls import INVALID_ARGUMENT
from offloadrt.kernels import Launch
from offloadrt.machine import InvalidDeviceAddress, Machine, MachineSpec, Stream
from offloadrt.machine.memory import Bytes
from offloadrt.runtime.host_array import HostSpan
from offloadrt.runtime.lock_wait import take
from offloadrt.runtime.plugins.plugin import DevicePlugin, GridDefaults, QueueLike
from offloadrt.sim import Lock, LockStatistics, Signal

DeviceBytes = Callable[[], Bytes]
"""Returns a view of the bytes of a range of device memory."""
Move = Callable[[], None]


class PluginBlock(NamedTuple):
    """A block of host memory that the device can access; `pool` names the memory manager that owns the block."""

    pool: str
    nbytes: int


class AmdgpuStream:
    """A stream for one directive (`cause`: its number) at a time. It holds `signals` signals and pinned `blocks`."""

    __slots__ = ("_host_copy", "_rocr", "_sim", "_waits_first", "blocks", "signals", "stream")

    def __init__(self, rocr: Rocr, stream: Stream) -> None:
        self._rocr, self._sim = rocr, rocr.sim
        self._waits_first = rocr.machine.spec.flag("stream.sync_copy_back")
        self._host_copy = rocr.machine.host_memory.copy
        self.stream = stream
        self.signals = 0
        self.blocks: list[PluginBlock] = []

    @property
    def unfinished(self) -> HsaSignal | None:
        """Return the signal of the stream's last operation, if it is not set yet."""
        last = self.stream.last
        return None if last is None or last.is_set or not isinstance(last, HsaSignal) else last

    async def copy_to_device(self, cause: int, source: HostSpan, target: DeviceBytes | None) -> None:
        """Put a copy to the device into the stream (`pushMemoryCopyH2DAsync`) for directive number `cause`."""
        nbytes, rocr, depends = source.nbytes, self._rocr, self.unfinished
        upload = None if source.bytes is None or target is None else _Upload(source.bytes, target)
        stage, move = (None, None) if upload is None else (upload.stage, upload.arrive)
        if depends is None:
            if stage is not None:
                stage()
            await self._host_copy(nbytes)
        else:
            staged = HsaSignal(self._sim, "staging", self)
            await rocr.signals.async_handler(depends, RunHandler(nbytes, stage, staged))
            self.stream.note(staged)
            depends = staged
        done = HsaSignal(self._sim, "copy to the device", self)
        await rocr.copies.copy(self.stream, cause, "h2d", nbytes, move, done, depends)

    async def copy_to_host(self, cause: int, target: HostSpan, source: DeviceBytes | None) -> None:
        """Put a copy to the host into the stream for directive `cause`; AMD's fork first waits for the earlier work."""
        nbytes, rocr = target.nbytes, self._rocr
        if self._waits_first and (before := self.unfinished) is not None:
            await rocr.signals.wait(self.stream, before)
        download = None if target.bytes is None or source is None else _Download(target.bytes, source)
        there = HsaSignal(self._sim, "copy from the device", self)
        fetch, finish = (None, None) if download is None else (download.fetch, download.arrive)
        await rocr.copies.copy(self.stream, cause, "d2h", nbytes, fetch, there, self.unfinished)
        done = HsaSignal(self._sim, "copy out of the staging memory", self)
        await rocr.signals.async_handler(there, RunHandler(nbytes, finish, done, target.address))
        self.stream.note(done)

    async def copy_within(self, cause: int, nbytes: int, move: Move | None) -> None:
        """Put a copy within the device (`pushMemoryCopyD2DAsync`) for directive `cause`; `move` moves the bytes."""
        done = HsaSignal(self._sim, "copy within the device", self)
        await self._rocr.copies.copy(self.stream, cause, "d2d", nbytes, move, done, self.unfinished)

    def launch(self, cause: int, launch: Launch, run: Move | None, touching: KernelAccesses) -> Awaitable[None]:
        """Submit a kernel for directive `cause`. run: computes its result at its end; touching: host memory it uses."""
        done = HsaSignal(self._sim, launch.kernel.name, self)
        return self._rocr.queues.dispatch(self.stream, cause, launch, run, done, touching)

    async def wait_for(self, cause: int, event: HsaSignal) -> None:
        """Let later operations in the stream wait for the event (`waitEvent`). cause: the directive's number."""
        if not event.is_set and event.stream is not self:
            await self._rocr.queues.barrier(self.stream, cause, event, HsaSignal(self._sim, "barrier", self))


@attrs.define(eq=False)
class _Upload:
    """The data of a copy to the device, between its steps."""

    _source: Bytes
    _target: DeviceBytes
    _staged: Bytes | None = None

    def stage(self) -> None:
        self._staged = self._source.copy()

    def arrive(self) -> None:
        assert self._staged is not None
        self._target()[:] = self._staged


@attrs.define(eq=False)
class _Download:
    """The data of a copy from the device, between its steps."""

    _target: Bytes
    _source: DeviceBytes
    _staged: Bytes | None = None

    def fetch(self) -> None:
        self._staged = np.array(self._source())

    def arrive(self) -> None:
        if self._staged is not None:  # as it is when a fault has broken the device
            self._target[:] = self._staged


class AmdgpuResources:
    """The plugin's growing pools of streams and HSA signals. A stream gets an HSA queue each time that it is taken."""

    def __init__(self, machine: Machine, rocr: Rocr, number: int) -> None:
        spec = machine.spec
        self._rocr = rocr
        self._host_time = machine.host_time
        self._queues = machine.apu(number).hsa_queues
        self._stream_lock = Lock(machine.sim, machine.named("stream pool", number))
        self._idle: list[AmdgpuStream] = []
        self._streams = 0
        self._signal_lock = Lock(machine.sim, machine.named("signal pool", number))
        self._free_signals = self._signals = spec.count("signal.initial")
        self._allocated = 0
        """Number of host blocks that the plugin has allocated."""
        self._free_blocks: defaultdict[PluginBlock, int] = defaultdict(int)

    def locks(self) -> dict[str, LockStatistics]:
        return {lock.name: lock.statistics() for lock in (self._stream_lock, self._signal_lock)}

    def in_use(self) -> dict[str, int]:
        """Return how many streams, HSA queues and signals are in use, that is, not in their pools."""
        return {
            "streams": self._streams - len(self._idle),
            "HSA queues": sum(self._queues.streams_of),
            "signals": self._signals - self._free_signals,
        }

    async def allocate(self, nbytes: int) -> None:
        """Pay for a block of host memory (HSA memory pool) that is kept to the end of the program and never read."""
        await self._rocr.memory.alloc_host(nbytes)
        self._allocated += 1

    async def take_block(self, stream: AmdgpuStream, block: PluginBlock) -> None:
        """Give a stream a host block until the operations that are now in the stream have been waited for.

        LLVM takes the arguments of kernels and staging memory from two `MemoryManagerTy`s, which hand a free block out
        again for a request of exactly its size, and otherwise allocate (`ArgsMemoryManager`, `PinnedMemoryManager`).
        Their threshold is 1 GiB, so that all requests are pooled. The search itself is free here: it is part of
        `runtime.kernel_args` and `dma.submit`.
        """
        if self._free_blocks[block]:
            self._free_blocks[block] -= 1
        else:
            await self.allocate(block.nbytes)
        stream.blocks.append(block)

    def _give_back_blocks(self, stream: AmdgpuStream, done: int) -> None:
        for block in stream.blocks[:done]:
            self._free_blocks[block] += 1
        del stream.blocks[:done]

    async def free_blocks(self) -> None:
        """Free the host blocks that the plugin has allocated."""
        while self._allocated:
            await self._rocr.memory.free_host()
            self._allocated -= 1
        self._free_blocks.clear()

    async def ready(self, queue: QueueLike, signals: int) -> AmdgpuStream:
        """Give the queue a stream if it has none, and reserve `signals` signals for the stream's next operations."""
        stream: AmdgpuStream | None = queue.stream
        if stream is None:
            stream = queue.stream = await self._take_stream()
        while self._free_signals < signals:
            await self._grow_signals(signals)
        self._free_signals -= signals  # nothing has been awaited since they were found
        stream.signals += signals
        return stream

    async def _take_stream(self) -> AmdgpuStream:
        await take(self._stream_lock, self._host_time)
        try:
            if self._idle:
                stream = self._idle.pop()
            else:
                stream = AmdgpuStream(self._rocr, self._queues.open_stream())
                self._streams += 1
            self._queues.take(stream.stream)
        finally:
            self._stream_lock.release()
        return stream

    async def _grow_signals(self, wanted: int) -> None:
        """Let the pool of signals grow to twice those in use (`GenericDeviceResourceManagerTy::getResourcesImpl`).

        It grows under the pool's mutex. A thread that waited for the mutex checks again whether signals are missing.
        """
        await take(self._signal_lock, self._host_time)
        try:
            if self._free_signals >= wanted:
                return
            used = self._signals - self._free_signals
            more = max(2 * used, used + wanted) - self._signals
            for _ in range(more):
                await self._rocr.signals.create()
            self._signals += more
            self._free_signals += more
        finally:
            self._signal_lock.release()

    def give_back_done(self, stream: AmdgpuStream, signals: int, blocks: int) -> None:
        """Return at most `signals` signals and `blocks` blocks of a stream's completed work to their pools."""
        signals = min(signals, stream.signals)
        self._free_signals += signals
        stream.signals -= signals
        self._give_back_blocks(stream, blocks)

    async def give_back(self, queue: QueueLike, stream: AmdgpuStream) -> None:
        """Take a queue's drained stream back into the pool, with its signals, its blocks and its HSA queue."""
        await take(self._stream_lock, self._host_time)
        queue.stream = None
        self._free_signals += stream.signals
        stream.signals = 0
        self._give_back_blocks(stream, len(stream.blocks))
        self._queues.give_back(stream.stream)
        self._idle.append(stream)
        self._stream_lock.release()


_THREADS: Final = 256
"""Default number of threads in a team (``GV_Default_WG_Size`` of ``AMDGPUGridValues``)."""
_IMAGE_COPY: Final = 64
"""Bytes of a copy when the program is loaded: a variable of the device's runtime library."""
_ARGUMENT: Final = 8
"""Bytes of an argument of a kernel."""
_HIDDEN_ARGUMENTS: Final = 8 + 256
"""Bytes of a kernel's hidden arguments: the launch environment, and those of code objects since version 5."""
_RPC_PORT: Final = 2 * 4 + 16
"""Bytes of a port of the RPC server: an inbox, an outbox and a header."""
_RPC_SLOT: Final = 64
"""Bytes that each lane of a wavefront has in a port."""
_ONE_MEMORY: Final = "CPU and GPU share one memory: nothing is managed, and nothing could migrate"


def _rpc_bytes(spec: MachineSpec, compute_units: int) -> int:
    """Return the bytes of the buffer of the RPC server, by which kernels call the host (`RPCServerTy::initDevice`).

    The buffer has a port for each wavefront that the device can hold: two words, a header and a slot for each lane
    (`rpc::Process::allocation_size` of rpc.h in LLVM's libc).
    """
    ports = min(compute_units * spec.count("sm.max_warps"), spec.count("runtime.rpc_ports"))
    return ports * (_RPC_PORT + spec.count("sm.warp_size") * _RPC_SLOT)


class AmdgpuPlugin(DevicePlugin):
    """The plugin for a device of ROCr, AMD's driver library.

    A program cannot choose how threads wait: LLVM's plugin polls HSA's signals for two seconds before a thread sleeps.
    All kernels of a code object are loaded with it.
    """

    driver: Rocr
    kernels_fault = True
    shared_streams = False

    def __init__(self, machine: Machine, rocr: Rocr, number: int) -> None:
        spec = machine.spec
        self.driver = rocr
        self.kernels_die = not spec.flag("gpu.xnack")
        node = f"GPU node-{number + 1}"
        self.illegal_access = f"Memory access fault by {node}. Reason: Page not present or supervisor privilege"
        self.limit = spec.count("copy.async_limit")
        most_teams = spec.count("teams.per_cu") * machine.devices[number].compute.spec.sms
        self.grid = GridDefaults.of(spec, most_teams, _THREADS)
        self.image_pending = True
        self._sim = machine.sim
        self._memory = machine.devices[number].memory
        self._resources = AmdgpuResources(machine, rocr, number)
        self.global_indirection = spec.value("usm.global_indirection")
        self._start = spec.text("runtime.start")
        self._is_first = number == 0
        most, sms = spec.count("runtime.image_allocations") - 1, machine.devices[number].compute.spec.sms
        self._image_blocks = [_rpc_bytes(spec, sms), *[self._memory.alignment] * most][:most]
        """Sizes in bytes of the host blocks that loading the program has still to allocate."""
        self._image_copies = spec.count("runtime.image_copies")
        self._synchronous = machine.apu(number).hsa_queues.open_stream()
        """The stream of synchronous copies, which use none of the plugin's own streams."""
        self._image_queue = _ImageQueue()
        self._image_block: int | None = None
        """Address of the device memory for the variables of the program's image; None until it is allocated."""

    def locks(self) -> dict[str, LockStatistics]:
        return self._resources.locks()

    def in_use(self) -> dict[str, int]:
        """Return how many streams, HSA queues and signals are in use, that is, not in their pools."""
        return self._resources.in_use()

    async def load_image(self, cause: int) -> None:
        await super().load_image(cause)
        if self._image_block is None:
            self._image_block = await self.driver.memory.alloc(self._memory.alignment, phantom=True)
        while self._image_blocks:
            await self._resources.allocate(self._image_blocks[0])
            del self._image_blocks[0]  # now: loading may be left early and done again
        queue = self._image_queue
        queue.cause = cause
        for _ in range(self._image_copies):
            await self.submit_data(queue, self._image_block, HostSpan(0, _IMAGE_COPY, None))
            await self.synchronize(queue)

    async def load_program(self) -> None:
        """Load the program's code object; a cold start first initializes ROCr, once in the process."""
        if self._start == "cold" and self._is_first:
            await self.driver.loading.init()
        if self._start != "warm":
            await self.driver.loading.load_code_object()

    async def unload(self) -> None:
        """Free the plugin's own memory at the end of the program.

        This also takes back the stream of a thread that was cancelled while it loaded the program.
        """
        await self.synchronize(self._image_queue)
        if self._image_block is not None:
            await self.driver.memory.free(self._image_block)
            self._image_block = None
        await self._resources.free_blocks()

    # streams

    async def open(self, queue: QueueLike) -> None:
        await self._resources.ready(queue, 0)

    async def synchronize(self, queue: QueueLike) -> None:
        if queue.copy is not None:
            await self._wait_for_copy(queue, queue.copy)
        stream: AmdgpuStream | None = queue.stream
        if stream is None:
            return
        last, done, blocks = stream.stream.last, stream.signals, len(stream.blocks)
        if last is not None and done:
            await self.driver.signals.wait(stream.stream, last)
        if queue.lasts:
            self._resources.give_back_done(stream, done, blocks)
        else:
            await self._resources.give_back(queue, stream)

    # copies

    async def submit_data(self, queue: QueueLike, device_address: int, source: HostSpan) -> None:
        nbytes = source.nbytes
        target = self._device_bytes(device_address, nbytes)
        if nbytes >= self.limit:
            data = source.bytes
            move = None if data is None or target is None else _moving(target, lambda: data)
            await self._copy_synchronously(queue, "h2d", nbytes, source.address, move)
        else:
            stream = await self._resources.ready(queue, 2)
            await self._resources.take_block(stream, PluginBlock("staging", nbytes))
            await stream.copy_to_device(queue.cause, source, target)

    async def retrieve_data(self, queue: QueueLike, destination: HostSpan, device_address: int) -> None:
        nbytes = destination.nbytes
        source = self._device_bytes(device_address, nbytes)
        if nbytes >= self.limit:
            data = destination.bytes
            move = None if data is None or source is None else _moving(lambda: data, source)
            await self._copy_synchronously(queue, "d2h", nbytes, destination.address, move)
        else:
            stream = await self._resources.ready(queue, 2)
            await self._resources.take_block(stream, PluginBlock("staging", nbytes))
            await stream.copy_to_host(queue.cause, destination, source)

    def exchanges_with(self, device: int) -> bool:
        """Return False, because links between APUs are not emulated."""
        return False

    async def reach(self, device: int) -> None:
        """Raise DriverError, because no APU is linked to another device."""
        raise DriverError("memory_async_copy", INVALID_ARGUMENT, f"no link to device {device}")

    async def exchange_data(
        self, queue: QueueLike, destination: int, source: int, nbytes: int, device: int | None = None
    ) -> None:
        """Copy from address `source` to `destination` within the device. DriverError if `device` is another one."""
        if device is not None and device != self.driver.device.local:
            raise DriverError("memory_async_copy", INVALID_ARGUMENT, f"no link to device {device}")
        to, start = self._device_bytes(destination, nbytes), self._device_bytes(source, nbytes)
        move = None if to is None or start is None else _moving(to, start)
        if nbytes >= self.limit:
            await self._copy_synchronously(queue, "d2d", nbytes, None, move)
            return
        stream = await self._resources.ready(queue, 1)
        await stream.copy_within(queue.cause, nbytes, move)

    async def _copy_synchronously(
        self, queue: QueueLike, direction: str, nbytes: int, host_address: int | None, move: Callable[[], None] | None
    ) -> None:
        """Make a large copy when everything before it in the directive has completed."""
        await self.synchronize(queue)
        rocr, stream = self.driver, self._synchronous
        if host_address is not None:
            await rocr.memory.lock(host_address, nbytes)
        await rocr.signals.create()
        done = HsaSignal(self._sim, "copy")
        await rocr.copies.copy(stream, queue.cause, direction, nbytes, move, done)
        queue.copy = done
        await self._wait_for_copy(queue, done)
        if host_address is not None:
            await rocr.memory.unlock(host_address)

    async def _wait_for_copy(self, queue: QueueLike, done: Signal) -> None:
        """Wait for a synchronous copy, which uses no stream of the queue."""
        await self.driver.signals.wait(self._synchronous, done, "copies")
        queue.copy = None

    def _device_bytes(self, address: int, nbytes: int) -> DeviceBytes | None:
        """Return a view of a device range, to be made later; None for phantoms. DriverError if not allocated."""
        memory = self._memory
        try:
            block = memory.block_around(address, nbytes)
        except InvalidDeviceAddress as error:
            raise DriverError("memory_async_copy", INVALID_ARGUMENT, str(error)) from None
        return None if block.phantom else lambda: memory.view(address, nbytes)

    # kernels

    async def launch_kernel(
        self,
        queue: QueueLike,
        launch: Launch,
        run: Callable[[], None] | None = None,
        touching: KernelAccesses = NOTHING,
        arguments: int = 0,
    ) -> None:
        stream = await self._resources.ready(queue, 1)
        await self._resources.take_block(stream, PluginBlock("arguments", arguments * _ARGUMENT + _HIDDEN_ARGUMENTS))
        await stream.launch(queue.cause, launch, run, touching)

    # events

    async def record_event(self, queue: QueueLike) -> HsaSignal | None:
        """Return the signal of the last operation in the queue's stream; None if all have completed."""
        stream: AmdgpuStream | None = queue.stream
        return None if stream is None else stream.unfinished

    def needs_wait(self, event: HsaSignal | None) -> bool:
        return event is not None and not event.is_set

    def is_complete(self, event: HsaSignal | None) -> bool:
        return not self.needs_wait(event)

    async def wait_event(self, queue: QueueLike, event: HsaSignal | None) -> None:
        if event is not None and not event.is_set:
            stream = await self._resources.ready(queue, 1)
            await stream.wait_for(queue.cause, event)

    # host memory

    def prefault(self, address: int, nbytes: int) -> Awaitable[int]:
        return self.driver.memory.set_svm_attributes(address, nbytes)

    def host_touch(self, address: int, nbytes: int, writes: bool = True) -> Awaitable[int]:
        """Access host memory in the calling thread; return how many pages, without memory before, it populated."""
        return self.driver.kfd.host_touch(address, nbytes)

    async def prefetch(self, queue: QueueLike, address: int, nbytes: int, to_host: bool) -> None:
        """Raise DriverError, because nothing migrates where host and device share one memory."""
        raise DriverError("svm_prefetch_async", INVALID_ARGUMENT, _ONE_MEMORY)


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
