"""Small runs that show what AdaptiveCpp's stdpar does with a program's memory; they measure facts.

`implementation` is one of C++ standard parallelism; `system_usm` is whether the device can use all host memory.
"""

from __future__ import annotations

import itertools
from typing import Annotated, Any, Final, Literal

import attrs

from offloadrt.extensions import stdpar as std
from offloadrt.extensions.evidence.validation.judging import Facts, kernels
from offloadrt.extensions.stdpar.heuristic import OperationId, Place
from offloadrt.kernels import kernel
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.definition import scenario
from offloadrt.study.scripts.parameters import Range

ROUNDS: Final = 10
"""The number of allocations in a loop."""
N: Final = 1 << 16
"""The number of elements of arrays whose values are computed."""
SWEPT: Final = 64 << 20
"""Bytes of an array that is transferred as a whole."""
PAGE: Final = 64 << 10
"""Bytes that one fault migrates at least: a page of the host, with those around it (`nvidia-uvm`)."""
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
    """Tell which memory of a program is shared USM, and whether its allocation map finds an address amid an allocation.

    implementation: AdaptiveCpp, or the host alone, without a device. system_usm: whether AdaptiveCpp may use all of the
    host's memory on the device. Returns the memory of each array by name, and what the map finds, by question.
    """
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
    """Free heap memory and shared USM, in code of another compiler and in the program's; tell which free fails."""
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
    """Run an algorithm on a heap array, then one that also takes a second array; count where they run.

    memory: where the second array lies: on a stack, on the heap, or in memory that code of another compiler allocated.
    """
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
    """Allocate an array, have a kernel fill it, and free it, many times; return the time of an allocation.

    The first allocation is timed apart from the others. Counted are the driver's allocations, and those from the memory
    pool. pool: whether the implementation has a memory pool.
    """
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
    """Measure how long it takes until a kernel has an array of `nbytes` bytes, on demand or prefetched."""
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


FEW: Final = 1 << 14
"""The number of elements of arrays whose kernels leave space on the device for the teams of other kernels."""
LARGE: Final = 1 << 23
"""The number of elements of the array about which the offload heuristic decides."""
Body = Literal["inside", "external", "access", "stack", "allocation", "sum"]


@kernel(flops_per_iteration=1e4, bytes_per_iteration=16)
def increment_slowly(a: Any) -> None:
    a += 1.0


@kernel
def double(a: Any) -> None:
    for i in range(len(a)):
        a[i] = a[i] * 2.0


@kernel
def total(a: Any, s: Any) -> None:
    found = s[0]
    for i in range(len(a)):
        found += a[i]
    s[0] = found


