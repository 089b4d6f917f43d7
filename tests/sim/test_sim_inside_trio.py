"""The border to Trio: what an actor may use, what is an error and says so, and the clock hook all this stands on."""

import socket

import pytest
import trio
from error_leaves import leaves

from offloadrt.sim import (
    DetachedTrioCall,
    Lock,
    Mailbox,
    RealInputOutput,
    Signal,
    Simulation,
    SimulationError,
    Station,
    UncontrolledNondeterminism,
    UnregisteredTask,
)


def test_trio_sleeps_times_out_and_nests_in_virtual_time(sim):
    log = []

    async def noise():
        for _ in range(1000):
            await sim.sleep(0.01)

    async def child(i):
        await trio.sleep(i)
        log.append((i, sim.now))

    async def main():
        sim.spawn(noise)
        await sim.sleep(1)
        async with sim.attached():
            await trio.sleep(0.25)
            with trio.move_on_after(2) as scope:
                await trio.sleep(50)
            log.append((scope.cancelled_caught, trio.current_time(), sim.now))
            with trio.move_on_after(1.5) as scope:
                await sim.sleep(50)
            log.append((scope.cancelled_caught, sim.now))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(child, 2)
                nursery.start_soon(child, 1)
            done = trio.Event()
            done.set()
            await done.wait()
        await sim.sleep(1)
        return sim.now

    assert sim.run(main) == 7.75
    assert log == [(True, 3.25, 3.25), (True, 4.75), (1, 5.75), (2, 6.75)]


async def sleeps():
    await trio.sleep(1)


async def opens_a_scope():
    with trio.move_on_after(1):
        await trio.sleep(0)


async def opens_a_nursery():
    async with trio.open_nursery():
        pass


async def checkpoints():
    await trio.lowlevel.checkpoint()


async def waits_for_an_event():
    await trio.Event().wait()


async def uses_a_thread():
    await trio.to_thread.run_sync(int)


RAW = [sleeps, opens_a_scope, opens_a_nursery, checkpoints, waits_for_an_event, uses_a_thread]


@pytest.mark.parametrize("slice", [1, 2, 3, 2000])
@pytest.mark.parametrize("raw", RAW)
def test_a_raw_call_of_a_detached_actor_gets_an_error_that_says_how(raw, slice):
    sim = Simulation(gear="turbo", slice=slice)

    async def main():
        await sim.sleep(1)
        await raw()

    with pytest.raises(DetachedTrioCall, match=r"t=1: main made a plain Trio call .*sim\.attached\(\)"):
        sim.run(main)


@pytest.mark.parametrize("raw", RAW)
def test_the_same_in_the_body_of_a_nursery(raw):
    sim = Simulation(gear="turbo")

    async def main():
        async with sim.open_nursery() as nursery:
            nursery.spawn(sim.sleep, 9)
            await raw()

    with pytest.raises(DetachedTrioCall, match="main made a plain Trio call"):
        sim.run(main)


def test_a_detached_actor_that_wakes_a_plain_task_gets_the_same_error():
    sim = Simulation(gear="turbo")

    async def waiter(event):
        async with sim.attached():
            await event.wait()

    async def main():
        event = trio.Event()
        sim.spawn(waiter, event)
        await sim.sleep(1)
        event.set()
        await sim.sleep(1)

    with pytest.raises(DetachedTrioCall, match="t=1: main"):
        sim.run(main)


def test_an_attached_actor_may_wake_a_plain_task(sim):
    async def waiter(event):
        async with sim.attached():
            await event.wait()
        return sim.now

    async def main():
        event = trio.Event()
        actor = sim.spawn(waiter, event)
        await sim.sleep(1)
        async with sim.attached():
            event.set()
        await sim.sleep(1)
        return actor.value

    assert sim.run(main) == 1.0


