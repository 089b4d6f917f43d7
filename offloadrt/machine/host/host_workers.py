"""Algorithms that run in parallel on the host: worker threads that share its cores and its memory.

An algorithm alone takes its roofline time on the workers that it can keep busy: the longer of its arithmetic and its
memory traffic.  Algorithms of several threads divide whichever of the two they wait for (``share.py``); copies within
the host share the memory's bandwidth with them.
"""

from __future__ import annotations

from typing import Annotated

import attrs

from offloadrt.kernels import Launch
from offloadrt.machine.host.host_memory import HostMemory
from offloadrt.machine.level import LevelOverTime
from offloadrt.machine.share import SharedPool
from offloadrt.sim import Simulation
from offloadrt.trace import HostTime


@attrs.frozen
class HostWorkersSpec:
    """What the host's cores can do in an algorithm.  Rates in flop/s and bytes/s, times in seconds."""

    cores: Annotated[int, "cpu.cores"]
    flops: Annotated[float, "cpu.fp64_core"]
    """Arithmetic of one core."""
    bandwidth_1t: Annotated[float, "cpu.stream_1t"]
    """What one core draws of the memory at most."""
    bandwidth_all: Annotated[float, "cpu.stream_max"]
    """What all cores together draw at most."""
    fork_join: Annotated[float, "cpu.fork_join"]
    """Time to start the workers of an algorithm and to wait for the last."""
    uncontended: Annotated[bool, "host_workers.uncontended"]
    """Whether algorithms share no cores (an ablation)."""

    def width(self, launch: Launch, parallel: bool) -> float:
        """Return how many cores an algorithm can keep busy: at most one for each iteration."""
        return float(max(1, min(self.cores, launch.iterations))) if parallel else 1.0


@attrs.frozen
class HostWorkersStatistics:
    """What algorithms on the host did; virtual seconds.  busy_s + idle_s is the time elapsed."""

    busy_s: float
    """Time with an algorithm in progress, up to now."""
    idle_s: float
    """Time without one."""
    wait_s: float
    """Time that the algorithms which have ended took longer than they would have alone, summed over them."""
    algorithms: int
    """Algorithms that have ended."""


class HostWorkers:
    """The host's worker threads, which execute algorithms.

    They do not compete with the computing of the program's host threads (``Cores``): an algorithm's caller waits for
    its end, so only other host threads could lose a core.  A program with as many busy host threads as cores is
    predicted too fast by up to the time of its algorithms.
    """

    __slots__ = ("_algorithms", "_born", "_cores", "_host_time", "_memory", "_running", "_sim", "_wait_s", "spec")

    def __init__(self, sim: Simulation, spec: HostWorkersSpec, memory: HostMemory, host_time: HostTime) -> None:
        self.spec = spec
        self._sim = sim
        self._memory = memory
        self._host_time = host_time
        self._cores = SharedPool(sim, float(spec.cores), "host workers", uncontended=spec.uncontended)
        self._running = LevelOverTime(sim)
        self._born = sim.now
        self._algorithms = 0
        self._wait_s = 0.0

    async def execute(self, launch: Launch, parallel: bool = True) -> None:
        """Execute an algorithm in the calling thread, alone or with all workers, and wait for its end."""
        spec, sim = self.spec, self._sim
        width = spec.width(launch, parallel)
        bandwidth = min(width * spec.bandwidth_1t, spec.bandwidth_all)
        flops = launch.flops + launch.single_flops
        computing, streaming = flops / (spec.flops * width), launch.bytes / bandwidth
        begin = sim.now
        self._running.rise()
        try:
            if parallel:
                await sim.sleep(spec.fork_join)
            # An algorithm waits for the longer of its two parts and divides only that one with others. What it uses of
            # the other is left out, so two algorithms of which one computes and one streams do not slow each other
            # down.
            if streaming > computing:
                part = bandwidth / spec.bandwidth_all
                await self._memory.stream(launch.bytes / spec.bandwidth_all, part)
            elif computing:
                await self._cores.serve(flops / spec.flops, width)
        finally:
            self._running.fall()
            self._host_time.add("compute", sim.now - begin)
        alone = max(computing, streaming) + (spec.fork_join if parallel else 0.0)
        self._algorithms += 1
        self._wait_s += max(sim.now - begin - alone, 0.0)

    def statistics(self) -> HostWorkersStatistics:
        """Return what the workers did so far."""
        busy_s = self._running.some_s
        idle_s = self._sim.now - self._born - busy_s
        return HostWorkersStatistics(busy_s, idle_s, self._wait_s, self._algorithms)
