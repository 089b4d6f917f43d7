"""A device: its memory, compute units, engines and queues, made from a profile.

`DiscreteGpu` has copy engines and hardware queues.  `Apu` (``machine.apu``) has DMA rings, HSA queues, and a page table
for the memory that it shares with the host.  `Device` is what both have.  `Machine` chooses the kind.
"""

from __future__ import annotations

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol, Self

import attrs

from offloadrt.machine.compute.compute_units import ComputeUnits
from offloadrt.machine.compute.residency import ComputeSpec, FaultSpec, KernelFaults, MemoryTraffic, TrafficSpec
from offloadrt.machine.compute.sharing import shared_contexts
from offloadrt.machine.host import HostMemory
from offloadrt.machine.injection import Injector
from offloadrt.machine.links.engines import CopyEngines, DmaRing, EngineSpec, PeerRelay, RemotePort, RingSpec
from offloadrt.machine.links.link import Link
from offloadrt.machine.managed.block import ManagedUsage
from offloadrt.machine.managed.kernels import ManagedKernels, ManagedSpec
from offloadrt.machine.managed.pages import ManagedPages
from offloadrt.machine.memory import DeviceMemory, FaultStatistics, PageTable
from offloadrt.machine.messages import Stream
from offloadrt.machine.profile.machine_spec import MachineSpec, ProfileError, node_topology
from offloadrt.machine.queues import HardwareQueue, HardwareQueues, HsaQueue, HsaQueues, QueueSlots, slot_spec
from offloadrt.sim import Mailbox, Simulation
from offloadrt.trace import Trace


def engine_specs(spec: MachineSpec) -> tuple[EngineSpec, ...]:
    """Return the specs of the copy engines, one for each direction; "p2p" only if devices are linked to each other.

    The engines for other directions than h2d and d2h are divided: those for "p2p" are taken first, but one is left for
    copies within the device ("d2d"). If that leaves too few for "p2p", engines are added, as NVIDIA's driver adds
    engines for links. Raises ProfileError when no engine is left for copies within the device.
    """
    h2d, d2h = spec.count("gpu.copy_engines_h2d"), spec.count("gpu.copy_engines_d2h")
    p2p = spec.count("gpu.copy_engines_p2p") if spec.derived(node_topology).has_peers else 0
    left = spec.count("gpu.copy_engines") - h2d - d2h
    if left < 1:
        reason = f"leaves no engine for copies within the device ({h2d} h2d, {d2h} d2h): set it to {h2d + d2h + 1}"
        raise ProfileError(spec.path, "gpu.copy_engines", f"{reason} at least")
    within = max(left - p2p, 1)
    rates = {
        "h2d": (h2d, spec.value("link.h2d_pinned")),
        "d2h": (d2h, spec.value("link.d2h_pinned")),
        "d2d": (within, spec.value("mem.bw") / 2),  # each byte is read and written
        **({"p2p": (p2p, spec.value("nvlink.link_bw"))} if p2p else {}),  # each transfer names its link
    }
    return tuple(
        EngineSpec(
            direction=direction,
            engines=engines,
            latency=spec.value("p2p.raw_latency" if direction == "p2p" else "copy.latency"),
            bandwidth=bandwidth,
            halts_kernels=direction in ("h2d", "d2h") and spec.text("driver.halt") == "per_transfer",
            engine_uncontended=spec.flag("copy_engine.uncontended"),
            link_uncontended=spec.flag("link.uncontended"),
        )
        for direction, (engines, bandwidth) in rates.items()
    )


def page_size(spec: MachineSpec) -> int:
    """Return a page's size in bytes, a huge page's with ``page.thp``. ProfileError if the profile lacks an entry."""
    return int(spec.value("page.size_thp" if spec.flag("page.thp") else "page.size"))


