"""HSA queues as ROCr gives them: creating them, and writing packets of kernels and barriers to them.

A packet is written to memory without a call of the library, so only the creation of a queue is counted.  Threads that
write to one queue take turns by the queue's lock.
"""

from __future__ import annotations

from offloadrt.driver.calls import CallAccounts
from offloadrt.driver.errors import INVALID_ARGUMENT, DriverError
from offloadrt.driver.rocr.costs import RocrCosts
from offloadrt.driver.rocr.hsa_signal import HsaSignal
from offloadrt.driver.rocr.locks import RocrLocks
from offloadrt.driver.touching import NOTHING, Touching
from offloadrt.kernels import Launch
from offloadrt.kernels.memo import Memo
from offloadrt.machine import Apu, LaunchOutOfResources, Machine, Stream
from offloadrt.machine.host_lock import HostLock
from offloadrt.machine.messages import BarrierPacket, KernelPacket, Move
from offloadrt.trace import events


class QueueCalls:
    """The HSA queues of one device, as host threads use them."""

    def __init__(self, machine: Machine, device: Apu, costs: RocrCosts, calls: CallAccounts, locks: RocrLocks) -> None:
        self._machine = machine
        self._device = device
        self._costs = costs
        self._calls = calls
        self._make_lock = locks.of_queue
        self.locks: dict[int, HostLock] = {}
        """The locks of the queues that have been created, by the queue's number."""
        self._fits: Memo[int, Launch] = Memo()  # by id

    def take_queue(self, stream: Stream) -> None:
        """Give a stream a queue to submit to; a new one is created with the first packet."""
        self._device.hsa_queues.take(stream)

    async def dispatch(
        self,
        stream: Stream,
        cause: int,
        launch: Launch,
        run: Move | None,
        done: HsaSignal,
        touching: Touching = NOTHING,
    ) -> None:
        """Write the packet of a kernel, behind that of a barrier if the stream has unfinished work.

        HSA queues start packets without waiting for the one before; LLVM's plugin adds the barrier to make them behave
        as a stream.

        Raises DriverError when no team of the launch fits on a compute unit.
        """
        if self._fits.get(id(launch)) is not launch:
            self._check(launch)
        unfinished = None if stream.idle else stream.last
        cost = self._costs.dispatch if unfinished is None else self._costs.dispatch + self._costs.barrier
        number, queue = self._machine.next_number(), stream.queue.number
        if queue not in self.locks:
            await self.queue_create(queue)
        lock = self.locks[queue]
        await lock.enter(cost)
        try:
            # Barrier and kernel go into the queue under one hold of its lock, so no other thread's packet comes
            # between.
            if unfinished is not None:
                self._device.hsa_queues.numbered(queue).submit(BarrierPacket(cause, unfinished))
            stream.submit(
                KernelPacket(
                    number, stream, cause, launch, run, done, touching.ranges, touching.serial_s, touching.fault
                )
            )
        finally:
            lock.release()
        if (trace := self._machine.trace) is not None:
            trace(events.KernelSubmit, self._device.index, queue, cause, number, launch.kernel.name)

    async def barrier(self, stream: Stream, cause: int, depends: HsaSignal, done: HsaSignal) -> None:
        """Let nothing that is submitted to the stream from now on start before ``depends`` is set."""
        number = stream.queue.number
        if number not in self.locks:
            await self.queue_create(number)
        lock = self.locks[number]
        await lock.enter(self._costs.barrier)
        try:
            queue = self._device.hsa_queues.numbered(number)
            if stream.last is not None and not stream.last.is_set:
                queue.submit(BarrierPacket(cause, stream.last))
            stream.note(done)
            queue.submit(BarrierPacket(cause, depends, done))
        finally:
            lock.release()

    async def queue_create(self, number: int) -> None:
        """Create a queue of the device (hsa_queue_create).

        The lock is held meanwhile: nobody submits to a queue that does not exist yet.
        """
        lock = self.locks[number] = self._make_lock(number)
        with self._calls.call("queue_create"):
            await lock.enter(self._costs.queue_create)
            lock.release()

    def _check(self, launch: Launch) -> None:
        """Check that a team of the launch fits on a compute unit.

        Raises DriverError.
        """
        try:
            self._device.compute.spec.limits.resident_teams(launch)
        except LaunchOutOfResources as error:
            failure = DriverError("queue_submit", INVALID_ARGUMENT, str(error))
            if (trace := self._machine.trace) is not None:
                cause = self._machine.sim.current.cause
                trace(events.RuntimeError_, self._device.index, -1, cause, failure.call, str(failure))
            raise failure from None
        self._fits[id(launch)] = launch
