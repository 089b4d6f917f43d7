"""The exchange between devices after a divided kernel: copies over their links, each pair's in a queue of its own.

One thread for each device starts the copies from it and waits for them, as in MACC, the earlier runtime of the paper's
first author (``__macc_set_data_region`` in tools/macc.h of github.com/khaki3/MACC). The threads are taken to be there:
their fork and join take no time. The program waits for all of them: copies are not hidden behind kernels.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Literal

import attrs

from offloadrt.compilers.multi_device import Holders
from offloadrt.models.host.directive import Work
from offloadrt.models.openacc.async_queues import AsyncQueues
from offloadrt.models.openacc.jacc.devices.division import Division, Pairs, Piece, by_pair
from offloadrt.runtime.async_queue import AsyncQueue
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.program_pointers import ResolvedArrays

Communication = Literal["all-to-all", "needed"]
"""``all-to-all``: after a divided kernel every device sends its part to all others; ``needed``: before a kernel every
device gets those bytes that the analysis says it reads (all of them where that cannot be proven).
"""


@attrs.define(eq=False)
class Exchange:
    """The state of the exchange between the devices of one JACC runtime."""

    of_program: Sequence[OffloadDevice]
    """All devices of the program."""
    queues: AsyncQueues
    devices: int
    """How many of them take part, from device 0 on."""
    first_queue: int
    """The async value of the first queue for transfers; those below are for kernels."""
    run: Callable[[str, Work, int], Awaitable[None]]
    """Runs the work of a directive of this name on a device."""
    bytes: int = 0
    """Bytes that were sent so far."""
    seconds: float = 0.0
    """Seconds in which the host started transfers and waited for them, and for the combining kernels, so far."""
    _open: bool = False
    _holders: Holders = attrs.field(factory=Holders)
    _addresses: dict[int, dict[int, int]] = attrs.field(factory=dict)
    """Addresses by device, then by host address, as that of an array tells what it is whatever its type."""

    async def open(self) -> None:
        """Have every device reach the others' memory, once."""
        if self._open:
            return
        self._open = True

        async def reach(where: OffloadDevice, queue: DirectiveQueue) -> None:
            for other in range(self.devices):
                if other != where.number:
                    await where.plugin.reach(other)

        for number in range(self.devices):
            await self.run("jacc_init", reach, number)

    def placed(self, device: int, arrays: Iterable[HostArray], known: ResolvedArrays) -> None:
        """Note where arrays lie on a device, as far as they were looked up for a launch."""
        addresses = self._addresses.setdefault(device, {})
        for array, pointer in zip(arrays, known.pointers, strict=True):
            addresses[array.address] = pointer.address

    def forget(self, array: HostArray) -> None:
        """Forget an array that has left the devices."""
        self._holders.everywhere(array.address)

    def is_due(self, arrays: Iterable[HostArray]) -> bool:
        """Return whether any of these arrays is not right on some device."""
        return any(self._holders.is_divided(array.address, self.devices) for array in arrays)

    async def before(self, division: Division) -> None:
        """Send each device what it reads in its part."""
        fetch = self._holders.fetch
        await self._carry(
            by_pair(
                (array, fetch(array.address, device, ranges))
                for device, needed in enumerate(division.needed)
                for array, ranges in needed
            )
        )

    async def after(self, division: Division, communication: Communication) -> None:
        """Note that each device has its own parts right, and nobody else, and send them.

        Called after a divided kernel has run.
        """
        owned, holders = division.owned, self._holders
        if communication == "all-to-all" and not any(holders.is_tracked(array.address) for array in owned):
            await self._carry(division.to_all)  # afterwards they are right everywhere, as they were before
            return
        for array, ranges in owned.items():
            holders.wrote(array.address, ranges)
        await self.gather(owned if communication == "all-to-all" else division.partial_values, range(self.devices))

    async def gather(self, arrays: Collection[HostArray], devices: Collection[int]) -> None:
        """Send all of these arrays to these devices, as far as they do not have them."""
        fetch = self._holders.fetch
        await self._carry(
            by_pair((array, fetch(array.address, device, None)) for array in arrays for device in devices)
        )
        if len(devices) == self.devices:
            for array in arrays:
                self._holders.everywhere(array.address)

    async def _carry(self, pairs: Pairs) -> None:
        """Start all transfers, then wait for them: one call of the runtime; no time when there are none."""
        if not pairs:
            return

        async def exchange(where: OffloadDevice, queue: DirectiveQueue) -> None:
            async def of_source(source: int) -> None:
                sim.current.cause = queue.cause
                own = self.of_program[source]
                targets = [(target, pieces) for (sender, target), pieces in pairs.items() if sender == source]
                for target, pieces in targets:
                    await self._send(own, queue.cause, target, pieces)
                for target, _ in targets:
                    await self._queue(source, target).drain(own, queue.cause)

            async with sim.open_nursery() as nursery:
                for source in dict.fromkeys(sender for sender, _ in pairs):
                    nursery.spawn(of_source, source, name=f"exchange thread {source}")

        sim = self.queues.sim
        begin = sim.now
        await self.run("jacc_exchange", exchange, 0)
        self.seconds += sim.now - begin

    async def _send(self, where: OffloadDevice, cause: int, target: int, pieces: Sequence[Piece]) -> None:
        async def copies(where: OffloadDevice, queue: DirectiveQueue) -> None:
            from_addresses, to_addresses = self._addresses[where.number], self._addresses[target]
            exchange_data = where.plugin.exchange_data
            for array, transfer in pieces:
                source, destination = (
                    from_addresses[array.address] + transfer.offset,
                    to_addresses[array.address] + transfer.offset,
                )
                self.bytes += transfer.nbytes
                await exchange_data(queue, destination, source, transfer.nbytes, device=target)

        await self._queue(where.number, target).use(where, DirectiveQueue(cause), copies)

    def _queue(self, source: int, target: int) -> AsyncQueue:
        return self.queues.of(source, self.first_queue + target)