def fault_spec(spec: MachineSpec) -> FaultSpec:
    """Return the parameters of kernels' page faults. Raises ProfileError if `fault.range` is no multiple of a page."""
    fault, size = spec.read(FaultSpec), page_size(spec)
    if fault.range % size:
        raise ProfileError(spec.path, "fault.range", f"is {fault.range} bytes, no multiple of a page of {size} bytes")
    return fault


class Statistics(Protocol):
    """Attributes that the statistics of every part of a machine have; times are virtual seconds up to now."""

    @property
    def busy_s(self) -> float:
        """Return the time in which the part worked, summed over its servers (cores, engines)."""

    @property
    def idle_s(self) -> float:
        """Return the time without work: the time elapsed times the number of servers, minus ``busy_s``."""

    @property
    def wait_s(self) -> float:
        """Return the time in which actors waited for the part, summed over the actors."""


@attrs.define
class _Shared:
    """State of a device that all processes' views share and that may change."""

    started: bool = False
    """Whether the actors have been spawned."""
    migrations: Mailbox | None = None
    """The mailbox of the actor that carries out prefetches; None until managed memory is in use."""
    injector: Injector | None = None
    """Injects faults; None in a run without injected faults."""


class Device(ABC):
    """One accelerator; its two kinds (`DiscreteGpu`, `Apu`) differ in how they move data and pass commands on.

    Its actors are spawned when the first stream is opened, within a run. Each of several ``processes`` uses the device
    through an object of its own (``of_process``), with its own memory blocks and queues; ``compute/sharing.py`` says
    how their kernels share it. ``fill``: the value of memory bytes that nobody has written. ``faults``: handles an
    APU's page faults. ``first``: the lowest ``index`` of a device on this node.
    """

    shares_memory: ClassVar[bool]
    """Whether kernels and the host's threads use one memory, so that nothing has to be copied or migrated."""

    def __init__(
        self,
        sim: Simulation,
        index: int,
        spec: MachineSpec,
        trace: Trace | None,
        fill: int | None,
        processes: int,
        faults: KernelFaults | None = None,
        first: int = 0,
    ) -> None:
        self.sim = sim
        self.index = index
        """The device's number in the run; in a cluster devices are numbered across nodes, from ``first`` on here."""
        self.local = index - first
        """The device's number on its node."""
        self.process = 0
        """The number of the process whose view of the device this is."""
        self.memory = DeviceMemory(
            index,
            capacity=_capacity(spec),
            segment=int(spec.value("alloc.segment")),
            alignment=int(spec.value("alloc.alignment")),
            fill=fill,
            returns_empty="alloc.empty_segment" in spec.entries and spec.text("alloc.empty_segment") == "returned",
        )
        contexts, self.slicer = None, None
        if processes > 1:
            contexts, self.slicer = shared_contexts(sim, index, spec, processes, trace)
        self.compute = ComputeUnits(sim, index, spec.read(ComputeSpec), trace, faults, contexts)
        self._spec = spec
        self._shared = _Shared()
        self._blits: dict[str, int] = {}
        self._born = sim.now

    def of_process(self, number: int, host_memory: HostMemory) -> Self:
        """Return the object by which process ``number`` uses the device; the device counts its processes.

        ``host_memory``: the host memory of that process.
        """
        if number == self.process:
            return self
        view = copy.copy(self)
        view.process = number
        view.memory = self.memory.of_process(number)
        view._take_own_queues(number, host_memory)
        return view

    @abstractmethod
    def _take_own_queues(self, number: int, host_memory: HostMemory) -> None:
        """Give a new view the parts that its process does not share with others."""

    @property
    def started(self) -> bool:
        """Tell whether the device's actors have been spawned."""
        return self._shared.started

    @property
    def managed(self) -> ManagedKernels | None:
        """Return the object that runs kernels on managed memory; None before managed memory is in use (`manage`)."""
        return self.compute.managed

    @property
    def managed_objects(self) -> Mapping[str, ManagedUsage]:
        """Return how the program's managed memory was used, by the name of the object; empty without such memory."""
        return {} if self.managed is None else self.managed.pages.usage

    def inject(self, injector: Injector) -> None:
        """Let injected faults strike the device's parts, also parts made later; call this before a run."""
        self._shared.injector = self.compute.injector = injector
        for mover in self._movers():
            mover.injector = injector

    @abstractmethod
    def open_stream(self, priority: int = 0) -> Stream:
        """Make a stream; a lower number is a greater priority. Called by a running actor."""

    @abstractmethod
    def _movers(self) -> Sequence[CopyEngines | DmaRing]:
        """Return the parts that carry out copies, in the order in which they are started and reported."""

    def start(self) -> None:
        """Spawn the actors of the compute units and of the copy engines or DMA rings, once."""
        if not self._shared.started:
            self._shared.started = True
            self.sim.spawn_service(self.compute.run, name=self.compute.mailbox.name)
            if self.slicer is not None:
                self.sim.spawn(self.slicer.run, self.compute.mailbox, name=self.slicer.mailbox.name, daemon=True)
            for mover in self._movers():
                mover.start()

    def _start_queue(self, queue: HardwareQueue | HsaQueue) -> None:
        """Start a new queue, and let faults strike it if any are injected."""
        queue.injector = self._shared.injector
        self.sim.spawn_service(queue.run, name=queue.mailbox.name)

    def statistics(self) -> dict[str, Statistics]:
        """Return the statistics of each part so far, by the part's name.

        The parts are the compute units, the time slicer if processes take turns, the engines or rings, the queues in
        use, and on an APU the memory and the page-fault handler.
        """
        parts: dict[str, Statistics] = {self.compute.mailbox.name: self.compute.statistics()}
        if self.slicer is not None:
            parts[self.slicer.mailbox.name] = self.slicer.statistics()
        parts.update({mover.name: mover.statistics() for mover in self._movers()})
        return parts

    def fault_statistics(self) -> FaultStatistics:
        """Return statistics of kernels' page faults in host memory; all 0 on a discrete device, which has none."""
        return FaultStatistics(0, 0, 0, 0.0, 0.0, 0, 0.0, 0.0)

    def add_moved(self, direction: str, nbytes: int) -> None:
        """Add bytes that a kernel has copied (a blit copy) to ``bytes_moved``. direction: h2d, d2h or d2d."""
        self._blits[direction] = self._blits.get(direction, 0) + nbytes

    def bytes_moved(self) -> dict[str, int]:
        """Return the bytes of the transfers that have ended, by direction.

        ``p2p`` is what the device's engines moved over links between devices.  A copy through a neighbour counts twice,
        once for each link; one through the host counts as d2h on one device and as h2d on the other.
        """
        moved = {"h2d": 0, "d2h": 0, "d2d": 0, "p2p": 0}
        for part in (self._blits, *(mover.moved for mover in self._movers())):
            for direction, nbytes in part.items():
                moved[direction] += nbytes
        return moved


