"""What a contended ``std::mutex`` costs: folly's SmallLocksBenchmark on glibc, which gives `table.handover` its range.

In the benchmark every thread works 1000 turns of a loop outside and 100 turns under the mutex that n of them share.
"""

from __future__ import annotations

import pytest

from offloadrt.machine import Machine, load
from offloadrt.machine.host_lock import HostLock, lock_policy
from offloadrt.sim import Simulation

MEASURED = {1: 0.90e-6, 2: 1.27e-6, 4: 2.40e-6, 8: 4.85e-6}
"""Seconds an operation of each thread, by the number of threads that share a mutex."""
LOCK_UNLOCK = 16.42e-9
TURN = (MEASURED[1] - LOCK_UNLOCK) / 1100
LOW, HIGH = (load("e5-2680v4", range_end=end).value("table.handover") for end in ("low", "high"))


def operation(threads: int, wake_up: float, policy: str) -> float:
    """Emulate the loop for 4 ms; the work outside varies by 20 %, lest the threads march in step."""
    sim = Simulation(seed=1)
    machine = Machine(sim, load("mi300a"))
    mutex = HostLock(
        machine, "mutex", lock_policy(policy), wake_up, category="compute", wait_category="threads"
    )  # fmt: skip
    operations = 0

    async def body() -> None:
        nonlocal operations
        while sim.now < 4e-3:
            await machine.work(1000 * TURN * sim.rng.uniform(0.8, 1.2), "compute")
            await mutex.enter(100 * TURN + LOCK_UNLOCK)
            mutex.release()
            operations += 1

    async def main() -> None:
        async with sim.open_nursery() as nursery:
            for _ in range(threads):
                nursery.spawn(body)

    sim.run(main)
    return sim.now * threads / operations


@pytest.mark.parametrize("threads", MEASURED)
def test_a_mutex_that_barges_has_the_measured_times_within_the_range_of_its_wake_up(threads: int) -> None:
    low, high = (operation(threads, wake_up, "barging") for wake_up in (LOW, HIGH))
    assert 0.95 * low < MEASURED[threads] < 1.05 * high


def test_no_hand_over_of_a_lock_that_never_lets_others_pass_has_them() -> None:
    fits_eight = 0.51e-6
    assert operation(8, fits_eight, "fifo") == pytest.approx(MEASURED[8], rel=0.02)
    assert operation(2, fits_eight, "fifo") < 0.75 * MEASURED[2]


def test_the_mutex_of_a_runtime_and_that_of_a_driver_wake_up_alike() -> None:
    for name in ("e5-2680v4", "alex-a100", "mi300a"):
        spec = load(name, runtime="llvm22")
        assert spec.text("table.handoff") == spec.text("driver.handoff") == "barging"
        assert spec.value("table.handover") == spec.value("driver.handover")


def test_a_look_at_trio_does_not_make_a_thread_queue_for_a_free_mutex_that_barges() -> None:
    sim = Simulation()
    mutex = HostLock(
        Machine(sim, load("mi300a")), "mutex", lock_policy("barging"), 1e-6, category="compute", wait_category="threads"
    )

    async def wait() -> None:
        await mutex.enter(1e-9)
        mutex.release()

    async def main() -> None:
        await mutex.enter(0.0)
        waiter = sim.spawn(wait)
        await sim.sleep(1e-6)
        mutex.release()
        released = sim.now
        sim.operations_left = 0  # the next operation lets the scheduler look at Trio
        await mutex.enter(0.0)
        assert (sim.now, mutex.waiting[0].thread) == (released, waiter)
        mutex.release()

    sim.run(main)
