"""The context of one device: its lock, the accounting of calls, submission to streams, and waiting for them."""

from __future__ import annotations

from collections.abc import Awaitable
from types import TracebackType

from offloadrt.driver.call_names import CALL_NAMES
from offloadrt.driver.costs import DriverCosts
from offloadrt.driver.errors import DriverError
from offloadrt.machine import Device, Machine, Stream
from offloadrt.machine.messages import Packet
from offloadrt.sim import Lock, Signal
from offloadrt.trace import events


class Call:
    """One call of the driver library, from entry to return: ``with context.call("cuMemAlloc") as call``."""

    __slots__ = ("_begin", "_context", "api", "cause", "queue")

    def __init__(self, context: Context, api: str, queue: int, cause: int) -> None:
        self._context = context
        self.api = api
        self.queue = queue
        self.cause = cause

    def __enter__(self) -> Call:
        context = self._context
        self._begin = context.sim.now
        if (trace := context.machine.trace) is not None:
            trace(events.CallBegin, context.device.index, self.queue, self.cause, self.api)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        context = self._context
        if isinstance(error, DriverError):
            error.rename(context.names)
        if (calls := context.machine.calls) is not None:
            calls.add(self.api, context.sim.now - self._begin)
        if (trace := context.machine.trace) is not None:
            device = context.device.index
            if isinstance(error, DriverError):
                trace(events.RuntimeError_, device, self.queue, self.cause, self.api, str(error))
            trace(events.CallEnd, device, self.queue, self.cause, self.api)


class Context:
    """What all calls on one device share.

    ``lock`` is taken for the work of every call: ``async with context as woken``.  A thread that had to wait for it
    pays ``driver.handover`` while it owns it: ``woken``, else 0.  ``locked_work`` and ``submit`` spell that out: they
    are run several times a directive, and a free lock costs them no coroutine.
    """

    def __init__(self, machine: Machine, device: Device, costs: DriverCosts) -> None:
        self.machine = machine
        self.sim = machine.sim
        self.device = device
        self.costs = costs
        suffix = f" {device.index}" if device.index else ""
        handoff = machine.spec.text("lock.handoff")
        self.lock = Lock(machine.sim, f"driver context{suffix}", "barging" if handoff == "barging" else "fifo")
        self.names = CALL_NAMES[machine.spec.text("driver.calls")]
        """What this library calls its calls and errors, where CUDA's have other names."""
        self._uncontended = machine.spec.flag("driver.context.uncontended")
        self._work = machine.work

    def call(self, api: str, stream: Stream | None, cause: int | None) -> Call:
        """Account for one call; ``cause`` is the directive that asks for it (None: the running actor's)."""
        queue = -1 if stream is None else stream.queue.number
        return Call(
            self,
            self.names.get(api, api),
            queue,
            (self.sim.running or self.sim.current).cause if cause is None else cause,
        )

    async def __aenter__(self) -> float:
        return 0.0 if self._taken() else await self._take()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._give_back()

    def _taken(self) -> bool:
        """Take the lock if it is free, without a coroutine; False when ``_take`` has to wait for it."""
        return self._uncontended or self.lock.take_now()

    async def _take(self) -> float:
        """Wait for the lock; returns what the thread owes for its hand-over."""
        since, contended = self.sim.now, self.lock.owner is not None
        await self.lock.acquire()
        if not contended:
            return 0.0
        self.machine.host_time.add("driver lock", self.sim.now - since)
        return self.costs.handover

    def _give_back(self) -> None:
        if not self._uncontended:
            self.lock.release()

    def work(self, dt: float) -> Awaitable[None]:
        """The calling thread works for ``dt`` seconds on a core."""
        return self._work(dt, "driver")

    async def locked_work(self, dt: float) -> None:
        """Work under the context lock."""
        woken = 0.0 if self._taken() else await self._take()
        try:
            await self._work(woken + dt, "driver")
        finally:
            self._give_back()

    async def submit(self, packet: Packet, dt: float) -> Signal:
        """Work under the context lock, then put a packet into its stream; returns its completion.

        When the stream holds as many commands as it can, the thread first waits for one of them, with the lock.
        """
        woken = 0.0 if self._taken() else await self._take()
        try:
            await self._work(woken + dt, "driver")
            stream = packet.stream
            while (first := stream.full(self.costs.stream_depth)) is not None:
                begin = self.sim.now
                await first.wait()
                self.machine.host_time.add_wait(begin, self.sim.now, stream.spans())
            stream.submit(packet)
            stream.pending.append(packet.done)
            return packet.done
        finally:
            self._give_back()

    async def wait(self, stream: Stream, done: Signal) -> None:
        """Wait for a completion in a stream, and wake up."""
        machine = self.machine
        sim, trace, cause = machine.sim, machine.trace, machine.sim.current.cause
        begin = sim.now
        if trace is not None:
            trace(events.SignalWaitBegin, self.device.index, stream.queue.number, cause, done.name)
        try:
            await done.wait()
        finally:
            if trace is not None:
                trace(events.SignalWaitEnd, self.device.index, stream.queue.number, cause, done.name)
            machine.host_time.add_wait(begin, sim.now, stream.spans())
        await self.work(self.costs.wake)

    async def synchronize(self, stream: Stream, done: Signal | None) -> None:
        """Return when ``done`` is set: at a small cost if it is already."""
        if done is None or done.is_set:
            stream.spans()
            await self.work(self.costs.synchronize_idle)
        else:
            await self.wait(stream, done)
