"""Small runs that show what AdaptiveCpp's stdpar does with a program's memory; they measure facts."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import attrs

from offloadrt.kernels import kernel
from offloadrt.models import stdpar as std
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.definition import scenario
from offloadrt.study.scripts.parameters import Range
from offloadrt.study.validation.probing import Facts

ROUNDS: Final = 10
"""Allocations of a loop."""
N: Final = 1 << 16
"""Elements of the arrays whose values are computed."""
SWEPT: Final = 64 << 20
"""Bytes of an array that is moved as a whole."""
PAGE: Final = 64 << 10
"""Bytes that one fault brings at least: a page of the host, with those around it (`nvidia-uvm`)."""
P: Final = std.par_unseq


@kernel
def increment(a: Any) -> None:
    for i in range(len(a)):
        a[i] = a[i] + 1.0


@kernel
def add_to(a: Any, b: Any) -> None:
    for i in range(len(a)):
        b[i] = a[i] + b[i]


@scenario(machine="isambard-a100")
async def memory(run: Run, implementation: Literal["acpp", "host"] = "acpp", system_usm: bool = False) -> Facts:
    """Tell which memory of a program is shared USM, and what its allocation map knows of a pointer into the middle."""
    run.options = std.StdParOptions(implementation=implementation, system_usm=system_usm)
    facts: Facts = {}

    async def body(t: std.HostThread) -> None:
        heap = await t.new_array("heap", N)
        aligned = await t.malloc("aligned", N, align=4096)
        with t.interposition_disabled():
            own = await t.new_array("own", N)
        foreign = await t.foreign_malloc("foreign", N)
        for array in (heap, aligned, own, foreign, t.stack_array("stack", N)):
            facts[array.name] = array.memory
        known = run.program_as(std.StdPar).heap.allocations.find(heap.address + heap.nbytes // 2 + 3)
        facts["interior"] = known is not None and (known.root, known.size) == (heap.address, heap.nbytes)
        facts["first"] = run.program_as(std.StdPar).heap.allocations.find(heap.address) is known is not None
        facts["beyond"] = run.program_as(std.StdPar).heap.allocations.find(heap.address + heap.nbytes) is not None
        facts["of_libc"] = run.program_as(std.StdPar).heap.allocations.find(foreign.address) is not None
        await t.fill(P, heap, 1.0)
        await t.wait()
        facts["prefetches"] = run.program_as(std.StdPar).counts.prefetches
        await t.free(heap)
        facts["freed"] = run.program_as(std.StdPar).heap.allocations.find(heap.address) is not None
        for array in (aligned, own, foreign):
            await t.free(array)

    await run.parallel(body)
    facts["interposed"] = run.program_as(std.StdPar).counts.interposed
    await run.finish()
    facts["late"] = (await run.program_as(std.StdPar).host_thread().new_array("late", N)).memory
    return facts


@scenario(machine="isambard-a100")
async def frees(run: Run, implementation: Literal["acpp", "rocstdpar"] = "acpp") -> Facts:
    """Free both kinds of memory in translation units of another compiler, and in the program's own."""
    run.options = std.StdParOptions(implementation=implementation)
    facts: Facts = {"failed": None}

    async def body(t: std.HostThread) -> None:
        ours, theirs = await t.new_array("ours", N), await t.foreign_malloc("theirs", N)
        again = await t.foreign_malloc("again", N)
        await t.foreign_free(again)
        await t.free(theirs)
        try:
            await t.foreign_free(ours)
        except std.ForeignFree as error:
            facts["failed"] = error.array
        facts["freed"] = sum(array.freed for array in (ours, theirs, again))

    await run.parallel(body)
    facts["left"] = len(run.program_as(std.StdPar).heap.allocations)
    return facts


@scenario(machine="isambard-a100")
async def host_pointer(
    run: Run,
    implementation: Literal["acpp", "nvcpp", "rocstdpar", "icpx"] = "acpp",
    memory: Literal["stack", "foreign", "heap"] = "stack",
    system_usm: bool = False,
) -> Facts:
    """Run algorithms on an array of the heap, and one that also takes another array."""
    run.options = std.StdParOptions(implementation=implementation, system_usm=system_usm)
    facts: Facts = {"ended": "well"}

    async def body(t: std.HostThread) -> None:
        a = await t.new_array("a", N, fill=1.0)
        if memory == "stack":
            b = t.stack_array("b", N)
        else:
            b = await (t.foreign_malloc if memory == "foreign" else t.new_array)("b", N)
        await t.for_each(P, increment, a)
        counts = run.program_as(std.StdPar).counts
        before = counts.offloaded, counts.on_host, counts.waits
        try:
            await t.for_each(P, add_to, a, b)
        except (std.HostPointerInKernel, std.CompilationRefused) as error:
            facts["ended"] = type(error).__name__
            await t.wait()
            return
        facts["offloaded"] = counts.offloaded - before[0]
        facts["on_host"] = counts.on_host - before[1]
        facts["waits"] = counts.waits - before[2]
        facts["right"] = bool((await t.read(b) == 2.0).all())

    await run.parallel(body)
    facts["host_pointers"] = run.program_as(std.StdPar).counts.host_pointers
    return facts


@scenario(machine="isambard-a100")
async def churn(run: Run, pool: bool = True) -> Facts:
    """Allocate an array in a loop, have a kernel fill it, and free it."""
    run.options = std.StdParOptions(implementation=attrs.evolve(std.implementation("acpp"), pool=pool), phantom=True)

    async def body(t: std.HostThread) -> tuple[float, float]:
        first = spent = 0.0
        for number in range(ROUNDS + 1):
            begin = t.sim.now
            a = await t.new_array("a", N)
            took = t.sim.now - begin
            first, spent = (took, spent) if number == 0 else (first, spent + took)
            await t.fill(P, a, 1.0)
            await t.delete(a)
        return first, spent / ROUNDS

    ((first, each),) = await run.parallel(body)
    counts = run.program_as(std.StdPar).counts
    return {
        "first_s": first,
        "each_s": each,
        "driver": run.calls.table()["cuMemAllocManaged"].count,
        "from_pool": counts.from_pool,
    }


@scenario(machine="isambard-a100")
async def one_transfer(
    run: Run,
    prefetch: Literal["first", "never"] = "never",
    nbytes: Annotated[int, Range(4096, 1 << 30)] = SWEPT,
) -> Facts:
    """Measure how long the data of an array takes to come to a kernel, on demand or prefetched."""
    chosen = attrs.evolve(std.implementation("acpp"), prefetch=std.PrefetchMode(prefetch))
    run.options = std.StdParOptions(implementation=chosen, phantom=True)

    async def body(t: std.HostThread) -> tuple[float, float]:
        a = await t.new_array("a", nbytes // 8, fill=1.0)
        times = []
        for _ in range(2):
            begin = t.sim.now
            await t.for_each(P, increment, a)
            await t.wait()
            times.append(t.sim.now - begin)
        return times[0], times[1]

    ((cold, warm),) = await run.parallel(body)
    return {"moving_s": cold - warm, "faults": int(run.statistics.faults["gpu_page_fault"])}
