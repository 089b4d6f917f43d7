"""One device of the runtime, and its memory configuration, which decides what a map means.

`OffloadDevice` has the present table, the plugin and the allocator. `MemoryConfiguration` is the interface of all
configurations (`configurations/` has LLVM's); their actions at directives are their `MapHooks`.

`report_failure` writes what LLVM's runtime writes when a call of the driver library has failed, from the plugin's line
to the fatal one. It follows `GenericPluginTy` (offload/plugins-nextgen/common/src/PluginInterface.cpp) and the
functions that call it (omptarget.cpp and OpenMP/Mapping.cpp of LLVM 22). LLVM's addresses are left out.
"""

from __future__ import annotations

import enum
import functools
import inspect
import operator
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Protocol, TypeVar

import attrs

from offloadrt.driver import Driver, DriverError, OutOfDeviceMemory
from offloadrt.kernels import Launch
from offloadrt.machine import Device, InvalidDeviceAddress, Machine
from offloadrt.machine.host_lock import HostLock, LockPolicy, lock_policy
from offloadrt.registry import broken
from offloadrt.runtime import events as told
from offloadrt.runtime.allocators import AllocatorSite, DeviceAllocator, MakeAllocator, make_allocator
from offloadrt.runtime.allocators import allocator as allocator_named
from offloadrt.runtime.errors import ArrayOutOfDeviceMemory, FreedHostMemory, OffloadError, UnifiedMemoryUnavailable
from offloadrt.runtime.events import BlockAllocated, BlockFreed, DataCopied, KernelWatch, Reported, Tell
from offloadrt.runtime.host_array import HostArray, HostSpan
from offloadrt.runtime.lock_wait import take
from offloadrt.runtime.mapping.map_item import DirectiveQueue, MapItem
from offloadrt.runtime.mapping.map_types import MapFlags
from offloadrt.runtime.mapping.present_table import Entry, EntryLocks, PresentTable, TargetPointer
from offloadrt.runtime.plugins import make_plugin
from offloadrt.sim import PASSED, LockStatistics, Signal
from offloadrt.trace import Trace, events

NO_QUEUE: Final = events.NONE


class TracedEvents:
    """A listener of a device's events (`OffloadDevice.listen`) that writes them as rows of the trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._rows: dict[type, Callable[[Any], None]] = {
            told.DirectiveBegan: self._began,
            told.DirectiveLeft: self._left,
            told.Reported: self._reported,
            told.SectionFound: self._lookup,
            told.ItemFound: self._lookup,
            told.ItemEnded: self._lookup,
            told.EntryCounted: self._counted,
            told.EntryEntered: self._entered,
            told.EntryLeft: self._removed,
            told.PointerAttached: self._attached,
        }

    def __call__(self, event: object) -> None:
        """Write the trace row for an event; do nothing for an event class that the trace does not record."""
        if (write := self._rows.get(type(event))) is not None:
            write(event)

    def _began(self, event: told.DirectiveBegan) -> None:
        self._trace.directive(event.device, event.cause, event.name)

    def _left(self, event: told.DirectiveLeft) -> None:
        self._trace(events.DirectiveEnd, event.device, NO_QUEUE, event.cause, event.cause, event.name)

    def _reported(self, event: told.Reported) -> None:
        self._trace(events.RuntimeError_, event.device, NO_QUEUE, event.cause, "omptarget", event.message)

    def _lookup(self, event: told.SectionFound | told.ItemFound | told.ItemEnded) -> None:
        array = event.array if isinstance(event, told.SectionFound) else event.item.array
        name, begin = "", event.begin
        if array is not None and array.address <= begin <= array.address + array.nbytes:
            name, begin = array.name, begin - array.address
        self._trace(events.MapLookup, event.device, NO_QUEUE, event.cause, name, begin, event.nbytes, event.found)

    def _counted(self, event: told.EntryCounted) -> None:
        entry = event.entry
        counts = _signed(entry.dynamic), _signed(entry.hold)
        self._trace(events.MapCount, event.device, NO_QUEUE, event.cause, entry.name, entry.offset, entry.size, *counts)

    def _entered(self, event: told.EntryEntered) -> None:
        entry = event.entry
        section = entry.name, entry.offset, entry.size, entry.device_begin
        counts = _signed(entry.dynamic), _signed(entry.hold)
        self._trace(events.MapInsert, event.device, NO_QUEUE, event.cause, *section, *counts)

    def _removed(self, event: told.EntryLeft) -> None:
        entry = event.entry
        section = entry.name, entry.offset, entry.size, entry.device_begin
        self._trace(events.MapRemove, event.device, NO_QUEUE, event.cause, *section)

    def _attached(self, event: told.PointerAttached) -> None:
        pointer = event.item.name, event.begin, event.device_address
        self._trace(events.Attach, event.device, NO_QUEUE, event.cause, *pointer)


def _signed(count: int) -> int:
    """Convert a reference count for the trace: -1 stands for infinite."""
    return -1 if count >> 63 else count


E = TypeVar("E", bound=OffloadError)
T = TypeVar("T")
FAILED_FREE: Final = "Failure to delete memory"
"""LLVM's message about a block that its memory manager could not free at the program's exit."""


@attrs.frozen
class RuntimeCosts:
    """Host time, in seconds, of one operation of the runtime (a table look-up, a directive, …) without contention."""

    lookup: Annotated[float, "table.lookup"]
    level: Annotated[float, "table.level"]
    """Additional time of a search for each level of the table's tree after the fifth."""
    insert: Annotated[float, "table.insert"]
    erase: Annotated[float, "table.erase"]
    handover: Annotated[float, "table.handover"]
    """Time until a thread that waited for the table's lock runs again."""
    directive: Annotated[float, "runtime.directive"]
    task: Annotated[float, "runtime.task"]
    kernel_arguments: Annotated[float, "runtime.kernel_args"]
    memory_manager: Annotated[float, "memory_manager.hand_out"]
    """Time of one search of the allocator's free list."""


