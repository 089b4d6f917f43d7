"""What an actor may call of Trio itself, and the error for what it may not."""

import math

import pytest
import trio

from offloadrt.sim import (
    DetachedTrioCall,
    Lock,
    Mailbox,
    RWLock,
    Semaphore,
    Signal,
    Simulation,
    Station,
    UncontrolledNondeterminism,
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


async def takes_a_lock():
    async with trio.Lock():
        pass


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

    with pytest.raises(DetachedTrioCall, match=r"test_sim_trio_calls.py:\d+: t=1: main calls .*sim\.attached\(\)"):
        sim.run(main)


@pytest.mark.parametrize("raw", RAW)
def test_a_raw_call_in_the_body_of_a_nursery_gets_an_error_that_says_how(raw):
    sim = Simulation(gear="turbo")

    async def main():
        async with sim.open_nursery() as nursery:
            nursery.spawn(sim.sleep, 9)
            await raw()

    with pytest.raises(DetachedTrioCall, match=r"^test_sim_trio_calls.py:\d+: t=0: main calls"):
        sim.run(main)


def test_the_error_of_a_sleep_says_where_it_is_and_what_to_write_instead():
    with pytest.raises(DetachedTrioCall) as caught:
        Simulation(gear="turbo").run(sleeps)
    assert str(caught.value) == (
        f"test_sim_trio_calls.py:{sleeps.__code__.co_firstlineno + 1}: t=0: main calls trio.sleep, which works only "
        "inside 'async with run.sim.attached():'; write 'await t.compute(seconds)' for work, "
        "'await run.sim.sleep(seconds)' for a pause"
    )


@pytest.mark.parametrize(
    ("raw", "name", "instead"),
    [
        (checkpoints, "trio.lowlevel.checkpoint", "the primitives of offloadrt.sim"),
        (waits_for_an_event, "trio.Event.wait", r"offloadrt.sim.Signal\(run.sim, 'name'\)"),
        (takes_a_lock, "trio.Lock", r"offloadrt.sim.Lock\(run.sim, 'name'\)"),
        (opens_a_nursery, "trio.NurseryManager", r"run.sim.open_nursery\(\)"),
        (opens_a_scope, "trio.CancelScope", r"run.sim.move_on_after\(seconds\) or run.sim.fail_after\(seconds\)"),
    ],
)
def test_the_error_names_the_call_and_what_to_use_instead(raw, name, instead):
    with pytest.raises(DetachedTrioCall, match=rf"main calls {name}, .*; use {instead}\n"):
        Simulation(gear="turbo").run(raw)


def test_a_detached_actor_that_wakes_a_plain_task_gets_an_error():
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

    with pytest.raises(DetachedTrioCall, match=r"test_sim_trio_calls.py:\d+: t=1: main calls trio.Event.set"):
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


def test_who_catches_the_error_of_a_raw_call_goes_on_as_an_actor():
    sim, log = Simulation(gear="turbo"), []
    done = Signal(sim, "done")

    async def main():
        sim.spawn(setter)
        try:
            await trio.lowlevel.checkpoint()
        except DetachedTrioCall:
            log.append("caught")
        log.append((await done.wait(), sim.now))

    async def setter():
        await sim.sleep(1)
        done.set("value")

    sim.run(main)
    assert log == ["caught", ("value", 1.0)]


@pytest.mark.parametrize("error", [IndexError, TypeError])
def test_an_error_of_a_timer_is_not_taken_for_an_empty_heap_or_a_foreign_step(gear, error):
    """Items of the floors above stand in the heap too; the scheduler must not swallow what their steps raise."""

    class Broken:
        is_actor = False

        def send(self, _):
            raise error("of the timer")

    sim = Simulation(gear=gear)
    sim.heap = [(1.0, 1, Broken()), (2.0, 2, Broken())]
    with pytest.raises(error, match="of the timer"):
        sim.deadline_to_sleep_time(math.inf)


def test_whom_trio_has_just_woken_may_use_every_primitive(sim):
    lock, tables, units, engine = (Lock(sim, "lock"), RWLock(sim, "tables"), Semaphore(sim, 1, "units"),
                                   Station(sim, 1, "engine"))  # fmt: skip
    box, asked, done = Mailbox(sim, "box"), Mailbox(sim, "asked"), Signal(sim, "done")
    got = []

    async def other():
        await sim.sleep(0.5)
        for _ in range(12):
            await sim.sleep(1)
            box.put(sim.now)
        done.set("set")

    async def server():
        while True:
            (await asked.get()).reply("reply")

    async def main():
        sim.spawn(other)
        sim.spawn(server, daemon=True)
        async with sim.attached():
            for use in (lock.acquire, lock.release, tables.acquire_read, tables.release, tables.acquire_write,
                        tables.release, units.acquire, lambda: engine.serve(0.25), lambda: asked.call("?"),
                        lambda: box.get_until(99.0), box.get, done.wait):  # fmt: skip
                await trio.sleep(sim.now // 1 + 1 - sim.now)
                if (waiting := use()) is not None:
                    got.append(await waiting)

    sim.run(main)
    assert [value for value in got if value is not None] == ["reply", 1.5, 2.5, "set"]
    assert lock.owner is None and tables.holders() == [] and units.value == 0 and engine.served == 1
