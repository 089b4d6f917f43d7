"""The driver library of one device: CUDA's driver API, as host threads call it.

Every call is a coroutine that runs in the calling thread and takes the context lock for its work (``context.py``), so
calls of several threads queue. A call costs what the profile says (`DriverCosts`), is counted under its real name, and
returns when the real call does: an asynchronous copy of pinned memory at once, a copy of pageable memory when the bytes
are staged (to the device) or have arrived (from the device).
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from offloadrt.driver.calls import DriverCall, DriverError
from offloadrt.driver.cuda.context import Context, DriverCosts, Schedule
from offloadrt.driver.cuda.copies import Copies, PeerCopies
from offloadrt.driver.cuda.launches import Graphs, Kernels
from offloadrt.driver.cuda.memory import BlockMemory, ManagedMemory, MemPools, Pinning
from offloadrt.driver.cuda.process import DriverProcess
from offloadrt.driver.cuda.streams import Streams, TimedEvents
from offloadrt.driver.uvm.faults import FaultBatch
from offloadrt.machine import Machine, Statistics, Stream
from offloadrt.sim import LockStatistics


@attrs.frozen
class DriverStatistics:
    """Counts of a device's streams, and of the streams that frees of memory have looked at."""

    streams: int
    """Number of streams that the context has now."""
    streams_visited: int
    """Number of streams that frees have looked at under the context lock, for ``driver.free_visits_streams`` each."""


class Loading:
    """The calls that a process makes before its first kernel: for driver, context, module and kernel.

    A part of their work is in the kernel module (``init.kernel_part``), where processes that start together wait for
    one another. Loading a kernel lazily needs an idle device, because the kernel's code and memory change the context
    ("Lazy Loading", CUDA C++ Programming Guide: loading may require context synchronization). The context lock is held
    meanwhile, so that the calls of all threads wait for the longest running kernel.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._costs = context.costs

    async def init(self) -> None:
        """Initialize the driver in the process (cuInit), which looks at every GPU that the program sees."""
        with self._context.call("cuInit"):
            await self._work(self._costs.init + len(self._context.machine.devices) * self._costs.init_device)

    async def retain_primary_context(self) -> None:
        """Create the device's primary context (cuDevicePrimaryCtxRetain)."""
        with self._context.call("cuDevicePrimaryCtxRetain"):
            async with self._context.locked():
                await self._work(self._costs.create_context)

    async def load_module(self) -> None:
        """Load the program's module into the context (cuModuleLoadData), without its kernels if loading is lazy."""
        with self._context.call("cuModuleLoadData"):
            async with self._context.locked():
                await self._work(self._costs.load_module)

    async def get_function(self) -> None:
        """Charge the look-up of a kernel in the module (cuModuleGetFunction), which loads it if loading is lazy.

        With eager loading the kernel is loaded already, and the call takes no time here.
        """
        with self._context.call("cuModuleGetFunction"):
            if self._costs.loading == "lazy":
                async with self._context.locked():
                    await self._context.drain()
                    await self._work(self._costs.load_kernel)

    async def _work(self, dt: float) -> None:
        """Work in the kernel module first, and then in the library."""
        part = dt * self._costs.start_in_kernel
        await self._context.kernel_driver.work(part)
        await self._context.work(dt - part)


