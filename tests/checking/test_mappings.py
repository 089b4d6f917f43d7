"""Stale and uninitialised data, and maps that are missing, too many or ended under others."""

from __future__ import annotations

from typing import Any

import pytest
from checked_programs import Body, N, add, double, double_views, fill, found, kinds, run_checked

from offloadrt import openmp as omp


@pytest.mark.parametrize("kernel", [double, double_views])
def test_a_result_that_was_not_copied_back_is_stale(kernel: Any) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        await t.target_enter_data(omp.map(to=a))
        await t.target(kernel, a, *([N] if kernel is double else []), iterations=N)
        assert a[0] == 1.0
        await t.target_exit_data(omp.map(from_=a))
        assert a[0] == 2.0

    (stale,) = run_checked(body)[0]
    assert stale.kind == "stale data" and "target update from(a)" in stale.advice
    write, read = stale.stories
    assert write.did.startswith("writes a in kernel") and read.did == "reads a on the host"


def test_a_mapping_that_ends_without_a_copy_leaves_the_host_stale() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        await t.target(double, a, N, maps=omp.map(to=a))
        assert a[0] == 1.0

    (stale,) = run_checked(body)[0]
    assert "`from` or `tofrom`" in stale.advice


def _host_writes_in_a_region(updates: bool) -> Body:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        async with t.target_data(omp.map(tofrom=a)):
            a[:] = 3.0
            if updates:
                await t.target_update(omp.to(a))
            await t.target(double, a, N)
        assert a[0] == (6.0 if updates else 2.0)

    return body


def test_a_kernel_reads_what_the_host_has_overwritten_unless_it_updates() -> None:
    assert found(_host_writes_in_a_region(updates=False)) == [("stale data", "a")]
    assert found(_host_writes_in_a_region(updates=True)) == []


def test_an_update_may_take_back_what_the_device_has_written() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        async with t.target_data(omp.map(to=a)):
            for _ in range(2):
                await t.target_update(omp.to(a))
                await t.target(double, a, N)
        assert a[0] == 1.0  # the device's are newer, which an update to the device does not change

    assert found(body) == [("stale data", "a")]


@pytest.mark.parametrize("kernel", [double, double_views])
def test_a_kernel_that_reads_new_device_memory(kernel: Any) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        async with t.target_data(omp.map(alloc=a)):
            await t.target(kernel, a, *([N] if kernel is double else []), iterations=N)

    assert found(body) == [("uninitialised data", "a")]


def test_a_kernel_may_write_it_first() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N)
        async with t.target_data(omp.map(from_=a)):
            await t.target(fill, a, N)
            await t.target(double, a, N)
        assert a[N - 1] == 2.0

    assert found(body) == []


