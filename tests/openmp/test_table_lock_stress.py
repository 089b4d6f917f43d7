"""The device table under ties and timeouts: one holder at a time, and everybody gets it."""

from __future__ import annotations

import random
from typing import Literal

import pytest
from table_rig import table_on

from offloadrt.machine import Machine, load
from offloadrt.sim import Random, Simulation

POLICIES = ["fifo", "barging"]
GEARS = ["native", "turbo"]
Gear = Literal["native", "turbo"]


def machine_of(sim: Simulation, cores: int) -> Machine:
    return Machine(sim, load("alex-a100", {"jitter": 0.0, "cpu.cores": cores}))


@pytest.mark.parametrize("gear", GEARS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cancel", [False, True])
@pytest.mark.parametrize("cores", [2, 64])
def test_one_holder_at_a_time_whatever_the_order(policy: str, gear: Gear, cancel: bool, cores: int) -> None:
    for seed in range(12):
        assert most_inside(policy, gear, cancel, cores, seed) == 1


def most_inside(policy: str, gear: Gear, cancel: bool, cores: int, seed: int) -> int:
    """Four actors use the table sixty times each, on a grid of times; some give up while they wait or work."""
    sim = Simulation(gear=gear, strategy=Random(seed))
    rng = random.Random(seed)
    machine = machine_of(sim, cores)
    table = table_on(machine, policy, 1e-6)
    inside = most = 0

    async def use(work: float, hold: float) -> None:
        nonlocal inside, most
        await table.enter(work)
        inside += 1
        most = max(most, inside)
        try:
            await sim.sleep(hold)
        finally:
            inside -= 1
            table.release()

    async def member() -> None:
        for _ in range(60):
            await sim.sleep(rng.randrange(5) * 1e-6)
            work, hold, patience = (rng.randrange(5) * 1e-6 for _ in range(3))
            if cancel and rng.random() < 0.4:
                with sim.move_on_after(patience):
                    await use(work, hold)
            else:
                await use(work, hold)

    async def main() -> None:
        async with sim.open_nursery() as nursery:
            for _ in range(4):
                nursery.spawn(member)
        assert table.owner is None and not table.waiting
        before = machine.cores.statistics().busy_s
        await sim.sleep(1.0)
        assert machine.cores.statistics().busy_s == pytest.approx(before), "every core was given back"

    sim.run(main)
    return most


@pytest.mark.parametrize("gear", GEARS)
@pytest.mark.parametrize("policy", POLICIES)
def test_who_enters_after_a_waiter_gave_up_can_be_followed(policy: str, gear: Gear) -> None:
    sim = Simulation(gear=gear)
    lock, got = table_on(machine_of(sim, 64), policy, 0.0), list[float]()

    async def holder() -> None:
        for _ in range(2):
            await lock.enter(2.0)
            lock.release()
        await lock.enter(0.0)
        got.append(sim.now)
        lock.release()

    async def impatient() -> None:
        await sim.sleep(1.0)
        with sim.move_on_after(0.5):
            await lock.enter(0.0)

    async def main() -> None:
        async with sim.open_nursery() as nursery:
            nursery.spawn(holder)
            nursery.spawn(impatient)

    sim.run(main)
    assert got == [4.0]