class CudaDriver:
    """The context of one device, with the library's calls by topic: ``driver.memory.alloc``, ``driver.streams.create``.

    Copies, launches and prefetches take ``cause``, the number of the directive that requests them. All other calls, and
    these without ``cause``, belong to the directive that the calling thread executes. ``number``: the device that this
    driver controls, counted from 0 among the process's devices.
    """

    def __init__(self, process: DriverProcess, number: int) -> None:
        self.process = process
        self.machine = process.machine
        self.costs = self.machine.spec.read(DriverCosts)
        self.context = context = Context(process, number, self.costs)
        self.device = context.device
        self.loading = Loading(context)
        self.copies = Copies(context)
        """Copies from and to the host, and within the device."""
        self.peers = PeerCopies(context, self.copies)
        """Copies between devices, and the access that they need."""
        self.streams = Streams(context, self.copies)
        self.events = TimedEvents(context)
        """Events that the program itself makes."""
        self.kernels = Kernels(context, self.copies)
        self.graphs = Graphs(context, self.streams, self.kernels, self.copies)
        self.memory = BlockMemory(context)
        """Blocks of the device."""
        self.managed = ManagedMemory(context, self.memory)
        self.pinning = Pinning(context)
        self.pools = MemPools(context, self.memory)
        """Stream-ordered allocations."""

    async def call_copy(self, stream: Stream | None = None) -> None:
        """Charge the work of HIP's library before a copy in ``stream``; free without HIP or in a stream capture."""
        if self.costs.copy_library and stream not in self.context.captures.streams:
            await self.context.work(self.costs.copy_library)

    @classmethod
    def of(cls, machine: Machine, number: int = 0) -> CudaDriver:
        """Return the driver of a machine's device ``number``, in a process that uses no other device."""
        return cls(DriverProcess(machine, first=number), number)

    @classmethod
    def open(cls, views: Sequence[Machine], devices: int) -> list[list[CudaDriver]]:
        """Return, by process (in ``views``) and device, the drivers of the first ``devices`` devices."""
        processes: list[DriverProcess] = []
        for view in views:
            same = (process for process in processes if process.instance == view.devices[0].index)
            processes.append(DriverProcess(view, devices, next(same, processes[0] if processes else None)))
        return [[cls(process, number) for number in range(devices)] for process in processes]

    def start(self) -> None:
        """Spawn the unified-memory driver's actors (simulated tasks), if it is used; the library itself has none."""
        if self.managed.uvm is not None:
            self.managed.uvm.start()

    def share_buffer(self) -> None:
        """Copy only one piece of pageable memory at a time, over all streams; call this before any copy."""
        self.copies.share_buffer()

    def set_schedule(self, schedule: Schedule) -> None:
        """Set how threads wait for the device from now on (``auto``, ``spin``, …; cuDevicePrimaryCtxSetFlags)."""
        self.context.waiting.schedule = schedule

    def refusal(self, call: DriverCall, code: str, why: str) -> DriverError:
        """Return the error (``code``, with the reason ``why``) of an illegal call; it names thread and time."""
        return self.context.refusal(call, code, why)

    def call(self, api: str, stream: Stream | None = None) -> DriverCall:
        """Count a call (``api``) of a library above this driver: ``with driver.call("cudaMemcpy")``."""
        return self.context.call(api, stream)

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of the driver's locks, by name."""
        process, kernel_driver = self.process, self.context.kernel_driver
        locks = {self.context.lock.name: self.context.lock.statistics()}
        if (buffer := self.copies.buffer) is not None:
            locks[buffer.name] = buffer.statistics()
        if process.lock is not None:
            locks[process.lock.lock.name] = process.lock.lock.statistics()
        if (locking := process.locking.kernel.statistics()).acquired:
            locks[process.locking.kernel.name] = locking
        if kernel_driver.lock is not None:
            locks[kernel_driver.lock.name] = kernel_driver.lock.statistics()
        if (uvm := self.managed.uvm) is not None:
            lock = uvm.blocks.locks.space
            locks[lock.name] = lock.statistics().combined()
        return locks

    def engines(self) -> dict[str, Statistics]:
        """Return the statistics of the driver's actors: those of the unified-memory driver, and the callback thread."""
        engines: dict[str, Statistics] = {}
        if (uvm := self.managed.uvm) is not None:
            engines[uvm.handler.mailbox.name] = uvm.handler.statistics()
        if (callbacks := self.streams.callback_thread) is not None:
            engines[callbacks.mailbox.name] = callbacks.statistics()
        return engines

    def faults(self) -> dict[str, int]:
        """Return the numbers of faults and migrations of managed memory, by kind; empty without managed memory."""
        return {} if self.managed.uvm is None else self.managed.uvm.blocks.counters.table()

    def fault_batches(self) -> Sequence[FaultBatch]:
        """Return the batches of GPU faults so far; empty without managed memory."""
        return () if self.managed.uvm is None else self.managed.uvm.handler.batches

    def statistics(self) -> DriverStatistics:
        """Return the driver's counts so far."""
        return DriverStatistics(len(self.streams.all), self.memory.visited)
