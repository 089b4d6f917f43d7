"""Timeouts and cancellations: where they strike, in which order, and what they leave behind. In both gears."""

import pytest
import trio

from offloadrt.sim import (
    TIMED_OUT,
    Lock,
    Mailbox,
    Random,
    RWLock,
    Semaphore,
    Signal,
    SimTimeout,
    Simulation,
    Station,
)


def test_move_on_after_strikes_where_the_actor_waits_and_when_its_time_is_up(sim):
    lock, log = Lock(sim, "lock"), []

    async def holder():
        async with lock:
            await sim.sleep(10)

    async def hasty():
        await sim.sleep(1)
        for wait in (lock.acquire, lambda: sim.sleep(2), lambda: sim.sleep(9)):
            with sim.move_on_after(2.5) as scope:
                await wait()
            log.append((sim.now, scope.timed_out, lock.statistics().tasks_waiting))

    async def main():
        sim.spawn(holder)
        sim.spawn(hasty)

    sim.run(main)
    assert log == [(3.5, True, 0), (5.5, False, 0), (8.0, True, 0)]
    assert sim.now == 10.0 and lock.statistics().wait_s == 2.5


def test_fail_after_raises_with_time_and_limit(sim):
    async def main():
        with sim.fail_after(2):
            await sim.sleep(3)

    with pytest.raises(SimTimeout, match=r"t=2: not done within 2 virtual seconds"):
        sim.run(main)


def test_a_timeout_that_is_not_needed_does_not_carry_time_forward(sim):
    async def main():
        with sim.move_on_after(1e6), sim.fail_after(1e7):
            await sim.sleep(1)

    sim.run(main)
    assert sim.now == 1.0


def test_of_nested_timeouts_at_one_instant_the_outer_one_strikes(sim):
    async def main():
        with sim.move_on_after(2) as outer:
            with sim.move_on_after(2) as inner:
                await sim.sleep(9)
            await sim.sleep(9)
        return outer.timed_out, inner.timed_out, sim.now

    assert sim.run(main) == (True, False, 2.0)


def test_an_inner_timeout_leaves_the_outer_one_alone(sim):
    async def main():
        with sim.move_on_after(3) as outer:
            with sim.move_on_after(1) as inner:
                await sim.sleep(9)
            await sim.sleep(9)
        return outer.timed_out, inner.timed_out, sim.now

    assert sim.run(main) == (True, True, 3.0)


def test_an_outer_timeout_passes_through_an_inner_scope(sim):
    async def main():
        with sim.move_on_after(1) as outer:
            with sim.move_on_after(3) as inner:
                await sim.sleep(9)
        return outer.timed_out, inner.timed_out, sim.now

    assert sim.run(main) == (True, False, 1.0)


def test_the_clean_up_of_a_timeout_may_wait(sim):
    async def main():
        with sim.move_on_after(1) as scope:
            try:
                await sim.sleep(9)
            finally:
                await sim.sleep(1)
        return scope.timed_out, sim.now

    assert sim.run(main) == (True, 2.0)


def test_a_timeout_of_zero_lets_what_need_not_wait_pass(sim):
    async def main():
        lock = Lock(sim, "lock")
        with sim.move_on_after(0) as scope:
            await lock.acquire()
        with sim.move_on_after(0) as waiting:
            await sim.sleep(1)
        return scope.timed_out, lock.held_by_me(), waiting.timed_out, sim.now

    assert sim.run(main) == (False, True, True, 0.0)


def test_a_timeout_at_the_instant_of_the_hand_over_leaves_the_lock_with_one_owner(sim):
    """The alarm was set first, so it strikes first: the release at the same instant finds nobody waiting."""
    lock, log = Lock(sim, "lock"), []

    async def waiter():
        with sim.move_on_after(2):
            await sim.sleep(1)
            await lock.acquire()
            log.append("got it")

    async def holder():
        await lock.acquire()
        await sim.sleep(1)
        await sim.sleep(1)
        lock.release()

    async def main():
        sim.spawn(holder)
        sim.spawn(waiter)

    sim.run(main)
    assert (log, lock.owner, lock.statistics().tasks_waiting, sim.now) == ([], None, 0, 2.0)


def test_a_timeout_that_comes_after_the_hand_over_at_its_instant_is_too_late(sim):
    lock = Lock(sim, "lock")

    async def holder():
        await lock.acquire()
        await sim.sleep(2)
        lock.release()

    async def main():
        sim.spawn(holder)
        await sim.sleep(1)
        with sim.move_on_after(1) as scope:
            async with lock:
                pass
        return scope.timed_out, lock.owner, sim.now

    assert sim.run(main) == (False, None, 2.0)


