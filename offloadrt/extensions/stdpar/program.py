"""A program of C++ standard parallelism on an emulated machine: its implementation, its heap, its device.

A host thread has the program's operations:

    async def body(t):
        a = await t.new_array("a", n)
        await t.fill(par_unseq, a, 0.1)
        await t.transform(par_unseq, triad, a, b, c)
        s = await t.transform_reduce(par_unseq, dot, a, b)
        values = await t.read(a)
        await t.delete(a)

The heap is the implementation's (`heap.py`): shared USM, or the host's. Under `sycl` and `native`, whose programs have
device memory and copies of their own, a new array is device memory, and `read` and `write` copy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar

import attrs
import numpy as np
from numpy.typing import DTypeLike, NDArray

from offloadrt.driver import CudaDriver
from offloadrt.extensions.stdpar.algorithms import AlgorithmCall, Algorithms
from offloadrt.extensions.stdpar.arrays import UsmArray, adopted
from offloadrt.extensions.stdpar.elision import (
    Decision,
    Elided,
    Kept,
    Marker,
    Reason,
    par_unseq,
    refuse_captures,
    table,
)
from offloadrt.extensions.stdpar.execution import Executor, Queue, submit
from offloadrt.extensions.stdpar.heap import Heap
from offloadrt.extensions.stdpar.implementations import HostPointer, StdParOptions
from offloadrt.extensions.stdpar.stdpar_runtime import StdParRuntime
from offloadrt.kernels import Kernel
from offloadrt.machine import Machine
from offloadrt.models.host.arguments import checks_arguments
from offloadrt.models.host.arrays import Arena
from offloadrt.models.host.program import Barrier, Drivers, Model, OffloadProgram, ProgramThread
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.host_array import HostArray, Kind, Section, array_of, give_address
from offloadrt.sim import LockStatistics
from offloadrt.trace import Trace


@checks_arguments
class SyclQueue:
    """An in-order ``sycl::queue`` that a program makes itself.

    Its commands pay the host time of SYCL's layers, whichever implementation runs the parallel algorithms.
    """

    def __init__(self, executor: Executor, device: OffloadDevice) -> None:
        """Make a queue that belongs to the thread of `executor`."""
        self._executor = executor
        self._runtime = executor.runtime
        self._queue = Queue(self._runtime, device, self._runtime.machine.spec.value("sycl.submit"))

    async def malloc_shared(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, phantom: bool | None = None
    ) -> UsmArray:
        """Allocate an array in shared USM, which host and device can both access.

        name: in reports. phantom: whether the array has no values, so that only its time is modelled; None: the
        program's option decides.
        """
        with self._runtime.calling("malloc_shared"):
            await self._executor.meets_call("malloc_shared")
            array = self._runtime.unplaced(name, shape, dtype, phantom, "shared")
            give_address(array, await self._runtime.usm.malloc_shared(max(1, array.nbytes), array.name))
        return array

    async def malloc_device(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, phantom: bool | None = None
    ) -> UsmArray:
        """Allocate an array in device memory, which the host cannot use. Raises ArrayOutOfDeviceMemory.

        name: in reports. phantom: whether the array has no values, so that only its time is modelled; None: the
        program's option decides.
        """
        with self._runtime.calling("malloc_device"):
            await self._executor.meets_call("malloc_device")
            array = self._runtime.unplaced(name, shape, dtype, phantom, "device")
            give_address(array, await self._runtime.usm.malloc_device(max(1, array.nbytes), array.phantom, name))
        return array

    async def malloc_host(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, phantom: bool | None = None
    ) -> UsmArray:
        """Allocate an array in pinned host memory, which the device reaches over the link.

        name: in reports. phantom: whether the array has no values, so that only its time is modelled; None: the
        program's option decides.
        """
        with self._runtime.calling("malloc_host"):
            await self._executor.meets_call("malloc_host")
            array = self._runtime.unplaced(name, shape, dtype, phantom, "host")
            give_address(array, await self._runtime.usm.malloc_host(max(1, array.nbytes)))
        return array

    async def free(self, array: UsmArray) -> None:
        """Call ``sycl::free`` for memory of any kind. Raises DriverError where no allocation of that kind begins."""
        with self._runtime.calling("free"):
            await self._executor.meets_call("free")
            await self._runtime.usm.free(array)

    async def submit(self, kernel: Kernel, *arguments: Any, iterations: int | None = None) -> None:
        """Submit a kernel (``parallel_for``); return when the kernel is in the queue.

        iterations: how many, for a kernel that is declared by its costs; None: as many as its first array has elements.
        """
        with self._runtime.calling("parallel_for"):
            await self._executor.meets_call("parallel_for")
            await submit(
                self._runtime, self._queue, AlgorithmCall("parallel_for", par_unseq, kernel, arguments, iterations)
            )

    async def memcpy(self, destination: UsmArray, source: UsmArray) -> None:
        """Submit a copy of all bytes of an array; return once it is submitted: it need not be complete.

        A copy from or to shared USM first waits for all earlier work of the queue. Raises ValueError for different
        sizes.
        """
        with self._runtime.calling("memcpy"):
            await self._executor.meets_call("memcpy")
            await self._queue.memcpy(destination, source)

    async def prefetch(self, array: UsmArray) -> None:
        """Submit a prefetch of shared USM to the device.

        Raises ValueError for memory of another kind, PrefetchCrash where the machine's software crashes at a prefetch.
        """
        if array.memory != "shared":
            raise ValueError(f"prefetch of {array.name!r}: it is {array.memory} memory, not shared USM")
        with self._runtime.calling("prefetch"):
            await self._executor.meets_call("prefetch")
            await self._queue.prefetch(array.address, array.nbytes, array.name)

    async def wait(self) -> None:
        """Wait for everything in the queue. Raises the first error of a kernel in the queue."""
        with self._runtime.calling("wait"):
            await self._executor.meets_call("wait")
            await self._queue.wait()

    async def close(self) -> None:
        """Wait for everything in the queue, and give the queue's stream back."""
        with self._runtime.calling("wait"):
            await self._executor.meets_call("wait")
            await self._queue.close()