@scenario(machine="isambard-a100")
async def order(run: Run, threads: Annotated[int, Range(1, 8)] = 2) -> Facts:
    """Submit algorithms from `threads` threads, each on another array; count the kernels that overlap in time."""
    run.options = std.StdParOptions()

    async def body(t: std.HostThread) -> bool:
        a, b = await t.new_array("a", FEW), await t.new_array("b", FEW)
        await t.fill(P, a, 1.0)
        for _ in range(ROUNDS // 2):
            await t.for_each(P, increment_slowly, a)
            await t.copy(P, a, b)
        return bool((await t.read(b) == 1.0 + ROUNDS // 2).all())

    right = await run.parallel(body, threads)
    spans = kernels(run)
    overlaps = {True: 0, False: 0}
    for earlier, later in itertools.combinations(spans, 2):
        if later.begin < earlier.end:
            overlaps[later.first.queue == earlier.first.queue] += 1
    return {
        "right": all(right),
        "kernels": len(spans),
        "queues": len({span.first.queue for span in spans}),
        "overlaps_within": overlaps[True],
        "overlaps_between": overlaps[False],
    }


@scenario(machine="isambard-a100")
async def loop(run: Run, body: Body = "inside", elision: bool = True) -> Facts:
    """Run the paper's example: a loop of two algorithms, with something between its iterations.

    body: inside: nothing; external: a call of another translation unit; access: the host reads the array; stack: it
    writes an array of its stack; allocation: it allocates; sum: the second algorithm returns a sum.
    """
    run.options = std.StdParOptions(implementation=attrs.evolve(std.implementation("acpp"), elision=elision))
    counts: dict[str, int] = {}

    async def program(t: std.HostThread) -> bool:
        a, b = await t.new_array("a", N), await t.new_array("b", N)
        local = t.stack_array("local", 8)
        async with t.function():
            for _ in range(ROUNDS):
                await t.for_each(P, increment, a)
                if body == "sum":
                    await t.transform_reduce(P, total, a)
                else:
                    await t.copy(P, a, b)
                if body == "external":
                    await t.external("report")
                elif body == "access":
                    await t.read(std.section(b, 0, 1))
                elif body == "stack":
                    await t.write(local, 1.0)
                elif body == "allocation":
                    await t.delete(await t.new_array("scratch", 8))
        made = run.program_as(std.StdPar).counts
        counts.update(calls=made.calls, waits=made.waits, elided=run.program_as(std.StdPar).elided)
        return bool((await t.read(a) == ROUNDS).all())

    (right,) = await run.parallel(program)
    return {**counts, "right": right}


@scenario(machine="isambard-a100")
async def prefetches(
    run: Run,
    mode: Literal["never", "first", "always", "after-sync"] = "first",
    always: Literal["once_per_batch", "every"] = "once_per_batch",
) -> Facts:
    """Run five algorithms in three batches; count the arrays that are prefetched for each algorithm.

    A batch ends where the host waits: fill a, copy a to b | copy a to b, copy b to a | a is freed and allocated again,
    fill a. mode: which uses of an array are prefetched. always: whether `always` means once per batch or every use.
    """
    chosen = attrs.evolve(std.implementation("acpp"), prefetch=std.PrefetchMode(mode), always=std.AlwaysReading(always))
    run.options = std.StdParOptions(implementation=chosen, phantom=True)
    bytes_before: list[int] = []
    calls_before: list[int] = []

    def note() -> None:
        bytes_before.append(run.program_as(std.StdPar).counts.prefetched_bytes)
        calls_before.append(run.program_as(std.StdPar).counts.prefetches)

    async def body(t: std.HostThread) -> None:
        a, b = await t.new_array("a", N), await t.new_array("b", N)
        note()
        await t.fill(P, a, 1.0)
        note()
        await t.copy(P, a, b)
        note()
        await t.wait()
        await t.copy(P, a, b)
        note()
        await t.copy(P, b, a)
        note()
        await t.wait()
        await t.free(a)
        a = await t.new_array("a", N)
        await t.fill(P, a, 1.0)
        note()

    await run.parallel(body)
    each = [after - before for before, after in itertools.pairwise(calls_before)]
    return {
        "each": " ".join(map(str, each)),
        "total": sum(each),
        "whole": bytes_before[-1] == sum(each) * N * 8,
    }


@scenario(machine="isambard-a100")
async def sampled(
    run: Run, host: bool = True, offload: bool = True, prefetch: Literal["first", "never"] = "first"
) -> Facts:
    """Run a program after earlier runs have measured its algorithms on the host, the device, both or neither.

    host, offload: where earlier runs measured them. prefetch: when arrays are prefetched. The facts tell where the
    algorithms then run, why, and from which measured times that is decided.
    """
    run.options = std.StdParOptions(
        implementation=attrs.evolve(std.implementation("acpp"), prefetch=std.PrefetchMode(prefetch)),
        heuristic=std.HeuristicRules(sampling=std.Sampling.HOST if host else std.Sampling.OFFLOAD),
        phantom=True,
    )

    async def body(t: std.HostThread) -> None:
        a = await t.new_array("a", LARGE)
        async with t.function():
            for _ in range(ROUNDS):
                await t.for_each(P, increment, a)
        await t.delete(a)

    if host or offload:
        await run.parallel(body)
    program = run.program_as(std.StdPar)
    if host and offload:
        program.runtime.rules = std.HeuristicRules(sampling=std.Sampling.OFFLOAD)
        await run.parallel(body)
    program.runtime.rules = std.HeuristicRules()
    before = attrs.evolve(program.counts)
    await run.parallel(body)
    after, decision = program.counts, program.runtime.heuristics[-1].decisions[0]
    samples = {
        sample.place: sample.seconds for sample in program.runtime.database.samples(f"for_each({increment.name})")
    }
    return {
        "offloaded": after.offloaded - before.offloaded,
        "on_host": after.on_host - before.on_host,
        "why": decision.why.value,
        "host_s": samples.get(Place.HOST),
        "offload_s": samples.get(Place.OFFLOAD),
    }


@scenario(machine="isambard-a100")
async def transfer(
    run: Run,
    host_s: Annotated[float, Range(0.0, 10.0)] = 1.0,
    offload_s: Annotated[float, Range(0.0, 10.0)] = 1.0,
) -> Facts:
    """Decide where three operations run: one unknown, one faster on the host, and a third.

    The third is known to take `host_s` on the host and `offload_s` on the device, transfer of its data not included.
    """
    run.options = std.StdParOptions(heuristic=std.HeuristicRules(min_operations=1, min_time_s=0.0), phantom=True)
    names = {operation: f"for_each({operation.name})" for operation in (increment, double)}
    times = {(increment, Place.HOST): 1e-6, (increment, Place.OFFLOAD): 1.0}
    times |= {(double, Place.HOST): host_s, (double, Place.OFFLOAD): offload_s}
    for (operation, place), taken in times.items():
        for _ in range(3):
            run.program_as(std.StdPar).runtime.database.add(OperationId(names[operation], LARGE), place, taken)

    async def body(t: std.HostThread) -> None:
        a = await t.new_array("a", LARGE)
        async with t.function():
            await t.fill(P, a, 1.0)
            await t.wait()
            await t.for_each(P, increment, a)
            await t.for_each(P, double, a)

    await run.parallel(body)
    decisions = run.program_as(std.StdPar).runtime.heuristics[0].decisions
    last = decisions[-1]
    return {
        "stayed": not decisions[-2].offload,
        "offload": last.offload,
        "said_host_s": last.host_s,
        "said_offload_s": last.offload_s,
        "transfer_s": LARGE * 8 / run.program_as(std.StdPar).runtime.rules.transfer_bytes_per_s,
        "why": last.why.value,
    }
