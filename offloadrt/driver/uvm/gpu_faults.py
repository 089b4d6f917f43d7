"""Faults of the GPU on one block of managed memory: which pages come to the device, which stay, and which have to wait.

Follows ``service_fault_batch_block_locked`` and ``uvm_va_block_service_locked`` of nvidia-uvm.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from struct import Struct
from types import MappingProxyType
from typing import Final, Literal, overload

import attrs
import msgspec

from offloadrt.driver.uvm.costs import BatchCosts
from offloadrt.driver.uvm.thrashing import Hint
from offloadrt.driver.uvm.va_block import BlockMover, BlockRecords
from offloadrt.machine.level import LevelOverTime
from offloadrt.machine.managed.block import ManagedBlock
from offloadrt.machine.managed.kernels import FaultBuffer
from offloadrt.machine.managed.page_sets import how_many
from offloadrt.driver.uvm.prefetch.tree import with_prefetched
from offloadrt.machine.messages import ManagedFault, ReplayFaults
from offloadrt.machine.servers import Servers, numbered_from_the_second
from offloadrt.sim import Mailbox, Signal, Simulation


@attrs.frozen
class FaultBatch:
    """One batch of GPU faults: what was in it, and when each of its phases ended, in virtual seconds.

    The phases are those of ``uvm_gpu_service_replayable_faults`` in nvidia-uvm.
    """

    begin: float
    """The handler comes to fetch."""
    fetched: float
    """The faults are out of the buffer."""
    preprocessed: float
    """They are sorted and duplicates are merged."""
    locked: float
    """The handler holds the space lock."""
    served: float
    """The blocks are served; copies may go on."""
    end: float
    """The buffer is flushed and the replay is sent."""
    faults: int
    """Faults that were fetched, duplicates included."""
    pages: int
    """Different pages among them."""
    blocks: int
    """Blocks that these pages lie in."""
    nbytes: int
    """Bytes whose migration to the device the batch asked for."""


_NUMBERS: Final = len(attrs.fields(FaultBatch))
_PACKED: Final = Struct(f"{_NUMBERS}d").pack


class FaultBatches(Sequence[FaultBatch]):
    """The batches so far, in the order in which they ended: eight bytes for each number of a batch."""

    def __init__(self) -> None:
        self._numbers = array("d")

    def add(self, *numbers: float) -> None:
        """Note a batch, as the numbers of its fields."""
        self._numbers.frombytes(_PACKED(*numbers))

    def __len__(self) -> int:
        return len(self._numbers) // _NUMBERS

    @overload
    def __getitem__(self, place: int) -> FaultBatch: ...
    @overload
    def __getitem__(self, place: slice) -> list[FaultBatch]: ...
    def __getitem__(self, place: int | slice) -> FaultBatch | list[FaultBatch]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        first = range(len(self))[place] * _NUMBERS
        *phases, faults, pages, blocks, nbytes = self._numbers[first : first + _NUMBERS]
        begin, fetched, preprocessed, locked, served, end = phases
        counts = int(faults), int(pages), int(blocks), int(nbytes)
        return FaultBatch(begin, fetched, preprocessed, locked, served, end, *counts)


@attrs.frozen
class ReplayPolicy:
    """When the page-fault handler sends a replay, and whether it flushes the fault buffer before."""

    after: Literal["block", "batch", "buffer"]
    """What has been served when a replay follows: a block's faults in a batch, a batch, or all that the buffer held."""
    flushes: bool = False
    """Whether entries that the batch left out are dropped; the handler then waits for the replay.

    Otherwise it goes on with these entries, which a replay has the GPU report a second time.
    """


REPLAY_POLICIES: Final[Mapping[str, ReplayPolicy]] = MappingProxyType(
    {
        "block": ReplayPolicy("block"),
        "batch": ReplayPolicy("batch"),
        "batch_flush": ReplayPolicy("batch", flushes=True),
        "once": ReplayPolicy("buffer"),
    }
)
"""By the names of ``UVM_PERF_FAULT_REPLAY_POLICY_*``; ``fault.replay_policy`` of the profile chooses one."""


