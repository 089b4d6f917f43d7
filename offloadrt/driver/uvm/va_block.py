"""The blocks of managed memory (``uvm_va_block.c`` of nvidia-uvm): what each device has of them, and how they move.

Open ``VaBlocks`` first.  It is what the driver does with the blocks of one device: it changes what the GPU can
translate, gives and takes device memory, brings pages to the device and evicts them.  Everybody who migrates takes
these steps: the page-fault handler and host threads that fault (``faults.py``), the workers
(``uvm.py``), and allocations that need room.  ``VaSpace`` keeps the records that several devices have of one block
in agreement.  ``UvmLocks`` are the locks that all of them take.

A migration to the GPU needs device memory for the whole block.  When there is none, a block is evicted, which the
eviction policy chooses (``eviction/``): all its pages go to the host, whether they were written or not.

The driver submits copies and goes on.  A copy to the device waits for the write-back of what was there before, and the
GPU can translate a page when its copy has ended (nvidia-uvm has a tracker for each block, which the next copy and the
update of the page table acquire).  A block of which a copy is under way stays locked, so that whoever wants it waits.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Literal

import msgspec

from offloadrt.driver.halting import QueueEviction
from offloadrt.driver.uvm.costs import PeerCosts, SystemMemoryCosts, UvmCosts, UvmCounters
from offloadrt.driver.uvm.eviction import EVICTION_POLICIES, DeviceMemoryInUse, EvictionPolicy, victims
from offloadrt.driver.uvm.prefetch import PREFETCH_POLICIES, PrefetchPolicy, PrefetchRules
from offloadrt.driver.uvm.prefetch.none import NoPrefetch
from offloadrt.driver.uvm.thrashing import Thrashing, ThrashingRules
from offloadrt.machine import DiscreteGpu, Machine, ProfileError
from offloadrt.machine.links.link import Link
from offloadrt.machine.managed.block import ManagedBlock, PageSet
from offloadrt.machine.managed.kernels import ManagedKernels
from offloadrt.machine.managed.pages import LOCAL, REMOTE, UNMAPPED
from offloadrt.machine.messages import Unmapped
from offloadrt.sim import PASSED, RWLock, Signal, Simulation
from offloadrt.trace import FaultPhase, fault_phases


class Moving(msgspec.Struct, frozen=True, eq=False):
    """A fetch (to the device) or an eviction whose copy is in progress; an evicted block has no device memory now."""

    signal: Signal
    """Set when the pages have arrived and the block's lock has been released."""


class Fetched(enum.Enum):
    """Says why a fetch (migration to the device) has no copy to wait for; the caller still holds the block's lock."""

    RESIDENT = "resident"
    """Nothing had to move: the pages are on the device."""
    NO_ROOM = "no room"
    """There is no device memory for the block, and none may be had by evictions: nothing was done."""


FetchResult = Moving | Fetched


class Evicted(enum.Enum):
    """Says why an eviction (removal of a block from the device) has no copy to wait for."""

    FREED = "freed"
    """The device memory of a block is free; the host had copies of all its pages."""
    WAITED = "waited"
    """An actor was working on every block, so this waited for one; its memory may be free now: try again."""
    NOTHING = "nothing"
    """No block can be evicted."""


Eviction = Moving | Evicted


class UvmLocks:
    """The locks of managed memory: one on the address space (``va_space->lock``), one on each block.

    Whoever works on a block holds the space lock for reading; advice, which changes the rules, holds it for writing.
    The space lock is taken first. One actor works on a block at a time (``va_block->lock``). With ``uncontended`` the
    space lock excludes nobody (an ablation).
    """

    def __init__(self, sim: Simulation, name: str, *, uncontended: bool) -> None:
        self.space = RWLock(sim, name, uncontended=uncontended)
        self._sim = sim
        self._taken: dict[int, Signal | None] = {}
        """Blocks that an actor works on, each with the signal for waiters; None while nobody waits."""

    def take(self, block: ManagedBlock) -> Awaitable[None]:
        """Lock a block so that the caller can work on it; ``give`` unlocks it. Await the result at once."""
        if block.index in self._taken:
            return self._wait_for(block)
        self._taken[block.index] = None
        return PASSED

    async def _wait_for(self, block: ManagedBlock) -> None:
        while block.index in self._taken:
            await self._unlocked(block.index).wait()
        self._taken[block.index] = None

    def _unlocked(self, index: int) -> Signal:
        """Return the signal that is set when a taken block is unlocked."""
        if (signal := self._taken[index]) is None:
            signal = self._taken[index] = Signal(self._sim, f"block {index:#x}")
        return signal

    def give(self, block: ManagedBlock) -> None:
        """Release the lock of a block."""
        if (signal := self._taken.pop(block.index)) is not None:
            signal.set()

    async def wait_until_unlocked(self, indices: range) -> None:
        """Wait until nobody works on blocks with these indices; their copies have ended then, too."""
        while (index := next((each for each in self._taken if each in indices), None)) is not None:
            await self._unlocked(index).wait()

    def is_taken(self, block: ManagedBlock) -> bool:
        """Tell whether a block is locked."""
        return block.index in self._taken


