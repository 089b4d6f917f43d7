"""Semaphore, Station, Signal: what they grant, in which order, their statistics; and what all primitives share."""

import types

import pytest
from acting import run_all

from offloadrt.sim import (
    Lock,
    LockStatistics,
    Mailbox,
    RWLock,
    Semaphore,
    SemaphoreStatistics,
    Signal,
    SignalStatistics,
    Simulation,
    Station,
    StationStatistics,
)


def test_semaphore_gives_its_units_in_order_of_arrival(sim):
    units, log = Semaphore(sim, 2, "units"), []

    def host():
        async def body():
            async with units:
                log.append((sim.current.name, sim.now))
                await sim.sleep(1)

        return body

    run_all(sim, *[host() for _ in range(5)])
    assert log == [("host 0", 0.0), ("host 1", 0.0), ("host 2", 1.0), ("host 3", 1.0), ("host 4", 2.0)]
    assert units.statistics() == SemaphoreStatistics(5, 3, 1.0 + 1.0 + 2.0, 2, 0)
    with pytest.raises(ValueError, match="cannot be negative"):
        Semaphore(sim, -1, "units")


def test_station_serves_in_order_of_arrival_and_counts_busy_time(sim):
    engine, log = Station(sim, 2, "engine"), []

    def visitor(dt):
        async def body():
            await engine.serve(dt)
            log.append((sim.current.name, sim.now))

        return body

    async def looker():
        await sim.sleep(0.5)
        assert engine.statistics() == StationStatistics(0, 2, 0.0, 1.0, 2, 2)

    run_all(sim, visitor(1), visitor(3), visitor(1), visitor(0.5), looker)
    assert log == [("host 0", 1.0), ("host 2", 2.0), ("host 3", 2.5), ("host 1", 3.0)]
    assert engine.statistics() == StationStatistics(4, 2, 1.0 + 2.0, 5.5, 0, 0)
    with pytest.raises(ValueError, match="at least one server"):
        Station(sim, 0, "engine")


def test_signal_wakes_all_in_order_and_is_set_once(sim):
    done, log = Signal(sim, "done"), []

    def waiter():
        async def body():
            log.append((sim.current.name, await done.wait(), sim.now))

        return body

    async def setter():
        await sim.sleep(1)
        assert done.statistics() == SignalStatistics(False, 2)
        done.set("value")
        log.append("set")
        log.append(await done.wait())
        with pytest.raises(RuntimeError, match="'done' is set a second time"):
            done.set()

    run_all(sim, waiter(), waiter(), setter)
    assert log == ["set", "value", ("host 0", "value", 1.0), ("host 1", "value", 1.0)]
    assert done.is_set and done.statistics() == SignalStatistics(True, 0)


class Recorder:
    def __init__(self):
        self.calls = []

    def actor_spawned(self, actor):
        self.calls.append(("spawned", actor.name))

    def actor_finished(self, actor):
        self.calls.append(("finished", actor.name))

    def lock_waited(self, lock, actor):
        self.calls.append(("waited", lock.name, actor.name))

    def lock_acquired(self, lock, actor):
        self.calls.append(("acquired", lock.name, actor.name))

    def lock_released(self, lock, actor):
        self.calls.append(("released", lock.name, actor.name))


def test_an_observer_is_told_of_actors_and_locks(sim):
    sim.observer = Recorder()
    lock, tables = Lock(sim, "lock"), RWLock(sim, "tables")

    async def host():
        async with lock:
            await sim.sleep(1)
        await tables.acquire_write()
        await sim.sleep(2)
        tables.release()

    run_all(sim, host, host)
    assert sim.observer.calls == [
        ("spawned", "main"),
        ("spawned", "host 0"),
        ("spawned", "host 1"),
        ("finished", "main"),
        ("acquired", "lock", "host 0"),
        ("waited", "lock", "host 1"),
        ("released", "lock", "host 0"),
        ("acquired", "tables", "host 0"),
        ("acquired", "lock", "host 1"),
        ("released", "lock", "host 1"),
        ("waited", "tables", "host 1"),
        ("released", "tables", "host 0"),
        ("finished", "host 0"),
        ("acquired", "tables", "host 1"),
        ("released", "tables", "host 1"),
        ("finished", "host 1"),
    ]


