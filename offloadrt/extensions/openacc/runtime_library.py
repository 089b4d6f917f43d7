"""The run-time library that an OpenACC program is linked with, as its host threads share it.

It also looks up the device addresses of arrays. The look-ups for one request are made under one hold of the device
table's lock, and change no reference count. The caller can keep the result (`ResolvedArrays`) for its next request for
the same arrays: the result is valid until an entry of the table is inserted or erased. The look-ups take the same
virtual time either way.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

import attrs

from offloadrt.extensions.openacc.async_queue import AsyncQueue
from offloadrt.extensions.openacc.jacc.generation import CodeCache
from offloadrt.kernels import Kernel
from offloadrt.machine import Device
from offloadrt.machine.messages import KernelPacket
from offloadrt.runtime.allocators import DeviceAllocator, Direct, InternalPool
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.errors import NotPresent
from offloadrt.runtime.events import SectionFound
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import DirectiveQueue
from offloadrt.runtime.mapping.present_table import DevicePointer, Entry
from offloadrt.sim import Lock, LockStatistics, Simulation


@attrs.frozen(eq=False)
class ResolvedArrays:
    """The device addresses of arrays; they are valid as long as the device table has this generation (version).

    pointers: in the arrays' order. entries: their entries in the present table, in the same order. generation: the
    number of that version.
    """

    generation: int
    pointers: tuple[DevicePointer, ...]
    entries: tuple[Entry, ...]


async def device_pointers(
    device: OffloadDevice,
    arrays: Sequence[HostArray],
    queue: DirectiveQueue,
    call: str,
    known: ResolvedArrays | None = None,
) -> ResolvedArrays:
    """Look up the device addresses of arrays, and make `queue` wait for copies to them that are in progress.

    call: the name of the directive that asks, for errors. known: what the last call for the same arrays returned, so
    that nothing is looked up again while the device table is the same. Raises NotPresent for an array that is not
    wholly mapped.
    """
    await device.table_lock.enter(device.table.search_s * len(arrays))
    try:
        if known is None or known.generation != device.table.generation or device.tell is not None:
            known = _look_up(device, arrays, queue, call)
        is_complete = device.plugin.is_complete
        pending = [e.event for e in known.entries if e.event is not None and not is_complete(e.event)]
    finally:
        device.table_lock.release()
    for event in pending:
        await device.plugin.wait_event(queue, event)
    return known


def _look_up(device: OffloadDevice, arrays: Sequence[HostArray], queue: DirectiveQueue, call: str) -> ResolvedArrays:
    pointers: list[DevicePointer] = []
    entries: list[Entry] = []
    for array in arrays:
        found = device.table.lookup(array.address, array.nbytes)
        if device.tell is not None:
            begin, nbytes = array.address, array.nbytes
            device.tell(SectionFound(queue.cause, device.number, array, begin, nbytes, found.contained))
        entry = found.entry
        if entry is None or not found.contained:
            raise device.error(
                NotPresent, f"array {array.name!r} ({array.nbytes} bytes) is not present", call, array.name
            )
        address = entry.device_address(array.address)
        pointers.append(DevicePointer(address, array.nbytes, device.number, array.phantom, array.dtype, array.shape))
        entries.append(entry)
    return ResolvedArrays(device.table.generation, tuple(pointers), tuple(entries))


class AsyncQueues:
    """The async queues of all devices: one for each device and value of `async`, made at its first use."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self._queues: dict[tuple[int, int], AsyncQueue] = {}

    def of(self, device: int, value: int) -> AsyncQueue:
        """Return the queue of a device for an async value; make it at the first call."""
        queue = self._queues.get((device, value))
        if queue is None:
            queue = AsyncQueue(Lock(self.sim, f"async queue {value} of device {device}"))
            self._queues[device, value] = queue
        return queue

    def in_use(self, device: int) -> list[AsyncQueue]:
        """Return the queues of a device that have a stream, in the order of their first use."""
        return [queue for (number, _), queue in self._queues.items() if number == device and queue.used]

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of all queues' locks, added up; an empty mapping when there are no queues."""
        statistics = [queue.lock.statistics() for queue in self._queues.values()]
        return {"async queue locks": LockStatistics.total(statistics)} if statistics else {}


@attrs.define
class KernelTimes:
    """The total times of a kernel's ended executions, and the bytes that devices sent one another for it."""

    executions: int = 0
    divided: int = 0
    """How many of the executions were divided among the devices."""
    kernel_s: float = 0.0
    """The sum of the kernel's times in seconds, each taken on the device where the execution took longest.

    Where JACC's runtime waits for each execution, this is the time that passes on the host for launches and waits.
    """
    communication_s: float = 0.0
    """Seconds of exchanges between devices before and after the kernel."""
    sent_bytes: int = 0


