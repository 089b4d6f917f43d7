"""The unified-memory driver of a discrete device (NVIDIA's ``nvidia-uvm``): who migrates managed memory, and when.

The page-fault handler, an actor, serves faults of the GPU, and a host thread that faults serves its fault itself
(``faults.py``).  Three more actors are here: no fault wakes them.  ``MigrationWorker`` serves prefetches,
``AccessCounterWorker`` access counters, and one, which is there while pages are pinned, the ends of pins.  All of them
move a block by the steps of ``VaBlocks`` and take the same locks (``va_block.py``).
"""

from __future__ import annotations

from collections.abc import Awaitable
from operator import attrgetter
from typing import Annotated, Final, Literal, get_args

import attrs

from offloadrt.driver.uvm.costs import SystemMemoryCosts
from offloadrt.driver.uvm.faults import GpuFaults, HostFaults, UvmFaultHandler
from offloadrt.driver.uvm.va_block import Fetched, FetchResult, Moving, VaBlocks, VaSpace
from offloadrt.machine import Device, DiscreteGpu, Machine, ProfileError
from offloadrt.machine.managed.block import ManagedBlock, PageSet
from offloadrt.machine.managed.kernels import AccessCounters, CounterSpec
from offloadrt.machine.managed.pages import REMOTE, ManagedPages
from offloadrt.machine.messages import AccessNotification, PrefetchPacket
from offloadrt.machine.servers import Servers, numbered_from_the_second
from offloadrt.sim import Mailbox, Signal


@attrs.frozen
class CounterCosts:
    """Costs (seconds) and limits of the driver's worker that handles notifications of the GPU's access counters."""

    batch_max: Annotated[int, "access_counter.batch"]
    """Largest number of notifications that the worker takes from the buffer at a time."""
    interrupt: Annotated[float, "access_counter.interrupt"]
    """Time from the first notification in an empty buffer until the worker looks into the buffer."""
    service: Annotated[float, "access_counter.service"]
    """Work for the migration of a region, without its bytes."""
    uncontended: Annotated[bool, "access_counter.uncontended"]
    """Whether each notification finds a worker of its own (an ablation)."""


class MigrationWorker:
    """Carries out prefetches that come to ``mailbox`` in the order in which streams reach them; ``start`` spawns it.

    It follows cuMemPrefetchAsync (``uvm_migrate``).
    """

    def __init__(self, mailbox: Mailbox, blocks: VaBlocks) -> None:
        self.mailbox = mailbox
        self._blocks = blocks

    def start(self) -> None:
        """Spawn the actor that carries out prefetches."""
        self._blocks.sim.spawn(self._run, name=self.mailbox.name, daemon=True)

    async def _run(self) -> None:
        """Carry out one prefetch after another, for ever."""
        sim = self._blocks.sim
        while True:
            packet = await self.mailbox.get()
            if not isinstance(packet, PrefetchPacket):
                raise TypeError(f"the migration worker does not understand {packet!r}")
            begin = sim.now
            for copy in await self._prefetch(packet):
                await copy.wait()
            packet.done.set(("copies", begin, sim.now))

    async def _prefetch(self, packet: PrefetchPacket) -> list[Signal]:
        """Migrate a range, block by block; return the copies to the device that are in progress.

        A prefetch to the device ends at the first block for which there is no room.  ``prefetch_async.evicts`` says
        whether it may make room by evictions.
        """
        copies: list[Signal] = []
        blocks, cause = self._blocks, packet.cause
        costs, locks = blocks.costs, blocks.locks
        for block, pages in blocks.pages.parts(packet.begin, packet.nbytes):
            await locks.space.acquire_read()
            try:
                await locks.take(block)
                fetched: FetchResult | None = None
                try:
                    if packet.to_host:
                        for member in blocks.space.members:
                            await member.send_back(block.index, pages, cause)
                    elif wanted := pages & block.valid & ~block.resident:
                        blocks.thrashing.forget(block.index, wanted)
                        evicts = costs.prefetch_evicts
                        work = costs.prefetch_block + blocks.map_for_copies(block, block.on_host)
                        fetched = await blocks.fetch(block, wanted, work, cause, evicts=evicts)
                        if fetched is Fetched.NO_ROOM:
                            return copies
                        if isinstance(fetched, Moving):
                            copies.append(fetched.signal)
                finally:
                    if not isinstance(fetched, Moving):
                        locks.give(block)
            finally:
                locks.space.release()
        return copies


