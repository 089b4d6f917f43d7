"""Strategies: what they may change, what they guarantee, and that what they did can be repeated."""

from __future__ import annotations

import math

import pytest
import trio
from workload_of_ties import history

from offloadrt.extensions.exploring.strategies import Choice, Delay, Dfs, Hold, Pct, Recorded, Schedule
from offloadrt.sim import BadChoice, Fifo, Lock, Mailbox, Random, Simulation, Station

STRATEGIES = {
    "fifo": lambda: Recorded(Fifo()),
    "random": lambda: Random(4),
    "pct": lambda: Pct(4, depth=3, steps=900),
    "pct with reach": lambda: Pct(4, depth=3, steps=900, reach=0.75),
    "delay": lambda: Delay(4, bound=20, steps=900, longest=2.0),
    "schedule": lambda: Schedule((Choice(3, 1), Hold(2, 3, 0.5), Hold(5, 1, 0.0))),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_gives_one_history_in_both_gears_and_all_slices(name):
    expected = history("native", STRATEGIES[name]())
    assert history("turbo", STRATEGIES[name]()) == expected
    assert history("turbo", STRATEGIES[name](), slice=3) == expected
    assert expected != history("turbo", Fifo()), "timeouts come before the choices of all but Fifo"


def test_the_first_place_is_whom_fifo_lets_go_on():
    ties = (1.0, 1.0, 2.0, 0.0, 0.5, 1.0)
    assert order_of(Recorded(Fifo()), ties, steps=6) == order_of(Fifo(), ties, steps=6)


@pytest.mark.parametrize("name", STRATEGIES)
def test_what_a_strategy_did_can_be_repeated_from_its_departures(name):
    recorded = Recorded(STRATEGIES[name]())
    expected = history("turbo", recorded)
    assert history("native", Schedule(recorded.departures, recorded.reach)) == expected
    assert recorded.departures or name == "fifo"


def order_of(strategy, sleeps=(1.0, 2.0, 4.0), steps=1):
    """Who came when: actors that sleep `steps` times, and meet nowhere."""
    sim, log = Simulation(gear="turbo", strategy=strategy), []

    async def body(number):
        for _ in range(steps):
            await sim.sleep(sleeps[number])
            log.append((number, sim.now))

    async def main():
        for number in range(len(sleeps)):
            sim.spawn(body, number)

    sim.run(main)
    return log


def test_a_strategy_without_reach_keeps_the_order_of_times():
    assert {tuple(n for n, _ in order_of(Pct(seed, steps=6))) for seed in range(20)} == {(0, 1, 2)}


def test_with_reach_whoever_is_passed_over_is_late_and_nobody_is_early():
    orders = set()
    for seed in range(40):
        log = order_of(Pct(seed, steps=6, reach=10.0))
        times = [time for _, time in log]
        assert times == sorted(times)
        assert all(time >= (1.0, 2.0, 4.0)[number] for number, time in log)
        orders.add(tuple(number for number, _ in log))
    assert len(orders) == 6, "every order of three"


def test_nobody_is_later_than_reach():
    for seed in range(30):  # each actor waits twice: for its first turn, and asleep
        assert all(time - (1.0, 2.0, 4.0)[number] <= 2 * 2.5 for number, time in order_of(Pct(seed, reach=2.5)))
        assert tuple(n for n, _ in order_of(Pct(seed, reach=0.25))) == (0, 1, 2)


def test_delays_last_as_long_as_said_and_are_as_many():
    for seed in range(40):
        lateness = [time - (1.0, 2.0, 4.0)[number] for number, time in order_of(Delay(seed, 1, 9, longest=8.0))]
        assert sum(late > 0 for late in lateness) <= 1 and max(lateness) <= 8.0
    lates = {number for seed in range(40) for number, time in order_of(Delay(seed, 1, 9, 8.0)) if time not in (1, 2, 4)}
    assert lates == {0, 1, 2}


def test_a_hold_begins_when_the_wait_is_over():
    log = order_of(Schedule((Hold(1, 2, 2.5),)))  # actor 0 is main, and each actor goes on first when it is spawned
    assert log == [(1, 2.0), (0, 3.5), (2, 4.0)]


def lost_update(strategy, threads=2, rounds=1):
    """Actors that read a counter, work, and write it: an update is lost when another comes between."""
    sim, counter = Simulation(gear="turbo", strategy=strategy), [0]

    async def body():
        for _ in range(rounds):
            await sim.sleep(0.0)
            value = counter[0]
            await sim.sleep(0.0)
            counter[0] = value + 1

    async def main():
        for _ in range(threads):
            sim.spawn(body)

    sim.run(main)
    return counter[0]


def deep(strategy):
    """A bug of depth 2: B must come between the two steps of A. Returns whether it struck."""
    sim, seen = Simulation(gear="turbo", strategy=strategy), []

    async def a():
        for number in range(12):
            await sim.sleep(0.0)
            seen.append(number)

    async def b():
        await sim.sleep(0.0)
        seen.append("b")

    async def main():
        sim.spawn(a)
        sim.spawn(b)

    sim.run(main)
    return seen.index("b") == 7


def test_pct_keeps_its_guarantee():
    """1 / (n · k^(d-1)), with n = 3 actors, k choices and depth 2; drawn often enough to tell it from half of that."""
    steps = 15  # 13 of one, two of the other
    hits = sum(deep(Pct(seed, 2, steps)) for seed in range(200))
    assert hits / 200 >= 1 / (3 * steps)
    assert sum(deep(Pct(seed, 1, steps)) for seed in range(50)) == 0, "depth 1 cannot come between"


def explore(program, dfs):
    """Every outcome of a program within a bound, and the number of schedules."""
    outcomes, waiting, runs = {}, [()], 0
    while waiting:
        departures = waiting.pop(0)
        recorded = Recorded(dfs.strategy(departures), detailed=True)
        outcomes.setdefault(program(recorded), departures)
        waiting.extend(dfs.after(departures, recorded.chances))
        runs += 1
    return outcomes, runs


def test_dfs_finds_what_few_departures_can_do_and_no_schedule_twice():
    assert set(explore(lost_update, Dfs(bound=1))[0]) == {1, 2}
    _, runs = explore(lambda s: tuple(n for n, _ in order_of(s, sleeps=(1.0, 1.0, 1.0))), Dfs(bound=9))
    # main spawns three actors that tie when they start (3! orders) and when they wake up (3! orders)
    assert runs == 36


def served(kind, servers, threads, message=False):
    """A program of threads that tie with the first steps of servers; its outcome is the order of what was logged."""

    def program(strategy, gear="turbo"):
        sim, log = Simulation(gear=gear, strategy=strategy), []

        async def serve(number, box):
            while True:
                log.append(f"server {number} got {await box.get()}")

        async def thread(number, box):
            log.append(f"thread {number}")
            if message:
                box.put(number)

        async def main():
            boxes = [Mailbox(sim, f"box {number}") for number in range(servers)]
            for number, box in enumerate(boxes):
                if kind == "service":
                    sim.spawn_service(serve, number, box, name=f"server {number}")
                else:
                    sim.spawn(serve, number, box, daemon=True, serves=box if kind == "dormant" else None)
            for number in range(threads):
                sim.spawn(thread, number, boxes[number % servers])
            await sim.sleep(1.0)

        sim.run(main)
        return tuple(log)

    return program


@pytest.mark.parametrize("kind", ["service", "dormant"])
def test_dfs_runs_one_schedule_of_each_class_where_first_steps_of_servers_commute(kind):
    """The steps of m threads depend on one another, those of the servers on none: that is m! Mazurkiewicz traces."""
    everything, runs = explore(served("task", 2, 3), Dfs(bound=9))
    assert runs == math.factorial(2 + 3)
    for servers in (2, 6):
        reduced, runs = explore(served(kind, servers, 3), Dfs(bound=9))
        assert runs == math.factorial(3)
        assert set(reduced) == set(everything)


@pytest.mark.parametrize("kind", ["service", "dormant"])
def test_dfs_loses_no_outcome_when_messages_come_before_a_server_has_begun(kind):
    everything, runs = explore(served("task", 2, 2, message=True), Dfs(bound=9))
    reduced, fewer = explore(served(kind, 2, 2, message=True), Dfs(bound=9))
    assert set(reduced) == set(everything) and fewer < runs


def test_a_schedule_of_servers_is_the_same_in_both_gears():
    for seed in range(20):
        program = served("service", 3, 3, message=True)
        assert program(Random(seed), "native") == program(Random(seed), "turbo")


def test_dfs_with_holds_reaches_what_so_many_holds_can_do():
    """(2, 1, 0) needs three: actor 0 has to be held back twice."""
    outcomes, _ = explore(lambda s: tuple(n for n, _ in order_of(s)), Dfs(bound=2, held=5.0))
    assert set(outcomes) == {(0, 1, 2), (1, 2, 0), (0, 2, 1), (2, 0, 1), (1, 0, 2)}


def test_who_is_held_back_keeps_a_lock_that_was_handed_to_it():
    """A timeout that strikes meanwhile comes too late: its wait has ended."""
    sim = Simulation(gear="turbo", strategy=Schedule((Hold(2, 2, 3.0),)))
    lock, got = Lock(sim, "lock"), []

    async def holder():
        async with lock:
            await sim.sleep(1.0)

    async def waiter():
        with sim.move_on_after(2.0) as scope:
            await lock.acquire()
            got.append(sim.now)
            lock.release()
        got.append(scope.timed_out)

    async def clock():
        await sim.sleep(9.0)

    async def main():
        for body in (holder, waiter, clock):
            sim.spawn(body)

    sim.run(main)
    assert got == [4.0, False]
    assert lock.statistics().owner is None


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), "soon"])
def test_a_bad_delay_ends_the_run(seconds):
    class Bad(Fifo):
        def delay(self, actor):
            return seconds

    with pytest.raises(BadChoice, match="delay"):
        order_of(Recorded(Bad()))


