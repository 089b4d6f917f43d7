"""Faults on managed memory: those of the GPU, which one actor serves in batches, and those of host threads.

A page fault takes this way. The compute units' actor finds pages missing (``ManagedKernels``) and leaves a
``ManagedFault`` in the ``FaultBuffer``; ``UvmFaultHandler`` fetches a batch; ``GpuFaults.serve`` serves each of its
blocks, which ``VaBlocks.fetch`` brings to the device; a ``ReplayFaults`` lets the kernels try again.

*Batching* (``uvm_gpu_replayable_faults.c``) follows ``uvm_parent_gpu_service_replayable_faults``.  The first fault in
an empty buffer interrupts the host.  A batch is what lies in the buffer when the worker comes to fetch it, at most
``fault.batch_max`` entries (``fetch_fault_buffer_entries``).  They are sorted and duplicates are merged
(``preprocess_fault_batch``).  The blocks are served one after the other (``service_fault_batch``); copies are submitted
meanwhile.  A replay follows the copies in the GPU's order, and reaches all kernels that wait for pages: those that
still lack some report them again.  So entries of pages that were served in the meantime stay in the buffer, are
fetched, and need no service.  Entries of one page that follow one another are merged as they are fetched
(``fetch_fault_buffer_try_merge_entry``): where a page is larger than what the GPU reports, all its reports are.

*When a replay is sent* is up to a replay policy.  With BATCH_FLUSH, the default, the buffer is flushed after a batch
(``fault_buffer_flush_locked``): entries that were seen and did not fit are dropped, and so is what came meanwhile when
the batch had many duplicates.  Then the worker waits for the replay (``uvm_tracker_wait`` on the replay's tracker) and
looks again at once.  By then few of the accesses that the replay has let go on have faulted: the GPU writes one entry
after another (``fault.arrival``).  So a batch whose pages have several entries each is small, its flush drops the
others' entries, and these fault again.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from struct import Struct
from types import MappingProxyType
from typing import Annotated, Final, Literal, overload

import attrs
import msgspec

from offloadrt.driver.uvm.prefetch import pages_brought
from offloadrt.driver.uvm.thrashing import Hint
from offloadrt.driver.uvm.va_block import Fetched, FetchResult, Moving, VaBlocks
from offloadrt.machine.managed.block import ManagedBlock, PageSet, how_many
from offloadrt.machine.managed.kernels import FaultBuffer
from offloadrt.machine.messages import ManagedFault, ReplayFaults
from offloadrt.machine.servers import LevelOverTime, Servers, numbered_from_the_second
from offloadrt.sim import Mailbox, Signal, Simulation
from offloadrt.trace import FaultPhase
from offloadrt.trace.events import NO_CAUSE, NONE


@attrs.frozen
class BatchCosts:
    """Seconds that the fault handler needs for a batch of faults, apart from the service of its blocks."""

    host_page: Annotated[int, "page.size"]
    """Bytes of a page of the host: the driver's own page, even if a run tracks larger ones to be faster."""
    batch_max: Annotated[int, "fault.batch_max"]
    """Largest number of entries that the handler takes from the buffer at a time."""
    interrupt: Annotated[float, "fault.interrupt"]
    """Time from the first fault in an empty buffer until the handler looks into the buffer."""
    fetch: Annotated[float, "fault.fetch_base"]
    """Work to fetch a batch, whatever its size."""
    fetch_entry: Annotated[float, "fault.fetch"]
    """Work to fetch an entry."""
    preprocess_entry: Annotated[float, "fault.preprocess"]
    """Work to sort an entry and merge it with its duplicates; none for an entry that the fetch has merged."""
    flush: Annotated[float, "fault.replay"]
    """Work to flush the buffer and send the replay at the end of a batch."""
    flush_entry: Annotated[float, "fault.flush"]
    """Work for each entry that the flush drops."""
    look: Annotated[float, "fault.look"]
    """Time from a replay until the handler, which waits for the replay, looks into the buffer again."""
    policy: Annotated[str, "fault.replay_policy"]
    """The replay policy, which decides when replays are sent: a name of ``REPLAY_POLICIES``."""
    duplicates: Annotated[float, "fault.update_put"]
    """Fraction of duplicates in a batch from which on the flush also drops entries that came meanwhile."""


