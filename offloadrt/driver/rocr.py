"""ROCr, the driver library of an APU's device: the calls of the HSA runtime, made by host threads.

Every call runs in the calling thread, costs what the profile says, and is counted under its name in rocprof (without
the prefix ``hsa_`` or ``hsa_amd_``).  There is no lock that all calls take: a copy takes that of its DMA ring, a packet
that of its HSA queue, and what goes down to the kernel driver takes the kernel driver's (``kfd.py``).
"""

from __future__ import annotations

from functools import partial

from offloadrt.driver.async_handler import RunHandler
from offloadrt.driver.blit import blit
from offloadrt.driver.errors import INVALID_ARGUMENT, DriverError
from offloadrt.driver.hsa_signal import HsaSignal
from offloadrt.driver.rocr_memory import RocrMemory
from offloadrt.driver.staging import Move
from offloadrt.driver.touching import NOTHING, Touching
from offloadrt.kernels import Launch
from offloadrt.machine import Device, LaunchOutOfResources, Machine, Stream
from offloadrt.machine.messages import BarrierPacket, BlitCopy, DmaPacket, KernelPacket
from offloadrt.sim import Signal
from offloadrt.trace import events

_CHECKED = 4096
"""Launches that are remembered as fitting before they are all forgotten."""


class Rocr(RocrMemory):
    """The library on one device.  ``start`` it within a run.  Raises ProfileError when the machine is no APU."""

    def __init__(self, machine: Machine, device: Device) -> None:
        super().__init__(machine, device)
        self._fits: dict[int, Launch] = {}

    @classmethod
    def of(cls, machine: Machine, number: int = 0) -> Rocr:
        """The library on a machine's device ``number``."""
        return cls(machine, machine.devices[number])

    # Signals

    async def signal_create(self) -> None:
        """A new signal for the plugin's pool."""
        begin = self._enter("signal_create")
        try:
            await self._work(self.costs.signal_create, "driver")
        finally:
            self._leave("signal_create", begin)

    async def signal_async_handler(self, signal: HsaSignal, handler: RunHandler) -> None:
        """Have a handler run when a signal is set, by the library's thread; returns at once."""
        begin = self.sim.now if self._trace is None else self._enter("signal_async_handler")
        try:
            await self._work(self.costs.handler, "driver")
            signal.when_set(partial(self.handler.submit, handler))
        finally:
            if self._trace is None:
                self._count("signal_async_handler", self.sim.now - begin)
            else:
                self._leave("signal_async_handler", begin)

    async def signal_wait_scacquire(self, stream: Stream, signal: Signal, category: str = "") -> None:
        """Wait for the completion of what was submitted last to a stream.

        The wait is accounted for by what the stream did meanwhile, or in one ``category`` of ``trace.HOST_TIME``.
        """
        sim, trace, index = self.sim, self._trace, self.device.index
        begin = sim.now if trace is None else self._enter("signal_wait_scacquire")
        try:
            if not signal.is_set:
                queue = stream.queue.number
                if trace is not None:
                    trace(events.SignalWaitBegin, index, queue, self._cause(), signal.name)
                try:
                    await signal.wait()
                finally:
                    if trace is not None:
                        trace(events.SignalWaitEnd, index, queue, self._cause(), signal.name)
                    if category:
                        self.machine.host_time.add(category, sim.now - begin)
                    else:
                        self.machine.host_time.add_wait(begin, sim.now, stream.spans())
                await self._work(self.costs.wake, "driver")
            else:
                stream.spans()
        finally:
            if trace is None:
                self._count("signal_wait_scacquire", sim.now - begin)
            else:
                self._leave("signal_wait_scacquire", begin)

    # Queues

    def take_queue(self, stream: Stream) -> None:
        """Give a stream a queue to submit to, which is created when the first packet is."""
        self.device.hsa_queues.take(stream)

    async def queue_create(self, number: int) -> None:
        """A queue of the device; nobody submits to it before it is there."""
        lock = self._queue_locks[number] = self._lock(f"hsa queue {number} lock")
        begin = self._enter("queue_create")
        try:
            async with lock:
                await self._work(self.costs.queue_create, "driver")
        finally:
            self._leave("queue_create", begin)

    async def dispatch(
        self,
        stream: Stream,
        cause: int,
        launch: Launch,
        run: Move | None,
        done: HsaSignal,
        touching: Touching = NOTHING,
    ) -> None:
        """Write the packet of a kernel, after that of a barrier if the stream has unfinished work.

        Raises DriverError when no team of the launch fits on a compute unit.
        """
        if self._fits.get(id(launch)) is not launch:
            self._check(launch)
        busy = None if stream.idle else stream.last
        cost = self.costs.dispatch if busy is None else self.costs.dispatch + self.costs.barrier
        number, queue = self.machine.next_number(), stream.queue.number
        if queue not in self._queue_locks:
            await self.queue_create(queue)
        lock = self._queue_locks[queue]
        owed = 0.0
        if self._queues_contend and not lock.take_now():
            owed = await self._wait_for(lock)
        try:
            await self._work(owed + cost, "driver")
            if busy is not None:
                self.device.hsa_queues.queues[queue].submit(BarrierPacket(cause, busy))
            stream.submit(
                KernelPacket(
                    number, stream, cause, launch, run, done, touching.ranges, touching.serial_s, touching.fault
                )
            )
        finally:
            if self._queues_contend:
                lock.release()
        if (trace := self._trace) is not None:
            trace(events.KernelSubmit, self.device.index, queue, cause, number, launch.kernel.name)

    async def barrier(self, stream: Stream, cause: int, depends: HsaSignal, done: HsaSignal) -> None:
        """Let nothing that is submitted to the stream from now on start before ``depends`` is set."""
        number = stream.queue.number
        if number not in self._queue_locks:
            await self.queue_create(number)
        lock = self._queue_locks[number]
        owed = 0.0
        if self._queues_contend and not lock.take_now():
            owed = await self._wait_for(lock)
        try:
            await self._work(owed + self.costs.barrier, "driver")
            queue = self.device.hsa_queues.queues[number]
            if stream.last is not None and not stream.last.is_set:
                queue.submit(BarrierPacket(cause, stream.last))
            stream.note(done)
            queue.submit(BarrierPacket(cause, depends, done))
        finally:
            if self._queues_contend:
                lock.release()

    # Copies

    async def memory_async_copy(
        self,
        stream: Stream,
        cause: int,
        direction: str,
        nbytes: int,
        move: Move | None,
        done: HsaSignal,
        depends: HsaSignal | None = None,
    ) -> None:
        """Copy through a DMA ring, when ``depends`` is set; ``move`` moves the bytes at the end of the transfer."""
        queue = stream.queue.number
        begin = self.sim.now if self._trace is None else self._enter("memory_async_copy", queue)
        try:
            ring = self.device.next_ring()
            lock = self._ring_locks[ring.number]
            owed = 0.0
            if self._rings_contend and not lock.take_now():
                owed = await self._wait_for(lock)
            try:
                await self._work(owed + self.costs.copy_submit, "driver")
                stream.note(done)
                number = self.machine.next_number()
                memory = "device" if direction == "d2d" else "staged"
                ring.submit(DmaPacket(number, cause, direction, nbytes, memory, move, done, depends, queue))
            finally:
                if self._rings_contend:
                    lock.release()
        finally:
            if self._trace is None:
                self._count("memory_async_copy", self.sim.now - begin)
            else:
                self._leave("memory_async_copy", begin, queue)

    async def memory_async_copy_by_kernel(
        self, stream: Stream, cause: int, direction: str, nbytes: int, move: Move | None, done: HsaSignal
    ) -> None:
        """Copy by a kernel of the library's own, which does not go through the stream's queue."""
        queue = stream.queue.number
        begin = self._enter("memory_async_copy", queue)
        try:
            await self._work(self.costs.copy_submit, "driver")

            def run() -> None:
                self.device.add_moved(direction, nbytes)
                if move is not None:
                    move()

            copy = BlitCopy(direction, nbytes, "device" if direction == "d2d" else "pinned")
            number = self.machine.next_number()
            packet = KernelPacket(number, stream, cause, blit(nbytes), run, done, blit=copy)
            self.device.compute.mailbox.put(packet)
        finally:
            self._leave("memory_async_copy", begin, queue)

    def _check(self, launch: Launch) -> None:
        try:
            self.device.compute.spec.demand(launch)
        except LaunchOutOfResources as error:
            raise self._failed(DriverError("queue_submit", INVALID_ARGUMENT, str(error))) from None
        if len(self._fits) == _CHECKED:
            self._fits.clear()
        self._fits[id(launch)] = launch