def test_two_raw_timers_at_one_instant_are_reported_with_both_names(sim):
    async def raw(dt):
        async with sim.attached():
            await trio.sleep(dt)

    async def main():
        sim.spawn(raw, 1, name="alone")
        sim.spawn(raw, 2, name="left hand")
        sim.spawn(raw, 2, name="right hand")

    with pytest.raises(UncontrolledNondeterminism, match=r"t=2: Trio woke '(left|right) hand' and '(left|right) hand'"):
        sim.run(main)


def test_two_plain_tasks_woken_by_one_event_are_reported(sim):
    async def main():
        async with sim.attached(), trio.open_nursery() as nursery:
            event = trio.Event()
            nursery.start_soon(event.wait, name="left hand")
            nursery.start_soon(event.wait, name="right hand")
            await trio.sleep(1)
            event.set()

    with pytest.raises(UncontrolledNondeterminism, match=r"left hand.*right hand|right hand.*left hand"):
        sim.run(main)


def test_a_primitive_in_a_plain_task_is_an_error_that_says_so(sim):
    async def child(lock):
        await lock.acquire()

    async def main():
        async with sim.attached(), trio.open_nursery() as nursery:
            nursery.start_soon(child, Lock(sim, "lock"))

    with pytest.raises(UnregisteredTask, match=r"a plain Trio task \(a child of 'main'\).*sim\.open_nursery\(\)"):
        sim.run(main)


def test_a_primitive_outside_the_run_is_an_error_that_says_so(sim):
    async def main():
        await sim.sleep(1)

    with pytest.raises(UnregisteredTask, match=r"outside its actors; use sim\.run"):
        trio.run(main)


def test_a_primitive_of_another_run_is_an_error(sim):
    async def main():
        await Simulation().sleep(1)

    with pytest.raises(UnregisteredTask):
        sim.run(main)


def test_a_thread_is_an_error_and_no_deadlock(sim):
    async def main():
        async with sim.attached():
            await trio.to_thread.run_sync(lambda: None)

    with pytest.raises(RealInputOutput, match=r"t=0: 'main' .* outside virtual time \(a thread"):
        sim.run(main)


def test_a_thread_beside_actors_whose_time_passes_is_an_error_too(sim):
    async def busy():
        while True:
            await sim.sleep(1)

    async def main():
        sim.spawn(busy)
        async with sim.attached():
            await trio.to_thread.run_sync(lambda: None)

    with pytest.raises(RealInputOutput, match=r"'main' (waits for|was woken by) something outside virtual time"):
        sim.run(main)


def test_a_socket_is_an_error_and_no_deadlock(sim):
    async def main():
        left, right = socket.socketpair()
        with left, right:
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(left))
            async with sim.attached():
                await stream.receive_some(1)

    with pytest.raises(RealInputOutput, match="'main' waits for something outside virtual time"):
        sim.run(main)


def test_a_plain_task_that_uses_a_thread_is_found_below_its_actor(sim):
    async def main():
        async with sim.attached(), trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, lambda: None, name="reader")

    with pytest.raises(RealInputOutput, match="reader"):
        sim.run(main)


@pytest.mark.parametrize("ticks", [5, 10**9])
def test_wait_all_tasks_blocked_is_an_error_that_says_so(sim, ticks):
    async def neighbour():
        for _ in range(ticks):
            await sim.sleep(1)

    async def main():
        sim.spawn(neighbour)
        async with sim.attached():
            await trio.testing.wait_all_tasks_blocked()

    with pytest.raises(SimulationError, match=r"'main' waits in trio\.testing\.wait_all_tasks_blocked\(\)"):
        sim.run(main)


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


@pytest.mark.parametrize("spawned", [0, 1, 2])
def test_a_plain_task_is_noticed_beside_new_actors(spawned):
    sim = Simulation(gear="native")
    event = trio.Event()

    async def waits():
        await event.wait()

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waits, name="left hand")
            nursery.start_soon(waits, name="right hand")
            for _ in range(spawned):
                sim.spawn(sim.sleep, 1)
            await sim.sleep(2)
            event.set()
            await sim.sleep(1)

    with pytest.raises(UncontrolledNondeterminism, match=r"left hand.*right hand|right hand.*left hand"):
        sim.run(main)
