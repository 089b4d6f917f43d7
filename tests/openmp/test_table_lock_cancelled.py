"""A thread that stops waiting for the device table, or working there, gives back what it has."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest
from table_rig import HANDOVER, device_table, table_on, together

from offloadrt.machine import Machine, load
from offloadrt.machine.host_lock import HostLock
from offloadrt.sim import Lock, Signal, Simulation


@pytest.mark.parametrize("gear", ["native", "turbo"])
class TestCancellation:
    """A cancelled thread is queued for the table, queued for a core with it, or at work: it gives back what it has."""

    @pytest.mark.parametrize("policy", ["fifo", "barging"])
    @pytest.mark.parametrize(
        ("cores", "patience"), [(64, 1.5), (64, 2.1), (64, 2.5), (2, 2.5), (2, 1.5), (1, 2.1), (1, 3.0), (2, 9.0)]
    )
    def test_whoever_comes_after_gets_the_table_and_the_core(
        self, gear: Any, policy: str, cores: int, patience: float
    ) -> None:
        sim = Simulation(gear=gear)
        machine = Machine(sim, load("alex-a100", {"jitter": 0.0, "cpu.cores": cores}))
        table, log = table_on(machine, policy, HANDOVER), list[float]()

        async def holder() -> None:
            await table.enter(2.0)
            table.release()

        async def impatient() -> None:
            with sim.move_on_after(patience):
                await table.enter(1.0)
                table.release()

        async def patient() -> None:
            await sim.sleep(1.0)
            await table.enter(1.0)
            log.append(sim.now)
            table.release()

        async def others() -> None:
            for _ in range(4):
                await machine.cores.compute(1.0)

        together(sim, table, holder, impatient, patient, others)
        assert len(log) == 1
        statistics = table.statistics()
        assert (statistics.owner, statistics.tasks_waiting) == (None, 0)
        assert machine.cores.statistics().busy_s <= cores * sim.now
        assert machine.cores._busy == 0, "every core was given back"

    def test_a_wait_that_is_cut_short_counts_as_that_for_any_lock(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        table, plain = device_table(sim), Lock(sim, "plain")

        def take(lock: HostLock | Lock) -> Awaitable[None]:
            return lock.enter(0.0) if isinstance(lock, HostLock) else lock.acquire()

        async def waiter(lock: HostLock | Lock, patience: float) -> None:
            with sim.move_on_after(patience):
                await take(lock)
                lock.release()

        async def main() -> None:
            for lock in (table, plain):
                await take(lock)
            async with sim.open_nursery() as nursery:
                for patience in (0.5, 2.0):
                    for lock in (table, plain):
                        nursery.spawn(waiter, lock, patience)
                await sim.sleep(1.0)
                for lock in (table, plain):
                    lock.release()

        sim.run(main)
        assert (table.statistics().contended, table.statistics().wait_s) == (2, 1.5)
        assert (plain.statistics().contended, plain.statistics().wait_s) == (2, 1.5)

    @pytest.mark.parametrize("policy", ["fifo", "barging"])
    def test_whoever_is_cancelled_when_it_is_free_passes_it_on(self, gear: Any, policy: str) -> None:
        sim = Simulation(gear=gear)
        lock, free = device_table(sim, policy), Signal(sim, "free")
        got: list[float] = []

        async def waiter() -> None:
            await lock.enter(0.0)
            got.append(sim.now)
            lock.release()

        async def cancelled() -> None:
            async with sim.open_nursery() as nursery:
                nursery.spawn(waiter)
                await free.wait()
                nursery.cancel()

        async def main() -> None:
            await lock.enter(0.0)
            async with sim.open_nursery() as nursery:
                nursery.spawn(cancelled)
                await sim.sleep(1.0)
                nursery.spawn(waiter)
                await sim.sleep(1.0)
                lock.release()
                free.set()

        sim.run(main)
        assert got == [2.0 + HANDOVER] and lock.statistics().tasks_waiting == 0
