"""Kernels over managed memory, as the compute units run them: how far each gets, and the faults that it raises.

A kernel has at most as many faults at a time as the uTLBs of its SMs can hold back (``utlb.outstanding_faults`` each).
Where thread blocks access several pages, SMs report theirs side by side (``sweep.py``). Where each warp accesses its
own pages, a uTLB that holds something back takes no new requests (``warps.py``). A page that many blocks touch has an
entry of the fault buffer for each TLB in which the miss is not under way yet (``fault.reports``). A waiting kernel
leaves the SMs to others. When the handler has served a batch of any kernel, the kernel is replayed and reports again
what it still lacks. So the buffer holds duplicates of faults that the handler has not fetched yet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated

import attrs
import msgspec

from offloadrt.kernels import Launch
from offloadrt.machine.compute.residency import ResidentKernel, ResidentKernels
from offloadrt.machine.injection import Injector
from offloadrt.machine.links.engines import RemotePort
from offloadrt.machine.managed.block import PageSet, PageSets, among, begun, how_many, merged, whole_parts, without
from offloadrt.machine.managed.pages import ManagedPages
from offloadrt.machine.managed.sweep import HOST, Accesses, ManagedAccess, ManagedSweep, Residence, order_of
from offloadrt.machine.managed.warps import WARP, ResidentWarps
from offloadrt.machine.messages import (
    AccessNotification,
    ManagedFault,
    RemoteAccess,
    RemoteDone,
    ReplayFaults,
    Unmapped,
)
from offloadrt.machine.share import Ticket
from offloadrt.sim import Mailbox, Simulation
from offloadrt.trace import events


class FaultBuffer:
    """The GPU's buffer of fault entries, at most ``size``, which the page-fault handler empties as its ``mailbox``.

    The GPU writes one entry after another, ``each_s`` seconds apart, even if they come from different SMs.
    """

    def __init__(self, sim: Simulation, name: str, size: int, each_s: float) -> None:
        self.mailbox = Mailbox(sim, name)
        self._sim = sim
        self._size = size
        self.each_s = each_s
        self._entries = 0
        self._free = 0.0
        """Time at which all entries so far are written."""
        self.injector: Injector | None = None

    def put(self, fault: ManagedFault) -> None:
        """Add a kernel's fault entries as far as there is room; the kernel reports the rest after the next replay."""
        room = self._size - self._entries
        if fault.entries > room:
            fault = fault.head(room)
        if fault.entries:
            self._entries += fault.entries
            arrives = max(self._sim.now, self._free)
            self._free = arrives + fault.entries * self.each_s
            fault = msgspec.structs.replace(fault, arrives=arrives)
            name = self.mailbox.name
            if self.injector is not None and self.injector.strike("interrupt", name, f"an interrupt of {name} is lost"):
                self.mailbox.leave(fault)
            else:
                self.mailbox.put(fault)

    def took(self, message: object) -> ManagedFault:
        """Note that the handler has taken a message from the mailbox; free its entries in the buffer, and return it.

        Raises TypeError if the message is no ManagedFault.
        """
        if not isinstance(message, ManagedFault):
            raise TypeError(f"the page-fault handler does not understand {message!r}")
        self._entries -= message.entries
        return message

    def put_back(self, fault: ManagedFault) -> None:
        """Put the message ``fault``, which the handler has taken, back into the buffer, as its first one."""
        self._entries += fault.entries
        self.mailbox.items.appendleft(fault)

    def until_first(self) -> float:
        """Return in how many seconds the GPU has written the buffer's first entry: a whole multiple of ``each_s``."""
        first = self.mailbox.items[0]
        late = first.arrives - self._sim.now if isinstance(first, ManagedFault) and self.each_s else 0.0
        return max(math.ceil(late / self.each_s), 1) * self.each_s if self.each_s else 0.0

    def take_arrived(self) -> list[ManagedFault]:
        """Take the entries that are written by now, in the order of their arrival."""
        items, taken, now, each_s = self.mailbox.items, list[ManagedFault](), self._sim.now, self.each_s
        while items:
            fault = items[0]
            if not isinstance(fault, ManagedFault) or fault.arrives + (fault.entries - 1) * each_s <= now:
                taken.append(self.took(items.popleft()))
                continue
            if fault.arrives <= now:
                entries = int((now - fault.arrives) / each_s) + 1
                items[0] = fault.tail(entries, entries * each_s)
                taken.append(self.took(fault.head(entries)))
            break
        return taken


