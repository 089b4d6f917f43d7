"""One algorithm from call to return: validate the pointers, decide, prefetch, submit, wait where a barrier stays.

Follows AdaptiveCpp's ``offload.hpp``. An algorithm that is not offloaded runs on the host's cores, after a barrier.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import attrs
import numpy as np

from offloadrt.driver import NOTHING, CudaDriver, KernelAccesses
from offloadrt.extensions.stdpar.algorithms import AlgorithmCall, direct, host_pointers, pointers
from offloadrt.extensions.stdpar.arrays import Command, HostPointerInKernel, InUse, PrefetchCrash, UsmArray
from offloadrt.extensions.stdpar.elision import CompilationRefused, ExecutionPolicy, Kept, Marker, Operation
from offloadrt.extensions.stdpar.heap import Heap
from offloadrt.extensions.stdpar.heuristic import OperationId, Place
from offloadrt.extensions.stdpar.implementations import (
    Allocation,
    HostPointer,
    PrefetchMode,
    Temporaries,
    take_prefetches,
)
from offloadrt.extensions.stdpar.stdpar_runtime import StdParRuntime
from offloadrt.kernels import Kernel, Launch
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.errors import OffloadError
from offloadrt.runtime.host_array import HostSpan, give_address
from offloadrt.runtime.mapping.map_item import DirectiveQueue


@attrs.frozen
class ArrayInKernel:
    """An array among a kernel's arguments, and whether the kernel writes it."""

    array: UsmArray
    writes: bool


