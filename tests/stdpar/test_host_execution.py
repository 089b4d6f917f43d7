"""Algorithms on the host: their time follows from cores and memory, which those that run at a time share."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_examples import examples
from stdpar_rig import alone, made, play

from offloadrt import stdpar as std
from offloadrt.kernels import Kernel
from offloadrt.machine import Machine, load
from offloadrt.sim import Simulation

HOST = "isambard-milan"
STREAMING = Kernel("streaming", None, flops_per_iteration=1.0, bytes_per_iteration=800.0)
COMPUTING = Kernel("computing", None, flops_per_iteration=1e4, bytes_per_iteration=8.0)
N = 1 << 20


def seconds(
    kernel: Kernel, n: int = N, policy: std.ExecutionPolicy = std.par_unseq, threads: int = 1, **options: Any
) -> float:
    """Of the slowest of so many threads that call one algorithm each, without what it takes to call it."""

    async def body(t: std.HostThread) -> float:
        a = await t.new_array("a", n, phantom=True)
        await t.first_touch(a)
        begin = t.sim.now
        await t.for_each(policy, kernel, a)
        return t.sim.now - begin

    run = made(machine=HOST, implementation="host", **options)
    return max(play(run, body, threads)) - run.spec.value("stdpar.dispatch")


@pytest.fixture(scope="module")
def spec() -> Any:
    return load(HOST)


def test_a_parallel_algorithm_takes_its_roofline_time(spec: Any) -> None:
    fork_join = spec.value("cpu.fork_join")
    assert seconds(STREAMING) == pytest.approx(fork_join + N * 800 / spec.value("cpu.stream_max"))
    flops = spec.value("cpu.fp64_core") * spec.count("cpu.cores")
    assert seconds(COMPUTING) == pytest.approx(fork_join + N * 1e4 / flops)


def test_a_sequential_one_has_one_core_and_no_workers(spec: Any) -> None:
    assert seconds(STREAMING, policy=std.seq) == pytest.approx(N * 800 / spec.value("cpu.stream_1t"))
    assert seconds(COMPUTING, policy=std.seq) == pytest.approx(N * 1e4 / spec.value("cpu.fp64_core"))


def test_fewer_iterations_than_cores_keep_fewer_busy(spec: Any) -> None:
    work = Kernel("few", None, flops_per_iteration=1e9)
    assert seconds(work, n=3) == pytest.approx(spec.value("cpu.fork_join") + 1e9 / spec.value("cpu.fp64_core"))


@pytest.mark.parametrize("kernel", [STREAMING, COMPUTING])
@pytest.mark.parametrize("threads", [2, 5])
def test_algorithms_of_several_threads_share_what_they_wait_for(kernel: Kernel, threads: int, spec: Any) -> None:
    fork_join = spec.value("cpu.fork_join")
    one, many = seconds(kernel) - fork_join, seconds(kernel, threads=threads) - fork_join
    assert many == pytest.approx(threads * one, rel=1e-3)
    free = {"host_workers.uncontended": True, "host_memory.uncontended": True}
    assert seconds(kernel, threads=threads, overrides=free) - fork_join == pytest.approx(one, rel=1e-3)


def test_computing_and_streaming_do_not_disturb_one_another(spec: Any) -> None:
    async def body(t: std.HostThread) -> float:
        a = await t.new_array("a", N, phantom=True)
        begin = t.sim.now
        await t.for_each(std.par_unseq, STREAMING if t.number else COMPUTING, a)
        return t.sim.now - begin

    together = play(made(machine=HOST, implementation="host"), body, threads=2)
    assert together[1] == pytest.approx(seconds(STREAMING) + spec.value("stdpar.dispatch"))
    assert together[0] == pytest.approx(seconds(COMPUTING) + spec.value("stdpar.dispatch"))


@examples(25)
@given(sizes=st.lists(st.integers(1, 1 << 22), min_size=1, max_size=5))
def test_the_memory_never_gives_more_than_it_has(sizes: list[int]) -> None:
    sim = Simulation()
    machine = Machine(sim, load(HOST), devices=0)

    async def main() -> None:
        async with sim.open_nursery() as nursery:
            for number, size in enumerate(sizes):
                launch = STREAMING.launch(1, 1, size)
                nursery.spawn(machine.host_workers.execute, launch, name=f"host thread {number}")

    sim.run(main)
    done = machine.host_workers.statistics()
    spec = machine.host_workers.spec
    least = sum(sizes) * 800 / spec.bandwidth_all
    assert sim.now >= least * (1.0 - 1e-9)
    assert done.algorithms == len(sizes)
    assert done.busy_s + done.idle_s == pytest.approx(sim.now)


def test_the_time_of_an_algorithm_is_the_threads_computing() -> None:
    async def body(t: std.HostThread) -> None:
        await t.for_each(std.par_unseq, STREAMING, await t.new_array("a", N, phantom=True))

    run, _ = alone(body, machine=HOST, implementation="host")
    assert run.statistics.host_time.seconds["compute"] == pytest.approx(run.statistics.engines["host workers"].busy_s)
    assert run.statistics.host_time.lived_s == pytest.approx(sum(run.statistics.host_time.seconds.values()))


def test_data_of_the_device_comes_back_before_the_host_computes() -> None:
    async def body(t: std.HostThread) -> None:
        a = await t.new_array("a", N)
        await t.fill(std.par_unseq, a, 1.0)
        await t.fill(std.seq, a, 2.0)

    run, _ = alone(body)
    assert run.statistics.faults["bytes_transfer_dtoh"] == N * 8
    assert run.stdpar.counts.waits == 1
