"""An offloading program on an emulated machine, whatever model it is written in.

`OffloadProgram` has the devices, the teams of host threads, the arrays and the globals; open it first. `ProgramThread`
is one of its host threads: its arrays, its own work, the `Barrier` of its team. `ProgramOptions` is fixed before the
machine is built; each model adds its own options in its `program.py`. `Model` is the interface of a programming model
to code that runs programs; `MODELS` finds the models by name.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from threading import get_ident
from typing import Any, ClassVar, Final, Generic, Self, TypeAlias, TypeVar

import attrs
import numpy as np
from numpy.typing import DTypeLike

from offloadrt.driver import Driver, DriverError
from offloadrt.kernels.integers import is_integer
from offloadrt.machine import Machine, MachineSpec
from offloadrt.models.host.arguments import checked, started
from offloadrt.models.host.arrays import Arena, DeviceGlobals, ProgramArrays
from offloadrt.registry import Registry
from offloadrt.runtime.configurations import configuration as configuration_named
from offloadrt.runtime.device import FAILED_FREE, DeviceOptions, OffloadDevice, RuntimeCosts
from offloadrt.runtime.errors import InvalidDevice
from offloadrt.runtime.events import (
    Awaited,
    HostUsed,
    MapsUnordered,
    ProgramObserver,
    Signalled,
    StrandBegan,
    StrandEnded,
    Tell,
)
from offloadrt.runtime.host_array import HostArray, Kind, Span, array_of, extent
from offloadrt.runtime.lock_wait import take
from offloadrt.sim import Lock, LockStatistics, Signal, Simulation
from offloadrt.trace import Trace, doing

MOST_THREADS, MOST_PROCESSES, MOST_DEVICES = 1 << 16, 1 << 12, 1 << 10
"""Largest numbers in a run; each thread, process or device is at least one actor, which takes 10 kB."""
MOST_NESTED, MOST_NESTED_THREADS = 100, 1 << 13
"""Largest depth of nested parallel regions, and largest number of threads of all regions while some are nested."""


def check_count(name: str, given: object, most: int) -> None:
    """Raise ValueError, naming the option `name`, unless its value `given` is a whole number from 1 to `most`."""
    if not is_integer(given) or given < 1:
        raise ValueError(f"{name} is {given!r}, but must be a whole number from 1")
    if given > most:
        raise ValueError(f"{name} is {given:.10g}, and a run can have {most:,} at most")


def has_devices(spec: MachineSpec) -> bool:
    """Tell whether a machine has devices to offload to."""
    shared = spec.entries.get("usm.shared")
    return shared is None or shared.value != "no_device"


@attrs.frozen(kw_only=True)
class ProgramOptions:
    """The options of every model's programs. Fixed once the machine is built."""

    model: ClassVar[str]
    """The name of the programming model."""
    phantom: bool = False
    """Whether arrays have a size and no storage, unless an array says otherwise."""
    num_devices: int = 1
    """Number of the machine's devices that the program uses."""
    num_processes: int = 1
    """Number of processes that run the program, each with its own runtime (`Run.mpiexec`)."""

    num_nodes: int = 1
    """Number of nodes of the cluster, each a machine of its own with `num_devices` devices. Processes of a node have
    consecutive numbers; all nodes have the same number of processes, or the first ones have one more."""

    def check(self) -> None:
        """Raise ValueError for a value of an option that is impossible on every machine."""
        for option in attrs.fields(type(self)):
            if isinstance(option.default, bool) and not isinstance(
                given := getattr(self, option.name), bool | np.bool_
            ):
                raise ValueError(f"{option.name} is {given!r:.80}, but must be True or False")
        check_count("num_devices", self.num_devices, MOST_DEVICES)
        check_count("num_processes", self.num_processes, MOST_PROCESSES)
        check_count("num_nodes", self.num_nodes, MOST_PROCESSES)
        if self.num_nodes > self.num_processes:
            raise ValueError(
                f"num_nodes is {self.num_nodes}, but num_processes {self.num_processes}: each node has one at least"
            )

    def devices_on(self, spec: MachineSpec) -> int:
        """Return the number of devices that the program finds on this machine."""
        return self.num_devices

    def chosen_on(self, spec: MachineSpec, environment: Mapping[str, str]) -> Self:
        """Return the options as `environment` changes them on a machine. ValueError for a variable's invalid value."""
        return self


