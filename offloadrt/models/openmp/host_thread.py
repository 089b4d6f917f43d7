"""A host thread of an OpenMP program: its directives, in Python.

    async def body(t):
        a = t.array("a", 1 << 20, fill=1.0)
        async with t.target_data(omp.map(tofrom=a)):
            await t.target(scale, a, 2.0, teams=108)

Each directive is a number in the trace (the `cause` of all that follows from it), takes a queue of its own, and ends as
LLVM's entry points do: what is fatal there raises here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from offloadrt.kernels import Kernel
from offloadrt.models.openmp.barrier import Barrier
from offloadrt.models.openmp.clauses import Clause, Depend, Map, Maps
from offloadrt.models.openmp.directive import Work, in_directive
from offloadrt.models.openmp.host_places import Arena
from offloadrt.models.openmp.lowering import at_data_end, defaultmap_item, lower_data, lower_target, lower_update
from offloadrt.models.openmp.routines import Routines
from offloadrt.models.openmp.tasks import TaskRegion, taskwait, wait_for
from offloadrt.runtime.data_environment import target_data_begin, target_data_end, target_data_update
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.device_pointer import DevicePointer
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.host_array import HostArray, Kind
from offloadrt.runtime.map_item import MapItem
from offloadrt.runtime.target import target

if TYPE_CHECKING:
    from offloadrt.models.openmp.program import OpenMP


Running = Coroutine[Any, Any, object]
"""What a directive returns: to be awaited; lowering has been done, nothing has run."""


def _without_dependences(clauses: Sequence[Clause]) -> tuple[list[Clause], tuple[Depend, ...]]:
    others: list[Clause] = [clause for clause in clauses if not isinstance(clause, Depend)]
    return others, tuple(clause for clause in clauses if isinstance(clause, Depend))


def _as_sequence(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


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

        fill: a number, or values to copy; zeros without. phantom: a size without values; by default what the program
        says.
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

        A program that fails inside the region ends there: the region is then not closed.
        """
        return TargetData(self, clauses, device)

    def target_enter_data(self, *clauses: Clause, device: int | None = None, nowait: bool = False) -> Running:
        """``target enter data``."""
        others, depends = _without_dependences(clauses)
        items = lower_data(others, "target enter data", self.program.mappers)

        def begin(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
            return target_data_begin(where, items, queue, "target enter data")

        return self._run_or_defer("target enter data", device, begin, nowait, depends)

    def target_exit_data(self, *clauses: Clause, device: int | None = None, nowait: bool = False) -> Running:
        """``target exit data``."""
        others, depends = _without_dependences(clauses)
        items = lower_data(others, "target exit data", self.program.mappers)
        return self._run_or_defer("target exit data", device, _ending(items, "target exit data"), nowait, depends)

    def target_update(self, *clauses: Clause, device: int | None = None, nowait: bool = False) -> Running:
        """``target update to(…) from(…)``."""
        others, depends = _without_dependences(clauses)
        items = lower_update(others, self.program.mappers)
        specification = self.program.strided_update == "specification"

        def update(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
            return target_data_update(where, items, queue, "target update", specification)

        return self._run_or_defer("target update", device, update, nowait, depends)

    def target(
        self,
        kernel: Kernel,
        *arguments: Any,
        maps: Map | Maps | Sequence[Map | Maps] = (),
        teams: int | None = None,
        threads: int | None = None,
        iterations: int | None = None,
        nowait: bool = False,
        depend: Depend | Sequence[Depend] = (),
        is_device_ptr: Any = (),
        has_device_addr: Any = (),
        firstprivate: Any = (),
        private: Any = (),
        defaultmap: str = "default",
        device: int | None = None,
    ) -> Running:
        """``target teams distribute parallel for``: run a kernel with these arguments on a device.

        arguments: in the kernel's order. A HostArray is captured: mapped as `maps` says, else implicitly (a C array
        tofrom, a pointer as a zero-length section). Numbers are firstprivate, a DevicePointer is passed as it is,
        `pointees` follows stored device pointers.
        teams, threads, iterations: launch configuration; one team and one iteration a thread unless given.
        is_device_ptr, has_device_addr: arguments that are device addresses already. firstprivate, private: arrays of
        which the region gets its own copy. Raises MappingError, IllegalAddress, and what the driver raises.
        """
        for pointer in _as_sequence(is_device_ptr):
            if not isinstance(pointer, DevicePointer):
                raise TypeError(f"is_device_ptr takes device pointers, not {pointer!r}")
        extra = [pointer for pointer in _as_sequence(is_device_ptr) if pointer not in arguments]
        items = lower_target(
            _as_sequence(maps),
            [*arguments, *extra],
            self.program.mappers,
            firstprivate=_as_sequence(firstprivate),
            private=_as_sequence(private),
            on_device=_as_sequence(has_device_addr),
            implicit=defaultmap_item(defaultmap),
        )
        per_team = kernel.threads_per_team if threads is None else threads
        if teams is None:
            teams = 1 if iterations is None else max(1, -(-iterations // per_team))
        launch = kernel.launch(teams, per_team, iterations)

        def region(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
            def globals_of(array: HostArray) -> Any:
                return self.program.globals.binding(where, array)

            return target(where, launch, items, arguments, queue, "target", globals_of)

        return self._run_or_defer("target", device, region, nowait, _as_sequence(depend))

    # how directives run

    def _run_or_defer(
        self, name: str, device: int | None, work: Work, nowait: bool, depends: tuple[Depend, ...]
    ) -> Running:
        if nowait:
            return self._defer(name, device, work, depends)
        if depends:
            return self._run_after(name, device, work, depends)
        return in_directive(self.program, name, device, work)

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
        if kind is None:
            end = _ending(at_data_end(self._items), "target data")
            await in_directive(self._thread.program, "target data end", self._device, end)


def _ending(items: list[MapItem], call: str) -> Work:
    def end(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
        return target_data_end(where, items, queue, call)

    return end


def _pointer(array: HostArray, address: int, device: int) -> DevicePointer:
    return DevicePointer(address, array.nbytes, device, array.phantom, array.dtype, array.shape)