def test_a_cancellation_that_finds_its_actor_handed_a_lock_strikes_at_its_next_wait(sim):
    lock, log = Lock(sim, "lock"), []

    async def waiter():
        async with lock:
            log.append(("has it", sim.now))
            try:
                await sim.sleep(5)
            finally:
                log.append(("cancelled", sim.now))

    async def main():
        async with sim.open_nursery() as nursery:
            await lock.acquire()
            nursery.spawn(waiter)
            await sim.sleep(1)
            lock.release()
            nursery.cancel()

    sim.run(main)
    assert log == [("has it", 1.0), ("cancelled", 1.0)]
    assert lock.owner is None and lock.statistics().acquired == 2


def test_a_late_cancellation_strikes_as_soon_as_its_actor_parks_not_later_at_that_instant(sim):
    """Behind it in the ready queue somebody releases what it has just begun to wait for: too late."""
    first, second, log = Lock(sim, "first"), Lock(sim, "second"), []

    async def victim():
        await first.acquire()
        log.append("first")
        await second.acquire()
        log.append("second")

    async def behind(go):
        await second.acquire()
        await go.wait()
        second.release()
        log.append("released")

    async def main():
        go = Signal(sim, "go")
        await first.acquire()
        sim.spawn(behind, go)
        async with sim.open_nursery() as nursery:
            nursery.spawn(victim)
            await sim.sleep(1)
            first.release()
            go.set()
            nursery.cancel()

    sim.run(main)
    assert log == ["first", "released"] and second.owner is None


def test_an_actor_that_has_left_the_cancelled_nursery_is_not_cancelled_after_all(sim):
    lock = Lock(sim, "lock")
    nurseries = []

    async def waiter():
        async with sim.open_nursery() as nursery:
            nurseries.append(nursery)
            await lock.acquire()
        await sim.sleep(3)  # outside the nursery: must not be struck
        lock.release()

    async def main():
        await lock.acquire()
        sim.spawn(waiter)
        await sim.sleep(1)
        lock.release()
        nurseries[0].cancel()

    sim.run(main)
    assert sim.now == 4.0 and lock.owner is None


@pytest.mark.parametrize("canceller_first", [True, False])
def test_timeout_and_cancellation_at_one_instant_give_one_history(canceller_first):
    def history(gear, **options):
        sim, log, nurseries = Simulation(gear=gear, **options), [], []

        async def victim(i):
            try:
                with sim.move_on_after(1) as scope:
                    await sim.sleep(1 if i % 2 else 9)
                log.append((i, scope.timed_out, sim.now))
                await sim.sleep(0)
                log.append((i, "went on"))
                await sim.sleep(9)
            finally:
                log.append((i, "cancelled", sim.now))

        async def canceller():
            await sim.sleep(1)
            nurseries[0].cancel()
            log.append("cancelled")

        async def main():
            async with sim.open_nursery() as nursery:
                nurseries.append(nursery)
                if canceller_first:
                    sim.spawn(canceller)
                for i in range(6):
                    nursery.spawn(victim, i)
                if not canceller_first:
                    sim.spawn(canceller)

        sim.run(main)
        return log

    expected = history("native")
    assert [history("turbo", slice=slice) for slice in (1, 2, 3, 7, 2000)] == [expected] * 5
    assert history("native", strategy=Random(1)) == history("turbo", strategy=Random(1), slice=3)


def test_children_of_a_cancelled_nursery_clean_up_in_order_of_spawning(sim):
    log = []

    async def child(i):
        try:
            await sim.sleep(100 - i)
        finally:
            log.append((i, sim.now))

    async def main():
        async with sim.open_nursery() as nursery:
            for i in range(20):
                nursery.spawn(child, i)
            await sim.sleep(1)
            nursery.cancel()

    sim.run(main)
    assert log == [(i, 1.0) for i in range(20)]


def test_a_child_that_is_cancelled_before_its_first_step_runs_up_to_its_first_wait(sim):
    log = []

    async def child():
        log.append("began")
        try:
            await sim.sleep(1)
        finally:
            log.append("cancelled")

    async def main():
        async with sim.open_nursery() as nursery:
            nursery.spawn(child)
            nursery.cancel()

    sim.run(main)
    assert (log, sim.now) == (["began", "cancelled"], 0.0)