@attrs.frozen(kw_only=True, slots=False)  # without slots, options of a program can inherit from it and another class
class DeviceOptions:
    """Options of what the runtime does on each device of a program; the machine's profile has the other values."""

    configuration: str | MemoryConfiguration = "copy"
    """What a map means: `copy`, `usm`, `implicit_zero_copy`, `eager_maps`, `managed`, `managed+prefetch`, a name from
    an extension, or a configuration object."""
    allocator: str | MakeAllocator = "llvm"
    """How device blocks are obtained: `direct`, `llvm`, `malloc`, or a class of allocators."""
    table_policy: str | LockPolicy | None = None
    """Which thread enters the device table next: `fifo`, `barging`, or a policy object (`machine/host_lock/policy.py`);
    None: by the profile's `table.handoff`."""
    host_program: object = None
    """What a compiler knows of the program, for a configuration that uses this knowledge."""

    def check(self) -> None:
        """Raise ValueError for an unknown allocator or lock policy."""
        allocator_named(self.allocator)
        if self.table_policy is not None:
            lock_policy(self.table_policy)


class Placement(enum.Enum):
    """Says how a device will access a section that is not in the present table yet: as a copy, or in place."""

    DEVICE_COPY = "device copy"
    """Allocate a device block, enter it in the table, and transfer the data."""
    HOST_POINTER = "host pointer"
    """Let the device use the host address, without an entry or a storage operation."""


class HostAccess(enum.Enum):
    """Says how a device accesses host memory that no map covers."""

    SEPARATE = "separate"
    """The device cannot access host memory."""
    IN_PLACE = "in place"
    """The device accesses host memory in place, by its host addresses."""
    MIGRATES = "migrates"
    """Pages migrate to the device that touches them, and back; the arrays are then managed."""


@attrs.frozen
class MapRequest:
    """An unmapped section of `size` bytes to map. close: its clause has this modifier; implicit: no clause names it."""

    size: int
    close: bool
    implicit: bool
    device: int


@attrs.frozen
class ResultSection:
    """The figures that a memory configuration adds to a run's result, as one section.

    figures: the section's content in the result's JSON; attrs objects become dicts. title, columns, rows: the table
    that `offloadrt run` prints, if there are rows; ints in it are bytes. right: indices of right-aligned columns.
    """

    figures: Mapping[str, Any]
    title: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str | int, ...], ...] = ()
    right: tuple[int, ...] = ()


