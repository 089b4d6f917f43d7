"""The configuration `managed`: maps do nothing, kernels and host fault, and the numbers are those of copies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from offloadrt import openmp as omp
from offloadrt.driver import DriverError
from offloadrt.kernels import ArrayUse, Kernel, kernel
from offloadrt.study.errors import UserError
from offloadrt.study.running.run import Run

BLOCK = 2 << 20
N = 3 * BLOCK // 8
Body = Callable[[omp.HostThread], Awaitable[Any]]


@kernel(flops_per_iteration=2, bytes_per_iteration=24)
def add_scaled(a: Any, b: Any, scale: Any) -> None:
    a += scale * b


@kernel
def gather(out: Any, index: Any, values: Any) -> None:
    for i in range(len(out)):
        out[i] = values[index[i]]


def run_body(
    body: Body, configuration: str = "managed", threads: int = 1, machine: str = "summitdev-p100", **options: Any
) -> tuple[Run, list[Any]]:
    run = Run(machine=machine, gear=options.pop("gear", "turbo"), record=True)
    for key, value in options.pop("overrides", {}).items():
        run.set(key, value)
    run.options = omp.OpenMPOptions(configuration=configuration, phantom=options.pop("phantom", False))

    async def main() -> list[Any]:
        returned = await run.parallel(body, threads)
        await run.finish()
        return returned

    return run, run.sim.run(main)


async def program(t: omp.HostThread) -> list[Any]:
    """Arrays on heap and stack, sections, scalars, an indirect kernel, and the host in between."""
    rng = np.random.default_rng(t.number)
    a, b = t.array("a", N, fill=rng.random(N)), t.array("b", N, fill=rng.random(N), kind="heap")
    index = t.array("index", N, dtype=np.int64, fill=rng.integers(0, N, N))
    out = t.array("out", N)
    async with t.target_data(omp.map(tofrom=a), omp.map(to=b)):
        for _ in range(2):
            await t.target(add_scaled, a, b, 2.0, teams=8)
        await t.target_update(omp.from_(a))
    await t.host_access(a)
    a.data[:] += 1.0
    await t.target(gather, out, index, a, maps=[omp.map(from_=out), omp.map(to=[index, a])], teams=64)
    t.free(b)
    return [a.data.copy(), out.data.copy()]


@pytest.mark.parametrize("machine", ["summitdev-p100", "alex-a100"])
@pytest.mark.parametrize("configuration", ["managed", "managed+prefetch"])
def test_the_numbers_are_those_of_copies(configuration: str, machine: str) -> None:
    _, expected = run_body(program, "copy", 2, machine)
    run, found = run_body(program, configuration, 2, machine)
    for one, other in zip(expected, found, strict=True):
        for array, same in zip(one, other, strict=True):
            assert np.array_equal(array, same)
    assert run.statistics.faults["bytes_transfer_htod"] > 0 < run.statistics.faults["bytes_transfer_dtoh"]
    if configuration == "managed":
        assert run.calls.table().keys().isdisjoint({"cuMemAlloc", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync"})


def test_prefetching_maps_leave_no_faults_to_kernels() -> None:
    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=1.0)
        await t.target(add_scaled, a, b, 2.0, maps=[omp.map(tofrom=a), omp.map(to=b)], teams=8)

    run, _ = run_body(body, "managed+prefetch")
    assert run.statistics.faults["gpu_page_fault"] == 0 < run.statistics.faults["bytes_transfer_htod"]
    assert run.calls.table()["cuMemPrefetchAsync"].count == 2


def test_the_host_comes_back_to_its_pages_and_the_device_again_to_them() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0, align=BLOCK)
        for _ in range(3):
            await t.target(add_scaled, a, a, 2.0, teams=8)
            await t.host_access(omp.section(a, 0, N // 3))
            await t.first_touch(a)

    run, _ = run_body(body)
    assert run.statistics.faults["bytes_transfer_htod"] == run.statistics.faults["bytes_transfer_dtoh"] == 3 * 8 * N


def test_a_section_is_all_that_a_kernel_touches() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0, align=BLOCK)
        await t.target(Kernel("half"), a, maps=omp.map(tofrom=omp.section(a, 0, N // 3)), teams=8)

    run, _ = run_body(body, overrides={"prefetch.tree": "false"})
    assert run.statistics.faults["bytes_transfer_htod"] == BLOCK


def test_descriptors_say_what_is_met_at_random() -> None:
    sparse = Kernel("sparse", arrays=(ArrayUse("a", 0, 1.0, 0.0, "indirect", 1, 1e-5, 0.0),))

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 64 * BLOCK // 8, align=BLOCK, fill=1.0)
        await t.target(sparse, a, teams=64, iterations=64 * BLOCK // 8)

    run, _ = run_body(body, overrides={"prefetch.tree": "false"}, phantom=True)
    expected = 2048 * (1 - np.exp(-1e-5 * 64 * BLOCK / 8 / 2048))  # pages of 2048 that 168 accesses meet
    assert run.statistics.faults["faults"] == pytest.approx(expected, abs=3 * expected**0.5)


def test_freed_memory_leaves_the_device() -> None:
    async def body(t: omp.HostThread) -> int:
        a = t.array("a", N, fill=1.0, kind="heap", align=BLOCK)
        await t.target(Kernel("touch"), a, maps=omp.map(tofrom=omp.section(a, 0, N)), teams=8)
        before = t.program.devices[0].memory.managed
        t.free(a)
        return before - t.program.devices[0].memory.managed

    assert run_body(body)[1] == [3 * BLOCK]


@pytest.mark.parametrize(
    ("configuration", "machine", "message"),
    [
        ("managed", "mi300a", "share one memory"),
        ("eager_maps", "summitdev-p100", "only the kernels of an APU"),
    ],
)
def test_what_a_machine_cannot_do_is_refused(configuration: str, machine: str, message: str) -> None:
    run = Run(machine=machine)
    run.options = omp.OpenMPOptions(configuration=configuration)
    with pytest.raises(UserError, match=message):
        run.sim.run(lambda: run.parallel(program))


def test_advice_and_prefetch_are_for_managed_memory() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N)
        with pytest.raises(DriverError, match="no managed memory"):
            await t.prefetch(a)
        with pytest.raises(DriverError, match="no managed memory"):
            await t.advise(a, "prefer_host")
        await t.host_access(a)

    run, _ = run_body(body, "copy")
    assert run.statistics.faults == {}


def test_both_gears_give_the_same_hash() -> None:
    hashes = {gear: run_body(program, threads=3, gear=gear)[0].trace for gear in ("native", "turbo")}
    assert hashes["native"] is not None and hashes["turbo"] is not None
    assert hashes["native"].hash() == hashes["turbo"].hash()


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_a_section_is_prefetched_alone(blocks: int) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0, align=BLOCK)
        await t.prefetch(omp.section(a, 0, blocks * BLOCK // 8))

    assert run_body(body)[0].statistics.faults["bytes_transfer_htod"] == blocks * BLOCK


def test_advice_for_a_section_keeps_only_that_on_the_host() -> None:
    async def body(t: omp.HostThread) -> None:
        a, b = (t.array(name, N, fill=1.0, align=BLOCK) for name in "ab")
        await t.advise(omp.section(a, 0, BLOCK // 8), "prefer_host")
        await t.target(add_scaled, a, b, 2.0, teams=8)

    assert run_body(body)[0].statistics.faults["bytes_transfer_htod"] == 5 * BLOCK
