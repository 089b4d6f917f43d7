"""The streams, signals and host blocks of AMD's plugin, which are made once and used again.

Streams and signals are LLVM's `AMDGPUResourceManager`s. Host blocks are those of its two `AMDGPUMemoryManagerTy`s.
"""

from __future__ import annotations

from collections import defaultdict

from offloadrt.driver import Rocr
from offloadrt.machine import Machine
from offloadrt.runtime.lock_wait import take
from offloadrt.runtime.plugins.amdgpu_stream import AmdgpuStream, PluginBlock
from offloadrt.runtime.plugins.plugin import QueueLike
from offloadrt.sim import Lock, LockStatistics


class AmdgpuResources:
    """Streams come from a pool that grows; each time that one is taken it takes an HSA queue. So do signals."""

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
        """Blocks of the host's pool that the plugin has."""
        self._free_blocks: defaultdict[PluginBlock, int] = defaultdict(int)

    def locks(self) -> dict[str, LockStatistics]:
        return {lock.name: lock.statistics() for lock in (self._stream_lock, self._signal_lock)}

    def in_use(self) -> dict[str, int]:
        """Return how many streams, HSA queues and signals are not in their pools."""
        return {
            "streams": self._streams - len(self._idle),
            "HSA queues": sum(self._queues.streams_of),
            "signals": self._signals - self._free_signals,
        }

    async def allocate(self, nbytes: int) -> None:
        """Allocate a block of the host's pool that the plugin keeps to its end."""
        await self._rocr.host_pool_allocate(nbytes)
        self._allocated += 1

    async def take_block(self, stream: AmdgpuStream, block: PluginBlock) -> None:
        """Give a stream a block of the host's pool until what is in the stream now has been waited for.

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
        """Free the plugin's own memory."""
        while self._allocated:
            await self._rocr.host_pool_free()
            self._allocated -= 1
        self._free_blocks.clear()

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

    def give_back_done(self, stream: AmdgpuStream, signals: int, blocks: int) -> None:
        """Take back what a stream that its queue keeps needs no more; somebody else may have waited, too."""
        signals = min(signals, stream.signals)
        self._free_signals += signals
        stream.signals -= signals
        self._give_back_blocks(stream, blocks)

    async def give_back(self, queue: QueueLike, stream: AmdgpuStream) -> None:
        """Take back a queue's stream, in which everything has completed, with its signals, blocks and HSA queue."""
        await take(self._stream_lock, self._host_time)
        queue.stream = None
        self._free_signals += stream.signals
        stream.signals = 0
        self._give_back_blocks(stream, len(stream.blocks))
        self._queues.give_back(stream.stream)
        self._idle.append(stream)
        self._stream_lock.release()