class _Gate(Signal):
    """One round of a barrier, set when all threads have arrived; a deadlock report asks it which are missing."""

    __slots__ = ("_parties", "arrived")

    def __init__(self, sim: Simulation, parties: int) -> None:
        super().__init__(sim, "barrier")
        self._parties = parties
        self.arrived: list[int] = []
        """The numbers of the threads that wait at the barrier."""

    def missing(self) -> list[str]:
        return [f"host thread {number}" for number in range(self._parties) if number not in self.arrived]


class Barrier:
    """Blocks threads until `parties` of them have arrived; then the next round begins. Cancelled waits don't count."""

    def __init__(self, sim: Simulation, parties: int) -> None:
        self.sim = sim
        self.parties = parties
        self._open = _Gate(sim, parties)

    @property
    def gate(self) -> Signal:
        """Return the signal that is set when all threads have arrived in the current round."""
        return self._open

    async def wait(self, number: int) -> None:
        """Wait for the other threads of the team; `number` is the calling thread's number in the team."""
        gate = self._open
        gate.arrived.append(number)
        if len(gate.arrived) == self.parties:
            # The gate of the next round is in place before anybody goes on: a thread may be back at once.
            self._open = _Gate(self.sim, self.parties)
            gate.set()
        else:
            try:
                await gate.wait()
            except BaseException:
                if not gate.is_set:
                    gate.arrived.remove(number)
                raise


Drivers: TypeAlias = Sequence[Driver]
"""The driver library of each device."""


DIRECT: Final = DeviceOptions(allocator="direct")
"""The runtime's options for models that offer no choice."""
R = TypeVar("R")
T = TypeVar("T", bound="ProgramThread")


