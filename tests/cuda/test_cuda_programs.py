"""CUDA programs: managed memory, device memory, launches that are not waited for, and copies."""

from __future__ import annotations

import re

import numpy as np
import pytest

from offloadrt import cuda, kernel
from offloadrt.kernels import Kernel
from offloadrt.study import Run, UserError


@kernel(threads_per_team=256)
def triad(a, b, c, factor):
    for i in range(len(c)):
        c[i] = a[i] + factor * b[i]


@kernel
def halve(a):
    a *= 0.5


TOUCH, OTHER = Kernel("touch", flops_per_iteration=1), Kernel("other", flops_per_iteration=1)


def run_of(body, machine="t4", threads=1, start="warm", **options):
    run = Run(machine=machine)
    run.set("runtime.start", start)
    run.options = cuda.CUDAOptions(**options)

    async def main():
        results = await run.parallel(body, threads)
        await run.finish()
        return results[0]

    return run, run.sim.run(main)


def test_a_kernel_computes_on_managed_memory_and_moves_it_once():
    async def body(t):
        a = await t.malloc_managed("a", 1 << 20, fill=np.arange(1 << 20))
        b = await t.malloc_managed("b", 1 << 20, fill=2.0)
        c = await t.malloc_managed("c", 1 << 20)
        await t.launch(triad, a, b, c, 0.5, grid=4096, block=256)
        await t.device_synchronize()
        await t.host_access(c)
        return c.data.copy()

    run, values = run_of(body)
    assert np.array_equal(values, np.arange(1 << 20, dtype=np.float32) + 1)
    assert run.statistics.bytes_moved["h2d"] == 2 * 4 << 20  # nobody had touched c
    assert run.statistics.bytes_moved["d2h"] == 4 << 20


def test_a_launch_returns_before_its_kernel_has_ended():
    async def body(t):
        arrays = [await t.malloc_managed(name, 1 << 22, written=True) for name in "abc"]
        begin = t.sim.now
        await t.launch(triad, *arrays, 1.0, grid=1 << 14, block=256)
        launched = t.sim.now
        await t.device_synchronize()
        return launched - begin, t.sim.now - begin

    _, (launched, synchronized) = run_of(body, phantom=True)
    assert 10 * launched < synchronized


def test_device_memory_leaves_less_room_for_managed_memory_until_it_is_freed():
    async def body(t):
        array = await t.malloc_managed("a", 1 << 28, written=True)
        occupied = await t.malloc(14 << 30)
        evicted = [await sweep(t, array)]
        await t.free(occupied)
        return [*evicted, await sweep(t, array), await sweep(t, array)]

    async def sweep(t, array):
        before = t.program.driver.faults()["evicted_blocks"]
        await t.launch(triad, array, array, array, 1.0, grid=1 << 16, block=256)
        await t.device_synchronize()
        return t.program.driver.faults()["evicted_blocks"] - before

    _, evicted = run_of(body, phantom=True)
    assert evicted[0] >= 512 - 172 and evicted[1:] == [0, 0]  # 1 GiB of blocks of 2 MiB, room for 322 MiB


@pytest.mark.parametrize(("blocks", "least", "most"), [(640, 1.0, 1.0), (864, 1.3, 2.0)])
def test_each_sweep_over_more_than_the_memory_moves_all_and_what_waiting_blocks_read_twice(blocks, least, most):
    """640 blocks of 256 threads find places on a Titan V; others go through the array when these have ended."""
    nbytes = 96 << 20

    async def body(t):
        x, result = await t.malloc_managed("x", nbytes >> 3, "f8", written=True), await t.malloc(1, "f8")
        moved = []
        for _ in range(2):
            before = run.device().bytes_moved()["h2d"]
            await t.launch(total, x, result, nbytes >> 3, grid=blocks, block=256)
            await t.device_synchronize()
            moved.append((run.device().bytes_moved()["h2d"] - before) / nbytes)
        return moved

    run = Run(machine="titan-v")
    run.set("mem.size", "64 MiB")
    run.set("mem.reserved", 0)
    run.options = cuda.CUDAOptions(phantom=True)
    moved = run.sim.run(lambda: run.parallel(body))[0]
    assert all(least <= part <= most for part in moved), moved


@kernel
def total(x, result, n):
    for i in range(n):
        result[0] += x[i]


def test_a_copy_moves_its_bytes_and_is_waited_for():
    async def body(t):
        there, here = await t.malloc(1 << 20), await t.host_alloc("here", 1 << 20, np.uint8)
        begin = t.sim.now
        await t.memcpy(there, here)
        await t.memcpy(here, there)
        elapsed = t.sim.now - begin
        await t.free_host(here)
        await t.free(there)
        return elapsed

    run, elapsed = run_of(body, phantom=True)
    assert dict(run.statistics.bytes_moved)["h2d"] == dict(run.statistics.bytes_moved)["d2h"] == 1 << 20
    assert elapsed > 2 * (1 << 20) / run.spec.value("link.h2d_pinned")


