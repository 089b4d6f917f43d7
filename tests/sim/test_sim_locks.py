"""Lock and RWLock: whom they grant, in which order, and their statistics."""

import pytest
from acting import run_all

from offloadrt.sim import (
    Lock,
    LockStatistics,
    Mailbox,
    RWLock,
    RWLockStatistics,
    Semaphore,
    Signal,
    Station,
)


def test_lock_is_handed_over_in_order_of_arrival(sim):
    lock, log = Lock(sim, "lock"), []

    def host(arrival):
        async def body():
            await sim.sleep(arrival)
            async with lock:
                log.append((sim.current.name, sim.now))
                assert lock.owner is sim.current
                await sim.sleep(2)

        return body

    run_all(sim, host(1), host(0), host(0.5))
    assert log == [("host 1", 0.0), ("host 2", 2.0), ("host 0", 4.0)]
    assert lock.statistics() == LockStatistics(3, 2, 1.5 + 3.0, 6.0, 0, None)


def test_acquisitions_without_a_wait_are_counted_as_steps(sim):
    """A loop over them meets a look at Trio."""
    lock = Lock(sim, "lock")

    async def body():
        for _ in range(5000):
            await lock.acquire()
            lock.release()

    run_all(sim, body)
    assert lock.statistics() == LockStatistics(5000, 0, 0.0, 0.0, 0, None)


def test_lock_statistics_while_it_is_held(sim):
    lock = Lock(sim, "lock")

    async def holder():
        async with lock:
            await sim.sleep(2)

    async def looker():
        await sim.sleep(1)
        assert lock.statistics() == LockStatistics(1, 1, 0.0, 1.0, 1, "host 0")

    run_all(sim, holder, holder, looker)


def overtaking(sim, handoff):
    """Who gets the lock that host 0 releases and at once wants again, while host 1 waits."""
    lock, log = Lock(sim, "lock", handoff=handoff), []

    async def greedy():
        for _ in range(2):
            async with lock:
                log.append(("greedy", sim.now))
                await sim.sleep(1)

    async def patient():
        async with lock:
            log.append(("patient", sim.now))

    run_all(sim, greedy, patient)
    return log, lock.statistics()


def test_a_fifo_lock_is_not_overtaken(sim):
    log, statistics = overtaking(sim, "fifo")
    assert log == [("greedy", 0.0), ("patient", 1.0), ("greedy", 1.0)]
    assert statistics == LockStatistics(3, 2, 1.0, 2.0, 0, None)


def test_a_barging_lock_goes_to_whoever_runs(sim):
    log, statistics = overtaking(sim, "barging")
    assert log == [("greedy", 0.0), ("greedy", 1.0), ("patient", 2.0)]
    assert statistics == LockStatistics(3, 1, 2.0, 2.0, 0, None)


def test_a_barging_lock_keeps_the_place_of_who_was_overtaken(sim):
    lock, log = Lock(sim, "lock", handoff="barging"), []

    async def greedy():
        for _ in range(3):
            async with lock:
                await sim.sleep(1)

    def patient():
        async def body():
            async with lock:
                log.append((sim.current.name, sim.now))

        return body

    run_all(sim, greedy, patient(), patient())
    assert log == [("host 1", 3.0), ("host 2", 3.0)]


def test_a_lock_is_neither_acquired_twice_nor_released_by_another(sim):
    lock = Lock(sim, "lock")

    async def holder():
        async with lock:
            with pytest.raises(RuntimeError, match="host 0 acquires 'lock', which it holds"):
                await lock.acquire()
            await sim.sleep(1)

    async def other():
        assert lock.owner is not sim.current
        with pytest.raises(RuntimeError, match="host 1 releases 'lock', which it does not hold"):
            lock.release()

    run_all(sim, holder, other)
    with pytest.raises(ValueError, match="handoff is 'lifo'"):
        Lock(sim, "lock", handoff="lifo")


def test_readers_share_a_writer_does_not_and_nobody_is_overtaken(sim):
    tables, log = RWLock(sim, "tables"), []

    def user(arrival, how):
        async def body():
            await sim.sleep(arrival)
            await (tables.acquire_write() if how == "w" else tables.acquire_read())
            log.append((sim.current.name, sim.now))
            await sim.sleep(1)
            tables.release()

        return body

    run_all(sim, user(0, "r"), user(0, "r"), user(0.25, "w"), user(0.5, "r"), user(0.5, "r"))
    assert log == [("host 0", 0.0), ("host 1", 0.0), ("host 2", 1.0), ("host 3", 2.0), ("host 4", 2.0)]
    assert tables.statistics() == RWLockStatistics(4, 1, 3, 0.75 + 1.5 + 1.5, 4.0, 1.0, 0)
    assert tables.statistics().combined() == LockStatistics(5, 3, 0.75 + 1.5 + 1.5, 5.0, 0, None)


def test_downgrade_lets_readers_in_and_no_writer(sim):
    tables, log = RWLock(sim, "tables"), []

    async def writer():
        await tables.acquire_write()
        await sim.sleep(1)
        tables.downgrade()
        await sim.sleep(2)
        tables.release()

    async def reader():
        await tables.acquire_read()
        log.append(("reader", sim.now))
        tables.release()

    async def second_writer():
        await tables.acquire_write()
        log.append(("writer", sim.now))
        tables.release()

    run_all(sim, writer, reader, second_writer)
    assert log == [("reader", 1.0), ("writer", 3.0)]
    assert tables.statistics() == RWLockStatistics(2, 2, 2, 1.0 + 3.0, 2.0, 1.0, 0)


