"""``sleep``: an actor lets time pass. And what it waits for while it is only suspended."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Generator
from heapq import heappush, heappushpop
from math import inf
from typing import Any

from offloadrt.sim.actor import Actor, Scheduler, uninterrupted
from offloadrt.sim.duration import no_duration


def make_sleep(sim: Scheduler) -> Callable[[float], Awaitable[None]]:
    """Make the function ``sleep`` of a simulation.

    It is what actors do most, so it is a closure (its names are found faster than fields), and in the gear ``turbo`` it
    looks itself who is next: setting a timer and taking the least one is one operation on the heap. When the least
    one is its own, that is what `Simulation.set_timer` does. A version of `sleep` that pushed its timer and called for
    that test took 16 to 18 % more instructions for an iteration of the models M1 and M4 (`bench/models.py`).
    """
    heap, ready = sim.heap, sim.ready
    popleft = ready.popleft

    @uninterrupted
    @types.coroutine
    def sleep(dt: float) -> Generator[Any, Any, None]:
        """Let ``dt`` virtual seconds pass for this actor. ValueError if ``dt`` is negative, infinite or NaN."""
        try:
            if not 0.0 <= dt < inf:
                raise no_duration("sleep", dt)
        except TypeError:
            raise no_duration("sleep", dt) from None
        me = sim.running or sim.current
        sim.timers_set = number = sim.timers_set + 1
        if (trap := me.trap) is not None:
            heappush(heap, (sim.now + dt, number, me))
            sim.running = None  # it waits in virtual time, not in Trio (`Simulation.deadline_to_sleep_time`)
            yield trap
        else:
            if ready:
                heappush(heap, (sim.now + dt, number, me))
                item = popleft()
            else:
                sim.now, _, item = heappushpop(heap, (sim.now + dt, number, me))
                # Nobody is due before. It may go on only so often in a slice, or Trio would never get its look.
                if item is me and number <= sim.last_advance:
                    return
            sim.running = item
            yield item.send
        if me.interruption is not None:
            yield from me.interrupted()

    return sleep


@uninterrupted
@types.coroutine
def suspended(me: Actor) -> Generator[Any, Any, None]:
    """Wait for a timer that is set."""
    me.sim.running = None  # as in sleep
    yield me.trap
    if me.interruption is not None:
        yield from me.interrupted()


class Paused:
    """What an actor waits for that has only stepped aside for a look at Trio: its turn."""

    name = "its turn"

    def __init__(self, sim: Scheduler) -> None:
        self._sim = sim

    def forget(self, actor: Actor) -> bool:
        self._sim.ready.remove(actor)
        return True
