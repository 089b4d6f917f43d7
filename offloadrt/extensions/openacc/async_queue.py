"""An async queue of OpenACC: it outlives the directives that use it, and keeps one stream until it is given back."""

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
    """An async queue of OpenACC: one stream of a device, which directives of several host threads share.

    Each directive gets its own `DirectiveQueue` object, which refers to this stream. lock: held while the stream is
    taken from the plugin's pool. Where the plugin lets only one thread at a time use a stream, each directive holds the
    lock from its beginning to its end.
    """

    lock: Lock
    stream: Any = None
    _left: list[DirectiveQueue] = attrs.field(factory=list)
    """The queues of directives that have ended, in order. Their deferred work is done when the async queue is drained.
    """

    @property
    def name(self) -> str:
        return self.lock.name

    @property
    def used(self) -> bool:
        """Tell whether the queue has a stream: it gets one from the first directive that uses it."""
        return self.stream is not None

    async def use(
        self,
        device: OffloadDevice,
        queue: DirectiveQueue,
        work: Callable[[OffloadDevice, DirectiveQueue], Awaitable[object]],
    ) -> None:
        """Run `work`, the body of a directive, on the stream of this async queue, which gets a stream if it has none.

        device: where the directive runs. queue: the directive's own object, whose stream is set to this one. work:
        called with `device` and `queue`. The directive may leave work for later, such as a free after its copies; the
        next call of `drain` does this work. If `work` ends by an exception or a cancellation, the caller of `use` has
        to do it.
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
        """Make later work in `queue` wait for the work in this async queue now. The host does not wait."""
        if self.stream is not None and device.tell is not None:
            device.tell(QueueAwaited(self, queue.cause))
        if self.stream is not None and self.stream is not queue.stream:
            event = await device.plugin.record_event(DirectiveQueue(queue.cause, self.stream))
            if device.plugin.needs_wait(event):
                await device.plugin.wait_event(queue, event)

    async def drain(self, device: OffloadDevice, cause: int) -> None:
        """Wait for everything in the async queue, then do what its directives have left for later, such as frees.

        cause: the number of the directive that waits. Raises the error of a kernel in the queue. If this call is left
        early, the next one does the rest.
        """
        if self.stream is None:
            return
        # LLVM's stream of an AMD device holds its mutex while a thread waits, so that no other thread enters it.
        if locked := not device.plugin.shared_streams:
            await take(self.lock, device.machine.host_time)
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
            if locked:
                self.lock.release()

    async def give_back(self, device: OffloadDevice, cause: int) -> None:
        """Wait for everything in the queue and give its stream back to the device's pool of streams.

        cause: the number of the directive that asks for it. The queue keeps the stream when this call is left early or
        fails.
        """
        await self.drain(device, cause)
        queue = DirectiveQueue(cause, self.stream)
        self.stream = None
        try:
            await device.plugin.synchronize(queue)
        finally:
            self.stream = queue.stream