@attrs.define
class InFlight:
    """An execution of a kernel that has not ended on all of its devices yet.

    left: the number of devices on which it has not ended. longest_s: virtual seconds on the slowest device so far. The
    time that passes between the launches on different devices is not counted as the kernel's. times: the kernel's
    totals, to which the execution is added when it has ended. divided: whether it is divided among the devices.
    """

    times: KernelTimes
    divided: bool
    left: int
    longest_s: float = 0.0

    def ended(self, begin: float, end: float) -> None:
        """Count one more device on which the execution has ended. begin, end: virtual times in seconds."""
        self.longest_s = max(self.longest_s, end - begin)
        self.left -= 1
        if not self.left:
            self.times.executions += 1
            self.times.divided += self.divided
            self.times.kernel_s += self.longest_s


class KernelRecords:
    """The times of one program's kernels on its devices, and the executions in flight."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self._in_flight: dict[tuple[int, int], InFlight] = {}
        """The executions in flight, by device and number of the directive that launches them."""
        self.of_constructs: dict[str, KernelTimes] = {}
        """The times of ended kernels of compute constructs, by name; those of JACC's kernels are in `Jacc.times`."""
        self._names: dict[Hashable, str] = {}
        self._same_name: dict[str, int] = {}
        for device in devices:
            device.compute.ended = self._ended

    def expect(self, device: int, directive: int, execution: InFlight) -> None:
        """Register that a directive is about to launch its kernel on a device.

        directive: the directive's number. execution: the execution of the kernel, perhaps on several devices, to which
        the launch belongs.
        """
        self._in_flight[device, directive] = execution

    def _ended(self, device: int, packet: KernelPacket, begin: float, end: float) -> None:
        # Recording takes no virtual time; what collecting records costs a real program is left out.
        execution = self._in_flight.pop((device, packet.cause), None)
        if execution is not None:
            execution.ended(begin, end)

    def name(self, kernel: Kernel, code: Hashable = None) -> str:
        """Return the name of a kernel in reports.

        It is the name of the kernel's function, with a number after it when another kernel has that name already. All
        kernels of one generated `code` have the same name, even if their functions were made more than once.
        """
        name = self._names.get(kernel) or self._names.get(code or kernel)
        if name is None:
            number = self._same_name[kernel.name] = self._same_name.get(kernel.name, 0) + 1
            name = kernel.name if number == 1 else f"{kernel.name} ({number})"
        self._names[kernel] = self._names[code or kernel] = name
        return name


@attrs.frozen
class CompilerModel:
    """Says how the run-time library of one compiler manages device memory and copies.

    allocator: the name of the allocator of the program's data. arguments: where the blocks for the arguments of
    launches come from; None where launches need none. one_buffer: pageable memory is staged in one pinned buffer of
    each device (``NVCOMPILER_ACC_BUFFERSIZE``), one copy at a time, instead of by the driver for each stream.
    """

    name: str
    allocator: str
    arguments: type[DeviceAllocator] | None = None
    one_buffer: bool = False


COMPILERS: Final = {
    "pgi": CompilerModel("pgi", "pool", one_buffer=True),
    "gcc": CompilerModel("gcc", "direct", Direct),
}
GCC_WITH_POOLS: Final = CompilerModel("gcc", "pool", InternalPool)


def compiler_model(name: str, pools: bool = False) -> CompilerModel:
    """Return the model of an OpenACC compiler's run-time library: how it manages device memory and copies.

    name: `pgi` or `gcc`. pools: whether GCC's library has the two pools of device memory that JACC gives it, one for
    the program's data and one for the arguments of launches. PGI's library always has its own pool, so `pools` changes
    nothing there. Raises ValueError for another name.
    """
    if name not in COMPILERS:
        raise ValueError(f"no compiler {name!r}; there are: {', '.join(sorted(COMPILERS))}")
    return GCC_WITH_POOLS if pools and name == "gcc" else COMPILERS[name]


@attrs.frozen(eq=False)
class RuntimeLibrary:
    """The run-time library of the OpenACC compiler with which one program is linked: its parts."""

    compiler: CompilerModel
    """The model of the compiler whose library it is."""
    queues: AsyncQueues
    """The async queues of all devices."""
    code: CodeCache
    """The kernels that JACC generated at run time."""
    records: KernelRecords
    """The times of the program's kernels on its devices."""
