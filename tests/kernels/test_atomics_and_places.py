"""Atomic operations on addresses that threads contend for, and where elements lie whose indices are data."""

import numpy as np
import pytest
from numpy.typing import NDArray

from offloadrt import atomic, cuda, kernel
from offloadrt import openmp as omp
from offloadrt.kernels import Kernel, SourceRefused
from offloadrt.machine import load
from offloadrt.machine.compute.residency import ComputeSpec
from offloadrt.study import Run

Whole = NDArray[np.int32]
Doubles = NDArray[np.float64]
N = 1 << 16
SLOW = {"atomic.address": "10 ns", "atomic.team_address": "20 ns", "atomic.sector": "0.01 ns"}
"""Addresses that take long, so that nothing else of these kernels counts."""


@kernel
def count(bins: Whole, which: Whole) -> None:
    for i in range(len(which)):
        bins[which[i]] += atomic(1)


@kernel
def count_in_teams(bins: Whole, which: Whole) -> None:
    for i in range(len(which)):
        bins[which[i]] += atomic(1, "team")


@kernel
def total(sums: Doubles, values: Doubles) -> None:
    for i in range(len(values)):
        sums[0] += atomic(values[i])


@kernel
def total_of_whole(sums: Whole, values: Whole) -> None:
    for i in range(len(values)):
        sums[0] += atomic(values[i])


@kernel
def nearest(least: Doubles, which: Whole, far: Doubles) -> None:
    for i in range(len(which)):
        least[which[i]] = min(least[which[i]], atomic(far[i]))


@kernel
def gather(out: Doubles, values: Doubles, which: Whole) -> None:
    for i in range(len(which)):
        out[i] = values[which[i]]


def alone(launch, **settings) -> float:
    """Return the seconds of a launch on the idle device."""
    return load("alex-a100").with_overrides({**SLOW, **settings}).read(ComputeSpec).seconds_on_idle_device(launch)