class Queue:
    """An in-order queue of one host thread on the device; a submission takes `submit_s` seconds of the host."""

    def __init__(self, runtime: StdParRuntime, device: OffloadDevice, submit_s: float) -> None:
        self.device = device
        self.most_groups = _GROUPS_PER_UNIT * runtime.machine.devices[device.number].compute.spec.sms
        """How many results the first kernel of a reduction leaves at most, one for each of its work groups."""
        self.outstanding = 0
        """How many commands were submitted since the last wait."""
        self.algorithms: list[OperationId] = []
        """The outstanding algorithms whose runtime the heuristic measures."""
        self._batch_begin_s = 0.0
        self._runtime = runtime
        self._submit_s = submit_s
        self._queue = DirectiveQueue(0, lasts=True)
        self._used: dict[int, UsmArray] = {}
        """Arrays used by commands that no thread has waited for, by identity."""
        runtime.closers.append(self.close)

    def measure(self, operation: OperationId) -> None:
        """Have an algorithm's runtime measured for the offload heuristic; called before the algorithm is submitted.

        operation: what the heuristic knows the algorithm by. Only the time of the whole batch up to the next wait is
        measured; each algorithm of the batch then counts with an equal part.
        """
        if not self.algorithms:
            self._batch_begin_s = self._runtime.sim.now
        self.algorithms.append(operation)

    # commands

    async def launch(
        self,
        launch: Launch,
        run: Callable[[], None] | None,
        arrays: Sequence[ArrayInKernel],
        touching: KernelAccesses = NOTHING,
    ) -> None:
        """Submit a kernel. `run` computes its results when it ends; the next wait raises an error that `run` raised.

        launch: the kernel and its launch configuration. arrays: the arrays that it uses. touching: the pages of managed
        memory that it accesses.
        """
        command = self._use(launch.kernel.name, arrays)
        queue = self._begin()

        def body() -> None:
            command.done = True
            # By now the thread that has submitted the kernel does something else: it hears of the first error at its
            # wait, and what follows a kernel that failed is not computed.
            if run is not None and queue.kernel_error is None:
                try:
                    run()
                except Exception as error:
                    queue.kernel_error = error

        await self._submission()
        await self.device.plugin.launch_kernel(queue, launch, body, touching, len(arrays))
        self._submitted()

    async def memcpy(self, destination: UsmArray, source: UsmArray) -> None:
        """Copy an array to another one of as many bytes, between host and device or within the device.

        Shared USM is copied by the host's address, as CUDA's library does it: the thread first waits for the queue, and
        pages that are on the device come back to the host. Raises ValueError for different sizes, and for a copy within
        the host.
        """
        if destination.nbytes != source.nbytes:
            raise ValueError(
                f"memcpy of {source.nbytes} bytes ({source.name!r}) to {destination.nbytes} ({destination.name!r})"
            )
        kinds = (source.memory == "device", destination.memory == "device")
        if kinds == (False, False):
            raise ValueError(f"memcpy from {source.name!r} to {destination.name!r}: neither is device memory")
        if kinds != (True, True):
            await self._host_end(destination if kinds[0] else source, writes=kinds[0])
        queue, plugin = await self._begin_copy(), self.device.plugin
        self._use("memcpy", [ArrayInKernel(source, False), ArrayInKernel(destination, True)])
        if kinds == (True, True):
            await plugin.exchange_data(queue, destination.address, source.address, source.nbytes)
        elif kinds[0]:
            await plugin.retrieve_data(queue, destination.span(destination.address, source.nbytes), source.address)
        else:
            await plugin.submit_data(queue, destination.address, source.span(source.address, source.nbytes))
        self._submitted()

    async def retrieve(self, source: UsmArray, nbytes: int) -> None:
        """Copy the first `nbytes` bytes of an array in device memory to the calling thread's stack."""
        await self.device.plugin.retrieve_data(await self._begin_copy(), HostSpan(0, nbytes, None), source.address)
        self._submitted()

    async def _host_end(self, array: UsmArray, writes: bool) -> None:
        """Bring the host's side of a copy to the host. Waits for this queue first where the array is shared USM."""
        if array.memory == "shared" and self.outstanding:
            await self.wait()
        array.check_host_access(writes, self)
        await self._runtime.usm.host_touch(array)

    async def prefetch(self, address: int, nbytes: int, name: str = "") -> None:
        """Submit a prefetch of shared USM to the device, in the order of the queue.

        address, nbytes: the memory to prefetch. name: its object, for the trace. Raises PrefetchCrash where the
        machine's software crashes at a prefetch.
        """
        runtime = self._runtime
        what = runtime.usm.on_prefetch
        if what == "crashes":
            message = f"a prefetch of {nbytes} bytes crashes on {runtime.machine.spec.name} (usm.prefetch = crashes)"
            raise PrefetchCrash.now(runtime.sim, message, call="prefetch", array=name)
        queue = self._begin()
        await self._submission()
        runtime.counts.prefetches += 1
        runtime.counts.prefetched_bytes += nbytes
        if not runtime.usm.of_host:
            await self.device.plugin.prefetch(queue, address, nbytes if what == "migrates" else 0, False)
        elif what == "migrates":  # within one memory it maps the pages for the device
            await self.device.plugin.prefault(address, nbytes)

    # waits

    async def wait(self) -> None:
        """Wait for all commands in the queue. Raises the first error of a kernel in the queue."""
        queue = self._queue
        if queue.stream is None:
            return
        queue.cause = self._runtime.sim.current.cause
        await self.device.plugin.synchronize(queue)
        self._runtime.counts.waits += 1
        if self.outstanding:
            self._runtime.batches += 1
        if self.algorithms:
            self._runtime.database.add_batch(self.algorithms, self._runtime.sim.now - self._batch_begin_s)
            self.algorithms = []
        self.outstanding = 0
        used, self._used = self._used, {}
        for array in used.values():
            array.forget(self)
        await self.device.settle(queue)

    async def close(self) -> None:
        """Wait for all commands at the end of the thread, and give the queue's stream back."""
        if self._queue.stream is not None:
            if self.outstanding:
                await self.wait()
            self._queue.lasts = False
            try:
                await self.device.plugin.synchronize(self._queue)
            finally:
                self._queue.lasts = True

    # accounting

    def _begin(self) -> DirectiveQueue:
        self._queue.cause = self._runtime.sim.current.cause
        return self._queue

    async def _begin_copy(self) -> DirectiveQueue:
        queue = self._begin()
        await self._submission()
        if isinstance(driver := self.device.driver, CudaDriver):
            await driver.call_copy()
        return queue

    async def _submission(self) -> None:
        await self._runtime.work(self._submit_s)

    def _submitted(self) -> None:
        self.outstanding += 1

    def _use(self, name: str, arrays: Sequence[ArrayInKernel]) -> Command:
        sim = self._runtime.sim
        command = Command(name, self, sim.current.name, sim.now)
        for use in arrays:
            use.array.in_use.append(InUse(command, use.writes))
            self._used[id(use.array)] = use.array
        return command