def test_a_readers_writer_lock_names_its_misuse(sim):
    tables = RWLock(sim, "tables")

    async def body():
        with pytest.raises(RuntimeError, match="host 0 releases 'tables', which it does not hold"):
            tables.release()
        await tables.acquire_read()
        with pytest.raises(RuntimeError, match="host 0 acquires 'tables', which it holds"):
            await tables.acquire_write()
        with pytest.raises(RuntimeError, match="does not hold for writing"):
            tables.downgrade()
        tables.release()

    run_all(sim, body)


def test_waits_and_holds_are_counted_from_where_they_began(sim):
    """One holds from t=1 to 5, the other asks at 2 and has it from 5 to 7; somebody looks at 4 and at the end."""
    lock, units, engine = Lock(sim, "lock"), Semaphore(sim, 1, "units"), Station(sim, 1, "engine")
    writers, mixed, lowered = RWLock(sim, "writers"), RWLock(sim, "mixed"), RWLock(sim, "lowered")
    seen = []

    async def visit(begin, dt, acquire, release):
        await sim.sleep(begin)
        await acquire()
        await sim.sleep(dt)
        release()

    async def serve(begin, dt):
        await sim.sleep(begin)
        await engine.serve(dt)

    async def lower():
        await sim.sleep(1)
        await lowered.acquire_write()
        await sim.sleep(2)
        lowered.downgrade()
        await sim.sleep(3)
        lowered.release()

    def look():
        a, u, e = lock.statistics(), units.statistics(), engine.statistics()
        w, m, d = writers.statistics(), mixed.statistics(), lowered.statistics()
        seen.append([
            (a.wait_s, a.hold_s, a.acquired, a.contended, a.tasks_waiting),
            (u.wait_s, u.value, u.acquired, u.contended, u.tasks_waiting),
            (e.wait_s, e.busy_s, e.served, e.waited, e.in_service, e.tasks_waiting),
            (w.wait_s, w.write_hold_s, w.read_hold_s, w.write_acquired, w.contended, w.tasks_waiting),
            (m.wait_s, m.write_hold_s, m.read_hold_s, m.write_acquired, m.read_acquired),
            (d.wait_s, d.write_hold_s, d.read_hold_s, d.write_acquired, d.read_acquired),
        ])  # fmt: skip

    async def main():
        for begin, dt, read in ((1, 4, False), (2, 2, True)):
            sim.spawn(visit, begin, dt, lock.acquire, lock.release)
            sim.spawn(visit, begin, dt, units.acquire, units.release)
            sim.spawn(serve, begin, dt)
            sim.spawn(visit, begin, dt, writers.acquire_write, writers.release)
            sim.spawn(visit, begin, dt, mixed.acquire_read if read else mixed.acquire_write, mixed.release)
        sim.spawn(lower)
        await sim.sleep(4)
        look()

    sim.run(main)
    look()
    assert seen[0] == [
        (0, 3, 1, 1, 1), (0, 0, 1, 1, 1), (0, 3, 0, 1, 1, 1), (0, 3, 0, 1, 1, 1), (0, 3, 0, 1, 0), (0, 2, 1, 1, 1),
    ]  # fmt: skip
    assert seen[1] == [
        (3, 6, 2, 1, 0), (3, 1, 2, 1, 0), (3, 6, 2, 1, 0, 0), (3, 6, 0, 2, 1, 0), (3, 4, 2, 1, 1), (0, 2, 3, 1, 1),
    ]  # fmt: skip


def test_every_operation_that_need_not_wait_is_counted_once(sim):
    lock, tables, units = Lock(sim, "lock"), RWLock(sim, "tables"), Semaphore(sim, 9, "units")
    box, done = Mailbox(sim, "box"), Signal(sim, "done")

    async def main():
        done.set()
        for operation, release in (
            (lock.acquire, lock.release),
            (tables.acquire_read, tables.release),
            (tables.acquire_write, tables.release),
            (units.acquire, units.release),
            (box.get, int),
            (done.wait, int),
        ):
            box.put("letter")
            left = sim.operations_left
            await operation()
            assert sim.operations_left == left - 1
            release()
            sim.operations_left = 0  # a look at Trio is due
            await operation()
            assert sim.operations_left >= left - 1
            release()

    sim.run(main)


def test_a_mailbox_counts_what_was_put_what_was_got_and_what_is_left(sim):
    box = Mailbox(sim, "box")

    async def main():
        for number in range(3):
            box.put(number)
        box.leave(3)
        assert await box.get() == 0
        statistics = box.statistics()
        assert (statistics.put, statistics.got, statistics.items, statistics.tasks_waiting) == (4, 1, 3, 0)

    sim.run(main)


def test_an_acquisition_that_waits_is_counted_once_too(sim):
    lock, counted = Lock(sim, "lock"), []

    async def waiter():
        before = sim.operations_left
        await lock.acquire()
        counted.append(before - sim.operations_left)

    async def main():
        await lock.acquire()
        sim.spawn(waiter)
        await sim.sleep(1)
        lock.release()

    sim.run(main)
    assert counted == [1]
