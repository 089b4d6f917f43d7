"""A queue that outlives the directives that use it: one stream, kept until the end (an async queue of OpenACC)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import attrs

from offloadrt.runtime.events import QueueAwaited
from offloadrt.runtime.lock_wait import take
from offloadrt.runtime.mapping.map_item import DirectiveQueue
from offloadrt.sim import Lock

if TYPE_CHECKING:
    from offloadrt.runtime.device import OffloadDevice


@attrs.define(eq=False)
class AsyncQueue:
    """Directives of several host threads may use it; each has a `DirectiveQueue` of its own on the same stream.

    lock: held while its stream is taken from the plugin's pool; by a whole directive where the plugin's streams are for
    one thread at a time.
    """

    lock: Lock
    stream: Any = None
    _left: list[DirectiveQueue] = attrs.field(factory=list)
    """The queues of directives that have ended, in order."""

    @property
    def name(self) -> str:
        return self.lock.name

    @property
    def used(self) -> bool:
        """Tell whether anything has been put into it since it was given back."""
        return self.stream is not None

    async def use(
        self,
        device: OffloadDevice,
        queue: DirectiveQueue,
        work: Callable[[OffloadDevice, DirectiveQueue], Awaitable[object]],
    ) -> None:
        """Do the work of a directive with its queue on this stream.

        What it puts off is done by whoever drains this queue; by the caller when it is left early.
        """
        queue.lasts = True
        locked = not (device.plugin.shared_streams and self.used)
        if locked:
            await take(self.lock, device.machine.host_time)
        try:
            if not self.used:
                await device.plugin.open(queue)
                self.stream = queue.stream
            queue.stream = self.stream
            if locked and device.plugin.shared_streams:
                locked = False
                self.lock.release()
            await work(device, queue)
            self._left.append(queue)
        finally:
            if locked:
                self.lock.release()

    async def precede(self, device: OffloadDevice, queue: DirectiveQueue) -> None:
        """Everything in it so far comes before what is put into `queue` from now on. The host does not wait."""
        if self.stream is not None and device.tell is not None:
            device.tell(QueueAwaited(self, queue.cause))
        if self.stream is not None and self.stream is not queue.stream:
            event = await device.plugin.record_event(DirectiveQueue(queue.cause, self.stream))
            if device.plugin.needs_wait(event):
                await device.plugin.wait_event(queue, event)

    async def drain(self, device: OffloadDevice, cause: int) -> None:
        """Wait for everything in it, then do what its directives put off. Raises what a kernel in it did wrong.

        What is not done when this is left early is done the next time.
        """
        if self.stream is None:
            return
        left, self._left = self._left, []
        try:
            await device.plugin.synchronize(DirectiveQueue(cause, self.stream, lasts=True))
            if device.tell is not None:
                device.tell(QueueAwaited(self))
            while left:
                await device.settle(left[0])
                del left[0]
        finally:
            self._left[:0] = left

    async def give_back(self, device: OffloadDevice, cause: int) -> None:
        """Drain it, and give its stream back to the pool; it keeps the stream when this is left early or fails."""
        await self.drain(device, cause)
        queue = DirectiveQueue(cause, self.stream)
        self.stream = None
        try:
            await device.plugin.synchronize(queue)
        finally:
            self.stream = queue.stream
