"""The runtime library that an implementation of C++ standard parallelism links a program with."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
from numpy.typing import DTypeLike

from offloadrt.driver import NOTHING, Driver, KernelAccesses, OutOfDeviceMemory, Uvm
from offloadrt.extensions.stdpar.arrays import Memory, UsmArray
from offloadrt.extensions.stdpar.elision import Decision, Window
from offloadrt.extensions.stdpar.heuristic import HeuristicDatabase, HeuristicRules, OffloadHeuristic
from offloadrt.extensions.stdpar.implementations import DataMemory, StdParOptions, SubmitPath
from offloadrt.kernels import Kernel, Launch
from offloadrt.kernels.memo import Memo
from offloadrt.machine import Machine
from offloadrt.models.host.directive import launch_of
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.errors import ArrayOutOfDeviceMemory
from offloadrt.runtime.host_array import HostArray, element_of, make_values, shape_of
from offloadrt.runtime.launch.target import accesses_of
from offloadrt.trace import Trace, events


class Launches:
    """Makes the description of a kernel's launch (its geometry and work), once for equal arguments.

    factor: how long the implementation's kernels take, relative to those of the machine's own compiler.
    """

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._known: Memo[tuple[object, ...], tuple[Kernel, Launch, Launch]] = Memo()

    def of(self, kernel: Kernel, arguments: Sequence[Any], iterations: int | None) -> tuple[Launch, Launch]:
        """Return two descriptions of a launch: as the program wrote it, and as this compiler's code executes it.

        They differ in how long the kernel takes. iterations: how many, for a kernel that is declared by its costs;
        None: as many as its first array has elements. Raises KernelError when a loop nest depends on values that are
        not known.
        """
        nest = kernel.analysis is not None
        if not nest and iterations is None:
            iterations = next(
                (array.nbytes // array.itemsize for array in arguments if isinstance(array, HostArray)), 1
            )
        looked_at = tuple(_key(argument) for argument in arguments) if nest else ()
        key = (id(kernel), iterations, looked_at)
        entry = self._known.get(key)
        if entry is None:
            written = launch_of(kernel, arguments, iterations=iterations)
            entry = self._known[key] = (kernel, written, written.slower(self._factor))
        return entry[1], entry[2]


def _key(argument: Any) -> object:
    return (argument.shape, argument.dtype.str) if isinstance(argument, HostArray) else argument


_WITH_PAGES = ("migrates", "host")
"""The values of ``usm.shared`` with which the device has page tables of its own for shared USM."""


class SyclUsm:
    """Unified shared memory of all kinds on one device.

    Allocations are addresses. Each call takes the driver's time. Without a device, calls raise ValueError.
    """

    def __init__(self, machine: Machine, device: OffloadDevice | None, system: bool = False) -> None:
        """Take the modes from the machine's profile.

        system: whether the device can fault for all memory of the host (system USM). Raises ValueError where it cannot.
        """
        self.device = device
        self.mode = machine.spec.text("usm.shared")
        self.on_prefetch = machine.spec.text("usm.prefetch")
        if system and self.mode == "host":
            raise ValueError(f"system USM on {machine.spec.name}: its device cannot fault (usm.shared = host)")
        api = machine.spec.entries.get("driver.api")
        self.of_host = device is not None and api is not None and api.value == "rocr"
        """Whether shared memory is ordinary host memory, which kernels map by page faults, as with ROCr on an APU."""
        self._memories: tuple[Memory, ...] = ("shared", "host", "heap", "stack") if system else ("shared", "host")
        """The kinds of memory whose pages a kernel may fault for."""
        self._machine = machine
        self._memory = machine.host_memory
        self._touchings: Memo[tuple[int, ...], tuple[Launch, KernelAccesses]] = Memo()
        """The accesses of a launch to managed memory, by launch and the places of its arrays. The launch is kept with
        them, so that its ``id`` is not given to another one.
        """
        self._ranges: dict[tuple[tuple[int, int], ...], KernelAccesses] = {}
        """The ranges of host memory that kernels reach. The same tuple is used again, so that comparing it is quick."""
        self._host: dict[int, int] = {}
        """Size in bytes of each allocation of `malloc_host`, by address."""

    # allocations

    async def malloc_shared(self, nbytes: int, name: str) -> int:
        """Call cuMemAllocManaged or its counterpart for the object `name`; return the address. No page exists yet."""
        if self.of_host:  # hipMallocManaged reserves addresses; pages come when somebody touches them
            return self._memory.allocate(nbytes, self._machine.spec.count("page.size"))
        managed = self._driver("malloc_shared").managed
        managed.start()
        address = await managed.alloc(nbytes, name=name)
        if self.mode == "host":
            self._uvm.keep_in_place(address, nbytes)
        return address

    async def free_shared(self, address: int) -> None:
        """Call cuMemFree for shared memory at an address; the call waits for the device where the driver does."""
        if self.of_host:
            self._memory.release(address)
        else:
            await self._driver("free").managed.free(address)

    async def malloc_device(self, nbytes: int, phantom: bool, name: str) -> int:
        """Call cuMemAlloc for the object `name` and return the address. Raises ArrayOutOfDeviceMemory.

        phantom: whether the memory is for an array without values, of which only the time is modelled.
        """
        try:
            address = await self._driver("malloc_device").memory.alloc(nbytes, phantom)
        except OutOfDeviceMemory as failed:
            raise ArrayOutOfDeviceMemory(failed, name) from None
        return address

    async def malloc_host(self, nbytes: int) -> int:
        """Call cuMemAllocHost, which allocates pinned memory of the host, and return the address."""
        if self.of_host:
            return await self.malloc_shared(nbytes, "")
        address = await self._driver("malloc_host").pinning.alloc(nbytes)
        if self.mode != "one_memory":
            self._manage().add(address, nbytes, True)
            self._uvm.keep_in_place(address, nbytes)
        self._host[address] = nbytes
        return address

    async def free(self, array: UsmArray) -> None:
        """Free USM of any kind. Raises DriverError where no allocation of that kind begins at the array's address."""
        array.check_host_access(writes=True)
        if array.memory == "device":
            await self._driver("free").memory.free(array.address)
        elif array.memory == "host" and not self.of_host:
            await self._driver("free").pinning.free(array.address)
            nbytes = self._host.pop(array.address)
            if self.mode != "one_memory":
                self._uvm.blocks.remove(array.address, nbytes)
        else:
            await self.free_shared(array.address)
        array.freed = True

    def add_system(self, address: int, nbytes: int) -> None:
        """Register memory of the C library or a stack for page faults of the device, if the device has system USM.

        System USM means that the device can access all memory of the host. address, nbytes: the memory.
        """
        if self.mode in _WITH_PAGES and "heap" in self._memories:
            self._manage().add(address, nbytes, populated=False)

    # accesses

    async def host_touch(
        self, array: UsmArray, begin: int = 0, nbytes: int | None = None, by_workers: bool = False
    ) -> None:
        """Touch bytes of an array from the calling thread; without `nbytes`, all from `begin` on.

        Pages that the device owns come back to the host, and pages that do not exist yet are populated. by_workers: the
        host's worker threads touch the bytes, each its own part; their first touches of ordinary memory take no time
        here.
        """
        size = array.nbytes - begin if nbytes is None else nbytes
        if array.memory != "host" and array.memory in self._memories and self.mode in _WITH_PAGES:
            await self._uvm.host_access(array.address + begin, size)
        elif self.of_host and self.device is not None and not by_workers:
            await self.device.plugin.host_touch(array.address + begin, size)
        elif by_workers:
            self._memory.pages.insert(array.address + begin, array.address + begin + size)
        else:
            await self._memory.populate(array.address + begin, size)

    def host_accesses(self, launch: Launch, arguments: Sequence[Any]) -> KernelAccesses:
        """Return which pages of managed memory a launch with these arguments accesses, for page faults and migration.

        Returns `NOTHING` if the memory needs no page faults, as it lies where the kernel runs.
        """
        if self.mode not in _WITH_PAGES and not self.of_host:
            return NOTHING
        arrays = [argument for argument in arguments if isinstance(argument, UsmArray)]
        if self.of_host:
            places = tuple((one.address, one.nbytes) for one in arrays if one.memory in self._memories and one.nbytes)
            return self._ranges.setdefault(places, KernelAccesses(places))
        key = (id(launch), *[place for array in arrays for place in (array.address, array.nbytes)])
        entry = self._touchings.get(key)
        if entry is None:
            managed = [array.memory in self._memories for array in arrays]
            touching = accesses_of(self._device("kernel").number, launch, (), arguments, arrays, managed, self.view)
            entry = self._touchings[key] = (launch, touching)
        return entry[1]

    def view(self, array: UsmArray) -> Any:
        """Return an array's values as a kernel reads and writes them, also for an array in device memory."""
        if array.memory != "device":
            return array.values
        memory = self._device("kernel").memory
        return memory.view(array.address, array.nbytes).view(array.dtype).reshape(array.shape)

    @property
    def _uvm(self) -> Uvm:
        uvm = self._driver("shared USM").managed.uvm
        assert uvm is not None, "memory of both is there before anybody touches it"
        return uvm

    def _manage(self) -> Uvm:
        return self._driver("shared USM").managed.start()

    def _device(self, call: str) -> OffloadDevice:
        if self.device is None:
            raise ValueError(f"{call}: {self._machine.spec.name} has no device (usm.shared = no_device)")
        return self.device

    def _driver(self, call: str) -> Driver:
        return self._device(call).driver


