"""Fair division against an exact fluid model in fractions, and against what max-min means."""

import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from property_examples import examples

from offloadrt.machine import FairShare, SharedPool
from offloadrt.sim import Simulation


def max_min(capacity, caps):
    """Rates by definition: raise all users equally, stop those at their cap, until the capacity is used."""
    rates = [Fraction(0)] * len(caps)
    growing = set(range(len(caps)))
    left = Fraction(capacity)
    while growing and left > 0:
        step = min(min(caps[i] - rates[i] for i in growing), left / len(growing))
        for i in growing:
            rates[i] += step
        left -= step * len(growing)
        growing = {i for i in growing if rates[i] < caps[i]}
    return rates


def fluid_ends(capacity, jobs):
    """When each (arrival, amount, cap) ends: the fluid model, exactly."""
    left = {i: Fraction(amount) for i, (_, amount, _) in enumerate(jobs)}
    ends = [None] * len(jobs)
    now = Fraction(0)
    while left:
        present = [i for i in left if jobs[i][0] <= now]
        rates = dict(zip(present, max_min(capacity, [Fraction(jobs[i][2]) for i in present]), strict=True))
        events = [now + left[i] / rates[i] for i in present if rates[i]]
        events += [Fraction(jobs[i][0]) for i in left if jobs[i][0] > now]
        then = min(events)
        for i in present:
            left[i] -= rates[i] * (then - now)
            if left[i] == 0:
                ends[i] = then
                del left[i]
        now = then
    return ends


jobs = st.lists(
    st.tuples(st.integers(0, 40).map(lambda n: Fraction(n, 4)), st.integers(1, 60), st.sampled_from([1, 2, 3, 7])),
    min_size=1,
    max_size=12,
)


@given(jobs, st.integers(1, 12))
@example([(0, 13, 2), (0, 9, 1), (5.25, 8, 3), (5.25, 8, 3), (6.25, 5, 7), (7.25, 1, 1)], 10)
@examples(150)
def test_a_pool_in_virtual_time_follows_the_fluid_model(jobs, capacity):
    sim = Simulation(gear="turbo")
    pool = SharedPool(sim, capacity, "pool")
    ends = [0.0] * len(jobs)

    async def user(place):
        arrival, amount, cap = jobs[place]
        await sim.sleep(float(arrival))
        await pool.serve(amount, cap)
        ends[place] = sim.now

    async def main():
        async with sim.open_nursery() as nursery:
            for place in range(len(jobs)):
                nursery.spawn(user, place)

    sim.run(main)
    assert ends == pytest.approx([float(end) for end in fluid_ends(capacity, jobs)], rel=1e-9)
    assert pool.share.delivered == pytest.approx(sum(amount for _, amount, _ in jobs))
    assert pool.share.users == 0


@given(st.lists(st.sampled_from([1, 2, 5, 9]), min_size=1, max_size=8), st.integers(1, 30))
def test_rates_are_max_min(caps, capacity):
    share = FairShare(capacity)
    tickets = [share.join(0.0, 1.0, cap) for cap in caps]
    expected = max_min(capacity, [Fraction(cap) for cap in caps])
    assert [share.rate(ticket) for ticket in tickets] == pytest.approx([float(rate) for rate in expected])


def test_what_one_user_cannot_use_the_others_get():
    share = FairShare(10.0)
    small, large = share.join(0.0, 1.0, cap=2.0), share.join(0.0, 1.0)
    assert (share.rate(small), share.rate(large)) == (2.0, 8.0)


def test_equal_users_finish_in_the_order_in_which_they_came():
    share = FairShare(1.0)
    tickets = [share.join(0.0, 1.0) for _ in range(3)]
    order = []
    while (first := share.first())[0] is not None:
        share.leave(3.0, first[0])
        order.append(tickets.index(first[0]))
    assert order == [0, 1, 2]


def test_a_halt_is_counted():
    share = FairShare(1.0)
    ticket = share.join(0.0, 1.0)
    share.halt(0.25)
    share.halt(0.5)
    share.resume(1.0)
    assert share.first() == (None, math.inf)
    share.resume(2.0)
    assert share.first() == (ticket, 2.75)


def test_a_user_alone_sees_halts_that_nobody_was_there_to_see():
    share = FairShare(2.0)
    share.leave(1.0, share.join(0.0, 2.0))
    share.halt(1.5)
    halted = share.join(2.0, 4.0)
    assert share.first() == (None, math.inf)
    assert share.leave(3.0, halted) == 4.0
    share.resume(3.5)
    ticket = share.join(4.0, 4.0)
    assert share.first() == (ticket, 6.0)
    share.advance(6.0)
    assert share.delivered == 6.0


def test_doubling_all_rates_halves_the_time():
    def end(factor):
        share = FairShare(10.0 * factor)
        share.join(0.0, 7.0, cap=2.0 * factor)
        share.join(0.0, 30.0, cap=9.0 * factor)
        return share.first()[1]

    assert end(2.0) == pytest.approx(end(1.0) / 2)


