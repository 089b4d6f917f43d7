"""A host thread of an OpenMP program: its directives, in Python.

    async def body(t):
        a = t.array("a", 1 << 20, fill=1.0)
        async with t.target_data(omp.map(tofrom=a)):
            await t.target(scale, a, 2.0, teams=108)

Each directive is a number in the trace (the `cause` of all that follows from it), takes a queue of its own, and ends as
LLVM's entry points do: what is fatal there raises here.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Coroutine, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import DTypeLike

from offloadrt.driver import Advice
from offloadrt.kernels import Kernel
from offloadrt.models.openmp.barrier import Barrier
from offloadrt.models.openmp.clauses import Clause, Depend, Section
from offloadrt.models.openmp.construct import (
    Construct,
    TargetClauses,
    ending,
    enter_data_construct,
    exit_data_construct,
    target_construct,
    update_construct,
)
from offloadrt.models.openmp.directive import Work, in_directive
from offloadrt.models.openmp.host_places import Arena
from offloadrt.models.openmp.lowering import at_data_end, lower_data
from offloadrt.models.openmp.routines import Routines
from offloadrt.models.openmp.tasks import TaskRegion, taskwait, wait_for
from offloadrt.runtime.abandoned import abandon
from offloadrt.runtime.data_environment import target_data_begin
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.device_pointer import DevicePointer
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.host_array import HostArray, Kind, make_values, shape_of

if TYPE_CHECKING:
    from offloadrt.models.openmp.program import OpenMP


Running = Coroutine[Any, Any, object]
"""What a directive returns: to be awaited; lowering has been done, nothing has run."""


class HostThread(Routines):
    """Given to the body of a host thread as ``t``.

    `number` is omp_get_thread_num(), `num_threads` omp_get_num_threads().
    """

    def __init__(
        self, program: OpenMP, number: int, num_threads: int, barrier: Barrier, heap: Arena, stack: Arena
    ) -> None:
        super().__init__(program)
        self.number = number
        self.num_threads = num_threads
        self.tasks = TaskRegion()
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
        """An array in host memory: a C array of this thread, or with ``kind="heap"`` a pointer to allocated memory.

        The difference is OpenMP's: an array that no clause names is mapped tofrom as a whole, of a pointer only what is
        mapped already is found; and a section of a pointer is attached, which costs two more searches of the table.

        fill: a number, or values to copy; zeros without, in pages that nobody has touched yet. phantom: a size without
        values; by default what the program says.
        """
        return self.program.make_array(name, shape, dtype, fill, phantom, kind, align, self._heap, self._stack)

    def pointer(self, array: HostArray) -> HostArray:
        """The pointer variable of a heap array, itself as an array of one address. ValueError for a C array, which has
        none.

        Mapped together with a section of the array, the device's pointer is attached to the device's section.
        """
        if not array.pointer_address:
            raise ValueError(f"array {array.name!r} is no pointer: make it with kind='heap'")
        value = np.array([array.address], "<u8")
        return HostArray(f"&{array.name}", array.pointer_address, (1,), value.dtype, "static", 0, value)

    def free(self, array: HostArray) -> None:
        """Give the memory of a heap array back to this thread's heap."""
        self._heap.release(array.address)
        array.freed = True
        self.program.free_managed(array)
        self.program.machine.host_memory.contents.remove(array.address)
        for device in self.program.devices:
            if device.objects is not None:
                device.objects.remove(array)
            device.table.generation += 1  # what is remembered of places in it holds no longer

    def first_touch(self, array: HostArray) -> Awaitable[object]:
        """Write to all pages of an array that was made without `fill`: on an APU, those that nobody has touched are
        populated now, which takes its time, instead of when a kernel or a copy comes to them.
        """
        return self.program.devices[0].plugin.host_touch(array.address, array.nbytes)

    def host_access(self, place: HostArray | Section) -> Awaitable[object]:
        """Read or write all of an array, or of a section, on the host. Managed memory that the device owns comes back
        by page faults; other memory takes no time here. What the thread computes with it is not included.
        """
        if isinstance(place, Section):
            begin, nbytes = place.begin, max(0, (place.length - 1) * place.stride + 1) * place.row_bytes
        else:
            begin, nbytes = place.address, place.nbytes
        return self.program.devices[0].plugin.host_touch(begin, nbytes)

    # managed memory: calls of CUDA, which OpenMP does not have

    async def managed_array(
        self,
        name: str,
        shape: int | tuple[int, ...],
        dtype: DTypeLike = np.float64,
        phantom: bool | None = None,
    ) -> HostArray:
        """cuMemAllocManaged: an array of zeros that host and device both use in place, whatever the memory
        configuration. Its pages migrate to whoever touches them; nobody has done so yet.

        Kernels get it by ``is_device_ptr``. Raises UnifiedMemoryUnavailable where nothing migrates, and ValueError for
        no bytes.
        """
        lengths, element = shape_of(shape), np.dtype(dtype)
        nbytes = math.prod(lengths) * element.itemsize
        if not nbytes:
            raise ValueError(f"managed array {name!r} of no bytes")
        self.program.check_managed_memory(f"array {name!r}")
        found: list[int] = []

        async def allocate(where: OffloadDevice, queue: DirectiveQueue) -> None:
            found.append(await where.plugin.alloc_managed(nbytes))

        await in_directive(self.program, "cuMemAllocManaged", None, allocate)
        ghost = self.program.phantom if phantom is None else phantom
        values = None if ghost else make_values(lengths, element, None)
        return HostArray(name, found[0], lengths, element, "heap", 0, values, managed=True)

    async def free_managed(self, array: HostArray) -> None:
        """cuMemFree of a managed array. DriverError if `managed_array` did not make it."""
        address = array.address

        def free(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
            return where.plugin.free_managed(address)

        await in_directive(self.program, "cuMemFree", None, free)
        array.freed = True

    def prefetch(self, array: HostArray, to_host: bool = False) -> Awaitable[object]:
        """cuMemPrefetchAsync of an array to the device, or to the host; returns when it has migrated.

        Raises DriverError when the program uses no managed memory.
        """

        def work(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
            return where.plugin.prefetch(queue, array.address, array.nbytes, to_host)

        return in_directive(self.program, "cuMemPrefetchAsync", None, work)

    def advise(self, array: HostArray, advice: Advice) -> Awaitable[object]:
        """cuMemAdvise: `prefer_host` keeps an array on the host, and the device reaches it over the link;
        `accessed_by` gives the device its translations before it asks; `prefer_nothing` and `not_accessed_by` take
        these back. Raises DriverError when the program uses no managed memory.
        """

        def work(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
            return where.plugin.advise(array.address, array.nbytes, advice)

        return in_directive(self.program, "cuMemAdvise", None, work)

    # what a thread does besides

    async def compute(self, seconds: float) -> None:
        """Occupy a core for so long."""
        await self.program.machine.cores.compute(seconds)

    async def sleep(self, seconds: float) -> None:
        await self.sim.sleep(seconds)

    async def barrier(self) -> None:
        """Wait for all threads of the team, and for the deferred tasks of this one."""
        since = self.sim.now
        await taskwait(self.tasks)
        await self._barrier.wait()
        self.program.machine.host_time.add("threads", self.sim.now - since)

    async def taskwait(self, *depends: Depend) -> None:
        """Wait for the deferred tasks that this thread generated; with `depend` only for those concerned."""
        since = self.sim.now
        await taskwait(self.tasks, depends)
        self.program.machine.host_time.add("threads", self.sim.now - since)

    # directives

    def target_data(self, *clauses: Clause, device: int | None = None) -> TargetData:
        """``async with t.target_data(…) as pointers:``. Gives the device pointers of use_device_ptr and use_device_addr
        by array.

        A program that fails inside the region ends there: the region is then not closed. When a timeout leaves it, its
        mappings end without being copied back.
        """
        return TargetData(self, clauses, device)

    def target_enter_data(self, *clauses: Clause, device: int | None = None, nowait: bool = False) -> Running:
        """``target enter data``."""
        return self.run(enter_data_construct(self.program, clauses, device, nowait))

    def target_exit_data(self, *clauses: Clause, device: int | None = None, nowait: bool = False) -> Running:
        """``target exit data``."""
        return self.run(exit_data_construct(self.program, clauses, device, nowait))

    def target_update(self, *clauses: Clause, device: int | None = None, nowait: bool = False) -> Running:
        """``target update to(…) from(…)``."""
        return self.run(self.construct_target_update(*clauses, device=device, nowait=nowait))

    def target(self, kernel: Kernel, *arguments: Any, **clauses: Unpack[TargetClauses]) -> Running:
        """``target teams distribute parallel for``: run a kernel with these arguments on a device.

        arguments: in the kernel's order. A HostArray is captured: mapped as `maps` says, else implicitly. Numbers are
        firstprivate, a DevicePointer is passed as it is, `pointees` follows stored pointers.
        clauses: see `TargetClauses`. Raises MappingError, IllegalAddress, and what the driver raises.
        """
        return self.run(target_construct(self.program, kernel, arguments, **clauses))

    # directives that run many times

    def construct_target(self, kernel: Kernel, *arguments: Any, **clauses: Unpack[TargetClauses]) -> Construct:
        """What `target` would run, to be given to `run` as often as the program comes to it."""
        return target_construct(self.program, kernel, arguments, **clauses)

    def construct_target_update(self, *clauses: Clause, device: int | None = None, nowait: bool = False) -> Construct:
        """What `target_update` would run."""
        return update_construct(self.program, clauses, device, nowait)

    def run(self, construct: Construct) -> Running:
        """Run a construct."""
        name, device, work, depends = construct.name, construct.device, construct.work, construct.depends
        if construct.nowait:
            return self._defer(name, device, work, depends)
        if depends:
            return self._run_after(name, device, work, depends)
        return in_directive(self.program, name, device, work)

    # how directives run

    async def _defer(self, name: str, device: int | None, work: Work, depends: tuple[Depend, ...]) -> None:
        program = self.program
        where = program.device(device, name)
        await where.work(program.costs.task)

        def run() -> Awaitable[object]:
            return in_directive(program, f"{name} nowait", where.number, work)

        program.helpers.submit(self.tasks, name, run, depends)

    async def _run_after(self, name: str, device: int | None, work: Work, depends: tuple[Depend, ...]) -> None:
        await wait_for(self.tasks.predecessors(depends))
        await in_directive(self.program, name, device, work)


class TargetData:
    """A ``target data`` region. The pointers are None for arrays that are not mapped."""

    def __init__(self, thread: HostThread, clauses: Sequence[Clause], device: int | None) -> None:
        self._thread = thread
        self._device = device
        self._items = lower_data(clauses, "target data", thread.program.mappers)

    async def __aenter__(self) -> dict[HostArray, DevicePointer | None]:
        items = self._items
        pointers: dict[HostArray, DevicePointer | None] = {}

        async def begin(where: OffloadDevice, queue: DirectiveQueue) -> None:
            found = await target_data_begin(where, items, queue, "target data")
            for position, address in found.items():
                array = items[position].array
                if array is not None:
                    pointers[array] = None if address is None else _pointer(array, address, where.number)

        await in_directive(self._thread.program, "target data", self._device, begin)
        return pointers

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        items, program = at_data_end(self._items), self._thread.program
        if kind is None:
            end = ending(items, "target data")
            await in_directive(program, "target data end", self._device, end, items)
        elif not issubclass(kind, Exception):
            queue = DirectiveQueue(program.next_directive(), items=items, mapped=len(items))
            abandon(program.device(self._device), queue, "target data end")


def _pointer(array: HostArray, address: int, device: int) -> DevicePointer:
    return DevicePointer(address, array.nbytes, device, array.phantom, array.dtype, array.shape)