_JOINING = Kernel("join group results", None, flops_per_iteration=1.0, bytes_per_iteration=8.0)
"""The second kernel of a reduction. One work group joins the results of the first kernel's groups, where that had
several (`reduction_engine.hpp`; CUB works like it).
"""
_GROUPS_PER_UNIT = 4
"""How many results for each compute unit the first kernel of a reduction leaves at most (`numeric.hpp`)."""
_WITH_TEMPORARIES: Final = (
    "copy_if", "sort", "stable_sort", "merge", "adjacent_difference", "inclusive_scan", "exclusive_scan",
    "transform_inclusive_scan", "transform_exclusive_scan",
)  # fmt: skip
"""Algorithms that need memory besides their arguments and return nothing; Thrust's have a `temporary_array`."""


class Executor:
    """Runs the algorithms of one host thread, with that thread's queue, barriers and offload heuristic."""

    def __init__(self, runtime: StdParRuntime, heap: Heap) -> None:
        self.runtime = runtime
        device = runtime.usm.device
        self.queue = None if device is None else Queue(runtime, device, runtime.submit_s)
        self._heap = heap
        self._heuristic = runtime.make_heuristic()
        self._window = runtime.make_window()
        self.is_late = False
        """Whether the thread allocates later than the program that it repeats: then no barrier stays before it."""

    # barriers

    async def meets(self, marker: Marker, name: str = "", file: str = "", line: int = 0) -> None:
        """Record that the thread reaches an operation of the kind `marker`; wait first for its algorithms if needed.

        The wait is needed where the compiler keeps a barrier before such an operation. name, file, line: what the
        operation is, and where in the source.
        """
        if self.is_late and marker is Marker.ALLOCATION:
            return
        runtime = self.runtime
        decisions = self._window.meets(Operation(marker, name, file, line))
        for decision in () if runtime.is_explicit else decisions:
            runtime.decisions[decision] = runtime.decisions.get(decision, 0) + 1
        if any(isinstance(decision, Kept) for decision in decisions):
            await self.drain()

    async def meets_call(self, name: str) -> None:
        """Let the thread wait for its queue before a call that is not inlined, unless its program waits explicitly."""
        if not self.runtime.is_explicit:
            await self.meets(Marker.CALL, name)

    async def host_algorithm(self, name: str, file: str, line: int) -> None:
        """Count an algorithm that no implementation offloads, and wait for the thread's queue.

        The program itself does the algorithm's work afterwards. file, line: the call's place in the program.
        """
        self.runtime.counts.calls += 1
        self.runtime.counts.on_host += 1
        await self.meets(Marker.HOST_ALGORITHM, name, file, line)
        if self.queue is not None and self.queue.outstanding:
            await self.queue.wait()

    async def drain(self) -> None:
        """Wait for everything in the thread's queue; do nothing on a machine without a device."""
        if self.queue is not None:
            with self.runtime.calling("wait"):
                await self.queue.wait()

    # algorithms

    async def execute(self, call: AlgorithmCall) -> Any:
        """Run one algorithm; return its result.

        call: the algorithm with its policy, kernel and arguments. Returns None where the algorithm has no result, or
        where an array is a phantom: only its address and size exist, no values.
        """
        runtime, queue = self.runtime, self.queue
        runtime.counts.calls += 1
        for array in _arrays(call):
            array.check_alive(call.algorithm)
        result = _result_array(runtime, call) if call.returns else None
        if result is not None:
            call = attrs.evolve(call, arguments=(*call.arguments, result))
        await runtime.work(runtime.dispatch_s)
        if call.launches == ():  # of no elements: there is nothing to run
            return None
        if queue is not None and await _may_be_offloaded(runtime, call) and self._is_worth_it(call):
            if self._heuristic is not None:
                queue.measure(_operation(runtime, call))
            await self._prefetch(queue, call)
            temporary = await self._allocate_temporary(call)
            await submit(runtime, queue, call)
            if temporary is not None and (call.returns or call.algorithm == "copy_if"):
                await queue.retrieve(temporary, temporary.itemsize)
            runtime.counts.offloaded += 1
            await self.meets(Marker.RETURNING if call.returns else Marker.ALGORITHM, call.algorithm, *call.place)
            if temporary is not None:
                await runtime.usm.free(temporary)
        else:
            await self._on_host(call)
        if result is None or any(array.phantom for array in _arrays(call)):
            return None
        return result.data[0]

    async def _allocate_temporary(self, call: AlgorithmCall) -> UsmArray | None:
        """Allocate the device memory that an algorithm needs besides its arguments, where its library does so.

        A sort needs the elements once more, others a word for each work group and one for the result.
        """
        runtime, queue = self.runtime, self.queue
        needs = call.returns or call.algorithm in _WITH_TEMPORARIES
        if queue is None or not needs or runtime.implementation.temporaries is Temporaries.KEPT:
            return None
        sorted_bytes = next(pointers(call.arguments)).nbytes if "sort" in call.algorithm else 0
        words = 1 + queue.most_groups + sorted_bytes // 8
        made = runtime.unplaced("temporary_array", words, np.float64, True, "device")
        give_address(made, await runtime.usm.malloc_device(made.nbytes, True, made.name))
        return made

    def _is_worth_it(self, call: AlgorithmCall) -> bool:
        """Ask the offload heuristic whether the algorithm should run on the device. Without one, it should."""
        if self._heuristic is None:
            return True
        runtime, used_bytes = self.runtime, 0
        for allocation, _ in self._allocations(call):
            used_bytes += allocation.size
        return self._heuristic.decide(_operation(runtime, call), used_bytes, runtime.sim.now, runtime.batches)

    async def _prefetch(self, queue: Queue, call: AlgorithmCall) -> None:
        """Prefetch the allocations that the kernel's pointers point into, as the implementation's mode says."""
        implementation = self.runtime.implementation
        if implementation.prefetch is PrefetchMode.NEVER:
            return
        allocations = self._allocations(call)
        due = take_prefetches(
            implementation.prefetch,
            [allocation for allocation, _ in allocations],
            self.runtime.batches,
            queue.outstanding,
            implementation.always,
        )
        names = {allocation.root: name for allocation, name in allocations}
        for allocation in due:
            await queue.prefetch(allocation.root, allocation.size, names[allocation.root])

    def _allocations(self, call: AlgorithmCall) -> list[tuple[Allocation, str]]:
        """Return the allocations that the kernel's pointers point into, each with the name of an array in it."""
        named: dict[int, tuple[Allocation, str]] = {}
        for array in pointers(call.arguments):
            allocation = self._heap.allocations.find(array.address)
            if allocation is not None:
                named.setdefault(allocation.root, (allocation, array.name))
        return list(named.values())

    async def _on_host(self, call: AlgorithmCall) -> None:
        """Run an algorithm on the host's cores, after the device has finished and the arrays' pages have come back."""
        runtime, queue = self.runtime, self.queue
        runtime.counts.on_host += 1
        await self.meets(Marker.HOST_ALGORITHM, call.algorithm, *call.place)
        if queue is not None and queue.outstanding:
            await queue.wait()
        for array in _arrays(call):
            if array.memory == "device":
                message = f"{call.algorithm} with {call.policy.value} runs on the host, which cannot use device memory"
                raise OffloadError.now(runtime.sim, message, call=call.algorithm, array=array.name)
        begin = runtime.sim.now
        if queue is None:
            await runtime.work(runtime.submit_s)
            if runtime.wake_s:
                await runtime.sim.sleep(runtime.wake_s)
        for written, _, given in _kernels(runtime, call):
            # The calling thread faults for all pages before the workers begin, though real workers fault as they go.
            # The overlap of faults and computing is lost, which is at most the shorter of the two.
            for use in _uses(written, given):
                use.array.check_host_access(use.writes)
                await runtime.usm.host_touch(use.array, by_workers=call.policy is not ExecutionPolicy.SEQ)
            await runtime.machine.host_workers.execute(written, call.policy is not ExecutionPolicy.SEQ)
        if self._heuristic is not None and call.policy is not ExecutionPolicy.SEQ:
            runtime.database.add(_operation(runtime, call), Place.HOST, runtime.sim.now - begin)
        if (body := _bound(runtime, call)) is not None:
            body()


