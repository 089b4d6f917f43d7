"""Cancellations: where they strike, in which order, and who cleans up. In both gears."""

import pytest
import trio

from offloadrt.sim import (
    Lock,
    Random,
    Signal,
    Simulation,
    SimulationError,
)


class Unprintable(Exception):
    def __repr__(self):
        raise ValueError

    __str__ = __repr__


@pytest.mark.parametrize(
    ("error", "why"),
    [(trio.Cancelled._create, "and nobody has cancelled it"), (Unprintable, "which cannot be printed: ValueError")],
)
def test_an_error_that_would_confuse_trio_is_replaced(sim, error, why):
    """Trio takes a Cancelled for a cancellation of its own, and prints an error in the reasons of cancellations."""

    async def child():
        await sim.sleep(1)
        raise error()

    async def main():
        async with sim.open_nursery() as nursery:
            nursery.spawn(child)
            nursery.spawn(sim.sleep, 2)

    with pytest.raises(SimulationError, match=rf"^child raised [\w.]+, {why}\n") as raised:
        sim.run(main)
    assert raised.value.__notes__[0] == "raised in child at t=1 s of virtual time"


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
