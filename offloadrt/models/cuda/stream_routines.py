"""The calls of CUDA's runtime library for streams and events."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from offloadrt.driver import Schedule, TimedEvent
from offloadrt.machine import Stream
from offloadrt.models.cuda.calling_thread import CallingThread, DefaultStream, check_host_function

CREATE, DESTROY = "cuStreamCreate", "cuStreamDestroy"


class StreamRoutines(CallingThread):
    """Streams and events. A call without a stream means the default one, as the program's options say."""

    async def stream_create(self, *, non_blocking: bool = False, priority: int = 0) -> Stream:
        """Make a stream on the current device (cudaStreamCreateWithPriority).

        It blocks with the legacy default stream unless it is ``non_blocking`` (cudaStreamNonBlocking): commands of
        either wait for what was put into the other before. priority: 0, or a number below it for a greater one; as in
        CUDA, what lies outside of `device_get_stream_priority_range` becomes the nearest in it.
        """
        context = await self._context()
        least, greatest = self.device_get_stream_priority_range()
        stream = await context.driver.stream_create(
            priority=min(max(priority, greatest), least), order="non-blocking" if non_blocking else "blocking"
        )
        self._state.devices[stream] = context.number
        return stream

    def device_get_stream_priority_range(self) -> tuple[int, int]:
        """Return the least and the greatest priority that a stream can have (cudaDeviceGetStreamPriorityRange)."""
        return 0, 1 - self.program.machine.spec.count("stream.priorities")

    async def stream_destroy(self, stream: Stream) -> None:
        """Destroy a stream (cudaStreamDestroy); what was put into it still completes.

        Raises DriverError for the default stream, and for one that is destroyed already.
        """
        driver, chosen = await self._at_stream(stream, DESTROY)
        if chosen not in self._state.devices:
            raise driver.refusal(driver.call(DESTROY), "CUDA_ERROR_INVALID_HANDLE", "it is the default stream")
        await driver.stream_destroy(chosen)
        del self._state.devices[chosen]

    async def stream_synchronize(self, stream: Stream | DefaultStream | None = None) -> None:
        """Wait for everything in a stream (cudaStreamSynchronize); the legacy one waits for blocking streams, too."""
        driver, chosen = await self._at_stream(stream, "cuStreamSynchronize")
        await driver.stream_synchronize(chosen)

    async def stream_query(self, stream: Stream | DefaultStream | None = None) -> bool:
        """Tell whether everything in a stream has completed (cudaStreamQuery)."""
        driver, chosen = await self._at_stream(stream, "cuStreamQuery")
        return await driver.stream_query(chosen)

    async def stream_wait_event(self, stream: Stream | DefaultStream | None, event: TimedEvent) -> None:
        """Let what comes into a stream from now on wait for an event, of any device (cudaStreamWaitEvent).

        The host does not wait. An event that was never recorded is complete, as in CUDA.
        """
        driver, chosen = await self._at_stream(stream, "cuStreamWaitEvent")
        if event.destroyed:
            why = f"event {event.number} is destroyed"
            raise driver.refusal(driver.call("cuStreamWaitEvent"), "CUDA_ERROR_INVALID_HANDLE", why)
        if event.mark is not None:
            await driver.stream_wait_event(chosen, event.mark)

    async def launch_host_func(
        self,
        function: Callable[[], object] | None,
        *,
        stream: Stream | DefaultStream | None = None,
        seconds: float = 0.0,
    ) -> None:
        """Put a function of the host into a stream (cudaLaunchHostFunc); the caller goes on.

        The library's callback thread calls it when what is before it in the stream has completed, and works for
        ``seconds`` on a core; what comes behind it waits. As in CUDA, it makes no calls: it gets no ``t``. TypeError
        for a coroutine function, ValueError for a time that is negative or not finite.
        """
        check_host_function("cudaLaunchHostFunc", function, seconds)
        driver, chosen = await self._at_stream(stream, "cuLaunchHostFunc")
        await driver.launch_host_func(chosen, function, seconds)

    async def set_device_flags(self, schedule: Schedule) -> None:
        """Say how threads wait for the current device (cudaSetDeviceFlags): auto, spin, yield or blocking_sync.

        Threads that spin keep their cores while they wait, which others may need; those that sleep return later.
        """
        if schedule not in get_args(Schedule):
            raise ValueError(f"schedule is {schedule!r}; it can be {', '.join(get_args(Schedule))}")
        (await self._context()).driver.set_schedule(schedule)

    async def device_synchronize(self) -> None:
        """Wait for everything in all streams of the current device (cudaDeviceSynchronize)."""
        driver = (await self._context()).driver
        for stream in [*driver.streams]:
            await driver.stream_synchronize(stream)

    # events

    async def event_create(self, *, timing: bool = True, blocking_sync: bool = False) -> TimedEvent:
        """Make an event on the current device (cudaEventCreateWithFlags).

        timing: False for cudaEventDisableTiming. blocking_sync: who waits for it gives its core up, whatever the
        device's flags say (cudaEventBlockingSync).
        """
        driver = (await self._context()).driver
        return await driver.events.event_create(timing=timing, blocking_sync=blocking_sync)

    async def event_destroy(self, event: TimedEvent) -> None:
        """Destroy an event (cudaEventDestroy)."""
        await (await self._context_of(event.device)).driver.events.event_destroy(event)

    async def event_record(self, event: TimedEvent, stream: Stream | DefaultStream | None = None) -> None:
        """Put an event behind everything in a stream of its device (cudaEventRecord)."""
        driver, chosen = await self._at_stream(stream, "cuEventRecord")
        await driver.events.event_record(event, chosen)

    async def event_synchronize(self, event: TimedEvent) -> None:
        """Wait until the device has come to an event (cudaEventSynchronize)."""
        await (await self._context_of(event.device)).driver.events.event_synchronize(event)

    async def event_query(self, event: TimedEvent) -> bool:
        """Tell whether the device has come to an event (cudaEventQuery)."""
        return await (await self._context_of(event.device)).driver.events.event_query(event)

    async def event_elapsed_time(self, begin: TimedEvent, end: TimedEvent) -> float:
        """Return the milliseconds between two events (cudaEventElapsedTime).

        Raises DriverError for an event that was never recorded, or to which the device has yet to come.
        """
        events = (await self._context_of(begin.device)).driver.events
        return 1e3 * await events.event_elapsed_time(begin, end)
