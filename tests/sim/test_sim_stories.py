"""What a run tells when it goes wrong: crashes, deadlocks; and what ends it: daemons do not keep it alive."""

import pytest
import trio
from error_leaves import leaves

from offloadrt.sim import Deadlock, Lock, Mailbox, RWLock, Semaphore, Signal, SimulationError, Station


def line_of(function):
    """The line of a function's head."""
    return function.__code__.co_firstlineno


def test_a_crash_cancels_the_others_and_runs_their_clean_up_at_the_right_time(sim):
    lock, cleaned = Lock(sim, "device table"), []

    async def holder():
        async with lock:
            try:
                await sim.sleep(100)
            finally:
                cleaned.append(("holder", sim.now))

    async def waiter():
        try:
            await lock.acquire()
        finally:
            cleaned.append(("waiter", sim.now))

    async def slow():
        try:
            await sim.sleep(100)
        finally:
            with trio.CancelScope(shield=True):
                await sim.sleep(2)
            cleaned.append(("slow", sim.now))

    async def broken():
        await sim.sleep(1.5)
        raise ValueError("boom")

    async def main():
        for body in (holder, waiter, slow, broken):
            sim.spawn(body, name=body.__name__)

    with pytest.raises(ValueError, match="boom") as caught:
        sim.run(main)
    assert cleaned == [("holder", 1.5), ("waiter", 1.5), ("slow", 3.5)]
    assert caught.value.__notes__ == [
        "raised in broken at t=1.5 s of virtual time",
        f"waiter waits on device table (test_sim_stories.py:{line_of(waiter) + 2}) since t=0 held by holder",
    ]
    assert lock.owner is None


def test_a_crash_tells_the_last_waits_of_who_crashed(sim):
    async def main():
        lock = Lock(sim, "tables")
        sim.spawn(hold, lock)
        await sim.sleep(1)
        async with lock:
            raise KeyError("x")

    async def hold(lock):
        async with lock:
            await sim.sleep(3)

    with pytest.raises(KeyError) as caught:
        sim.run(main)
    assert caught.value.__notes__ == ["raised in main at t=3 s of virtual time", "its last waits: tables at t=1"]


def test_a_crash_keeps_its_cause_and_its_context(sim):
    async def main():
        await sim.sleep(1)
        try:
            raise KeyError("cause")
        except KeyError as cause:
            raise ValueError("boom") from cause

    with pytest.raises(ValueError, match="boom") as caught:
        sim.run(main)
    assert isinstance(caught.value.__cause__, KeyError) and isinstance(caught.value.__context__, KeyError)


def test_several_crashes_at_one_instant_come_as_a_group(sim):
    async def broken(i):
        try:
            await sim.sleep(1)
        finally:
            raise ValueError(i)

    async def main():
        for i in range(3):
            sim.spawn(broken, i)

    with pytest.raises(BaseExceptionGroup) as caught:
        sim.run(main)
    assert sorted(error.args[0] for error in leaves(caught.value)) == [0, 1, 2]


def test_a_crash_in_a_child_is_caught_around_its_nursery(sim):
    async def family():
        async with sim.open_nursery() as nursery:
            nursery.spawn(broken)
            await sim.sleep(9)

    async def broken():
        await sim.sleep(1)
        raise ValueError("boom")

    async def main():
        with pytest.raises(BaseExceptionGroup) as caught:
            await family()
        await sim.sleep(1)
        return leaves(caught.value), sim.now

    errors, now = sim.run(main)
    assert (str(errors[0]), now) == ("boom", 2.0)


def test_a_deadlock_names_everybody_what_they_wait_for_who_holds_it_and_what_came_before(sim):
    a, b = Lock(sim, "A"), Lock(sim, "B")

    async def host(first, second):
        async with first:
            await sim.sleep(1)
            async with second:
                pass

    async def earlier():
        async with a:
            await sim.sleep(0.5)

    async def main():
        sim.spawn(earlier, name="earlier")
        sim.spawn(host, a, b, name="host 0")
        sim.spawn(host, b, a, name="host 1")

    with pytest.raises(Deadlock) as caught:
        sim.run(main)
    place = f"(test_sim_stories.py:{line_of(host) + 3})"
    assert str(caught.value) == (
        "t=1.5: 2 actors wait, nothing is ready and no timer is pending\n"
        f"  host 0 waits on B {place} since t=1.5 held by host 1; holds A; before: A at t=0\n"
        f"  host 1 waits on A {place} since t=1 held by host 0; holds B"
    )


@pytest.mark.parametrize(
    ("wait", "told"),
    [
        (lambda sim: Signal(sim, "completion").wait(), "waits on completion"),
        (lambda sim: Mailbox(sim, "inbox").get(), "waits on inbox"),
        (lambda sim: Mailbox(sim, "driver").call("?"), "waits on a reply from driver"),
        (lambda sim: Semaphore(sim, 0, "units").acquire(), "waits on units"),
    ],
)
def test_a_deadlock_of_one_names_what_it_waits_for(sim, wait, told):
    async def main():
        await wait(sim)

    with pytest.raises(Deadlock, match=f"t=0: 1 actor waits.*\n  main {told} .*:\\d+. since t=0"):
        sim.run(main)


def test_a_deadlock_names_the_holders_of_a_readers_writer_lock(sim):
    async def reader(tables):
        await tables.acquire_read()
        await Signal(sim, "never").wait()

    async def main():
        tables = RWLock(sim, "tables")
        sim.spawn(reader, tables, name="reader 0")
        sim.spawn(reader, tables, name="reader 1")
        await sim.sleep(1)
        await tables.acquire_write()

    with pytest.raises(Deadlock, match=r"main waits on tables \(.*\) since t=1 held by reader 0, reader 1"):
        sim.run(main)


