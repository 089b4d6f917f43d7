"""The program's heap and USM: what is shared memory, what the pool serves, what migrates, and who may free what."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from stdpar_rig import WITH_DEVICE, alone, made, play, scale, triad

from offloadrt import stdpar as std
from offloadrt.driver import DriverError
from offloadrt.kernels import Kernel
from offloadrt.runtime.errors import FreedHostMemory
from offloadrt.study.errors import UserError

N = 1 << 18
MIB = 1 << 20


async def kinds(t: std.HostThread) -> list[str]:
    with t.interposition_disabled():
        own = await t.new_array("runtime's own", 8)
    arrays = [
        await t.new_array("heap", 8), t.stack_array("stack", 8), await t.foreign_malloc("foreign", 8), own,
        await t.malloc("aligned", 8, align=4096),
    ]  # fmt: skip
    return [array.memory for array in arrays]


def test_heap_allocations_are_shared_memory_and_nothing_else_is() -> None:
    run, found = alone(kinds)
    assert found == ["shared", "stack", "heap", "heap", "shared"]
    assert (run.stdpar.counts.interposed, run.stdpar.counts.from_pool) == (2, 1)


@pytest.mark.parametrize("implementation", ["host", "acpp"])
def test_without_a_device_the_heap_is_the_hosts(implementation: str) -> None:
    assert "shared" not in alone(kinds, machine="isambard-milan", implementation=implementation)[1]


def test_the_runtime_that_is_down_gives_none() -> None:
    run = made()

    async def late() -> str:
        await run.parallel(kinds)
        await run.finish()
        return (await run.stdpar.host_thread().new_array("late", 8)).memory

    assert run.sim.run(late) == "heap"


async def much_allocation(t: std.HostThread, times: int = 20) -> None:
    for _ in range(times):
        a = await t.new_array("a", N)
        await t.fill(std.par_unseq, a, 1.0)
        await t.delete(a)


def test_the_pool_is_one_allocation_of_the_driver_and_keeps_its_pages_on_the_device() -> None:
    with_pool, _ = alone(much_allocation)
    without, _ = alone(much_allocation, pool_gb=0.0)
    calls = [run.calls.table() for run in (with_pool, without)]
    assert calls[0]["cuMemAllocManaged"].count == 1
    assert calls[1]["cuMemAllocManaged"].count == calls[1]["cuMemFree"].count == 20
    assert with_pool.sim.now < without.sim.now


def test_memory_beyond_half_of_the_pool_comes_from_the_driver() -> None:
    async def body(t: std.HostThread) -> None:
        for mib in (100, 512, 513):
            await t.delete(await t.new_array("a", mib * MIB // 8, phantom=True))

    run, _ = alone(body, pool_gb=1.0)
    assert run.stdpar.counts.from_pool == 1
    assert run.calls.table()["cuMemAllocManaged"].count == 3  # the pool itself, and two


def test_either_kind_is_freed_by_any_translation_unit() -> None:
    async def body(t: std.HostThread) -> tuple[bool, bool]:
        ours, theirs = await t.new_array("ours", N), await t.foreign_malloc("theirs", N)
        await t.foreign_free(ours)
        await t.free(theirs)
        return ours.freed, theirs.freed

    run, freed = alone(body)
    assert freed == (True, True)
    assert len(run.stdpar.heap.allocations) == 0
    with pytest.raises(std.ForeignFree, match="'ours'"):
        alone(body, implementation="rocstdpar")


def test_what_was_freed_is_not_freed_again() -> None:
    async def body(t: std.HostThread) -> None:
        a = await t.new_array("a", N)
        await t.free(a)
        await t.free(a)

    with pytest.raises(std.InvalidFree, match=r"'a'.*host thread 0"):
        alone(body)


def test_pages_go_to_whoever_touches_them() -> None:
    async def body(t: std.HostThread) -> None:
        a = await t.new_array("a", N, fill=1.0)
        for _ in range(3):
            await t.fill(std.par_unseq, a, 2.0)
            await t.read(a)

    never = attrs.evolve(std.implementation("acpp"), prefetch=std.PrefetchMode.NEVER)
    run, _ = alone(body, implementation=never)
    assert run.statistics.faults["bytes_transfer_htod"] == run.statistics.faults["bytes_transfer_dtoh"] == 3 * N * 8
    assert run.statistics.faults["gpu_page_fault"] > 0


def test_a_prefetched_array_causes_no_fault_and_a_migration_takes_less() -> None:
    async def body(t: std.HostThread) -> float:
        a, b, c = [await t.new_array(name, N * 16, fill=1.0, phantom=True) for name in "abc"]
        begin = t.sim.now
        await t.transform(std.par_unseq, triad, a, b, c, 1.0)
        await t.wait()
        return t.sim.now - begin

    seconds = {}
    for mode in (std.PrefetchMode.NEVER, std.PrefetchMode.FIRST):
        variant = attrs.evolve(std.implementation("acpp"), prefetch=mode)
        run, seconds[mode] = alone(body, implementation=variant)
        assert (run.stdpar.counts.prefetches == 3) == (mode is std.PrefetchMode.FIRST)
    assert seconds[std.PrefetchMode.FIRST] < seconds[std.PrefetchMode.NEVER]


# SYCL's allocations


async def through_device_memory(t: std.HostThread) -> Any:
    queue = t.queue()
    host = await t.foreign_malloc("host", N)
    await t.write(host, np.arange(N, dtype=np.float64))
    a, b = await queue.malloc_device("a", N), await queue.malloc_device("b", N)
    await queue.memcpy(a, host)
    await queue.memcpy(b, a)
    await queue.submit(triad, a, b, b, 2.0)
    await queue.memcpy(host, a)
    await queue.wait()
    found = np.array(await t.read(host))
    for array in (a, b):
        await queue.free(array)
    await queue.close()
    return found


@pytest.mark.parametrize("machine", WITH_DEVICE)
def test_device_memory_has_bytes_of_its_own(machine: str) -> None:
    run, found = alone(through_device_memory, machine=machine)
    assert np.array_equal(found, 3.0 * np.arange(N))
    assert run.device().memory.allocated_bytes == 0


def test_the_host_cannot_use_it() -> None:
    async def body(t: std.HostThread) -> Any:
        return (await t.queue().malloc_device("a", N))[0]

    with pytest.raises(TypeError, match="'a' is device memory"):
        alone(body)


async def over_the_link(t: std.HostThread, kind: str) -> float:
    queue = t.queue()
    allocate = {"host": queue.malloc_host, "shared": queue.malloc_shared, "device": queue.malloc_device}[kind]
    a, b = [await allocate(name, N * 16, phantom=True) for name in "ab"]
    if kind == "shared":
        await queue.prefetch(b)
        await queue.prefetch(a)
    await queue.submit(triad, a, b, b, 2.0)  # with it the queue's stream is made
    await queue.wait()
    begin = t.sim.now
    await queue.submit(triad, a, b, b, 2.0)
    await queue.wait()
    seconds = t.sim.now - begin
    for array in (a, b):
        await queue.free(array)
    await queue.close()
    return seconds


def test_pinned_host_memory_is_reached_over_the_link() -> None:
    seconds = {kind: alone(lambda t, kind=kind: over_the_link(t, kind))[1] for kind in ("host", "shared", "device")}
    run = made()
    read, written = N * 16 * 8, N * 16 * 8
    assert seconds["host"] > max(read, written) / run.spec.value("remote.access_bw")
    assert seconds["device"] == pytest.approx(seconds["shared"], rel=1e-6)
    assert seconds["host"] > 10 * seconds["device"]


def test_memcpy_between_different_sizes_is_refused() -> None:
    async def body(t: std.HostThread) -> None:
        queue = t.queue()
        await queue.memcpy(await queue.malloc_device("a", 8), await queue.malloc_device("b", 9))

    with pytest.raises(ValueError, match=r"memcpy of 72 bytes \('b'\) to 64 \('a'\)"):
        alone(body)


def test_the_native_program_copies_its_data() -> None:
    async def body(t: std.HostThread) -> Any:
        a, b = await t.new_array("a", N), await t.new_array("b", N, fill=2.0)
        await t.transform(std.par_unseq, triad, a, b, b, 1.0)
        await t.write(std.section(a, 0, 4), -1.0)
        return np.array(await t.read(a))

    run = made(implementation="native")
    found = play(run, body)[0]
    assert np.all(found[:4] == -1.0) and np.all(found[4:] == 4.0)
    assert run.device().bytes_moved()["h2d"] == 2 * N * 8
    assert not run.statistics.faults


@pytest.mark.parametrize("call", ["new_array", "foreign_malloc", "free"])
def test_host_memory_of_the_native_program_comes_and_goes_without_a_wait_for_the_device(call: str) -> None:
    async def body(t: std.HostThread) -> bool:
        a, b, c = await t.new_array("a", N), await t.new_array("b", N, fill=2.0), await t.foreign_malloc("c", N)
        await t.transform(std.par_unseq, triad, a, b, b, 1.0)
        await (t.free(c) if call == "free" else getattr(t, call)("d", N))
        assert t.executor.queue is not None
        return bool(t.executor.queue.outstanding)

    assert play(made(implementation="native"), body)[0]
    assert not play(made(implementation="acpp"), body)[0]


# system USM


async def anything(t: std.HostThread) -> Any:
    a, b, c = await t.new_array("a", N), t.stack_array("b", N, fill=2.0), await t.foreign_malloc("c", N)
    await t.write(c, 5.0)
    await t.transform(std.par_unseq, triad, a, b, c, 1.0)
    return (await t.read(a)).sum()


def test_with_system_usm_nothing_is_taken_over_and_everything_runs_on_the_device() -> None:
    run, total = alone(anything, system_usm=True)
    counts = run.stdpar.counts
    assert total == 7.0 * N
    assert (counts.interposed, counts.prefetches, counts.host_pointers, counts.offloaded) == (0, 0, 0, 1)
    assert run.statistics.faults["gpu_page_fault"] > 0 and run.statistics.faults["bytes_transfer_dtoh"] >= N * 8
    assert alone(anything)[0].stdpar.counts.host_pointers == 1


def test_with_system_usm_an_access_of_the_stack_ends_a_window() -> None:
    async def body(t: std.HostThread) -> int:
        a, local = await t.new_array("a", N), t.stack_array("local", 1)
        await t.fill(std.par_unseq, a, 1.0)
        await t.read(local)
        return t.program.counts.waits

    assert (alone(body, system_usm=True)[1], alone(body)[1]) == (1, 0)


def test_a_device_that_cannot_fault_has_none() -> None:
    with pytest.raises(UserError, match=r"system USM on isambard-mi100: its device cannot fault"):
        alone(anything, machine="isambard-mi100", system_usm=True)


@pytest.mark.parametrize("implementation", ["acpp", "native", "host"])
@pytest.mark.parametrize("use", ["algorithm", "read"])
def test_memory_that_was_freed_is_not_used(implementation: str, use: str) -> None:
    async def body(t: std.HostThread) -> None:
        a = await t.new_array("a", N)
        await t.delete(a)
        await (t.read(a) if use == "read" else t.fill(std.par_unseq, a, 1.0))

    with pytest.raises(FreedHostMemory, match=r"array 'a', which has been freed.*thread 'host thread 0'"):
        alone(body, implementation=implementation)


# the pool's mutex


@attrs.frozen
class Pooling:
    """What each of some threads took for its allocations, and what the mutex says."""

    seconds: list[float]
    contended: int
    pools: int


def allocating(threads: int, uncontended: bool = False) -> Pooling:
    """Threads that allocate and free at the same time, in a pool that is there."""
    times = 50

    async def body(t: std.HostThread) -> float:
        await t.delete(await t.new_array("first", 8))
        await t.barrier()
        begin = t.sim.now
        for _ in range(times):
            await t.delete(await t.new_array("a", 8))
        return t.sim.now - begin

    run = made(overrides={"stdpar_pool.uncontended": uncontended})
    seconds = play(run, body, threads)
    lock = run.locks["memory pool"]
    return Pooling(seconds, lock.contended, run.calls.count("cuMemAllocManaged"))


def test_several_threads_make_one_pool_and_queue_at_its_mutex() -> None:
    one, many = allocating(1), allocating(8)
    assert (one.pools, many.pools) == (1, 1)
    assert one.contended == 0 and many.contended > 0
    assert min(many.seconds) > max(one.seconds)
    cost = made().spec.value("stdpar.pool")
    assert max(many.seconds) == pytest.approx(8 * 50 * 2 * cost, rel=0.05)  # it is what all of them wait for


def test_without_the_mutex_each_takes_the_time_of_one() -> None:
    one, many = allocating(1), allocating(8, uncontended=True)
    assert many.seconds == pytest.approx(one.seconds * 8)


@pytest.mark.parametrize(
    ("kind", "call"), [("shared", "cuMemFree"), ("device", "cuMemFree"), ("host", "cuMemFreeHost")]
)
def test_usm_is_not_freed_twice(kind: str, call: str) -> None:
    async def body(t: std.HostThread) -> None:
        queue = t.queue()
        array = await getattr(queue, f"malloc_{kind}")("a", N)
        await queue.free(array)
        await queue.free(array)

    with pytest.raises(DriverError, match=f"{call} failed with CUDA_ERROR_INVALID_VALUE"):
        alone(body)


def test_a_kernel_touches_all_of_an_array_that_took_the_place_of_a_smaller_one() -> None:
    whole = Kernel("whole", None, 1.0, 8.0)

    async def body(t: std.HostThread) -> None:
        first = await t.new_array("first", 64)
        places = set()
        for nbytes in (sizes := (2 * MIB + 4096, 4 * MIB)):  # both take the same block of the pool
            a = await t.new_array("a", nbytes // 8, fill=1.0)
            await t.for_each(std.par_unseq, whole, first, std.indirect(a))
            places.add(a.address)
            await t.delete(a)
        assert len(places) < len(sizes)

    never = attrs.evolve(std.implementation("acpp"), prefetch=std.PrefetchMode.NEVER)
    run, _ = alone(body, implementation=never)
    assert run.statistics.faults["bytes_transfer_htod"] >= 6 * MIB


def test_a_sycl_queue_has_memory_of_each_kind_and_copies_between_them() -> None:
    async def body(t: std.HostThread) -> list[float]:
        queue = t.queue()
        assert isinstance(queue, std.SyclQueue)
        host, device = await queue.malloc_host("host", 4), await queue.malloc_device("device", 4)
        host[:] = 3.0
        await queue.memcpy(device, host)
        host.check_host_access(writes=False)
        with pytest.raises(std.UnfinishedRead, match="the host writes array 'host'"):
            host.check_host_access(writes=True)
        await queue.submit(scale, 4, device, 2.0, iterations=4)
        await queue.memcpy(host, device)
        await queue.wait()
        host.check_host_access(writes=True)
        values = list(host.data)
        host.check_alive("read")
        for array in (host, device):
            await queue.free(array)
            with pytest.raises(FreedHostMemory, match=f"read uses array '{array.name}', which has been freed"):
                array.check_alive("read")
        return values

    run, values = alone(body)
    assert values == [6.0] * 4
    assert isinstance(run.stdpar, std.StdPar)


def test_an_algorithm_is_a_call_that_a_thread_invokes() -> None:
    async def body(t: std.HostThread) -> tuple[float, int]:
        a = await t.new_array("a", 8, fill=1.0)
        marked = std.indirect(a)
        assert isinstance(marked, std.Indirect) and marked.array is a
        assert await t.invoke(std.AlgorithmCall("for_each_n", std.par_unseq, scale, (8, a, 2.0), 8)) is None
        assert await t.invoke(std.AlgorithmCall("for_each_n", std.par_unseq, scale, (8, marked, 2.0), 8)) is None
        return float((await t.read(a)).sum()), run.stdpar.counts.calls

    run = made()
    assert play(run, body) == [(32.0, 2)]


@pytest.mark.parametrize("blocks", [1, 3])
def test_with_xnack_linux_works_on_each_page_of_a_range_that_migrates(blocks: int) -> None:
    """There and back: a kernel's first touch brings each range of 2 MiB, and the host's takes it back."""

    def seconds(page: str) -> float:
        async def body(t: std.HostThread) -> float:
            a = await t.new_array("a", blocks << 18, align=2 << 20)
            await t.write(a, 1.0)
            begin = run.sim.now
            await t.for_each_n(std.par_unseq, blocks << 18, scale, a, 2.0)
            await t.read(a)
            return run.sim.now - begin

        implementation = attrs.evolve(std.IMPLEMENTATIONS["acpp"], prefetch=std.PrefetchMode.NEVER)
        overrides = {"usm.shared": "migrates", "block.page_copy": page}
        run = made("isambard-mi100", implementation, overrides, pool_gb=0)
        found: float = play(run, body)[0]
        return found

    assert seconds("1 us") - seconds("0 us") == pytest.approx(2 * blocks * 512e-6, rel=0.01)
