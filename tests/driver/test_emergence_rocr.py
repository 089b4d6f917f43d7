"""Contention for what ROCr adds: its handler thread, the locks of rings and queues. As in `test_emergence_apu.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest

from offloadrt.driver import HsaSignal, Rocr, RunHandler
from offloadrt.kernels import Kernel
from offloadrt.machine import Machine, load
from offloadrt.sim import Signal, Simulation

EMPTY = Kernel("empty").launch(1)
N = 7
ENOUGH = {
    "dma.rings": 1, "hsa.queues": 1, "dma_ring.uncontended": True, "driver.handover": 0, "hsa.queue_create": 0,
    "dma.ring_create": 0,
}  # fmt: skip


@attrs.define
class Rig:
    """The library on an APU."""

    sim: Simulation
    rocr: Rocr

    def together(self, thread: Callable[[Rig], Awaitable[None]], threads: int) -> list[float]:
        """`thread` so often at once; the virtual time that each takes."""
        ends = [0.0] * threads

        async def timed(place: int) -> None:
            begin = self.sim.now
            await thread(self)
            ends[place] = self.sim.now - begin

        async def main() -> None:
            self.rocr.start()
            async with self.sim.open_nursery() as nursery:
                for place in range(threads):
                    nursery.spawn(timed, place, name=f"host thread {place}")

        self.sim.run(main)
        return ends


def make_rig(overrides: dict[str, Any]) -> Rig:
    sim = Simulation(gear="turbo")
    machine = Machine(sim, load("mi300a", {**ENOUGH, **overrides}))
    return Rig(sim, Rocr.of(machine))


async def handles(rig: Rig) -> None:
    """A handler of a signal that is set."""
    done, ready = Signal(rig.sim), HsaSignal(rig.sim, "ready")
    ready.set()
    await rig.rocr.signals.async_handler(ready, RunHandler(100_000, None, done))
    await done.wait()


async def registers(rig: Rig) -> None:
    """A handler of a signal that is never set."""
    await rig.rocr.signals.async_handler(HsaSignal(rig.sim, "never"), RunHandler(8, None, Signal(rig.sim)))


async def copies(rig: Rig) -> None:
    stream, done = rig.rocr.device.hsa_queues.open_stream(), HsaSignal(rig.sim, "done")
    await rig.rocr.copies.copy(stream, 0, "h2d", 8, None, done)


async def launches(rig: Rig) -> None:
    stream = rig.rocr.device.hsa_queues.open_stream()
    rig.rocr.queues.take(stream)
    await rig.rocr.queues.dispatch(stream, 0, EMPTY, None, HsaSignal(rig.sim, "done"))


def handler(rig: Rig) -> tuple[float, float]:
    found = rig.rocr.handler.statistics()
    return found.busy_s / found.handlers, found.wait_s


def lock(name: str, besides: int = 0) -> Callable[[Rig], tuple[float, float]]:
    """`besides`: acquisitions that take no time here."""

    def of(rig: Rig) -> tuple[float, float]:
        found = rig.rocr.locks()[name]
        return found.hold_s / (found.acquired - besides), found.wait_s

    return of


@attrs.frozen
class Contended:
    """An object that threads contend for: `figures` are what it gave to each, and the waiting that it reports."""

    key: str
    thread: Callable[[Rig], Awaitable[None]]
    figures: Callable[[Rig], tuple[float, float]]
    overrides: dict[str, Any] = attrs.field(factory=dict)


OBJECTS = [
    Contended("async_handler", handles, handler, {"async_events_lock.uncontended": True, "signal.take": 0.0}),
    # The library's thread takes the lock, too, here for as long, and the last time when all threads have ended.
    Contended(
        "async_events_lock",
        registers,
        lock("async events lock", besides=1),
        {"signal.register": 0.5, "signal.take": 0.5},
    ),
    Contended("ring_lock", copies, lock("dma ring 0 lock")),
    Contended("queue_lock", launches, lock("hsa queue 0 lock", besides=1)),
]


def elapsed(contended: Contended, threads: int, uncontended: bool = False) -> tuple[list[float], Rig]:
    rig = make_rig({**contended.overrides, f"{contended.key}.uncontended": uncontended})
    return rig.together(contended.thread, threads), rig


@pytest.mark.parametrize("contended", OBJECTS, ids=lambda one: one.key)
def test_service_does_not_depend_on_the_number_of_threads(contended: Contended) -> None:
    (alone, one), (together, many) = (elapsed(contended, threads) for threads in (1, N))
    assert max(together) > 1.5 * max(alone), "this test contends for nothing"
    assert contended.figures(many)[0] == pytest.approx(contended.figures(one)[0])


@pytest.mark.parametrize("contended", OBJECTS, ids=lambda one: one.key)
def test_without_contention_everybody_takes_the_time_of_one(contended: Contended) -> None:
    alone, _ = elapsed(contended, 1)
    assert elapsed(contended, 1, uncontended=True)[0] == pytest.approx(alone)
    assert elapsed(contended, N, uncontended=True)[0] == pytest.approx(alone * N, rel=1e-5)


@pytest.mark.parametrize("contended", OBJECTS, ids=lambda one: one.key)
def test_what_is_lost_is_the_waiting(contended: Contended) -> None:
    (alone, _), (together, many) = (elapsed(contended, threads) for threads in (1, N))
    assert sum(together) - N * alone[0] == pytest.approx(contended.figures(many)[1])


def test_a_woken_thread_pays_for_the_hand_over() -> None:
    def slowest(handover: float) -> float:
        return max(make_rig({"driver.handover": handover}).together(copies, 3))

    assert slowest(1.0) - slowest(0.0) == pytest.approx(2e-6)
