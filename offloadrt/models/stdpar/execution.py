"""One algorithm from call to return: validate the pointers, decide, prefetch, submit, wait where a barrier stays.

Follows AdaptiveCpp's ``offload.hpp``. An algorithm that is not offloaded runs on the host's cores, after a barrier.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from offloadrt.compilers.stdpar.elision import Marker
from offloadrt.compilers.stdpar.errors import CompilationRefused
from offloadrt.compilers.stdpar.standard_algorithms import ExecutionPolicy
from offloadrt.kernels import Kernel, Launch
from offloadrt.models.stdpar.algorithms import Call
from offloadrt.models.stdpar.allocation_map import Allocation
from offloadrt.models.stdpar.arrays import UsmArray
from offloadrt.models.stdpar.errors import HostPointerInKernel
from offloadrt.models.stdpar.heuristic_database import OperationId, Place
from offloadrt.models.stdpar.implementations import HostPointer
from offloadrt.models.stdpar.prefetching import PrefetchMode, take_prefetches
from offloadrt.models.stdpar.queue import ArrayInKernel, Queue
from offloadrt.models.stdpar.validation import direct, host_pointers, pointers
from offloadrt.runtime.errors import OffloadError

_JOINING = Kernel("join group results", None, flops_per_iteration=1.0, bytes_per_iteration=8.0)
"""The second kernel of a reduction, by one group, where the first has several (`reduction_engine.hpp`; CUB's is like
it).
"""
_GROUPS_PER_UNIT = 4
"""How many results the first one leaves, at most, for each compute unit (`numeric.hpp`)."""

if TYPE_CHECKING:
    from offloadrt.models.stdpar.host_thread import HostThread
    from offloadrt.models.stdpar.program import StdPar


async def execute(t: HostThread, call: Call) -> Any:
    """Run one algorithm; what it returns, None where an array is a phantom."""
    program, queue = t.program, t.own_queue
    program.counts.calls += 1
    for array in _arrays(call):
        array.check_alive(call.algorithm)
    result = t.result_array(call) if call.returns else None
    if result is not None:
        call = attrs.evolve(call, arguments=(*call.arguments, result))
    await program.machine.work(program.dispatch_s, "runtime")
    if queue is not None and await _may_be_offloaded(program, call) and _is_worth_it(t, call):
        if t.heuristic is not None:
            queue.measure(_operation(program, call))
        await _prefetch(program, queue, call)
        await submit(program, queue, call)
        program.counts.offloaded += 1
        await t.meets(Marker.RETURNING if call.returns else Marker.ALGORITHM, call.algorithm, *call.place)
    else:
        await _on_host(t, call)
    if result is None or any(one.phantom for one in _arrays(call)):
        return None
    return result.data[0]


async def submit(program: StdPar, queue: Queue, call: Call) -> None:
    """Put the kernel of a call into a queue."""
    given = direct(call.arguments)
    _, launch = program.launches.of(call.kernel, given, call.iterations)
    uses = _uses(launch, given)
    await queue.launch(launch, _bound(program, call), uses, program.usm.touching(launch, given))
    if call.returns and launch.teams > 1:
        groups = min(launch.teams, _GROUPS_PER_UNIT * queue.compute_units)
        await queue.launch(_JOINING.launch(1, iterations=groups), None, ())


def _is_worth_it(t: HostThread, call: Call) -> bool:
    """What the offload heuristic says."""
    program = t.program
    if t.heuristic is None:
        return True
    used_bytes = 0
    for allocation, _ in _allocations(program, call):
        used_bytes += allocation.size
    return t.heuristic.decide(_operation(program, call), used_bytes, program.sim.now, program.batches)


def _operation(program: StdPar, call: Call) -> OperationId:
    """What the heuristic knows a call by: the algorithm with its kernel, and how many iterations that has."""
    _, launch = program.launches.of(call.kernel, direct(call.arguments), call.iterations)
    return OperationId(f"{call.algorithm}({call.kernel.name})", launch.iterations)


async def _may_be_offloaded(program: StdPar, call: Call) -> bool:
    """Can the algorithm run on the device? Looks at the pointers where the implementation does."""
    implementation, counts = program.implementation, program.counts
    if not implementation.offloads(call.algorithm, call.policy, program.independent_progress):
        return False
    if program.system_usm:
        return True
    if implementation.host_pointer is HostPointer.HOST:
        for _ in pointers(call.arguments):
            await program.machine.work(program.lookup_s, "runtime")
    of_host = host_pointers(call.arguments)
    if not of_host:
        return True
    array, where = of_host[0], program.sim
    if implementation.host_pointer is HostPointer.REFUSED:
        raise CompilationRefused(
            f"{implementation.name} does not compile {call.algorithm}({call.kernel.name}): {array.name!r} is memory of "
            f"the host ({array.memory}), which the kernel would capture by reference"
        )
    if implementation.host_pointer is HostPointer.CRASH:
        raise HostPointerInKernel(
            f"kernel {call.kernel.name!r} uses {array.name!r}, memory of the host ({array.memory}), and "
            f"{implementation.name} does not look: the device faults at {array.address:#x}",
            call=call.algorithm,
            array=array.name,
            thread=where.current.name,
            time_s=where.now,
        )
    counts.host_pointers += 1
    return False


async def _prefetch(program: StdPar, queue: Queue, call: Call) -> None:
    """Prefetch the allocations that the kernel's pointers point into, as the implementation's mode says."""
    implementation = program.implementation
    if implementation.prefetch is PrefetchMode.NEVER:
        return
    found = _allocations(program, call)
    due = take_prefetches(
        implementation.prefetch,
        [allocation for allocation, _ in found],
        program.batches,
        queue.outstanding,
        implementation.always,
    )
    names = {allocation.root: name for allocation, name in found}
    for allocation in due:
        await queue.prefetch(allocation.root, allocation.size, names[allocation.root])


def _allocations(program: StdPar, call: Call) -> list[tuple[Allocation, str]]:
    """The allocations that the kernel's pointers point into, each with an array's name."""
    found: dict[int, tuple[Allocation, str]] = {}
    for array in pointers(call.arguments):
        allocation = program.heap.allocations.find(array.address)
        if allocation is not None:
            found.setdefault(allocation.root, (allocation, array.name))
    return list(found.values())


def _arrays(call: Call) -> list[UsmArray]:
    return [one for one in direct(call.arguments) if isinstance(one, UsmArray)]


def _bound(program: StdPar, call: Call) -> Callable[[], None] | None:
    """The kernel's body with its arguments; None where there is nothing to compute."""
    body = call.kernel.body
    if body is None or any(one.phantom for one in _arrays(call)):
        return None
    return functools.partial(_run, program, body, direct(call.arguments))


