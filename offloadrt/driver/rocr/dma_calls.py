"""ROCr's asynchronous copies: through a DMA ring, or by a kernel of the library (both hsa_amd_memory_async_copy)."""

from __future__ import annotations

from offloadrt.driver.calls import CallAccounts
from offloadrt.driver.rocr.blit import blit
from offloadrt.driver.rocr.costs import RocrCosts
from offloadrt.driver.rocr.hsa_signal import HsaSignal
from offloadrt.driver.rocr.locks import RocrLocks
from offloadrt.machine import Apu, Machine, Stream
from offloadrt.machine.messages import BlitCopy, DmaPacket, KernelPacket, Move


class DmaCalls:
    """The copies of one device's library.  Threads that submit to one DMA ring take turns by the ring's lock."""

    def __init__(self, machine: Machine, device: Apu, costs: RocrCosts, calls: CallAccounts, locks: RocrLocks) -> None:
        self._machine = machine
        self._device = device
        self._costs = costs
        self._calls = calls
        self.locks = {ring.number: locks.of_ring(ring.number) for ring in device.rings}
        """The locks of the rings, by the ring's number."""
        self._created: set[int] = set()
        """The rings whose queue exists: the first copy through a ring creates it."""

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
        """Copy once ``depends`` is set; ``move`` moves the bytes at the transfer's end.

        ROCr gives copies of ``dma.blit_from`` bytes and more to a kernel (``GpuAgent::GetBlitObject``: only compute
        units saturate the device's memory), smaller ones to a DMA ring, which needs no flush of caches.  A copy that
        depends on a signal goes through a ring whatever its size, as barriers before blits are not emulated.
        """
        if depends is None and nbytes >= self._costs.blit_from:
            await self.memory_async_copy_by_kernel(stream, cause, direction, nbytes, move, done)
            return
        queue = stream.queue.number
        with self._calls.call("memory_async_copy", queue) as call:
            call.takes(bytes=nbytes, direction=direction)
            ring = self._device.next_ring()
            lock = self.locks[ring.number]
            await lock.enter(self._costs.copy_submit)
            try:
                if ring.number not in self._created:
                    await self._machine.work(self._costs.ring_create, "driver")
                    self._created.add(ring.number)
                stream.note(done)
                number = self._machine.next_number()
                memory = "device" if direction == "d2d" else "staged"
                now = self._machine.sim.now
                ring.submit(DmaPacket(number, cause, direction, nbytes, memory, move, done, depends, queue, now))
            finally:
                lock.release()

    async def memory_async_copy_by_kernel(
        self, stream: Stream, cause: int, direction: str, nbytes: int, move: Move | None, done: HsaSignal
    ) -> None:
        """Copy by a kernel of the library's own, which does not go through the stream's queue."""
        with self._calls.call("memory_async_copy", stream.queue.number) as call:
            call.takes(bytes=nbytes, direction=direction)
            await self._machine.work(self._costs.copy_submit, "driver")

            def run() -> None:
                self._device.add_moved(direction, nbytes)
                if move is not None:
                    move()

            copy = BlitCopy(direction, nbytes, "device" if direction == "d2d" else "pinned")
            number = self._machine.next_number()
            packet = KernelPacket(number, stream, cause, blit(nbytes), run, done, blit=copy)
            # ROCr has an internal queue for blits: they go to the compute units past the stream's queue.
            self._device.compute.mailbox.put(packet)