@checks_arguments
class HostThread(Algorithms, ProgramThread):
    """The host thread ``t`` of a program's function. The `name` of an array is for reports.

    With `phantom` True an array has no values, and only its time is modelled; None: the program's options decide.
    """

    def __init__(self, program: OffloadProgram[Any], runtime: StdParRuntime, heap: Heap, *place: Any) -> None:
        super().__init__(program, *place)
        self.runtime = runtime
        self._memory = heap
        self.executor = Executor(runtime, heap)
        self._interposed = True

    async def leave_team(self) -> None:
        """End the thread: wait for its queue and give the queue's stream back."""
        await self.executor.meets(Marker.RETURN)
        if self.executor.queue is not None:
            await self.executor.queue.close()

    def array(
        self,
        name: str,
        shape: int | tuple[int, ...],
        dtype: DTypeLike = np.float64,
        fill: Any = None,
        phantom: bool | None = None,
        kind: Kind = "static",
        align: int = 16,
    ) -> UsmArray:
        """Make an array on the thread's stack, or with the kind ``heap`` on the C library's heap.

        Without system USM the device can use neither. fill: the first values. phantom: whether it has none, so that
        only its time is modelled. kind: every other kind means the stack. align: in bytes.
        """
        made = super().array(name, shape, dtype, fill, phantom, kind, align)
        self.runtime.usm.add_system(made.address, made.nbytes)
        return adopted(made, "heap" if kind == "heap" else "stack", self.sim)

    # the heap

    async def new_array(
        self,
        name: str,
        shape: int | tuple[int, ...],
        dtype: DTypeLike = np.float64,
        fill: Any = None,
        phantom: bool | None = None,
        align: int = 0,
    ) -> UsmArray:
        """Allocate ``new T[n]``: memory whose pages do not exist yet and whose values are zeros.

        fill: values that the thread writes to the array right afterwards; None to write nothing. phantom: whether it
        has no values, so that only its time is modelled. align: bytes of ``aligned_alloc``; 0 for plain ``new``. Raises
        ValueError for an invalid shape, and ArrayOutOfDeviceMemory where the array is device memory and does not fit.
        """
        explicit = self.runtime.is_explicit
        with self.runtime.calling("new"):
            if not explicit:
                await self.executor.meets(Marker.ALLOCATION, "new")
            array = self.runtime.unplaced(name, shape, dtype, phantom, "heap")
            if explicit and self.executor.queue is not None:
                give_address(array, await self.runtime.usm.malloc_device(max(1, array.nbytes), array.phantom, name))
                array.memory = "device"
            else:
                place = await self._memory.malloc(array.nbytes, array.name, self._heap, self._interposed, align)
                give_address(array, place[0])
                array.memory = "shared" if place[1] else "heap"
        if fill is not None:
            await self.write(array, None if array.phantom else fill)
        return array

    malloc = new_array

    async def foreign_malloc(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, phantom: bool | None = None
    ) -> UsmArray:
        """Call malloc from code of another compiler, so that the memory is the C library's and not shared USM.

        phantom: whether the array has a size but no values; None: as the program has it.
        """
        if not self.runtime.is_explicit:
            await self.executor.meets(Marker.ALLOCATION, "foreign_malloc")
        array = self.runtime.unplaced(name, shape, dtype, phantom, "heap")
        give_address(array, await self._memory.malloc_libc(array.nbytes, self._heap))
        return array

    def stack_array(
        self,
        name: str,
        shape: int | tuple[int, ...],
        dtype: DTypeLike = np.float64,
        fill: Any = None,
        phantom: bool | None = None,
    ) -> UsmArray:
        """Make an array on the thread's stack, in host memory. fill: the first values; a `phantom` has none."""
        return self.array(name, shape, dtype, fill, phantom)

    async def free(self, array: HostArray) -> None:
        """Free or delete an array in one of the program's own translation units. Raises InvalidFree."""
        await self._free(array, foreign=False)

    delete = free

    async def foreign_free(self, array: HostArray) -> None:
        """Call free in a translation unit of another compiler.

        Raises InvalidFree where no allocation begins. Raises ForeignFree for shared USM where the implementation does
        not replace free there.
        """
        await self._free(array, foreign=True)

    async def _free(self, given: HostArray, foreign: bool) -> None:
        array = _of_model(given)
        with self.runtime.calling("free"):
            if array.memory == "device" or not self.runtime.is_explicit:
                await self.executor.meets(Marker.ALLOCATION, "free")
            array.check_host_access(writes=True)
            if array.memory == "device":
                await self.runtime.usm.free(array)
            else:
                await self._memory.free(array, foreign)

    @contextmanager
    def interposition_disabled(self) -> Iterator[None]:
        """Inside ``with t.interposition_disabled():``, allocate from the C library, as the runtime library itself does.

        Otherwise the implementation replaces malloc and new, and gives out shared USM.
        """
        before, self._interposed = self._interposed, False
        try:
            yield
        finally:
            self._interposed = before

    # what the host does with its data

    async def read(self, place: HostArray | Section) -> Any:
        """Read an array, or a section of one, on the host; pages of it that are on the device come back.

        Returns the values; None for a phantom, an array without values. Raises UnfinishedRead when the kernel that
        writes it has not been waited for.
        """
        array = _of_model(array_of(place))
        if array.memory == "device":
            await self._copy(array, to_device=False)
        else:
            await self._touch(place, writes=False)
        return None if array.values is None else _part(place, array.values)

    async def write(self, place: HostArray | Section, values: Any = None) -> None:
        """Write `values` to an array, or to a section of one, on the host.

        With `values` None, nothing is written, but the pages come to the host as for a write. Raises UnfinishedRead
        when a kernel that uses the array has not been waited for.
        """
        array = _of_model(array_of(place))
        if array.memory == "device":
            if isinstance(place, Section):
                await self._copy(array, to_device=False)
            _set(place, array, values)
            await self._copy(array, to_device=True)
        else:
            await self._touch(place, writes=True)
            _set(place, array, values)

    async def host_access(self, place: HostArray | Section, writes: bool | None = None) -> None:
        """Bring the pages of an array, or of a section of one, to the host, as a load or store by the host does.

        The array must be in shared or host memory. writes: False for a load; None counts as a store.
        """
        await self._touch(place, writes=writes is not False)

    def first_touch(self, array: HostArray) -> Awaitable[object]:
        """Touch all of an array for the first time, by writing it."""
        return self.write(array)

    async def _touch(self, place: HostArray | Section, writes: bool) -> None:
        array = _of_model(array_of(place))
        await self.executor.meets(Marker.STACK_ACCESS if array.memory == "stack" else Marker.HOST_ACCESS, array.name)
        array.check_alive("write" if writes else "read")
        array.check_host_access(writes)
        begin, nbytes = 0, array.nbytes
        if isinstance(place, Section):
            begin = place.begin - array.address
            nbytes = max(0, (place.length - 1) * place.stride + 1) * place.row_bytes
        await self.runtime.usm.host_touch(array, begin, nbytes)

    async def _copy(self, array: UsmArray, to_device: bool) -> None:
        """Copy device memory to or from the program's copy of it on the host, and wait."""
        queue = self.executor.queue
        assert queue is not None, "device memory without a device"
        array.check_alive("memcpy")
        of_host = adopted(array, "heap", self.sim)
        await self.executor.meets(Marker.HOST_ACCESS, array.name)
        with self.runtime.calling("memcpy"):
            await (queue.memcpy(array, of_host) if to_device else queue.memcpy(of_host, array))
            await queue.wait()

    # the flow of the program, as barriers see it

    async def external(self, name: str, seconds: float = 0.0) -> None:
        """Call a function that the compiler does not inline; the thread first waits for its offloaded algorithms.

        name: the function's name in reports. seconds: how long it computes on a core, in virtual time.
        """
        with self.runtime.calling(name):
            await self.executor.meets_call(name)
            if seconds:
                await self.compute(seconds)

    async def sleep(self, seconds: float) -> None:
        """Sleep for virtual seconds, after a wait for offloaded algorithms as before any call that is not inlined."""
        await self.executor.meets_call("sleep")
        await super().sleep(seconds)

    async def barrier(self) -> None:
        """Wait until all host threads of the team have come here (an OpenMP-like barrier among host threads).

        The thread first waits for its own offloaded algorithms.
        """
        await self.executor.meets_call("barrier")
        await super().barrier()

    @asynccontextmanager
    async def function(self) -> AsyncIterator[None]:
        """Mark the body of a function that the compiler does not inline: ``async with t.function():``.

        At the end of the block the function returns, and the thread waits for its offloaded algorithms.
        """
        yield
        if not self.runtime.is_explicit:
            await self.executor.meets(Marker.RETURN)

    async def wait(self) -> None:
        """Wait for the thread's queue. Raises the first error of a kernel in the queue."""
        await self.executor.meets(Marker.CALL, "wait")
        if self.executor.queue is not None and self.executor.queue.outstanding:
            await self.executor.drain()

    def queue(self) -> SyclQueue:
        """Make an in-order SYCL queue on the default device, with all kinds of USM. Raises ValueError without one."""
        device = self.runtime.usm.device
        if device is None:
            raise ValueError(f"queue: {self.runtime.machine.spec.name} has no device (usm.shared = no_device)")
        return SyclQueue(self.executor, device)

    # algorithms

    async def invoke(self, call: AlgorithmCall) -> Any:
        """Run one algorithm (`call`) as the implementation does, and return its result."""
        with self.runtime.calling(call.algorithm):
            return await self.executor.execute(call)


