"""The device table lock under ties and timeouts, taken in both ways: one holder at a time, and everybody gets it."""

from __future__ import annotations

import random
from typing import Literal

import pytest

from offloadrt.runtime.barging_table_lock import BargingTableLock
from offloadrt.runtime.table_lock import DeviceTableLock
from offloadrt.sim import Random, Simulation

Lock = type[DeviceTableLock]
LOCKS = [DeviceTableLock, BargingTableLock]
GEARS = ["native", "turbo"]


@pytest.mark.parametrize("gear", GEARS)
@pytest.mark.parametrize("kind", LOCKS)
@pytest.mark.parametrize("cancel", [False, True])
def test_one_holder_at_a_time_whatever_the_order(kind: Lock, gear: Literal["native", "turbo"], cancel: bool) -> None:
    for seed in range(12):
        assert most_inside(kind, gear, cancel, seed) == 1


def most_inside(kind: Lock, gear: Literal["native", "turbo"], cancel: bool, seed: int) -> int:
    """Four actors use the lock sixty times each, on a grid of times; some give up while they wait."""
    sim = Simulation(gear=gear, strategy=Random(seed))
    rng = random.Random(seed)
    inside = most = 0

    async def use(lock: DeviceTableLock, hold: float) -> None:
        nonlocal inside, most
        lock.take_now() or await lock.acquire()
        inside += 1
        most = max(most, inside)
        try:
            await sim.sleep(hold)
        finally:
            inside -= 1
            lock.release()

    async def member(lock: DeviceTableLock) -> None:
        for _ in range(60):
            await sim.sleep(rng.randrange(5) * 1e-6)
            hold, patience = rng.randrange(5) * 1e-6, rng.randrange(5) * 1e-6
            if cancel and rng.random() < 0.4:
                with sim.move_on_after(patience):
                    await use(lock, hold)
            else:
                await use(lock, hold)

    async def main() -> None:
        lock = kind(sim, "table")
        lock.start()
        async with sim.open_nursery() as nursery:
            for _ in range(4):
                nursery.spawn(member, lock)
        assert lock.owner is None

    sim.run(main)
    return most


@pytest.mark.parametrize("gear", GEARS)
@pytest.mark.parametrize("kind", LOCKS)
def test_a_taker_after_a_waiter_gave_up_can_be_followed(kind: Lock, gear: Literal["native", "turbo"]) -> None:
    sim = Simulation(gear=gear)
    got = []

    async def holder(lock: DeviceTableLock) -> None:
        await lock.acquire()
        await sim.sleep(2.0)
        lock.release()
        lock.take_now() or await lock.acquire()
        await sim.sleep(1.0)
        lock.release()
        await sim.sleep(1.0)
        await lock.acquire()
        got.append(sim.now)
        lock.release()

    async def impatient(lock: DeviceTableLock) -> None:
        await sim.sleep(1.0)
        with sim.move_on_after(0.5):
            await lock.acquire()

    async def main() -> None:
        lock = kind(sim, "table")
        lock.start()
        async with sim.open_nursery() as nursery:
            nursery.spawn(holder, lock)
            nursery.spawn(impatient, lock)

    sim.run(main)
    assert got == [4.0]