class DiscreteGpu(Device):
    """A GPU with its own memory, copy ``engines`` by direction, and hardware ``queues``; parameters as in `Device`."""

    shares_memory = False

    def __init__(
        self,
        sim: Simulation,
        index: int,
        spec: MachineSpec,
        trace: Trace | None,
        fill: int | None = None,
        processes: int = 1,
        first: int = 0,
    ) -> None:
        super().__init__(sim, index, spec, trace, fill, processes, first=first)
        self.engines = {
            engines.direction: CopyEngines(sim, index, engines, self.compute.mailbox, trace)
            for engines in spec.derived(engine_specs)
        }
        self.queues = HardwareQueues(
            self._make_queue,
            min(spec.count("gpu.max_connections"), spec.count("gpu.hw_queues")),
            least_used=spec.text("stream.queue_assignment") == "least_used",
            uncontended=spec.flag("hardware_queue.uncontended"),
        )
        self._made: list[HardwareQueue] = []
        """The queues of all processes, numbered together in the order in which they were made."""
        self.relay: PeerRelay | None = None
        """Carries copies to devices without a link; all devices of a machine share one relay (``Peers``)."""

    def _take_own_queues(self, number: int, host_memory: HostMemory) -> None:
        self.queues = self.queues.of_process(number)

    def open_stream(self, priority: int = 0) -> Stream:
        """Make a stream on the next hardware queue of this priority in turn (a lower number is a greater priority)."""
        self.start()
        return self.queues.open_stream(priority)

    def _movers(self) -> Sequence[CopyEngines]:
        return list(self.engines.values())

    def manage(self, migrations: Mailbox) -> ManagedKernels:
        """Begin to use managed memory: kernels may fault and reach host memory; prefetches go to ``migrations``.

        Call it once. Raises ProfileError when the profile lacks an entry.
        """
        _check_pages(self._spec)
        spec = self._spec.read(ManagedSpec)
        pages = ManagedPages(spec.block, spec.page, spec.reported, self._story)
        ports = {
            direction: RemotePort(
                self.sim,
                self.index,
                direction,
                self.engines[direction].share_link(),
                spec.remote_bandwidth,
                self.compute.mailbox,
            )
            for direction in ("h2d", "d2h")
        }
        self._shared.migrations = migrations
        for queue in self._made:
            queue.migrations = migrations
        self.compute.managed = managed = ManagedKernels(self.compute.kernels, spec, pages, ports)
        managed.buffer.injector = self._shared.injector
        return managed

    def _story(self) -> str:
        """Describe for a driver's error on which device it occurred, when, and in which actor."""
        actor = self.sim.running
        return f"device {self.index} at {self.sim.now:.9g} s" + (f", in {actor.name!r}" if actor is not None else "")

    def reach_peer(self, peer: int, links: Mapping[str, Link], part: float) -> None:
        """Let kernels access managed memory on the device ``peer`` over ``links``.

        Link "h2d" carries bytes from the peer, link "d2h" to the peer. ``part``: the largest fraction of a link's
        bandwidth that one kernel attains.
        """
        assert self.managed is not None, "managed memory is in use"
        for direction, link in links.items():
            name = f"peer {peer} {direction}"
            port = RemotePort(self.sim, self.index, name, link, part * link.bandwidth, self.compute.mailbox)
            self.managed.peer_ports[peer, direction] = port

    def statistics(self) -> dict[str, Statistics]:
        """Return the statistics of each part by its name: the parts of every device, then the queues in use."""
        return super().statistics() | {queue.mailbox.name: queue.statistics() for queue in self._made}

    def _make_queue(self, _: int) -> HardwareQueue:
        queue = HardwareQueue(
            self.sim,
            self.index,
            len(self._made),
            self.engines,
            self.compute.mailbox,
            self._born,
            self._shared.migrations,
            self.relay,
        )
        self._start_queue(queue)
        self._made.append(queue)
        return queue


