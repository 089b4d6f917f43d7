"""A machine: the host's cores and memory, and its devices."""

from __future__ import annotations

import itertools

from offloadrt.machine.compute_units import ComputeStatistics
from offloadrt.machine.copy_engine import EngineStatistics
from offloadrt.machine.cores import Cores
from offloadrt.machine.device import Device
from offloadrt.machine.host_memory import HostMemory
from offloadrt.machine.profile import MachineSpec
from offloadrt.sim import Simulation
from offloadrt.trace import Calls, HostTime, Trace


class Machine:
    """The emulated hardware of one run, built from a profile.

    ``devices`` is the number of accelerators in use; ``fill`` the byte that device memory holds which nobody has
    written. Raises ProfileError when the profile lacks an entry.
    """

    def __init__(
        self,
        sim: Simulation,
        spec: MachineSpec,
        trace: Trace | None = None,
        calls: Calls | None = None,
        devices: int = 1,
        fill: int | None = None,
    ) -> None:
        self.sim = sim
        self.spec = spec
        self.trace = trace
        self.calls = calls
        self.host_time = HostTime()
        """Where the time of the host threads goes; everything that lets time pass in one adds to it."""
        self.cores = Cores(sim, spec.count("cpu.cores"), self.host_time, uncontended=spec.flag("core.uncontended"))
        self.host_memory = HostMemory(
            sim,
            self.cores,
            self.host_time,
            spec.value("host.memcpy_1t"),
            spec.value("host.memcpy_max"),
            uncontended=spec.flag("host_memory.uncontended"),
        )
        self.devices = [Device(sim, index, spec, trace, fill) for index in range(devices)]
        self._jitter = spec.value("jitter")
        self.next_number = itertools.count(1).__next__
        """Numbers of copies and kernels, unique in a run."""

    def jitter(self, dt: float) -> float:
        """A unit cost as the profile's jitter has it: ``dt`` when that is 0, else drawn from the run's generator."""
        if not self._jitter:
            return dt
        return dt * float(self.sim.rng.uniform(1.0 - self._jitter, 1.0 + self._jitter))

    def statistics(self) -> dict[str, ComputeStatistics | EngineStatistics]:
        """What the engines of all devices did, by name (``device 0 compute units``, ``device 0 copy engine h2d``)."""
        statistics: dict[str, ComputeStatistics | EngineStatistics] = {}
        for device in self.devices:
            statistics.update(device.statistics())
        return statistics