class ReplayChannel:
    """The channel in which a replay follows the copies that were submitted for it, and the replay before it.

    The driver pushes a replay and goes on (``push_replay_on_gpu``, which acquires the tracker of the batch).
    """

    def __init__(self, sim: Simulation, compute: Mailbox) -> None:
        self._sim = sim
        self._compute = compute
        self._last: Signal | None = None

    def push(self, copies: list[Signal], replay: ReplayFaults) -> None:
        """Send ``replay`` when its copies and the replay before it have ended; a copy is given to one replay only."""
        waited_for = [signal for signal in copies if not signal.is_set]
        if (last := self._last) is not None and not last.is_set:
            waited_for.insert(0, last)
        if not waited_for:
            self._compute.put(replay)
            return
        self._last = done = Signal(self._sim, "a replay of faults")
        left = len(waited_for)

        def ended() -> None:
            nonlocal left
            left -= 1
            if not left:
                self._compute.put(replay)
                done.set()

        for signal in waited_for:
            signal.set_callback(ended)


class GpuFaults:
    """Serves the faults of a device's kernels, block by block; the caller holds the space lock for reading."""

    def __init__(self, records: BlockRecords, mover: BlockMover) -> None:
        self._records = records
        self._mover = mover

    async def serve(
        self, index: int, faulted: int, entries: int, cause: int, copies: list[Signal], stored: int = 0
    ) -> tuple[float, int]:
        """Serve the faults on a block in one batch, so many entries; copies that it submits are added to ``copies``.

        ``stored``: the pages of them that stores have met.

        Returns the seconds that its own work took, and the pages that are not to be had now (thrashing).
        """
        records, pages, thrashing = self._records, self._records.pages, self._records.thrashing
        sim, locks, block = records.sim, records.locks, pages.block(index)
        await locks.take(block)  # a prefetch or a host thread may work on it
        begin, arrival = sim.now, None
        try:
            # Others may have brought a page while the batch waited for this block.
            wanted = faulted & ~(block.resident | block.remote)
            if stored:
                wanted |= faulted & block.read_only & stored
            self._count(block, faulted, wanted)
            if not wanted:
                return 0.0, 0
            if records.space.shared or block.read_mostly or block.read_only:
                wanted = await self._map_in_place(block, wanted, cause)
                if not wanted:
                    await records.pay(records.costs.block + records.costs.service_entry * entries)
                    return sim.now - begin, 0
            thrashes, throttled = thrashing.thrashing(index), 0
            if thrashes or block.prefers_host:
                kept = block.prefers_host & ~block.read_mostly
                throttled, pinned = self._hints(block, wanted & thrashes & ~kept)
                stays = wanted & kept | pinned
                if stays:
                    records.map_remote(block, stays)
                wanted &= ~(stays | throttled)
                if not wanted:
                    await records.pay(records.costs.block if stays else 0.0)
                    return sim.now - begin, throttled
            brought = self._brought_by(block, wanted, thrashes)
            moved = brought & block.populated
            cost = self._cost_of(block, entries, brought)
            evicts = not wanted & block.system  # what the host makes for the GPU is on the host when there is no room
            arrival = await self._mover.fetch(block, brought, cost, cause, evicts=evicts, stored=stored)
            if arrival:
                if isinstance(arrival, Signal):
                    copies.append(arrival)
                if moved:
                    thrashing.migrated(index, moved, "device", sim.now)
                if index in pages.lru:
                    pages.lru.move_to_end(index)  # its last fault is the latest (uvm_pmm_gpu_mark_root_chunk_used)
            else:
                await records.map_without_room(block, wanted)
            return sim.now - begin, throttled
        finally:
            if not isinstance(arrival, Signal):
                locks.give(block)

    async def _map_in_place(self, block: ManagedBlock, wanted: int, cause: int) -> int:
        """Serve what needs no migration to the device; return the pages that are left.

        A store to a page of which it has a copy takes the other copies away.  A page that is to stay on a device which
        this one reaches goes there, if it is not there yet, and is mapped; so is one that this device is advised to
        access (``block_select_processor_residency``).
        """
        records, space, here = self._records, self._records.space, self._records.device.index
        if alone := wanted & block.resident:
            await records.invalidate_copies(block, alone)
            wanted &= ~alone
        for member, record in [*space.others(here, block.index)]:
            there = member.device.index
            if not space.reaches(here, there):
                continue
            prefers = wanted & record.prefers_here & ~block.read_mostly
            if absent := prefers & ~record.resident:
                # The driver goes on meanwhile and maps behind the copy; here the handler waits for it, once for a page.
                fetch = space.movers[there].fetch
                arrival = await fetch(record, absent, records.costs.block, cause, evicts=True, stored=absent)
                if isinstance(arrival, Signal):
                    await arrival.wait()
                    await records.locks.take(block)
            if mapped := wanted & record.resident & (record.prefers_here | block.accessed_by) & ~block.read_mostly:
                await records.pay(space.costs.map)
                records.map_at_peer(block, mapped, member)
            wanted &= ~(block.resident | block.remote)
        return wanted

    def unpin(self) -> None:
        """Unmap the pages whose pin is over: the next fault migrates them again."""
        for index, place in self._records.thrashing.unpinned(self._records.sim.now):
            block = self._records.pages.block(index)
            self._records.unmap(block, 1 << place & block.remote & ~(block.prefers_host | block.accessed_by))

    def _count(self, block: ManagedBlock, faulted: int, wanted: int) -> None:
        """Count faults on pages of a block; those that are not wanted have a translation already."""
        counters = self._records.counters
        if faulted != wanted:
            counters.duplicates += (faulted ^ wanted).bit_count()
        if not wanted:
            return
        block.valid |= wanted
        faults = wanted.bit_count()
        own, usage = block.sole
        counters.gpu_fault_groups += 1
        counters.faults += faults
        if usage is not None and not wanted & ~own:
            usage.faults += faults
        else:
            for count, usage in self._records.pages.shares(block, wanted):
                usage.faults += count

    def _hints(self, block: ManagedBlock, wanted: int) -> tuple[int, int]:
        """Tell which of some thrashing pages the GPU may not have now, and which stay on the host."""
        throttled = pinned = 0
        while wanted:
            page = wanted & -wanted
            wanted &= ~page
            hint = self._records.thrashing.hint(block.index, page.bit_length() - 1, "device", self._records.sim.now)
            throttled |= page if hint is Hint.THROTTLE else 0
            pinned |= page if hint is Hint.PIN else 0
        return throttled, pinned

    def _brought_by(self, block: ManagedBlock, wanted: int, thrashes: int) -> int:
        """Return what migrates for faults on these pages of a block."""
        costs, resident = self._records.costs, block.resident
        if not costs.prefetch_tree:
            return wanted
        per_block, big, threshold = self._records.pages.per_block, self._records.big_pages, costs.threshold
        brought = with_prefetched(resident, wanted, block.valid, per_block, big, threshold, thrashes)
        stays = resident | block.remote
        # A page that is to stay on the host comes only for a fault of its own.
        if block.prefers_host:
            stays |= block.prefers_host & ~(block.read_mostly | wanted)
        if self._records.space.shared:
            stays |= self._records.space.preferred_by_others(self._records.device.index, block.index) & ~wanted
        return brought & ~stays

    def _cost_of(self, block: ManagedBlock, entries: int, brought: int) -> float:
        """Return the seconds of the driver's work for so many faults on a block, and for the pages that they bring."""
        costs, in_place = self._records.costs, self._records.system_costs
        cost = costs.block + costs.service_entry * entries + self._records.map_for_copies(block, block.on_host)
        if host_mapped := block.host_mapped & brought:
            stretches = (host_mapped & ~(host_mapped << 1)).bit_count()
            cost += costs.unmap * (host_mapped.bit_count() / self._records.pages.per_block)
            cost += costs.unmap_range * (stretches - 1)
        if block.system and in_place is not None:
            cost += in_place.first_touch * (brought & block.system & ~block.populated).bit_count()
        return cost


