"""An OpenMP program on an emulated machine: its devices, its host threads, its globals and its tasks."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from offloadrt.driver import Rocr
from offloadrt.machine import Machine
from offloadrt.models.openmp.barrier import Barrier
from offloadrt.models.openmp.device_globals import DeviceGlobals
from offloadrt.models.openmp.host_places import Arena
from offloadrt.models.openmp.host_thread import HostThread
from offloadrt.models.openmp.mapper import Mapper
from offloadrt.models.openmp.tasks import HiddenHelpers
from offloadrt.runtime.configurations import configuration as configuration_named
from offloadrt.runtime.device import OffloadDevice, RuntimeCosts, why_nothing_migrates
from offloadrt.runtime.errors import InvalidDevice, UnifiedMemoryUnavailable
from offloadrt.runtime.host_array import POINTER_BYTES, HostArray, Kind, make_values, shape_of
from offloadrt.runtime.plugin import UserModeDriver
from offloadrt.runtime.reachable import reaches_host
from offloadrt.sim import Lock, LockStatistics
from offloadrt.trace import Trace

if TYPE_CHECKING:
    from offloadrt.kernels import HostProgram

R = TypeVar("R")


class OpenMP:
    """The program's view of the machine.

    configuration: memory configuration (`copy`, `usm`, `implicit_zero_copy`, `eager_maps`, `managed`,
    `managed+prefetch`, `otm`). host_program: what a compiler knows of the program, for `otm`. allocator: of device
    blocks (`llvm`, `direct`, `malloc`). phantom: are arrays made without values unless they say otherwise? What LLVM's
    environment variables set is in the machine's profile: `memory_manager.threshold`, `runtime.hidden_helper_threads`;
    so is `runtime.strided_update`. ValueError for a name that does not exist, and for `otm` without a host_program;
    UnifiedMemoryUnavailable when the devices cannot do what the configuration asks for.

    A program ends with `finish`: deferred tasks complete, pooled device memory is returned.
    """

    def __init__(
        self,
        machine: Machine,
        drivers: Sequence[UserModeDriver | Rocr],
        *,
        trace: Trace | None = None,
        configuration: str = "copy",
        allocator: str = "llvm",
        phantom: bool = False,
        host_program: HostProgram | None = None,
    ) -> None:
        self.machine = machine
        self.sim = machine.sim
        self.trace = trace
        self.phantom = phantom
        self.strided_update = machine.spec.text("runtime.strided_update")
        self.costs = RuntimeCosts.of(machine.spec)
        self.devices = [
            OffloadDevice(machine, number, driver, configuration_named(configuration), allocator, trace, host_program)
            for number, driver in enumerate(drivers)
        ]
        self.helpers = HiddenHelpers(
            machine.sim, machine.spec.count("runtime.hidden_helper_threads"), machine.host_time
        )
        self.globals = DeviceGlobals(self.devices, Lock(machine.sim, "image load"))
        self.mappers: dict[type, Mapper] = {}
        self.default_device = 0
        self.manager_locks: list[Lock] = []
        """Semaphores of the program's GPU memory managers."""
        self._places: dict[int, tuple[Arena, Arena]] = {}
        self._directives = 0
        self._threads = 0
        self._started = False
        self._managed = [device.plugin.managed for device in self.devices if device.plugin.managed is not None]
        self._pages_matter = any(device.plugin.kernels_fault for device in self.devices)
        self._devices_reach_host = any(reaches_host(device) for device in self.devices)

    def start(self) -> None:
        """Spawn the daemon actors. Call it from a running actor; a second call does nothing."""
        if not self._started:
            self._started = True
            for device in self.devices:
                device.start()
            self.helpers.start()

    # threads

    def host_thread(
        self, number: int | None = None, num_threads: int = 1, barrier: Barrier | None = None
    ) -> HostThread:
        """The current actor as a host thread of the program."""
        self.start()
        if number is None:
            number = self._threads
            self._threads += 1
        return HostThread(
            self, number, num_threads, barrier or Barrier(self.sim, num_threads), *self._places_of(number)
        )

    def _places_of(self, number: int) -> tuple[Arena, Arena]:
        """Heap and stack of a thread; they outlive the team that it is in."""
        memory = self.machine.host_memory
        if number not in self._places:
            self._places[number] = (Arena.heap(memory), Arena.stack(memory))
        return self._places[number]

    async def parallel(self, body: Callable[[HostThread], Awaitable[R]], num_threads: int = 1) -> list[R]:
        """A team of host threads, each `await body(t)`; returns their results in order when all are done, deferred
        tasks included.
        """
        if num_threads < 1:
            raise ValueError(f"num_threads is {num_threads}; a team has at least one thread")
        self.start()
        barrier = Barrier(self.sim, num_threads)
        results: dict[int, R] = {}

        async def member(number: int) -> None:
            thread = self.host_thread(number, num_threads, barrier)
            born = self.sim.now
            results[number] = await body(thread)
            await thread.taskwait()
            self.machine.host_time.lived(self.sim.now - born)

        async with self.sim.open_nursery() as nursery:
            for number in range(num_threads):
                nursery.spawn(member, number, name=f"host thread {number}")
        return [results[number] for number in range(num_threads)]

    # data

    def make_array(
        self,
        name: str,
        shape: int | tuple[int, ...],
        dtype: DTypeLike,
        fill: Any,
        phantom: bool | None,
        kind: Kind,
        align: int,
        heap: Arena,
        stack: Arena,
    ) -> HostArray:
        """A new array at a modelled address; with `fill` its pages are populated. A heap array gets a pointer variable
        on the stack.
        """
        lengths = shape_of(shape)
        element = np.dtype(dtype)
        values = None if (self.phantom if phantom is None else phantom) else make_values(lengths, element, fill)
        nbytes = math.prod(lengths) * element.itemsize
        memory = self.machine.host_memory
        pointer = 0
        if kind == "heap":
            address = heap.allocate(nbytes, align)
            pointer = stack.allocate(POINTER_BYTES, 8)
        elif kind == "static":
            address = stack.allocate(nbytes, align)
        else:
            address = memory.allocate(nbytes, align, "global")
            if kind == "link":
                pointer = memory.allocate(POINTER_BYTES, 8, "global")
        if fill is not None and nbytes and self._pages_matter:
            memory.pages.insert(address, address + nbytes)  # the program has written it, at some time before
        for managed in self._managed:
            managed.add(address, nbytes, fill is not None)
        array = HostArray(name, address, lengths, element, kind, pointer, values)
        if self._devices_reach_host:
            memory.contents.add(array)
        return array

    def check_managed_memory(self, what: str) -> None:
        """Raises UnifiedMemoryUnavailable where there is no managed memory, which `what` asks for."""
        if why := why_nothing_migrates(self.machine):
            raise UnifiedMemoryUnavailable(f"managed memory for {what} on {self.machine.spec.name}: {why}")

    def free_managed(self, array: HostArray) -> None:
        """The program gives an array back: if it is managed memory, nobody owns its pages any more."""
        for managed in self._managed:
            managed.remove(array.address, array.nbytes)

    def declare_target(
        self,
        name: str,
        shape: int | tuple[int, ...],
        dtype: DTypeLike = np.float64,
        fill: Any = None,
        phantom: bool | None = None,
        align: int = 16,
    ) -> HostArray:
        """``declare target enter(name)``: a global that is on every device from the start.

        The device image holds zeros, not `fill`.
        """
        array = self.make_array(name, shape, dtype, fill, phantom, "global", align, *self._places_of(0))
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
        """``declare target link(name)``: a global that a device has only while it is mapped."""
        array = self.make_array(name, shape, dtype, fill, phantom, "link", align, *self._places_of(0))
        self.globals.declared.append(array)
        return array

    def declare_mapper(self, kind: type, mapper: Mapper) -> None:
        """``declare mapper``: objects of this type may stand in clauses for what `mapper(object)` lists."""
        self.mappers[kind] = mapper

    # devices

    def device(self, number: int | None = None, call: str = "") -> OffloadDevice:
        """A device by number, the default device for None. Raises InvalidDevice."""
        chosen = self.default_device if number is None else number
        if not 0 <= chosen < len(self.devices):
            raise InvalidDevice(
                f"device number {chosen} is invalid, only {len(self.devices)} devices are available",
                call=call,
                thread=self.sim.current.name,
                time_s=self.sim.now,
                device=chosen,
            )
        return self.devices[chosen]

    def next_directive(self) -> int:
        self._directives += 1
        return self._directives

    def locks(self) -> dict[str, LockStatistics]:
        """Statistics of the runtime's locks, by name, of all devices, and of the program's GPU memory managers."""
        found: dict[str, LockStatistics] = {}
        for device in self.devices:
            found.update(device.locks())
        found[self.globals.lock.name] = self.globals.lock.statistics()
        found.update((lock.name, lock.statistics()) for lock in self.manager_locks)
        return found

    # the end

    async def finish(self) -> None:
        """The end of the program, in the actor that began it: what a real one does between main's return and exit."""
        await self.complete_tasks()
        await self.shutdown()

    async def complete_tasks(self) -> None:
        """Wait for every deferred task, of whatever thread; for some nobody may have waited."""
        await self.helpers.drain()

    async def shutdown(self) -> None:
        """Return pooled device memory and the plugin's own to the driver, as the runtime does at exit. A device that a
        fatal error has ended keeps both.
        """
        begin = self.sim.now
        for device in self.devices:
            if device.ended is None:
                await device.allocator.release_pooled()
                await device.plugin.unload()
        self.machine.host_time.lived(self.sim.now - begin)
