"""ROCr, the driver library of an APU's device: the calls of the HSA runtime, made by host threads.

Every call runs in the calling thread, costs what the profile says, and is counted under its name in rocprof (without
the prefix ``hsa_`` or ``hsa_amd_``).  There is no lock that all calls take: a copy takes that of its DMA ring, a packet
that of its HSA queue, and what goes down to the kernel driver takes the kernel driver's (``kfd.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs

from offloadrt.driver.async_handler import AsyncHandler, HandlerStatistics, RunHandler
from offloadrt.driver.blit import blit
from offloadrt.driver.errors import DriverError, OutOfDeviceMemory
from offloadrt.driver.hsa_signal import HsaSignal
from offloadrt.driver.kfd import Kfd
from offloadrt.driver.rocr_costs import RocrCosts
from offloadrt.kernels import Launch
from offloadrt.machine import (
    AccessFault,
    Device,
    InvalidDeviceAddress,
    LaunchOutOfResources,
    Machine,
    OutOfSegments,
    Stream,
)
from offloadrt.machine.managed_access import Accesses
from offloadrt.machine.messages import BarrierPacket, BlitCopy, DmaPacket, KernelPacket
from offloadrt.sim import Lock, LockStatistics, Signal
from offloadrt.trace import events

Move = Callable[[], None]
INVALID_ARGUMENT = "HSA_STATUS_ERROR_INVALID_ARGUMENT"
OUT_OF_RESOURCES = "HSA_STATUS_ERROR_OUT_OF_RESOURCES"
_CHECKED = 4096
"""Launches that are remembered as fitting before they are all forgotten."""


@attrs.frozen(eq=False)
class Touching:
    """What a kernel reaches beside the device's blocks.

    ``ranges``: (address, bytes) of host memory; give the same tuple again for the same kernel.  ``serial_s``: seconds
    on top of what the kernel does.  ``fault``: told when it dies of a page that it may not fault in.  ``accesses``:
    what it does with managed memory.
    """

    ranges: tuple[tuple[int, int], ...] = ()
    serial_s: float = 0.0
    fault: Callable[[AccessFault], None] | None = None
    accesses: Accesses = ()


NOTHING = Touching()


class Rocr:
    """The library on one device.  ``start`` it within a run.  Raises ProfileError when the machine is no APU."""

    def __init__(self, machine: Machine, device: Device) -> None:
        self.machine = machine
        self.sim = machine.sim
        self.device = device
        self.kfd = Kfd(machine, device)
        self.costs = machine.spec.read(RocrCosts)
        self.handler = AsyncHandler(self.kfd)
        self._work = machine.work
        self._trace = machine.trace
        self._count = _uncounted if machine.calls is None else machine.calls.add
        self._suffix = f" of device {device.index}" if device.index else ""
        self._handoff = machine.spec.text("lock.handoff") == "barging"
        self._ring_locks = {ring.number: self._lock(f"dma ring {ring.number} lock") for ring in device.rings}
        self._queue_locks: dict[int, Lock] = {}
        self._rings_contend = not machine.spec.flag("ring_lock.uncontended")
        self._queues_contend = not machine.spec.flag("queue_lock.uncontended")
        self._fits: dict[int, Launch] = {}
        self._started = False

    @classmethod
    def of(cls, machine: Machine, number: int = 0) -> Rocr:
        """The library on a machine's device ``number``."""
        return cls(machine, machine.devices[number])

    def start(self) -> None:
        """Spawn the actors of device, kernel driver and library, once."""
        if not self._started:
            self._started = True
            self.kfd.start()
            self.handler.start()

    def locks(self) -> dict[str, LockStatistics]:
        """Statistics of its locks and the kernel driver's, by name."""
        kfd = self.kfd.statistics()
        found = {lock.name: lock.statistics() for lock in (*self._ring_locks.values(), *self._queue_locks.values())}
        found[self.kfd.process_lock.name] = kfd.process
        found[self.kfd.mmap_lock.name] = kfd.mmap.together()
        return found

    def engines(self) -> dict[str, HandlerStatistics]:
        """What its own actors did, by name."""
        return {self.handler.name: self.handler.statistics()}

    def faults(self) -> dict[str, int]:
        """Pages of host memory that came into page tables, by how they did: `study.run.Run.faults` has the names."""
        gpu, kfd = self.device.fault_statistics(), self.kfd.statistics()
        return {
            "gpu": gpu.faults,
            "gpu_pages": gpu.pages,
            "gpu_duplicates": gpu.duplicates,
            "cpu_pages": kfd.cpu_faults,
            "prefault_pages": kfd.prefault_pages,
        }

    # Memory

    async def memory_pool_allocate(self, nbytes: int, phantom: bool = False) -> int:
        """The address of a new block of the device's pool; a phantom block has no bytes.

        Raises OutOfDeviceMemory, and DriverError for a size that is not positive.
        """
        api = "memory_pool_allocate"
        begin = self._enter(api)
        try:
            if nbytes <= 0:
                raise self._failed(DriverError(api, INVALID_ARGUMENT, f"{nbytes} bytes asked for"))
            try:
                address = await self.kfd.allocate(nbytes, phantom)
            except OutOfSegments:
                free, thread, device = self.device.memory.free_bytes, self.sim.current.name, self.device.index
                error = OutOfDeviceMemory(api, nbytes, free, thread, self.sim.now, device, OUT_OF_RESOURCES)
                raise self._failed(error) from None
            if (trace := self._trace) is not None:
                trace(events.Allocate, self.device.index, -1, self._cause(), address, nbytes, api)
            return address
        finally:
            self._leave(api, begin)

    async def memory_pool_free(self, address: int) -> None:
        """Give a block back.  Raises DriverError for an address at which none begins."""
        api = "memory_pool_free"
        begin = self._enter(api)
        try:
            try:
                block = await self.kfd.free(address)
            except InvalidDeviceAddress as error:
                raise self._failed(DriverError(api, INVALID_ARGUMENT, str(error))) from None
            if (trace := self._trace) is not None:
                trace(events.Free, self.device.index, -1, self._cause(), address, block.size, api)
        finally:
            self._leave(api, begin)

    mem_alloc = memory_pool_allocate
    mem_free = memory_pool_free

    async def memory_lock(self, address: int, nbytes: int) -> None:
        """Pin host memory, so that the device can copy it; pages that nobody has touched are populated."""
        begin = self._enter("memory_lock")
        try:
            if address and not self.kfd.host_pages.covers(address, nbytes):
                await self.kfd.host_touch(address, nbytes)
            await self.kfd.in_kernel(self.costs.pin)
        finally:
            self._leave("memory_lock", begin)

    async def memory_unlock(self, address: int) -> None:
        """Take that back."""
        begin = self._enter("memory_unlock")
        try:
            await self.kfd.in_kernel(self.costs.unpin)
        finally:
            self._leave("memory_unlock", begin)

    async def svm_attributes_set(self, address: int, nbytes: int) -> int:
        """Prefault host memory: kernels find its pages afterwards.  Returns how many were new to the device."""
        begin = self._enter("svm_attributes_set")
        try:
            return await self.kfd.svm_attributes_set(address, nbytes)
        finally:
            self._leave("svm_attributes_set", begin)

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

    # What all calls share

    def _enter(self, api: str, queue: int = -1) -> float:
        if (trace := self._trace) is not None:
            trace(events.CallBegin, self.device.index, queue, self._cause(), api)
        return self.sim.now

    def _leave(self, api: str, begin: float, queue: int = -1) -> None:
        self._count(api, self.sim.now - begin)
        if (trace := self._trace) is not None:
            trace(events.CallEnd, self.device.index, queue, self._cause(), api)

    def _failed(self, error: DriverError) -> DriverError:
        if (trace := self._trace) is not None:
            trace(events.RuntimeError_, self.device.index, -1, self._cause(), error.call, str(error))
        return error

    def _cause(self) -> int:
        return (self.sim.running or self.sim.current).cause

    def _check(self, launch: Launch) -> None:
        try:
            self.device.compute.spec.demand(launch)
        except LaunchOutOfResources as error:
            raise self._failed(DriverError("queue_submit", INVALID_ARGUMENT, str(error))) from None
        if len(self._fits) == _CHECKED:
            self._fits.clear()
        self._fits[id(launch)] = launch

    def _lock(self, name: str) -> Lock:
        return Lock(self.sim, name + self._suffix, "barging" if self._handoff else "fifo")

    async def _wait_for(self, lock: Lock) -> float:
        """Wait for a lock; returns what the thread owes for its hand-over."""
        since, contended = self.sim.now, lock.owner is not None
        await lock.acquire()
        if not contended:
            return 0.0
        self.machine.host_time.add("driver lock", self.sim.now - since)
        return self.costs.handover


def _uncounted(api: str, dt: float) -> None:
    """Of a machine whose calls nobody counts."""
