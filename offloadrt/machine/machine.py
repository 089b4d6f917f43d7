"""A machine: the host's cores and memory, and its devices, whole or split into MIG instances.

``Machine`` only builds the parts from a profile and holds them; each part has a module of its own.
"""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import attrs

from offloadrt.machine.device import Apu, Device, DiscreteGpu, Statistics, page_size
from offloadrt.machine.host import Cores, HostMemory, HostWorkers, HostWorkersSpec, PopulationSpec
from offloadrt.machine.injection import Injector
from offloadrt.machine.links.peers import Peers, SocketMemory
from offloadrt.machine.profile.machine_spec import MachineSpec, ProfileError
from offloadrt.sim import Simulation
from offloadrt.trace import Calls, HostTime, Trace

# ---------------------------------------------------------------------- MIG
# MIG: a GPU as several instances, each with SMs, copy engines and a part of memory, cache and bandwidth of its own.
#
# A GPU has seven compute slices and eight memory slices. An instance is named by its compute slices and its memory,
# as ``nvidia-smi mig -lgip`` names it: 1g.5gb on an A100 of 40 GB, 1g.10gb on one of 80 GB. It takes adjacent memory
# slices from certain places on (NVIDIA Multi-Instance GPU User Guide, Supported MIG Profiles), so not every split
# that would fit by its sums is possible. What instances have in common is the link to the host. Two simplifications:
# an instance has a copy engine for each direction, where a 1g instance has one for both; and one compute instance
# fills a GPU instance.
COMPUTE_SLICES: Final = 7
MEMORY_SLICES: Final = 8

_PLACES: Final[dict[tuple[int, int], tuple[int, ...]]] = {
    (1, 1): (0, 1, 2, 3, 4, 5, 6),
    (1, 2): (0, 2, 4, 6),
    (2, 2): (0, 2, 4),
    (3, 4): (0, 4),
    (4, 4): (0,),
    (7, 8): (0,),
}
"""For an instance's numbers of compute and memory slices, the memory slices at which it may begin."""


class ImpossibleSplit(ProfileError):
    """Raised for MIG instances that do not fit on the GPU together, or an instance profile that it does not have."""


@attrs.frozen
class InstanceProfile:
    """A MIG instance profile: its numbers of compute slices and of memory slices."""

    compute: int
    memory: int

    def name(self, mem_size: float) -> str:
        """Return the profile's name on a GPU with `mem_size` bytes of memory, such as ``3g.40gb``."""
        return f"{self.compute}g.{math.floor(mem_size / 1e9 * self.memory / MEMORY_SLICES + 0.5)}gb"


def instances_of(spec: MachineSpec) -> list[InstanceProfile]:
    """Return the instances into which ``mig.instances`` splits the GPU.

    Raises ImpossibleSplit for a profile that the GPU does not have, and for a split that is not possible.
    """
    size, key = spec.value("mem.size"), "mig.instances"
    known = {profile.name(size): profile for profile in (InstanceProfile(*slices) for slices in _PLACES)}
    words = [] if (text := spec.text(key)) == "none" else re.split(r"[,\s]+", text.strip())
    if not words:
        raise ImpossibleSplit(
            spec.path, key, f"is none, but process.sharing is mig; name instances: {', '.join(known)}"
        )
    for word in words:
        if word not in known:
            raise ImpossibleSplit(spec.path, key, f"{word!r} is no profile of this GPU; there are {', '.join(known)}")
    profiles = [known[word] for word in words]
    compute = sum(profile.compute for profile in profiles)
    if compute > COMPUTE_SLICES:
        reason = f"{' '.join(words)} takes {compute} compute slices, and the GPU has {COMPUTE_SLICES}"
        raise ImpossibleSplit(spec.path, key, f"Insufficient Resources: {reason}")
    if not _fit(sorted(profiles, key=lambda profile: -profile.memory), frozenset()):
        places = {word: " or ".join(map(str, _PLACES[known[word].compute, known[word].memory])) for word in words}
        where = "; ".join(f"{word} begins at memory slice {at}" for word, at in places.items())
        raise ImpossibleSplit(spec.path, key, f"Insufficient Resources: {' '.join(words)} has no placement ({where})")
    return profiles


def _fit(profiles: list[InstanceProfile], taken: frozenset[int]) -> bool:
    """Tell whether all of these instances can be placed on memory slices that are not in ``taken``."""
    if not profiles:
        return True
    first, *others = profiles
    for begin in _PLACES[first.compute, first.memory]:
        wanted = frozenset(range(begin, begin + first.memory))
        if not wanted & taken and _fit(others, taken | wanted):
            return True
    return False


