"""Threads that are pinned to cores: they take turns there, and leave other cores to others."""

import pytest

from offloadrt import cuda, kernel
from offloadrt import openmp as omp
from offloadrt.kernels import Kernel
from offloadrt.study import Run

SLICE_S = 1e-3
LONG = Kernel("long", flops_per_iteration=1e3)


@kernel
def touch(a):
    for i in range(len(a)):
        a[i] = a[i] + 1.0


def took(body, threads, model="openmp", cores=8):
    """Run a body in threads; return what each returned, and the statistics of the cores."""
    run = Run(machine="alex-a100")
    for key, value in {"stream.time_slice": f"{SLICE_S} s", "cpu.cores": cores, "runtime.start": "warm"}.items():
        run.set(key, value)
    if model == "cuda":
        run.options = cuda.CUDAOptions(phantom=True)

    async def main():
        results = await run.parallel(body, threads)
        await run.finish()
        return results

    return run.sim.run(main), run.machine.cores.statistics()


@pytest.mark.parametrize("pinned", [0, 2, 3])
def test_threads_on_one_core_take_as_long_together_as_one_after_the_other(pinned):
    async def body(t):
        if t.number < pinned:
            t.pin(1)
        await t.barrier()
        begin = t.sim.now
        await t.compute(0.1)
        return t.sim.now - begin

    times, cores = took(body, 3)
    assert times[:pinned] == pytest.approx([0.1 * pinned] * pinned, abs=SLICE_S * pinned)
    assert times[pinned:] == pytest.approx([0.1] * (3 - pinned))
    assert cores.busy_s == pytest.approx(0.3, rel=1e-3)


def test_threads_that_are_not_pinned_share_the_other_cores():
    async def body(t):
        if t.number == 0:
            t.pin(0)
        await t.barrier()
        begin = t.sim.now
        await t.compute(0.1)
        return t.sim.now - begin

    alone, *others = took(body, 3, cores=2)[0]
    assert alone == pytest.approx(0.1)
    assert max(others) == pytest.approx(0.2)


@pytest.mark.parametrize(("schedule", "factor"), [("yield", 1.0), ("blocking_sync", 1.0), ("spin", 2.0), ("auto", 2.0)])
def test_a_thread_that_spins_takes_half_of_the_core_of_one_that_computes(schedule, factor):
    async def body(t):
        await t.set_device_flags(schedule)
        t.pin(3)
        await t.barrier()
        begin = t.sim.now
        if t.number:
            await t.compute(0.05)
            return t.sim.now - begin
        stream = await t.stream_create(non_blocking=True)
        await t.launch(LONG, grid=1, block=32, iterations=4_000_000, stream=stream)
        await t.stream_synchronize(stream)
        return t.sim.now - begin

    (waited, computed), _ = took(body, 2, "cuda")
    assert waited > 0.1
    assert computed == pytest.approx(0.05 * factor, rel=0.05)


def test_hidden_helpers_run_on_the_core_of_the_thread_that_makes_them():
    """A deferred region needs the host for some microseconds, which it gets between slices of who computes."""

    async def body(t, pinned):
        if pinned:
            t.pin(0)
        a = t.array("a", 1024)
        begin = t.sim.now
        await t.target(touch, a, maps=omp.map(tofrom=a), nowait=True)
        await t.compute(20 * SLICE_S)
        await t.taskwait()
        return t.sim.now - begin

    (free,), _ = took(lambda t: body(t, False), 1)
    (pinned,), _ = took(lambda t: body(t, True), 1)
    assert free == pytest.approx(20 * SLICE_S, rel=0.01)
    assert pinned > free * 1.002


def test_a_core_that_is_not_there_is_refused():
    async def body(t):
        t.pin(8)

    with pytest.raises(ValueError, match="core is 8; there are cores 0 to 7"):
        took(body, 1)
