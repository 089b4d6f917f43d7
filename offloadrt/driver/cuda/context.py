"""The context of one device: what all calls of CUDA's driver library share.

Its lock, the accounting of calls, submission to streams, and waiting for them.  The lock is why calls of several
threads queue.  One lock for each context is an assumption: CUDA does not document its locking.  The ablation
``driver.context.uncontended`` shows how much of a result rests on it.  Contexts of one process on several devices also
share a lock (`ProcessLock`).
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import cached_property
from types import TracebackType
from typing import Annotated, Literal

import attrs

from offloadrt.driver.call_names import CALL_NAMES
from offloadrt.driver.calls import CallAccounts, DriverCall, DriverError
from offloadrt.driver.cuda.memory_pool import FreeClock, MemPool
from offloadrt.driver.cuda.order import Captures, ImplicitOrder, Violation
from offloadrt.driver.cuda.process import DriverProcess, ProcessLock
from offloadrt.machine import Machine, Stream
from offloadrt.machine.host_lock import HostLock, lock_policy
from offloadrt.machine.messages import CopyPacket, KernelPacket, Packet, PeerPacket, WaitPacket
from offloadrt.sim import Signal
from offloadrt.trace import events


@attrs.frozen
class DriverCosts:
    """Seconds of host time of each call; sizes in bytes."""

    init: Annotated[float, "init.library"]
    init_device: Annotated[float, "init.device"]
    """Added for each device that the program sees."""
    create_context: Annotated[float, "init.context"]
    load_module: Annotated[float, "module.load"]
    load_kernel: Annotated[float, "module.kernel"]
    """The first use of a kernel of a module that is loaded lazily."""
    allocate: Annotated[float, "alloc.cudaMalloc_small"]
    """An allocation from memory that the driver holds already."""
    allocate_segment: Annotated[float, "alloc.cudaMalloc_large"]
    """An allocation for which the kernel driver has to hand out a segment."""
    further_segment: Annotated[float, "alloc.cudaMalloc_segment"]
    """Added for each further segment."""
    free: Annotated[float, "alloc.cudaFree"]
    free_segment: Annotated[float, "alloc.cudaFree_large"]
    """Added for a segment that goes back to the kernel driver."""
    free_further: Annotated[float, "alloc.cudaFree_segment"]
    """Added for each further segment that the same call gives back; 0: as much as for the first."""
    allocate_managed: Annotated[float, "alloc.cuMemAllocManaged"]
    """An allocation of managed memory, which gets addresses but no pages."""
    managed_alignment: Annotated[int, "alloc.managed_alignment"]
    """Addresses of managed allocations are multiples of this."""
    visit: Annotated[float, "driver.free_visits_streams"]
    """The time that a free takes to look at one stream of the context."""
    copy_submit: Annotated[float, "driver.copy_submit"]
    """The submission of a copy, under the context lock."""
    launch: Annotated[float, "driver.launch"]
    """The submission of a kernel, under the context lock; what the device adds is ``launch.latency``."""
    handover: Annotated[float, "driver.handover"]
    """The time that a thread which had to wait for the context lock takes to wake up, while it owns the lock."""
    stream_create: Annotated[float, "driver.stream_create"]
    stream_destroy: Annotated[float, "driver.stream_destroy"]
    stream_depth: Annotated[int, "driver.stream_depth"]
    """Commands that a stream can hold; a submission waits for one of them to complete."""
    event_record: Annotated[float, "driver.event_record"]
    event_wait: Annotated[float, "driver.event_wait"]
    wake: Annotated[float, "sync.latency"]
    """Time from a completion to the return of the call that waited for it."""
    synchronize_idle: Annotated[float, "driver.sync_idle"]
    """A call that waits for something which has completed already."""
    register: Annotated[float, "pin.register"]
    register_per_byte: Annotated[float, "pin.register_per_gib"]
    unregister: Annotated[float, "pin.unregister"]
    staging_chunk: Annotated[int, "staging.chunk"]
    """Bytes of one piece of a copy of pageable memory."""
    staging_buffers: Annotated[int, "staging.buffers"]
    """Pinned buffers of a chunk that each stream has for each direction."""
    staging_memory: Annotated[str, "staging.memory"]
    """The owner of the pinned buffers: each ``stream`` has some, or the ``context`` has some for all."""
    staging_inline: Annotated[int, "staging.inline"]
    """Bytes up to which a copy to the device travels with its command, and needs no buffer."""
    staging_copy_per_byte: Annotated[float, "staging.copy_per_gib"]
    """The time that a thread takes to copy to and from pinned buffers; 0: as long as it takes within the host."""
    copies_pageable: Annotated[bool, "ats.copies"]
    """Whether copy engines reach pageable memory themselves, through the page table of the host."""
    enable_peer_access: Annotated[float, "p2p.enable_access"]

    def give_back_s(self, segments: int) -> float:
        """Return the seconds that a call adds when it gives segments back to the kernel driver."""
        if segments > 1 and self.free_further:
            return self.free_segment + (segments - 1) * self.free_further
        return segments * self.free_segment


Schedule = Literal["auto", "spin", "yield", "blocking_sync"]
"""The flags of cudaSetDeviceFlags."""


@attrs.frozen
class WaitingCosts:
    """The costs of spinning and sleeping; read when a program first asks for either."""

    time_slice: Annotated[float, "stream.time_slice"]
    """Seconds after which the operating system gives a spinning thread's core to another that waits for one."""
    interrupt: Annotated[float, "stream.interrupt"]
    """Seconds that a sleeping thread needs on top of ``sync.latency`` to return."""


