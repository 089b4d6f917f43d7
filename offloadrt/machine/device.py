"""A device: its memory, compute units, copy engines and hardware queues, as a profile describes them."""

from __future__ import annotations

from offloadrt.machine.compute_units import ComputeSpec, ComputeStatistics, ComputeUnits
from offloadrt.machine.copy_engine import CopyEngines, EngineSpec, EngineStatistics
from offloadrt.machine.device_memory import DeviceMemory
from offloadrt.machine.hardware_queue import HardwareQueue, HardwareQueues, QueueStatistics
from offloadrt.machine.profile import MachineSpec, ProfileError
from offloadrt.machine.stream import Stream
from offloadrt.sim import Simulation
from offloadrt.trace import Trace


def engine_specs(spec: MachineSpec) -> list[EngineSpec]:
    """The copy engines of each direction.  Raises ProfileError."""
    h2d, d2h = spec.count("gpu.copy_engines_h2d"), spec.count("gpu.copy_engines_d2h")
    within = spec.count("gpu.copy_engines") - h2d - d2h
    if within < 1:
        raise ProfileError(
            spec.path, "gpu.copy_engines", f"leaves no engine for copies within the device ({h2d} h2d and {d2h} d2h)"
        )
    rates = {
        "h2d": (h2d, spec.value("link.h2d_pinned")),
        "d2h": (d2h, spec.value("link.d2h_pinned")),
        "d2d": (within, spec.value("mem.bw") / 2),  # each byte is read and written
    }
    return [
        EngineSpec(
            direction=direction,
            engines=engines,
            latency=spec.value("copy.latency"),
            bandwidth=bandwidth,
            halts_kernels=direction != "d2d" and spec.text("driver.halt") == "per_transfer",
            engine_uncontended=spec.flag("copy_engine.uncontended"),
            link_uncontended=spec.flag("link.uncontended"),
        )
        for direction, (engines, bandwidth) in rates.items()
    ]


class Device:
    """One accelerator.  Its actors are spawned when the first stream is opened, within a run."""

    def __init__(
        self, sim: Simulation, index: int, spec: MachineSpec, trace: Trace | None, fill: int | None = None
    ) -> None:
        self.sim = sim
        self.index = index
        self.memory = DeviceMemory(
            index,
            capacity=int(spec.value("mem.size") - spec.value("mem.reserved")),
            segment=int(spec.value("alloc.segment")),
            alignment=int(spec.value("alloc.alignment")),
            fill=fill,
        )
        self.compute = ComputeUnits(sim, index, spec.read(ComputeSpec), trace)
        self.engines = {
            one.direction: CopyEngines(sim, index, one, self.compute.mailbox, trace) for one in engine_specs(spec)
        }
        self.queues = HardwareQueues(
            self._make_queue,
            min(spec.count("gpu.max_connections"), spec.count("gpu.hw_queues")),
            uncontended=spec.flag("hardware_queue.uncontended"),
        )
        self.started = False
        self._born = sim.now

    def open_stream(self) -> Stream:
        """A new stream; called by a running actor."""
        self.start()
        return self.queues.open_stream()

    def start(self) -> None:
        """Spawn the compute units and the copy engines, once."""
        if not self.started:
            self.started = True
            self.sim.spawn(self.compute.run, name=self.compute.mailbox.name, daemon=True)
            for engines in self.engines.values():
                engines.start()

    def statistics(self) -> dict[str, ComputeStatistics | EngineStatistics | QueueStatistics]:
        """By name: the compute units, the copy engines of each direction and the hardware queues in use."""
        return {
            self.compute.mailbox.name: self.compute.statistics(),
            **{engines.mailbox.name: engines.statistics() for engines in self.engines.values()},
            **{queue.mailbox.name: queue.statistics() for queue in self.queues.queues},
        }

    def bytes_moved(self) -> dict[str, int]:
        """Bytes of the transfers that have ended, by direction; ``p2p`` is to and from other devices."""
        return {**{direction: one.bytes for direction, one in self.engines.items()}, "p2p": 0}

    def _make_queue(self, number: int) -> HardwareQueue:
        queue = HardwareQueue(self.sim, self.index, number, self.engines, self.compute.mailbox, self._born)
        self.sim.spawn(queue.run, name=queue.mailbox.name, daemon=True)
        return queue
