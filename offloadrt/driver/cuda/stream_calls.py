"""The calls of CUDA's driver library for streams and events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from offloadrt.driver.cuda.callback_thread import CallbackThread, RunHostFunction
from offloadrt.driver.cuda.capture import HostNode
from offloadrt.driver.cuda.context import Context
from offloadrt.driver.cuda.copies import Copies
from offloadrt.driver.cuda.event import StreamEvent
from offloadrt.machine import Stream
from offloadrt.machine.messages import WaitPacket
from offloadrt.sim import Signal

Order = Literal["legacy", "blocking", "non-blocking"]
"""The legacy default stream itself, a stream that blocks with it, or one that does not (CU_STREAM_NON_BLOCKING)."""


class StreamCalls:
    """The streams of one context: creates and destroys them, and waits for them and for their events."""

    def __init__(self, context: Context, copies: Copies) -> None:
        self._context = context
        self._copies = copies
        self._costs = context.costs
        self.streams: list[Stream] = []
        """The streams of the context in order of creation."""
        self.callback_thread: CallbackThread | None = None
        """The thread for functions of the host; None until a stream gets one."""

    async def stream_create(
        self, cause: int | None = None, *, priority: int = 0, order: Order = "non-blocking"
    ) -> Stream:
        """Create a stream on the hardware queue that is its turn (cuStreamCreate, cuStreamCreateWithPriority).

        ``order`` says how it stands to the legacy default stream of the context, if it is not that one itself.
        """
        with self._context.call("cuStreamCreateWithPriority" if priority else "cuStreamCreate", None, cause):
            async with self._context.locked(self._costs.stream_create):
                stream = self._context.device.open_stream(priority)
                self.streams.append(stream)
                self._copies.open(stream)
                if order == "legacy":
                    self._context.order.legacy = stream
                elif order == "blocking":
                    self._context.order.add(stream)
                return stream

    async def stream_destroy(self, stream: Stream, cause: int | None = None) -> None:
        """Destroy a stream (cuStreamDestroy); what was submitted to it still completes."""
        with self._context.call("cuStreamDestroy", stream, cause):
            async with self._context.locked(self._costs.stream_destroy):
                self.streams.remove(stream)
                self._copies.close(stream)
                self._context.order.remove(stream)
                self._context.device.queues.close_stream(stream)

    async def stream_synchronize(self, stream: Stream, cause: int | None = None) -> None:
        """Wait until everything submitted to the stream has completed (cuStreamSynchronize).

        For the legacy default stream, that includes what is in the streams that block with it.
        """
        with self._context.call("cuStreamSynchronize", stream, cause):
            for other in self._context.order.before(stream) if stream is self._context.order.legacy else ():
                await self._context.wait(stream, other)
            await self._context.synchronize(stream, stream.last)

    async def stream_query(self, stream: Stream, cause: int | None = None) -> bool:
        """Tell whether everything submitted to the stream has completed (cuStreamQuery)."""
        with self._context.call("cuStreamQuery", stream, cause):
            await self._context.work(self._costs.synchronize_idle)
            return stream.idle

    async def launch_host_func(
        self, stream: Stream, function: Callable[[], object] | None, seconds: float, cause: int | None = None
    ) -> None:
        """Run a function of the host when what is in the stream has completed (cuLaunchHostFunc).

        It works for ``seconds`` on a core; what comes behind it in the stream waits for it, the caller does not.
        """
        with self._context.call("cuLaunchHostFunc", stream, cause):
            if (capture := self._context.captures.streams.get(stream)) is not None:
                await self._context.locked_work(self._context.capture_cost)
                capture.add(stream, HostNode(function, seconds))
                return
            turn, end = self.host_function(stream, function, seconds)
            await self._context.submit(turn, self._costs.event_record)
            await self._context.submit(end, 0.0)

    def host_function(
        self, stream: Stream, function: Callable[[], object] | None, seconds: float
    ) -> tuple[WaitPacket, WaitPacket]:
        """Return the packets of a function of the host: one that has it run, and one that waits for its end."""
        sim, thread = self._context.sim, self.callbacks()
        begun, done, now = (Signal(sim, f"host function in stream {stream.index}") for _ in range(3))
        now.set()
        begun.set_callback(lambda: thread.submit(RunHostFunction(function, seconds, done)))
        behind = Signal(sim, f"end of a host function in stream {stream.index}")
        return WaitPacket(stream, now, begun), WaitPacket(stream, done, behind)

    def callbacks(self) -> CallbackThread:
        """Return the thread that runs functions of the host, made at its first use."""
        if self.callback_thread is None:
            self.callback_thread = CallbackThread(self._context.machine, self._context.device.index)
        return self.callback_thread

    async def event_record(self, stream: Stream, cause: int | None = None) -> StreamEvent:
        """Make a mark behind everything submitted to the stream so far (cuEventRecord)."""
        with self._context.call("cuEventRecord", stream, cause):
            await self._context.locked_work(self._costs.event_record)
            return StreamEvent(stream, stream.last)

    async def stream_wait_event(self, stream: Stream, event: StreamEvent, cause: int | None = None) -> None:
        """Let what is submitted to the stream from now on start after the event (cuStreamWaitEvent).

        The call itself does not wait.
        """
        with self._context.call("cuStreamWaitEvent", stream, cause) as call:
            captures = self._context.captures
            if event.captured is not None or stream in captures.streams:
                self._context.refuse(call, captures.follow(stream, event.captured))
                await self._context.locked_work(self._context.capture_cost)
                return
            if event.frees:
                self._context.frees.follow(stream, event.frees)
            if event.done is None or event.done.is_set:
                # There is nothing to wait for, so the stream gets no packet.
                await self._context.locked_work(self._costs.event_wait)
                return
            done = Signal(self._context.sim, f"wait of stream {stream.index} for stream {event.stream.index}")
            await self._context.submit(WaitPacket(stream, event.done, done), self._costs.event_wait)

    async def event_synchronize(self, event: StreamEvent, cause: int | None = None) -> None:
        """Wait until the event is complete (cuEventSynchronize)."""
        with self._context.call("cuEventSynchronize", event.stream, cause):
            await self._context.synchronize(event.stream, event.done)
