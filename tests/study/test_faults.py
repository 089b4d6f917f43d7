"""Faults that are injected into runs: what each kind does, by itself."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from offloadrt import Run, driver, kernel
from offloadrt import cuda as cu
from offloadrt import openmp as omp
from offloadrt.driver import DeviceLost, DriverError, OutOfDeviceMemory
from offloadrt.machine.injection import ThreadDied
from offloadrt.models.cuda.program import CUDAOptions
from offloadrt.sim import Deadlock
from offloadrt.study import UserError, execute, find_scenario

Body = Callable[[Any], Awaitable[Any]]


@kernel(flops_per_iteration=1e3)
def add_one(a: Any) -> None:
    a += 1.0


def ran(body: Body, *faults: str, threads: int = 1, model: str = "openmp", **options: Any) -> tuple[Run, list[Any]]:
    """A run of host threads with faults, and what the threads returned."""
    run = Run(faults=faults, **options)
    if model == "cuda":
        run.options = CUDAOptions()

    async def main() -> list[Any]:
        returned = await run.parallel(body, threads)
        await run.finish()
        return returned

    return run, run.sim.run(main)


async def added(t: omp.HostThread, elements: int = 1 << 18) -> float:
    a = t.array("a", elements, fill=1.0)
    await t.target(add_one, a, maps=omp.map(tofrom=a), iterations=elements)
    return float(a.data.sum()) / a.data.size


def few_added(t: omp.HostThread) -> Awaitable[float]:
    return added(t, 64)


# calls


def test_device_memory_that_is_exhausted_once_is_found_by_emptying_the_pool() -> None:
    async def body(t: omp.HostThread) -> float:
        return await added(t)

    run, (value,) = ran(body, "cuMemAlloc:1")
    assert value == 2.0 and run.calls.count("cuMemAlloc") == 2
    assert run.injector is not None and run.injector.struck[0].endswith("(fault cuMemAlloc:1)")


def test_device_memory_that_stays_exhausted_ends_the_program_as_llvm_does() -> None:
    with pytest.raises(OutOfDeviceMemory, match="array 'a': 2097152 bytes asked for") as failed:
        ran(added, "cuMemAlloc:1+")
    assert failed.value.messages == (
        "PluginInterface error: Failure to allocate device memory: error in cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY",
        "omptarget error: Call to getTargetPointer returned null pointer (device failure or illegal mapping).",
        "omptarget error: Call to targetDataBegin failed, abort target.",
        "omptarget error: Failed to process data before launching the kernel.",
        "target: omptarget fatal error 1: failure of target construct while offloading is mandatory",
    )


@pytest.mark.parametrize(("machine", "call"), [("alex-a100", "cuMemAlloc"), ("mi300a", "hsa_amd_memory_pool_allocate")])
def test_omp_target_alloc_returns_null_when_memory_is_exhausted_and_the_program_goes_on(
    machine: str, call: str
) -> None:
    async def body(t: omp.HostThread) -> tuple[object, float]:
        await added(t)
        await t.sleep(0.01)
        return await t.omp_target_alloc(1 << 20), await added(t)

    _, (returned,) = ran(body, f"{call}:1@10ms", f"{call}:2@10ms", machine=machine)
    assert returned == (None, 2.0)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        ("cuMemcpyHtoDAsync", "omptarget error: Copying data to device failed."),
        ("cuLaunchKernel", "omptarget error: Executing target region abort target."),
        ("cuMemcpyDtoHAsync", "omptarget error: Copying data from device failed."),
        ("cuStreamSynchronize", "PluginInterface error: Failure to synchronize stream: error in cuStreamSynchronize"),
        ("cuMemFree", "omptarget error: Deallocating data from device failed."),
    ],
)
def test_a_call_that_fails_in_a_region_is_fatal_with_llvms_lines(call: str, line: str) -> None:
    with pytest.raises(DriverError, match=f"{call} failed with CUDA_ERROR_UNKNOWN") as failed:
        ran(added, f"{call}:1")
    messages = failed.value.messages
    assert any(message.startswith(line) for message in messages)
    assert messages[-1] == "target: omptarget fatal error 1: failure of target construct while offloading is mandatory"


def test_a_copy_that_fails_in_a_routine_is_told_by_its_result() -> None:
    async def body(t: omp.HostThread) -> list[int]:
        a, pointer = t.array("a", 64, fill=1.0), await t.omp_target_alloc(256)
        return [await t.omp_target_memcpy(pointer, a, 256) for _ in range(2)]

    assert ran(body, "cuMemcpyHtoDAsync:1")[1] == [[-1, 0]]


def test_a_time_and_a_count_choose_the_call() -> None:
    async def body(t: omp.HostThread) -> list[float]:
        begins = []
        for _ in range(4):
            await t.sleep(1e-3)
            begins.append(t.sim.now)
            assert await t.omp_target_alloc(1 << 20) or len(begins) == 3
        return begins

    run, _ = ran(body, "cuMemAlloc:2@1.5ms", "cuMemAlloc:3@1.5ms")
    assert run.injector is not None and len(run.injector.struck) == 2 and not run.injector.unstruck


def test_a_fault_that_the_program_survived_is_told() -> None:
    run = execute(find_scenario("overlap"), {"n": 64, "threads": 2}, faults=["cuMemAlloc:1", "kernel:99"])
    unused, survived = run.warnings
    assert unused == "--faults kernel:99: nothing in this run was struck by it"
    assert re.fullmatch(r"the program went on after t=\S+: cuMemAlloc .*\(fault cuMemAlloc:1\)", survived)


# CUDA's sticky errors


async def used(t: cu.HostThread) -> list[str]:
    """Names of errors of one call after another."""
    errors = []
    for call in (lambda: t.malloc(1 << 20), lambda: t.device_synchronize(), lambda: t.malloc(1 << 20)):
        try:
            await call()
            errors.append("")
        except DriverError as error:
            errors.append(error.code)
    return errors


def test_an_allocation_error_is_not_sticky() -> None:
    assert ran(used, "cuMemAlloc:1", model="cuda")[1] == [["CUDA_ERROR_OUT_OF_MEMORY", "", ""]]


def test_a_kernel_that_fails_is_told_by_the_next_synchronization_and_by_every_call_after_it() -> None:
    async def body(t: cu.HostThread) -> list[str]:
        a = await t.malloc(1 << 10, np.float32)
        await t.launch(add_one, a, grid=4, block=256)
        return (await used(t))[1:]

    assert ran(body, "kernel:1", model="cuda")[1] == [["CUDA_ERROR_LAUNCH_FAILED"] * 2]


def test_an_error_that_a_user_names_is_sticky_where_cuda_says_so() -> None:
    assert ran(used, "cuMemAlloc:1=CUDA_ERROR_ILLEGAL_ADDRESS", model="cuda")[1] == [["CUDA_ERROR_ILLEGAL_ADDRESS"] * 3]
    assert ran(used, "cuMemAlloc:1=CUDA_ERROR_NOT_PERMITTED", model="cuda")[1] == [["CUDA_ERROR_NOT_PERMITTED", "", ""]]


@pytest.mark.parametrize(
    ("machine", "code"), [("alex-a100", "CUDA_ERROR_LAUNCH_FAILED"), ("mi300a", "HSA_STATUS_ERROR_EXCEPTION")]
)
def test_a_kernel_that_fails_computes_nothing_and_ends_the_program(machine: str, code: str) -> None:
    arrays = []

    async def body(t: omp.HostThread) -> None:
        arrays.append(t.array("a", 64, fill=1.0))
        await t.target(add_one, arrays[0], maps=omp.map(tofrom=arrays[0]), iterations=64)

    with pytest.raises(DriverError, match=code):
        ran(body, "kernel:1", machine=machine)
    assert arrays[0].data[0] == 1.0


# engines


def busy(*faults: str, **options: Any) -> float:
    """Seconds in which the engines, or the rings, transferred to the device."""
    run, _ = ran(few_added, *faults, **options)
    device = run.device()
    parts = [device.engines["h2d"]] if not device.shares_memory else device.rings
    return sum(part.statistics().busy_s for part in parts)


@pytest.mark.parametrize("machine", ["alex-a100", "mi300a"])
def test_a_slow_engine_takes_so_many_times_as_long_from_a_time_on(machine: str) -> None:
    directions = ["h2d"] if machine == "alex-a100" else ["h2d", "d2h"]

    def slow(factor: str) -> float:
        return busy(*(f"slow:{direction}:{factor}" for direction in directions), machine=machine)

    alone = busy(machine=machine)
    assert slow("3x") == pytest.approx(3 * alone) and slow("3x@1s") == alone


@pytest.mark.parametrize("machine", ["alex-a100", "mi300a"])
def test_a_stuck_engine_is_a_deadlock_that_says_who_waits_and_why(machine: str) -> None:
    with pytest.raises(Deadlock, match=r"(?s)host thread 0 waits on copy.*after t=.* is stuck \(fault stuck:d2h\)"):
        ran(few_added, "stuck:d2h", machine=machine)


@pytest.mark.parametrize("machine", ["alex-a100", "mi300a"])
def test_a_lost_doorbell_is_made_up_for_by_the_next_one(machine: str) -> None:
    async def body(t: omp.HostThread) -> float:
        a = t.array("a", 64, fill=1.0)
        await t.target(add_one, a, maps=omp.map(tofrom=a), iterations=64)
        return float(a[0])

    last = 3 if machine == "alex-a100" else 1
    if machine == "alex-a100":
        assert ran(body, "doorbell:1", machine=machine)[1] == [2.0]
    else:  # a region has one doorbell here; that of another thread shows the queue both kernels
        one_queue = {"hsa.queues": "1"}
        assert ran(body, "doorbell:1", machine=machine, overrides=one_queue, threads=2)[1] == [2.0, 2.0]
    with pytest.raises(Deadlock, match=rf"queue 0 is lost \(fault doorbell:{last}\)"):
        ran(body, f"doorbell:{last}", machine=machine)


# page faults

FAULTING = [
    ("summitdev-p100", "managed", "CUDA_ERROR_ILLEGAL_ADDRESS"),
    ("mi300a", "implicit_zero_copy", "HSA_STATUS_ERROR_MEMORY_FAULT"),
]


def faulting(machine: str, configuration: str, *faults: str) -> Any:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 1 << 22, fill=1.0)
        await t.target(add_one, a, maps=omp.map(tofrom=a), iterations=1 << 22)

    overrides = {"gpu.xnack": "true"} if machine == "mi300a" else {}
    run = Run(machine=machine, configuration=configuration, overrides=overrides, faults=faults)
    run.configuration = configuration

    async def main() -> None:
        await run.parallel(body)
        await run.finish()

    run.sim.run(main)
    return run


@pytest.mark.parametrize(("machine", "configuration", "code"), FAULTING)
def test_a_page_fault_that_nobody_can_serve_ends_the_program(machine: str, configuration: str, code: str) -> None:
    with pytest.raises(DriverError, match=rf"{code}: nobody could serve a page fault of kernel"):
        faulting(machine, configuration, "page_fault:2")


@pytest.mark.parametrize(("machine", "configuration", "code"), FAULTING)
def test_a_lost_interrupt_leaves_a_kernel_waiting(machine: str, configuration: str, code: str) -> None:
    with pytest.raises(Deadlock, match=r"interrupt of device 0 page fault handler is lost \(fault interrupt:1\)"):
        faulting(machine, configuration, "interrupt:1")


# threads and devices


def test_a_thread_that_dies_gives_everything_back_and_ends_the_run() -> None:
    with pytest.raises(ThreadDied, match=r"host thread 1 died at 0.000100000 s while it waited for "):
        ran(added, "thread:1@100us", threads=3)


def test_a_device_that_disappears_fails_every_call_and_nobody_hangs() -> None:
    async def body(t: omp.HostThread) -> tuple[str, float]:
        await t.sleep(1e-3)
        with pytest.raises(DeviceLost, match=r"device 0 disappeared at 0.000100000 s"):
            await added(t)
        with pytest.raises(omp.DeviceEnded):
            await added(t)
        return float(await _on_device_1(t))

    async def _on_device_1(t: omp.HostThread) -> float:
        a = t.array("a", 64, fill=1.0)
        await t.target(add_one, a, maps=omp.map(tofrom=a), iterations=64, device=1)
        return float(a[0])

    run = Run(faults=["device:0@100us"])
    run.configure(num_devices=2)
    assert run.sim.run(run.parallel, body) == [2.0]


@pytest.mark.parametrize("machine", ["alex-a100", "mi300a"])
def test_a_device_that_disappears_while_a_thread_waits_for_it_ends_the_run(machine: str) -> None:
    async def body(t: omp.HostThread) -> float:
        await added(t)
        return t.sim.now

    _, (end,) = ran(body, machine=machine)
    for part in range(1, 20):
        with pytest.raises(DeviceLost):
            ran(body, f"device@{end * part / 20!r}s", machine=machine)


# plans


def test_a_random_plan_is_the_same_every_time_and_another_with_another_seed() -> None:
    def struck(seed: int) -> list[str]:
        run = Run(faults=[f"random:{seed}:0.2"])
        with pytest.raises((DriverError, Deadlock)):
            run.sim.run(run.parallel, added)
        assert run.injector is not None
        return run.injector.struck

    first = [struck(seed) for seed in range(4)]
    assert first == [struck(seed) for seed in range(4)] and first[0] != first[1]


def test_faults_change_nothing_before_they_strike_in_either_gear() -> None:
    def history(gear: str, *faults: str) -> str:
        run, _ = ran(added, *faults, gear=gear, hash=True, threads=2)
        assert run.trace is not None
        return run.trace.hash()

    assert history("turbo") == history("turbo", "cuMemAlloc:1000") == history("native", "cuMemAlloc:1000")
    assert history("turbo", "cuMemAlloc:2") == history("native", "cuMemAlloc:2") != history("turbo")


def test_every_call_of_a_driver_library_is_known_by_name() -> None:
    """A name that is missing in `CALLS` could not be made to fail."""
    sources = [path.read_text() for path in Path(driver.__file__).parent.rglob("*.py")]
    made = {name for source in sources for name in re.findall(r'(?:context|_calls)\.call\(\s*"(\w+)"', source)}
    assert len(made) > 40 and made <= driver.CALLS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("slow:h2d", "how much slower is written 10x"),
        ("slow:nvlink:2x", "an engine is h2d, d2h, d2d, p2p"),
        ("stuck", "it is written stuck:ENGINE"),
        ("thread:1", "as in thread:2@1ms"),
        ("device", "as in device@2ms"),
        ("cuMemAlloc:zero", "'zero' is no number from 1"),
        ("cuMemAlloc@fast", "fast"),
        ("kernl:2", "did you mean kernel"),
        ("doorbell:1=CUDA_ERROR_UNKNOWN", "only calls take"),
        ("random:x", "it is written random:SEED"),
        ("", "a fault is written CALL"),
        ("everywhere", "is an option of `offloadrt explore` only"),
        ("foo", "no driver library has a call foo; a fault is written CALL"),
        ("cuMemAloc:3", "no driver library has a call cuMemAloc; did you mean cuMemAlloc"),
        ("hsa_amd_memory_pool_alocate", "a call memory_pool_alocate; did you mean memory_pool_allocate"),
    ],
)
def test_a_fault_that_is_written_wrongly_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(UserError, match=r"^--faults ") as refused:
        Run(faults=[text])
    assert words in str(refused.value)
    with pytest.raises(UserError, match="takes a list of texts"):
        Run(faults="cuMemAlloc:3")
