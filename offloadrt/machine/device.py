"""A device: its memory, compute units, engines and queues, made from a profile.

A discrete GPU has copy engines and hardware queues.  An APU (``machine.apu``) has DMA rings, HSA queues, and a page
table for the memory that it shares with the host.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping

import attrs

from offloadrt.machine.compute.compute_spec import ComputeSpec, ComputeStatistics
from offloadrt.machine.compute.compute_units import ComputeUnits
from offloadrt.machine.compute.kernel_faults import FaultSpec, KernelFaults
from offloadrt.machine.compute.memory_traffic import MemoryTraffic, TrafficSpec, TrafficStatistics
from offloadrt.machine.compute.page_fault import FaultStatistics
from offloadrt.machine.compute.sharing import shared_contexts
from offloadrt.machine.compute.time_slicer import SlicerStatistics
from offloadrt.machine.host.host_memory import HostMemory
from offloadrt.machine.injection.injector import Injector
from offloadrt.machine.links.copy_engine import CopyEngines, EngineSpec, EngineStatistics
from offloadrt.machine.links.dma_ring import DmaRing, RingSpec, RingStatistics
from offloadrt.machine.links.link import Link
from offloadrt.machine.links.peer_relay import PeerRelay
from offloadrt.machine.links.remote_port import RemotePort
from offloadrt.machine.managed.kernels import ManagedKernels, ManagedSpec
from offloadrt.machine.managed.pages import ManagedPages
from offloadrt.machine.managed.usage import ManagedUsage
from offloadrt.machine.memory.device_memory import DeviceMemory
from offloadrt.machine.memory.page_table import PageTable
from offloadrt.machine.profile.machine_spec import MachineSpec, ProfileError
from offloadrt.machine.profile.node import node_topology
from offloadrt.machine.queues.hardware_queue import HardwareQueue, HardwareQueues, QueueStatistics
from offloadrt.machine.queues.hsa_queue import HsaQueue, HsaQueues
from offloadrt.machine.queues.queue_slots import QueueSlots, SlotStatistics, slot_spec
from offloadrt.machine.queues.stream import Stream
from offloadrt.sim import Mailbox, Simulation
from offloadrt.trace import Trace


def engine_specs(spec: MachineSpec) -> tuple[EngineSpec, ...]:
    """Return the specs of the copy engines, one for each direction; p2p only where devices reach one another.

    Those for peers are of ``gpu.copy_engines`` as far as one is left for copies within the device; else they come on
    top, as NVIDIA's driver gives engines to links that it finds.

    Raises ProfileError when no engine is left for copies within the device.
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
    """Return the bytes of a page, which is a huge one with ``page.thp``.

    Raises ProfileError when the profile lacks an entry.
    """
    return int(spec.value("page.size_thp" if spec.flag("page.thp") else "page.size"))


def fault_spec(spec: MachineSpec) -> FaultSpec:
    """Return how kernels fault.

    Raises ProfileError when the range of a service is no multiple of a page.
    """
    fault, size = spec.read(FaultSpec), page_size(spec)
    if fault.range % size:
        raise ProfileError(spec.path, "fault.range", f"is {fault.range} bytes, no multiple of a page of {size} bytes")
    return fault


@attrs.define
class _Shared:
    """What the views of all processes on a device have in common, and may change."""

    started: bool = False
    """Whether the actors have been spawned."""
    migrations: Mailbox | None = None
    """The mailbox of who carries out prefetches; None until managed memory is in use."""
    queues: list[HardwareQueue] = attrs.field(factory=list)
    """The hardware queues of all processes."""
    hsa_queues: list[HsaQueue] = attrs.field(factory=list)
    """The HSA queues of all processes."""
    injector: Injector | None = None
    """Injects faults; None in a run without."""


