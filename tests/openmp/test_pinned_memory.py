"""Pinned memory of OpenMP programs: copies without staging, its price, and wrong frees."""

import numpy as np
import pytest

from offloadrt import openmp as omp
from offloadrt.driver import DriverError
from offloadrt.runtime.errors import InvalidFree
from offloadrt.study import Run

N = 1 << 21


def run_of(body, machine="alex-a100", phantom=True):
    run = Run(machine=machine)
    run.options = omp.OpenMPOptions(phantom=phantom)

    async def main():
        (result,) = await run.parallel(body, 1)
        await run.finish()
        return result

    return run, run.sim.run(main)


async def pageable(t):
    return t.array("a", N)


async def by_trait(t):
    return await t.omp_alloc("a", N, allocator=t.omp_init_allocator(pinned=True))


async def by_routine(t):
    return await t.llvm_omp_target_alloc_host("a", N)


def round_trip(make):
    async def body(t):
        a = await make(t)
        begin = t.sim.now
        await t.target_enter_data(omp.map(to=a))
        await t.target_exit_data(omp.map(from_=a))
        return t.sim.now - begin

    return run_of(body)


def test_data_of_pinned_arrays_moves_without_staging():
    runs, times = zip(*(round_trip(make) for make in (pageable, by_trait, by_routine)), strict=True)
    assert [run.machine.host_memory.statistics().bytes for run in runs] == [2 * 8 * N, 0, 0]
    assert times[1] == pytest.approx(times[2]) and times[1] < times[0]


def test_pinning_costs_what_the_library_takes():
    async def body(t):
        begin = t.sim.now
        a = await t.omp_alloc("a", N, allocator=t.omp_init_allocator(pinned=True))
        took = t.sim.now - begin
        await t.omp_free(a, allocator=t.omp_init_allocator(pinned=True))
        return took

    run, took = run_of(body)
    assert took >= run.spec.value("pin.register") + 8 * N / run.spec.value("host.clear_1t")
    assert run.calls.count("cuMemHostRegister") == run.calls.count("cuMemHostUnregister") == 1


def test_an_allocator_without_the_trait_pins_nothing():
    async def body(t):
        allocator = t.omp_init_allocator()
        await t.omp_free(await t.omp_alloc("a", 8, allocator=allocator, fill=1.0), allocator=allocator)

    assert not run_of(body)[0].calls.count("cuMemHostRegister")


def test_memory_of_each_kind_comes_from_its_call():
    async def body(t):
        device = await t.llvm_omp_target_alloc_device(64)
        shared = await t.llvm_omp_target_alloc_shared("s", 8)
        host = await t.llvm_omp_target_alloc_host("h", 8, np.float64, fill=3.0)
        await t.omp_target_memcpy(device, host, 64)
        await t.llvm_omp_target_free_host(host)
        return shared.managed, host.freed, list(host.data)

    run, found = run_of(body, phantom=False)
    assert found == (True, True, [3.0] * 8)
    assert [run.calls.count(name) for name in ("cuMemAlloc", "cuMemAllocManaged", "cuMemAllocHost")] == [1, 1, 1]


async def frees_twice(t):
    a = await by_trait(t)
    allocator = t.omp_init_allocator(pinned=True)
    await t.omp_free(a, allocator=allocator)
    await t.omp_free(a, allocator=allocator)


async def frees_what_the_library_did_not_give(t):
    await t.llvm_omp_target_free_host(t.array("b", 8))


async def frees_by_another_allocator(t):
    a = await t.omp_alloc("a", 8, allocator=t.omp_init_allocator())
    await t.omp_free(a, allocator=t.omp_init_allocator(pinned=True))


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (frees_twice, InvalidFree, "free of 'a': it was freed before"),
        (
            frees_what_the_library_did_not_give,
            InvalidFree,
            "target_free_host of 'b': .* no pinned memory begins",
        ),
        (frees_by_another_allocator, DriverError, "cuMemHostUnregister .*NOT_REGISTERED.*host thread 0 at"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_wrong_frees_are_refused(body, error, message):
    with pytest.raises(error, match=message):
        run_of(body)


def test_an_apu_refuses_to_pin():
    with pytest.raises(DriverError, match="pinned memory is not emulated where CPU and GPU share one memory"):
        run_of(by_routine, "mi300a")
