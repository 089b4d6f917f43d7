"""The streams and signals of AMD's plugin, which are made once and used again (`AMDGPUResourceManager`s of LLVM)."""

from __future__ import annotations

from offloadrt.driver import Rocr
from offloadrt.machine import Machine
from offloadrt.runtime.lock_wait import take
from offloadrt.runtime.plugins.amdgpu_stream import AmdgpuStream
from offloadrt.runtime.plugins.plugin import QueueLike
from offloadrt.sim import Lock, LockStatistics


class AmdgpuResources:
    """Streams come from a pool that grows; each time that one is taken it takes an HSA queue. So do signals."""

    def __init__(self, machine: Machine, rocr: Rocr, number: int) -> None:
        spec = machine.spec
        self._rocr = rocr
        self._host_time = machine.host_time
        self._queues = machine.devices[number].hsa_queues
        self._page = machine.devices[number].memory.alignment
        self._stream_allocations = spec.count("runtime.stream_allocations")
        suffix = f" {number}" if number else ""
        self._stream_lock = Lock(machine.sim, f"stream pool{suffix}")
        self._idle: list[AmdgpuStream] = []
        self._signal_lock = Lock(machine.sim, f"signal pool{suffix}")
        self._free_signals = self._signals = spec.count("signal.initial")
        self.blocks: list[int] = []
        """The plugin's own memory of the host's pool."""

    def locks(self) -> dict[str, LockStatistics]:
        return {lock.name: lock.statistics() for lock in (self._stream_lock, self._signal_lock)}

    async def allocate(self, blocks: int) -> None:
        """Allocate so many blocks of the plugin's own, for arguments of kernels and staging memory.

        LLVM takes both from pools of the host (`ArgsMemoryManager`, `PinnedMemoryManager`).
        """
        for _ in range(blocks):
            self.blocks.append(await self._rocr.host_pool_allocate(self._page))

    async def free_blocks(self) -> None:
        """Free the plugin's own memory."""
        while self.blocks:
            await self._rocr.host_pool_free()
            self.blocks.pop()

    async def ready(self, queue: QueueLike, signals: int) -> AmdgpuStream:
        """Give the queue a stream if it has none, and that many signals for what comes next in it."""
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
            stream = self._idle.pop() if self._idle else await self._new_stream()
            self._queues.take(stream.stream)
        finally:
            self._stream_lock.release()
        return stream

    async def _new_stream(self) -> AmdgpuStream:
        await self.allocate(self._stream_allocations)
        return AmdgpuStream(self._rocr, self._queues.open_stream())

    async def _grow_signals(self, wanted: int) -> None:
        """Let the pool of signals grow to twice those in use (`GenericDeviceResourceManagerTy::getResourcesImpl`).

        It does so under its mutex: whoever waits for that looks again whether signals are still missing.
        """
        await take(self._signal_lock, self._host_time)
        try:
            if self._free_signals >= wanted:
                return
            used = self._signals - self._free_signals
            more = max(2 * used, used + wanted) - self._signals
            for _ in range(more):
                await self._rocr.signal_create()
            self._signals += more
            self._free_signals += more
        finally:
            self._signal_lock.release()

    def give_back_signals(self, stream: AmdgpuStream, done: int) -> None:
        """Take back at most so many signals of a stream that its queue keeps; somebody else may have waited, too."""
        done = min(done, stream.signals)
        self._free_signals += done
        stream.signals -= done

    async def give_back(self, queue: QueueLike, stream: AmdgpuStream) -> None:
        """Take back a queue's stream, in which everything has completed, with its signals and its HSA queue."""
        await take(self._stream_lock, self._host_time)
        queue.stream = None
        self._free_signals += stream.signals
        stream.signals = 0
        self._queues.give_back(stream.stream)
        self._idle.append(stream)
        self._stream_lock.release()