@pytest.mark.parametrize(("place", "told"), [(7, "returned 7"), (-1, "returned -1"), ("first", "raised TypeError")])
def test_a_choice_of_nobody_ends_the_run(place, told):
    class Bad:
        name = "bad"

        def choose(self, ready):
            return place

    with pytest.raises(BadChoice, match=f"strategy 'bad': choose {told}.* from 0 to 2"):
        order_of(Bad(), (1.0, 1.0, 1.0))


@pytest.mark.parametrize("make", [lambda: Delay(bound=0), lambda: Delay(longest=math.nan), lambda: Pct(depth=0)])
def test_a_strategy_that_can_do_nothing_is_an_error(make):
    with pytest.raises(ValueError, match=r"one or more|at least 1"):
        make()


def test_departures_that_the_run_has_never_come_to_have_no_successors():
    recorded = Recorded(Fifo(), detailed=True)
    order_of(recorded, (1.0, 1.0))
    assert list(Dfs(bound=2).after((), recorded.chances))
    for never in (Choice(99, 1), Hold(7, 99, 1.0)):
        assert not list(Dfs(bound=2).after((never,), recorded.chances))


@pytest.mark.parametrize("gear", ["native", "turbo"])
def test_who_is_held_back_beyond_its_time_keeps_the_message_that_it_was_given(gear):
    sim = Simulation(gear=gear, strategy=Schedule((Hold(1, 2, 5.0),)))
    box, got = Mailbox(sim, "box"), []

    async def getter():
        got.append((await box.get_until(2.0), sim.now))

    async def main():
        sim.spawn(getter)
        await sim.sleep(1)
        box.put("letter")
        await sim.sleep(9)

    sim.run(main)
    assert got == [("letter", 6.0)]


