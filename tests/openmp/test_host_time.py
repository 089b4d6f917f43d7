"""Where the host threads' time goes, as far as the runtime's own locks and deferred tasks are concerned."""

from __future__ import annotations

import math
from typing import Any

import pytest
from openmp_rig import MakeRig

from offloadrt import openmp as omp
from offloadrt.study.running.run import Run
from offloadrt.trace import events


@pytest.mark.parametrize(
    ("machine", "configuration", "handlers"), [("alex-a100", "copy", 0), ("mi300a", "copy", 2), ("mi300a", "usm", 0)]
)
def test_the_exit_of_a_program_is_a_part_of_its_threads_lives(machine: str, configuration: str, handlers: int) -> None:
    """The runtime returns pooled blocks, the plugin its own, in the thread that ends the program.

    ROCr's thread for handlers lives for as long as it takes new ones under their lock.
    """
    run = Run(machine=machine)
    run.configuration = configuration

    async def body(t: omp.HostThread) -> None:
        async with t.target_data(omp.map(tofrom=t.array("a", 4))):
            pass

    async def main() -> None:
        await run.parallel(body)
        await run.finish()

    run.sim.run(main)
    frees = run.calls.table()["cuMemFree" if machine == "alex-a100" else "memory_pool_free"]
    assert frees.total_s > 0.0
    time = run.machine.host_time
    beside = handlers * run.machine.spec.value("signal.take") if handlers else 0.0
    assert time.lived_s == pytest.approx(run.sim.now + beside), "one thread at a time, from the start to the end"
    assert math.fsum(time.seconds.values()) <= time.lived_s * (1 + 1e-9)
    assert sum(time.seconds.values()) > 0.99 * time.lived_s


def test_waiting_for_the_stream_pool(rig: MakeRig) -> None:
    made = rig({"driver.stream_create": "1 ms", "driver.context.uncontended": True, "table.uncontended": True})

    async def body(t: omp.HostThread) -> None:
        async with t.target_data(omp.map(to=t.array("a", 4))):
            pass

    made.run(body, 4)
    pool = made.program.locks()["stream pool"]
    assert pool.wait_s > 5e-3
    assert made.machine.host_time.seconds["runtime lock"] >= pool.wait_s
    assert sum(made.machine.host_time.seconds.values()) > 0.99 * made.machine.host_time.lived_s


def test_waiting_for_a_bucket_of_the_memory_manager(rig: MakeRig) -> None:
    made = rig({"memory_manager.hand_out": "1 ms"})

    async def body(t: omp.HostThread) -> None:
        await t.omp_target_free(await t.omp_target_alloc(64))

    made.run(body, 4)
    bucket = made.program.locks()["memory manager bucket 5"]
    assert bucket.wait_s > 5e-3
    assert made.machine.host_time.seconds["runtime lock"] >= bucket.wait_s


def test_waiting_for_a_gpu_memory_manager(rig: MakeRig) -> None:
    made = rig({"gpu_memory_manager.hand_out": "1 ms"})
    manager = omp.GpuMemoryManager(made.program)
    other = omp.GpuMemoryManager(made.program)

    async def body(t: omp.HostThread) -> None:
        await manager.allocate(t, 64)

    made.run(body, 4)
    locks = made.program.locks()
    lock = locks["gpu memory manager"]
    assert lock == manager.semaphore.statistics()
    assert (lock.acquired, lock.contended) == (4, 3)
    assert lock.wait_s == pytest.approx(6e-3, rel=1e-2)
    assert locks["gpu memory manager 1"] == other.semaphore.statistics()
    assert made.machine.host_time.seconds["manager lock"] == pytest.approx(lock.wait_s)
    counts = [
        len([event for event in made.trace.events if isinstance(event, kind) and event.lock == "gpu memory manager"])
        for kind in (events.LockWait, events.LockAcquire, events.LockRelease)
    ]
    assert counts == [3, 4, 4]


@pytest.mark.parametrize("gear", ["native", "turbo"])
def test_hidden_helpers_live_while_they_run_tasks(rig: MakeRig, gear: Any) -> None:
    made = rig({"table.lookup": "1 ms"}, gear)

    async def body(t: omp.HostThread) -> float:
        begin = t.sim.now
        for number in range(8):
            await t.target_enter_data(omp.map(to=t.array(f"a{number}", 4)), nowait=True)
        await t.taskwait()
        return t.sim.now - begin

    alive = made.alone(body)
    host_time = made.machine.host_time
    assert host_time.lived_s > 4 * alive, "eight tasks queue for the table, one after the other gets it"
    assert math.fsum(host_time.seconds.values()) <= host_time.lived_s * (1 + 1e-9)
    assert sum(host_time.seconds.values()) > 0.99 * host_time.lived_s