class OffloadProgram(ABC, Generic[T]):
    """A program on a machine, in any programming model, whose class of host threads is `T`.

    drivers: this process's driver library of each device. on_devices: the offloading runtime's options on every device.
    Raises ValueError for an unknown name as an option's value, or if the memory configuration needs a compiler's
    analysis of the program (`DeviceOptions.host_program`) and the user gives none; UnifiedMemoryUnavailable when the
    devices lack what that configuration requires. A program ends with `finish`: background work of the threads
    completes, and pooled device memory is returned.
    """

    tells_uses: ClassVar[bool] = False
    """Whether the model reports the program's memory accesses to an observer."""
    counts_initial_device = False
    """Whether the host has a device number, the one after the last device's."""
    falls_back = False
    """Whether the host executes device work where the program can use no device."""

    def __init__(
        self,
        machine: Machine,
        drivers: Drivers,
        options: ProgramOptions,
        trace: Trace | None,
        on_devices: DeviceOptions = DIRECT,
    ) -> None:
        self.machine = machine
        self.sim = machine.sim
        self.trace = trace
        self.phantom = options.phantom
        self.costs = machine.spec.read(RuntimeCosts)
        chosen = configuration_named(configuration_named(on_devices.configuration).for_program(on_devices.host_program))
        self.devices = [
            OffloadDevice(machine, number, driver, chosen, on_devices, trace) for number, driver in enumerate(drivers)
        ]
        self.num_devices = len(self.devices) if has_devices(machine.spec) else 0
        """Number of devices that directives and routines may use; 0 on a machine that has only a host."""
        self._unstarted = [] if machine.spec.text("runtime.start") == "warm" else [*self.devices]
        """Devices on which `start_devices` has not loaded the program yet."""
        self.globals = DeviceGlobals(self.devices, Lock(machine.sim, machine.named("image load")))
        self._arenas: dict[int, tuple[Arena, Arena]] = {}
        self.next_directive: Callable[[], int] = itertools.count(1).__next__
        """Returns the number of the next directive."""
        self._threads = self._in_teams = 0
        self._too_nested: RuntimeError | None = None  # the first refusal, for which those of other threads stand
        self._started = False
        self.arrays = ProgramArrays(machine, self.devices, options.phantom)
        self.observer: ProgramObserver | None = None
        """The observer that was passed to `observe`; None without one."""
        self.tell: Tell | None = None
        """Takes the events of the program, as the devices' `tell` does; None without a listener."""

    def observe(self, observer: ProgramObserver) -> None:
        """Report everything that the program and its devices do from now on to `observer`."""
        self.observer = observer
        self.tell = self.arrays.tell = observer.handle
        self.arrays.watch = observer.watch_array
        for device in self.devices:
            device.listen(observer.handle, observer.watch_kernel)
            if not device.keeps_events:
                observer.handle(MapsUnordered(device.number))

    def start(self) -> None:
        """Spawn the devices' daemon actors (simulated tasks), once. Call this from a running actor."""
        if not self._started:
            self._started = True
            self.start_actors()

    def start_actors(self) -> None:
        """Spawn the daemon actors (simulated tasks) of the devices; `start` calls this once."""
        for device in self.devices:
            device.start()

    async def start_devices(self) -> None:
        """Start the driver library and load the program on the devices, unless that has been done.

        Models whose runtime starts at its first call use this. The first thread that calls it does the work, and
        others wait. LLVM's runtime loads its image at the first directive instead (`DeviceGlobals`).
        """
        if not self._unstarted:
            return
        lock = self.globals.lock
        await take(lock, self.machine.host_time)
        try:
            while self._unstarted:
                await self.start_device(self._unstarted[0])
                self._unstarted.pop(0)  # only now: should this thread be left early, the next one does it
        finally:
            lock.release()

    async def start_device(self, device: OffloadDevice) -> None:
        """Load the program on one device, in a model whose runtime starts at its first call (`start_devices`)."""
        await device.plugin.load_program()

    # threads

    def host_thread(self, number: int | None = None, num_threads: int = 1, barrier: Barrier | None = None) -> T:
        """Make a thread of a team for the running actor (simulated task). number None: the next unused number."""
        self.start()
        if number is None:
            number = self._threads
            self._threads += 1
        return self.make_thread(
            number, num_threads, barrier or Barrier(self.sim, num_threads), *self._arenas_of(number)
        )

    @abstractmethod
    def make_thread(self, number: int, num_threads: int, barrier: Barrier, heap: Arena, stack: Arena) -> T:
        """Make a host thread of the model's class: its number, its team's size and barrier, its heap and its stack."""

    def _arenas_of(self, number: int) -> tuple[Arena, Arena]:
        """Return the heap arena and the stack of the threads with this number; they outlive the thread's team."""
        memory = self.machine.host_memory
        if number not in self._arenas:
            self._arenas[number] = (Arena.heap(memory), Arena.stack(memory))
        return self._arenas[number]

    async def parallel(self, body: Callable[[T], Awaitable[R]], num_threads: int = 1) -> list[R]:
        """Run a team of host threads, each `await body(t)`, and return their results in order.

        The call returns when all threads have ended, with their background work where the model waits for it. Raises
        RuntimeError for parallel regions nested too deep, as when a body opens a region that runs the same body.
        """
        check_count("num_threads", num_threads, MOST_THREADS)
        depth, threads = self.sim.current.data.get("regions", 0) + 1, self._in_teams + num_threads
        if depth > 1 and (depth > MOST_NESTED or threads > MOST_NESTED_THREADS or self._too_nested):
            refused = RuntimeError(
                f"parallel: {depth} regions lie in one another, with {threads:,} threads in all; {MOST_NESTED} and "
                f"{MOST_NESTED_THREADS:,} may be. Does the body open the region that it is run in?"
            )
            self._too_nested = self._too_nested or refused
            raise refused from (None if self._too_nested is refused else self._too_nested)
        self.start()
        barrier = Barrier(self.sim, num_threads)
        results: dict[int, R] = {}
        tell, fork, join = self.tell, object(), object()

        async def member(number: int) -> None:
            self.sim.current.data["regions"] = depth
            thread = self.host_thread(number, num_threads, barrier)
            born = self.sim.now
            if tell is not None:
                tell(StrandBegan(self.machine.named(f"host thread {number}"), (fork,)))
            results[number] = await started("parallel's body", body, thread)
            await thread.leave_team()
            if tell is not None:
                tell(StrandEnded(join))
            self.machine.host_time.lived(self.sim.now - born)

        if tell is not None:
            tell(Signalled(fork))
        self._in_teams += num_threads
        try:
            async with self.sim.open_nursery() as nursery:
                for number in range(num_threads):
                    nursery.spawn(member, number, name=self.machine.named(f"host thread {number}"))
        finally:
            self._in_teams -= num_threads
        if tell is not None:
            tell(Awaited(join))
        return [results[number] for number in range(num_threads)]

    # devices

    def device(self, number: int, call: str = "") -> OffloadDevice:
        """Return the device with this number. InvalidDevice, naming `call`, if the program has no such device."""
        if get_ident() != self.sim.thread:
            raise self.sim.in_wrong_thread()
        if not 0 <= number < self.num_devices:
            raise InvalidDevice.now(self.sim, self._why_not(number), call=call, device=number)
        return self.devices[number]

    def _why_not(self, number: int) -> str:
        """Explain why no device has this number."""
        if not self.num_devices:
            return f"{self.machine.spec.name} has no device to offload to (usm.shared = no_device)"
        count = len(self.devices)
        why = "is the host" if self.counts_initial_device and number == count else "is invalid"
        return f"device number {number} {why}, only {count} {'device is' if count == 1 else 'devices are'} available"

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of the runtime's locks of all devices, by lock name."""
        locks: dict[str, LockStatistics] = {}
        for device in self.devices:
            locks.update(device.locks())
        locks[self.globals.lock.name] = self.globals.lock.statistics()
        return locks

    def algorithms(self) -> dict[str, int]:
        """Return how often a C++ standard parallelism program called algorithms, waited etc., by name, or {}."""
        return {}

    def barriers(self) -> dict[Hashable, int]:
        """Return how often the host waited after a C++ standard algorithm, or not, by decision (`Kept`, `Elided`)."""
        return {}

    # the end

    async def finish(self) -> None:
        """Complete work that threads left running, and return pooled memory, as the first thread does at exit."""
        await self.end_tasks()
        await self.shutdown()

    async def end_tasks(self) -> None:
        """Wait for all work that threads left running, and for the clean-up of directives that ended early."""
        await self.complete_tasks()
        for device in self.devices:
            for rest in device.abandoned if device.ended is None else ():
                if not rest.is_set:
                    await rest.wait()

    @abstractmethod
    async def complete_tasks(self) -> None:
        """Wait for everything that threads left running, also work that no thread waits for; `end_tasks` calls this."""

    async def shutdown(self) -> None:
        """Return pooled device memory and the plugin's own memory to the driver, as the runtime does at exit.

        A device that a fatal error has ended keeps both. A failing free is reported and ends nothing else.
        """
        begin = self.sim.now
        for device in self.devices:
            if device.ended is None:
                try:
                    await device.release_pooled()
                    await device.plugin.unload()
                except DriverError as error:
                    device.report(f"PluginInterface error: {FAILED_FREE}: {error}")
        self.machine.host_time.lived(self.sim.now - begin)


