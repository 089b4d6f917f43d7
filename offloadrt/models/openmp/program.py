"""An OpenMP program on an emulated machine: its options, its devices, its host threads, its globals and its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, cast

import attrs
import numpy as np
from numpy.typing import DTypeLike

from offloadrt.driver import Schedule
from offloadrt.machine import Machine, MachineSpec
from offloadrt.models.host.arrays import Arena
from offloadrt.models.host.program import Barrier, Drivers, Model, OffloadProgram, ProgramOptions
from offloadrt.models.openmp.host_thread import HostThread
from offloadrt.models.openmp.lowering import Declarations, Mapper
from offloadrt.models.openmp.tasks import HiddenHelpers
from offloadrt.runtime.configurations import configuration as configuration_named
from offloadrt.runtime.device import DeviceOptions
from offloadrt.runtime.environment import OFFLOAD, is_on, select_configuration
from offloadrt.runtime.events import ProgramObserver
from offloadrt.runtime.host_array import HostArray
from offloadrt.sim import Lock, LockStatistics
from offloadrt.trace import Trace

_TARGET_OFFLOAD: Final = ("default", "disabled", "mandatory")


@attrs.frozen(kw_only=True)
class OpenMPOptions(DeviceOptions, ProgramOptions):
    """The options of an OpenMP program. Fixed once the machine is built.

    The memory configuration may also be `environment`: then the runtime chooses one by the environment variables.
    """

    model: ClassVar[str] = "openmp"
    requires_unified_shared_memory: bool = False
    """Whether the program is built with `requires unified_shared_memory`; for the configuration `environment`."""
    target_offload: str = "default"
    """OMP_TARGET_OFFLOAD: with `disabled`, the program can use no device. Where it can use none, the host runs the
    target regions, unless the value is `mandatory`."""

    def check(self) -> None:
        """Raise ValueError for an impossible value, such as an unknown memory configuration or allocator."""
        ProgramOptions.check(self)
        if self.configuration != "environment":
            configuration_named(self.configuration)
        DeviceOptions.check(self)
        if self.target_offload not in _TARGET_OFFLOAD:
            raise ValueError(f"{OFFLOAD} is {self.target_offload!r}; it can be {', '.join(_TARGET_OFFLOAD)}")

    def chosen_on(self, spec: MachineSpec, environment: Mapping[str, str]) -> OpenMPOptions:
        """Return the options with the memory configuration that `environment` chooses; ValueError for a bad value."""
        offload = environment.get(OFFLOAD, self.target_offload).strip().lower()
        chosen = attrs.evolve(self, target_offload=offload)
        if self.configuration == "environment":
            apu = spec.flag("machine.apu")
            xnack = spec.flag("gpu.xnack") if "gpu.xnack" in spec.entries else is_on(environment, "HSA_XNACK")
            unified = spec.flag("gpu.unified_memory")
            taken = select_configuration(self.requires_unified_shared_memory, apu, xnack, unified, environment)
            chosen = attrs.evolve(chosen, configuration=taken)
        chosen.check()
        return chosen


class OpenMP(OffloadProgram[HostThread]):
    """An OpenMP program on an emulated machine: devices, teams of host threads, globals and mappers.

    The settings of LLVM's environment variables are entries of the machine's profile (`memory_manager.threshold`,
    `runtime.hidden_helper_threads`), and so is `runtime.strided_update`. `drivers`: of each device. Raises
    ValueError for an unknown name as an option's value, and for a memory configuration that needs an analysis of the
    program's source (its `host_program`) and has none. Raises UnifiedMemoryUnavailable when the devices lack what the
    memory configuration requires. A program ends with `finish`: deferred tasks complete, and pools give memory back.
    """

    tells_uses: ClassVar[bool] = True
    counts_initial_device = True

    def __init__(
        self, machine: Machine, drivers: Drivers, options: OpenMPOptions | None = None, trace: Trace | None = None
    ) -> None:
        options = options or OpenMPOptions()
        super().__init__(machine, drivers, options, trace, options)
        if options.target_offload == "disabled":  # the devices are there, but no directive or routine may use them
            self.num_devices = 0
        for device in self.devices:
            device.plugin.set_schedule(cast(Schedule, machine.spec.text("runtime.schedule")))
        self.falls_back = options.target_offload != "mandatory"
        self.declarations = Declarations(
            self.globals, machine.spec.text("runtime.strided_update"), self.devices[0].plugin.grid
        )
        self.helpers = HiddenHelpers(machine, machine.spec.count("runtime.hidden_helper_threads"))
        self.manager_locks: list[Lock] = []
        """The semaphores of the program's GPU memory managers (`GpuMemoryManager`), for statistics."""

    def observe(self, observer: ProgramObserver) -> None:
        super().observe(observer)
        self.helpers.tell = self.tell

    def start_actors(self) -> None:
        super().start_actors()
        self.helpers.start()

    def make_thread(self, number: int, num_threads: int, barrier: Barrier, heap: Arena, stack: Arena) -> HostThread:
        return HostThread(self, self.declarations, self.helpers, number, num_threads, barrier, heap, stack)

    # data

    def declare_target(
        self,
        name: str,
        shape: int | tuple[int, ...],
        dtype: DTypeLike = np.float64,
        fill: Any = None,
        phantom: bool | None = None,
        align: int = 16,
    ) -> HostArray:
        """Make a global that devices have from the start, zeroed: ``declare target enter``. A phantom has no values."""
        array = self.arrays.make(name, shape, dtype, fill, phantom, "global", align, *self._arenas_of(0))
        self.globals.declare(array)
        return array

    def declare_target_link(
        self,
        name: str,
        shape: int | tuple[int, ...],
        dtype: DTypeLike = np.float64,
        fill: Any = None,
        phantom: bool | None = None,
        align: int = 16,
    ) -> HostArray:
        """Make a global that a device has only while it is mapped: ``declare target link``. A phantom has no values."""
        array = self.arrays.make(name, shape, dtype, fill, phantom, "link", align, *self._arenas_of(0))
        self.globals.declare(array)
        return array

    def declare_mapper(self, kind: type, mapper: Mapper) -> None:
        """Declare a mapper: in clauses, objects of class `kind` stand for the items that `mapper(object)` returns."""
        self.declarations.mappers[kind] = mapper

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of all locks by name: those of all devices, and those of GPU memory managers."""
        return {**super().locks(), **{lock.name: lock.statistics() for lock in self.manager_locks}}

    async def complete_tasks(self) -> None:
        """Wait for every thread's deferred tasks, including tasks that no thread has waited for."""
        await self.helpers.drain()


MODEL = Model(OpenMPOptions, OpenMP, module="offloadrt.models.openmp")