def _of_model(array: HostArray) -> UsmArray:
    if not isinstance(array, UsmArray):
        raise TypeError(f"array {array.name!r} was not made by a thread of this program")
    return array


def _set(place: HostArray | Section, array: UsmArray, values: Any) -> None:
    if values is not None and array.values is not None:
        try:
            _part(place, array.values)[...] = values
        except (TypeError, ValueError) as error:
            raise ValueError(f"array {array.name!r}: {error}") from None


def _part(place: HostArray | Section, values: NDArray[Any]) -> NDArray[Any]:
    """Return the elements of an array that belong to `place`: all, or those of a section."""
    if not isinstance(place, Section):
        return values
    part: NDArray[Any] = values[place.lower : place.lower + (place.length - 1) * place.stride + 1 : place.stride]
    return part


_REASONS = {
    Reason.ACCESS: "kept_access",
    Reason.CALL: "kept_call",
    Reason.ALLOCATION: "kept_allocation",
    Reason.EXIT: "kept_exit",
    Reason.VALUE: "kept_value",
    Reason.HOST: "kept_host",
    Reason.OFF: "kept_off",
}
KEPT: Final = tuple(_REASONS.values())
"""The names of the figures that count kept barriers, one for each reason."""


def algorithm_figures(algorithms: Mapping[str, float], barriers: Mapping[Hashable, float]) -> dict[str, float | int]:
    """Return figures about a program's algorithms and barriers, by name.

    algorithms: counts by name, as from `StdPar.algorithms`. barriers: how often each decision about a barrier was made,
    as from `StdPar.barriers`. The figures are the algorithms called, offloaded and run on the host, the waits, the
    prefetches, the allocations that shared USM replaces, the barriers kept for each reason, and the share of the
    barriers that were elided.
    """
    counts = {name: round(count) for name, count in algorithms.items()}
    reasons = dict.fromkeys(KEPT, 0.0)
    for barrier, times in barriers.items():
        if isinstance(barrier, Kept) and barrier.reason in _REASONS:
            reasons[_REASONS[barrier.reason]] += times
    share = counts["elided"] / counts["offloaded"] if counts["offloaded"] else 0.0
    kept = {name: round(times) for name, times in reasons.items()}
    return {"algorithms": counts.pop("calls"), **counts, "elided_share": share, **kept}


