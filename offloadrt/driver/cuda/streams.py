"""The calls of CUDA's driver library for streams and events, and the thread that runs host functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Annotated, Literal

import attrs

from offloadrt.driver.calls import DriverCall
from offloadrt.driver.cuda.context import CAPTURED_EVENT, CapturedMark, Context, HostNode, StreamEvent, TimedEvent
from offloadrt.driver.cuda.copies import Copies
from offloadrt.machine import Machine, Stream
from offloadrt.machine.messages import WaitPacket
from offloadrt.machine.servers import LevelOverTime, Servers, numbered_from_the_second
from offloadrt.sim import Mailbox, Signal


@attrs.frozen(eq=False)
class RunHostFunction:
    """Asks the callback thread to work for ``seconds`` on a core, call ``function``, and then set ``done``."""

    function: Callable[[], object] | None
    seconds: float
    done: Signal


MESSAGES = (RunHostFunction,)


@attrs.frozen
class CallbackSpec:
    """The costs of the thread that runs the streams' host functions, and whether every function gets its own thread."""

    wake: Annotated[float, "stream.host_function"]
    """Seconds from the moment at which a stream reaches a host function until the function runs on a core."""
    uncontended: Annotated[bool, "stream.callback_thread.uncontended"]
    """Whether every function finds a thread of its own (an ablation)."""


@attrs.frozen
class CallbackStatistics:
    """Times of the thread that runs host functions of streams, in virtual seconds so far.

    ``busy_s + idle_s`` is the time elapsed, unless ``uncontended`` gives each function a thread of its own.
    """

    busy_s: float
    idle_s: float
    wait_s: float
    """Time for which functions at the head of their streams waited for the thread, summed over the functions."""
    functions: int
    """Number of functions that have run."""


class CallbackThread:
    """The simulated thread of one context that runs the host functions of all streams, one after another.

    One thread for all streams is an assumption: CUDA says only that functions of different streams may run in any
    order, and may be serialized (cuLaunchHostFunc).
    """

    def __init__(self, machine: Machine, device: int) -> None:
        self._machine = machine
        self._sim = machine.sim
        self.mailbox = Mailbox(machine.sim, machine.named(f"device {device} callback thread"))
        self._spec = spec = machine.spec.read(CallbackSpec)
        names = numbered_from_the_second(self.mailbox.name, "thread")
        self._servers: Servers[RunHostFunction] = Servers(
            machine.sim, self.mailbox, self._run, names, grow=spec.uncontended
        )
        self._busy = LevelOverTime(machine.sim)
        self._functions = 0
        self._born = machine.sim.now
        self._servers.start()

    def submit(self, function: RunHostFunction) -> None:
        """Queue a host function that is at the head of its stream; the thread runs it after those queued before."""
        self._servers.submit(function)

    async def _run(self) -> None:
        """Run one function after another, for ever (the actor)."""
        while True:
            message = await self.mailbox.get()
            if not isinstance(message, RunHostFunction):
                raise TypeError(f"the callback thread does not understand {message!r}")
            self._busy.rise()
            cores = self._machine.cores
            await cores.take()
            try:
                await self._sim.sleep(self._machine.jitter(self._spec.wake) + message.seconds)
            finally:
                cores.give_back()
            if message.function is not None:
                message.function()
            self._busy.fall()
            self._functions += 1
            self._servers.done()
            message.done.set()

    def statistics(self) -> CallbackStatistics:
        """Return the statistics of the thread so far."""
        busy_s = self._busy.total_s
        idle_s = max(self._sim.now - self._born - busy_s, 0.0)
        return CallbackStatistics(busy_s, idle_s, self._servers.queued.total_s, self._functions)


Order = Literal["legacy", "blocking", "non-blocking"]
"""The legacy default stream itself, a stream that blocks with it, or an independent one (CU_STREAM_NON_BLOCKING)."""