class ProgramThread(ABC):
    """The object ``t`` that the body of a host thread gets: what all programming models have in common."""

    def __init__(
        self, program: OffloadProgram[Any], number: int, num_threads: int, barrier: Barrier, heap: Arena, stack: Arena
    ) -> None:
        self.program = program
        self.sim = program.sim
        self.number = number
        self.num_threads = num_threads
        self._barrier = barrier
        self._heap = heap
        self._stack = stack

    def __repr__(self) -> str:
        return f"<host thread {self.number}>"

    @property
    def name(self) -> str:
        return self.sim.current.name

    # data of the program

    def array(
        self,
        name: str,
        shape: int | tuple[int, ...],
        dtype: DTypeLike = np.float64,
        fill: Any = None,
        phantom: bool | None = None,
        kind: Kind = "static",
        align: int = 16,
    ) -> HostArray:
        """Make an array in host memory: a C array of this thread, or a pointer to allocated memory (``kind="heap"``).

        OpenMP maps the two differently. A C array that no clause names is mapped tofrom as a whole; for a pointer, only
        existing mappings are found. A mapped section of a pointer is attached, which costs two more table look-ups.

        fill: a number, or values to copy; without it, zeros in untouched pages. phantom: whether the array has a size
        without values; by default the program decides. align: its address is a multiple of this many bytes.
        """
        return self.program.arrays.make(name, shape, dtype, fill, phantom, kind, align, self._heap, self._stack)

    @checked
    def pointer(self, array: HostArray) -> HostArray:
        """Return the pointer variable of a heap array, as an array that holds one address.

        Raises ValueError for a C array, which has none. If the variable is mapped together with a section of the array,
        it is attached to that section on the device.
        """
        if not array.pointer_address:
            raise ValueError(f"array {array.name!r} is no pointer: make it with kind='heap'")
        return array.pointer_variable

    @checked
    def free(self, array: HostArray) -> Awaitable[object] | None:
        """Give the memory of a heap array back to the heap of the thread that allocated it.

        Returns None; in models whose free takes virtual time, returns an awaitable that ends when the memory is free.
        Raises InvalidFree for another array, or for a second free.
        """
        self.program.arrays.free(array)
        return None

    @checked
    def mbind(self, array: HostArray, socket: int) -> None:
        """Bind an array to the memory of a socket (Linux's mbind, or numactl --membind) from now on.

        By default memory lies at the socket of each device. Devices at another socket, and memory staged for them, use
        the link between the sockets (``numa.socket_bw``); kernels that use the array in place do not use that link
        here. The call takes no time. Raises FreedHostMemory for a freed array, ValueError for an unknown socket, and
        ProfileError on a machine whose sockets are not described (``pcie.sockets``).
        """
        self.program.devices[0].check_alive(array, "mbind")
        self.program.machine.sockets.bind(array.address, array.nbytes, socket)

    @checked
    def first_touch(self, array: HostArray) -> Awaitable[object]:
        """Write to all pages of an array that was made without `fill`.

        On an APU, untouched pages are populated now, at the cost of that work, instead of when a kernel or a copy
        accesses them. Raises FreedHostMemory for an array that was freed.
        """
        self.program.devices[0].check_alive(array, "first_touch")
        if (tell := self.program.tell) is not None:
            tell(HostUsed(array, array.address, array.nbytes, True))
        return self.program.devices[0].plugin.host_touch(array.address, array.nbytes)

    def host_access(self, place: Span, writes: bool | None = None) -> Awaitable[object]:
        """Read or write all of `place` (an array or a section) on the host; `writes` says which, for `offloadrt check`.

        Managed memory that the device owns comes back by page faults; other memory takes no time here. The thread's
        computation with the data is not included. For managed memory with the advice `read_mostly`, a read
        (`writes=False`) leaves the devices' copies valid. Raises FreedHostMemory for an array that was freed.
        """
        begin, nbytes = extent(place, "host_access")
        array = array_of(place)
        self.program.devices[0].check_alive(array, "host_access")
        if (tell := self.program.tell) is not None and (array.phantom or writes is not None):
            tell(HostUsed(array, begin, nbytes, writes))
        return self.program.devices[0].plugin.host_touch(begin, nbytes, writes is not False)

    # what a thread does besides

    @checked
    async def compute(self, seconds: float) -> None:
        """Occupy a core for `seconds` virtual seconds."""
        with self.doing("compute"):
            await self.program.machine.cores.compute(seconds)

    @checked
    def pin(self, core: int) -> None:
        """Pin this thread to one core (sched_setaffinity, or a place of OMP_PLACES).

        Threads that are pinned to the same core share it in time slices (`stream.time_slice`), also while one of them
        spins. Threads that a pinned thread makes are pinned with it; so are LLVM's hidden helper threads if this thread
        makes the first task. Raises ValueError for a core that the machine does not have.
        """
        machine = self.program.machine
        machine.cores.pin(self.sim.current, core, machine.spec.value("stream.time_slice"))

    def doing(self, activity: str) -> AbstractContextManager[None]:
        """Name the thread's activity while the body of ``with`` runs; pictures of the run show this name."""
        return doing(self.program.trace, self.sim.current, activity)

    @checked
    async def sleep(self, seconds: float) -> None:
        await self.sim.sleep(seconds)

    async def barrier(self) -> None:
        """Wait until all threads of the team have come to the barrier."""
        since, tell, gate = self.sim.now, self.program.tell, self._barrier.gate
        if tell is not None:
            tell(Signalled(gate))
        with self.doing("barrier"):
            await self._barrier.wait(self.number)
        if tell is not None:
            tell(Awaited(gate))
        self.program.machine.host_time.add("threads", self.sim.now - since)

    @abstractmethod
    async def leave_team(self) -> None:
        """End the thread's part of a parallel region; wait for its background work if the model requires it."""


@attrs.frozen
class Model:
    """A programming model: its options, its program class and its module (entry points of ``offloadrt.models``)."""

    options: type[ProgramOptions]
    """The options class of the model's programs; its `model` is the entry point's name."""
    program: Callable[..., OffloadProgram[Any]]
    """Makes a program; called with (machine, drivers, options, trace)."""
    module: str
    """The module that ``from offloadrt import NAME`` imports."""


MODELS: Final = Registry[Model]("model", "offloadrt.models", ("options", "program", "module"))
