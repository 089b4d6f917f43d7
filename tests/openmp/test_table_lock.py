"""Who enters the device table, when, and what is accounted for it."""

from __future__ import annotations

from typing import Any

import pytest
from table_rig import HANDOVER, contend, device_table, table_on, together

from offloadrt.machine import Machine, load
from offloadrt.sim import Simulation


@pytest.mark.parametrize("gear", ["native", "turbo"])
class TestDeviceTable:
    def test_first_come_first_served(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        table = device_table(sim)
        assert contend(sim, table, 3) == [
            ("thread 0", 1.0), ("thread 1", 2.25), ("thread 2", 3.5),
            ("thread 0", 4.75), ("thread 1", 6.0), ("thread 2", 7.25),
        ]  # fmt: skip
        statistics = table.statistics()
        assert (statistics.acquired, statistics.contended, statistics.hold_s) == (6, 5, 7.25)
        assert statistics.wait_s == 1.0 + 2.25 + 2.5 + 2.5 + 2.5
        assert statistics.owner is None and statistics.tasks_waiting == 0

    def test_a_request_waits_in_the_queue_until_the_table_is_given_up(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        table = device_table(sim)

        async def holder() -> None:
            await table.enter(1.0)
            await sim.sleep(1.0)
            [request] = table.waiting
            assert (request.thread.name, request.seconds) == ("thread 1", 3.0)
            table.release()
            assert not table.waiting

        async def waiter() -> None:
            await table.enter(3.0)
            table.release()

        together(sim, table, holder, waiter)
        assert sim.now == 2.0 + HANDOVER + 3.0

    def test_waits_and_work_are_accounted_apart(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        machine = Machine(sim, load("alex-a100", {"jitter": 0.0}))
        table = table_on(machine, "fifo", HANDOVER)
        contend(sim, table, 2)
        seconds = machine.host_time.seconds
        assert seconds["runtime"] == 4 * 1.0 + 3 * HANDOVER
        assert seconds["table lock"] == table.statistics().wait_s

    def test_barging_lets_a_running_thread_overtake(self, gear: Any) -> None:
        """The woken thread still pays for its wake-up when the other has entered again."""
        sim = Simulation(gear=gear)
        assert contend(sim, device_table(sim, "barging"), 2) == [
            ("thread 0", 1.0), ("thread 0", 2.0), ("thread 1", 3.25), ("thread 1", 4.25),
        ]  # fmt: skip

    def test_under_barging_the_woken_thread_needs_a_core_before_it_tries_again(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        machine = Machine(sim, load("alex-a100", {"jitter": 0.0, "cpu.cores": 1}))
        table = table_on(machine, "barging", HANDOVER)
        log: list[tuple[str, float]] = []

        async def holder() -> None:
            await table.enter(1.0)
            table.release()
            await machine.cores.compute(5.0)

        async def waiter() -> None:
            await table.enter(1.0)
            log.append(("waiter", sim.now))
            table.release()

        together(sim, table, holder, waiter)
        assert log == [("waiter", 1.0 + HANDOVER + 5.0 + 1.0)], "the one core went to the waiter, then to the holder"

    def test_who_was_overtaken_keeps_its_place(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        table, log = device_table(sim, "barging"), list[str]()

        async def once() -> None:
            await table.enter(1.0)
            log.append(sim.current.name)
            table.release()

        async def twice() -> None:
            await once()
            await once()

        together(sim, table, twice, once, once)
        assert log == ["thread 0", "thread 0", "thread 1", "thread 2"]

    def test_uncontended_excludes_nobody(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        table = device_table(sim, **{"table.uncontended": True})
        contend(sim, table, 3)
        assert sim.now == 2.0
        assert table.statistics().contended == 0

    def test_only_the_holder_may_release(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        lock = device_table(sim)

        async def main() -> None:
            with pytest.raises(RuntimeError, match="main releases 'device table', which it does not hold"):
                lock.release()
            await lock.enter(0.0)
            with pytest.raises(RuntimeError, match="main acquires 'device table', which it holds"):
                await lock.enter(0.0)
            lock.release()

        sim.run(main)