def test_an_actor_that_waits_in_trio_for_ever_is_told_as_such(sim):
    async def main():
        async with sim.attached():
            await trio.sleep_forever()

    with pytest.raises(Deadlock, match=r"main waits in trio.sleep_forever \(.*\), outside the primitives"):
        sim.run(main)


def test_a_deadlock_lets_clean_up_run(sim):
    cleaned = []

    async def main():
        try:
            await Signal(sim, "never").wait()
        finally:
            with trio.CancelScope(shield=True):
                await sim.sleep(2)
            cleaned.append(sim.now)

    with pytest.raises(Deadlock):
        sim.run(main)
    assert cleaned == [2.0]


def test_clean_up_that_waits_for_ever_is_ended_by_the_same_story(sim):
    async def main():
        try:
            await Signal(sim, "never").wait()
        finally:
            with trio.CancelScope(shield=True):
                await Signal(sim, "not this one either").wait()

    with pytest.raises((Deadlock, BaseExceptionGroup)) as caught:
        sim.run(main)
    assert {type(error) for error in leaves(caught.value)} == {Deadlock}


def test_daemons_that_wait_do_not_keep_a_run_alive(sim):
    async def driver(box):
        while True:
            (await box.get()).reply()

    async def main():
        box = Mailbox(sim, "box")
        sim.spawn(driver, box, daemon=True)
        await sim.sleep(1)
        await box.call("?")

    sim.run(main)
    assert sim.now == 1.0


def test_daemons_that_loop_on_a_timer_do_not_keep_a_run_alive(sim):
    ticks = []

    async def ticker():
        try:
            while True:
                await sim.sleep(1)
                ticks.append(sim.now)
        finally:
            ticks.append("ended")

    async def main():
        sim.spawn(ticker, daemon=True)
        await sim.sleep(3.5)

    sim.run(main)
    assert ticks == [1.0, 2.0, 3.0, "ended"] and sim.now == 3.5


def test_daemons_are_not_in_the_story_of_a_deadlock_but_hold_what_they_hold(sim):
    async def service(lock):
        async with lock:
            await Signal(sim, "work").wait()

    async def main():
        lock = Lock(sim, "lock")
        sim.spawn(service, lock, name="service", daemon=True)
        await sim.sleep(1)
        await lock.acquire()

    with pytest.raises(Deadlock, match=r"1 actor waits.*\n  main waits on lock \(.*\) since t=1 held by service$"):
        sim.run(main)


def test_a_crash_of_a_daemon_ends_the_run(sim):
    async def service():
        await sim.sleep(1)
        raise ValueError("boom")

    async def main():
        sim.spawn(service, daemon=True)
        await sim.sleep(9)

    with pytest.raises(ValueError, match="boom"):
        sim.run(main)
    assert sim.now == 1.0


def test_main_returns_its_value_and_others_may_outlive_it(sim):
    async def longer():
        await sim.sleep(5)

    async def main(x):
        sim.spawn(longer)
        return x + 1

    assert (sim.run(main, 41), sim.now) == (42, 5.0)


def test_spawning_before_the_run_is_an_error(sim):
    with pytest.raises(SimulationError, match="not running"):
        sim.spawn(lambda: None)
    with pytest.raises(SimulationError, match="spawn_service: the simulation is not running"):
        sim.spawn_service(lambda: None, name="service")


@pytest.mark.parametrize("dt", [-1e-9, float("inf"), float("nan")])
def test_durations_are_finite_and_not_negative(sim, dt):
    async def main():
        with pytest.raises(ValueError, match="virtual seconds are finite and not negative"):
            await sim.sleep(dt)
        with pytest.raises(ValueError, match="'engine': a service of"):
            await Station(sim, 1, "engine").serve(dt)

    sim.run(main)


def test_an_error_that_another_actor_caused_at_the_same_instant_is_not_a_second_one(sim):
    first = []

    async def breaks():
        await sim.sleep(1)
        first.append(ValueError("the device is broken"))
        raise first[0]

    async def notices():
        await sim.sleep(1)
        raise RuntimeError("cannot go on") from first[0]

    async def main():
        sim.spawn(breaks)
        sim.spawn(notices)

    with pytest.raises(ValueError, match="the device is broken"):
        sim.run(main)


@pytest.mark.parametrize(
    ("late", "told"),
    [
        ([], ") since t=0\n"),
        (["host 1"], "to which host 1 has not come"),
        (["host 1", "host 2"], "to which host 1, host 2 have not come"),
        ([f"host {i}" for i in range(23)], "host 18, host 19 and 3 more have not come"),
    ],
)
def test_a_deadlock_names_who_has_not_come(sim, late, told):
    class Barrier(Signal):
        __slots__ = ()

        def missing(self):
            return late

    async def main():
        await Barrier(sim, "barrier").wait()

    with pytest.raises(Deadlock) as caught:
        sim.run(main)
    assert told in f"{caught.value}\n"


def test_a_deadlock_of_many_names_twenty(sim):
    async def main():
        for i in range(25):
            sim.spawn(Signal(sim, "never").wait, name=f"host {i}")

    with pytest.raises(Deadlock) as caught:
        sim.run(main)
    first, *lines = str(caught.value).splitlines()
    assert first.startswith("t=0: 25 actors wait")
    assert len(lines) == 21 and "host 19 waits on never" in lines[19] and lines[20] == "  and 5 more"


def test_an_error_that_has_notes_gets_no_story(sim):
    async def main():
        error = ValueError("boom")
        error.add_note("of the user")
        raise error

    with pytest.raises(ValueError, match="boom") as caught:
        sim.run(main)
    assert caught.value.__notes__ == ["of the user"]
