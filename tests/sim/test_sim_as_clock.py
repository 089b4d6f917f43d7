"""The simulation as the clock of a Trio run: what it relies on in Trio, and runs that somebody else has started."""

import re

import pytest
import trio
from error_leaves import leaves

from offloadrt.sim import Lock, Mailbox, Signal, Simulation, SimulationError, Station


async def test_trio_asks_the_clock_only_when_its_run_queue_is_empty():
    """The scheduler stands on this; ``deadline_to_sleep_time`` promises no more than the time to sleep."""

    class RunQueue(trio.abc.Instrument):
        runnable = 0

        def task_scheduled(self, task):
            self.runnable += 1

        def before_task_step(self, task):
            self.runnable -= 1

    class Clock(trio.abc.Clock):
        now, asked = 0.0, []

        def start_clock(self):
            pass

        def current_time(self):
            return self.now

        def deadline_to_sleep_time(self, deadline):
            self.asked.append(queue.runnable)
            self.now = min(deadline, self.now + 1e3)
            return 0

    async def child(i):
        for k in range(5):
            await trio.sleep((i * k) % 3)
            await trio.lowlevel.checkpoint()

    async def main():
        async with trio.open_nursery() as nursery:
            for i in range(10):
                nursery.start_soon(child, i)

    queue, clock = RunQueue(), Clock()
    await trio.to_thread.run_sync(lambda: trio.run(main, clock=clock, instruments=[queue]))
    assert len(clock.asked) >= 5 and not any(clock.asked)


@pytest.fixture(params=["native", "turbo"])
def clock(request):
    """pytest-trio takes a fixture that is a clock as the clock of the test's run."""
    return Simulation(gear=request.param)


async def test_virtual_time_passes_in_a_trio_run_of_somebody_else(clock):
    async with clock.running_here(), clock.adopt("test") as me:
        lock, log = Lock(clock, "lock"), []

        async def host(i):
            async with lock:
                await clock.sleep(1)
            log.append(i)

        for i in range(3):
            clock.spawn(host, i)
        await clock.sleep(0.5)
        async with lock:
            log.append(me.name)
        await trio.sleep(1)
        with clock.move_on_after(1) as scope:
            await Signal(clock, "never").wait()
    assert (log, clock.now, scope.timed_out) == ([0, 1, 2, "test"], 5.0, True)


async def test_adopting_twice_gives_the_same_actor(clock):
    async with clock.running_here(), clock.adopt("test") as me:
        async with clock.adopt("again") as again:
            assert again is me
        await clock.sleep(1)


async def test_a_deadlock_in_an_adopted_test_is_reported_and_not_waited_for(clock):
    with pytest.raises(BaseExceptionGroup) as caught:
        async with clock.running_here(), clock.adopt("test"):
            await Signal(clock, "never").wait()
    assert "test waits on never" in str(leaves(caught.value)[0])


async def test_daemons_end_with_the_body(clock):
    async def service():
        while True:
            await clock.sleep(1)

    async with clock.running_here(), clock.adopt():
        clock.spawn(service, daemon=True)
        await clock.sleep(3.5)
    assert clock.now == 3.5


def test_a_simulation_runs_once(sim):
    async def main():
        pass

    sim.run(main)
    with pytest.raises(SimulationError, match="runs once"):
        sim.run(main)


def test_an_unknown_gear_is_an_error():
    with pytest.raises(ValueError, match="gear is 'fifth'; it can be 'native' or 'turbo'"):
        Simulation(gear="fifth")


def test_trio_calls_no_instrument_before_an_actor_may_wait_in_it(monkeypatch):
    sim, added = Simulation(gear="native"), []
    add = trio.lowlevel.add_instrument
    monkeypatch.setattr(trio.lowlevel, "add_instrument", lambda one: (added.append(sim.now), add(one)))
    lock, station, box = Lock(sim, "lock"), Station(sim, 1, "station"), Mailbox(sim, "box")

    async def child():
        async with lock:
            await sim.sleep(1)
        await station.serve(1)
        await box.get()

    async def main():
        for _ in range(3):
            sim.spawn(child)
            await sim.sleep(0)
        await sim.sleep(5)
        for _ in range(3):
            box.put("message")
        await sim.sleep(1)
        assert added == []
        await trio.sleep(1)
        await sim.sleep(1)

    sim.run(main)
    assert added[0] == 6


async def test_a_deadline_of_trio_that_has_passed_already_is_due_at_once(clock):
    async with clock.running_here(), clock.adopt():
        await clock.sleep(2)
        async with clock.attached():
            with trio.CancelScope() as scope:
                scope.deadline = 1.0
                await trio.sleep_forever()
        assert scope.cancelled_caught and clock.now == 2.0


async def test_a_run_of_nobody_ends_at_once(clock):
    async with clock.running_here():
        pass
    assert clock.now == 0.0


async def test_clean_up_that_waits_for_ever_in_a_cancelled_run_is_a_deadlock_and_no_hang(clock):
    never = Signal(clock, "never")

    async def stubborn():
        try:
            await clock.sleep(100)
        finally:
            with trio.CancelScope(shield=True):
                await never.wait()

    async def cancelled_run():
        with trio.CancelScope() as scope:
            async with clock.running_here(), clock.adopt():
                clock.spawn(stubborn)
                await clock.sleep(1)
                scope.cancel()
                await clock.sleep(1)

    with pytest.raises(BaseExceptionGroup) as caught:
        await cancelled_run()
    assert any(re.search(r"stubborn waits on never \(.*\) since t=1", str(error)) for error in leaves(caught.value))