_WAKE_UPS = {SubmitPath.SYCL: 3}
"""How many sleeping threads a command for the host wakes up, one after the other.

AdaptiveCpp's SYCL hands it to the thread that schedules its graph (`dag_manager.cpp`), which hands it to the thread
of the host's queue (`omp_queue.cpp`, `async_worker.cpp`), and that one signals the thread that waits. Measured with
commit f2c2960 on the machine on which this project was built: 18 to 20 us from the submission to the end of the wait.
"""
_SUBMIT = {SubmitPath.DIRECT: "stdpar.submit", SubmitPath.SYCL: "sycl.submit", SubmitPath.VENDOR: "vendor.submit"}


@attrs.define
class Counts:
    """Counts of algorithms, waits, prefetches and allocations over all threads, since the start of the program.

    `offloaded` and `on_host` are the algorithms that ran on the device and on the host; `prefetched_bytes` are the
    bytes of all `prefetches`.
    """

    calls: int = 0
    """Calls of algorithms, whatever their policy."""
    offloaded: int = 0
    on_host: int = 0
    host_pointers: int = 0
    """Algorithms among `on_host` that ran there because one of the kernel's pointers was to the host's memory."""
    waits: int = 0
    """Waits for a queue."""
    prefetches: int = 0
    prefetched_bytes: int = 0
    interposed: int = 0
    """Allocations of the program that were rerouted to shared USM."""
    from_pool: int = 0
    """Allocations among `interposed` that the pool served."""