async def submit(runtime: StdParRuntime, queue: Queue, call: AlgorithmCall) -> None:
    """Submit the kernels of an algorithm call to a queue of `runtime`, without waiting for them."""
    for _, launch, given in _kernels(runtime, call):
        uses = _uses(launch, given)
        await queue.launch(launch, _bound(runtime, call), uses, runtime.usm.host_accesses(launch, given))
    if call.returns and launch.teams > 1:
        groups = min(launch.teams, queue.most_groups)
        await queue.launch(_JOINING.launch(1, iterations=groups), None, ())


def _kernels(runtime: StdParRuntime, call: AlgorithmCall) -> Iterator[tuple[Launch, Launch, list[Any]]]:
    """Yield for each launch of a call: as the program wrote it, as this compiler's code executes it, and its arguments.

    The second takes longer than the first by the implementation's kernel factor.
    """
    arguments = direct(call.arguments)
    if call.launches is None:
        yield *runtime.launches.of(call.kernel, arguments, call.iterations), arguments
        return
    for written in call.launches:
        used = {use.position for use in written.kernel.arrays}
        given = [argument if position in used else None for position, argument in enumerate(arguments)]
        yield written, written.slower(runtime.implementation.kernel_factor.value), given


def _operation(runtime: StdParRuntime, call: AlgorithmCall) -> OperationId:
    """Return the identity of a call for the heuristic: algorithm and kernel as the name, its iterations as the size."""
    _, launch, _ = next(_kernels(runtime, call))
    return OperationId(f"{call.algorithm}({call.kernel.name})", launch.iterations)