@attrs.frozen
class AccessCounterStatistics:
    """Statistics of the worker that serves access counters; times are in virtual seconds."""

    notifications: int
    """Number of notifications that the worker has served."""
    service_s: float
    """Time of the worker's own work for them, without the copies."""
    wait_s: float
    """Time from a notification until the worker turned to its region, summed over the notifications."""


class AccessCounterWorker:
    """Serves the access-counter notifications of one device; ``start`` spawns its actor.

    It migrates what kernels often reach on the host. It follows nvidia-uvm's
    ``uvm_parent_gpu_service_access_counters``. The first notification in an empty buffer interrupts the host. The
    worker takes at most ``access_counter.batch`` notifications at a time, sorts them by address, and serves one region
    after the other, as ``service_notification_ats`` does: the translations go, the bytes move, and the worker waits for
    the copy. Then it clears the counter of the region. When there is no free device memory, nothing migrates and the
    counter stays silent; no other memory is evicted for it.
    """

    def __init__(self, blocks: VaBlocks, counters: AccessCounters) -> None:
        self.costs = blocks.machine.spec.read(CounterCosts)
        self._blocks = blocks
        self._counters = counters
        self.mailbox = counters.mailbox
        names = numbered_from_the_second(self.mailbox.name, "worker")
        self._workers: Servers[AccessNotification] = Servers(
            blocks.sim, self.mailbox, self._run, names, grow=self.costs.uncontended
        )
        self._served = 0
        self._service_s = self._wait_s = 0.0

    def start(self) -> None:
        """Spawn the actor that serves access-counter notifications."""
        self._workers.start()

    async def _run(self) -> None:
        """Serve one interrupt after another, for ever."""
        items, costs = self.mailbox.items, self.costs
        while True:
            batch = [self._checked(await self.mailbox.get())]
            self._workers.took_from_mailbox()
            await self._blocks.pay(costs.interrupt)
            while batch:
                while items and len(batch) < costs.batch_max and not costs.uncontended:
                    batch.append(self._checked(items.popleft()))
                for notification in sorted(batch, key=attrgetter("block")):
                    await self._serve(notification)
                batch = [self._checked(items.popleft())] if items and not costs.uncontended else []
            self._workers.done()

    def _checked(self, message: object) -> AccessNotification:
        if not isinstance(message, AccessNotification):
            raise TypeError(f"the access-counter worker does not understand {message!r}")
        return message

    async def _serve(self, notification: AccessNotification) -> None:
        """Migrate the host's pages of the region, and wait for their bytes."""
        blocks, locks, sim = self._blocks, self._blocks.locks, self._blocks.sim
        self._wait_s += sim.now - notification.time
        await locks.space.acquire_read()
        try:
            block = blocks.pages.block(notification.block)
            await locks.take(block)
            begin = sim.now
            fetched: FetchResult | None = None
            try:
                wanted = notification.pages & block.system & block.on_host & block.remote
                cost = self.costs.service
                if mapped := block.host_mapped & wanted:
                    cost += blocks.costs.unmap * (mapped.bit_count() / blocks.pages.per_block)
                if wanted:
                    # The translations go before the bytes: kernels that come to the pages meanwhile fault, and wait.
                    blocks.unmap(block, wanted)
                    fetched = await blocks.fetch(block, wanted, cost, notification.cause, evicts=False)
                if fetched is None or fetched is Fetched.NO_ROOM:
                    blocks.map_remote_again(block)
                    await blocks.pay(cost)
                self._served += 1
                self._service_s += sim.now - begin
                blocks.counters.notifications += 1
            finally:
                if not isinstance(fetched, Moving):
                    locks.give(block)
            if isinstance(fetched, Moving):
                blocks.counters.counted_htod += wanted.bit_count() * blocks.pages.page_size
                await fetched.signal.wait()
            if fetched is not Fetched.NO_ROOM:
                self._counters.clear(notification.block)
        finally:
            locks.space.release()

    def statistics(self) -> AccessCounterStatistics:
        """Return the statistics of the worker so far."""
        return AccessCounterStatistics(self._served, self._service_s, self._wait_s)


