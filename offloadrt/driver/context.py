"""The context of one device: its lock, the accounting of calls, submission to streams, and waiting for them."""

from __future__ import annotations

from collections.abc import Awaitable
from types import TracebackType

import attrs

from offloadrt.driver.call_names import CALL_NAMES
from offloadrt.driver.costs import DriverCosts
from offloadrt.driver.errors import DriverError
from offloadrt.machine import Device, Machine, Stream
from offloadrt.machine.host_lock import HostLock, lock_policy
from offloadrt.machine.messages import Packet
from offloadrt.sim import Signal
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


@attrs.frozen(eq=False)
class Locked:
    """``async with``: the body holds the lock, after ``dt`` virtual seconds of work under it."""

    lock: HostLock
    dt: float

    def __aenter__(self) -> Awaitable[None]:
        return self.lock.enter(self.dt)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.lock.release()


class Context:
    """What all calls on one device share.

    ``lock`` is taken for the work of every call.  A thread that had to wait for it pays ``driver.handover``.
    """

    def __init__(self, machine: Machine, device: Device, costs: DriverCosts) -> None:
        self.machine = machine
        self.sim = machine.sim
        self.device = device
        self.costs = costs
        suffix = f" {device.index}" if device.index else ""
        self.lock = HostLock(
            machine,
            f"driver context{suffix}",
            lock_policy(machine.spec.text("lock.handoff")),
            costs.handover,
            category="driver",
            wait_category="driver lock",
            uncontended=machine.spec.flag("driver.context.uncontended"),
        )
        self.names = CALL_NAMES[machine.spec.text("driver.calls")]
        """What this library calls its calls and errors, where CUDA's have other names."""
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

    def locked(self, dt: float = 0.0) -> Locked:
        """Hold the context lock in the body of ``async with``, which begins when ``dt`` of work under it is done."""
        return Locked(self.lock, dt)

    def work(self, dt: float) -> Awaitable[None]:
        """The calling thread works for ``dt`` seconds on a core."""
        return self._work(dt, "driver")

    async def locked_work(self, dt: float) -> None:
        """Work under the context lock."""
        await self.lock.enter(dt)
        self.lock.release()

    async def submit(self, packet: Packet, dt: float) -> Signal:
        """Work under the context lock, then put a packet into its stream; returns its completion.

        When the stream holds as many commands as it can, the thread first waits for one of them, with the lock.
        """
        await self.lock.enter(dt)
        try:
            stream = packet.stream
            while (first := stream.full(self.costs.stream_depth)) is not None:
                begin = self.sim.now
                await first.wait()
                self.machine.host_time.add_wait(begin, self.sim.now, stream.spans())
            stream.submit(packet)
            stream.pending.append(packet.done)
            return packet.done
        finally:
            self.lock.release()

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