@attrs.frozen
class FaultBatch:
    """One batch of GPU faults: its contents, and the virtual time in seconds at which each of its phases ended.

    The phases are those of ``uvm_gpu_service_replayable_faults`` in nvidia-uvm.
    """

    begin: float
    """Time when the handler begins to fetch."""
    fetched: float
    """Time when the faults have been taken out of the buffer."""
    preprocessed: float
    """Time when the faults are sorted and duplicates are merged."""
    locked: float
    """Time when the handler holds the space lock."""
    served: float
    """Time when the blocks are served; copies may go on."""
    end: float
    """Time when the buffer is flushed and the replay is sent."""
    faults: int
    """Number of fetched faults, duplicates included."""
    pages: int
    """Number of different pages among these faults."""
    blocks: int
    """Number of blocks that contain these pages."""
    nbytes: int
    """Bytes that the batch migrates to the device."""


_NUMBERS: Final = len(attrs.fields(FaultBatch))
_PACKED: Final = Struct(f"{_NUMBERS}d").pack


class FaultBatches(Sequence[FaultBatch]):
    """The batches so far, in the order in which they ended; each field of a batch takes eight bytes."""

    def __init__(self) -> None:
        self._numbers = array("d")

    def add(self, *numbers: float) -> None:
        """Append a batch; ``numbers`` are the fields of the `FaultBatch`, in their order."""
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
    """Says when the handler has the GPU retry faulted accesses (a replay), and whether it flushes the buffer first."""

    after: Literal["block", "batch", "buffer"]
    """What must have been served before a replay: a block's faults in a batch, a batch, or the whole buffer."""
    flushes: bool = False
    """Whether entries that the batch left out are dropped; the handler then waits for the replay.

    Otherwise it goes on with these entries, which the GPU reports a second time after a replay.
    """


REPLAY_POLICIES: Final[Mapping[str, ReplayPolicy]] = MappingProxyType(
    {
        "block": ReplayPolicy("block"),
        "batch": ReplayPolicy("batch"),
        "batch_flush": ReplayPolicy("batch", flushes=True),
        "once": ReplayPolicy("buffer"),
    }
)
"""Replay policies, by the names of ``UVM_PERF_FAULT_REPLAY_POLICY_*``; ``fault.replay_policy`` chooses one."""


class ReplayChannel:
    """Sends replays (messages that let faulted accesses try again) in order, each after its copies have ended.

    As in the driver, the fault handler queues a replay here and goes on (``push_replay_on_gpu``). ``compute``: the
    mailbox of the compute units, which get the replays.
    """

    def __init__(self, sim: Simulation, compute: Mailbox) -> None:
        self._sim = sim
        self._compute = compute
        self._last: Signal | None = None

    def push(self, copies: list[Signal], replay: ReplayFaults) -> None:
        """Send ``replay`` to the compute units once ``copies`` and the previous replay have ended; do not wait here."""
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


