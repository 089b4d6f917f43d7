"""An offloading program on an emulated machine: its devices, its host threads, its arrays and its globals."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from offloadrt.driver import Driver, DriverError
from offloadrt.kernels.integers import is_integer
from offloadrt.machine import Machine
from offloadrt.models.host.barrier import Barrier
from offloadrt.models.host.device_globals import DeviceGlobals
from offloadrt.models.host.host_places import Arena
from offloadrt.models.host.options import ProgramOptions, has_devices
from offloadrt.models.host.program_arrays import ProgramArrays
from offloadrt.runtime.configurations import configuration as configuration_named
from offloadrt.runtime.device import FAILED_FREE, DeviceOptions, OffloadDevice, RuntimeCosts
from offloadrt.runtime.errors import InvalidDevice
from offloadrt.runtime.events import Awaited, ProgramObserver, Signalled, StrandBegan, StrandEnded
from offloadrt.runtime.lock_wait import take
from offloadrt.sim import Lock, LockStatistics
from offloadrt.trace import Trace

Drivers: TypeAlias = Sequence[Driver]
"""The driver library of each device."""


class TeamMember(Protocol):
    """What a program asks of its host threads; `host_thread.py`, which knows the program, has the class."""

    async def leave_team(self) -> None:
        """End the thread's part of the team's region."""


DIRECT: Final = DeviceOptions(allocator="direct")
"""What the runtime does for models that have no choice."""
R = TypeVar("R")
T = TypeVar("T", bound=TeamMember)


class OffloadProgram(ABC, Generic[T]):
    """The program's view of the machine, whatever model it is written in; `T` is that model's host thread.

    on_devices: what the runtime does on every device. Raises ValueError for a name that does not exist, or without the
    `host_program` that a configuration needs; UnifiedMemoryUnavailable when the devices cannot do what the
    configuration asks for.

    A program ends with `finish`: what still runs behind the threads' backs completes, pooled device memory is returned.

    Wide because each model's program adds to it, and its threads ask it for devices, arrays and globals alike.
    """

    counts_initial_device = False
    """Whether the number after the last device's is the host's."""
    falls_back = False
    """Whether the host does what was meant for a device, where the program can use none."""

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
        chosen = configuration_named(on_devices.configuration).for_program(on_devices.host_program)
        self.devices = [
            OffloadDevice(machine, number, driver, chosen, on_devices, trace) for number, driver in enumerate(drivers)
        ]
        self.num_devices = len(self.devices) if has_devices(machine.spec) else 0
        """How many of them directives and routines may use: none on a machine that has only the host's side."""
        self._unstarted = [] if machine.spec.text("runtime.start") == "warm" else [*self.devices]
        """Devices that have no program yet, in models whose runtime library does not put it there by itself."""
        self.globals = DeviceGlobals(self.devices, Lock(machine.sim, machine.named("image load")))
        self._places: dict[int, tuple[Arena, Arena]] = {}
        self.next_directive: Callable[[], int] = itertools.count(1).__next__
        """Gives the number of the next directive."""
        self._threads = 0
        self._started = False
        self.arrays = ProgramArrays(machine, self.devices, options.phantom)
        self.observer: ProgramObserver | None = None

    def observe(self, observer: ProgramObserver) -> None:
        """Let an observer be told of everything that the program does from now on."""
        self.observer = self.arrays.observer = observer
        for device in self.devices:
            device.listen(observer.handle, uses=True)

    def start(self) -> None:
        """Spawn the daemon actors. Call it from a running actor; a second call does nothing."""
        if not self._started:
            self._started = True
            self.start_actors()

    def start_actors(self) -> None:
        """Spawn the daemon actors, once."""
        for device in self.devices:
            device.start()

    async def start_devices(self) -> None:
        """Start the driver library and load the program on the devices, unless they have it.

        For models whose runtime does so at its first call. Done by the first thread that makes one; others wait for it.
        LLVM's runtime loads its image at the first directive instead (`DeviceGlobals`).
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
        """Load the program on one device."""
        await device.plugin.load_program()

    # threads

    def host_thread(self, number: int | None = None, num_threads: int = 1, barrier: Barrier | None = None) -> T:
        """Return the current actor as a host thread of the program."""
        self.start()
        if number is None:
            number = self._threads
            self._threads += 1
        return self.make_thread(
            number, num_threads, barrier or Barrier(self.sim, num_threads), *self._places_of(number)
        )

    @abstractmethod
    def make_thread(self, number: int, num_threads: int, barrier: Barrier, heap: Arena, stack: Arena) -> T:
        """Make a host thread in the words of the model."""

    def _places_of(self, number: int) -> tuple[Arena, Arena]:
        """Return heap and stack of a thread; they outlive the team that it is in."""
        memory = self.machine.host_memory
        if number not in self._places:
            self._places[number] = (Arena.heap(memory), Arena.stack(memory))
        return self._places[number]

    async def parallel(self, body: Callable[[T], Awaitable[R]], num_threads: int = 1) -> list[R]:
        """Run a team of host threads, each `await body(t)`, and return their results in order.

        It ends when all are done, what they left running included.
        """
        if not is_integer(num_threads) or num_threads < 1:
            raise ValueError(f"num_threads is {num_threads!r}, but must be a whole number from 1")
        self.start()
        barrier = Barrier(self.sim, num_threads)
        results: dict[int, R] = {}
        observer, fork, join = self.observer, object(), object()

        async def member(number: int) -> None:
            thread = self.host_thread(number, num_threads, barrier)
            born = self.sim.now
            if observer is not None:
                observer.handle(StrandBegan(self.machine.named(f"host thread {number}"), (fork,)))
            results[number] = await body(thread)
            await thread.leave_team()
            if observer is not None:
                observer.handle(StrandEnded(join))
            self.machine.host_time.lived(self.sim.now - born)

        if observer is not None:
            observer.handle(Signalled(fork))
        async with self.sim.open_nursery() as nursery:
            for number in range(num_threads):
                nursery.spawn(member, number, name=self.machine.named(f"host thread {number}"))
        if observer is not None:
            observer.handle(Awaited(join))
        return [results[number] for number in range(num_threads)]

    # devices

    def device(self, number: int, call: str = "") -> OffloadDevice:
        """Return a device by number. Raises InvalidDevice."""
        if not is_integer(number):
            raise TypeError(f"{call}: device is {number!r}, which is no number of a device")
        if not 0 <= number < self.num_devices:
            raise InvalidDevice.now(self.sim, self._why_not(number), call=call, device=number)
        return self.devices[number]

    def _why_not(self, number: int) -> str:
        """Say why a number is that of no device."""
        if not self.num_devices:
            return f"{self.machine.spec.name} has no device to offload to (usm.shared = no_device)"
        count = len(self.devices)
        why = "is the host" if self.counts_initial_device and number == count else "is invalid"
        return f"device number {number} {why}, only {count} {'device is' if count == 1 else 'devices are'} available"

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of the runtime's locks, by name, of all devices."""
        locks: dict[str, LockStatistics] = {}
        for device in self.devices:
            locks.update(device.locks())
        locks[self.globals.lock.name] = self.globals.lock.statistics()
        return locks

    def algorithms(self) -> dict[str, int]:
        """Return what became of the program's algorithms, in numbers; nothing in a model that has none."""
        return {}

    def barriers(self) -> dict[Hashable, int]:
        """Return how often each decision on a barrier was taken; nothing in a model that has none."""
        return {}

    # the end

    async def finish(self) -> None:
        """End the program, in the actor that began it, as a real one does between main's return and exit."""
        await self.end_tasks()
        await self.shutdown()

    async def end_tasks(self) -> None:
        """Wait for everything that the threads left running, and for the rest of directives that were left early."""
        await self.complete_tasks()
        for device in self.devices:
            for rest in device.abandoned if device.ended is None else ():
                if not rest.is_set:
                    await rest.wait()

    @abstractmethod
    async def complete_tasks(self) -> None:
        """Wait for everything that the threads left running; for some of it nobody may have waited."""

    async def shutdown(self) -> None:
        """Return pooled device memory and the plugin's own to the driver, as the runtime does at exit.

        A device that a fatal error has ended keeps both. A free that fails is reported, and the program ends well.
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