class StdParRuntime:
    """The runtime library of an implementation of C++ standard parallelism, shared by all threads of one program.

    next_directive: returns a new number for each call of the library; a trace groups events by it. Raises ValueError
    for system USM where the device cannot have it, and HeuristicDatabaseError for a file that cannot be read.
    """

    def __init__(
        self,
        machine: Machine,
        device: OffloadDevice | None,
        trace: Trace | None,
        options: StdParOptions,
        next_directive: Callable[[], int],
    ) -> None:
        self.implementation = implementation = options.chosen
        self.machine = machine
        self.sim = machine.sim
        self.system_usm = options.system_usm and device is not None
        self.is_explicit = implementation.memory is DataMemory.DEVICE
        """Whether the program itself allocates device memory, copies and waits, instead of using shared memory."""
        self.usm = SyclUsm(machine, device, self.system_usm)
        self.launches = Launches(implementation.kernel_factor.value)
        self.counts = Counts()
        self.decisions: dict[Decision, int] = {}
        """How often each decision was taken about the barrier behind an offloaded algorithm, by place and reason."""
        self.make_window: Callable[[], Window] = functools.partial(
            Window, implementation.elision or self.is_explicit, self.system_usm
        )
        """Makes the `Window` that decides about the barriers of one thread."""
        self.rules = options.heuristic or HeuristicRules()
        file = options.heuristic_file
        self.database = HeuristicDatabase() if file is None else HeuristicDatabase.read(file)
        """The runtimes of operations that the offload heuristic knows."""
        self.heuristics: list[OffloadHeuristic] = []
        """The heuristic of each thread, with what it decided, in the order in which the threads were made."""
        self.closers: list[Callable[[], Awaitable[None]]] = []
        """Functions that each close a queue of the program, unless it is closed. They serve the queues of threads that
        ended before they could close them.
        """
        self.batches = 0
        """How many batches of operations have been completed by a wait, over all threads."""
        spec = machine.spec
        way = implementation.submit
        if way is SubmitPath.DIRECT and device is None:
            way = SubmitPath.SYCL  # the host has no in-order executor (`omp_backend::create_inorder_executor`)
        entry = _SUBMIT.get(way)
        self.submit_s = 0.0 if entry is None else spec.value(entry)
        """Host time of one command in the implementation's own layers, in seconds."""
        self.wake_s = _WAKE_UPS.get(way, 0) * spec.value("driver.handover")
        """Seconds for which a command that runs on the host waits for other threads to wake up."""
        self.dispatch_s = spec.value("stdpar.dispatch")
        self.lookup_s = spec.value("stdpar.lookup")
        self.independent_progress = spec.flag("gpu.independent_progress")
        self._next_directive = next_directive
        self._phantom = options.phantom
        self._trace = trace

    def make_heuristic(self) -> OffloadHeuristic | None:
        """Make the heuristic of a thread; None where the implementation has none or there is no device."""
        if not self.implementation.heuristic or self.usm.device is None:
            return None
        self.heuristics.append(OffloadHeuristic(self.database, self.rules))
        return self.heuristics[-1]

    async def work(self, seconds: float) -> None:
        """Let the calling thread compute in the runtime library for this many virtual seconds."""
        await self.machine.work(seconds, "runtime")

    def unplaced(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike, phantom: bool | None, memory: Memory
    ) -> UsmArray:
        """Make an array that has no memory yet; its address is 0 until the caller sets it.

        phantom: True for an array without values, None as the program's options say. memory: the kind of memory that it
        will be in.
        """
        lengths, element = shape_of(name, shape), element_of(name, dtype)
        ghost = self._phantom if phantom is None else phantom
        values = None if ghost else make_values(name, lengths, element, None)
        return UsmArray(name, 0, lengths, element, "heap", 0, values, memory=memory, sim=self.sim)

    @contextmanager
    def calling(self, name: str) -> Iterator[None]:
        """Wrap one call of the library function `name`: events inside the ``with`` belong to it in the trace."""
        actor, trace, number = self.sim.current, self._trace, self._next_directive()
        outer, actor.cause = actor.cause, number
        if trace is not None:
            trace.directive(0, number, name)
        try:
            yield
        finally:
            actor.cause = outer
            if trace is not None:
                trace(events.DirectiveEnd, 0, -1, number, number, name)
