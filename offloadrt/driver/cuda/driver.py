"""The driver library of one device: CUDA's driver API, as host threads call it.

Every call is a coroutine that runs in the calling thread and takes the context lock for its work (``context.py``), so
calls of several threads queue.  It costs what the profile says (``costs.py``), is counted under its real name, and
returns when the real one does: an asynchronous copy of pinned memory at once, one of pageable memory when the bytes are
staged (to the device) or have arrived (from it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from offloadrt.driver.calls import DriverCall
from offloadrt.driver.cuda.context import Context
from offloadrt.driver.cuda.copies import Copies
from offloadrt.driver.cuda.copy_calls import CopyCalls
from offloadrt.driver.cuda.costs import DriverCosts
from offloadrt.driver.cuda.event_calls import EventCalls
from offloadrt.driver.cuda.graph_calls import GraphCalls
from offloadrt.driver.cuda.kernel_calls import KernelCalls
from offloadrt.driver.cuda.kernel_driver import KernelDriver
from offloadrt.driver.cuda.managed_calls import ManagedCalls
from offloadrt.driver.cuda.memory_calls import MemoryCalls
from offloadrt.driver.cuda.pinning_calls import PinningCalls
from offloadrt.driver.cuda.pool_calls import MemPoolCalls
from offloadrt.driver.cuda.process_lock import ProcessLock
from offloadrt.driver.cuda.start_calls import StartCalls
from offloadrt.driver.cuda.stream_calls import StreamCalls
from offloadrt.driver.cuda.waiting import Schedule
from offloadrt.driver.errors import DriverError
from offloadrt.driver.uvm.gpu_faults import FaultBatch
from offloadrt.driver.uvm.uvm import Uvm
from offloadrt.machine import Device, Machine, Statistics, Stream
from offloadrt.machine.host_lock import HostLock
from offloadrt.sim import LockStatistics


@attrs.frozen
class DriverStatistics:
    """Counts of one device's driver."""

    streams: int
    """Streams that the context has now."""
    streams_visited: int
    """Streams that frees have looked at while they held the context lock (``driver.free_visits_streams``)."""


