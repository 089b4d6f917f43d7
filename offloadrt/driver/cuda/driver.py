"""The driver library of one device: CUDA's driver API, as host threads call it.

Every call is a coroutine that runs in the calling thread and takes the context lock for its work (``context.py``), so
calls of several threads queue.  It costs what the profile says (`DriverCosts`), is counted under its real name, and
returns when the real one does: an asynchronous copy of pinned memory at once, one of pageable memory when the bytes are
staged (to the device) or have arrived (from it).
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
    """Counts of one device's driver."""

    streams: int
    """Streams that the context has now."""
    streams_visited: int
    """Streams that frees have looked at while they held the context lock (``driver.free_visits_streams``)."""


class Loading:
    """The calls that a process makes before its first kernel: for the driver, the context, the module, the kernel.

    They do a part of their work in the kernel module (``init.kernel_part``), where processes that start together wait
    for one another.  A kernel that is loaded lazily needs the device idle, because its code and its memory change the
    context ("Lazy Loading", CUDA C++ Programming Guide: loading may require context synchronization).  The context
    lock is held meanwhile, so that the calls of all threads wait for the longest of the kernels that run.
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
        """Find a kernel in the module (cuModuleGetFunction), which loads it if loading is lazy.

        With eager loading it is there, and the call takes no time here.
        """
        with self._context.call("cuModuleGetFunction"):
            if self._costs.loading == "lazy":
                async with self._context.locked():
                    await self._context.drain()
                    await self._work(self._costs.load_kernel)

    async def _work(self, dt: float) -> None:
        """Work in the library, and first in the kernel module."""
        part = dt * self._costs.start_in_kernel
        await self._context.kernel_driver.work(part)
        await self._context.work(dt - part)


class CudaDriver:
    """The context of one device, with the library's calls by topic: ``driver.memory.alloc``, ``driver.streams.create``.

    Copies, launches and prefetches take ``cause``, the number of the directive that asks for them; all other calls, and
    these without one, have that of the running actor.
    ``number`` is the device, as the process counts them.
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
        """Events that a program makes itself."""
        self.kernels = Kernels(context, self.copies)
        self.graphs = Graphs(context, self.streams, self.kernels, self.copies)
        self.memory = BlockMemory(context)
        """Blocks of the device."""
        self.managed = ManagedMemory(context, self.memory)
        self.pinning = Pinning(context)
        self.pools = MemPools(context, self.memory)
        """Stream-ordered allocations."""

    async def call_copy(self, stream: Stream | None = None) -> None:
        """Do what HIP's library does for a copy before it calls HSA. LLVM's plugin calls HSA itself."""
        if self.costs.copy_library and stream not in self.context.captures.streams:
            await self.context.work(self.costs.copy_library)

    @classmethod
    def of(cls, machine: Machine, number: int = 0) -> CudaDriver:
        """Return the driver of a machine's device ``number``, in a process that uses no other."""
        return cls(DriverProcess(machine, first=number), number)

    @classmethod
    def open(cls, views: Sequence[Machine], devices: int) -> list[list[CudaDriver]]:
        """Return the drivers of each process, of which each has a view of the machine."""
        processes: list[DriverProcess] = []
        for view in views:
            same = (process for process in processes if process.instance == view.devices[0].index)
            processes.append(DriverProcess(view, devices, next(same, processes[0] if processes else None)))
        return [[cls(process, number) for number in range(devices)] for process in processes]

    def start(self) -> None:
        """Spawn the actors of the driver of managed memory, if the program uses that; the library has none."""
        if self.managed.uvm is not None:
            self.managed.uvm.start()

    def share_buffer(self) -> None:
        """Have one copy of pageable memory at a time staged, whatever its stream; call it before any copy."""
        self.copies.share_buffer()

    def set_schedule(self, schedule: Schedule) -> None:
        """Say how threads wait for the device from now on (cuDevicePrimaryCtxSetFlags)."""
        self.context.waiting.schedule = schedule

    def refusal(self, call: DriverCall, code: str, why: str) -> DriverError:
        """Return the error of a call that a program may not make so; it says which thread made it, and when."""
        return self.context.refusal(call, code, why)

    def call(self, api: str, stream: Stream | None = None) -> DriverCall:
        """Account for a call of a library above this one, as ``with driver.call("cudaMemcpy")`` does."""
        return self.context.call(api, stream)

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of its locks, by name."""
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
            locks[uvm.lock.name] = uvm.lock.statistics().combined()
        return locks

    def engines(self) -> dict[str, Statistics]:
        """Return what its actors did, by name: the unified-memory driver's, and the thread for host functions."""
        engines: dict[str, Statistics] = {}
        if (uvm := self.managed.uvm) is not None:
            engines[uvm.handler.mailbox.name] = uvm.handler.statistics()
        if (callbacks := self.streams.callback_thread) is not None:
            engines[callbacks.mailbox.name] = callbacks.statistics()
        return engines

    def faults(self) -> dict[str, int]:
        """Return the faults and migrations of managed memory; nothing when there is none."""
        return {} if self.managed.uvm is None else self.managed.uvm.counters.table()

    def fault_batches(self) -> Sequence[FaultBatch]:
        """Return the batches of GPU faults so far; nothing without managed memory."""
        return () if self.managed.uvm is None else self.managed.uvm.handler.batches

    def statistics(self) -> DriverStatistics:
        """Return what the driver counted so far."""
        return DriverStatistics(len(self.streams.all), self.memory.visited)