class Served(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The result of serving one block's faults: the seconds it took, and which of the pages must fault again later."""

    seconds: float
    """Time of the driver's own work; 0 when all the pages had translations already."""
    put_off: int = 0
    """Pages that the GPU may not have now, because they thrash and it is the host's turn to have them."""


class GpuFaults:
    """Serves the faults of a device's kernels, block by block; the caller holds the address-space lock for reading.

    It follows ``service_fault_batch_block_locked`` and ``uvm_va_block_service_locked`` of nvidia-uvm.
    """

    def __init__(self, blocks: VaBlocks) -> None:
        self._blocks = blocks

    async def serve(
        self, index: int, faulted: int, entries: int, cause: int, copies: list[Signal], stored: int = 0
    ) -> Served:
        """Serve the faults on one block in one batch; append the copies that this submits to ``copies``.

        index: the block's number. faulted: the faulted pages, a bit set; stored: those of them that stores accessed.
        entries: how many fault-buffer entries report them. cause: the number of the directive whose kernel faulted.
        """
        blocks, pages, thrashing = self._blocks, self._blocks.pages, self._blocks.thrashing
        sim, locks, block = blocks.sim, blocks.locks, pages.block(index)
        waits = blocks.phase("lock", cause, index) if blocks.phase and locks.is_taken(block) else None
        await locks.take(block)  # a prefetch or a host thread may work on it
        if waits is not None:
            waits.end()
        phase: FaultPhase | None = None
        begin = sim.now
        fetched: FetchResult | None = None
        try:
            # Others may have brought a page while the batch waited for this block.
            wanted = faulted & ~(block.resident | block.remote)
            if stored:
                wanted |= faulted & block.read_only & stored
            self._count(block, faulted, wanted)
            if not wanted:
                return Served(0.0)
            if blocks.phase is not None:
                phase = blocks.phase("service", cause, index, wanted.bit_count(), entries)
            if blocks.space.shared or block.read_mostly or block.read_only:
                wanted = await self._map_in_place(block, wanted, cause)
                if not wanted:
                    await blocks.pay(blocks.costs.block + blocks.costs.service_entry * entries)
                    return Served(sim.now - begin)
            thrashes, throttled = thrashing.thrashing(index), 0
            if thrashes or block.prefers_host:
                kept = block.prefers_host & ~block.read_mostly
                throttled, pinned = self._hints(block, wanted & thrashes & ~kept)
                stays = wanted & kept | pinned
                if stays:
                    blocks.map_remote(block, stays)
                wanted &= ~(stays | throttled)
                if not wanted:
                    await blocks.pay(blocks.costs.block if stays else 0.0)
                    return Served(sim.now - begin, throttled)
            brought = self._brought_by(block, wanted, thrashes)
            moved = brought & block.populated
            cost = self._cost_of(block, entries, brought, phase)
            # What the host makes for the GPU is on the host when there is no room.
            evicts = not wanted & block.system
            fetched = await blocks.fetch(block, brought, cost, cause, evicts=evicts, stored=stored, phase=phase)
            if fetched is Fetched.NO_ROOM:
                await blocks.map_without_room(block, wanted)
            else:
                if isinstance(fetched, Moving):
                    copies.append(fetched.signal)
                if moved:
                    thrashing.migrated(index, moved, "device", sim.now)
            return Served(sim.now - begin, throttled)
        finally:
            if phase is not None:
                phase.end()
            if not isinstance(fetched, Moving):
                locks.give(block)

    async def _map_in_place(self, block: ManagedBlock, wanted: int, cause: int) -> int:
        """Serve faults that need no migration to this device; return the pages that are left.

        A store to a page of which this device has a copy invalidates all other copies.  A page that prefers another
        device, which this one reaches, migrates there if need be and is mapped over the link.  So is a page there that
        this device is advised to access (``block_select_processor_residency``).
        """
        blocks, space, here = self._blocks, self._blocks.space, self._blocks.device.local
        if alone := wanted & block.resident:
            await blocks.invalidate_copies(block, alone)
            wanted &= ~alone
        for member, record in [*space.others(here, block.index)]:
            there = member.device.local
            if not space.reaches(here, there):
                continue
            prefers = wanted & record.prefers_here & ~block.read_mostly
            if absent := prefers & ~record.resident:
                # The driver goes on meanwhile and maps behind the copy; here the handler waits for it, once for a page.
                fetched = await member.fetch(record, absent, blocks.costs.block, cause, evicts=True, stored=absent)
                if isinstance(fetched, Moving):
                    await fetched.signal.wait()
                    await blocks.locks.take(block)
            if mapped := wanted & record.resident & (record.prefers_here | block.accessed_by) & ~block.read_mostly:
                await blocks.pay(space.costs.map)
                blocks.map_at_peer(block, mapped, member)
            wanted &= ~(block.resident | block.remote)
        return wanted

    def _count(self, block: ManagedBlock, faulted: int, wanted: int) -> None:
        """Count the faults on pages of a block; those that are not ``wanted`` have a translation already."""
        counters = self._blocks.counters
        if faulted != wanted:
            counters.duplicates += (faulted ^ wanted).bit_count()
        if not wanted:
            return
        if wanted & ~block.valid:
            block.admit(wanted)
        faults = wanted.bit_count()
        own, usage = block.sole
        counters.gpu_fault_groups += 1
        counters.faults += faults
        if usage is not None and not wanted & ~own:
            usage.faults += faults
        else:
            for count, usage in self._blocks.pages.shares(block, wanted):
                usage.faults += count

    def _hints(self, block: ManagedBlock, wanted: int) -> tuple[int, int]:
        """Return which of some thrashing pages are throttled, and which are pinned to the host."""
        throttled = pinned = 0
        while wanted:
            page = wanted & -wanted
            wanted &= ~page
            hint = self._blocks.thrashing.hint(block.index, page.bit_length() - 1, "device", self._blocks.sim.now)
            throttled |= page if hint is Hint.THROTTLE else 0
            pinned |= page if hint is Hint.PIN else 0
        return throttled, pinned

    def _brought_by(self, block: ManagedBlock, wanted: int, thrashes: int) -> int:
        """Return the pages that come to the device for faults on the ``wanted`` pages, with those that are prefetched.

        The prefetcher's tree makes no difference between pages that migrate and pages that nobody has touched.  Of an
        untouched block that prefers this device, the first fault brings all pages
        (``uvm_perf_prefetch_prenotify_fault_migrations``).
        """
        blocks, resident = self._blocks, block.resident
        if block.prefers_here & wanted and not block.populated and blocks.costs.prefetch_tree:
            return block.valid
        brought = pages_brought(blocks.prefetch, resident, wanted, block.valid, thrashes, blocks.prefetch_rules)
        if brought == wanted:
            return wanted
        stays = resident | block.remote
        # A page that is to stay on the host comes only for a fault of its own.
        if block.prefers_host:
            stays |= block.prefers_host & ~(block.read_mostly | wanted)
        if self._blocks.space.shared:
            stays |= self._blocks.space.preferred_by_others(self._blocks.device.local, block.index) & ~wanted
        return brought & block.valid & ~stays | wanted

    def _cost_of(self, block: ManagedBlock, entries: int, brought: int, phase: FaultPhase | None) -> float:
        """Return the seconds of the driver's work for ``entries`` faults on a block that bring these pages."""
        costs, in_place = self._blocks.costs, self._blocks.system_costs
        mapping = self._blocks.map_for_copies(block, block.on_host)
        cost = unmapping = costs.block + costs.service_entry * entries + mapping
        if host_mapped := block.host_mapped & brought:
            stretches = (host_mapped & ~(host_mapped << 1)).bit_count()
            cost += costs.unmap * (host_mapped.bit_count() / self._blocks.pages.per_block)
            cost += costs.unmap_range * (stretches - 1)
        if phase is not None:
            phase.parts = {"map": mapping, "unmap": cost - unmapping}
        if block.system and in_place is not None:
            cost += in_place.first_touch * (brought & block.system & ~block.populated).bit_count()
        return cost


@attrs.frozen
class FaultHandlerStatistics:
    """Statistics of the handler; times are in virtual seconds. busy_s + idle_s is the time elapsed with one worker."""

    busy_s: float
    """Time in which the handler worked on batches of faults, so far."""
    idle_s: float
    wait_s: float
    """Time for which kernels were stalled, minus the copies' time and the time to serve each kernel's own faults."""
    blocks: int
    """Number of served blocks; a block with faults in several batches counts once for each batch with work for it."""
    block_s: float
    """Time of the service of these blocks, without the copies."""


class Service(msgspec.Struct, eq=False):
    """Collects the pages that the page-fault handler has served during one interrupt since it last sent a replay."""

    kernels: tuple[int, ...] | None
    """The kernels that had faults on the served pages; None: any kernel may have had them."""
    served: dict[int, int] = msgspec.field(default_factory=dict)
    """The served pages, as bit sets, by block number."""
    copies: list[Signal] = msgspec.field(default_factory=list)
    """The copies that were submitted for the served pages."""

    def note(self, served: dict[int, int]) -> None:
        """Add pages that were served; ``served`` has a bit set of pages (bit k is page k) for each block number."""
        if not self.served:
            self.served = served
            return
        for index, pages in served.items():
            self.served[index] = self.served.get(index, 0) | pages


class UvmFaultHandler:
    """Serves the GPU faults of one device; ``start`` spawns its actor.

    With ``uncontended``, an ablation, each fault message of ``buffer`` gets an actor: no batch mixes two kernels.
    """

    def __init__(self, blocks: VaBlocks, faults: GpuFaults, buffer: FaultBuffer, *, uncontended: bool = False) -> None:
        self._blocks = blocks
        self.costs = blocks.machine.spec.read(BatchCosts)
        self._faults = faults
        self._buffer = buffer
        self.mailbox = buffer.mailbox
        self._uncontended = uncontended
        names = numbered_from_the_second(self.mailbox.name, "worker")
        self._workers: Servers[ManagedFault] = Servers(blocks.sim, self.mailbox, self._run, names, grow=uncontended)
        self.batches = FaultBatches()
        self._policy = REPLAY_POLICIES[self.costs.policy]
        page = min(blocks.pages.page_size, self.costs.host_page)
        self._reports_a_page = max(page // blocks.pages.reported, 1)
        self._replays = ReplayChannel(blocks.sim, blocks.device.compute.mailbox)
        self._busy = LevelOverTime(blocks.sim)
        self._wait_s = self._block_s = 0.0
        self._served = 0
        self._born = blocks.sim.now

    def start(self) -> None:
        """Spawn a worker that serves faults."""
        self._workers.start()

    async def _run(self) -> None:
        """Serve one interrupt after another, for ever (``uvm_parent_gpu_service_replayable_faults``)."""
        get, ends_once = self.mailbox.get, self._policy.after == "buffer"
        while True:
            seen = [self._buffer.took(await get())]
            self._workers.took_from_mailbox()
            self._busy.rise()
            await self._pay(self.costs.interrupt, "interrupt", seen[0].cause)
            if not self._uncontended:
                self._buffer.put_back(seen[0])
                seen = await self._first_in_buffer()
            service = Service((seen[0].kernel,) if self._uncontended else None)
            while seen:
                seen = await self._batch(seen, service) or self._in_buffer()
            if ends_once:
                await self._pay(self.costs.flush, "replay", NO_CAUSE)
                self._push(service)
            self._busy.fall()
            self._workers.done()

    async def _pay(self, seconds: float, name: str, cause: int, entries: int = 0) -> None:
        """Let the handler work for some seconds, a phase of this name in the trace."""
        opened = self._blocks.phase and self._blocks.phase(name, cause, NONE, 0, entries)
        await self._blocks.pay(seconds)
        if opened:
            opened.end()

    async def _first_in_buffer(self) -> list[ManagedFault]:
        """Take the present entries of the buffer; the handler spins until the first entry is valid."""
        while not (seen := self._buffer.take_arrived()):
            await self._blocks.sim.sleep(self._buffer.until_first())
        return seen

    def _in_buffer(self) -> list[ManagedFault]:
        """Take the present entries of the buffer."""
        return [] if self._uncontended else self._buffer.take_arrived()

    async def _batch(self, seen: list[ManagedFault], service: Service) -> list[ManagedFault]:
        """Fetch a batch of `seen` entries, serve it, and replay as the policy says; return the entries left over."""
        serve, pay, sim, policy = self._faults.serve, self._blocks.pay, self._blocks.sim, self._policy
        costs, counters, begin, phase = self.costs, self._blocks.counters, sim.now, self._blocks.phase
        each_block = policy.after == "block"
        batch = fetch(seen, costs.batch_max)
        entries, left, begun, cause = batch.entries, batch.left, batch.begun, seen[0].cause
        await self._pay(costs.fetch + costs.fetch_entry * entries, "fetch", cause, entries)
        fetched_at = sim.now
        sorted_s = costs.preprocess_entry * sum([coalesced(fault, self._reports_a_page) for fault in batch.faults])
        await self._pay(sorted_s, "preprocess", cause, entries)
        if (injector := self._blocks.machine.injector) is not None:
            for fault in batch.faults:
                injector.page_fault(self._blocks.device.index, fault.kernel)
        merged = merge(batch.faults, self._reports_a_page)
        served, different = merged.pages, merged.different
        preprocessed, moved_before = sim.now, counters.bytes_htod
        took: dict[int, float] = {}
        await self._blocks.locks.space.acquire_read()  # advice must not change the rules within a batch
        try:
            locked = sim.now
            counters.batches += 1
            counters.duplicates += entries - different
            # Blocks are served in the order of their addresses: nvidia-uvm sorts a batch too (preprocess_fault_batch).
            for index in sorted(served):
                entries_of, stored = merged.entries[index], merged.stored.get(index, 0)
                done = await serve(index, served[index], entries_of, cause, service.copies, stored)
                took[index] = done.seconds
                self._block_s += done.seconds
                self._served += done.seconds > 0.0
                if done.put_off:
                    served[index] &= ~done.put_off
                if each_block:
                    service.served[index] = served[index]
                    await self._pay(costs.flush, "replay", cause)
                    self._push(service)
        finally:
            self._blocks.locks.space.release()
        served_at, nbytes = sim.now, counters.bytes_htod - moved_before
        if policy.after == "batch":
            dropped = 0
            if policy.flushes:
                if entries - different > costs.duplicates * entries:
                    left += self._in_buffer()
                dropped = sum([fault.entries for fault in left]) - begun  # ``begun`` of them were fetched
                left, begun = [], 0
            await self._pay(costs.flush + costs.flush_entry * dropped, "replay", cause, dropped)
        self.batches.add(
            begin, fetched_at, preprocessed, locked, served_at, sim.now, entries, different, len(took), nbytes
        )
        for fault in batch.faults:
            self._note_wait(fault, took)
        if policy.flushes:
            opened = phase and phase("copy", cause)
            for copy in service.copies:
                if not copy.is_set:
                    await copy.wait()
            if opened:
                opened.end()
        if not each_block:
            service.note(served)
        if policy.after == "batch":
            self._push(service)
            if policy.flushes:
                await pay(costs.look)
        return [left[0].tail(begun), *left[1:]] if begun else left

    def _push(self, service: Service) -> None:
        """Have the GPU replay what was served since the last replay, once the copies for it have ended."""
        self._replays.push(service.copies, ReplayFaults(service.kernels, service.served))
        service.served, service.copies = {}, []

    def _note_wait(self, fault: ManagedFault, took: dict[int, float]) -> None:
        """Add a kernel's stall beyond the time to serve its faults alone; nothing if none of them needed service."""
        costs = self.costs
        own_s = math.fsum(map(took.__getitem__, dict(fault.pages)))
        if own_s:
            own_s += costs.interrupt + costs.fetch + costs.fetch_entry * fault.entries
            own_s += costs.preprocess_entry * coalesced(fault, self._reports_a_page)
            if (wait_s := self._blocks.sim.now - fault.time - own_s - costs.flush) > 0.0:
                self._wait_s += wait_s

    def statistics(self) -> FaultHandlerStatistics:
        """Return the statistics of the handler so far."""
        busy_s = self._busy.total_s
        idle_s = max(self._blocks.sim.now - self._born - busy_s, 0.0)
        return FaultHandlerStatistics(busy_s, idle_s, self._wait_s, self._served, self._block_s)


class Fetch(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What the handler fetches from the fault buffer: a batch of messages, and the messages that it leaves there."""

    faults: list[ManagedFault]
    """The messages of the batch; the last one may be the first part of a message."""
    entries: int
    """Number of buffer entries of these messages."""
    left: list[ManagedFault]
    """The messages behind the batch; the first one is whole, also if a part of it is in the batch."""
    begun: int
    """Number of entries of the first message of ``left`` that are in the batch."""


def fetch(seen: list[ManagedFault], room: int) -> Fetch:
    """Divide the fault messages in the buffer, ``seen``, into a batch of at most ``room`` entries and the rest."""
    entries = 0
    for position, fault in enumerate(seen):
        if entries + fault.entries > room:
            begun = room - entries
            faults = [*seen[:position], fault.head(begun)] if begun else seen[:position]
            return Fetch(faults, room, seen[position:], begun)
        entries += fault.entries
    return Fetch(seen, entries, [], 0)


class MergedFaults(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The faults of one batch without duplicates, by block number; a set of pages is an int whose bit k is page k."""

    pages: dict[int, int]
    """Pages that faulted."""
    entries: dict[int, int]
    """Number of entries that report the pages after the fetch has merged some, duplicates included."""
    stored: dict[int, int]
    """Pages that stores have accessed; blocks without such pages are left out."""
    different: int
    """Number of different pages."""


def coalesced(fault: ManagedFault, reports_a_page: int) -> int:
    """Return how many entries a fault message has left when neighbouring entries for the same page have been merged.

    reports_a_page: how many entries the GPU writes for a page.
    """
    return min(fault.entries, max(how_many(fault.pages), -(-fault.entries // reports_a_page)))


def merge(faults: list[ManagedFault], reports_a_page: int = 1) -> MergedFaults:
    """Merge the faults of a batch that concern the same page (``preprocess_fault_batch`` of nvidia-uvm).

    reports_a_page: how many entries the GPU writes for one page. A message does not say which entry reports which page,
    so its entries are divided evenly among its pages.
    """
    all_pages: dict[int, int] = {}
    entries: dict[int, int] = {}
    stored: dict[int, int] = {}
    different = 0
    for fault in faults:
        sets, of_fault = fault.pages, coalesced(fault, reports_a_page)
        total = how_many(sets)
        for index, pages in sets:
            own = -(-of_fault * pages.bit_count() // total)
            before = all_pages.get(index, 0)
            different -= (pages & before).bit_count()
            all_pages[index] = before | pages
            entries[index] = entries.get(index, 0) + own
        different += total
        for index, pages in fault.stored.items():
            stored[index] = stored.get(index, 0) | pages
    return MergedFaults(all_pages, entries, stored, different)


class HostFaults:
    """Brings to the host the pages that host threads touch, if a GPU owns them or nobody has touched them yet.

    It follows ``uvm_va_block_cpu_fault``: the host thread that has a fault serves it, without batching. A thread
    accesses one page after another, and each fault brings the page and what the prefetch policy adds, whether the page
    migrates from a GPU or is new.
    """

    def __init__(self, blocks: VaBlocks) -> None:
        self._blocks = blocks

    async def access(self, begin: int, nbytes: int, writes: bool) -> int:
        """Let the calling thread touch managed memory in order; return the number of faults that the thread had.

        Pages that GPUs own migrate back. ``writes``: the thread stores; a load uses a valid copy on the host in place.
        """
        blocks = self._blocks
        members, count, cause = blocks.space.members, 0, blocks.sim.current.cause
        for block, pages in blocks.pages.parts(begin, nbytes):
            for member in members:
                count += await self._reclaim(member, block.index, pages, writes, cause)
            count += await self._populate(block, pages)
            for member in members:
                member.touched_by_host(block.index, pages)
        return count

    async def _reclaim(self, member: VaBlocks, index: int, pages: PageSet, writes: bool, cause: int) -> int:
        """Bring back the pages of a block that a device owns; return the number of faults."""
        block, count = member.pages.block(index), 0
        # A fault brings one page and its neighbours in the tree, so a block may need several. Whoever has the block
        # taken may be about to move a page of it either way, so the thread has to look again after that.
        while self._missing(block, pages, writes) or member.locks.is_taken(block):
            count += await self._fault(member, block, pages, writes, cause)
        member.counters.host_faults += count
        return count

    async def _populate(self, block: ManagedBlock, pages: PageSet) -> int:
        """Populate the untouched pages among `pages` of a block; return the number of faults."""
        blocks, count = self._blocks, 0
        while pages & block.untouched:
            await blocks.locks.space.acquire_read()
            try:
                since = blocks.sim.now
                await blocks.locks.take(block)
                blocks.machine.host_time.add("driver lock", blocks.sim.now - since)
                try:
                    if left := pages & block.untouched:  # others may have come while this thread waited
                        cause = blocks.sim.current.cause
                        opened = blocks.phase and blocks.phase("page fault of the host", cause, block.index, 1)
                        await self._first_touch(block, left & -left)
                        if opened:
                            opened.end()
                        count += 1
                finally:
                    blocks.locks.give(block)
            finally:
                blocks.locks.space.release()
        blocks.counters.host_faults += count
        return count

    async def _first_touch(self, block: ManagedBlock, page: int) -> None:
        """Make an untouched page on the host, with the pages that come along.

        The driver makes host memory in the largest chunk that fits, all of the block if that is one allocation's, and
        clears it at once (``block_populate_pages_cpu``), so that the further faults of the block only map their pages.
        A first touch of what prefers the host brings all of the block
        (``uvm_perf_prefetch_prenotify_fault_migrations``).
        """
        blocks, costs = self._blocks, self._blocks.costs
        per_page = blocks.pages.page_size
        if block.prefers_host & page and not block.populated and costs.prefetch_tree:
            brought = block.valid
        else:
            brought = pages_brought(blocks.prefetch, block.on_host, page, block.valid, 0, blocks.prefetch_rules) | page
        brought &= block.untouched
        await blocks.machine.work(costs.host_first + costs.host_map * brought.bit_count(), "driver")
        if new := block.make_on_host(brought, blocks.pages.per_block):
            await blocks.machine.host_memory.clear(new.bit_count() * per_page)
        for member in blocks.space.members:
            member.touched_by_host(block.index, brought)
        for faults, usage in blocks.pages.shares(block, page):
            usage.host_faults += faults

    def _missing(self, block: ManagedBlock, pages: PageSet, writes: bool) -> int:
        """Return the pages of a device that an access of the host faults on.

        The host reaches system-allocated memory on the device over the coherent link, so that it does not fault there.
        """
        return block.resident & pages & ~(block.system if writes else block.host_copy | block.system)

    async def _fault(self, member: VaBlocks, block: ManagedBlock, pages: PageSet, writes: bool, cause: int) -> int:
        """Bring back the first of some pages that the GPU owns, with what the prefetch policy brings along.

        Returns 1, or 0 when there was no fault after all: the page came meanwhile, or it is throttled and the thread
        has taken a nap.
        """
        sim, locks, host_time = member.sim, member.locks, member.machine.host_time
        since, until = sim.now, -1.0
        await locks.space.acquire_read()
        try:
            await locks.take(block)
            host_time.add("driver lock", sim.now - since)
            try:
                if not (left := self._missing(block, pages, writes)):
                    return 0
                page = left & -left
                place = page.bit_length() - 1
                hint = member.thrashing.hint(block.index, place, "host", sim.now)
                if hint is Hint.THROTTLE:
                    until = member.thrashing.throttled_until(block.index, place)
                else:
                    opened = member.phase and member.phase("page fault of the host", cause, block.index, 1)
                    await self._bring_back(member, block, page, hint, writes, cause)
                    if opened:
                        opened.end()
                    for count, usage in member.pages.shares(block, page):
                        usage.host_faults += count
            finally:
                locks.give(block)
        finally:
            locks.space.release()
        if until < 0.0:
            return 1
        # The thread sleeps without the locks, as nvidia-uvm does: it naps after it has left the block.
        nap = max(until - sim.now, 0.0) * (1.0 + member.thrashing.rules.oversleep)
        await sim.sleep(nap)
        host_time.add("driver", nap)
        return 0

    async def _bring_back(
        self, member: VaBlocks, block: ManagedBlock, page: int, hint: Hint, writes: bool, cause: int
    ) -> None:
        """Move a page to the host; if the page is pinned there, the GPU accesses it over the link."""
        machine, space, sim, thrashing = member.machine, member.space, member.sim, member.thrashing
        thrashes = thrashing.thrashing(block.index)
        brought = pages_brought(member.prefetch, block.on_host, page, block.valid, thrashes, member.prefetch_rules)
        wanted = (brought & block.valid | page) & block.resident
        await machine.work(member.costs.host_fault + member.costs.host_map * wanted.bit_count(), "driver")
        await member.stop_queues(block, wanted, cause)
        since = sim.now
        kept = 0 if writes else wanted & block.read_mostly
        for other, record in [*space.others(member.device.local, block.index)]:
            if gone := record.resident & wanted & ~kept:
                await machine.work(space.costs.unmap, "driver")
                since = sim.now
                other.unmap(record, gone)
                other.release_memory(record)
        await member.copy_home(block, wanted, kept, cause)
        machine.host_time.add("copies", sim.now - since)
        if hint is Hint.PIN:
            member.map_remote(block, page)
        thrashing.migrated(block.index, wanted, "host", sim.now)
        block.map_on_host(wanted)
        member.release_memory(block)
