"""One device of the runtime: its present table, the lock of that, its plugin, its allocator and its memory configuration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import attrs

from offloadrt.runtime.allocators import AllocatorSite, DeviceAllocator, make_allocator
from offloadrt.runtime.configurations import MemoryConfiguration
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.entry_locks import EntryLocks
from offloadrt.runtime.errors import OffloadError
from offloadrt.runtime.host_array import HostArray, HostSpan
from offloadrt.runtime.ompt import Tool
from offloadrt.runtime.plugin import Plugin, UserModeDriver
from offloadrt.runtime.present_table import PresentTable
from offloadrt.runtime.table_lock import DeviceTableLock
from offloadrt.sim import LockStatistics, Simulation
from offloadrt.trace import Trace, events

Bytes = Any
E = TypeVar("E", bound=OffloadError)


class Memory(Protocol):
    """The device's memory, as far as the runtime and its kernels look into it."""

    def view(self, address: int, nbytes: int) -> Bytes: ...


@attrs.frozen
class RuntimeCosts:
    """Host time of the runtime's own work, in seconds; each the cost of one operation done alone."""

    lookup: float
    insert: float
    erase: float
    handover: float
    directive: float
    task: float
    kernel_arguments: float
    memory_manager: float
    memcpy_s_per_byte: float


class OffloadDevice:
    """What LLVM calls `DeviceTy`. Built once a device; `start` spawns its actor."""

    def __init__(
        self,
        sim: Simulation,
        number: int,
        driver: UserModeDriver,
        memory: Memory,
        configuration: MemoryConfiguration,
        allocator: str,
        costs: RuntimeCosts,
        compute: Callable[[float], Awaitable[None]],
        trace: Trace | None = None,
        memory_manager_threshold: int = 8192,
    ) -> None:
        self.sim = sim
        self.number = number
        self.memory = memory
        self.configuration = configuration
        self.costs = costs
        self.compute = compute
        self.trace = trace
        self.tool: Tool | None = None
        self.driver = driver
        self.plugin = Plugin(sim, driver, number)
        site = AllocatorSite(sim, driver, number, compute, costs.memory_manager, memory_manager_threshold)
        self.allocator: DeviceAllocator = make_allocator(allocator, site)
        suffix = f" {number}" if number else ""
        self.table = PresentTable()
        self.table_lock = DeviceTableLock(sim, f"device table{suffix}")
        self.entry_locks = EntryLocks(sim, f"entry{suffix}")
        self.messages: list[str] = []
        """What LLVM's runtime would have written to the standard error."""
        self._blocks: dict[int, int] = {}

    def start(self) -> None:
        self.table_lock.start()

    # operations, each told to the tool at its host call

    async def allocate(self, nbytes: int, array: HostArray | None, host_address: int, phantom: bool) -> int:
        """A block of device memory. Raises the driver's OutOfDeviceMemory."""
        address = await self.allocator.allocate(nbytes, phantom)
        self._blocks[address] = nbytes
        if self.tool is not None:
            self.tool.target_data_op(self.number, "alloc", array, host_address, address, nbytes)
        return address

    async def free(self, address: int, array: HostArray | None, host_address: int) -> None:
        nbytes = self._blocks.pop(address, 0)
        if self.tool is not None:
            self.tool.target_data_op(self.number, "delete", array, host_address, address, nbytes)
        await self.allocator.free(address)

    async def submit(
        self, queue: DirectiveQueue, device_address: int, source: HostSpan, array: HostArray | None, op: str = "h2d"
    ) -> None:
        if self.tool is not None:
            self.tool.target_data_op(self.number, op, array, source.address, device_address, source.nbytes)
        await self.plugin.submit_data(queue, device_address, source)

    async def retrieve(
        self, queue: DirectiveQueue, destination: HostSpan, device_address: int, array: HostArray | None
    ) -> None:
        if self.tool is not None:
            self.tool.target_data_op(self.number, "d2h", array, destination.address, device_address, destination.nbytes)
        await self.plugin.retrieve_data(queue, destination, device_address)

    async def synchronize(self, queue: DirectiveQueue) -> None:
        """Drain the directive's queue, then do what was put off until then. Raises what a kernel of the queue did wrong."""
        await self.plugin.synchronize(queue)
        if queue.kernel_error is not None:
            raise queue.kernel_error
        pending = queue.post_processing
        queue.post_processing = []
        for action in pending:
            await action()

    async def lock_table(self) -> None:
        """Take the table; a thread that had to wait for it pays the hand-over while it owns it."""
        if await self.table_lock.acquire() and self.costs.handover:
            await self.compute(self.costs.handover)

    def block_size(self, address: int) -> int | None:
        """Bytes of the block that the runtime allocated at this device address."""
        return self._blocks.get(address)

    @property
    def live_blocks(self) -> int:
        """Device blocks that the runtime has allocated and not freed."""
        return len(self._blocks)

    @property
    def live_bytes(self) -> int:
        return sum(self._blocks.values())

    # what goes wrong

    def report(self, message: str) -> None:
        """A line of the runtime on the standard error; it does not end the run by itself."""
        self.messages.append(message)
        if (trace := self.trace) is not None:
            trace(events.RuntimeError_, self.number, -1, self.sim.current.cause, "omptarget", message)

    def error(self, kind: type[E], message: str, call: str, array: str) -> E:
        """An exception that says who, what, when."""
        return kind(
            message,
            call=call,
            array=array,
            thread=self.sim.current.name,
            time_s=self.sim.now,
            device=self.number,
            messages=tuple(self.messages),
        )

    def locks(self) -> dict[str, LockStatistics]:
        """Statistics of every lock of this device, by name."""
        found = {
            self.table_lock.name: self.table_lock.statistics(),
            f"{self.entry_locks.name} locks": self.entry_locks.statistics(),
            self.plugin.streams.lock.name: self.plugin.streams.lock.statistics(),
        }
        found.update(self.allocator.locks())
        return found