def instance_spec(spec: MachineSpec, profile: InstanceProfile) -> MachineSpec:
    """Return the profile of the machine as a process in a MIG instance of this kind sees it.

    Raises ProfileError when the profile lacks an entry.
    """
    sms = spec.count("mig.slice_sms") * profile.compute
    if profile.compute == COMPUTE_SLICES:
        sms = spec.count("mig.all_sms")
    part, memory = sms / spec.count("gpu.sms"), profile.memory / MEMORY_SLICES
    return spec.with_overrides({
        "gpu.sms": sms,
        **{key: f"{spec.value(key) * part / 1e9!r} GFLOP/s" for key in ("gpu.fp64", "gpu.fp32")},
        **{key: f"{spec.value(key) * memory!r} B" for key in ("mem.size", "mem.reserved", "mem.l2")},
        "mem.bw": f"{spec.value('mem.bw') * memory / 1e9!r} GB/s",
    })  # fmt: skip


class Machine:
    """The emulated hardware of one run, built from a profile.

    ``calls`` counts API calls. ``devices`` is the number of accelerators in use. ``fill`` is the value of each byte of
    device memory that nobody has written. ``peers`` holds the links between discrete devices; None on an APU. Each of
    several ``processes`` uses the machine through an object of its own (``of_process``), with its own address space and
    GPU contexts on the same hardware. ``injector`` injects faults; None: no faults. ``beside`` is the previous node of
    a cluster: the numbers of processes, devices, copies and kernels continue from there. Raises ProfileError when the
    profile lacks an entry, or has fewer devices.
    """

    def __init__(
        self,
        sim: Simulation,
        spec: MachineSpec,
        trace: Trace | None = None,
        calls: Calls | None = None,
        devices: int = 1,
        fill: int | None = None,
        processes: int = 1,
        injector: Injector | None = None,
        beside: Machine | None = None,
    ) -> None:
        self.sim = sim
        self.node: int = 0 if beside is None else beside.node + 1
        """The machine's number among the nodes of a cluster."""
        self.first_process: int = 0 if beside is None else beside.first_process + beside.processes
        """The number of the first process on this node."""
        first_device = 0 if beside is None else (beside._instances or beside.devices)[-1].index + 1
        self.process = self.first_process
        """The number of the process whose view of the machine this is."""
        self.processes: int = processes
        """How many processes share the machine."""
        self.spec = spec
        self.trace = trace
        self.calls = calls
        self.injector = injector
        self.host_time: HostTime = HostTime() if beside is None else beside.host_time
        """Times of the host threads by category; whatever lets time pass in a host thread adds to it."""
        self.cores = Cores(sim, spec.count("cpu.cores"), self.host_time, uncontended=spec.flag("core.uncontended"))
        self.host_memory = HostMemory(
            sim,
            self.cores,
            self.host_time,
            spec.value("host.memcpy_1t"),
            spec.value("host.memcpy_max"),
            # On an APU, whose GPU maps what the host has, both page tables have one size of page.
            page_size=page_size(spec) if spec.flag("machine.apu") else int(spec.value("page.size")),
            uncontended=spec.flag("host_memory.uncontended"),
            population=partial(spec.read, PopulationSpec),
        )
        if self.process:
            self.host_memory = self.host_memory.of_process(self.process)
        self.sockets = SocketMemory(sim, spec)
        """The memory at each socket of the host."""
        self._instances: list[DiscreteGpu] = []
        """The MIG instances of the machine's GPU, among which the processes are divided; empty without MIG."""
        gpus: list[DiscreteGpu] | None = None
        self.devices: Sequence[Device]
        if "process.sharing" in spec.entries and spec.text("process.sharing") == "mig":
            self._instances = self._split(spec, devices, trace, fill, first_device)
            self.devices = gpus = self._instances[:1]
        elif spec.flag("machine.apu"):
            self.devices = [
                Apu(sim, index, spec, self.host_memory, trace, fill, processes, first_device)
                for index in range(first_device, first_device + devices)
            ]
        else:
            self.devices = gpus = [
                DiscreteGpu(sim, index, spec, trace, fill, processes, first_device)
                for index in range(first_device, first_device + devices)
            ]
        if injector is not None:
            for device in self._instances or self.devices:
                device.inject(injector)
        self._host_workers: HostWorkers | None = None
        self._jitter = spec.value("jitter")
        self.slowness = _drawn_once(sim, spec.value("noise.run"))
        """This run's factor on every cost of host-side work, for the operating system's noise; 1.0 without noise."""
        self.exact = not self._jitter and self.slowness == 1.0
        """Whether each step takes exactly its unit cost, without jitter and noise."""
        self.work: Callable[[float, str], Awaitable[None]] = self.cores.compute if self.exact else self._work
        """``await work(dt, category)`` occupies a core for a step of the runtime or driver with unit cost ``dt``."""
        self.next_number: Callable[[], int] = itertools.count(1).__next__ if beside is None else beside.next_number
        """Returns the next number of a copy or kernel; these numbers are unique in a run."""
        self.peers = None if gpus is None else Peers(sim, spec, gpus, self.next_number)

    def gpu(self, number: int = 0) -> DiscreteGpu:
        """Return a discrete GPU by its number; raises ProfileError on a machine with APUs."""
        if isinstance(device := self.devices[number], DiscreteGpu):
            return device
        raise ProfileError(self.spec.path, "machine.apu", "is true, so that there is no discrete GPU")

    def apu(self, number: int = 0) -> Apu:
        """Return an APU by its number; raises ProfileError on a machine with discrete GPUs."""
        if isinstance(device := self.devices[number], Apu):
            return device
        raise ProfileError(self.spec.path, "machine.apu", "is false, so that there is no APU")

    def of_process(self, number: int) -> Machine:
        """Return process `number`'s view of the machine, with its own memory and contexts on the shared hardware."""
        if number == self.process:
            return self
        view = copy.copy(self)
        view.process = number
        view.host_memory = self.host_memory.of_process(number)
        local = view.local_process
        if split := self._instances:
            view.devices = [split[local % len(split)].of_process(local // len(split), view.host_memory)]
        else:
            view.devices = [device.of_process(local, view.host_memory) for device in self.devices]
        return view

    @property
    def local_process(self) -> int:
        """Return the process's number among the processes of its node, from 0."""
        return self.process - self.first_process

    def _split(
        self, spec: MachineSpec, devices: int, trace: Trace | None, fill: int | None, first: int
    ) -> list[DiscreteGpu]:
        """Make the MIG instances, which take the processes in turn and share the link to the host.

        Raises ImpossibleSplit, and ProfileError for several GPUs.
        """
        if devices > 1:
            raise ProfileError(
                spec.path, "process.sharing", "is mig: a process finds one MIG instance, not several GPUs"
            )
        profiles, made = instances_of(spec), []
        for number, profile in enumerate(profiles):
            own = instance_spec(spec, profile)
            sharers = len(range(number, self.processes, len(profiles)))
            made.append(DiscreteGpu(self.sim, first + number, own, trace, fill, sharers, first))
            for direction in ("h2d", "d2h") if number else ():
                made[number].engines[direction].share_link_of(made[0].engines[direction])
        return made

    def named(self, name: str, device: int = 0) -> str:
        """Return the name in reports of a part of each process, such as a lock: `name` with process and device."""
        name = f"{name} {device}" if device else name
        return f"{name} of process {self.process}" if self.process else name

    @property
    def host_workers(self) -> HostWorkers:
        """Return the host's worker threads for parallel algorithms.

        They are made at the first use, which raises ProfileError when the profile lacks their entries.
        """
        if self._host_workers is None:
            spec = self.spec.read(HostWorkersSpec)
            self._host_workers = HostWorkers(self.sim, spec, self.host_memory, self.host_time)
        return self._host_workers

    def _work(self, dt: float, category: str) -> Awaitable[None]:
        return self.cores.compute(self.jitter(dt), category)

    def jitter(self, dt: float) -> float:
        """Return the seconds of host-side work ``dt``, scaled by the run's slowness and varied by the profile's jitter.

        Jitter is uniform around the unit cost, so that the mean stays the same. Real latencies have a longer tail: a
        run with jitter shows whether a result depends on exact costs, not what a distribution looks like.
        """
        if not self._jitter:
            return dt * self.slowness
        return dt * self.slowness * float(self.sim.rng.uniform(1.0 - self._jitter, 1.0 + self._jitter))

    def statistics(self) -> dict[str, Statistics]:
        """Return the statistics of every part of the machine so far, by the part's name.

        Names are ``cores``, ``host memory``, ``device 0 compute units``, ``device 0 copy engine h2d``, ``device 0
        hardware queue 0``, ``peer link 0-1`` once it has been used, and so on.
        """
        statistics: dict[str, Statistics] = {
            "cores": self.cores.statistics(),
            "host memory": self.host_memory.statistics(),
        }
        if self._host_workers is not None:
            statistics["host workers"] = self._host_workers.statistics()
        for device in self._instances or self.devices:
            statistics.update(device.statistics())
        if self.peers is not None:
            statistics.update(self.peers.statistics())
        statistics.update({link.name: link.statistics() for link in self.sockets.links})
        if self.node:  # devices have numbers of their own on each node, the rest has not
            named = {name: name if name.startswith("device ") else f"node {self.node} {name}" for name in statistics}
            statistics = {named[name]: part for name, part in statistics.items()}
        return statistics


def _drawn_once(sim: Simulation, variation: float) -> float:
    """Draw a factor of mean 1 with the given coefficient of variation from the run's generator.

    It is log-normal, so that no cost becomes negative.  For a variation of 0 nothing is drawn.
    """
    if not variation:
        return 1.0
    spread = math.log1p(variation**2)
    return float(sim.rng.lognormal(-spread / 2, math.sqrt(spread)))