class Apu(Device):
    """CPU and GPU with one common memory, as in an MI300A: DMA ``rings`` and ``hsa_queues``.

    ``pages`` is the GPU's page table for the memory that it shares with the host; ``faults`` handles kernels that find
    a page missing in that table. The parameters are those of `Device`.
    """

    shares_memory = True

    def __init__(
        self,
        sim: Simulation,
        index: int,
        spec: MachineSpec,
        host_memory: HostMemory,
        trace: Trace | None,
        fill: int | None = None,
        processes: int = 1,
        first: int = 0,
    ) -> None:
        self.pages = PageTable(page_size(spec))
        self.faults = KernelFaults(
            sim, index, self.pages, spec.derived(fault_spec), host_memory.mapped, spec.flag("page.thp")
        )
        super().__init__(sim, index, spec, trace, fill, processes, self.faults, first)
        ring, compute = spec.read(RingSpec), self.compute
        self.traffic = compute.traffic = MemoryTraffic(compute.kernels, spec.read(TrafficSpec))
        rings = spec.count("dma.rings") if spec.flag("dma.multiple_engines") else 1
        self.rings = [DmaRing(sim, index, number, ring, self.traffic, trace) for number in range(rings)]
        queues = spec.count("hsa.queues")
        self.queue_slots: QueueSlots | None = None
        """Schedules HSA queues where they may outnumber the hardware queues; None elsewhere."""
        if (slots := spec.derived(slot_spec)) is not None and queues * processes > slots.slots:
            self.queue_slots = QueueSlots(sim, index, slots)
        self.hsa_queues = HsaQueues(
            self._make_queue,
            queues,
            round_robin=spec.text("hsa.queue_assignment") == "round_robin",
            uncontended=spec.flag("hardware_queue.uncontended"),
        )
        self._made: list[HsaQueue] = []
        """The queues of all processes, numbered together in the order in which they were made."""
        self.next_ring: Callable[[], DmaRing] = itertools.cycle(self.rings).__next__
        """Returns the next DMA ring in turn in this process."""

    def _take_own_queues(self, number: int, host_memory: HostMemory) -> None:
        self.hsa_queues = self.hsa_queues.of_process(number)
        self.next_ring = itertools.cycle(self.rings).__next__
        self.faults.mapped[number] = host_memory.mapped

    def open_stream(self, priority: int = 0) -> Stream:
        """Make a stream; it has no priority, and no HSA queue until it is used. Called by a running actor."""
        self.start()
        return self.hsa_queues.open_stream()

    def _movers(self) -> Sequence[DmaRing]:
        return self.rings

    def inject(self, injector: Injector) -> None:
        """Let injected faults strike the device's parts, also parts made later; call this before a run."""
        super().inject(injector)
        self.faults.injector = injector

    def start(self) -> None:
        """Spawn, once, the actors of the compute units, the DMA rings, and the queue scheduler if there is one."""
        if not self.started:
            super().start()
            if (slots := self.queue_slots) is not None:
                self.sim.spawn_service(slots.run, name=slots.mailbox.name)

    def statistics(self) -> dict[str, Statistics]:
        """Return the statistics of each part so far, by the part's name.

        The parts are those of every device, the memory, the used queues, the queue scheduler, the page-fault handler.
        """
        parts = super().statistics() | {self.traffic.name: self.traffic.statistics()}
        parts.update({queue.mailbox.name: queue.statistics() for queue in self._made})
        if (slots := self.queue_slots) is not None:
            parts[slots.mailbox.name] = slots.statistics()
        return parts | {self.faults.handler.name: self.faults.statistics()}

    def fault_statistics(self) -> FaultStatistics:
        """Return the statistics of the page faults of the device's kernels."""
        return self.faults.statistics()

    def _make_queue(self) -> HsaQueue:
        self.start()
        number = len(self._made)
        queue = HsaQueue(self.sim, self.index, number, self.compute.mailbox, self._born, self.queue_slots)
        self._start_queue(queue)
        self._made.append(queue)
        return queue


def _check_pages(spec: MachineSpec) -> None:
    """Raise ProfileError where a managed page is larger than a unit that consists of such pages."""
    sizes = ("page.gpu_fault", "page.uvm_page", "page.uvm_big", "page.uvm_block")
    for small, large in itertools.pairwise(sizes):
        if spec.value(small) > spec.value(large):
            raise ProfileError(
                spec.path, small, f"is {spec.value(small):.0f} bytes, more than {large} ({spec.value(large):.0f})"
            )


def _capacity(spec: MachineSpec) -> int:
    """Return the bytes of device memory that programs can allocate.

    Raises ProfileError when the reserved part exceeds the memory.
    """
    size, reserved = spec.value("mem.size"), spec.value("mem.reserved")
    if size < reserved:
        raise ProfileError(spec.path, "mem.size", f"is {size:.0f} bytes, less than mem.reserved ({reserved:.0f})")
    return int(size - reserved)
