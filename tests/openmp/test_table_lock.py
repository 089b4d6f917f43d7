"""Who enters the device table, when, and what is accounted for it."""

from __future__ import annotations

from typing import Any

import pytest
from table_rig import HANDOVER, arbiter, contend, together

from offloadrt.machine import Machine, load
from offloadrt.machine.host_lock import lock_policy
from offloadrt.runtime.mapping.table_arbiter import TableArbiter
from offloadrt.sim import Simulation


@pytest.mark.parametrize("gear", ["native", "turbo"])
class TestDeviceTable:
    def test_first_come_first_served(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        table = arbiter(sim)
        assert contend(sim, table, 3) == [
            ("thread 0", 1.0), ("thread 1", 2.25), ("thread 2", 3.5),
            ("thread 0", 4.75), ("thread 1", 6.0), ("thread 2", 7.25),
        ]  # fmt: skip
        statistics = table.lock.statistics()
        assert (statistics.acquired, statistics.contended, statistics.hold_s) == (6, 5, 7.25)
        assert statistics.wait_s == 1.0 + 2.25 + 2.5 + 2.5 + 2.5
        assert statistics.owner is None and statistics.tasks_waiting == 0

    def test_a_request_waits_in_the_mailbox_and_leaves_the_actor_asleep(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        table = arbiter(sim)

        async def holder() -> None:
            await table.lock.enter(1.0)
            await sim.sleep(1.0)
            [request] = table._requests.items
            assert (request.thread.name, request.seconds) == ("thread 1", 3.0)
            assert len(table._requests.getters) == 1, "the actor sleeps on"
            table.lock.release()
            assert not table._requests.items

        async def waiter() -> None:
            await table.lock.enter(3.0)
            table.lock.release()

        together(sim, table, holder, waiter)
        assert sim.now == 2.0 + HANDOVER + 3.0

    def test_waits_and_work_are_accounted_apart(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        machine = Machine(sim, load("alex-a100", {"jitter": 0.0}))
        table = TableArbiter(machine, "device table", lock_policy("fifo"), HANDOVER)
        contend(sim, table, 2)
        seconds = machine.host_time.seconds
        assert seconds["runtime"] == 4 * 1.0 + 3 * HANDOVER
        assert seconds["table lock"] == table.lock.statistics().wait_s

    def test_barging_lets_a_running_thread_overtake(self, gear: Any) -> None:
        """The woken thread still pays for its wake-up when the other has entered again."""
        sim = Simulation(gear=gear)
        assert contend(sim, arbiter(sim, "barging"), 2) == [
            ("thread 0", 1.0), ("thread 0", 2.0), ("thread 1", 3.25), ("thread 1", 4.25),
        ]  # fmt: skip

    def test_under_barging_the_woken_thread_needs_a_core_before_it_tries_again(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        machine = Machine(sim, load("alex-a100", {"jitter": 0.0, "cpu.cores": 1}))
        table = TableArbiter(machine, "device table", lock_policy("barging"), HANDOVER)
        log: list[tuple[str, float]] = []

        async def holder() -> None:
            await table.lock.enter(1.0)
            table.lock.release()
            await machine.cores.compute(5.0)

        async def waiter() -> None:
            await table.lock.enter(1.0)
            log.append(("waiter", sim.now))
            table.lock.release()

        together(sim, table, holder, waiter)
        assert log == [("waiter", 1.0 + HANDOVER + 5.0 + 1.0)], "the one core went to the waiter, then to the holder"

    def test_who_was_overtaken_keeps_its_place(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        table, log = arbiter(sim, "barging"), list[str]()

        async def once() -> None:
            await table.lock.enter(1.0)
            log.append(sim.current.name)
            table.lock.release()

        async def twice() -> None:
            await once()
            await once()

        together(sim, table, twice, once, once)
        assert log == ["thread 0", "thread 0", "thread 1", "thread 2"]

    def test_uncontended_excludes_nobody(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        table = arbiter(sim, **{"table.uncontended": True})
        contend(sim, table, 3)
        assert sim.now == 2.0
        assert table.lock.statistics().contended == 0

    def test_only_the_holder_may_release(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        lock = arbiter(sim).lock

        async def main() -> None:
            with pytest.raises(RuntimeError, match="main releases 'device table', which it does not hold"):
                lock.release()
            await lock.enter(0.0)
            with pytest.raises(RuntimeError, match="main acquires 'device table', which it holds"):
                await lock.enter(0.0)
            lock.release()

        sim.run(main)


def test_the_device_table_says_what_it_does_not_understand() -> None:
    sim = Simulation()
    table = arbiter(sim)

    async def body() -> None:
        table._requests.put("open sesame")
        await sim.sleep(1)

    with pytest.raises(TypeError, match="the device table does not understand 'open sesame'"):
        together(sim, table, body)