class Waiting:
    """The waits of one context's callers.

    ``auto`` and ``yield``: a thread has no core while it waits, and returns ``sync.latency`` after the completion, as
    soon as a core is idle.  CUDA's auto spins while a process has no more contexts than the host has cores: as long as
    no other thread wants the core, the two cannot be told apart.  ``spin``: a thread keeps its core, and gives it up
    only when its time slice is over and another waits.  ``blocking_sync``: it sleeps, and waking it takes longer.
    """

    def __init__(self, machine: Machine, wake: float) -> None:
        self._machine = machine
        self._sim = machine.sim
        self._wake = wake
        self._costs: WaitingCosts | None = None
        self.schedule: Schedule = "auto"

    @property
    def is_plain(self) -> bool:
        """Tell whether a thread only waits and then wakes up, so that nobody need ask ``until``."""
        return self.schedule in ("auto", "yield")

    async def until(self, done: Signal, *, blocking_sync: bool = False) -> float:
        """Wait for a completion; returns the seconds of work that are left until the call can return."""
        if self.schedule == "spin" and not blocking_sync:
            await self._spin(done)
            return 0.0
        await done.wait()
        return self._wake + (self._read().interrupt if blocking_sync or self.schedule == "blocking_sync" else 0.0)

    async def _spin(self, done: Signal) -> None:
        machine, sim, time_slice = self._machine, self._sim, self._read().time_slice
        while True:
            await machine.cores.take()
            try:
                if not done.is_set:
                    with sim.move_on_after(time_slice):
                        await done.wait()
                if done.is_set:  # it sees the completion on the core that it has
                    await sim.sleep(machine.jitter(self._wake))
                    return
            finally:
                machine.cores.give_back()

    def _read(self) -> WaitingCosts:
        if self._costs is None:
            self._costs = self._machine.spec.read(WaitingCosts)
        return self._costs


@attrs.define(eq=False)
class Locked:
    """Holds the context lock in the body of ``async with``; `Context.locked` returns it."""

    context: Context
    dt: float
    """Virtual seconds of work under the lock before the body begins."""

    def __aenter__(self) -> Awaitable[None]:
        return self.context.enter(self.dt)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.context.lock.release()