def test_an_actor_that_cancels_its_own_nursery_goes_on_behind_it(sim):
    async def main():
        async with sim.open_nursery() as nursery:
            nursery.cancel()
            await sim.sleep(5)
            raise AssertionError("not reached")
        before = sim.now
        await sim.sleep(1)
        return before, sim.now

    assert sim.run(main) == (0.0, 1.0)


def test_a_timeout_around_a_nursery_cancels_its_children(sim):
    log = []

    async def child():
        try:
            await sim.sleep(9)
        finally:
            log.append(("child", sim.now))

    async def main():
        with sim.move_on_after(2) as scope:
            async with sim.open_nursery() as nursery:
                nursery.spawn(child)
        log.append(("joined", scope.timed_out, sim.now))
        with sim.move_on_after(2) as scope:
            async with sim.open_nursery() as nursery:
                nursery.spawn(child)
                await sim.sleep(9)
        log.append(("in the body", scope.timed_out, sim.now))
        await sim.sleep(1)

    sim.run(main)
    assert log == [("child", 2.0), ("joined", True, 2.0), ("child", 4.0), ("in the body", True, 4.0)]
    assert sim.now == 5.0


def test_nursery_in_nursery_the_inner_one_alone_is_cancelled(sim):
    log = []

    async def child(name, dt):
        try:
            await sim.sleep(dt)
            log.append((name, "done", sim.now))
        except trio.Cancelled:
            log.append((name, "cancelled", sim.now))
            raise

    async def main():
        async with sim.open_nursery() as outer:
            outer.spawn(child, "outer", 3)
            async with sim.open_nursery() as inner:
                inner.spawn(child, "inner", 3)
                await sim.sleep(1)
                inner.cancel()
            log.append(("joined", sim.now))

    sim.run(main)
    assert log == [("inner", "cancelled", 1.0), ("joined", 1.0), ("outer", "done", 3.0)]


def test_a_timeout_inside_attached_concerns_its_own_body_only(sim):
    async def main():
        async with sim.attached():
            with sim.move_on_after(1) as inner:
                await trio.sleep(10)
            between = sim.now
            await trio.sleep(5)
        return inner.timed_out, between, sim.now

    assert sim.run(main) == (True, 1.0, 6.0)


def test_a_timeout_around_attached_reaches_into_trio(sim):
    async def main():
        with sim.move_on_after(2) as scope:
            try:
                async with sim.attached():
                    await trio.sleep(10)
            finally:
                await sim.sleep(1)
        with sim.move_on_after(2) as done:
            async with sim.attached():
                await trio.sleep(1)
        await sim.sleep(1)
        return scope.timed_out, done.timed_out, sim.now

    assert sim.run(main) == (True, False, 5.0)


def test_nested_timeouts_around_and_inside_attached(sim):
    log = []

    async def main():
        with sim.move_on_after(3) as outer:
            with sim.move_on_after(5) as middle:
                async with sim.attached():
                    with sim.move_on_after(1) as inner:
                        async with trio.open_nursery() as nursery:
                            nursery.start_soon(trio.sleep, 10)
                    log.append((inner.timed_out, sim.now))
                    with sim.move_on_after(9) as last:
                        await trio.sleep(10)
        log.append((outer.timed_out, middle.timed_out, last.timed_out, sim.now))

    sim.run(main)
    assert log == [(True, 1.0), (True, False, False, 3.0)]


def test_a_raw_wait_is_timed_out_in_the_native_gear_without_attached():
    sim = Simulation(gear="native")

    async def main():
        with sim.move_on_after(1) as scope:
            await trio.sleep(10)
        return scope.timed_out, sim.now

    assert sim.run(main) == (True, 1.0)


def test_a_nursery_cancels_a_child_that_waits_in_trio(sim):
    log = []

    async def child():
        try:
            async with sim.attached():
                await trio.sleep(10)
        finally:
            log.append(("child", sim.now))

    async def main():
        async with sim.open_nursery() as nursery:
            nursery.spawn(child)
            await sim.sleep(1)
            nursery.cancel()
            await sim.sleep(0)
        await sim.sleep(1)
        return sim.now

    assert (sim.run(main), log) == (2.0, [("child", 1.0)])


def test_an_exception_leaves_attached_and_primitives_go_on(sim):
    async def broken():
        async with sim.attached():
            await trio.sleep(1)
            raise ValueError("boom")

    async def main():
        with pytest.raises(ValueError, match="boom"):
            await broken()
        assert sim.current.detached is sim.turbo
        await sim.sleep(1)
        with sim.move_on_after(1) as scope:
            await Signal(sim, "never").wait()
        return scope.timed_out, sim.now

    assert sim.run(main) == (True, 3.0)