@attrs.frozen
class CounterSpec:
    """Parameters of the GPU's access counters; sizes are in bytes."""

    threshold: Annotated[int, "access_counter.threshold"]
    """Accesses to a region after which the GPU notifies the driver."""
    access: Annotated[float, "access_counter.access"]
    """Number of bytes that count as one access."""
    sub_region: Annotated[int, "access_counter.sub_region"]
    """Number of parts of a region for each of which a notification says whether it was accessed."""


@attrs.define(eq=False)
class _Region:
    """The counter of one region; ``pages`` are those of the accessed sub-regions."""

    accesses: float = 0.0
    pages: PageSet = 0
    notified: bool = False


class AccessCounters:
    """The access counters of one device, which count kernels' accesses to host memory by region.

    The actor of the compute units counts; the driver's worker resets the counters.
    """

    def __init__(self, sim: Simulation, name: str, spec: CounterSpec, pages: ManagedPages) -> None:
        self.mailbox = Mailbox(sim, name)
        self._sim = sim
        self._spec = spec
        self._pages_a_part = max(1, spec.sub_region // pages.page_size)
        self._regions: dict[int, _Region] = {}
        self._under_way: dict[int, list[tuple[PageSets, float]]] = {}
        """The pages that the current step of each kernel accesses, by the kernel's number."""

    def begin(self, kernel: int, reached: PageSets, nbytes: float) -> None:
        """Note that a kernel begins to move `nbytes` bytes over the link, equally from each page in `reached`."""
        if reached:
            self._under_way.setdefault(kernel, []).append((reached, nbytes))

    def end(self, kernel: int, cause: int) -> None:
        """Count the accesses that `begin` noted for a kernel, now that they are over. cause: its directive's number."""
        for reached, nbytes in self._under_way.pop(kernel, ()):
            accesses_a_page = nbytes / self._spec.access / how_many(reached)
            for index, pages in reached:
                self._count(index, pages, accesses_a_page * pages.bit_count(), cause)

    def clear(self, index: int) -> None:
        """Reset the counter of one region of memory; index: the region's number."""
        self._regions.pop(index, None)

    def _count(self, index: int, pages: PageSet, accesses: float, cause: int) -> None:
        region = self._regions.setdefault(index, _Region())
        if region.notified:
            return
        region.accesses += accesses
        region.pages |= pages
        if region.accesses >= self._spec.threshold:
            region.notified = True
            parts = whole_parts(region.pages, self._pages_a_part)
            self.mailbox.put(AccessNotification(index, parts, cause, self._sim.now))


@attrs.frozen
class ManagedSpec:
    """Parameters of managed memory, in bytes and bytes/s; ``block`` and ``page`` are sizes that the driver uses."""

    block: Annotated[int, "page.uvm_block"]
    page: Annotated[int, "page.uvm_page"]
    touch_chunk: Annotated[int, "managed.touch_chunk"]
    """Largest number of bytes, over all arguments, that a kernel goes through in one step of the emulation."""
    reported: Annotated[int, "page.gpu_fault"]
    """Size that the GPU reports with one fault; pages of the driver may be larger."""
    buffer: Annotated[int, "fault.buffer"]
    """Number of entries that the fault buffer holds."""
    arrival: Annotated[float, "fault.arrival"]
    """Seconds between two entries in the fault buffer while many accesses fault."""
    outstanding: Annotated[int, "utlb.outstanding_faults"]
    """Number of faulting accesses that a uTLB (first-level table of translations) can hold back."""
    sharers: Annotated[int, "utlb.sms"]
    """Number of SMs that share a uTLB."""
    reports: Annotated[float, "fault.reports"]
    """How often the GPU reports a page that thread blocks on all SMs miss at the same time."""
    remote_bandwidth: Annotated[float, "remote.access_bw"]
    """Bandwidth of one direction of the link for kernels' accesses to host memory."""
    sector: Annotated[int, "remote.sector"]
    """Unit of transfers over the link, in bytes."""
    line: Annotated[int, "remote.line"]
    """Largest size of one request in bytes; a request reads or writes sectors of one line."""
    requests: Annotated[int, "remote.requests"]
    """Number of reads that may be in flight at the same time."""
    latency: Annotated[float, "remote.latency"]
    """Seconds that one read takes."""
    partial_write: Annotated[float, "remote.partial_write"]
    """Seconds that the host takes for a write of less than a line; such writes are serialized."""

    def attained(self, request: float, direction: str) -> float:
        """Return the bandwidth, in bytes/s, that requests of `request` bytes attain over the link (h2d or d2h).

        Reads are limited by their number in flight and their latency (Little's law). Writes are posted: nobody waits
        for them, but they keep their order (PCIe Base Specification, ordering rules), and the host has to merge a
        partial write with the rest of its line.
        """
        if direction == "h2d":
            return self.requests * request / self.latency if self.latency else math.inf
        return request / self.partial_write if request < self.line and self.partial_write else math.inf


class ManagedKernels:
    """Runs a device's kernels over managed memory, as a part of the compute units' actor.

    Kernels that miss pages write faults to ``buffer``, which the driver empties. ``ports`` lead to host memory.
    """

    def __init__(
        self, kernels: ResidentKernels, spec: ManagedSpec, pages: ManagedPages, ports: dict[str, RemotePort]
    ) -> None:
        self.sim = kernels.sim
        self.spec = spec
        self.pages = pages
        self.buffer = FaultBuffer(kernels.sim, f"device {kernels.device} page fault handler", spec.buffer, spec.arrival)
        self.running = 0
        """Number of kernels in a step; whoever removes translations has to tell the compute units if it is not 0."""
        self._kernels = kernels
        self.ports = ports
        self.peer_ports: dict[tuple[int, str], RemotePort] = {}
        """The ports to the memory of other devices, by device and direction, where there are any."""
        self.access_counters: AccessCounters | None = None
        """Counts accesses to host memory that kernels use in place; None where nobody requests counts."""
        self.drawn_uses: dict[str, None] = {}
        """Names of kernels whose indices are data without values: the accessed positions are drawn as declared."""
        self.unknown_uses: dict[str, None] = {}
        """Names of kernels that used memory over a link, of which nobody has said what they read and what they write.

        They are assumed to read and to write all arrays.
        """

    def begin(self, resident: ResidentKernel) -> None:
        """Divide a kernel into windows (groups of threads that are resident at the same time) and start the first."""
        if any(access.visits for access in resident.packet.accesses):
            trace = resident.packet.trace
            if trace is None or not trace.elements.is_known:
                self.drawn_uses[resident.packet.launch.kernel.name] = None
        compute, launch, total, later = self._kernels.spec, resident.packet.launch, 0, 0
        swept: list[int] = []
        for access in resident.packet.accesses:
            total += access.nbytes
            swept.append(0 if access.scattered else round(access.nbytes * access.part_of_pages(self.spec.reported)))
            later += swept[-1] if access.level else 0
        # A window has as many threads as are resident at a time, unless these sweep over more pages than the SMs can
        # hold faults back for: then it has fewer.
        on_sm = compute.limits.resident_teams(launch)
        teams = min(launch.teams, compute.sms * on_sm)
        held_back = self.spec.outstanding * max(1, compute.sms // self.spec.sharers) * self.spec.reported
        windows = max(1, -(-launch.iterations // (teams * launch.threads)), -(-sum(swept) // held_back))
        resident_warps: ResidentWarps | None = None
        if (trace := resident.packet.trace) is not None:
            windows = -(-launch.teams // teams)
            held, reports = self.spec.outstanding, self.spec.reports
            resident_warps = ResidentWarps(trace, launch, compute.sms, self.spec.sharers, held, windows, reports)
        order = None
        if trace is None:
            order = order_of(launch, Residence(compute.sms, on_sm, held_back, self.spec.reported), swept)
        windows = windows if order is None else order.windows
        ahead = min(1.0 / _teams_held(resident.packet.accesses, launch), windows * held_back / max(later, 1))
        longest = self.spec.touch_chunk * windows // max(total, 1)
        used = -(-min(compute.sms, teams) // self.spec.sharers)
        resident.sweep = ManagedSweep.of(
            resident.packet.accesses,
            windows,
            longest,
            1 if order is not None or trace is not None else max(1, int(ahead)),
            self.spec.outstanding * used,
            [self._reports(access, launch) for access in resident.packet.accesses],
            [self._pages_of_a_warp(access, launch) for access in resident.packet.accesses],
            self.pages,
            self.sim.rng,
            order,
            resident_warps,
        )
        self._step(resident, resident.sweep)

    def _reports(self, access: ManagedAccess, launch: Launch) -> float:
        """Return how many fault entries a missing page gets: one for each thread block that touches it, capped."""
        if access.scattered or not access.nbytes:
            return 1.0
        width = launch.threads if launch.tile is None else launch.tile.width
        thread_blocks = self.spec.reported * launch.iterations // max(access.nbytes * width, 1)
        return min(max(thread_blocks, 1), launch.teams, self.spec.reports)

    def _pages_of_a_warp(self, access: ManagedAccess, launch: Launch) -> int:
        """Return how many pages a warp touches with one instruction, at least one."""
        pages = access.scattered or access.nbytes / self.pages.page_size
        return max(1, min(WARP, math.ceil(WARP * pages / max(launch.iterations, 1))))

    def goes_on(self, resident: ResidentKernel) -> bool:
        """Let a kernel (``resident``) go on that has worked up to a missing page; return False if no work is left."""
        sweep = resident.sweep
        assert sweep is not None
        self.running -= 1
        sweep.enter(sweep.until)
        if sweep.remote:
            self._kernels.stalled[resident.packet.number] = resident
        elif not sweep.over:
            self._step(resident, sweep)
        else:
            sweep.leave(self.pages)
            return False
        return True

    def understand(self, message: ReplayFaults | Unmapped | RemoteDone) -> None:
        """React to a message about the pages of kernels.

        `ReplayFaults` resumes kernels that stall at faults, `RemoteDone` the one whose access over the link is done.
        After `Unmapped`, running kernels stall at the pages that were removed.
        """
        if isinstance(message, ReplayFaults):
            for number, resident in [*self._kernels.stalled.items()]:
                if resident.sweep is not None and resident.sweep.needed and number in (message.kernels or (number,)):
                    self._replay(resident, resident.sweep, message.served)
        elif isinstance(message, RemoteDone):
            self._reached(message.kernel)
        else:
            for ticket, resident in [*self._kernels.resident.items()]:
                sweep = resident.sweep
                if sweep is not None and sweep.reaches(self.pages, message.low, message.high):
                    self._shorten(ticket, resident, sweep)

    # steps

    def _step(self, resident: ResidentKernel, sweep: ManagedSweep) -> None:
        """Run a kernel up to its next fault, or stall it until the faults are served that it raises here."""
        if missing := self._missing(sweep):
            self._stall(resident, sweep, missing)
            return
        sweep.plan(self.pages, self.sim.rng)
        if self.pages.remote_pages:
            self._reach(resident, sweep)
        self.running += 1
        self._kernels.work(resident, (sweep.until - sweep.at) / sweep.windows, 1)

    def _missing(self, sweep: ManagedSweep) -> PageSets:
        """Return the missing pages of the window at the first level that has any."""
        while sweep.level < len(sweep.levels):
            if sweep.level == 1:
                sweep.look_ahead(self.pages)
            missing = sweep.missing(self.pages, sweep.levels[sweep.level], self.sim.rng)
            sweep.level += 1
            if missing:
                return missing
        return ()

    def _shorten(self, ticket: Ticket, resident: ResidentKernel, sweep: ManagedSweep) -> None:
        """Shorten a kernel's step, because translations were removed that the rest of the step may need.

        A step that waits for the link stays as it is.
        """
        if sweep.remote:
            return
        kernels, steps = self._kernels, sweep.until - sweep.at
        del kernels.resident[ticket]
        amount = resident.alone * resident.demand * steps / sweep.windows
        left = kernels.share.leave(self.sim.now, ticket)
        # Work is spread evenly over a step, so the windows that are done follow from the work that is left.
        done = steps * (1.0 - (left / amount if amount else 0.0))
        sweep.plan_anew(self.pages, self.sim.rng, done)
        kernels.work(resident, max(sweep.until - sweep.at - done, 0.0) / sweep.windows, 1)

    # faults

    def _stall(self, resident: ResidentKernel, sweep: ManagedSweep, missing: PageSets) -> None:
        packet = resident.packet
        resident.stalled_since = self.sim.now
        self._kernels.stalled[packet.number] = resident
        self._raise(resident, sweep, missing)
        if (trace := self._kernels.trace) is not None:
            queue = packet.stream.queue.number
            trace(events.PageFaultBegin, self._kernels.device, queue, packet.cause, packet.number, how_many(missing))

    def _raise(self, resident: ResidentKernel, sweep: ManagedSweep, missing: PageSets) -> None:
        """Report missing pages to the fault buffer. A repeated report has its part of the first report's entries."""
        packet = resident.packet
        if sweep.needed:
            before = how_many(sweep.needed.items())
            sweep.entries = -(-sweep.entries * how_many(missing) // before)
            missing = among(sweep.in_order, dict(missing))
        else:
            sweep.in_order = missing
        sweep.needed = merged(missing)
        entries = sweep.entries
        if entries > sweep.outstanding:
            missing, entries = begun(missing, entries, sweep.outstanding), sweep.outstanding
        self.buffer.put(ManagedFault(missing, entries, packet.number, packet.cause, self.sim.now, sweep.stored))

    def _replay(self, resident: ResidentKernel, sweep: ManagedSweep, served: Mapping[int, int]) -> None:
        """Let a kernel try again after a batch: it goes on, or faults on the pages that the batch left out.

        A served page counts as touched, even when it has been evicted since.
        """
        packet = resident.packet
        if sweep.warps is not None:
            sweep.warps.go_on(self.pages, served)
            sweep.level = 0
            if missing := self._missing(sweep):
                sweep.needed = {}
                self._raise(resident, sweep, missing)
                return
        elif sweep.needed != served:
            missing = self.pages.still_unmapped(without(sweep.needed, served), sweep.stored)
            if missing:
                self._raise(resident, sweep, missing)
                return
        if (trace := self._kernels.trace) is not None:
            queue, pages = packet.stream.queue.number, how_many(sweep.needed.items())
            trace(events.PageFaultEnd, self._kernels.device, queue, packet.cause, packet.number, pages)
        sweep.needed = {}
        del self._kernels.stalled[packet.number]
        self._step(resident, sweep)

    # host memory over the link

    def _reach(self, resident: ResidentKernel, sweep: ManagedSweep) -> None:
        """Start the transfers for what the current step reads and writes in host memory over the link.

        In the first window, a load that needs the value of another one waits for its latency, too; later windows load
        while others wait, so that their requests in flight alone limit them (`ManagedSpec.attained`).
        """
        spec, moved, chain = self.spec, dict[tuple[int, str], list[float]](), set[int]()
        for place, device, read, written in sweep.remote_bytes(self.pages, spec.sector):
            access = sweep.accesses[place]
            for direction, nbytes, places in (("h2d", read, access.reads), ("d2h", written, access.writes)):
                total = moved.setdefault((device, direction), [0.0, 0.0])
                total[0] += nbytes
                if nbytes and device == HOST:
                    total[1] += nbytes / spec.attained(access.request(places, spec.sector, spec.line), direction)
                    if direction == "h2d" and not sweep.at:
                        chain.add(access.level)
            if access.reads is None and access.writes is None:
                self.unknown_uses[resident.packet.launch.kernel.name] = None
            if self.access_counters is not None and device == HOST:
                reached = sweep.host_pages(self.pages, place)
                self.access_counters.begin(resident.packet.number, reached, read + written)
            self.pages.usage_at(access.begin).remote_bytes += read + written
        for (device, direction), (nbytes, least_s) in moved.items():
            if nbytes:
                sweep.remote += 1
                port = self.ports[direction] if device == HOST else self.peer_ports[device, direction]
                attained = nbytes / least_s if least_s else math.inf
                loads = len(chain) if device == HOST and direction == "h2d" else 0
                # The last load of the chain waits while its own bytes come; all before it wait for nothing else.
                wait = max(loads * spec.latency - least_s, max(loads - 1, 0) * spec.latency)
                port.submit(RemoteAccess(resident.packet.number, nbytes, attained, wait))

    def _reached(self, number: int) -> None:
        """Count down the transfers of a kernel's step over the link, as one has ended; the step waits for the last."""
        stalled = self._kernels.stalled
        resident = stalled.get(number)
        if resident is None:
            resident = next(other for other in self._kernels.resident.values() if other.packet.number == number)
        sweep = resident.sweep
        assert sweep is not None
        sweep.remote -= 1
        if not sweep.remote and self.access_counters is not None:
            self.access_counters.end(number, resident.packet.cause)
        if not sweep.remote and number in stalled:
            del stalled[number]
            if sweep.over:
                sweep.leave(self.pages)
                resident.sweep = None  # its last step: it ends as any kernel
                self._kernels.work(resident, 0, 1)
            else:
                self._step(resident, sweep)


def _teams_held(accesses: Accesses, launch: Launch) -> float:
    """Return the fraction of a kernel's teams that have a thread with dependent accesses (level 1 or higher).

    It is below 1 where a branch leaves such accesses out for some threads.

    The arrays that these depend on need not be managed: device memory is at level 0, too, and always present.
    """
    later = [access for access in accesses if access.level]
    if not later or any(not (access.visits) for access in later):
        return 1.0
    most = max(access.visits for access in later)
    return max(-math.expm1(-most * launch.threads / max(1, launch.iterations)), 1.0 / launch.teams)
