"""The plugin: what the runtime asks of one device, in the calls of a user-mode driver library.

The only file of the runtime that knows the driver. Follows LLVM's CUDA plugin: streams come from a pool that grows
(`StreamManager`), an event is recorded after transfers that others may have to wait for, one stream serves one
directive.
"""

from __future__ import annotations

from typing import Any, Protocol

import attrs

from offloadrt.kernels import Launch
from offloadrt.runtime.host_array import HostSpan
from offloadrt.runtime.lock_wait import take
from offloadrt.sim import Lock, Simulation
from offloadrt.trace import HostTime


class UserModeDriver(Protocol):
    """The calls of the driver library that the plugin makes; see `offloadrt.driver`."""

    async def mem_alloc(self, nbytes: int, phantom: bool = False) -> int: ...
    async def mem_free(self, address: int) -> None: ...
    async def stream_create(self) -> Any: ...
    async def memcpy_htod_async(
        self, dst: int, src: HostSpan, nbytes: int, stream: Any, cause: int, pinned: bool = False
    ) -> None: ...
    async def memcpy_dtoh_async(
        self, dst: HostSpan, src: int, nbytes: int, stream: Any, cause: int, pinned: bool = False
    ) -> None: ...
    async def memcpy_dtod_async(self, dst: int, src: int, nbytes: int, stream: Any, cause: int) -> None: ...
    async def memset(self, dst: int, value: int, nbytes: int, stream: Any, cause: int) -> None: ...
    async def launch_kernel(self, launch: Launch, device_args: Any, stream: Any, cause: int) -> None: ...
    async def stream_synchronize(self, stream: Any) -> None: ...
    async def event_record(self, stream: Any) -> Any: ...
    async def stream_wait_event(self, stream: Any, event: Any) -> None: ...


@attrs.define(eq=False)
class StreamPool:
    """Streams that are idle, last returned first. Its mutex is held while a stream is taken out or made."""

    driver: UserModeDriver
    lock: Lock
    host_time: HostTime
    idle: list[Any] = attrs.field(factory=list)
    made: int = 0

    async def take(self) -> Any:
        await take(self.lock, self.host_time)
        try:
            if self.idle:
                return self.idle.pop()
            self.made += 1
            return await self.driver.stream_create()
        finally:
            self.lock.release()

    async def give_back(self, stream: Any) -> None:
        await take(self.lock, self.host_time)
        self.idle.append(stream)
        self.lock.release()


class Plugin:
    """One device as the runtime sees it.

    `queue` arguments are `DirectiveQueue`s, which get their stream here at first use.
    """

    def __init__(self, sim: Simulation, driver: UserModeDriver, number: int, host_time: HostTime) -> None:
        self.driver = driver
        suffix = f" {number}" if number else ""
        self.streams = StreamPool(driver, Lock(sim, f"stream pool{suffix}"), host_time)

    async def stream_of(self, queue: QueueLike) -> Any:
        if queue.stream is None:
            queue.stream = await self.streams.take()
        return queue.stream

    async def submit_data(self, queue: QueueLike, device_address: int, source: HostSpan) -> None:
        """Copy to the device; returns when the host may go on (for pageable memory: when the data is staged)."""
        stream = queue.stream or await self.stream_of(queue)
        await self.driver.memcpy_htod_async(device_address, source, source.nbytes, stream, queue.cause)

    async def retrieve_data(self, queue: QueueLike, destination: HostSpan, device_address: int) -> None:
        stream = queue.stream or await self.stream_of(queue)
        await self.driver.memcpy_dtoh_async(destination, device_address, destination.nbytes, stream, queue.cause)

    async def exchange_data(self, queue: QueueLike, destination: int, source: int, nbytes: int) -> None:
        """Copy within the device."""
        stream = queue.stream or await self.stream_of(queue)
        await self.driver.memcpy_dtod_async(destination, source, nbytes, stream, queue.cause)

    async def fill_data(self, queue: QueueLike, address: int, value: int, nbytes: int) -> None:
        stream = queue.stream or await self.stream_of(queue)
        await self.driver.memset(address, value, nbytes, stream, queue.cause)

    async def launch_kernel(self, queue: QueueLike, launch: Launch) -> None:
        """The kernel's body finds its arguments itself, when it runs."""
        stream = queue.stream or await self.stream_of(queue)
        await self.driver.launch_kernel(launch, (), stream, queue.cause)

    async def record_event(self, queue: QueueLike) -> Any:
        stream = queue.stream or await self.stream_of(queue)
        return await self.driver.event_record(stream)

    async def wait_event(self, queue: QueueLike, event: Any) -> None:
        """Make the queue's stream wait; the host does not."""
        stream = queue.stream or await self.stream_of(queue)
        await self.driver.stream_wait_event(stream, event)

    async def synchronize(self, queue: QueueLike) -> None:
        """Wait for everything in the queue, then give its stream back.

        Nothing to do for a queue that was never used.
        """
        if queue.stream is None:
            return
        stream = queue.stream
        await self.driver.stream_synchronize(stream)
        queue.stream = None
        await self.streams.give_back(stream)


class QueueLike(Protocol):
    """What the plugin reads of a directive's queue."""

    stream: Any
    cause: int