@pytest.mark.parametrize(("memory", "nbytes"), [("pinned", 1 << 16), ("pageable", (1 << 16) + 1)])
def test_a_copy_of_pageable_memory_waits_for_the_stream_but_not_for_its_own_transfer(memory, nbytes):
    async def body(t):
        a, there = await t.malloc_managed("a", 1 << 21), await t.malloc(nbytes)
        is_pinned = memory == "pinned"
        here = await t.host_alloc("here", nbytes, np.uint8) if is_pinned else t.array("here", nbytes, np.uint8, fill=0)
        await t.launch(triad, a, a, a, 1.0, grid=1, block=32)
        at = [t.sim.now]
        await t.memcpy(there, here)
        at.append(t.sim.now)
        await t.device_synchronize()
        return at[1] - at[0], t.sim.now - at[1]

    run, (copying, left) = run_of(body, phantom=True)
    transfer_s = nbytes / run.spec.value("link.h2d_pinned")
    assert copying > 1e-3  # the kernel
    assert left > transfer_s if memory == "pageable" else left < transfer_s


CONTEXT = ("init.library", "init.device", "init.context", "module.load")


@pytest.mark.parametrize(("start", "first"), [("warm", ()), ("loaded", CONTEXT[3:]), ("cold", CONTEXT)])
def test_the_first_call_makes_the_context_and_each_kernel_is_loaded_at_its_first_launch(start, first):
    async def body(t):
        at = [t.sim.now]
        for call in (t.malloc(8), t.malloc(8), launch(t, TOUCH), launch(t, TOUCH), launch(t, OTHER)):
            await call
            at.append(t.sim.now)
            await t.sleep(1e-3)  # the device is idle again, for which a kernel's loading would wait
        return np.diff(at)

    def launch(t, one):
        return t.launch(one, grid=1, block=32, iterations=1)

    (_, warm), (run, found) = run_of(body, start="warm"), run_of(body, start=start)
    loading = 0.0 if start == "warm" else run.spec.value("module.kernel")
    context = sum(map(run.spec.value, first)) + (0.0 if start == "warm" else run.spec.value("driver.stream_create"))
    assert found - warm == pytest.approx([context, 0.0, loading, 0.0, loading], abs=1e-9)


def test_threads_of_a_cold_program_share_one_context():
    async def body(t):
        await t.malloc(8)

    run, _ = run_of(body, start="cold", threads=4)
    assert [run.calls.count(name) for name in ("cuInit", "cuDevicePrimaryCtxRetain", "cuMemAlloc")] == [1, 1, 4]


def test_a_machine_without_cudas_driver_library_is_refused():
    async def body(t):
        raise AssertionError("no program starts there")

    with pytest.raises(UserError, match=r"mi300a has ROCr, and a CUDA program needs CUDA's driver library"):
        run_of(body, machine="mi300a")


def test_each_thread_has_a_current_device_of_its_own():
    async def body(t):
        await t.set_device(t.number % t.get_device_count())
        await t.barrier()
        return t.get_device()

    run = Run(machine="a100-node4")
    run.options = cuda.CUDAOptions(num_devices=3)

    async def main():
        return await run.parallel(body, 4)

    assert run.sim.run(main) == [0, 1, 2, 0]


@pytest.mark.parametrize(("arguments", "grid", "block", "told"), [
    ((np.ones(8),), 1, 32, "argument 'a' is a NumPy array of shape (8,), which no device has; make it an array"),
    ((1,), (1, 2, 3, 4), 32, "launch: grid cannot be (1, 2, 3, 4); it takes int | tuple[int, int]"),
    ((1,), 1 << 40, 32, "cuLaunchKernel: grid is 1099511627776, but must be a number from 1 to 2**31 - 1"),
    ((1,), 1, 0, "cuLaunchKernel: block is 0"),
])  # fmt: skip
def test_a_launch_that_cannot_be_is_told_why(arguments, grid, block, told):
    async def body(t):
        await t.launch(halve, *arguments, grid=grid, block=block)

    with pytest.raises((TypeError, ValueError), match=re.escape(told)):
        run_of(body)


def test_what_is_no_kernel_is_not_launched():
    async def body(t):
        await t.launch(lambda a: None, 1, grid=1, block=32)

    with pytest.raises(TypeError, match="is no kernel: decorate its function with @kernel"):
        run_of(body)


def test_the_program_is_loaded_on_a_device_once_and_has_one_context_there():
    async def body(t):
        await t.malloc(1024)
        contexts.append(await run.cuda.context(0))

    class Counted(cuda.CUDA):
        async def start_device(self, device):
            started.append(device.number)
            await super().start_device(device)

    started, contexts = [], []
    run = Run(machine="alex-a100")
    run.set("runtime.start", "cold")
    run.options = cuda.CUDAOptions()
    run.cuda.__class__ = Counted
    run.sim.run(lambda: run.parallel(body, 4))
    assert started == [0] and len(set(map(id, contexts))) == 1
