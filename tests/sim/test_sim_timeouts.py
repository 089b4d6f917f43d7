"""Timeouts: where they strike, in which order, and what they leave alone. In both gears."""

import heapq
import random

import pytest
import trio

from offloadrt.sim import (
    Lock,
    RWLock,
    SimTimeout,
    Simulation,
)
from offloadrt.sim.scheduler import bring_forward, remove


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
        return scope.timed_out, (lock.owner is sim.current), waiting.timed_out, sim.now

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


@pytest.mark.parametrize("dt", [-1.0, float("nan")])
def test_a_timeout_is_not_negative(sim, dt):
    async def main():
        with sim.move_on_after(dt):
            pass

    with pytest.raises(ValueError, match=r"a timeout of .* must not be negative"):
        sim.run(main)


def test_a_reader_at_the_instant_of_its_hand_over_keeps_the_lock_or_gives_it_back(sim):
    table = RWLock(sim, "table")
    outcomes = []

    async def writer():
        await table.acquire_write()
        await sim.sleep(2)
        table.release()

    async def reader():
        await sim.sleep(1)
        with sim.move_on_after(1) as scope:  # it strikes when the writer releases
            await table.acquire_read()
            table.release()
        outcomes.append((scope.timed_out, sim.now))

    async def main():
        sim.spawn(writer)
        sim.spawn(reader)

    sim.run(main)
    assert outcomes[0][1] == 2.0
    assert (table.holders(), len(table.waiters)) == ([], 0)


def test_errors_of_others_pass_through_a_timeout_that_strikes_around_a_nursery(sim):
    async def failing():
        try:
            await sim.sleep(9)
        finally:
            raise ValueError("while it is cancelled")

    async def main():
        with sim.move_on_after(1):
            async with sim.open_nursery() as nursery:
                nursery.spawn(failing)
                await sim.sleep(9)

    with pytest.raises(ValueError, match="while it is cancelled"):
        sim.run(main)


def test_a_timeout_does_not_cut_short_the_shielded_clean_up_after_a_cancellation(sim):
    log = []

    async def child():
        with sim.move_on_after(2) as scope:
            try:
                await sim.sleep(100)
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(5)
                log.append((scope.timed_out, sim.now))
        raise AssertionError("not reached")

    async def main():
        async with sim.open_nursery() as nursery:
            nursery.spawn(child)
            await sim.sleep(1)
            nursery.cancel()

    sim.run(main)
    assert log == [(False, 6.0)]


@pytest.mark.parametrize("seed", range(100))
def test_a_heap_of_timers_stays_in_order_when_one_is_removed_or_brought_forward(seed):
    """A sorted list says what is left. Interruptions have negative numbers, and the first instant is zero."""
    draw = random.Random(seed)
    entries = [(float(draw.randrange(3)), draw.choice([-1, 1]) * (number + 1), object()) for number in range(12)]
    heap = sorted(entries)
    draw.shuffle(heap)
    heapq.heapify(heap)
    removed, forward = draw.sample(entries, 2)
    remove(heap, removed[2])
    remove(heap, object())  # one that has no timer
    sooner = (forward[0] / 2, forward[1], forward[2])
    assert bring_forward(heap, forward[2], sooner) and not bring_forward(heap, removed[2], sooner)
    expected = sorted([entry for entry in entries if entry not in (removed, forward)] + [sooner])
    assert [heapq.heappop(heap) for _ in range(len(heap))] == expected