class Context:
    """Holds what all calls on one device share.

    ``lock`` is taken for the work of every call.  A thread that had to wait needs ``driver.handover`` to wake up, and
    ``driver.handoff`` says whether others can take the lock meanwhile.
    """

    def __init__(self, process: DriverProcess, number: int, costs: DriverCosts) -> None:
        machine = process.machine
        self.process = process
        self.number = number
        """The device, as the process counts them."""
        self.machine = machine
        self.sim = machine.sim
        self.device = device = machine.gpu(number)
        self.kernel_driver = process.kernel_drivers[number]
        self.costs = costs
        self.lock = HostLock(
            machine,
            machine.named("driver context", device.index),
            lock_policy(machine.spec.text("driver.handoff")),
            costs.handover,
            category="driver",
            wait_category="driver lock",
            uncontended=machine.spec.flag("driver.context.uncontended"),
        )
        self._process_lock = process.lock
        self.streams: list[Stream] = []
        """The streams of the context in order of creation."""
        self.order = ImplicitOrder()
        """The order between the legacy default stream and blocking streams."""
        self.captures = Captures(self.order)
        """The streams that are capturing."""
        self.waiting = Waiting(machine, costs.wake)
        """How threads wait for the device."""
        self.frees = FreeClock()
        """Which frees of memory pools each stream comes after."""
        self.pools: list[MemPool] = []
        """The memory pools that are not destroyed."""
        self._accounts = CallAccounts(machine, device, CALL_NAMES[machine.spec.text("driver.calls")])
        self._work = machine.work

    def call(self, api: str, stream: Stream | None, cause: int | None, nbytes: int = 0) -> DriverCall:
        """Account for one call, in a stream or none: ``with context.call("cuMemAlloc", None, cause) as call``.

        ``cause`` is the directive that asks for it; None: that of the running actor.  ``nbytes``: of an allocation of
        device memory, what it asks for.
        """
        call = self._accounts.call(api, -1 if stream is None else stream.queue.number, cause, nbytes)
        if self.captures.streams:
            violation = self.captures.check_call(api, stream, self.sim.current.name)
            if violation is not None:
                with call:
                    self.refuse(call, violation)
        return call

    @property
    def broken(self) -> bool:
        """Tell whether the context is of no more use: a fault has broken its device."""
        failing = self._accounts.failing
        return failing is not None and failing.broken

    @cached_property
    def capture_cost(self) -> float:
        """Seconds of a call that is captured."""
        # Read at the first use: only programs with graphs need the entry.
        return self.machine.spec.value("graph.capture")

    def refuse(self, call: DriverCall, violation: Violation | None) -> None:
        """Raise DriverError for what a capture forbids; None is nothing."""
        if violation is not None:
            raise DriverError(call.api, violation.code, violation.why)

    def locked(self, dt: float = 0.0) -> Locked:
        """Hold the context lock in the body of ``async with``, which begins when ``dt`` of work under it is done."""
        return Locked(self, dt)

    def enter(self, dt: float) -> Awaitable[None]:
        """Take the context lock and work under it for ``dt`` seconds; the caller holds it until its ``release``."""
        if self._process_lock is None or not dt:
            return self.lock.enter(dt)
        return self._enter_both(self._process_lock, dt)

    async def _enter_both(self, process_lock: ProcessLock, dt: float) -> None:
        await self.lock.enter(0.0)
        try:
            await process_lock.work(dt)
        except BaseException:
            self.lock.release()
            raise

    def work(self, dt: float) -> Awaitable[None]:
        """Let the calling thread work for ``dt`` seconds on a core."""
        return self._work(dt, "driver")

    async def locked_work(self, dt: float) -> None:
        """Work under the context lock."""
        await self.enter(dt)
        self.lock.release()

    async def submit(self, packet: Packet, dt: float) -> Signal:
        """Work under the context lock, then put a packet into its stream; return its completion.

        When the stream holds as many commands as it can, the thread first waits for one of them, with the lock.  In a
        capturing stream, the packet becomes a node of the graph, and its completion never comes.
        """
        stream = packet.stream
        capture = self.captures.streams.get(stream)
        await self.enter(dt if capture is None else self.capture_cost)
        try:
            if capture is not None:
                if not isinstance(packet, (KernelPacket, CopyPacket, PeerPacket)):
                    raise TypeError(f"a graph has no node for {packet!r}")
                capture.add(stream, packet)
                return packet.done
            await self.append(packet)
            return packet.done
        finally:
            self.lock.release()

    async def append(self, packet: Packet, *, in_order: bool = True) -> None:
        """Put a packet into its stream, when that has a place for it; the caller holds the lock.

        ``in_order``: behind what the legacy default stream and its blocking streams ask for.
        """
        stream = packet.stream
        for earlier in self.order.before(stream) if in_order else ():
            wait = WaitPacket(stream, earlier, Signal(self.sim, f"order of stream {stream.index}"))
            await self.append(wait, in_order=False)
        if stream.full(self.costs.stream_depth) is not None:
            await self.make_room(stream)
        stream.submit(packet)
        stream.pending.append(packet.done)

    async def make_room(self, stream: Stream) -> None:
        """Wait until a stream has a place for another command; the caller holds the lock."""
        # The thread keeps the lock while it waits for a place, so a full stream stops the calls of all threads.
        while (first := stream.full(self.costs.stream_depth)) is not None:
            await self.settled(stream, first)

    async def settled(self, stream: Stream, done: Signal) -> None:
        """Wait within a call until a command of a stream has completed; nobody has to be woken for it."""
        begin = self.sim.now
        await done.wait()
        self.machine.host_time.add_wait(begin, self.sim.now, stream.spans())

    def refusal(self, call: DriverCall, code: str, why: str) -> DriverError:
        """Return the error of a call that a program may not make so; it says which thread made it, and when."""
        error = DriverError(call.api, code, why)
        error.rename(self._accounts.names)
        error.locate(self.sim.current.name, self.sim.now, self.device.index)
        return error

    async def wait(self, stream: Stream, done: Signal, *, blocking_sync: bool = False) -> None:
        """Wait for a completion in a stream, then pay for waking up; ``blocking_sync``: asleep, whatever the flags."""
        machine = self.machine
        sim, trace, cause = machine.sim, machine.trace, machine.sim.current.cause
        begin = sim.now
        if trace is not None:
            trace(events.SignalWaitBegin, self.device.index, stream.queue.number, cause, done.name)
        try:
            if self.waiting.is_plain and not blocking_sync:
                await done.wait()
                left = self.costs.wake
            else:
                left = await self.waiting.until(done, blocking_sync=blocking_sync)
        finally:
            if trace is not None:
                trace(events.SignalWaitEnd, self.device.index, stream.queue.number, cause, done.name)
            machine.host_time.add_wait(begin, sim.now, stream.spans())
        if left:
            await self.work(left)

    async def synchronize(self, stream: Stream, done: Signal | None, *, blocking_sync: bool = False) -> None:
        """Return when ``done`` is set, at a small cost if it is set already."""
        if done is None or done.is_set:
            stream.spans()
            await self.work(self.costs.synchronize_idle)
        else:
            await self.wait(stream, done, blocking_sync=blocking_sync)
        for pool in self.pools:
            if pool.reserved > pool.release_threshold:
                async with self.locked():
                    await self.release(pool, pool.release_threshold)

    async def release(self, pool: MemPool, keep: int) -> None:
        """Give chunks of a pool back until at most ``keep`` bytes are left; the caller holds the lock."""
        for address in pool.release(keep):
            _, segments = self.device.memory.free(address)
            await self.work(self.costs.give_back_s(segments))
