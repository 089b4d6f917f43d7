"""A machine: the host's cores and memory, and its devices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Awaitable, Callable
from typing import Protocol

from offloadrt.machine.cores import Cores
from offloadrt.machine.device import Device, page_size
from offloadrt.machine.host_memory import HostMemory
from offloadrt.machine.host_workers import HostWorkers, HostWorkersSpec
from offloadrt.machine.peers import Peers
from offloadrt.machine.profile import MachineSpec
from offloadrt.sim import Simulation
from offloadrt.trace import Calls, HostTime, Trace


class Statistics(Protocol):
    """What each part of a machine says of its time, in virtual seconds up to now; the classes say what is counted."""

    @property
    def busy_s(self) -> float:
        """In which it worked, summed over its servers (cores, engines)."""

    @property
    def idle_s(self) -> float:
        """In which it did not: the rest of the time elapsed, times the number of servers."""

    @property
    def wait_s(self) -> float:
        """In which somebody waited for it, summed over those who did."""


class Machine:
    """The emulated hardware of one run, built from a profile.

    ``devices`` is the number of accelerators in use; ``fill`` the byte that device memory holds which nobody has
    written. ``peers`` are the links between discrete devices; None on an APU. Raises ProfileError when the profile
    lacks an entry, or devices.
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
            page_size=page_size(spec),
            uncontended=spec.flag("host_memory.uncontended"),
        )
        self.devices = [Device(sim, index, spec, self.host_memory, trace, fill) for index in range(devices)]
        self._host_workers: HostWorkers | None = None
        self._jitter = spec.value("jitter")
        self.slowness = _drawn_once(sim, spec.value("noise.run"))
        """What this run's operating system makes of every unit cost of host-side work: a factor, 1.0 without noise."""
        self.exact = not self._jitter and self.slowness == 1.0
        """Whether each step takes its unit cost."""
        self.work: Callable[[float, str], Awaitable[None]] = self.cores.compute if self.exact else self._work
        """``await work(dt, category)``: a step of runtime or driver of unit cost ``dt``, on a core, with this noise."""
        self.next_number = itertools.count(1).__next__
        """Numbers of copies and kernels, unique in a run."""
        self.peers = None if spec.flag("machine.apu") else Peers(sim, spec, self.devices, self.next_number)

    @property
    def host_workers(self) -> HostWorkers:
        """The host as what executes parallel algorithms.  Raises ProfileError when the profile does not say how."""
        if self._host_workers is None:
            spec = self.spec.read(HostWorkersSpec)
            self._host_workers = HostWorkers(self.sim, spec, self.host_memory, self.host_time)
        return self._host_workers

    def _work(self, dt: float, category: str) -> Awaitable[None]:
        return self.cores.compute(self.jitter(dt), category)

    def jitter(self, dt: float) -> float:
        """A unit cost of host-side work as this run's noise and the profile's jitter have it."""
        if not self._jitter:
            return dt * self.slowness
        return dt * self.slowness * float(self.sim.rng.uniform(1.0 - self._jitter, 1.0 + self._jitter))

    def statistics(self) -> dict[str, Statistics]:
        """What every part did so far, by name: ``cores``, ``host memory``, ``device 0 compute units``, ``device 0 copy
        engine h2d``, ``device 0 hardware queue 0``, ``peer link 0-1`` once it has been used, …
        """
        statistics: dict[str, Statistics] = {
            "cores": self.cores.statistics(),
            "host memory": self.host_memory.statistics(),
        }
        if self._host_workers is not None:
            statistics["host workers"] = self._host_workers.statistics()
        for device in self.devices:
            statistics.update(device.statistics())
        if self.peers is not None:
            statistics.update(self.peers.statistics())
        return statistics


def _drawn_once(sim: Simulation, variation: float) -> float:
    """A factor of mean 1 and the given coefficient of variation, from the run's generator: log-normal, so that no cost
    becomes negative. Nothing is drawn for 0.
    """
    if not variation:
        return 1.0
    spread = math.log1p(variation**2)
    return float(sim.rng.lognormal(-spread / 2, math.sqrt(spread)))