def test_a_user_who_gives_up_leaves_its_share_to_the_others():
    sim = Simulation(gear="turbo")
    pool = SharedPool(sim, 1.0, "pool")
    ends = []

    async def gives_up():
        with sim.move_on_after(1.0):
            await pool.serve(10.0)

    async def stays():
        await pool.serve(2.0)
        ends.append(sim.now)

    async def main():
        async with sim.open_nursery() as nursery:
            nursery.spawn(gives_up)
            nursery.spawn(stays)

    sim.run(main)
    assert ends == pytest.approx([1.0 + 1.5])


def test_a_user_who_gives_up_alone_leaves_nothing_behind():
    sim = Simulation(gear="turbo")
    pool = SharedPool(sim, 2.0, "pool")

    async def main():
        with sim.move_on_after(1.0):
            await pool.serve(10.0)
        assert (pool.share.users, pool.share.delivered) == (0, 2.0)
        await pool.serve(3.0)

    sim.run(main)
    assert (sim.now, pool.share.delivered) == (2.5, 5.0)


def test_uncontended_everybody_has_the_whole():
    sim = Simulation(gear="turbo")
    pool = SharedPool(sim, 2.0, "pool", uncontended=True)

    async def main():
        async with sim.open_nursery() as nursery:
            for _ in range(5):
                nursery.spawn(pool.serve, 4.0)

    sim.run(main)
    assert sim.now == 2.0


def test_capacity_and_amounts_are_checked():
    with pytest.raises(ValueError, match="capacity"):
        FairShare(0.0)
    with pytest.raises(ValueError, match="amount"):
        FairShare(1.0).join(0.0, -1.0)


@given(jobs, st.integers(1, 12), st.lists(st.tuples(st.integers(0, 40), st.sampled_from([1, 2, 3, 7])), max_size=5))
@examples(60)
def test_a_user_whose_cap_changes_goes_on_with_what_is_left_of_it(jobs, capacity, changes):
    """A user that is limited at a time is, from then on, as another that comes then and needs what is left."""
    changed, replaced = FairShare(float(capacity)), FairShare(float(capacity))
    users = [[share.join(0.0, float(amount), float(cap)) for _, amount, cap in jobs] for share in (changed, replaced)]
    for at, cap in sorted(changes):
        users[0][0] = changed.limit(float(at), users[0][0], float(cap))
        left = replaced.leave(float(at), users[1][0])
        users[1][0] = replaced.join(float(at), left, float(cap))
        rates = [[share.rate(user) for user in those] for share, those in zip((changed, replaced), users, strict=True)]
        assert rates[0] == rates[1]
    first = changed.join(41.0, 5.0, 3.0), changed.join(41.0, 5.0, 3.0)
    limited = changed.limit(41.0, changed.limit(41.0, first[0], 1.0), 3.0)
    assert limited.order < first[1].order and limited.mark == pytest.approx(first[1].mark)
    assert changed.limit(41.0, limited, 3.0) is limited


def test_who_enters_a_pool_and_waits_later_is_served_from_the_first_moment_on():
    # a third of 10/s for each up to 1.5 s; halves until a has its 10 at 2.5 s; b then needs 10 more
    waiting = {"a": (10.0, math.inf, 1.0), "b": (20.0, math.inf, 2.0)}
    assert pool_ends(10.0, waiting, stays=(0.0, 1.5)) == pytest.approx({"a": 2.5, "b": 3.5})


def test_who_waits_in_a_pool_learns_that_it_is_first_from_who_was_and_comes_later():
    # a has 11/s and would be first, at 2 s, but from 1 s on has 5.5/s; b has 1/s always; when b is gone, a has 6/s
    waiting = {"a": (22.0, math.inf, 2.0), "b": (2.2, 1.0, 0.0)}
    assert pool_ends(12.0, waiting, stays=(1.0, 9.0)) == pytest.approx({"a": 2.2 + 4.4 / 6, "b": 2.2})


def pool_ends(capacity, waiting, stays):
    """When each of (amount, cap, when it begins to wait) has all it needs; somebody else is there while it `stays`."""
    sim = Simulation(gear="turbo")
    pool = SharedPool(sim, capacity, "pool")
    ends = {}

    async def enters(name, amount, cap, away):
        ticket = pool.enter(amount, cap)
        await sim.sleep(away)
        await pool.finish(ticket)
        ends[name] = sim.now

    async def somebody(begin, end):
        await sim.sleep(begin)
        ticket = pool.enter(math.inf, math.inf)
        await sim.sleep(end - begin)
        pool.leave(ticket)

    async def main():
        async with sim.open_nursery() as nursery:
            for name, needs in waiting.items():
                nursery.spawn(enters, name, *needs, name=name)
            nursery.spawn(somebody, *stays, name="somebody")

    sim.run(main)
    return ends
