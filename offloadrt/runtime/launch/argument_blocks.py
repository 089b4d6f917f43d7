"""Arguments of launches in blocks of device memory, as libgomp's plugin for nvptx passes them.

Follows GOMP_OFFLOAD_openacc_exec and GOMP_OFFLOAD_openacc_async_exec (libgomp/plugin/plugin-nvptx.c): each launch
allocates a block for the addresses of its data, copies them there, and frees the block when the launch is over. The
free of an asynchronous launch is put off: a callback of the stream notes the block, and the next allocation frees it.
Here an event stands for that callback.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs

from offloadrt.machine import DeviceMemory
from offloadrt.runtime.allocators import DeviceAllocator
from offloadrt.runtime.host_array import HostSpan
from offloadrt.runtime.mapping.map_item import DirectiveQueue
from offloadrt.runtime.plugins.plugin import DevicePlugin

ADDRESS_BYTES: Final = 8


@attrs.define(eq=False)
class ArgumentBlocks:
    """The blocks in which launches on one device find their arguments.

    allocator: where the blocks come from (in libgomp the driver itself).
    """

    plugin: DevicePlugin
    allocator: DeviceAllocator
    memory: DeviceMemory
    _leaving: list[tuple[Any, int]] = attrs.field(factory=list)
    """Blocks of launches that may be running, each with the event behind its launch."""

    async def around(self, queue: DirectiveQueue, arguments: int, launch: Callable[[], Awaitable[None]]) -> None:
        """Launch with a block of so many addresses, sent in the same queue. Raises OutOfDeviceMemory."""
        await self._free_finished()
        nbytes = max(1, arguments) * ADDRESS_BYTES
        block = await self.allocator.allocate(nbytes, True)
        try:
            await self.plugin.submit_data(queue, block, HostSpan(0, nbytes, None))
            await launch()
            if queue.lasts:
                event = await self.plugin.record_event(queue)
        except BaseException:
            queue.post_processing.append(functools.partial(self._free, block))
            raise
        if queue.lasts:
            self._leaving.append((event, block))
        else:
            queue.post_processing.append(functools.partial(self._free, block))

    async def _free(self, block: int) -> None:
        """Free a block; when it is left early it can be done again."""
        if self.memory.begins(block):
            await self.allocator.free(block)

    async def _free_finished(self) -> None:
        looked_at, self._leaving = self._leaving, []
        finished: list[tuple[Any, int]] = []
        for event, block in looked_at:
            (finished if self.plugin.is_complete(event) else self._leaving).append((event, block))
        try:
            while finished:
                await self._free(finished[0][1])
                del finished[0]
        finally:
            self._leaving[:0] = finished

    async def release(self) -> None:
        """Free all blocks and return what is pooled, at the end of the program, when nothing runs any more."""
        leaving, self._leaving = self._leaving, []
        for _, block in leaving:
            await self._free(block)
        await self.allocator.release_pooled()
