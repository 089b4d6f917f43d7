"""The four memory configurations on an APU: one program, the same numbers, and what each of them calls and faults."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from offloadrt import openmp as omp
from offloadrt.driver import OutOfDeviceMemory, open_driver
from offloadrt.kernels import Kernel, kernel
from offloadrt.machine import MemoryAccessFault
from offloadrt.study.errors import UserError
from offloadrt.study.running.run import Run

CONFIGURATIONS = ("copy", "usm", "implicit_zero_copy", "eager_maps")
ZERO_COPY = CONFIGURATIONS[1:]
PAGE = 2 << 20
N = 3 * PAGE // 8
Body = Callable[[omp.HostThread], Awaitable[Any]]
TOUCH = Kernel("touch", bytes_per_iteration=8.0)


@kernel(flops_per_iteration=2, bytes_per_iteration=24)
def add_scaled(a: Any, b: Any, scale: Any) -> None:
    a += scale * b


@kernel
def double(a: Any) -> None:
    a *= 2.0


@kernel
def look(out: Any, factor: Any) -> None:
    out[0] = factor[0]


def run_body(
    body: Body, configuration: str, threads: int = 1, *, phantom: bool = False, gear: str = "turbo", **overrides: Any
) -> tuple[Run, list[Any]]:
    """A run of `body` in host threads on an MI300A, and what they returned. Overrides are written a__b for a.b."""
    run = Run(machine="mi300a", gear=gear, record=True)
    for key, value in overrides.items():
        run.set(key.replace("__", "."), value)
    run.configuration, run.phantom = configuration, phantom

    async def main() -> list[Any]:
        returned = await run.parallel(body, threads)
        await run.finish()
        return returned

    return run, run.sim.run(main)


async def little_program(t: omp.HostThread) -> dict[str, np.ndarray[Any, Any]]:
    """Large and small arrays, on the heap and not, sections, updates, arrays of whole lives and of single kernels."""
    rng = np.random.default_rng(7 + t.number)
    a = t.array("a", N, fill=rng.standard_normal(N))
    b = t.array("b", N, fill=rng.standard_normal(N), kind="heap")
    small = t.array("small", 100, fill=1.0)
    async with t.target_data(omp.map(tofrom=a), omp.map(to=omp.section(b, 0, N))):
        for step in range(3):
            await t.target(add_scaled, a, b, 0.5, maps=omp.map(tofrom=small), iterations=N)
            await t.target(double, small, maps=omp.map(tofrom=small))
            await t.target_update(omp.from_(omp.section(a, 0, 10)))
            a[0] += step
            await t.target_update(omp.to(omp.section(a, 0, 10)))
        await t.target_update(omp.from_(omp.section(a, 10, 5)))
    return {"a": a.data.copy(), "b": b.data.copy(), "small": small.data.copy()}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("configuration", ZERO_COPY)
def test_the_same_program_gives_the_same_bits(configuration: str, threads: int) -> None:
    _, copied = run_body(little_program, "copy", threads)
    _, shared = run_body(little_program, configuration, threads)
    for one, other in zip(copied, shared, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_both_gears_give_one_history(configuration: str) -> None:
    hashes = {run_body(little_program, configuration, 3, gear=gear)[0].trace.hash() for gear in ("turbo", "native")}  # type: ignore[union-attr]
    assert len(hashes) == 1


@pytest.mark.parametrize("threads", [1, 4])
def test_usm_and_implicit_zero_copy_are_the_same_without_a_global(threads: int) -> None:
    (usm, _), (implicit, _) = (run_body(little_program, one, threads) for one in ("usm", "implicit_zero_copy"))
    assert usm.trace is not None and implicit.trace is not None
    assert usm.trace.hash() == implicit.trace.hash()


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_one_host_thread_never_waits_for_a_lock(configuration: str) -> None:
    run, _ = run_body(little_program, configuration)
    assert [name for name, lock in run.locks.items() if lock.contended] == []


# globals


async def seen_by_kernels(t: omp.HostThread) -> list[float]:
    """What kernels see of a global: mapped, changed since then, and mapped again."""
    out = t.array("out", 1, fill=0.0)
    factor = t.program.globals.declared[0]
    seen = []
    for value, clauses in ((1.0, True), (2.0, False), (3.0, True)):
        factor[0] = value
        maps = [omp.map(tofrom=out), *([omp.map(to=factor, always=True)] if clauses else [])]
        await t.target(look, out, factor, maps=maps)
        seen.append(float(out[0]))
    return seen


@pytest.mark.parametrize(
    ("configuration", "seen", "copies"),
    [
        ("copy", [1.0, 1.0, 3.0], 2 + 6),
        ("implicit_zero_copy", [1.0, 1.0, 3.0], 2),
        ("eager_maps", [1.0, 1.0, 3.0], 2),
        ("usm", [1.0, 2.0, 3.0], 0),
    ],
)
def test_a_global_is_stale_until_it_is_mapped_but_not_under_usm(
    configuration: str, seen: list[float], copies: int
) -> None:
    async def body(t: omp.HostThread) -> list[float]:
        t.program.declare_target("factor", 1, fill=0.0)
        return await seen_by_kernels(t)

    run, (found,) = run_body(body, configuration)
    assert found == seen
    assert run.calls.count("memory_async_copy") == 3 + copies


def test_usm_reaches_a_global_through_a_pointer() -> None:
    async def body(t: omp.HostThread) -> float:
        factor = t.program.declare_target("factor", 1, fill=0.0)
        out = t.array("out", 1, fill=0.0)
        await t.target(look, out, factor)
        begin = t.sim.now
        await t.target(look, out, factor)
        return t.sim.now - begin

    _, (with_none,) = run_body(body, "usm", usm__global_indirection=0)
    _, (with_some,) = run_body(body, "usm", usm__global_indirection="1 us")
    assert with_some - with_none == pytest.approx(1e-6)


# page faults and prefaults


def pages_touched(run: Run) -> int:
    return run.device().pages.pages


@pytest.mark.parametrize("configuration", ["usm", "implicit_zero_copy"])
def test_a_page_faults_at_most_once(configuration: str) -> None:
    run, _ = run_body(little_program, configuration, 2)
    assert 0 < run.statistics.faults["gpu"] <= pages_touched(run)
    assert run.statistics.faults["gpu_pages"] == pages_touched(run)


def test_copies_never_fault() -> None:
    run, _ = run_body(little_program, "copy", 2)
    assert run.statistics.faults["gpu"] == 0
    assert (pages_touched(run) > 0) == (run.calls.count("memory_lock") > 0), "only locking memory maps it"


def test_eager_maps_call_once_for_each_map_and_fault_nowhere() -> None:
    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", 1000, fill=0.0), t.array("b", 1000, fill=0.0, kind="heap")
        async with t.target_data(omp.map(tofrom=[a, b])):  # 2 maps
            for _ in range(5):
                await t.target(TOUCH, a, b, maps=omp.map(to=a))  # 1 map; b is a pointer, of no length
        await t.target_enter_data(omp.map(to=a))  # 1 map
        await t.target_exit_data(omp.map(release=a))

    run, _ = run_body(body, "eager_maps")
    assert run.calls.count("svm_attributes_set") == 2 + 5 + 1
    assert run.statistics.faults["gpu"] == 0


def test_the_items_of_a_construct_are_prefaulted_one_by_one() -> None:
    async def body(t: omp.HostThread) -> None:
        arrays = [t.array(f"a{i}", 100, fill=0.0) for i in range(10)]
        step = t.construct_target(TOUCH, *arrays, maps=omp.map(to=arrays))
        for _ in range(3):
            await t.run(step)

    run, _ = run_body(body, "eager_maps")
    assert run.calls.count("svm_attributes_set") == 30


def test_first_touch_by_the_host_spares_the_kernel_the_populating() -> None:
    async def body(t: omp.HostThread) -> None:
        fresh = t.array("fresh", N)
        await t.first_touch(fresh)
        await t.target(TOUCH, fresh, iterations=N)

    async def untouched(t: omp.HostThread) -> None:
        await t.target(TOUCH, t.array("fresh", N), iterations=N)

    (touched, _), (fresh, _) = (run_body(one, "usm", phantom=True) for one in (body, untouched))
    assert touched.statistics.faults["cpu_pages"] in (3, 4) and fresh.statistics.faults["cpu_pages"] == 0
    assert touched.statistics.faults["gpu"] == fresh.statistics.faults["gpu"]
    service = [run.device().fault_statistics().service_s / run.statistics.faults["gpu"] for run in (touched, fresh)]
    populating = fresh.spec.value("fault.populate_2m") + fresh.spec.value("fault.repeat_2m")
    assert service[1] - service[0] == pytest.approx(populating, rel=1e-6)


# XNACK off


async def mapped_then_not(t: omp.HostThread) -> None:
    mapped = t.array("mapped", PAGE // 8, fill=1.0, kind="heap", align=PAGE)
    other = t.array("other", PAGE // 8, fill=1.0, kind="heap", align=PAGE)
    await t.target(TOUCH, mapped, maps=omp.map(to=mapped))
    await t.target(TOUCH, mapped, other, maps=omp.map(to=mapped))


def test_eager_maps_run_without_xnack_when_everything_is_mapped() -> None:
    run, _ = run_body(little_program, "eager_maps", gpu__xnack=False)
    assert run.statistics.faults["gpu"] == 0 and pages_touched(run) > 0


@pytest.mark.parametrize("configuration", ["eager_maps", "copy"])
def test_without_xnack_a_kernel_dies_of_what_is_not_mapped(configuration: str) -> None:
    with pytest.raises(MemoryAccessFault) as failed:
        run_body(mapped_then_not, configuration, gpu__xnack=False)
    error = failed.value
    assert (error.array, error.thread, error.fault.name) == ("other", "host thread 0", "touch")
    assert "Memory access fault by GPU node-1 on address 0x" in str(error)
    assert "Reason: Page not present or supervisor privilege." in str(error)


@pytest.mark.parametrize("configuration", ["usm", "implicit_zero_copy"])
def test_zero_copy_faults_without_xnack(configuration: str) -> None:
    with pytest.raises(MemoryAccessFault, match="mapped"):
        run_body(mapped_then_not, configuration, gpu__xnack=False)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_with_xnack_it_runs(configuration: str) -> None:
    run_body(mapped_then_not, configuration)


# bad programs


@pytest.mark.parametrize("configuration", ZERO_COPY)
def test_a_device_without_unified_memory_refuses(configuration: str) -> None:
    with pytest.raises(UserError, match=r"gpu\.unified_memory is false"):
        run_body(little_program, configuration, gpu__unified_memory=False)


def test_the_program_itself_gets_an_error_of_that_name() -> None:
    machine = Run(machine="mi300a", overrides={"gpu.unified_memory": "false"}).machine
    with pytest.raises(omp.UnifiedMemoryUnavailable):
        omp.OpenMP(machine, [open_driver(machine)], omp.OpenMPOptions(configuration="usm"))


def test_eager_maps_need_a_page_table_to_fill() -> None:
    run = Run(machine="alex-a100")
    run.configuration = "eager_maps"
    with pytest.raises(UserError, match=r"machine\.apu is false"):
        _ = run.openmp


def test_out_of_memory() -> None:
    async def body(t: omp.HostThread) -> None:
        await t.target_enter_data(omp.map(alloc=t.array("huge", 97 << 27, phantom=True)))

    with pytest.raises(OutOfDeviceMemory, match="array 'huge'") as failed:
        run_body(body, "copy")
    assert failed.value.call == "memory_pool_allocate"
    assert failed.value.code == "HSA_STATUS_ERROR_OUT_OF_RESOURCES"
    run_body(body, "usm")


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_mapping_freed_memory(configuration: str) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 100, fill=0.0, kind="heap")
        step = t.construct_target(TOUCH, a, maps=omp.map(to=a))
        await t.run(step)
        t.free(a)
        await t.run(step)

    with pytest.raises(omp.FreedHostMemory, match="<a\\+0> \\(800 bytes\\) was freed"):
        run_body(body, configuration)


def test_copying_back_to_freed_memory() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 100, fill=0.0, kind="heap")
        await t.target_enter_data(omp.map(to=a))
        t.free(a)
        await t.target_exit_data(omp.map(from_=a))

    with pytest.raises(omp.FreedHostMemory):
        run_body(body, "copy")


def test_faults_of_a_result_are_those_of_its_measured_window() -> None:
    run = Run(machine="mi300a")
    run.configuration, run.phantom = "usm", True

    async def body(t: omp.HostThread) -> None:
        before, inside = (t.array(name, N, fill=0.0, align=PAGE) for name in ("before", "inside"))
        await t.target(TOUCH, before, iterations=N)
        async with run.measure():
            await t.target(TOUCH, before, inside, iterations=N)

    async def main() -> None:
        await run.parallel(body)

    run.sim.run(main)
    assert run.statistics.faults["gpu"] == 6
    assert run.measured.faults["gpu"] == run.measured.faults["gpu_pages"] == 3