class Device:
    """One accelerator.  Its actors are spawned when the first stream is opened, within a run.

    A discrete device has ``engines`` and ``queues``; an APU has ``rings``, ``hsa_queues`` and ``faults``.  What the
    other kind has is empty, and ``faults`` is None.  ``pages`` is the device's page table for host memory.

    Several ``processes`` share it as ``compute/sharing.py`` says; each has a view of it (``of_process``), with blocks
    and queues of its own.

    Wide because it is the list of a device's parts; each part is an object with a job of its own.
    """

    def __init__(
        self,
        sim: Simulation,
        index: int,
        spec: MachineSpec,
        host_memory: HostMemory,
        trace: Trace | None,
        fill: int | None = None,
        processes: int = 1,
    ) -> None:
        self.sim = sim
        self.index = index
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
        self.apu = spec.flag("machine.apu")
        self.pages = PageTable(page_size(spec))
        huge = self.apu and spec.flag("page.thp")
        self.faults = (
            KernelFaults(sim, index, self.pages, spec.derived(fault_spec), host_memory.mapped, huge)
            if self.apu
            else None
        )
        self._spec = spec
        contexts, self.slicer = None, None
        if processes > 1:
            contexts, self.slicer = shared_contexts(sim, index, spec, processes, trace)
        self.compute = ComputeUnits(sim, index, spec.read(ComputeSpec), trace, self.faults, contexts)
        self.engines: dict[str, CopyEngines] = {}
        self.rings: list[DmaRing] = []
        self.queue_slots: QueueSlots | None = None
        """Schedules HSA queues where there may be more of them than hardware queues; only on an APU."""
        uncontended = spec.flag("hardware_queue.uncontended")
        connections = queues = 0
        if self.apu:
            ring, compute = spec.read(RingSpec), self.compute
            traffic = compute.traffic = MemoryTraffic(compute.kernels, spec.read(TrafficSpec))
            self.rings += [
                DmaRing(sim, index, number, ring, traffic, trace) for number in range(spec.count("dma.rings"))
            ]
            queues = spec.count("hsa.queues")
            if (slots := spec.derived(slot_spec)) is not None and queues * processes > slots.slots:
                self.queue_slots = QueueSlots(sim, index, slots)
        else:
            for engines in spec.derived(engine_specs):
                self.engines[engines.direction] = CopyEngines(sim, index, engines, self.compute.mailbox, trace)
            connections = min(spec.count("gpu.max_connections"), spec.count("gpu.hw_queues"))
        least_used = not self.apu and spec.text("stream.queue_assignment") == "least_used"
        self.queues = HardwareQueues(self._make_queue, connections, least_used=least_used, uncontended=uncontended)
        self.hsa_queues = HsaQueues(
            self._make_hsa_queue,
            queues,
            round_robin=self.apu and spec.text("hsa.queue_assignment") == "round_robin",
            uncontended=uncontended,
        )
        self._shared = _Shared()
        self.relay: PeerRelay | None = None
        """Carries copies to devices without a link; all discrete devices of a machine share one (``Peers``)."""
        self.next_ring: Callable[[], DmaRing] = itertools.cycle(self.rings).__next__
        """Returns the DMA ring whose turn it is in this process; only an APU has rings."""
        self._blits: dict[str, int] = {}
        self._born = sim.now

    def of_process(self, number: int, host_memory: HostMemory) -> Device:
        """Return the device as the process with this number sees it; ``number`` counts those that share the device.

        ``host_memory`` is that of the process.
        """
        if number == self.process:
            return self
        view = copy.copy(self)
        view.process = number
        view.memory = self.memory.of_process(number)
        view.queues = self.queues.of_process(number)
        view.hsa_queues = self.hsa_queues.of_process(number)
        view.next_ring = itertools.cycle(self.rings).__next__
        if self.faults is not None:
            self.faults.mapped[number] = host_memory.mapped
        return view

    @property
    def started(self) -> bool:
        """Tell whether the device's actors have been spawned."""
        return self._shared.started

    @property
    def managed(self) -> ManagedKernels | None:
        """Return what kernels do with managed memory, once ``manage`` has been called."""
        return self.compute.managed

    @property
    def managed_objects(self) -> Mapping[str, ManagedUsage]:
        """Return what became of the program's managed memory, by the name of the object; empty when it has none."""
        return {} if self.managed is None else self.managed.pages.usage

    def inject(self, injector: Injector) -> None:
        """Let faults strike the device's parts, those included that are made later; call it before a run."""
        self._shared.injector = self.compute.injector = injector
        for engines in self.engines.values():
            engines.injector = injector
        for ring in self.rings:
            ring.injector = injector
        if self.faults is not None:
            self.faults.injector = injector

    def open_stream(self, priority: int = 0) -> Stream:
        """Make a stream, which on an APU holds no HSA queue yet; called by a running actor."""
        self.start()
        return self.hsa_queues.open_stream() if self.apu else self.queues.open_stream(priority)

    def manage(self, migrations: Mailbox) -> ManagedKernels:
        """Use managed memory from now on: kernels fault and reach host memory, prefetches go to ``migrations``.

        Call it once.

        Raises ProfileError when the profile lacks an entry.
        """
        spec = self._spec.read(ManagedSpec)
        pages = ManagedPages(spec.block, spec.page, spec.reported)
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
        for queue in self._shared.queues:
            queue.migrations = migrations
        self.compute.managed = managed = ManagedKernels(self.compute.kernels, spec, pages, ports)
        managed.buffer.injector = self._shared.injector
        return managed

    def reach_peer(self, peer: int, links: Mapping[str, Link], part: float) -> None:
        """Let kernels reach managed memory on another device: ``h2d`` is the link from it, ``d2h`` the one to it.

        ``part``: of a link's bandwidth, what one kernel attains at most.
        """
        assert self.managed is not None, "managed memory is in use"
        for direction, link in links.items():
            name = f"peer {peer} {direction}"
            port = RemotePort(self.sim, self.index, name, link, part * link.bandwidth, self.compute.mailbox)
            self.managed.peer_ports[peer, direction] = port

    def start(self) -> None:
        """Spawn the actors of the compute units and of the copy engines or DMA rings, once."""
        if not self._shared.started:
            self._shared.started = True
            self.sim.spawn_service(self.compute.run, name=self.compute.mailbox.name)
            if self.slicer is not None:
                self.sim.spawn(self.slicer.run, self.compute.mailbox, name=self.slicer.mailbox.name, daemon=True)
            for engines in self.engines.values():
                engines.start()
            for ring in self.rings:
                ring.start()
            if (slots := self.queue_slots) is not None:
                self.sim.spawn_service(slots.run, name=slots.mailbox.name)

    def statistics(
        self,
    ) -> dict[
        str,
        ComputeStatistics
        | SlicerStatistics
        | SlotStatistics
        | EngineStatistics
        | QueueStatistics
        | RingStatistics
        | FaultStatistics
        | TrafficStatistics,
    ]:
        """Return what each part did so far, by the part's name.

        The parts are the compute units, the engines or rings, the queues in use, and on an APU the memory and the
        page-fault handler.
        """
        return {
            self.compute.mailbox.name: self.compute.statistics(),
            **({self.slicer.mailbox.name: self.slicer.statistics()} if self.slicer is not None else {}),
            **{engines.mailbox.name: engines.statistics() for engines in self.engines.values()},
            **{ring.name: ring.statistics() for ring in self.rings},
            **({traffic.name: traffic.statistics()} if (traffic := self.compute.traffic) is not None else {}),
            **{queue.mailbox.name: queue.statistics() for queue in self._shared.queues},
            **{queue.mailbox.name: queue.statistics() for queue in self._shared.hsa_queues},
            **({slots.mailbox.name: slots.statistics()} if (slots := self.queue_slots) is not None else {}),
            **({self.faults.handler.name: self.faults.statistics()} if self.faults is not None else {}),
        }

    def fault_statistics(self) -> FaultStatistics:
        """Return what became of the page faults of its kernels; all 0 on a discrete device."""
        return FaultStatistics(0, 0, 0, 0.0, 0.0, 0, 0.0) if self.faults is None else self.faults.statistics()

    def add_moved(self, direction: str, nbytes: int) -> None:
        """Count ``nbytes`` bytes that a kernel has copied (a blit copy) in ``bytes_moved``."""
        self._blits[direction] = self._blits.get(direction, 0) + nbytes

    def bytes_moved(self) -> dict[str, int]:
        """Return the bytes of the transfers that have ended, by direction.

        ``p2p`` is what the device's engines moved over links between devices.  A copy through a neighbour counts twice,
        once for each link; one through the host counts as d2h on one device and as h2d on the other.
        """
        moved = {"h2d": 0, "d2h": 0, "d2d": 0, "p2p": 0}
        engines = {direction: group.bytes for direction, group in self.engines.items()}
        for part in (engines, self._blits, *(ring.moved for ring in self.rings)):
            for direction, nbytes in part.items():
                moved[direction] += nbytes
        return moved

    def _make_queue(self, _: int) -> HardwareQueue:
        """Make one more hardware queue; those of all processes are numbered together."""
        queue = HardwareQueue(
            self.sim,
            self.index,
            len(self._shared.queues),
            self.engines,
            self.compute.mailbox,
            self._born,
            self._shared.migrations,
            self.relay,
        )
        queue.injector = self._shared.injector
        self.sim.spawn_service(queue.run, name=queue.mailbox.name)
        self._shared.queues.append(queue)
        return queue

    def _make_hsa_queue(self) -> HsaQueue:
        """Make one more HSA queue; those of all processes are numbered together."""
        self.start()
        made = self._shared.hsa_queues
        queue = HsaQueue(self.sim, self.index, len(made), self.compute.mailbox, self._born, self.queue_slots)
        queue.injector = self._shared.injector
        self.sim.spawn_service(queue.run, name=queue.mailbox.name)
        made.append(queue)
        return queue


def _capacity(spec: MachineSpec) -> int:
    """Return the bytes of device memory that programs can have.

    Raises ProfileError when more is reserved than there is.
    """
    size, reserved = spec.value("mem.size"), spec.value("mem.reserved")
    if size < reserved:
        raise ProfileError(spec.path, "mem.size", f"is {size:.0f} bytes, less than mem.reserved ({reserved:.0f})")
    return int(size - reserved)