def test_operations_on_an_address_follow_one_another() -> None:
    launch = total.launch(N // 256, 256, arguments=(np.zeros(1), np.ones(N)))
    assert alone(launch) == pytest.approx(N * 10e-9)
    whole = total_of_whole.launch(N // 256, 256, arguments=(np.zeros(1, np.int32), np.ones(N, np.int32)))
    assert alone(whole) == pytest.approx(N / 32 * 10e-9)  # each warp adds its own first


@pytest.mark.parametrize("times", [0, 1])
def test_an_atomic_in_a_loop_may_never_run(times: int) -> None:
    @kernel
    def repeated(bins: Whole, which: Whole, m: int) -> None:
        for i in range(len(which)):
            for _ in range(m):
                bins[which[i]] += atomic(1)

    async def body(t: omp.HostThread) -> float:
        bins, which = t.array("bins", 4, np.int32, fill=0), t.array("which", 64, np.int32, fill=1)
        await t.target(repeated, bins, which, times, maps=omp.map(tofrom=bins, to=which))
        return float(bins[1])

    run = Run()
    assert run.sim.run(run.parallel, body) == [64.0 * times]


def test_what_a_team_has_for_itself_is_contended_by_its_threads_alone() -> None:
    bins, which = np.zeros(4, np.int32), np.zeros(N, np.int32)
    launch = count_in_teams.launch(N // 256, 256, arguments=(bins, which))
    assert alone(launch) == pytest.approx(N / 4 / 108 * 20e-9)  # that data send all to one bin is known when it runs


def test_a_declared_kernel_says_how_many_and_where() -> None:
    declared = Kernel("declared", atomics_per_iteration=2.0, atomic_addresses=8.0)
    assert alone(declared.launch(N // 256, 256, N)) == pytest.approx(2 * N / 8 * 10e-9)
    spread = Kernel("spread", atomics_per_iteration=2.0, atomic_addresses=1e9)
    assert alone(spread.launch(N // 256, 256, N)) == pytest.approx(2 * N * 0.01e-9)


def test_results_are_those_of_atomic_operations() -> None:
    which = np.random.default_rng(1).integers(0, 16, N).astype(np.int32)
    bins, far = np.zeros(16, np.int32), np.random.default_rng(2).random(N)
    count(bins, which)
    assert (bins == np.bincount(which, minlength=16)).all()
    least = np.full(16, 2.0)
    nearest(least, which, far)
    assert (least == [far[which == each].min() for each in range(16)]).all()


def test_an_atomic_operation_updates_an_element() -> None:
    with pytest.raises(SourceRefused, match="s = atomic\\(a\\[i\\]\\) updates a scalar; update an element"):

        @kernel
        def scalar(a: Doubles) -> None:
            for i in range(len(a)):
                s = atomic(a[i])
                a[i] = s

    with pytest.raises(SourceRefused, match="write one of 'device', 'team' as its scope"):

        @kernel
        def scope(a: Doubles) -> None:
            for i in range(len(a)):
                a[i] += atomic(1.0, "grid")


async def with_cuda(t, used, sizes, which):
    """Launch a kernel twice on its arrays, the last of which is the index; return the second launch's seconds."""
    there = [await t.malloc(n, kind) for n, kind in sizes]
    here = await t.host_alloc("which", which.size, np.int32, fill=which)
    index = await t.malloc(which.size, np.int32)
    await t.memcpy(index, here)
    for _ in range(2):
        began = t.sim.now
        await t.launch(used, *there, index, grid=which.size // 256, block=256)
        await t.device_synchronize()
    return t.sim.now - began


async def with_openmp(t, used, sizes, which):
    arrays = [t.array(f"a{place}", n, kind) for place, (n, kind) in enumerate(sizes)]
    index = t.array("which", which.size, np.int32, fill=which)
    async with t.target_data(omp.map(tofrom=[*arrays, index])):
        for _ in range(2):
            began = t.sim.now
            await t.target(used, *arrays, index)
    return t.sim.now - began


def seconds(model: str, used: Kernel, sizes, which, **settings) -> float:
    """Run a kernel with these indices under a programming model."""
    run = Run(machine="alex-a100")
    run.set("mem.l2", "100 kB")
    for key, value in settings.items():
        run.set(key.replace("__", "."), value)
    if model == "cuda":
        run.options = cuda.CUDAOptions()

    async def main() -> float:
        body = with_cuda if model == "cuda" else with_openmp
        (found,) = await run.parallel(lambda t: body(t, used, sizes, which.astype(np.int32)), 1)
        await run.finish()
        return found

    return run.sim.run(main)


@pytest.mark.parametrize("model", ["cuda", "openmp"])
def test_traffic_is_that_of_the_real_indices(model: str) -> None:
    """Rows in order move 20 bytes an element, in any order 12 and a sector of 32; a gather of one element moves 12."""
    n = 1 << 18
    order, sizes = np.arange(n), ((n, np.float64), (n, np.float64))
    times = {
        name: seconds(model, gather, sizes, which, mem__bw="20 GB/s")
        for name, which in {
            "in order": order,
            "in runs": order.reshape(-1, 256)[np.random.default_rng(0).permutation(n // 256)].reshape(-1),
            "at random": np.random.default_rng(0).integers(0, n, n),
            "one": np.zeros(n),
        }.items()
    }
    assert times["in order"] - times["one"] == pytest.approx(n * 8 / 20e9, rel=0.02)
    assert times["in runs"] == pytest.approx(times["in order"], rel=0.02)
    assert times["at random"] - times["one"] == pytest.approx(n * 32 / 20e9, rel=0.1)


@pytest.mark.parametrize("model", ["cuda", "openmp"])
def test_the_hottest_address_is_that_of_the_real_indices(model: str) -> None:
    sizes, rng = ((64, np.int32),), np.random.default_rng(0)
    even, skewed = rng.permutation(N) % 64, np.where(rng.random(N) < 0.5, 0, rng.integers(0, 64, N))
    settings = {"atomic__address": "100 ns"}
    one, two = (seconds(model, count, sizes, which, **settings) for which in (even, skewed))
    hottest = [np.bincount(which).max() for which in (even, skewed)]
    assert two - one == pytest.approx(float(hottest[1] - hottest[0]) * 100e-9, rel=0.01)


def test_a_gather_of_which_nothing_is_known_moves_a_sector_for_each_element() -> None:
    counted = gather.with_arguments(np.zeros(N), np.zeros(N), np.zeros(N, np.int32))
    assert counted.moved_per_byte(32, 0.0) == pytest.approx((8 + 4 + 32) / (8 + 4 + 8))
