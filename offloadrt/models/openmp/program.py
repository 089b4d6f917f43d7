"""An OpenMP program on an emulated machine: its devices, its host threads, its globals and its tasks."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from offloadrt.driver import Schedule
from offloadrt.machine import Machine
from offloadrt.models.host.barrier import Barrier
from offloadrt.models.host.host_places import Arena
from offloadrt.models.host.model import Model
from offloadrt.models.host.program import Drivers, OffloadProgram
from offloadrt.models.openmp.declarations import Declarations
from offloadrt.models.openmp.host_thread import HostThread
from offloadrt.models.openmp.mapper import Mapper
from offloadrt.models.openmp.options import OpenMPOptions
from offloadrt.models.openmp.tasks import HiddenHelpers
from offloadrt.runtime.events import ProgramObserver
from offloadrt.runtime.host_array import HostArray
from offloadrt.sim import Lock, LockStatistics
from offloadrt.trace import Trace


class OpenMP(OffloadProgram[HostThread]):
    """The program's view of the machine.

    What LLVM's environment variables set is in the machine's profile: `memory_manager.threshold`,
    `runtime.hidden_helper_threads`; so is `runtime.strided_update`. ValueError for a name that does not exist, and for
    a configuration that lacks its host_program; UnifiedMemoryUnavailable when the devices cannot do what the
    configuration asks for.

    A program ends with `finish`: deferred tasks complete, pooled device memory is returned.
    """

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
        self.helpers = HiddenHelpers(
            machine.sim, machine.spec.count("runtime.hidden_helper_threads"), machine.host_time
        )
        self.manager_locks: list[Lock] = []
        """Semaphores of the program's GPU memory managers."""

    def observe(self, observer: ProgramObserver) -> None:
        super().observe(observer)
        self.helpers.observer = observer

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
        """Make a global that is on every device from the start: ``declare target enter(name)``.

        The device image holds zeros, not `fill`.
        """
        array = self.arrays.make(name, shape, dtype, fill, phantom, "global", align, *self._places_of(0))
        self.globals.declared.append(array)
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
        """Make a global that a device has only while it is mapped: ``declare target link(name)``."""
        array = self.arrays.make(name, shape, dtype, fill, phantom, "link", align, *self._places_of(0))
        self.globals.declared.append(array)
        return array

    def declare_mapper(self, kind: type, mapper: Mapper) -> None:
        """Let objects of this type stand in clauses for what `mapper(object)` lists: ``declare mapper``."""
        self.declarations.mappers[kind] = mapper

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of all locks, by name: of all devices, and of the program's GPU memory managers."""
        return {**super().locks(), **{lock.name: lock.statistics() for lock in self.manager_locks}}

    async def complete_tasks(self) -> None:
        """Wait for every deferred task, of whatever thread; for some nobody may have waited."""
        await self.helpers.drain()


MODEL = Model(OpenMPOptions, OpenMP, module="offloadrt.models.openmp")