@attrs.frozen(kw_only=True, eq=False)
class MapHooks:
    """Functions that a memory configuration adds to steps of LLVM's mapping algorithms, for one device.

    `call` is the directive's name in errors. A hook that is None is not called. Hooks may store what they need until
    the directive ends in `queue.kept`.
    """

    before_target: Callable[[Launch, Sequence[MapItem], Sequence[Any], DirectiveQueue, str], Awaitable[None]] | None = (
        None
    )
    """Called when a target region begins: (launch, items, arguments, queue, call)."""
    before_data: Callable[[Sequence[MapItem], DirectiveQueue, str], Awaitable[None]] | None = None
    """Called before the items of a construct are mapped: (items, queue, call)."""
    placing: Callable[[MapItem, int, MapFlags], Placement] | None = None
    """Called instead of `MemoryConfiguration.place` for a section that is not mapped: (item, size, flags)."""
    in_place: Callable[[MapItem, DirectiveQueue], Awaitable[object]] | None = None
    """Called, without the table lock, after an item of at least one byte was mapped in place: (item, queue)."""
    updating: Callable[[HostArray], None] | None = None
    """Called with an array that the device uses in place when the program has a `target update to` for it."""
    unmapping: Callable[[MapItem, Entry | None, DirectiveQueue], None] | None = None
    """Called under the table lock before an item's entry is counted down: (item, entry or None, queue)."""
    data_ended: Callable[[Sequence[MapItem], DirectiveQueue], None] | None = None
    """Called after a construct's items are unmapped, before the queue's post-processing: (items, queue)."""
    target_ended: Callable[[DirectiveQueue], None] | None = None
    """Called with a target region's queue when the region has submitted all its work."""
    left_early: Callable[[DirectiveQueue], Callable[[], None] | None] | None = None
    """Called with the queue of a directive that is left early (`abandon`); may return a function to call after that."""
    freed: Callable[[HostArray], None] | None = None
    """Called with an array when the program has freed it, or when its memory has ended without a free."""
    state: object = None
    """The configuration's own state for the device."""


class ArgumentPassing(Protocol):
    """Passes the arguments of kernel launches through device memory, on one device."""

    async def around(self, queue: DirectiveQueue, arguments: int, launch: Callable[[], Awaitable[None]]) -> None:
        """Copy a launch's arguments to the device in `queue`, then await `launch()`. arguments: their number."""

    async def release(self) -> None:
        """Free the device memory of this object, at the end of the program."""

    def locks(self) -> dict[str, LockStatistics]: ...


class MemoryConfiguration(ABC):
    """Decides whether a map makes a copy or not, where LLVM's `getTargetPointer` and `getTgtPtrBegin` decide it.

    Its methods have no side effects and never wait. What it does beyond that at a directive's steps is in its `hooks`.
    """

    name: ClassVar[str]
    host_access: ClassVar[HostAccess] = HostAccess.SEPARATE
    """How a device accesses host memory of which nothing is mapped."""

    @abstractmethod
    def place(self, request: MapRequest) -> Placement:
        """Decide how to map a section (`request`) that no entry covers; as in LLVM, before `present` is checked."""

    def place_global(self) -> Placement:
        """Decide where a global of declare target lies: on the device, or in host memory only.

        In host memory (HOST_POINTER), the device reaches it through a pointer.
        """
        return Placement.DEVICE_COPY

    def supports(self, machine: Machine) -> None:  # noqa: B027  # every machine can do what asks for nothing
        """Raise UnifiedMemoryUnavailable when a machine's devices lack what the configuration requires."""

    def unavailable(self, machine: Machine, why: str) -> UnifiedMemoryUnavailable:
        """Make the error that `supports` raises; `why`: the reason in its message."""
        return UnifiedMemoryUnavailable(f"memory configuration {self.name!r} on {machine.spec.name}: {why}")

    def for_program(self, host_program: object) -> MemoryConfiguration:
        """Return the configuration for one program. host_program: facts from a compiler about the program, or None."""
        return self

    def hooks(self, device: OffloadDevice) -> MapHooks:
        """Return what the configuration does before, at and after a map on a device; called once, when that is made."""
        return MapHooks()

    def sections(self, devices: Sequence[OffloadDevice]) -> dict[str, ResultSection]:
        """Return figures that the configuration adds to the result of a run on `devices`, by section name; else {}."""
        return {}