def _run(program: StdPar, body: Callable[..., None], arguments: Sequence[Any]) -> None:
    view = program.usm.view
    body(*[view(one) if isinstance(one, UsmArray) else one for one in arguments])


def _uses(launch: Launch, arguments: Sequence[Any]) -> list[ArrayInKernel]:
    """The arrays of a kernel, and whether it writes them: as its source or its declaration says, else it does."""
    known = {use.position: use.writes > 0 for use in launch.kernel.arrays if use.laf}
    return [
        ArrayInKernel(array, known.get(position, True))
        for position, array in enumerate(arguments)
        if isinstance(array, UsmArray)
    ]


async def _on_host(t: HostThread, call: Call) -> None:
    """The algorithm runs on the host: the device's work is waited for, pages come back, the cores share the rest."""
    program, queue = t.program, t.own_queue
    program.counts.on_host += 1
    await t.meets(Marker.HOST_ALGORITHM, call.algorithm, *call.place)
    if queue is not None and queue.outstanding:
        await queue.wait()
    for array in _arrays(call):
        if array.memory == "device":
            message = f"{call.algorithm} with {call.policy.value} runs on the host, which cannot use device memory"
            raise OffloadError(message, call=call.algorithm, array=array.name, thread=t.name, time_s=t.sim.now)
    begin = program.sim.now
    written, _ = program.launches.of(call.kernel, direct(call.arguments), call.iterations)
    for use in _uses(written, direct(call.arguments)):
        use.array.check_host_access(use.writes)
        await program.usm.host_touch(use.array)
    if queue is None:
        await program.machine.work(program.submit_s, "runtime")
    await program.machine.host_workers.execute(written, call.policy is not ExecutionPolicy.SEQ)
    if t.heuristic is not None and call.policy is not ExecutionPolicy.SEQ:
        program.database.add(_operation(program, call), Place.HOST, program.sim.now - begin)
    if (body := _bound(program, call)) is not None:
        body()