Advice = Literal[
    "prefer_host", "prefer_device", "prefer_nothing", "accessed_by", "not_accessed_by", "read_mostly", "not_read_mostly"
]
ADVICE: Final[tuple[Advice, ...]] = get_args(Advice)
"""CU_MEM_ADVISE_SET_PREFERRED_LOCATION with the CPU as location and with the device, UNSET_PREFERRED_LOCATION,
SET_ACCESSED_BY with the device, UNSET_ACCESSED_BY, SET_READ_MOSTLY, UNSET_READ_MOSTLY."""


class Uvm:
    """Managed memory of one device. Make it before the first stream; ``start`` spawns its actors within a run.

    ``space`` is the address space that the device joins, with the space's other devices; without it, the device gets
    its own. Raises ProfileError on an APU, which has nothing to migrate, or when the profile lacks an entry.
    """

    def __init__(self, machine: Machine, device: Device, space: VaSpace | None = None) -> None:
        spec = machine.spec
        if not isinstance(device, DiscreteGpu):
            raise ProfileError(spec.path, "machine.apu", "is true, so that there is nothing to migrate")
        prefetches = Mailbox(machine.sim, f"device {device.index} migration worker")
        kernels = device.manage(prefetches)
        self.kernels = kernels
        self._machine = machine
        self._device = device
        self._space = space = space or VaSpace(machine)
        self.blocks = blocks = VaBlocks(machine, device, kernels, space)
        """What the driver does with the blocks of the device: their memory, their costs, their counters."""
        self._host_faults = HostFaults(blocks)
        self.worker = MigrationWorker(prefetches, blocks)
        name = f"device {device.index} unpin worker"
        blocks.thrashing.pins_begin = lambda: machine.sim.spawn(self._unpin, name=name, daemon=True)
        self.counter_worker: AccessCounterWorker | None = None
        """Serves the access counters; None unless the device uses system memory in place and counts accesses."""
        self._started = False
        uncontended = spec.flag("fault_handler.uncontended")
        self.handler = UvmFaultHandler(blocks, GpuFaults(blocks), kernels.buffer, uncontended=uncontended)
        space.join(blocks)

    def host_access(self, begin: int, nbytes: int, writes: bool = True) -> Awaitable[int]:
        """Let the calling thread read (or write) managed memory; return its number of faults. Await it at once."""
        return self._host_faults.access(begin, nbytes, writes)

    def populates(self, address: int) -> bool:
        """Tell whether this driver populates the page at an address (managed memory), and not the operating system."""
        pages = self.pages
        index, within = divmod(address, pages.block_size)
        block = pages.block(index)
        return bool((block.valid & ~block.system) >> within // pages.page_size & 1)

    @property
    def pages(self) -> ManagedPages:
        """Return the state of the device's managed pages: where they lie and who owns them."""
        return self.blocks.pages

    def start(self) -> None:
        """Spawn the actors (simulated tasks) of device, page-fault handler and migration worker, once."""
        if not self._started:
            self._started = True
            self._device.start()
            self.handler.start()
            self.worker.start()
            if self.counter_worker is not None:
                self.counter_worker.start()

    async def _unpin(self) -> None:
        """Unmap pages at the ends of their pins, whoever faults meanwhile (``thrashing_unpin_pages``)."""
        blocks, locks, sim = self.blocks, self.blocks.locks, self._machine.sim
        while pins := blocks.thrashing.pins:
            await sim.sleep(max(pins[0][0] - sim.now, 0.0))
            await locks.space.acquire_read()
            try:
                for index, place in blocks.thrashing.unpinned(sim.now):
                    block = blocks.pages.block(index)
                    await locks.take(block)
                    blocks.unmap(block, 1 << place & block.remote & ~(block.prefers_host | block.accessed_by))
                    locks.give(block)
            finally:
                locks.space.release()

    def add(self, begin: int, nbytes: int, populated: bool, name: str = "") -> None:
        """Add an allocation. populated: whether the host has written all of it before; name: what reports call it."""
        self.pages.add(begin, nbytes, populated, name)

    def use_system_memory(self) -> None:
        """Let the device use system-allocated memory (malloc) in place; call this before ``start``, and once.

        Raises ProfileError when the profile lacks an entry.
        """
        spec, blocks = self._machine.spec, self.blocks
        blocks.system_costs = spec.read(SystemMemoryCosts)
        if blocks.system_costs.counts:
            name = f"device {self._device.index} access counters"
            counters = AccessCounters(self._machine.sim, name, spec.read(CounterSpec), self.pages)
            self.kernels.access_counters = counters
            self.counter_worker = AccessCounterWorker(blocks, counters)

    def add_system(self, begin: int, nbytes: int, populated: bool, name: str = "") -> None:
        """Add memory of malloc; the device can access a page once the host has touched it (all, if ``populated``)."""
        self.pages.add(begin, nbytes, populated, name)
        for block, pages in self.pages.parts(begin, nbytes):
            block.use_in_place(pages)
            self.blocks.map_remote_again(block)

    def keep_in_place(self, begin: int, nbytes: int, peer: int | None = None) -> None:
        """Keep an allocation on the host, or on a peer; the device accesses it over a link, without faults."""
        for block, pages in self.pages.parts(begin, nbytes):
            block.prefer("host", pages)
            block.set_accessed_by(pages, True)
            self.pages.set_state(block, pages, REMOTE)
            if peer is not None:
                self.pages.set_at_peer(block, pages, peer)

    async def advise(self, begin: int, nbytes: int, advice: Advice) -> None:
        """Apply cuMemAdvise's advice to a range; nothing migrates. Raises ValueError for an unknown advice."""
        if advice not in ADVICE:
            raise ValueError(f"no advice {advice!r}; there are {', '.join(ADVICE)}")
        blocks, sim = self.blocks, self._machine.sim
        since = sim.now
        await blocks.locks.space.acquire_write()
        self._machine.host_time.add("driver lock", sim.now - since)
        try:
            await self._machine.work(blocks.costs.advise, "driver")
            for block, pages in self.pages.parts(begin, nbytes):
                if advice.startswith("prefer"):
                    self._prefer(block, pages, advice)
                elif advice == "accessed_by":
                    block.set_accessed_by(pages, True)
                    blocks.map_remote_again(block)
                elif advice == "not_accessed_by":
                    block.set_accessed_by(pages, False)
                    blocks.unmap(block, pages & block.remote & ~block.prefers_host)
                elif advice == "read_mostly":
                    self._space.read_mostly(block.index, pages)
                else:
                    self._space.not_read_mostly(block.index, pages)
        finally:
            blocks.locks.space.release()

    def _prefer(self, block: ManagedBlock, pages: PageSet, advice: Advice) -> None:
        """Set the preferred location of pages of a block in the records of all devices."""
        for record in self._space.records(block.index):
            if advice == "prefer_device":
                record.prefer("here" if record is block else "elsewhere", pages)
            else:
                record.prefer("host" if advice == "prefer_host" else "nowhere", pages)
        if advice != "prefer_host":
            for member, record in self._space.everywhere(block.index):
                member.unmap(record, pages & record.remote & ~record.accessed_by)