class OffloadDevice:
    """One process's view of a device (LLVM's `DeviceTy`); it acts through `driver`. `start` spawns its actors."""

    def __init__(
        self,
        machine: Machine,
        number: int,
        driver: Driver,
        configuration: MemoryConfiguration,
        options: DeviceOptions,
        trace: Trace | None = None,
    ) -> None:
        """Build the runtime's device `number` of a machine.

        Raises UnifiedMemoryUnavailable if the machine lacks what the configuration needs, ValueError for a bad option.
        """
        sim, spec = machine.sim, machine.spec
        self.sim = sim
        self.machine = machine
        self.number = number
        self.hardware: Device = machine.devices[number]
        self.memory = self.hardware.memory
        self.configuration = configuration
        self.costs = spec.read(RuntimeCosts)
        self.trace = trace
        self.tell: Tell | None = None
        """Passes events of the device to all listeners; None without a listener."""
        self.watch_kernel: Callable[..., KernelWatch] | None = None
        """Makes the `KernelWatch` of each launch (`ProgramObserver.watch_kernel`); None: no listener wants one."""
        self._listeners: list[Tell] = []
        if trace is not None and trace.has_program_events:
            self.listen(TracedEvents(trace))
        self.driver = driver
        configuration.supports(machine)
        memory = configuration.host_access
        self.host_pointers = memory is not HostAccess.SEPARATE
        """Whether the device may use host addresses of memory that is not in the table."""
        self.globals_on_host = configuration.place_global() is Placement.HOST_POINTER
        migrates = memory is HostAccess.MIGRATES
        self.uses_system_memory = not self.hardware.shares_memory and memory is HostAccess.IN_PLACE
        """Whether kernels of a discrete device use the program's malloc'ed arrays in place."""
        self._all_managed = migrates or self.uses_system_memory
        self.plugin = make_plugin(driver, number, migrates, self.uses_system_memory)
        site = AllocatorSite(
            sim, driver.memory, number, self.memory.begins, self.work, self.costs.memory_manager,
            spec.count("memory_manager.threshold"), machine.host_time, spec.flag("memory_manager.uncontended"),
            lambda name: machine.named(name, number),
        )  # fmt: skip
        self.allocator: DeviceAllocator = make_allocator(options.allocator, site)
        self.allocator_site = site
        self.argument_blocks: ArgumentPassing | None = None
        """Passes the arguments of launches through device memory; None where the driver passes them itself."""
        self.table = PresentTable(self.costs.lookup, self.costs.level)
        chosen = options.table_policy
        policy = lock_policy(spec.text("table.handoff") if chosen is None else chosen)
        self.table_lock = HostLock(
            machine, machine.named("device table", number), policy, self.costs.handover, category="runtime",
            wait_category="table lock", uncontended=spec.flag("table.uncontended"),
        )  # fmt: skip
        self.counts_down_late = spec.text("table.count_down") == "kernel"
        """Whether a region keeps its references until its kernel has ended; LLVM's regions do not."""
        self.entry_locks = EntryLocks(sim, machine.named("entry locks", number))
        self.entries_uncontended = spec.flag("entry.uncontended")
        self.keeps_events = spec.flag("entry.events")
        self.messages: list[str] = []
        """The lines that LLVM's runtime would have written to standard error."""
        self.ended: Exception | None = None
        """The fatal error after which the device cannot be used any more; None before."""
        self.abandoned: list[Signal] = []
        """One signal for each directive that was left early, set when the directive's remaining work is done."""
        self.place = functools.lru_cache(4096)(self._place)
        """Asks the memory configuration what to do for a section of which nothing is mapped; cached, as it is pure."""
        self._blocks: dict[int, int] = {}
        self.requested: set[int] = set()
        """The addresses of the blocks that the program has allocated by a routine, such as omp_target_alloc."""
        self._host_seconds = machine.host_time.seconds
        self._work = machine.work
        self.hooks = configuration.hooks(self)
        if not isinstance(self.hooks, MapHooks):
            raise broken("memory configuration", configuration, f"hooks returns {self.hooks!r:.80}, no MapHooks")

    def listen(self, listener: Tell, watch_kernel: Callable[..., KernelWatch] | None = None) -> None:
        """Call `listener` with each event of the device from now on. watch_kernel: makes a launch's `KernelWatch`."""
        self._listeners.append(listener)
        self.watch_kernel = watch_kernel or self.watch_kernel
        self.tell = listener if len(self._listeners) == 1 else self._tell_all

    def _tell_all(self, event: object) -> None:
        for listener in self._listeners:
            listener(event)

    def start(self) -> None:
        """Start the actors (simulated tasks) of the device and of its driver."""
        self.plugin.start()
        # Recorded histories and their hashes have an actor for each device table: its start, its first turn, its end.
        # It has nothing to do. It can go when all of them are pinned anew.
        never = Signal(self.sim, f"requests for the {self.table_lock.name}")
        self.sim.spawn_service(never.wait, name=self.table_lock.name, chosen=True)

    def _place(self, size: int, close: bool, implicit: bool) -> Placement:
        """Ask the memory configuration about a `MapRequest`. Raises RuntimeError for what is no `Placement`."""
        placement: object = self.configuration.place(MapRequest(size, close, implicit, self.number))
        if not isinstance(placement, Placement):
            raise broken("memory configuration", self.configuration, f"place returns {placement!r:.80}, no Placement")
        return placement

    # operations; listeners get the event when the host calls, not when the device has done the work

    async def allocate(self, nbytes: int, array: HostArray | None, host_address: int, phantom: bool) -> int:
        """Allocate a device block, and return its address.

        array, host_address: the host memory that it is for, if any. phantom: it has no bytes. Raises OutOfDeviceMemory,
        or ArrayOutOfDeviceMemory for an array, if it does not fit.
        """
        try:
            address = await self._answered("allocate", self.allocator.allocate(nbytes, phantom))
        except OutOfDeviceMemory as failed:
            if array is None:
                raise
            raise ArrayOutOfDeviceMemory(failed, array.name) from None
        self._check_block(address, nbytes, phantom)
        self._blocks[address] = nbytes
        if self.tell is not None:
            self.tell(BlockAllocated(self.sim.current.cause, self.number, address, nbytes, array, host_address))
        return address

    async def free(self, address: int, array: HostArray | None, host_address: int) -> None:
        nbytes = self._blocks.pop(address, 0)
        requested = address in self.requested
        self.requested.discard(address)
        if self.tell is not None:
            self.tell(BlockFreed(self.sim.current.cause, self.number, address, nbytes, array, host_address))
        try:
            await self._answered("free", self.allocator.free(address))
        except BaseException:
            if nbytes and self.memory.begins(address):
                self._blocks[address] = nbytes  # left early
                if requested:
                    self.requested.add(address)
            raise

    def _answered(self, call: str, answer: Awaitable[T]) -> Awaitable[T]:
        """Return what a call of the allocator returned. Raises RuntimeError if it cannot be awaited."""
        if not inspect.isawaitable(answer):
            raise broken("allocator", self.allocator, f"{call} returns {answer!r:.80}; write it as `async def`")
        return answer

    def _check_block(self, address: int, nbytes: int, phantom: bool) -> None:
        """Raise RuntimeError if the allocator returned no device block of its own with room for `nbytes` bytes."""
        try:
            block = self.memory.block_of(operator.index(address))
            what = "lies in a block in use" if address in self._blocks else ""
            if address + nbytes > block.address + block.size or block.phantom != phantom:
                what = f"lies in a block of {block.size} bytes, phantom={block.phantom}"
        except (TypeError, InvalidDeviceAddress):
            what = "is no device address"
        if what:
            asked = f"allocate(nbytes={nbytes}, phantom={phantom}) returns {address!r:.80}"
            raise broken("allocator", self.allocator, f"{asked}, which {what}")

    def submit(
        self, queue: DirectiveQueue, device_address: int, source: HostSpan, array: HostArray | None, op: str = "h2d"
    ) -> Awaitable[None]:
        """Submit a copy, which may outlast the call, of host `source` to `device_address`. op: "h2d" or "attach"."""
        if self.tell is not None:
            begin, nbytes = source.address, source.nbytes
            self.tell(DataCopied(queue.cause, self.number, op, begin, device_address, nbytes, array))
        if self.driver.managed.uvm is not None and array is not None and self.manages(array):
            return self._submit_managed(queue, device_address, source)
        return self.plugin.submit_data(queue, device_address, source)

    def retrieve(
        self, queue: DirectiveQueue, destination: HostSpan, device_address: int, array: HostArray | None
    ) -> Awaitable[None]:
        """Submit in the queue a copy, which may outlast the call, from `device_address` to host `destination`."""
        if self.tell is not None:
            begin, nbytes = destination.address, destination.nbytes
            self.tell(DataCopied(queue.cause, self.number, "d2h", begin, device_address, nbytes, array))
        if self.driver.managed.uvm is not None and array is not None and self.manages(array):
            return self._retrieve_managed(queue, destination, device_address)
        return self.plugin.retrieve_data(queue, destination, device_address)

    async def _submit_managed(self, queue: DirectiveQueue, device_address: int, source: HostSpan) -> None:
        """Copy from managed memory. The calling thread reads it, so pages that a device owns migrate back first."""
        await self.plugin.host_touch(source.address, source.nbytes, False)
        await self.plugin.submit_data(queue, device_address, source)

    async def _retrieve_managed(self, queue: DirectiveQueue, destination: HostSpan, device_address: int) -> None:
        """Copy to managed memory. The calling thread writes it, so pages that a device owns migrate back first."""
        await self.plugin.host_touch(destination.address, destination.nbytes)
        await self.plugin.retrieve_data(queue, destination, device_address)

    async def settle(self, queue: DirectiveQueue) -> None:
        """Run a directive's post-processing, such as the removal of table entries, once its queue has drained.

        Raises the error of a kernel in the queue; the device is unusable from then on.
        """
        if queue.kernel_error is not None:
            if isinstance(queue.kernel_error, OffloadError):
                queue.kernel_error.thread = self.sim.current.name
            self.ended = queue.kernel_error
            raise queue.kernel_error
        pending = queue.post_processing
        while pending:  # an action that is left early stays, to be done again
            await pending[0]()
            del pending[0]

    # time that the runtime takes, and waits for

    def work(self, dt: float) -> Awaitable[None]:
        """Charge ``dt`` seconds of runtime work to the calling thread."""
        return self._work(dt, "runtime") if dt else PASSED

    def lock_entry(self, entry: Entry) -> Awaitable[None]:
        """Lock an entry of the table. The caller holds the table's lock, or no other thread can know the entry."""
        if self.entries_uncontended:
            return PASSED
        return take(entry.lock, self.machine.host_time, "entry lock")

    def pass_entry(self, entry: Entry) -> Awaitable[None]:
        """Wait until an entry of the table is unlocked; this stands for a lock that is released at once."""
        if entry.lock.owner is not None:
            return self._pass_locked(entry)
        self.entry_locks.passed += 1
        return PASSED

    async def _pass_locked(self, entry: Entry) -> None:
        await self.lock_entry(entry)
        self.unlock_entry(entry)

    def unlock_entry(self, entry: Entry) -> None:
        if not self.entries_uncontended:
            entry.lock.release()

    def release(self, pointer: TargetPointer) -> None:
        """Release the lock of a table's entry that a look-up's result, `pointer`, holds, if it holds one."""
        if pointer.is_locked and pointer.entry is not None:
            pointer.is_locked = False
            self.unlock_entry(pointer.entry)

    async def add_event(self, entry: Entry, queue: DirectiveQueue) -> None:
        """Record the event by which other queues wait for a map's copy, if the profile's `entry.events` is on."""
        if self.keeps_events:
            entry.event = await self.plugin.record_event(queue)

    def is_pending(self, entry: Entry) -> bool:
        """Tell whether a copy to an entry's device block may be in progress, for which other queues have to wait."""
        return entry.event is not None and self.plugin.needs_wait(entry.event)

    @property
    def locked_entries(self) -> list[Entry]:
        """Return the entries whose lock is held."""
        return [entry for entry in self.table if entry.lock.owner is not None]

    async def release_pooled(self) -> None:
        """Return all pooled device memory to the driver, as at the program's exit."""
        await self._answered("release_pooled", self.allocator.release_pooled())
        if self.argument_blocks is not None:
            await self.argument_blocks.release()

    def manages(self, array: HostArray) -> bool:
        """Tell whether an array is managed memory, by the configuration or by the program's allocation.

        Memory of the host's allocators that kernels use in place counts, too, because the driver migrates it.
        """
        return array.managed or self._all_managed

    def block_size(self, address: int) -> int | None:
        """Return the size in bytes of the block that the runtime has allocated at this device address; or None."""
        return self._blocks.get(address)

    @property
    def blocks(self) -> set[int]:
        """Return the addresses of the blocks that the runtime has allocated and not freed."""
        return {*self._blocks}

    # what goes wrong

    def report(self, message: str) -> None:
        """Add a line to `messages`, the standard error of the emulated program; this does not end the run."""
        self.messages.append(message)
        if self.tell is not None:
            self.tell(Reported(self.sim.current.cause, self.number, message))

    def error(self, kind: type[E], message: str, call: str, array: str) -> E:
        """Make an exception of class `kind` that names the running thread, the call, the array and the time."""
        return kind(
            message, call=call, array=array, thread=self.sim.current.name, time_s=self.sim.now, device=self.number,
            messages=tuple(self.messages),
        )  # fmt: skip

    def check_alive(self, array: HostArray, call: str) -> None:
        """Raise FreedHostMemory when `call` uses an array that was freed."""
        if array.freed:
            message = f"<{array.name}+0> ({array.nbytes} bytes) was freed"
            raise self.error(FreedHostMemory, message, call, array.name)

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of every lock of this device, by name."""
        found = {
            self.table_lock.name: self.table_lock.statistics(),
            self.entry_locks.name: self.entry_locks.statistics(),
            **self.plugin.locks(),
        }
        given: object = self.allocator.locks()
        if not isinstance(given, Mapping) or not all(isinstance(each, LockStatistics) for each in given.values()):
            raise broken("allocator", self.allocator, f"locks returns {given!r:.80}, no LockStatistics by name")
        found.update(given)
        if self.argument_blocks is not None:
            found.update(self.argument_blocks.locks())
        return found


_TO_DEVICE: Final = ("Failure to copy data from host to device", "Copying data to device failed.")
_FROM_DEVICE: Final = ("Failure to copy data from device to host", "Copying data from device failed.")
_ALLOCATE: Final = ("Failure to allocate device memory", "")
_FREE: Final = ("Failure to deallocate device pointer", "Deallocating data from device failed.")
_LAUNCH: Final = ("Failure to run target region", "")
_SYNCHRONIZE: Final = ("Failure to synchronize stream", "")

_OPERATIONS: Final = {
    "cuMemAlloc": _ALLOCATE,
    "memory_pool_allocate": _ALLOCATE,
    "cuMemFree": _FREE,
    "memory_pool_free": _FREE,
    "cuMemcpyHtoDAsync": _TO_DEVICE,
    "cuMemcpyDtoHAsync": _FROM_DEVICE,
    "cuLaunchKernel": _LAUNCH,
    "cuStreamSynchronize": _SYNCHRONIZE,
    "signal_wait_scacquire": _SYNCHRONIZE,
    "cuEventRecord": ("Failure to record event", ""),
    "cuStreamWaitEvent": ("Failure to wait event", ""),
    "cuModuleLoadData": ("Failure to load binary image", ""),
    "executable_load_agent_code_object": ("Failure to load binary image", ""),
    "cuModuleGetFunction": ("Failure to look up kernel", ""),
}
"""For each failed driver call, the plugin's name of the operation, and what LLVM's runtime adds to the message."""


def report_failure(device: OffloadDevice, error: DriverError, *more: str) -> None:
    """Write LLVM's messages about a failed driver call, unless written already, and then ``more`` lines.

    `error.messages` becomes the list of all lines that the device's runtime has written.
    """
    if not error.messages:
        said, failed = _OPERATIONS.get(error.call, ("Failure in the driver library", ""))
        device.report(f"PluginInterface error: {said}: error in {error.call}: {error.code}")
        if failed:
            device.report(f"omptarget error: {failed}")
    for line in more:
        device.report(line)
    error.messages = tuple(device.messages)