def test_reach_goes_no_further_than_the_end_of_a_hold():
    class Hasty:
        """Lets the last one go on first until t=2, and holds back the first one that goes on after time zero."""

        name, reach, holds = "hasty", 10.0, 1

        def choose(self, ready):
            return len(ready) - 1 if ready[0].sim.now < 2 else 0

        def delay(self, actor):
            if actor.sim.now and self.holds:
                self.holds = 0
                return 2.5
            return None

    assert order_of(Hasty(), (5.0, 6.0, 1.0)) == [(2, 3.5), (0, 6.0), (1, 7.0)]


@pytest.mark.parametrize("strategy", [Fifo(), Random(1)], ids=["fifo", "random"])
@pytest.mark.parametrize("gear", ["native", "turbo"])
def test_who_cancels_itself_and_then_turns_to_trio_gets_no_further(gear, strategy):
    sim, log = Simulation(gear=gear, strategy=strategy), []

    async def main():
        async with sim.open_nursery() as nursery:
            nursery.cancel()
            async with sim.attached():
                log.append("inside")
                await trio.sleep(1)
        log.append(sim.now)

    sim.run(main)
    assert log in ([0.0], ["inside", 0.0])


@pytest.mark.parametrize("reach", [0.0, 0.3])
def test_of_a_wait_that_passes_without_a_switch_a_strategy_is_asked_at_its_end(reach):
    """In turbo a timer that is next in any case passes in `set_timer`; a strategy must not notice."""

    def asked(gear):
        log = []

        class Asks:
            name = "asks"

            def __init__(self):
                self.reach = reach

            def choose(self, ready):
                log.append(("choice", sim.now, [actor.index for actor in ready]))
                return len(ready) - 1

            def delay(self, actor):
                log.append(("goes on", sim.now, actor.index))
                return 0.25 if len(log) % 3 == 0 else None

        sim = Simulation(gear=gear, strategy=Recorded(Asks()))

        async def body(number):
            station, box = Station(sim, 1, f"station {number}"), Mailbox(sim, f"box {number}")
            for turn in range(12):
                await station.serve(0.1 + 0.37 * number + 0.01 * turn)
                log.append(("served", sim.now, number))
                if turn % 4 == number:
                    await box.get_until(sim.now + 0.2)
                    log.append(("waited", sim.now, number))

        async def main():
            for number in range(3):
                sim.spawn(body, number)

        sim.run(main)
        return log, sim.timers_set

    assert asked("turbo") == asked("native")
