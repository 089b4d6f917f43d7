"""Patches that host threads offload to the GPU, as `bench/hardware/offload.cu` does with CUDA's calls."""

from __future__ import annotations

import math
from typing import Literal

import attrs
import numpy as np

from offloadrt.kernels import Kernel
from offloadrt.machine import DeviceArray, Stream
from offloadrt.models import cuda
from offloadrt.runtime.host_array import HostArray

PatchMemory = Literal["map", "pool", "managed"]

TEAM = 128


@attrs.define
class PatchOffloads:
    """Offloads the patches of all threads, with map clauses or a pool of device blocks that are reused, never freed.

    The mutex of the pool is left out, as it is held for a very short time only. memory: map clauses or the pool. batch:
    how many patches are offloaded together. patches: how many patches each thread has. patch_bytes: bytes of a patch.
    volumes: cells of a patch. flops: floating-point operations per cell.
    """

    memory: PatchMemory
    batch: int
    patches: int
    patch_bytes: int
    volumes: int
    flops: int
    _blocks: dict[int, list[DeviceArray]] = attrs.field(init=False, factory=dict)
    _managed: list[HostArray] = attrs.field(init=False, factory=list)

    async def of_thread(self, t: cuda.HostThread) -> None:
        """Offload all patches of a thread, batch by batch."""
        stream = await t.stream_create(non_blocking=True)
        host = [t.array(f"patch {i}", self.patch_bytes, np.uint8) for i in range(self.patches)]
        for first in range(0, self.patches, self.batch):
            await self._offload(t, host[first : first + self.batch], stream)
        await t.stream_destroy(stream)

    async def _offload(self, t: cuda.HostThread, host: list[HostArray], stream: Stream) -> None:
        """Offload some patches together: copies in, one kernel with a team for each patch, copies out."""
        n, maps = len(host), self.memory == "map"
        blocks: list[DeviceArray | HostArray] = []
        for patch in host:
            blocks.append(await self._of_patch(t))
            await self._copy(t, blocks[-1], patch, stream)
        pointers, scratch = await self._take(t, 8 * n), await self._take(t, n * self.patch_bytes)
        await t.memcpy_async(pointers, t.array("pointers", 8 * n, np.uint8), stream=stream)
        await t.launch(
            self._kernel(), *blocks, pointers, scratch, grid=n, block=TEAM, iterations=n * self.volumes, stream=stream
        )
        await t.stream_synchronize(stream)
        if maps:
            await t.free(scratch)
            await t.free(pointers)
        for block, patch in zip(blocks, host, strict=True):
            await self._copy(t, patch, block, stream)
            if maps:
                await t.free(block)
        if maps:
            return
        await t.stream_synchronize(stream)
        for block in blocks:
            self._give(block)
        self._give(pointers)
        self._give(scratch)

    def _kernel(self) -> Kernel:
        """Return the update: it reads a patch, writes the scratch memory, and writes the results back from there.

        Three kinds of accesses wait for one another: that of the patch's address; those of volumes, since a thread
        begins with one when it has finished the one before; and that of the results.
        """
        return Kernel(
            "update",
            flops_per_iteration=self.flops,
            bytes_per_iteration=4.0 * self.patch_bytes / self.volumes,
            threads_per_team=TEAM,
            dependent_accesses=2 + math.ceil(self.volumes / TEAM),
        )

    async def _copy(
        self, t: cuda.HostThread, to: DeviceArray | HostArray, source: DeviceArray | HostArray, stream: Stream
    ) -> None:
        for place in (to, source):
            if isinstance(place, HostArray) and place.managed:
                await t.host_access(place, writes=place is to)
        await t.memcpy_async(to, source, stream=stream)
        if self.memory == "map":
            await t.stream_synchronize(stream)

    async def _of_patch(self, t: cuda.HostThread) -> DeviceArray | HostArray:
        if self.memory != "managed":
            return await self._take(t, self.patch_bytes)
        return self._managed.pop() if self._managed else await t.malloc_managed("block", self.patch_bytes, np.uint8)

    async def _take(self, t: cuda.HostThread, nbytes: int) -> DeviceArray:
        kept = self._blocks.setdefault(nbytes, [])
        return await t.malloc(nbytes) if self.memory == "map" or not kept else kept.pop()

    def _give(self, block: DeviceArray | HostArray) -> None:
        if isinstance(block, HostArray):
            self._managed.append(block)
        else:
            self._blocks[block.nbytes].append(block)
