"""A program that steps a coroutine of the run itself, instead of awaiting it, is refused by the actor's name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from offloadrt.sim import Mailbox, Simulation, SimulationError


def once(step: Any) -> None:
    step.send(None)


def twice(step: Any) -> None:
    step.send(None)
    step.send(None)


def to_the_end(step: Any) -> None:
    for _ in range(1000):
        step.send(None)


@pytest.mark.parametrize("gear", ["native", "turbo"])
@pytest.mark.parametrize("steps", [once, twice, to_the_end])
@pytest.mark.parametrize("waits", [lambda sim, box: sim.sleep(2), lambda sim, box: box.get()])
@pytest.mark.parametrize("then", ["sleeps", "ends", "raises", "awaits it"])
def test_whoever_goes_on_while_it_waits_is_refused(
    gear: Any, steps: Callable[[Any], None], waits: Callable[[Simulation, Mailbox[int]], Any], then: str
) -> None:
    sim = Simulation(gear=gear)

    async def stepping() -> None:
        waiting = waits(sim, Mailbox(sim, "box"))
        steps(waiting)
        if then == "sleeps":
            await sim.sleep(1)
        elif then == "raises":
            raise KeyError("its own")
        elif then == "awaits it":
            await waiting

    async def main() -> None:
        async with sim.open_nursery() as nursery:
            nursery.spawn(stepping, name="stepping")
            nursery.spawn(sim.sleep, 1, name="other")

    with pytest.raises(SimulationError, match=r"^t=\d.*: \w+ goes on while it waits: .* stepped by hand"):
        sim.run(main)


NURSERY = """
from offloadrt.sim import Simulation, SimulationError

for gear in ("native", "turbo"):
    sim = Simulation(gear=gear)

    async def team():
        async with sim.open_nursery() as nursery:
            nursery.spawn(sim.sleep, 1)

    async def main():
        team().send(None)

    try:
        sim.run(main)
    except SimulationError as error:
        print(error)
"""


def test_a_nursery_that_is_stepped_by_hand_is_refused() -> None:
    done = subprocess.run([sys.executable, "-c", NURSERY], capture_output=True, text=True)  # Trio's wreck goes with it
    first, second = done.stdout.splitlines()
    assert first == second
    assert first.startswith("t=0: the tasks of the run are in disorder: a coroutine was stepped by hand")
