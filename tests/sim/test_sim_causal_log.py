"""Resumptions: a run tells of every wait that somebody else ends, who ended it and when."""

from __future__ import annotations

import attrs
import pytest

from offloadrt.extensions.exploring.strategies import Hold, Schedule
from offloadrt.sim import Lock, Signal, Simulation, Station
from offloadrt.sim.strategies import Random


@attrs.define
class Heard:
    """Notes every resumption as (time, who lets go on, who goes on), and every join."""

    handed: list = attrs.field(factory=list)
    joins: list = attrs.field(factory=list)

    def resumed(self, sim, actor):
        if sim.now:  # before, the run itself starts its actors
            self.handed.append((sim.now, (sim.running or sim.current).name, actor.name))

    def joined(self, sim, actor, since):
        self.joins.append((actor.name, since, sim.now))


@pytest.mark.parametrize("strategy", [None, Random(1)], ids=["fifo", "random"])
def test_a_lock_and_a_signal_tell_who_let_whom_go_on(strategy):
    heard = Heard()
    sim = Simulation(gear="turbo", causal_log=heard, **({} if strategy is None else {"strategy": strategy}))
    lock, done = Lock(sim, "lock"), Signal(sim, "done")

    async def holder():
        async with lock:
            await sim.sleep(2)
        await sim.sleep(1)
        done.set()

    async def waiter():
        await sim.sleep(1)
        async with lock:
            pass
        await done.wait()

    async def main():
        async with sim.open_nursery() as nursery:
            nursery.spawn(holder, name="holder")
            nursery.spawn(waiter, name="waiter")

    sim.run(main)
    waits = [told for told in heard.handed if told[2] == "waiter" != told[1]]
    assert waits == [
        (2.0, "holder", "waiter"),
        (3.0, "holder", "waiter"),
    ]
    assert [(since, until) for _, since, until in heard.joins] == [(0.0, 3.0)]


def test_an_error_of_the_observer_ends_the_run(gear):
    class Broken(Heard):
        def resumed(self, sim, actor):
            raise ValueError("of the observer")

    async def main():
        pass

    with pytest.raises(ValueError, match="of the observer"):
        Simulation(gear=gear, causal_log=Broken()).run(main)


def test_who_leaves_a_station_lets_the_next_one_go_on():
    heard = Heard()
    sim = Simulation(gear="turbo", causal_log=heard)
    engine = Station(sim, 1, "engine")

    async def main():
        async with sim.open_nursery() as nursery:
            for name in ("first", "second"):
                nursery.spawn(engine.serve, 2.0, name=name)

    sim.run(main)
    assert (2.0, "first", "second") in heard.handed and sim.now == 4.0


def test_a_timeout_that_waits_for_its_actor_is_no_resumption():
    """Under a strategy it is put off when its actor is on its way already."""
    heard = Heard()
    sim, lock, log = Simulation(gear="turbo", causal_log=heard, strategy=Schedule((Hold(2, 2, 4.0),))), None, []
    lock = Lock(sim, "lock")

    async def holder():
        async with lock:
            await sim.sleep(1)

    async def waiter():
        with sim.move_on_after(2) as scope:
            async with lock:
                log.append(sim.now)
                await sim.sleep(9)
        log.append((scope.timed_out, sim.now))

    async def main():
        sim.spawn(holder, name="holder")
        sim.spawn(waiter, name="waiter")

    sim.run(main)
    assert log == [5.0, (True, 5.0)]
    assert heard.handed == [(1.0, "holder", "waiter")]
