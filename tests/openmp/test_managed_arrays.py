"""Arrays that the program allocates as managed memory, beside others that the memory configuration deals with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from offloadrt import openmp as omp
from offloadrt.driver import DriverError
from offloadrt.kernels import kernel
from offloadrt.study.running.run import Run

PAGE = 64 << 10
BLOCK = 2 << 20
N = BLOCK // 8
Body = Callable[[omp.HostThread], Awaitable[Any]]


@kernel(flops_per_iteration=2, bytes_per_iteration=24)
def add_scaled(a: Any, b: Any, scale: Any) -> None:
    a += scale * b


def run_body(body: Body, configuration: str = "copy", machine: str = "alex-a100", gear: str = "turbo") -> Run:
    run = Run(machine=machine, gear=gear, record=True)
    run.configuration = configuration

    async def main() -> None:
        await run.parallel(body)
        await run.finish()

    run.sim.run(main)
    return run


async def both_kinds(t: omp.HostThread) -> None:
    """A managed array that the device changes and the host looks at, and an ordinary one that maps copy."""
    a = await t.managed_array("a", N)
    b = t.array("b", N, fill=2.0)
    for number in range(1, 4):
        await t.host_access(a)
        a.data[:] += 1.0
        await t.target(add_scaled, a, b, 0.5, is_device_ptr=a, maps=omp.map(to=b), teams=8)
        await t.host_access(a)
        assert np.all(a.data == 2.0 * number)
    await t.free_managed(a)


def test_only_the_managed_array_migrates() -> None:
    run = run_body(both_kinds)
    calls = run.calls.table()
    # Each time the host brings the array back; entries that the buffer still has then move a part of it once more.
    assert run.statistics.faults["bytes_transfer_dtoh"] == 3 * BLOCK
    assert 3 * BLOCK <= run.statistics.faults["bytes_transfer_htod"] < 4 * BLOCK
    assert calls["cuMemAllocManaged"].count == 1
    assert calls["cuMemcpyHtoDAsync"].count == 3
    assert run.device().memory.managed == 0  # also where the last batch was being served when the array was freed


def test_all_arrays_migrate_under_managed() -> None:
    assert run_body(both_kinds, "managed").statistics.faults["bytes_transfer_htod"] >= 4 * BLOCK


def test_both_gears_give_the_same_hash() -> None:
    hashes = [run_body(both_kinds, gear=gear).trace for gear in ("native", "turbo")]
    assert hashes[0] is not None and hashes[1] is not None
    assert hashes[0].hash() == hashes[1].hash()


def test_a_pointer_that_no_clause_names_reaches_the_kernel_as_it_is() -> None:
    async def body(t: omp.HostThread) -> None:
        a = await t.managed_array("a", 16)
        await t.target(add_scaled, a, a, 1.0, teams=1)
        await t.target(add_scaled, a, 1.0, 1.0, teams=1)
        await t.host_access(a)
        assert np.all(a.data == 1.0)

    assert run_body(body).statistics.faults["first_on_gpu"] == 1


def test_prefetch_and_copies_on_the_host_know_managed_arrays() -> None:
    """omp_target_memcpy between two places on the host is a copy by the thread, which faults on the device's pages."""

    async def body(t: omp.HostThread) -> None:
        a, b = await t.managed_array("a", N), t.array("b", N, fill=3.0)
        await t.omp_target_memcpy(a, b, b.nbytes)
        await t.prefetch(a)
        assert t.program.machine.devices[0].memory.managed == BLOCK
        await t.target(add_scaled, a, 1.0, 1.0, is_device_ptr=a, teams=8)
        await t.omp_target_memcpy(b, a, b.nbytes)
        assert np.all(b.data == 4.0)

    run = run_body(body)
    assert run.statistics.faults["gpu_page_fault"] == 0
    assert run.statistics.faults["bytes_transfer_htod"] == run.statistics.faults["bytes_transfer_dtoh"] == BLOCK


def test_a_memset_on_the_host_brings_managed_pages_back() -> None:
    async def body(t: omp.HostThread) -> None:
        a = await t.managed_array("a", N)
        await t.target(add_scaled, a, 1.0, 1.0, is_device_ptr=a, teams=8)
        await t.omp_target_memset(a, 0, a.nbytes)
        assert not a.data.any()  # a report that the fault buffer still holds may take pages to the device once more

    assert run_body(body).statistics.faults["bytes_transfer_dtoh"] == BLOCK


def test_copies_out_of_what_is_read_mostly_leave_the_device_its_copy() -> None:
    """A copy reads its source, on the host or on its way to a device: that takes no copy away, as a write does."""

    async def body(t: omp.HostThread) -> None:
        a, b = await t.managed_array("a", N), t.array("b", N)
        await t.host_access(a)
        await t.advise(a, "read_mostly")
        await t.prefetch(a)
        block = await t.omp_target_alloc(a.nbytes)
        await t.omp_target_memcpy(b, a, a.nbytes)
        await t.omp_target_memcpy(block, a, a.nbytes)
        moved = t.program.machine.devices[0].bytes_moved()["d2h"]
        assert moved == 0 and t.program.machine.devices[0].memory.managed == BLOCK
        await t.omp_target_memcpy(a, b, a.nbytes)
        assert t.program.machine.devices[0].memory.managed == 0

    run_body(body)


def test_small_arrays_share_pages_and_large_alignment_keeps_them_apart() -> None:
    async def body(t: omp.HostThread) -> None:
        a, b = await t.managed_array("a", 8), await t.managed_array("b", 8)
        assert (b.address - a.address < PAGE) is (t.program.machine.spec.value("alloc.managed_alignment") == 512)

    run_body(body)
    run = Run()
    run.set("alloc.managed_alignment", "2 MiB")
    run.sim.run(lambda: run.parallel(body))


def test_freed_addresses_are_used_again_and_freed_once() -> None:
    async def body(t: omp.HostThread) -> None:
        a = await t.managed_array("a", 8)
        await t.free_managed(a)
        again = await t.managed_array("again", 8)
        assert again.address == a.address
        await t.free_managed(again)
        with pytest.raises(DriverError, match="cuMemFree"):
            await t.free_managed(again)

    run_body(body)


def test_a_view_is_the_same_memory() -> None:
    async def body(t: omp.HostThread) -> None:
        a = await t.managed_array("a", 64, np.uint8)
        a.viewed(np.float64)[3] = 1.0
        assert a.data.view(np.float64)[3] == 1.0
        assert a.viewed(np.float64).shape == (8,) and a.viewed(np.float64).managed

    run_body(body)


@pytest.mark.parametrize(
    ("machine", "error", "message"),
    [
        ("mi300a", omp.UnifiedMemoryUnavailable, r"array 'a' on mi300a: .*machine\.apu is true"),
        ("alex-a100", ValueError, "managed array 'a' of no bytes"),
    ],
)
def test_what_cannot_be_managed_is_refused(machine: str, error: type[Exception], message: str) -> None:
    async def body(t: omp.HostThread) -> None:
        with pytest.raises(error, match=message):
            await t.managed_array("a", 8 if machine == "mi300a" else 0)

    run_body(body, machine=machine)


def test_an_ordinary_array_is_no_device_pointer() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 8)
        with pytest.raises(TypeError, match="device pointers and managed arrays"):
            await t.target(add_scaled, a, a, 1.0, is_device_ptr=a)

    run_body(body)