def test_an_actor_goes_on_at_its_own_timer_only_when_nothing_else_is_due_before(sim):
    """Whether it goes on without a switch or parks, what follows happens at the same time in the same order."""
    log = []

    @types.coroutine
    def own_timer(dt):
        me = sim.current
        if not sim.set_timer(me, sim.now + dt):
            yield me.trap
        log.append((me.name, sim.now))

    async def host():
        for dt in (1.0, 1.0, 0.5, 0.0):
            await own_timer(dt)

    async def other():
        await sim.sleep(1.5)
        await own_timer(0.5)
        await own_timer(4.0)

    run_all(sim, host, other)
    assert log == [
        ("host 0", 1.0), ("host 0", 2.0), ("host 1", 2.0), ("host 0", 2.5), ("host 0", 2.5), ("host 1", 6.0),
    ]  # fmt: skip


async def held(lock, acquire):
    """Have another actor hold a lock, then wait for it."""
    sim = lock.sim

    async def holder():
        await acquire()
        await sim.sleep(1)
        lock.release()

    sim.spawn(holder, name="holder")
    await sim.sleep(0)
    await acquire()


async def served(station):
    """Have another actor occupy the one server, then wait for it."""
    sim = station.sim
    sim.spawn(station.serve, 1.0, name="holder")
    await sim.sleep(0)
    await station.serve(1.0)


@pytest.mark.parametrize(
    ("name", "wait"),
    [
        ("lock", lambda sim: held(lock := Lock(sim, "lock"), lock.acquire)),
        ("barging", lambda sim: held(lock := Lock(sim, "barging", "barging"), lock.acquire)),
        ("writer", lambda sim: held(lock := RWLock(sim, "writer"), lock.acquire_write)),
        ("units", lambda sim: held(units := Semaphore(sim, 1, "units"), units.acquire)),
        ("station", lambda sim: served(Station(sim, 1, "station"))),
        ("box", lambda sim: Mailbox(sim, "box").get()),
        ("box", lambda sim: Mailbox(sim, "box").get_until(1.0)),
        ("a reply from box", lambda sim: Mailbox(sim, "box").call("?")),
        ("signal", lambda sim: Signal(sim, "signal").wait()),
    ],
)
def test_every_primitive_waits_through_park(sim, monkeypatch, name, wait):
    park, parked = Simulation.park, []

    def spy(self, me, target):
        parked.append((me.name, target.name))
        return park(self, me, target)

    monkeypatch.setattr(Simulation, "park", spy)

    async def main():
        async def other():  # somebody else is due before, so that nobody goes on without a wait
            await sim.sleep(0.5)

        sim.spawn(other)
        with sim.move_on_after(3.0):
            await wait(sim)

    sim.run(main)
    assert parked == [("main", name)]


def test_a_callback_of_a_signal_runs_after_its_waiters_were_resumed_or_at_once(sim):
    signal, log = Signal(sim, "done"), []

    async def setter():
        signal.set_callback(lambda: log.append(("callback", sim.now, signal.value)))
        with pytest.raises(RuntimeError, match="'done' has a callback already"):
            signal.set_callback(print)
        await sim.sleep(1)
        signal.set(7)
        late = Signal(sim, "late")
        late.set()
        late.set_callback(lambda: log.append(("at once", sim.now)))

    run_all(sim, setter)
    assert log == [("callback", 1.0, 7), ("at once", 1.0)]


def test_statistics_of_several_locks_add_up(sim):
    locks = [Lock(sim, f"shard {i}") for i in range(3)]

    def user(lock, dt):
        async def body():
            async with lock:
                await sim.sleep(dt)

        return body

    run_all(sim, *[user(lock, dt) for lock in locks for dt in (1, 2)])
    total = LockStatistics.total(lock.statistics() for lock in locks)
    assert (total.acquired, total.contended, total.wait_s, total.hold_s) == (6, 3, 3.0, 9.0)
    assert (total.tasks_waiting, total.owner) == (0, None)
