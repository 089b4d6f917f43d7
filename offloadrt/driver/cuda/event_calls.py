"""The calls of CUDA's driver library for events that a program makes, records again and again, and reads times from."""

from __future__ import annotations

from functools import cached_property

from offloadrt.driver.calls import DriverCall
from offloadrt.driver.cuda.capture import CAPTURED_EVENT, CapturedMark
from offloadrt.driver.cuda.context import Context
from offloadrt.driver.cuda.event import StreamEvent, TimedEvent
from offloadrt.machine import Stream
from offloadrt.machine.messages import WaitPacket
from offloadrt.sim import Signal

HANDLE, NOT_READY = "CUDA_ERROR_INVALID_HANDLE", "CUDA_ERROR_NOT_READY"


class EventCalls:
    """The events of one context.

    All calls raise DriverError for an event that is destroyed or of another device.  As in CUDA, an event that was
    never recorded is complete, so that waiting for it does nothing; it has no time.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._costs = context.costs
        self._made = 0

    @cached_property
    def _create(self) -> float:
        # Read at the first use: OpenMP's runtime makes its events otherwise, and its profiles need not have the entry.
        return self._context.machine.spec.value("stream.event_create")

    async def event_create(
        self, cause: int | None = None, *, timing: bool = True, blocking_sync: bool = False
    ) -> TimedEvent:
        """Create an event (cuEventCreate)."""
        with self._context.call("cuEventCreate", None, cause):
            await self._context.work(self._create)
            self._made += 1
            return TimedEvent(self._made - 1, self._context.device.index, timing, blocking_sync)

    async def event_destroy(self, event: TimedEvent, cause: int | None = None) -> None:
        """Destroy an event (cuEventDestroy); who waits for it goes on waiting."""
        with self._context.call("cuEventDestroy", None, cause) as call:
            self._check(call, event)
            await self._context.work(self._create)
            event.destroyed = True

    async def event_record(self, event: TimedEvent, stream: Stream, cause: int | None = None) -> None:
        """Put the event behind everything in the stream (cuEventRecord); what it marked before is forgotten."""
        with self._context.call("cuEventRecord", stream, cause) as call:
            self._check(call, event)
            if (capture := self._context.captures.streams.get(stream)) is not None:
                mark = CapturedMark(capture, capture.tails[stream])
                event.mark, event.reached = StreamEvent(stream, None, captured=mark), None
                await self._context.locked_work(self._context.capture_cost)
                return
            sim = self._context.sim
            done, now = Signal(sim, f"event {event.number} in stream {stream.index}"), Signal(sim, "nothing")
            now.set()
            event.mark, event.reached = StreamEvent(stream, done, self._context.frees.at(stream)), None

            def reached() -> None:
                if event.mark is not None and event.mark.done is done:  # it was not recorded again meanwhile
                    event.reached = sim.now

            done.set_callback(reached)
            await self._context.submit(WaitPacket(stream, now, done), self._costs.event_record)

    async def event_query(self, event: TimedEvent, cause: int | None = None) -> bool:
        """Tell whether the device has come to the event (cuEventQuery)."""
        with self._context.call("cuEventQuery", None, cause) as call:
            self._check_reachable(call, event)
            await self._context.work(self._costs.synchronize_idle)
            return event.mark is None or event.mark.is_complete

    async def event_synchronize(self, event: TimedEvent, cause: int | None = None) -> None:
        """Wait until the device has come to the event (cuEventSynchronize)."""
        with self._context.call("cuEventSynchronize", None, cause) as call:
            self._check_reachable(call, event)
            if event.mark is None:
                await self._context.work(self._costs.synchronize_idle)
            else:
                mark = event.mark
                await self._context.synchronize(mark.stream, mark.done, blocking_sync=event.blocking_sync)

    async def event_elapsed_time(self, begin: TimedEvent, end: TimedEvent, cause: int | None = None) -> float:
        """Return the virtual seconds between two events (cuEventElapsedTime, which gives milliseconds).

        Raises DriverError when one of them was never recorded, is made without timing, or is yet to come.
        """
        with self._context.call("cuEventElapsedTime", None, cause) as call:
            times = [self._time(call, event) for event in (begin, end)]
            await self._context.work(self._costs.synchronize_idle)
            return times[1] - times[0]

    def _time(self, call: DriverCall, event: TimedEvent) -> float:
        self._check_reachable(call, event)
        if event.mark is None:
            raise self._context.refusal(call, HANDLE, f"event {event.number} was never recorded")
        if not event.timing:
            raise self._context.refusal(call, HANDLE, f"event {event.number} was made without timing")
        if event.reached is None:
            raise self._context.refusal(call, NOT_READY, f"the device has yet to come to event {event.number}")
        return event.reached

    def _check_reachable(self, call: DriverCall, event: TimedEvent) -> None:
        self._check(call, event)
        if event.mark is not None and (mark := event.mark.captured) is not None:
            why = f"event {event.number} was recorded in a capture, and the device never comes to it"
            violation = self._context.captures.invalidate(mark.capture, CAPTURED_EVENT, why)
            self._context.refuse(call, violation)

    def _check(self, call: DriverCall, event: TimedEvent) -> None:
        if event.destroyed:
            raise self._context.refusal(call, HANDLE, f"event {event.number} is destroyed")
        if event.device != self._context.device.index:
            raise self._context.refusal(call, HANDLE, f"event {event.number} belongs to device {event.device}")