async def _may_be_offloaded(runtime: StdParRuntime, call: AlgorithmCall) -> bool:
    """Tell whether the algorithm can run on the device. Checks its pointers where the implementation does.

    Raises CompilationRefused or HostPointerInKernel for a pointer of the host's, under implementations that do not fall
    back to the host.
    """
    implementation, counts = runtime.implementation, runtime.counts
    if not implementation.offloads(call.algorithm, call.policy, runtime.independent_progress):
        return False
    if runtime.system_usm:
        return True
    if implementation.host_pointer is HostPointer.HOST:
        for _ in pointers(call.arguments):
            await runtime.work(runtime.lookup_s)
    of_host = host_pointers(call.arguments)
    if not of_host:
        return True
    array = of_host[0]
    if implementation.host_pointer is HostPointer.REFUSED:
        raise CompilationRefused(
            f"{implementation.name} does not compile {call.algorithm}({call.kernel.name}): {array.name!r} is memory of "
            f"the host ({array.memory}), which the kernel would capture by reference"
        )
    if implementation.host_pointer is HostPointer.CRASH:
        raise HostPointerInKernel.now(
            runtime.sim,
            f"kernel {call.kernel.name!r} uses {array.name!r}, memory of the host ({array.memory}), and "
            f"{implementation.name} does not look: the device faults at {array.address:#x}",
            call=call.algorithm,
            array=array.name,
        )
    counts.host_pointers += 1
    return False


def _arrays(call: AlgorithmCall) -> list[UsmArray]:
    return [argument for argument in direct(call.arguments) if isinstance(argument, UsmArray)]


def _bound(runtime: StdParRuntime, call: AlgorithmCall) -> Callable[[], None] | None:
    """Return a function that computes the kernel's results; None where there is nothing to compute."""
    body = call.kernel.body
    if body is None or any(array.phantom for array in _arrays(call)):
        return None
    return functools.partial(_run, runtime, body, direct(call.arguments))


def _run(runtime: StdParRuntime, body: Callable[..., None], arguments: Sequence[Any]) -> None:
    view = runtime.usm.view
    body(*[view(argument) if isinstance(argument, UsmArray) else argument for argument in arguments])


def _uses(launch: Launch, arguments: Sequence[Any]) -> list[ArrayInKernel]:
    """Return a kernel's arrays, and whether it writes them: if its source and declaration do not say, it does."""
    known = {use.position: use.writes > 0 for use in launch.kernel.arrays if use.laf}
    return [
        ArrayInKernel(array, known.get(position, True))
        for position, array in enumerate(arguments)
        if isinstance(array, UsmArray)
    ]


def _result_array(runtime: StdParRuntime, call: AlgorithmCall) -> UsmArray:
    """Make the array of one element in which the kernel leaves the algorithm's result. Host and device reach it."""
    made = runtime.unplaced("result", 1, call.dtype, False, "scratch")
    assert made.values is not None
    try:
        made.values[0] = call.init
    except (TypeError, ValueError) as error:
        raise TypeError(f"{call.algorithm}: init {call.init!r:.80} is no value of type {made.dtype}: {error}") from None
    return made