def test_attached_inside_attached_and_spawn_inside_attached(sim):
    log = []

    async def child():
        await sim.sleep(1)
        log.append(sim.now)

    async def main():
        async with sim.attached():
            sim.spawn(child)
            async with sim.attached():
                await trio.sleep(2)
            async with sim.open_nursery() as nursery:
                nursery.spawn(child)
            await trio.sleep(1)
        sim.spawn(child)

    sim.run(main)
    assert log == [1.0, 3.0, 5.0]


WAITS = {
    "sleep": lambda sim, held: sim.sleep(100),
    "lock": lambda sim, held: held["lock"].acquire(),
    "barging": lambda sim, held: held["barging"].acquire(),
    "reader": lambda sim, held: held["tables"].acquire_read(),
    "writer": lambda sim, held: held["tables"].acquire_write(),
    "semaphore": lambda sim, held: held["units"].acquire(),
    "station queue": lambda sim, held: held["engine"].serve(1),
    "station service": lambda sim, held: held["free engine"].serve(100),
    "mailbox": lambda sim, held: held["box"].get(),
    "mailbox until": lambda sim, held: held["box"].get_until(100),
    "call": lambda sim, held: held["asked"].call("?"),
    "signal": lambda sim, held: held["signal"].wait(),
}


@pytest.mark.parametrize("how", ["timeout", "nursery", "attached scope"])
@pytest.mark.parametrize("wait", list(WAITS))
def test_every_wait_can_be_cancelled_and_leaves_nothing_behind(sim, wait, how):
    held = {
        "lock": Lock(sim, "lock"),
        "barging": Lock(sim, "barging", handoff="barging"),
        "tables": RWLock(sim, "tables"),
        "units": Semaphore(sim, 0, "units"),
        "engine": Station(sim, 1, "engine"),
        "free engine": Station(sim, 1, "free engine"),
        "box": Mailbox(sim, "box"),
        "asked": Mailbox(sim, "asked"),
        "signal": Signal(sim, "signal"),
    }

    async def holder():
        async with held["lock"], held["barging"]:
            await held["tables"].acquire_write()
            await held["engine"].serve(50)
            held["tables"].release()

    async def victim():
        await WAITS[wait](sim, held)
        raise AssertionError("not reached")

    async def main():
        sim.spawn(holder)
        await sim.sleep(1)
        if how == "timeout":
            with sim.move_on_after(2):
                await victim()
        elif how == "nursery":
            async with sim.open_nursery() as nursery:
                nursery.spawn(victim)
                await sim.sleep(2)
                nursery.cancel()
        else:
            async with sim.attached():
                with trio.move_on_after(2):
                    await victim()
        assert sim.now == 3.0
        for primitive in held.values():
            assert primitive.statistics().tasks_waiting == 0
        queue = {"reader": "tables", "writer": "tables", "station queue": "engine"}.get(wait, wait)
        if queue in ("lock", "barging", "tables", "engine"):
            assert held[queue].statistics().wait_s == 2.0
        assert held["units"].statistics().wait_s == (2.0 if wait == "semaphore" else 0.0)
        free = held["free engine"].statistics()
        assert (free.in_service, free.busy_s, free.served) == (0, 2.0 if wait == "station service" else 0.0, 0)
        if wait == "call":
            call = await held["asked"].get()
            assert call.message == "?" and call.reply("!") is False
        await use_all(held)

    async def use_all(held):
        """Everything still works for the next user."""
        async with held["lock"], held["barging"]:
            assert sim.now == 50.0
        await held["tables"].acquire_write()
        held["tables"].downgrade()
        held["tables"].release()
        held["units"].release()
        await held["units"].acquire()
        await held["engine"].serve(1)
        await held["free engine"].serve(1)
        held["box"].put("item")
        assert await held["box"].get() == "item"
        assert await held["box"].get_until(54) is TIMED_OUT
        held["signal"].set("done")
        assert await held["signal"].wait() == "done"

    sim.run(main)
    assert sim.now == 54.0


def test_a_cancelled_writer_lets_the_readers_behind_it_in(sim):
    tables, log = RWLock(sim, "tables"), []

    async def writer():
        with sim.move_on_after(1):
            await tables.acquire_write()

    async def reader():
        await tables.acquire_read()
        log.append(sim.now)
        tables.release()

    async def main():
        await tables.acquire_read()
        sim.spawn(writer)
        sim.spawn(reader)
        await sim.sleep(5)
        tables.release()

    sim.run(main)
    assert log == [1.0]