def test_what_the_kernel_left_out_is_uninitialised_when_the_host_reads_it() -> None:
    def body(upto: int) -> Body:
        async def main(t: omp.HostThread) -> None:
            a = t.array("a", N, fill=7.0)
            await t.target(fill, a, N // 2, maps=omp.map(from_=a))
            a[:upto].sum()

        return main

    assert found(body(N // 2)) == []
    assert found(body(N)) == [("uninitialised data", "a")]


def test_what_is_left_mapped_at_the_end_and_what_was_not_mapped() -> None:
    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=1.0)
        await t.target_enter_data(omp.map(to=a))
        await t.target_exit_data(omp.map(from_=b))
        await t.target_exit_data(omp.map(release=b), omp.map(delete=b))  # OpenMP passes over what is absent
        await t.target_update(omp.to(b))
        await t.omp_target_alloc(64)

    assert found(body) == [
        ("missed update", "b"),
        ("surplus unmap", "b"),
        ("missing unmap", "a"),
        ("memory leak", "64 bytes of device memory"),
    ]


def test_a_map_that_extends_another_one_says_how_much_of_it_is_there() -> None:
    async def body(t: omp.HostThread) -> None:
        u = t.array("u", 196, fill=0.0)
        await t.target_enter_data(omp.map(to=omp.section(u, 0, 98)))
        with pytest.raises(omp.OffloadError, match=r"<u\+0> \(1568 bytes\).* 784 of them are mapped already"):
            await t.target(double, u, 196, maps=omp.map(tofrom=u))

    assert kinds(body)[0] == "fatal error"


def test_delete_under_another_user() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        await t.target_enter_data(omp.map(to=a))
        await t.target_enter_data(omp.map(to=a))
        await t.target_exit_data(omp.map(delete=a))

    (ended,) = run_checked(body)[0]
    assert ended.kind == "delete under other users" and len(ended.stories) == 2


def test_a_kernel_with_an_address_that_was_freed() -> None:
    async def body(t: omp.HostThread) -> None:
        pointer = await t.omp_target_alloc(8 * N)
        assert pointer is not None
        await t.omp_target_free(pointer)
        await t.target(double, pointer.viewed("f8"), N, is_device_ptr=pointer.viewed("f8"))

    assert kinds(body, phantom=True) == ["use after free"]


def test_memory_of_omp_target_alloc_is_judged_as_well() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        pointer = await t.omp_target_alloc(8 * N)
        assert pointer is not None
        typed = pointer.viewed("f8")
        await t.target(double, typed, N, is_device_ptr=typed)
        await t.omp_target_memcpy(pointer, a, 8 * N)
        await t.target(double, typed, N, is_device_ptr=typed)
        await t.omp_target_memcpy(a, pointer, 8 * N)
        assert a[0] == 2.0
        await t.omp_target_free(pointer)

    assert found(body) == [("uninitialised data", "device memory")]


def test_a_copy_from_other_memory_overwrites_what_the_host_wrote() -> None:
    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=1.0)
        pointer = await t.omp_target_alloc(8 * N)
        assert pointer is not None
        typed = pointer.viewed("f8")
        await t.target(fill, typed, N, is_device_ptr=typed)
        a[:] = 3.0
        await t.omp_target_memcpy(a, pointer, 8 * N)
        assert a[0] == 1.0
        async with t.target_data(omp.map(to=b)):
            a[:] = 3.0
            mapped = await t.omp_get_mapped_ptr(b)
            await t.omp_target_memcpy(a, mapped, 8 * N)
            assert a[0] == 1.0
            await t.omp_target_memcpy(mapped, a, 8 * N)
            await t.target(double, b, N)
            await t.omp_target_memcpy(b, mapped, 8 * N)
            assert b[0] == 2.0
        await t.omp_target_free(pointer)

    assert found(body) == []


def test_where_the_device_uses_host_memory_there_is_nothing_to_map() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        await t.target(double, a, N, maps=omp.map(to=a))
        assert a[0] in (1.0, 2.0)

    assert kinds(body) == ["stale data"]
    assert kinds(body, machine="mi300a", configuration="implicit_zero_copy") == []


def test_a_check_changes_nothing_of_the_run() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        async with t.target_data(omp.map(tofrom=a)):
            await t.target(double, a, N, nowait=True, depend=omp.depend(inout=a))
            await t.target(double_views, a, iterations=N, nowait=True, depend=omp.depend(inout=a))
            await t.barrier()
        assert a[0] == 4.0

    traces = {
        run.trace.hash()
        for run in (run_checked(body, 4, gear=gear, record=True)[1] for gear in ("native", "turbo"))
        if run.trace is not None
    }
    from offloadrt import Run

    plain = Run(record=True)

    async def main() -> None:
        await plain.parallel(body, num_threads=4)
        await plain.finish()

    plain.sim.run(main)
    assert plain.trace is not None and traces == {plain.trace.hash()}


def test_a_kernel_that_works_on_a_fresh_copy_each_time_is_right() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        for _ in range(3):
            await t.target(double, a, N, maps=omp.map(to=a))

    assert found(body) == []


def test_a_buffer_that_the_host_clears_before_a_result_comes_is_right() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        async with t.target_data(omp.map(to=a)):
            await t.target(double, a, N)
            a[:] = 0.0
            await t.target_update(omp.from_(a))
            assert a[3] == 2.0

    assert found(body) == []


@pytest.mark.parametrize("lost_by", ["update", "end"])
def test_a_write_of_the_host_that_a_copy_overwrites_is_missed_by_the_kernel_that_reads_it(lost_by: str) -> None:
    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=0.0)
        async with t.target_data(omp.map(tofrom=a)):
            a[:] = 3.0
            if lost_by == "update":
                await t.target_update(omp.from_(a))
                await t.target_update(omp.to(a))
                await t.target(add, b, a, N, maps=omp.map(from_=b))
        if lost_by == "end":
            await t.target(add, b, a, N, maps=omp.map(to=a, from_=b))

    (stale,) = run_checked(body)[0]
    assert stale.kind == "stale data" and "has overwritten it" in stale.advice
