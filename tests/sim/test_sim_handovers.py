"""Hand-overs: a run tells of every wait that somebody else ends, who ended it and when."""

from __future__ import annotations

import attrs
import pytest

from offloadrt.sim import Lock, Signal, Simulation
from offloadrt.sim.strategies import Random


@attrs.define
class Heard:
    """Notes every hand-over as (time, who lets go on, who goes on), and every join."""

    handed: list = attrs.field(factory=list)
    joins: list = attrs.field(factory=list)

    def handed_over(self, sim, actor):
        if sim.now:  # before, the run itself starts its actors
            self.handed.append((sim.now, (sim.running or sim.current).name, actor.name))

    def joined(self, sim, actor, since):
        self.joins.append((actor.name, since, sim.now))


@pytest.mark.parametrize("strategy", [None, Random(1)], ids=["fifo", "random"])
def test_a_lock_and_a_signal_tell_who_let_whom_go_on(strategy):
    heard = Heard()
    sim = Simulation(gear="turbo", handovers=heard, **({} if strategy is None else {"strategy": strategy}))
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
        def handed_over(self, sim, actor):
            raise ValueError("of the observer")

    async def main():
        pass

    with pytest.raises(ValueError, match="of the observer"):
        Simulation(gear=gear, handovers=Broken()).run(main)