class Driver:
    """The context of one device with all its calls.

    Wide because it is the one list of the library's calls; each group of calls is a class of its own.
    Every call takes ``cause``, the number of the directive that asks for it (None: that of the running actor).
    ``beside`` is the driver of another process on the same device, with which it shares the kernel module.
    """

    def __init__(self, machine: Machine, device: Device, beside: Driver | None = None) -> None:
        self.machine = machine
        self.device = device
        self.costs = machine.spec.read(DriverCosts)
        self._context = context = Context(machine, device, self.costs)
        self.kernel_driver: KernelDriver = KernelDriver(machine, device) if beside is None else beside.kernel_driver
        copies = Copies(context)

        start = StartCalls(context)
        self.init = start.init
        self.device_primary_ctx_retain = start.device_primary_ctx_retain
        self.module_load_data = start.module_load_data
        self.module_get_function = start.module_get_function

        self._streams = streams = StreamCalls(context, copies)
        self.stream_create = streams.stream_create
        self.stream_destroy = streams.stream_destroy
        self.stream_synchronize = streams.stream_synchronize
        self.stream_query = streams.stream_query
        self.launch_host_func = streams.launch_host_func
        self.stream_wait_event = streams.stream_wait_event
        self.event_record = streams.event_record
        self.event_synchronize = streams.event_synchronize
        self.events = EventCalls(context)
        """The calls for events that a program makes itself."""

        copying = CopyCalls(context, copies)
        self.memcpy_htod_async = copying.memcpy_htod_async
        self.memcpy_dtoh_async = copying.memcpy_dtoh_async
        self.memcpy_dtod_async = copying.memcpy_dtod_async
        self.memcpy_peer_async = copying.memcpy_peer_async
        self.device_can_access_peer = copying.device_can_access_peer

        kernels = KernelCalls(context, copies)
        self.launch_kernel = kernels.launch_kernel
        self.memset = kernels.memset
        self.graphs = GraphCalls(context, streams, kernels, copies)
        """The calls for stream capture and graphs."""

        self._managed = managed = ManagedCalls(context, self.kernel_driver)
        self.manage = managed.manage
        self.mem_alloc_managed = managed.mem_alloc_managed
        self.mem_prefetch_async = managed.mem_prefetch_async
        self.mem_advise = managed.mem_advise
        self._copying = copying

        self._memory = memory = MemoryCalls(context, managed, streams, self.kernel_driver)
        self.mem_alloc = memory.mem_alloc
        self.mem_free = memory.mem_free

        self.pools = MemPoolCalls(context, memory)
        """The calls for stream-ordered allocations."""
        self._copies = copies
        pinning = PinningCalls(context, copies)
        self.mem_host_register = pinning.mem_host_register
        self.mem_host_unregister = pinning.mem_host_unregister
        self.mem_alloc_host = pinning.mem_alloc_host
        self.mem_free_host = pinning.mem_free_host

    def share_pinned(self, other: Driver) -> None:
        """Let copies of both contexts find what either has pinned, as CUDA does under unified addressing."""
        self._copies.pinned = other._copies.pinned

    def share_buffer(self) -> None:
        """Have one copy of pageable memory at a time staged, whatever its stream; call it before any copy."""
        self._copies.share_buffer()

    def is_pinned(self, address: int, nbytes: int) -> bool:
        """Tell whether copies reach a range of host memory without staging."""
        return self._copies.pinned.covers(address, nbytes)

    @classmethod
    def of(cls, machine: Machine, number: int = 0, beside: Driver | None = None) -> Driver:
        """Return the driver of a machine's device ``number``."""
        return cls(machine, machine.devices[number], beside)

    @property
    def streams(self) -> Sequence[Stream]:
        """Return the streams of the context in order of creation."""
        return self._streams.streams

    @property
    def uvm(self) -> Uvm | None:
        """Return the unified-memory driver, once ``manage`` has been called."""
        return self._managed.uvm

    def set_schedule(self, schedule: Schedule) -> None:
        """Say how threads wait for the device from now on (cuDevicePrimaryCtxSetFlags)."""
        self._context.waiting.schedule = schedule

    @property
    def refusal(self) -> Callable[[DriverCall, str, str], DriverError]:
        """Return what makes the error of a call that a program may not make so."""
        return self._context.refusal

    def call(self, api: str, stream: Stream | None = None) -> DriverCall:
        """Account for a call of a library above this one, as ``with driver.call("cudaMemcpy")`` does."""
        return self._context.call(api, stream, None)

    @property
    def context(self) -> HostLock:
        """Return the context lock."""
        return self._context.lock

    async def ctx_enable_peer_access(self, peer: int, cause: int | None = None) -> None:
        """Let copies, and managed memory, use the link to another device from now on (cuCtxEnablePeerAccess).

        Raises DriverError when there is none, and when access is enabled already.
        """
        await self._copying.ctx_enable_peer_access(peer, cause)
        self.kernel_driver.space.enable_peer(self.device.index, peer)

    def share_process(self, others: Sequence[Driver]) -> None:
        """Share the library's lock and managed memory with the other drivers of the process.

        Call it before any of them manages memory. Processes on the same devices share managed memory already, as they
        have their kernel drivers.
        """
        self._context.process_lock = ProcessLock(self.machine)
        for other in others:
            other._context.process_lock = self._context.process_lock
            other._copies.locking = self._copies.locking
        devices = [self.kernel_driver, *(other.kernel_driver for other in others)]
        for kernel_driver in devices:
            kernel_driver.space, kernel_driver.devices = devices[0].space, devices

    def start_managed(self) -> None:
        """Spawn the actors of the unified-memory driver on all devices of the process that have none yet."""
        for kernel_driver in self.kernel_driver.devices:
            if kernel_driver.uvm is not None:
                kernel_driver.uvm.start()

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of its locks, by name."""
        locks = {self.context.name: self.context.statistics()}
        if (buffer := self._copies.buffer) is not None:
            locks[buffer.name] = buffer.statistics()
        if (library := self._context.process_lock) is not None:
            locks[library.lock.name] = library.lock.statistics()
        for lock in (self._copies.locking.kernel, self.kernel_driver.lock):
            if lock is not None and (lock is self.kernel_driver.lock or lock.statistics().acquired):
                locks[lock.name] = lock.statistics()
        if self.uvm is not None:
            locks[self.uvm.lock.name] = self.uvm.lock.statistics().combined()
        return locks

    def engines(self) -> dict[str, Statistics]:
        """Return what its actors did, by name: the unified-memory driver's, and the thread for host functions."""
        engines: dict[str, Statistics] = {}
        if self.uvm is not None:
            engines[self.uvm.handler.mailbox.name] = self.uvm.handler.statistics()
        if (callbacks := self._streams.callback_thread) is not None:
            engines[callbacks.mailbox.name] = callbacks.statistics()
        return engines

    def faults(self) -> dict[str, int]:
        """Return the faults and migrations of managed memory; nothing when there is none."""
        return {} if self.uvm is None else self.uvm.counters.table()

    def fault_batches(self) -> Sequence[FaultBatch]:
        """Return the batches of GPU faults so far; nothing without managed memory."""
        return () if self.uvm is None else self.uvm.handler.batches

    def statistics(self) -> DriverStatistics:
        """Return what the driver counted so far."""
        return DriverStatistics(len(self.streams), self._memory.visited)