@attrs.frozen
class FaultHandlerStatistics:
    """What the handler did; virtual seconds.  busy_s + idle_s is the time elapsed with one worker."""

    busy_s: float
    """Time in batches, up to now."""
    idle_s: float
    wait_s: float
    """Time that kernels were stalled besides what serving their own faults alone, and the copies, take."""
    blocks: int
    """Blocks that were served; one that has faults in several batches counts in each that has work for it."""
    block_s: float
    """Time that the service of these blocks took, without the copies."""


class Service(msgspec.Struct, eq=False):
    """What the handler has served since the last replay, in one service of an interrupt."""

    kernels: tuple[int, ...] | None
    """Whose faults these are; None: those of all kernels."""
    served: dict[int, int] = msgspec.field(default_factory=dict)
    """Pages, by block."""
    copies: list[Signal] = msgspec.field(default_factory=list)
    """The copies that were submitted for them."""

    def note(self, served: dict[int, int]) -> None:
        """Note that pages have been served, by block."""
        if not self.served:
            self.served = served
            return
        for index, pages in served.items():
            self.served[index] = self.served.get(index, 0) | pages


class UvmFaultHandler:
    """Serves the GPU faults of one device; ``start`` spawns its actor.

    With ``uncontended`` each message of a kernel finds a worker of its own, so that no batch has two kernels.
    """

    def __init__(
        self, records: BlockRecords, faults: GpuFaults, buffer: FaultBuffer, *, uncontended: bool = False
    ) -> None:
        self._records = records
        self.costs = records.machine.spec.read(BatchCosts)
        self._faults = faults
        self._buffer = buffer
        self.mailbox = buffer.mailbox
        self._uncontended = uncontended
        names = numbered_from_the_second(self.mailbox.name, "worker")
        self._workers: Servers[ManagedFault] = Servers(records.sim, self.mailbox, self._run, names, grow=uncontended)
        self.start = self._workers.start
        """Spawn a worker."""
        self.batches = FaultBatches()
        self._policy = REPLAY_POLICIES[self.costs.policy]
        self._replays = ReplayChannel(records.sim, records.device.compute.mailbox)
        self._busy = LevelOverTime(records.sim)
        self._wait_s = self._block_s = 0.0
        self._served = 0
        self._born = records.sim.now

    async def _run(self) -> None:
        """Serve one interrupt after the other, for ever (``uvm_parent_gpu_service_replayable_faults``)."""
        get, pay, ends_once = self.mailbox.get, self._records.pay, self._policy.after == "buffer"
        while True:
            seen = [self._buffer.took(await get())]
            self._workers.took_from_mailbox()
            self._busy.rise()
            await pay(self.costs.interrupt)
            seen += self._in_buffer()
            service = Service((seen[0].kernel,) if self._uncontended else None)
            while seen:
                seen = await self._batch(seen, service) or self._in_buffer()
            if ends_once:
                await pay(self.costs.flush)
                self._push(service)
            self._busy.fall()
            self._workers.done()

    def _in_buffer(self) -> list[ManagedFault]:
        """Take what lies in the buffer now."""
        return [] if self._uncontended else self._buffer.take_all()

    async def _batch(self, seen: list[ManagedFault], service: Service) -> list[ManagedFault]:
        """Fetch, preprocess, serve, and replay as the policy says; return the entries that are left to fetch."""
        serve, pay, sim, policy = self._faults.serve, self._records.pay, self._records.sim, self._policy
        costs, counters, begin = self.costs, self._records.counters, sim.now
        each_block = policy.after == "block"
        fetched, entries, left, begun = _fetch(seen, costs.batch_max)
        await pay(costs.fetch + costs.fetch_entry * entries)
        fetched_at = sim.now
        await pay(costs.preprocess_entry * entries)
        if (injector := self._records.machine.injector) is not None:
            for fault in fetched:
                injector.page_fault(self._records.device.index, fault.kernel)
        served, entries_of, stored, different = _merged(fetched)
        preprocessed, moved_before = sim.now, counters.bytes_htod
        took: dict[int, float] = {}
        await self._records.locks.read()  # advice must not change the rules within a batch
        try:
            locked = sim.now
            self._faults.unpin()
            counters.batches += 1
            counters.duplicates += entries - different
            # Blocks are served in the order of their addresses: nvidia-uvm sorts a batch too (preprocess_fault_batch).
            for index in sorted(served):
                took_s, put_off = await serve(
                    index, served[index], entries_of[index], seen[0].cause, service.copies, stored.get(index, 0)
                )
                took[index] = took_s
                self._block_s += took_s
                self._served += took_s > 0.0
                if put_off:
                    served[index] &= ~put_off
                if each_block:
                    service.served[index] = served[index]
                    await pay(costs.flush)
                    self._push(service)
        finally:
            self._records.locks.release()
        served_at, nbytes = sim.now, counters.bytes_htod - moved_before
        if policy.after == "batch":
            dropped = 0
            if policy.flushes:
                if entries - different > costs.duplicates * entries:
                    left += self._in_buffer()
                dropped = sum([fault.entries for fault in left]) - begun  # ``begun`` of them were fetched
                left, begun = [], 0
            await pay(costs.flush + costs.flush_entry * dropped)
        self.batches.add(
            begin, fetched_at, preprocessed, locked, served_at, sim.now, entries, different, len(took), nbytes
        )
        for fault in fetched:
            self._note_wait(fault, took)
        if policy.flushes:
            for copy in service.copies:
                if not copy.is_set:
                    await copy.wait()
        if not each_block:
            service.note(served)
        if policy.after == "batch":
            self._push(service)
        return [left[0].tail(begun), *left[1:]] if begun else left

    def _push(self, service: Service) -> None:
        """Have the GPU replay what was served since the last replay, when the copies for it have ended."""
        self._replays.push(service.copies, ReplayFaults(service.kernels, service.served))
        service.served, service.copies = {}, []

    def _note_wait(self, fault: ManagedFault, took: dict[int, float]) -> None:
        """Add the time that a kernel was stalled besides what its faults take alone; nothing if they came too late."""
        costs = self.costs
        own_s = math.fsum(map(took.__getitem__, dict(fault.pages)))
        if own_s:
            own_s += costs.interrupt + costs.fetch + (costs.fetch_entry + costs.preprocess_entry) * fault.entries
            if (wait_s := self._records.sim.now - fault.time - own_s - costs.flush) > 0.0:
                self._wait_s += wait_s

    def statistics(self) -> FaultHandlerStatistics:
        """Return what it did so far."""
        busy_s = self._busy.total_s
        idle_s = max(self._records.sim.now - self._born - busy_s, 0.0)
        return FaultHandlerStatistics(busy_s, idle_s, self._wait_s, self._served, self._block_s)