class VaSpace:
    """The devices of one process that share managed memory (``uvm_va_space_t``), each from its `join` on.

    Each device has its own page table and its own record of every block.  The records of one block are that block's
    state together; this class keeps them in agreement.  It also holds what all devices have in common: the space lock,
    the block locks and the allocations.  With one device there is nothing to agree upon.

    Which device can access which other follows ``uvm_va_space.c``: devices with NVLink can from the start, devices
    with PCIe between them once the program has enabled peer access.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        uncontended = machine.spec.flag("uvm_lock.uncontended")
        self.locks = UvmLocks(machine.sim, "uvm space lock", uncontended=uncontended)
        self._allocations: dict[int, tuple[int, str]] = {}
        """Bytes and name of each allocation that a driver call made, by its address."""
        self.members: list[VaBlocks] = []
        self.shared = False
        """Whether the space has several members."""
        self._enabled: set[tuple[int, int]] = set()
        self._costs: PeerCosts | None = None

    def join(self, member: VaBlocks) -> None:
        """Add a device (``member``), and give it all allocations that exist already.

        Raises ProfileError when the profile lacks an entry that several devices need.
        """
        for address, (nbytes, name) in self._allocations.items():
            member.pages.add(address, nbytes, False, name)
        self.members.append(member)
        self.shared = len(self.members) > 1
        for other in self.members[:-1]:
            for one, two in ((member, other), (other, member)):
                if (links := self._links(one.device.local, two.device.local)) is not None:
                    one.device.reach_peer(two.device.local, links, self.costs.access_part)

    def allocate(self, address: int, nbytes: int, name: str) -> None:
        """Add an allocation for all devices; no page of it has been touched yet. `name`: what reports call it."""
        self._allocations[address] = nbytes, name
        for member in self.members:
            member.pages.add(address, nbytes, False, name)

    def has(self, address: int) -> bool:
        """Tell whether an allocation begins at an address."""
        return address in self._allocations

    async def free(self, address: int) -> bool:
        """Remove an allocation from all devices; return False when none begins there.

        This waits for the batch of faults that is being served, and for copies of the allocation's blocks, as
        ``uvm_api_free`` (the space lock for writing) and ``uvm_va_block_kill`` (the block's tracker) do.
        """
        if address not in self._allocations:
            return False
        nbytes, _ = self._allocations.pop(address)
        await self.locks.space.acquire_write()
        try:
            for member in self.members:
                size = member.pages.block_size
                await self.locks.wait_until_unlocked(range(address // size, -(-(address + nbytes) // size)))
                member.remove(address, nbytes)
        finally:
            self.locks.space.release()
        return True

    @property
    def costs(self) -> PeerCosts:
        """Return the extra costs of managed memory on several devices; the first call reads them from the profile."""
        if self._costs is None:
            self._costs = self.machine.spec.read(PeerCosts)
        return self._costs

    # who reaches whom

    def enable_peer(self, device: int, peer: int) -> None:
        """Note that the program has enabled peer access between a device and another one, ``peer``."""
        self._enabled |= {(device, peer), (peer, device)}

    def reaches(self, device: int, other: int) -> bool:
        """Tell whether a device can translate and copy another device's memory directly."""
        peers = self.machine.peers
        if peers is None or not peers.can_access(device, other):
            return False
        return peers.topology.links(device, other) > 0 or (device, other) in self._enabled

    def _links(self, device: int, other: int) -> dict[str, Link] | None:
        """Return the link from and the link to another device; None without any."""
        peers = self.machine.peers
        if peers is None or not peers.can_access(device, other):
            return None
        return {"h2d": peers.links[other, device], "d2h": peers.links[device, other]}

    def link(self, source: int, destination: int) -> Link | None:
        """Return the link by which pages migrate between two devices; None: they go through the host."""
        if self.machine.peers is None or not self.reaches(destination, source):
            return None
        return self.machine.peers.links[source, destination]

    # the records of one block

    def others(self, device: int, index: int) -> Iterator[tuple[VaBlocks, ManagedBlock]]:
        """Yield each device other than ``device``, together with that device's record of the block number ``index``."""
        for other in self.members:
            if other.device.local != device:
                yield other, other.pages.block(index)

    def everywhere(self, index: int) -> Iterator[tuple[VaBlocks, ManagedBlock]]:
        """Yield each device that shares the memory, together with its record of the block number ``index``."""
        for member in self.members:
            yield member, member.pages.block(index)

    def records(self, index: int) -> Iterator[ManagedBlock]:
        """Yield the records of the block number ``index``, one for each device that shares the memory."""
        for member in self.members:
            yield member.pages.block(index)

    def arrived(self, device: int, index: int, pages: PageSet) -> None:
        """Record on all other devices that these pages of a block are in the memory of ``device`` now."""
        for other, block in self.others(device, index):
            block.arrived_elsewhere(pages)
            other.map_remote_again(block)

    def left(self, device: int, index: int, pages: PageSet) -> None:
        """Record that pages of a block have left ``device``, and unmap them on devices that accessed them there."""
        records = [*self.records(index)]
        for other, block in self.others(device, index):
            if there := block.at_peers.get(device, 0) & pages:
                other.unmap(block, there)
        for block in records:
            elsewhere = 0
            for one in records:
                elsewhere |= one.resident if one is not block else 0
            block.left_elsewhere(elsewhere)

    def has_host_copy(self, index: int, pages: PageSet, *, valid: bool) -> None:
        """Record on all devices whether the host, too, has valid copies of these pages of block ``index``."""
        for block in self.records(index):
            block.set_host_copy(pages, valid=valid)

    def came_home(self, index: int) -> None:
        """Map pages of a block that are back on the host, on each device with the advice accessed-by for them."""
        for member in self.members:
            member.map_remote_again(member.pages.block(index))

    def read_mostly(self, index: int, pages: PageSet) -> None:
        """Apply the advice read-mostly to pages of block ``index``: later reads make copies, and then stores fault."""
        for member, block in self.everywhere(index):
            member.pages.tell_stores_apart()
            block.set_read_mostly(pages, True)

    def not_read_mostly(self, index: int, pages: PageSet) -> None:
        """End read-mostly for pages of block `index`: one copy stays, the preferred device's, the host's, or any."""
        places, kept = [*self.everywhere(index)], []
        left = on_host = 0
        for _, block in places:
            block.set_read_mostly(pages, False)
            left |= block.read_only & pages
            on_host |= block.host_copy & pages
        for _, block in places:
            kept.append(left & block.resident & block.prefers_here)
            left &= ~kept[-1]
        left &= ~on_host
        for place, (_, block) in enumerate(places):
            kept[place] |= left & block.resident
            left &= ~kept[place]
        for own, (member, block) in zip(kept, places, strict=True):
            member.unmap(block, block.read_only & pages & ~own)
            member.release_memory(block)
            member.pages.protect(block, own, read_only=False)
        self.has_host_copy(index, pages, valid=False)

    def preferred_by_others(self, device: int, index: int) -> int:
        """Return the bit set of a block's pages whose preferred location is another device that ``device`` reaches."""
        pages = 0
        for other, block in self.others(device, index):
            if block.prefers_here and self.reaches(device, other.device.local):
                pages |= block.prefers_here
        return pages


class VaBlocks:
    """One device's view of the blocks of managed memory; the caller holds the lock of the block that it changes.

    ``kernels`` runs the device's kernels over managed memory. ``ManagedBlock`` holds the state of a block and refuses
    what its state does not allow. The methods here are what the driver adds: they notify kernels that may still need a
    removed translation, take and give back device memory, update the records of other devices, and move bytes.

    Raises ProfileError when the profile lacks an entry, or names a policy that does not exist.
    """

    def __init__(self, machine: Machine, device: DiscreteGpu, kernels: ManagedKernels, space: VaSpace) -> None:
        spec = machine.spec
        self.machine = machine
        self.sim = machine.sim
        self.device = device
        self.pages = kernels.pages
        self.costs = spec.read(UvmCosts)
        self.system_costs: SystemMemoryCosts | None = None
        """What system-allocated memory costs; None unless the device uses it in place."""
        self.counters = UvmCounters()
        self.space = space
        self.locks = space.locks
        self.thrashing = Thrashing(spec.read(ThrashingRules), self.pages.per_block, self.counters)
        """Decides what becomes of pages that go to and fro."""
        self.prefetch: PrefetchPolicy = NoPrefetch()
        """Decides which pages come along with a fault."""
        self.eviction: EvictionPolicy
        """Decides which block is evicted."""
        key = "prefetch.policy"
        try:
            if self.costs.prefetch_tree:
                self.prefetch = PREFETCH_POLICIES.find(self.costs.prefetch_policy)
            key = "evict.policy"
            self.eviction = EVICTION_POLICIES.find(self.costs.eviction_policy)
        except ValueError as error:
            raise ProfileError(spec.path, key, str(error)) from None
        big = max(self.costs.big_page // self.pages.page_size, 1)
        self.prefetch_rules = PrefetchRules(self.pages.per_block, big, self.costs.threshold)
        self._in_use = DeviceMemoryInUse(
            self.pages.chunks.by_last_fault, self.pages.chunks.by_arrival, self.pages.per_block, self.sim.rng
        )
        self._queues = QueueEviction(self.sim, device, self.costs.restore)
        self._kernels = kernels
        # A thread of the driver works on no core of the host, though a real kernel thread runs on one: a program that
        # keeps all cores busy is predicted too fast, by at most the time of these steps. The choice is made here and
        # not for each payment, because every batch of faults pays at least five times.
        self.phase = fault_phases(machine.trace, self.sim, device.index)
        self.pay: Callable[[float], Awaitable[None]] = (
            self.sim.sleep if machine.exact else lambda dt: self.sim.sleep(machine.jitter(dt))
        )
        """``await pay(dt)`` lets one of the driver's own threads work for ``dt`` seconds."""
        self._without_room: dict[int, int] = {}
        """Pages, by block, that are mapped over the link because there was no device memory for them."""

    def _work(self, cost: float, phase: FaultPhase | None) -> Awaitable[None]:
        """Let the driver do ``cost`` seconds of work, the last of a phase, and tell the trace how long that takes."""
        if phase is None or not cost:
            return self.pay(cost)
        taken = cost if self.machine.exact else self.machine.jitter(cost)
        phase.works(taken, taken / cost)
        return self.sim.sleep(taken)

    def map_for_copies(self, block: ManagedBlock, pages: PageSet) -> float:
        """Map a block's host pages for copy engines; return the seconds of work, 0 if all were mapped already.

        The driver maps a chunk of host memory for DMA when it has allocated it, and keeps both while the pages are on
        the device (``uvm_va_block_map_cpu_chunk_on_gpus``, ``block_gpu_map_phys_all_cpu_pages``).
        """
        if not pages & ~block.dma_mapped:
            return 0.0
        return self.costs.dma_map * (block.map_for_copies(pages).bit_count() / self.pages.per_block)

    def note_moved(self, direction: Literal["h2d", "d2h", "p2p"], block: ManagedBlock, pages: PageSet) -> int:
        """Add the bytes of migrated pages (a bit set) to the counters of a direction; return the number of bytes."""
        size, counters, (own, usage) = self.pages.page_size, self.counters, block.sole
        nbytes = pages.bit_count() * size
        if direction == "h2d":
            counters.bytes_htod += nbytes
        elif direction == "d2h":
            counters.bytes_dtoh += nbytes
        else:
            counters.bytes_dtod += nbytes
        if usage is not None and not pages & ~own:
            usage.moved(direction, nbytes)
        else:
            for count, usage in self.pages.shares(block, pages):
                usage.moved(direction, count * size)
        return nbytes

    def remove(self, begin: int, nbytes: int) -> None:
        """Remove an allocation; a page that it shares with other allocations stays until the last one is removed."""
        for block, pages in self.pages.remove(begin, nbytes):
            self.unmap(block, pages & (block.resident | block.remote))
            block.release(pages)
            self.thrashing.forget(block.index, pages)
            self.release_memory(block)

    def take_memory(self, block: ManagedBlock) -> bool:
        """Take device memory for a block that has none yet, without evicting another; return False if none is free."""
        if block.index not in self.pages.chunks:
            if not self.device.memory.take_managed(self.pages.block_size):
                return False
            # It can be evicted from now on, but nobody does so while its lock is held.
            self.pages.chunks.add(block)
        return True

    def release_memory(self, block: ManagedBlock) -> None:
        """Give a block's device memory back, if no page of the block is there any more."""
        if not block.resident and self.pages.chunks.remove(block):
            self.device.memory.give_managed(self.pages.block_size)

    def map_local(self, block: ManagedBlock, pages: PageSet) -> None:
        """Let the GPU translate these pages of a block, which are in the GPU's own memory now."""
        # Pages that nobody has touched have no bytes to move: they appear in device memory.
        if fresh := pages & ~block.populated:
            self.counters.first_on_gpu += fresh.bit_count()
        self.pages.set_state(block, pages, LOCAL)
        if self.space.shared:
            self.space.arrived(self.device.local, block.index, pages)

    def unmap(self, block: ManagedBlock, pages: PageSet) -> None:
        """Remove the GPU's translations of these pages of a block, and tell the kernels that may still need them."""
        if pages:
            lost = block.resident & pages
            self.pages.set_state(block, pages, UNMAPPED)
            if self._without_room:
                self._without_room[block.index] = self._without_room.get(block.index, 0) & ~pages
            self._tell(block)
            if lost and self.space.shared:
                self.space.left(self.device.local, block.index, lost)
            if block.host_copy & lost:
                self.space.has_host_copy(block.index, lost & ~block.elsewhere, valid=False)

    def _tell(self, block: ManagedBlock) -> None:
        """Tell the kernels that run that the GPU has lost translations of a block."""
        if self._kernels.running:
            low = block.index * self.pages.per_block
            self.device.compute.mailbox.put(Unmapped(low, low + self.pages.per_block))

    def protect(self, block: ManagedBlock, pages: PageSet) -> None:
        """Make resident pages of a block read-only, and tell the kernels that may still have to store to them."""
        if pages:
            self.pages.protect(block, pages & block.resident, read_only=True)  # some may have been freed meanwhile
            self._tell(block)

    async def invalidate_copies(self, block: ManagedBlock, pages: PageSet) -> None:
        """Invalidate all other copies of these read-only pages, because the GPU stores to them now; no bytes move."""
        space, index = self.space, block.index
        for member, record in [*space.others(self.device.local, index)]:
            if gone := (record.resident | record.remote) & pages:
                await self.pay(space.costs.unmap)
                member.unmap(record, gone)
                member.release_memory(record)
        if on_host := block.host_copy & pages:
            await self.pay(self.costs.unmap * (on_host.bit_count() / self.pages.per_block))
        space.has_host_copy(index, pages, valid=False)
        self.pages.protect(block, pages, read_only=False)
        self.counters.invalidations += pages.bit_count()

    def map_remote(self, block: ManagedBlock, pages: PageSet) -> None:
        """Let the GPU access these pages over the link."""
        self.counters.remote_maps += 1
        self.pages.set_state(block, pages, REMOTE)

    def map_remote_again(self, block: ManagedBlock) -> None:
        """Map, over the link, a block's pages for which the GPU has the advice accessed-by but no translation.

        System-allocated memory on the host is mapped as well, at no cost, because the GPU uses the host's page table.
        """
        if block.system and (there := block.system & block.on_host & ~(block.resident | block.remote)):
            self.pages.set_state(block, there, REMOTE)
        if block.accessed_by and (pages := block.accessed_by & block.on_host & ~(block.resident | block.remote)):
            self.map_remote(block, pages)
        if block.accessed_by and self.space.shared:
            for member, record in self.space.others(self.device.local, block.index):
                self.map_at_peer(block, block.accessed_by & record.resident, member)

    def map_at_peer(self, block: ManagedBlock, pages: PageSet, member: VaBlocks) -> None:
        """Let the GPU translate pages that lie on the device ``member``, if it can access that device's memory."""
        pages &= ~(block.resident | block.remote)
        if pages and self.space.reaches(self.device.local, member.device.local):
            self.counters.remote_maps += 1
            self.pages.set_at_peer(block, pages, member.device.local)

    async def map_without_room(self, block: ManagedBlock, pages: PageSet) -> None:
        """Map pages over the link, because no device memory is free; ``try_again`` unmaps them when some is free."""
        await self.pay(self.costs.block)
        pages &= block.valid
        self.map_remote(block, pages)
        self._without_room[block.index] = self._without_room.get(block.index, 0) | pages

    def try_again(self) -> None:
        """Unmap the pages that were mapped over the link for lack of device memory, if there is enough now.

        Called when the program has freed device memory; the pages then fault and migrate.
        """
        if self._without_room and self.device.memory.has_room(self.pages.block_size):
            without, self._without_room = self._without_room, {}
            for index, pages in without.items():
                block = self.pages.block(index)
                self.unmap(block, pages & ~(block.prefers_host | block.accessed_by | block.system))

    # Migrations

    async def fetch(
        self, block: ManagedBlock, brought: int, cost: float, cause: int, *, evicts: bool, stored: int = 0,
        phase: FaultPhase | None = None,
    ) -> FetchResult:  # fmt: skip
        """Migrate the pages ``brought`` (a bit set) of a block to the device (``uvm_va_block_make_resident``).

        ``cost``: seconds of the driver's work. ``cause``: the directive's number. ``evicts``: whether other blocks may
        be evicted to free memory. ``stored``: the pages that stores accessed; other read-mostly pages are copied, not
        moved. ``phase``: the trace's phase to which the work belongs. Returns the copy in progress, or why none is.
        """
        written: Signal | None = None
        while not self.take_memory(block):  # others may bring it in while its lock is given up for room
            evicted = await self.evict_one(cause, held=block) if evicts else Evicted.NOTHING
            if evicted is Evicted.NOTHING:
                return Fetched.NO_ROOM
            if isinstance(evicted, Moving):
                written = evicted.signal
        await self._work(cost, phase)
        self.pages.chunks.faulted(block.index)  # prefetches count as well (``block_mark_memory_used``)
        if self.space.shared or block.read_mostly:
            return await self._fetch_from_all(block, brought, stored, written, cause)
        moved = brought & block.populated
        nbytes = self.note_moved("h2d", block, moved) if moved else 0
        if moved & block.host_mapped:
            block.unmap_on_host(moved)
        if not moved and written is None:
            self.map_local(block, brought)
            return Fetched.RESIDENT
        if written is None:
            return Moving(self._send("h2d", nbytes, cause, partial(self._map_and_give, block, brought)))
        return self._fetch_behind(written, block, brought, nbytes, cause)

    async def _fetch_from_all(
        self, block: ManagedBlock, brought: int, stored: int, written: Signal | None, cause: int
    ) -> FetchResult:
        """Fetch pages from wherever they are: the host, devices over a link, devices without one.

        Whoever had a page loses it, unless it is read mostly: then that place keeps a copy, which is read-only.
        ``written`` is the write-back that the fetch has to wait for.
        """
        space, index = self.space, block.index
        brought &= ~block.resident  # the lock may have been given up for room
        sources = self._sources(block, brought & block.populated)
        copied, from_host = brought & block.populated & block.read_mostly & ~stored, brought & block.on_host
        taken = brought & ~copied
        for member, record in [*space.others(self.device.local, index)]:
            if gone := (record.resident | record.remote) & taken:
                await self.pay(space.costs.unmap)
                member.unmap(record, gone)
            if kept := record.resident & copied:
                member.protect(record, kept)
        for record in space.records(index):
            record.unmap_on_host(from_host)
        space.has_host_copy(index, taken, valid=False)
        space.has_host_copy(index, copied & from_host, valid=True)
        if not sources and written is None:
            self.map_local(block, brought)
            return Fetched.RESIDENT

        arrival = Signal(self.sim, f"pages of block {index:#x}")
        left = len(sources)

        def ended() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                for member, record in space.others(self.device.local, index):
                    member.release_memory(record)
                self.map_local(block, brought)
                self.protect(block, copied & block.resident)
                self.locks.give(block)
                arrival.set()

        def start() -> None:
            for member, pages in sources:
                self._bring_from(member, block, pages, cause, ended)
            if not sources:
                ended()

        if written is None:
            start()
        else:
            written.set_callback(start)
        self.counters.duplications += copied.bit_count()
        return Moving(arrival)

    def _sources(self, block: ManagedBlock, pages: PageSet) -> list[tuple[VaBlocks | None, int]]:
        """Return (source, pages): devices with a link to here, else the host (None), else devices without a link."""
        sources: list[tuple[VaBlocks | None, int]] = []
        others = [*self.space.others(self.device.local, block.index)]
        for linked in (True, False):
            for member, record in others:
                link = self.space.link(member.device.local, self.device.local)
                if (link is not None) == linked and (part := record.resident & pages):
                    sources.append((member, part))
                    pages &= ~part
            if linked and (part := block.on_host & pages):
                sources.append((None, part))
                pages &= ~part
        return sources

    def _bring_from(
        self, member: VaBlocks | None, block: ManagedBlock, pages: PageSet, cause: int, ended: Callable[[], None]
    ) -> None:
        """Copy pages from the host or another device, whose engine pushes them (through the host without a link)."""
        if member is None:
            self._send("h2d", self.note_moved("h2d", block, pages), cause, ended)
            return
        if (link := self.space.link(member.device.local, self.device.local)) is None:

            def on_host() -> None:
                self._send("h2d", self.note_moved("h2d", block, pages), cause, ended)

            record = member.pages.block(block.index)
            nbytes = member.note_moved("d2h", record, pages)
            number = self.machine.next_number()
            member.device.engines["d2h"].send(number, cause, nbytes, "managed", on_host)
            return
        nbytes = self.note_moved("p2p", block, pages)
        number = self.machine.next_number()
        member.device.engines["p2p"].send(number, cause, nbytes, "managed", ended, over=link)

    def _fetch_behind(self, written: Signal, block: ManagedBlock, brought: int, nbytes: int, cause: int) -> Moving:
        """Fetch pages after the write-back of the block that was evicted for them; ``nbytes`` is 0 if nothing moves."""
        arrival = Signal(self.sim, "pages of managed memory")

        def start() -> None:
            if nbytes:
                self._send("h2d", nbytes, cause, partial(self._map_and_give, block, brought), arrival)
            else:
                self._map_and_give(block, brought)
                arrival.set()

        written.set_callback(start)
        return Moving(arrival)

    def _map_and_give(self, block: ManagedBlock, brought: int) -> None:
        self.map_local(block, brought)
        self.locks.give(block)

    def _send(
        self,
        direction: Literal["h2d", "d2h"],
        nbytes: int,
        cause: int,
        ended: Callable[[], None],
        done: Signal | None = None,
    ) -> Signal:
        """Have a copy engine move bytes over the link, and go on; ``ended`` runs when it has, then ``done`` is set."""
        number, pauses_s = self.machine.next_number(), self._pauses(nbytes)
        return self.device.engines[direction].send(number, cause, nbytes, "managed", ended, pauses_s, done=done)

    def carry_home(self, block: ManagedBlock, pages: PageSet, cause: int) -> Awaitable[object]:
        """Copy pages of a block to the host, on a copy engine, for directive ``cause``.  Await the result at once."""
        nbytes = self.note_moved("d2h", block, pages)
        number, pauses_s = self.machine.next_number(), self._pauses(nbytes)
        return self.device.engines["d2h"].carry(number, cause, nbytes, "managed", pauses_s)

    def _pauses(self, nbytes: int) -> float:
        """Return the seconds that a copy engine spends between the pages of a migration.

        Older drivers push one copy for each page unless both ends of the whole block are contiguous, which host memory
        never is; later ones join pages whose chunks are contiguous (``block_copy_resident_pages_between``).
        """
        return nbytes / self.pages.page_size * self.costs.page_copy

    async def send_back(self, index: int, pages: PageSet, cause: int) -> None:
        """Migrate those of a block's ``pages`` from this device to the host, for a prefetch by directive ``cause``."""
        block = self.pages.block(index)
        if pages := pages & block.resident:
            self.thrashing.forget(index, pages)
            await self.stop_queues(block, pages, cause)
            await self.copy_home(block, pages, pages & block.read_mostly, cause, self.costs.prefetch_block)
            self.release_memory(block)

    async def copy_home(self, block: ManagedBlock, pages: PageSet, kept: int, cause: int, work: float = 0.0) -> None:
        """Move pages of a block from this device to the host, after ``work`` seconds, for directive ``cause``.

        Pages of which the host has valid copies are not copied. ``kept``: the pages of which the device keeps a copy.
        """
        moved = pages & ~block.host_copy
        self.unmap(block, pages & ~kept)
        self.protect(block, kept)
        if work:
            await self.pay(work)
        if moved:
            await self.carry_home(block, moved, cause)
        if copies := pages & (block.resident | block.elsewhere):
            self.space.has_host_copy(block.index, copies, valid=True)
        self.space.came_home(block.index)

    def touched_by_host(self, index: int, pages: PageSet) -> None:
        """Note that the host has touched these pages of a block and can translate them."""
        block = self.pages.block(index)
        block.touched_by_host(pages)
        if block.system & pages:
            self.map_remote_again(block)

    # Evictions

    async def evict_one(self, cause: int, held: ManagedBlock | None = None) -> Eviction:
        """Evict the block that the eviction policy chooses (``pick_and_evict_root_chunk`` of ``uvm_pmm_gpu.c``).

        Blocks whose lock is taken are passed over; if all are locked, this waits for the first and evicts nothing.
        ``cause``: the directive's number. ``held``: the block that needs the memory; if several devices share the
        memory, its lock is released during that wait. Returns the copy in progress, or why there is none. Raises
        RuntimeError as `victims` does.
        """
        locks = self.locks
        first: ManagedBlock | None = None
        for block in victims(self.eviction, self._in_use, self.pages.chunks.by_arrival):
            if not locks.is_taken(block):  # the block that is being fetched is not among them yet, or is taken
                break
            first = first or block
        else:
            if first is None:
                return Evicted.NOTHING
            # All are worked on. The first that is given up may have made room itself, so the caller looks again.
            # Two devices that fetch from one another would wait for each other's block for ever if they kept theirs.
            gives_up = held is not None and self.space.shared
            if held is not None and gives_up:
                locks.give(held)
            await locks.take(first)
            locks.give(first)
            if held is not None and gives_up:
                await locks.take(held)
            return Evicted.WAITED
        await locks.take(block)
        written = None
        phase = None if self.phase is None else self.phase("evict", cause, block.index, block.resident.bit_count())
        try:
            if block.accessed_by:
                await self.stop_queues(block, block.resident, cause)
            # The translations go before the bytes, so that no kernel writes to a page that is on its way.
            gone = block.resident
            sent, elsewhere = gone & ~block.host_copy, gone & block.elsewhere
            self.unmap(block, gone)
            self.counters.evictions += 1
            mapping = self.map_for_copies(block, gone)
            if phase is not None:
                phase.parts = {"map": mapping}
            await self._work(self.costs.evict + mapping, phase)
            if not sent:  # the host has copies of all
                return Evicted.FREED

            def back() -> None:
                if elsewhere:
                    self.space.has_host_copy(block.index, elsewhere, valid=True)
                self.space.came_home(block.index)
                locks.give(block)

            written = Moving(self._send("d2h", self.note_moved("d2h", block, sent), cause, back))
        finally:
            if phase is not None:
                phase.end()
            self.release_memory(block)
            if written is None:
                locks.give(block)
        return written

    async def stop_queues(self, block: ManagedBlock, pages: PageSet, cause: int) -> None:
        """Stop the device's queues for directive ``cause`` while ``pages`` leave it, if kernels cannot fault there."""
        if block.accessed_by & pages:
            await self._queues.begin(cause)

    async def make_room(self, nbytes: int, cause: int) -> None:
        """Evict blocks until ``nbytes`` bytes can be allocated, or nothing is left; cause: the directive's number."""
        memory = self.device.memory
        await self.locks.space.acquire_read()
        try:
            while not memory.has_room(memory.needs(nbytes)):
                evicted = await self.evict_one(cause)
                if evicted is Evicted.NOTHING:
                    break
                if isinstance(evicted, Moving):
                    await evicted.signal.wait()
        finally:
            self.locks.space.release()
