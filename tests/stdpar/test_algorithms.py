"""Algorithms compute what NumPy computes, wherever they run; what implementations do with pointers and barriers."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from stdpar_rig import MACHINES, alone, dot, largest, made, negative, play, ramp, scale, triad

from offloadrt import stdpar as std
from offloadrt.extensions.stdpar.elision import ElisionPass, Marker
from offloadrt.kernels import Kernel

N = 3000
POLICIES = (std.seq, std.par, std.par_unseq)


async def everything(t: std.HostThread) -> dict[str, Any]:
    """Each algorithm once, on data that the host has written."""
    p = std.par_unseq
    a, b, c = [await t.new_array(name, N) for name in "abc"]
    await t.write(b, ramp(N, -2.0))
    await t.fill(p, c, 3.0)
    await t.fill_n(p, c, 10, 7.0)
    await t.transform(p, triad, a, b, c, 0.5)
    await t.for_each_n(p, 20, scale, a, 2.0)
    found: dict[str, Any] = {
        "dot": await t.transform_reduce(p, dot, a, b, init=1.0),
        "largest": await t.transform_reduce(p, largest, a, init=-1e9),
        "sum": await t.reduce(p, b),
        "least": await t.reduce(p, b, np.inf, "minimum"),
        "any": await t.any_of(p, negative, b),
        "all": await t.all_of(p, negative, b),
        "none": await t.none_of(p, negative, c),
    }
    await t.copy(p, a, c)
    found["c"] = np.array(await t.read(c))
    for array in (a, b, c):
        await t.delete(array)
    return found


def test_all_of_counts_the_elements_of_an_array_wherever_its_pointer_is() -> None:
    async def body(t: std.HostThread) -> list[bool | None]:
        a = await t.new_array("a", N)
        found = []
        for value in (-1.0, 1.0):
            await t.fill(std.par_unseq, a, value)
            found.append(await t.all_of(std.par_unseq, negative, std.indirect(a)))
        with pytest.raises(ValueError, match=r"all_of\(negative\): none of the arguments is an array"):
            await t.all_of(std.par_unseq, negative, 3)
        return found

    assert alone(body)[1] == [True, False]


def expected() -> dict[str, Any]:
    b, c = ramp(N, -2.0), np.full(N, 3.0)
    c[:10] = 7.0
    a = b + 0.5 * c
    a[:20] *= 2.0
    return {
        "dot": 1.0 + a @ b, "largest": a.max(), "sum": b.sum(), "least": b.min(), "any": True, "all": False,
        "none": True, "c": a,
    }  # fmt: skip


def same(found: dict[str, Any]) -> bool:
    return all(np.allclose(found[name], value, rtol=1e-12, atol=0.0) for name, value in expected().items())


@pytest.mark.parametrize("implementation", std.IMPLEMENTATIONS)
@pytest.mark.parametrize("machine", MACHINES)
def test_results_are_numpys_on_every_machine_under_every_implementation(machine: str, implementation: str) -> None:
    run, found = alone(everything, machine=machine, implementation=implementation)
    assert same(found)
    assert run.statistics.algorithms["calls"] == 12
    assert len(run.stdpar.heap.allocations) == 0


@pytest.mark.parametrize("mode", std.PrefetchMode)
@pytest.mark.parametrize("elision", [False, True])
@pytest.mark.parametrize("pool_gb", [0.0, 1.0])
def test_results_do_not_depend_on_modes(mode: std.PrefetchMode, elision: bool, pool_gb: float) -> None:
    variant = attrs.evolve(std.implementation("acpp"), prefetch=mode, elision=elision)
    assert same(alone(everything, implementation=variant, pool_gb=pool_gb)[1])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("threads", [1, 3])
def test_both_gears_give_one_history(machine: str, threads: int) -> None:
    hashes = []
    for gear in ("native", "turbo"):
        run = made(machine, gear=gear, record=True)
        assert all(same(found) for found in play(run, everything, threads))
        assert run.trace is not None
        hashes.append(run.trace.hash())
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("machine", ["isambard-a100", "isambard-mi100"])
def test_which_policies_are_offloaded(machine: str, policy: std.ExecutionPolicy) -> None:
    async def body(t: std.HostThread) -> Any:
        a = await t.new_array("a", N)
        await t.fill(policy, a, 4.0)
        return (await t.read(a)).sum()

    run, total = alone(body, machine=machine)
    assert total == 4.0 * N
    progress = machine == "isambard-a100"
    offloaded = policy is std.par_unseq or (policy is std.par and progress)
    assert run.stdpar.counts.offloaded == offloaded
    assert run.stdpar.counts.on_host == (not offloaded)


# pointers of the host


async def with_stack(t: std.HostThread) -> Any:
    a = await t.new_array("a", N)
    weights = t.stack_array("weights", N, fill=2.0)
    await t.fill(std.par_unseq, a, 1.0)
    await t.transform(std.par_unseq, triad, a, a, weights, 3.0)
    return (await t.read(a)).copy()


def test_a_pointer_of_the_host_brings_the_algorithm_there_after_a_barrier() -> None:
    run, values = alone(with_stack)
    counts = run.stdpar.counts
    assert np.all(values == 7.0)
    assert (counts.offloaded, counts.on_host, counts.host_pointers, counts.waits) == (1, 1, 1, 1)


@pytest.mark.parametrize("implementation", ["nvcpp", "rocstdpar"])
def test_implementations_that_do_not_look_crash_at_a_pointer_of_the_host(implementation: str) -> None:
    with pytest.raises(std.HostPointerInKernel, match=r"'triad' uses 'weights'.*host thread 0.* s\)"):
        alone(with_stack, implementation=implementation)


def test_icpx_does_not_compile_a_pointer_of_the_host() -> None:
    run = made(implementation="icpx")
    with pytest.raises(
        std.CompilationRefused, match=r"test_algorithms\.py:\d+: icpx does not compile transform: weights"
    ):
        play(run, with_stack)
    assert run.sim.now == 0.0 and run.statistics.algorithms["calls"] == 0


def test_what_the_source_does_not_tell_is_refused_at_the_call() -> None:
    async def body(t: std.HostThread) -> None:
        a, given = await t.new_array("a", N), {"weights": t.stack_array("weights", N)}
        await t.transform(std.par_unseq, triad, a, a, given["weights"], 3.0)

    with pytest.raises(std.CompilationRefused, match=r"transform\(triad\): 'weights' is memory of the host \(stack\)"):
        alone(body, implementation="icpx")


def test_a_pointer_behind_a_pointer_is_not_seen() -> None:
    async def body(t: std.HostThread) -> Any:
        a, b = await t.new_array("a", N), await t.new_array("b", N, fill=2.0)
        await t.transform(std.par_unseq, triad, a, std.indirect(b), std.indirect(b), 1.0)
        return (await t.read(a)).sum()

    run, total = alone(body)
    assert total == 4.0 * N
    assert run.stdpar.counts.prefetches == 1


# barriers


async def many(t: std.HostThread, times: int = 5) -> None:
    a, b, c = [await t.new_array(name, N) for name in "abc"]
    for _ in range(times):
        await t.transform(std.par_unseq, triad, a, b, c, 0.5)
        await t.copy(std.par_unseq, a, c)


def test_two_algorithms_in_a_loop_are_waited_for_once() -> None:
    run, _ = alone(many)
    assert (run.stdpar.counts.waits, run.stdpar.elided) == (1, 9)
    assert "test_algorithms.py" in run.stdpar.elision_table() and "the function ends" in run.stdpar.elision_table()


def test_without_elision_each_is_waited_for() -> None:
    run, _ = alone(many, implementation="nvcpp")
    assert (run.statistics.algorithms["waits"], run.statistics.algorithms["elided"]) == (10, 0)


@pytest.mark.parametrize("stop", ["read", "external", "malloc", "reduce", "stack"])
def test_what_ends_a_window(stop: str) -> None:
    async def body(t: std.HostThread) -> int:
        a = await t.new_array("a", N)
        local = t.stack_array("local", 1, fill=0.0)
        await t.fill(std.par_unseq, a, 1.0)
        if stop == "read":
            await t.read(a)
        elif stop == "external":
            await t.external("MPI_Barrier")
        elif stop == "malloc":
            await t.new_array("b", 8)
        elif stop == "reduce":
            await t.reduce(std.par_unseq, a)
        else:
            await t.read(local)
        return t.program.counts.waits

    assert alone(body)[1] == (0 if stop == "stack" else 1)


class Careless(std.Window):
    """A compiler pass with a bug: it delays barriers past loads of the host."""

    def meets(self, operation: std.Operation) -> Any:
        return () if operation.marker is Marker.HOST_ACCESS else super().meets(operation)


def test_a_wrongly_elided_barrier_is_caught() -> None:
    async def body(t: std.HostThread) -> Any:
        a = await t.new_array("a", 1 << 20)
        await t.fill(std.par_unseq, a, 1.0)
        return await t.read(a)

    run = made()
    run.stdpar.runtime.make_window = Careless
    with pytest.raises(std.UnfinishedRead, match=r"reads array 'a', which 'fill' writes; that has not finished"):
        play(run, body)


def test_a_read_without_a_barrier_is_caught_even_if_the_kernel_has_ended() -> None:
    async def body(t: std.HostThread) -> Any:
        a = await t.new_array("a", 8)
        await t.fill(std.par_unseq, a, 1.0)
        await t.compute(1.0)
        return a[0]

    with pytest.raises(std.UnfinishedRead, match="has ended, but nobody has waited for it"):
        alone(body)


def test_the_host_may_read_what_kernels_only_read() -> None:
    async def body(t: std.HostThread) -> Any:
        a, b = await t.new_array("a", N), await t.new_array("b", N, fill=2.0)
        await t.copy(std.par_unseq, b, a)
        first = b[0]
        with pytest.raises(std.UnfinishedRead, match=r"writes array 'b', which 'copy' reads"):
            b[0] = 5.0
        return first

    assert alone(body)[1] == 2.0


# the heuristic


SLOW = Kernel("slow on the device", None, flops_per_iteration=1.0, bytes_per_iteration=8.0)


def sampled(database: std.HeuristicDatabase, sampling: std.Sampling, calls: int, **rules: Any) -> Any:
    async def body(t: std.HostThread) -> None:
        a = await t.new_array("a", 64, phantom=True)
        for _ in range(calls):
            await t.for_each(std.par_unseq, SLOW, a)
            await t.wait()

    run = made(heuristic=std.HeuristicRules(sampling=sampling, **rules))
    run.stdpar.runtime.database = database
    play(run, body)
    return run.stdpar


def test_the_heuristic_offloads_until_it_knows_the_host() -> None:
    database = std.HeuristicDatabase()
    assert sampled(database, std.Sampling.OFFLOAD, 4).counts.on_host == 0
    assert sampled(database, std.Sampling.NONE, 4).counts.on_host == 0
    assert sampled(database, std.Sampling.HOST, 4).counts.offloaded == 0
    offload, host = (
        database.estimate(std.OperationId(f"for_each({SLOW.name})", 64), place)
        for place in (std.Place.OFFLOAD, std.Place.HOST)
    )
    assert offload is not None and host is not None
    decided = sampled(database, std.Sampling.NONE, 4)
    assert (decided.counts.on_host > 0) == (host < offload)
    assert decided.runtime.heuristics[0].decisions[0].why is std.Why.FASTER


def test_runtimes_are_kept_in_a_file(tmp_path: Any) -> None:
    async def body(t: std.HostThread) -> None:
        a = await t.new_array("a", 64)
        for _ in range(3):
            await t.fill(std.par_unseq, a, 1.0)
            await t.wait()

    file = tmp_path / "database.json"
    alone(body, heuristic_file=file)
    samples = std.HeuristicDatabase.read(file).samples("fill(fill)")
    assert [(one.place, one.size, one.measurements) for one in samples] == [(std.Place.OFFLOAD, 64, 2)]


# the compile-time pass and the run


async def a_host_function(t: std.HostThread) -> Any:
    """Of everything that a barrier may meet something."""
    a, b = await t.new_array("a", N), await t.new_array("b", N)
    local = t.stack_array("local", 4)
    for number in range(6):
        await t.fill(std.par_unseq, a, 1.0)
        await t.copy(std.par_unseq, a, b)
        await t.read(local)
        await t.for_each_n(std.par_unseq, N, scale, b, 2.0)
        if number == 3:
            await t.external("MPI_Barrier")
        if number == 4:
            temporary = await t.new_array("temporary", N)
            await t.transform(std.par_unseq, triad, temporary, a, b, 1.0)
            await t.delete(temporary)
        if await t.reduce(std.par_unseq, b) < 0.0:
            await t.fill(std.par_unseq, b, 0.0)
    await t.fill(std.par_unseq, a, 2.0)
    await t.fill(std.seq, local, 0.0)
    await t.fill(std.par_unseq, a, 3.0)
    return (await t.read(a))[0]


def test_the_run_decides_at_each_call_as_the_pass_does_for_its_place() -> None:
    run, first = alone(a_host_function)
    assert first == 3.0
    static = {call.algorithm.line: call for call in ElisionPass.of(a_host_function).calls}
    assert run.statistics.algorithms["elided"] > 0
    for decision in run.stdpar.decisions:
        call = static[decision.algorithm.line]
        if isinstance(decision, std.Elided):
            assert decision.by.line in {by.line for by in call.followed_by}
        else:
            assert decision.reason in {kept.reason for kept in call.stops}
    kept = sum(times for one, times in run.stdpar.decisions.items() if isinstance(one, std.Kept))
    assert run.statistics.algorithms["waits"] == kept
    assert kept + run.statistics.algorithms["elided"] == run.statistics.algorithms["offloaded"]


@pytest.mark.parametrize(("n", "kernels"), [(100, 1), (N, 2)])
def test_a_reduction_of_several_groups_takes_a_second_kernel(n: int, kernels: int) -> None:
    async def body(t: std.HostThread) -> Any:
        a = await t.new_array("a", n, fill=0.5)
        return await t.reduce(std.par_unseq, a)

    run, total = alone(body)
    assert total == 0.5 * n
    assert run.calls.count("cuLaunchKernel") == kernels
    assert run.statistics.algorithms["offloaded"] == run.statistics.algorithms["waits"] == 1


def test_what_returns_something_has_an_initial_value() -> None:
    async def reduces(t: std.HostThread) -> None:
        await t.reduce(std.par_unseq, await t.new_array("a", 8), None)

    async def transforms(t: std.HostThread) -> None:
        a = await t.new_array("a", 8)
        await t.transform_reduce(std.par_unseq, dot, a, a, init=None)

    for body, call in ((reduces, r"reduce\(reduce\)"), (transforms, r"transform_reduce\(dot\)")):
        with pytest.raises(ValueError, match=f"{call}: init is None"):
            alone(body)


async def reductions(t: std.HostThread) -> Any:
    a = await t.new_array("a", N)
    await t.fill(std.par_unseq, a, 2.0)
    await t.fill(std.par_unseq, a, 1.0)
    return [await t.reduce(std.par_unseq, a, float(init)) for init in range(4)]


@pytest.mark.parametrize(
    ("machine", "implementation", "allocate_copy_free", "calls"),
    [
        ("isambard-a100", "nvcpp", ("MemAlloc", "MemcpyDtoHAsync", "MemFree"), 4),
        ("isambard-a100", "acpp", ("MemAlloc", "MemcpyDtoHAsync", "MemFree"), 0),
        ("isambard-mi100", "rocstdpar", ("Malloc", "MemcpyDtoHAsync", "Free"), 4),
        ("isambard-mi100", "acpp", ("Malloc", "MemcpyDtoHAsync", "Free"), 0),
        ("idc-max1550", "icpx", ("MemAlloc", "MemcpyDtoHAsync", "MemFree"), 0),
    ],
)
def test_thrust_allocates_copies_and_frees_for_each_value_that_it_returns(
    machine: str, implementation: str, allocate_copy_free: tuple[str, ...], calls: int
) -> None:
    run, found = alone(reductions, machine=machine, implementation=implementation)
    counted = {name.removeprefix("cu").removeprefix("hip"): each.count for name, each in run.calls.table().items()}
    made = [counted.get(name, 0) for name in allocate_copy_free]
    assert made == [calls, calls, calls]
    assert found == [N, N + 1, N + 2, N + 3]


def test_the_free_of_one_threads_reduction_waits_for_the_kernels_of_another() -> None:
    """cudaFree waits for the whole device, and a reduction under Thrust ends with one."""
    long = Kernel("long", None, flops_per_iteration=1e7)

    async def reduce_beside(t: std.HostThread) -> float:
        a = await t.new_array("a", N)
        await t.fill(std.par_unseq, a, 1.0)
        if t.number:
            await t.for_each(std.par_unseq, long, a)
            await t.read(a)
        for _ in range(0 if t.number else 50):
            await t.reduce(std.par_unseq, a)
        return run.sim.now

    ends = {}
    for temporaries in std.Temporaries:
        run = made(implementation=attrs.evolve(std.IMPLEMENTATIONS["nvcpp"], temporaries=temporaries))
        ends[temporaries] = play(run, reduce_beside, threads=2)
    reducing, computing = ends[std.Temporaries.ALLOCATED]
    assert reducing > 0.9 * computing
    reducing, computing = ends[std.Temporaries.KEPT]
    assert reducing < 0.5 * computing


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda t, a, s: t.for_each(std.par, scale, np.zeros(4), 2.0),
            "kernel 'scale': argument '.' is a NumPy",
        ),
        (lambda t, a, s: t.for_each(std.par, slice(3), a), "slice is no kernel: decorate its function with @kernel"),
        (lambda t, a, s: t.reduce(std.par, a, init=[]), r"reduce: init \[\] is no value of type float64"),
        (lambda t, a, s: t.reduce(std.par, s), "reduce: its arrays have elements with which it cannot be done: "),
        (lambda t, a, s: t.write(a, [1.0, 2.0]), "array 'a': could not broadcast input array from shape"),
    ],
)
def test_what_an_algorithm_cannot_take_is_told_by_its_name(wrong: Any, message: str) -> None:
    async def body(t: std.HostThread) -> None:
        a, s = await t.new_array("a", N), await t.new_array("s", 8, "S3")
        with pytest.raises((TypeError, ValueError), match=f"^{message}"):
            await wrong(t, a, s)

    alone(body)