R = TypeVar("R")


class StdPar(OffloadProgram[HostThread]):
    """A program of C++ standard parallelism, with the machine that it runs on and its default device.

    Raises ValueError for an implementation that does not exist, and for system USM where the device cannot have it;
    HeuristicDatabaseError for a file that cannot be read.
    """

    def __init__(
        self, machine: Machine, drivers: Drivers, options: StdParOptions | None = None, trace: Trace | None = None
    ) -> None:
        options = options or StdParOptions()
        super().__init__(machine, drivers, options, trace)
        for driver in drivers:
            if isinstance(driver, CudaDriver):  # on an AMD GPU all implementations launch by HIP
                driver.device.queues.barriers = machine.spec.flag("stream.barriers")
        self.runtime = StdParRuntime(
            machine, self.devices[0] if self.devices else None, trace, options, self.next_directive
        )
        self.implementation, self.usm, self.counts = self.runtime.implementation, self.runtime.usm, self.runtime.counts
        self.heap = Heap(self.runtime, self, options.pool_gb)
        self._database_file = options.heuristic_file

    async def parallel(self, body: Callable[[HostThread], Awaitable[R]], num_threads: int = 1) -> list[R]:
        """Run a team of host threads, each `await body(t)`.

        Raises CompilationRefused, before any of them starts, if a kernel of `body` captures a local array by reference
        and the implementation's compiler rejects that (icpx).

        The program's first allocation starts the devices: the runtime library takes malloc's place, or the standard
        library allocates before `main`.
        """
        if self.implementation.host_pointer is HostPointer.REFUSED and self.devices:
            refuse_captures(body, self.implementation.name)
        await self.start_devices()
        return await super().parallel(body, num_threads)

    def make_thread(self, number: int, num_threads: int, barrier: Barrier, heap: Arena, stack: Arena) -> HostThread:
        return HostThread(self, self.runtime, self.heap, number, num_threads, barrier, heap, stack)

    @property
    def decisions(self) -> Mapping[Decision, int]:
        """Return, by decision, how often it was made: whether the host waits after an algorithm (its barrier).

        Each key names the algorithm, its source line and the reason.
        """
        return self.runtime.decisions

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of the runtime's locks, by name, including the memory pool's mutex."""
        return {**super().locks(), self.heap.lock.name: self.heap.lock.statistics()}

    @property
    def elided(self) -> int:
        """Return how many barriers of offloaded algorithms were elided, so that the host did not wait there."""
        return sum(times for decision, times in self.decisions.items() if isinstance(decision, Elided))

    def algorithms(self) -> dict[str, int]:
        """Return the program's counts so far, by name: algorithms, waits, prefetches, barriers elided, and so on."""
        decisions = [decision for heuristic in self.runtime.heuristics for decision in heuristic.decisions]
        return {
            **attrs.asdict(self.counts),
            "elided": self.elided,
            "decisions": len(decisions),
            "changes": sum(decision.changed for decision in decisions),
        }

    def barriers(self) -> dict[Hashable, int]:
        """Return how often the host's wait after an algorithm (its barrier) was elided, or kept for each reason."""
        return dict(self.decisions.items())

    def elision_table(self) -> str:
        """Return a table of the barriers by source line: what became of each, how often, and why."""
        return table(decision for decision, times in self.decisions.items() for _ in range(times))

    async def complete_tasks(self) -> None:
        """Close the queues of threads that ended without closing them."""
        for close in self.runtime.closers:
            await close()

    async def shutdown(self) -> None:
        """Shut the runtime down, so that later allocations are the C library's; write the heuristic's database."""
        self.heap.is_up = False
        await super().shutdown()
        if self._database_file is not None:
            self.runtime.database.write(self._database_file)


MODEL = Model(StdParOptions, StdPar, module="offloadrt.extensions.stdpar")