def _fetch(seen: list[ManagedFault], room: int) -> tuple[list[ManagedFault], int, list[ManagedFault], int]:
    """Return the first so many entries of those that lie in the buffer, how many these are, and those behind them.

    At last how many entries of the first of those behind are among them.
    """
    entries = 0
    for place, fault in enumerate(seen):
        if entries + fault.entries > room:
            begun = room - entries
            fetched = [*seen[:place], fault.head(begun)] if begun else seen[:place]
            return fetched, room, seen[place:], begun
        entries += fault.entries
    return seen, entries, [], 0


def _merged(fetched: list[ManagedFault]) -> tuple[dict[int, int], dict[int, int], dict[int, int], int]:
    """Return the pages, the entries and the stored pages of each block, and how many different pages there are.

    The pages of a fault have as many entries each.
    """
    served: dict[int, int] = {}
    entries: dict[int, int] = {}
    stored: dict[int, int] = {}
    different = 0
    for fault in fetched:
        sets, of_fault = fault.pages, fault.entries
        total = how_many(sets)
        for index, pages in sets:
            own = -(-of_fault * pages.bit_count() // total)
            if index in served:
                before = served[index]
                different -= (pages & before).bit_count()
                served[index] = before | pages
                entries[index] += own
            else:
                served[index] = pages
                entries[index] = own
        different += total
        for index, pages in fault.stored.items():
            stored[index] = stored.get(index, 0) | pages
    return served, entries, stored, different