class Streams:
    """The streams of one context: creation, destruction, and waits for streams and their events."""

    def __init__(self, context: Context, copies: Copies) -> None:
        self._context = context
        self._copies = copies
        self._costs = context.costs
        self.callback_thread: CallbackThread | None = None
        """The thread for host functions; None until a stream gets one."""
        self._destroyed: list[Stream] = []
        """Destroyed streams that had work left when the streams were last looked at."""

    @property
    def all(self) -> Sequence[Stream]:
        """Return the context's streams in their order of creation, among them destroyed ones that have work left."""
        self._forget_destroyed()
        return self._context.streams

    def _forget_destroyed(self) -> None:
        """Drop the destroyed streams that have no work left."""
        for stream in [each for each in self._destroyed if each.idle]:
            self._destroyed.remove(stream)
            self._context.streams.remove(stream)
            self._context.order.remove(stream)

    async def create(self, *, priority: int = 0, order: Order = "non-blocking") -> Stream:
        """Create a stream on the next hardware queue in turn (cuStreamCreate, cuStreamCreateWithPriority).

        ``priority``: lower numbers go first. ``order``: "legacy" makes the legacy default stream; a "blocking" stream
        and the legacy default stream wait for each other's commands; a "non-blocking" one waits for neither.
        """
        with self._context.call("cuStreamCreateWithPriority" if priority else "cuStreamCreate"):
            async with self._context.locked(self._costs.stream_create):
                stream = self._context.device.open_stream(priority)
                self._context.streams.append(stream)
                self._copies.open(stream)
                if order == "legacy":
                    self._context.order.legacy = stream
                elif order == "blocking":
                    self._context.order.add(stream)
                return stream

    async def destroy(self, stream: Stream) -> None:
        """Destroy a stream (cuStreamDestroy); what was submitted to it still completes."""
        with self._context.call("cuStreamDestroy", stream):
            async with self._context.locked(self._costs.stream_destroy):
                self._copies.close(stream)
                self._context.device.queues.close_stream(stream)
                self._destroyed.append(stream)
                self._forget_destroyed()

    async def synchronize(self, stream: Stream) -> None:
        """Wait until everything submitted to the stream has completed (cuStreamSynchronize).

        For the legacy default stream, that includes everything in the context's blocking streams.
        """
        with self._context.call("cuStreamSynchronize", stream):
            for other in self._context.order.before(stream) if stream is self._context.order.legacy else ():
                await self._context.wait(stream, other)
            await self._context.synchronize(stream, stream.last)

    async def query(self, stream: Stream) -> bool:
        """Tell whether everything submitted to the stream has completed (cuStreamQuery)."""
        with self._context.call("cuStreamQuery", stream):
            await self._context.work(self._costs.synchronize_idle)
            return stream.idle

    async def launch_host_func(self, stream: Stream, function: Callable[[], object] | None, seconds: float) -> None:
        """Run a host function when everything before it in the stream has completed (cuLaunchHostFunc).

        The function works for ``seconds`` on a core; later commands of the stream wait for it, the caller does not.
        """
        with self._context.call("cuLaunchHostFunc", stream):
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
        """Return the two packets of a host function: one starts the function, the other waits for its end."""
        sim, thread = self._context.sim, self.callbacks()
        begun, done, now = (Signal(sim, f"host function in stream {stream.index}") for _ in range(3))
        now.set()
        begun.set_callback(lambda: thread.submit(RunHostFunction(function, seconds, done)))
        behind = Signal(sim, f"end of a host function in stream {stream.index}")
        return WaitPacket(stream, now, begun), WaitPacket(stream, done, behind)

    def callbacks(self) -> CallbackThread:
        """Return the context's thread that runs host functions of streams; the first call makes the thread."""
        if self.callback_thread is None:
            self.callback_thread = CallbackThread(self._context.machine, self._context.device.index)
        return self.callback_thread

    async def record_event(self, stream: Stream) -> StreamEvent:
        """Put an event behind everything submitted to the stream so far (cuEventRecord), and return the event."""
        with self._context.call("cuEventRecord", stream):
            await self._context.locked_work(self._costs.event_record)
            return StreamEvent(stream, stream.last)

    async def wait_event(self, stream: Stream, event: StreamEvent) -> None:
        """Make later work of the stream start after the event (cuStreamWaitEvent); the call itself does not wait."""
        with self._context.call("cuStreamWaitEvent", stream) as call:
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


HANDLE, NOT_READY = "CUDA_ERROR_INVALID_HANDLE", "CUDA_ERROR_NOT_READY"


class TimedEvents:
    """The events of one context: create, record, wait, and measure the time between two.

    All calls raise DriverError for an event that is destroyed or belongs to another device. As in CUDA, an event that
    was never recorded is complete, so that a wait for it ends at once; it has no time.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._costs = context.costs
        self._made = 0

    @cached_property
    def _create(self) -> float:
        # Read at the first use: OpenMP's runtime makes its events otherwise, and its profiles need not have the entry.
        return self._context.machine.spec.value("stream.event_create")

    async def create(self, *, timing: bool = True, blocking_sync: bool = False) -> TimedEvent:
        """Create an event (cuEventCreate). timing: whether it notes times; blocking_sync: whether waiters sleep."""
        with self._context.call("cuEventCreate"):
            await self._context.work(self._create)
            self._made += 1
            return TimedEvent(self._made - 1, self._context.device.index, timing, blocking_sync)

    async def destroy(self, event: TimedEvent) -> None:
        """Destroy an event (cuEventDestroy); threads that wait for it go on waiting."""
        with self._context.call("cuEventDestroy") as call:
            self._check(call, event)
            await self._context.work(self._create)
            event.destroyed = True

    async def record(self, event: TimedEvent, stream: Stream) -> None:
        """Put the event behind everything in the stream (cuEventRecord); its earlier position no longer counts."""
        with self._context.call("cuEventRecord", stream) as call:
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

    async def query(self, event: TimedEvent) -> bool:
        """Tell whether the device has reached the event (cuEventQuery)."""
        with self._context.call("cuEventQuery") as call:
            self._check_reachable(call, event)
            await self._context.work(self._costs.synchronize_idle)
            return event.mark is None or event.mark.is_complete

    async def synchronize(self, event: TimedEvent) -> None:
        """Wait until the device has reached the event (cuEventSynchronize)."""
        with self._context.call("cuEventSynchronize") as call:
            self._check_reachable(call, event)
            if event.mark is None:
                await self._context.work(self._costs.synchronize_idle)
            else:
                mark = event.mark
                await self._context.synchronize(mark.stream, mark.done, blocking_sync=event.blocking_sync)

    async def elapsed_time(self, begin: TimedEvent, end: TimedEvent) -> float:
        """Return the virtual seconds between two events (cuEventElapsedTime, which gives milliseconds).

        Raises DriverError when one of them was never recorded, was made without timing, or is not reached yet.
        """
        with self._context.call("cuEventElapsedTime") as call:
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
