"""The events of the trace that tell who waits for the device table."""

from __future__ import annotations

import pytest
from openmp_rig import SLOW_TABLE, MakeRig, mapped

from offloadrt import Run
from offloadrt import openmp as omp
from offloadrt.kernels import Kernel
from offloadrt.trace import events


@pytest.mark.parametrize("handoff", ["fifo", "barging"])
def test_the_trace_shows_who_waits_for_the_table_and_who_is_woken_to_try(rig: MakeRig, handoff: str) -> None:
    made = mapped(rig, 3, {**SLOW_TABLE, "table.handoff": handoff})
    lock = made.program.locks()["device table"]
    waiting: set[int] = set()
    begun = woken = acquired = released = 0
    for event in made.trace.events:
        if getattr(event, "lock", "") != "device table":
            continue
        if isinstance(event, events.LockWait):
            woken += event.actor in waiting
            begun += event.actor not in waiting
            waiting.add(event.actor)
        elif isinstance(event, events.LockAcquire):
            acquired += 1
            waiting.discard(event.actor)
        else:
            assert isinstance(event, events.LockRelease)
            released += 1
    assert begun == lock.contended > 0
    assert acquired == released == lock.acquired
    assert (woken > 0) == (handoff == "barging"), "a lock that is handed over wakes nobody in vain"


def test_whoever_waited_for_the_table_and_nobody_else_pays_the_hand_over() -> None:
    """Also when the entries were locked meanwhile; of a lock that is handed over."""
    run = Run(record=True)
    run.phantom = True
    run.set("table.handoff", "fifo")
    run.set("table.handover", "10 ms")
    shared: list[omp.HostArray] = []
    kernel = Kernel("touch", bytes_per_iteration=8.0)

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            shared.extend(t.array(f"a{i}", 1 << 20) for i in range(4))
            await t.target_enter_data(omp.map(to=shared))
        await t.barrier()
        for _ in range(10):
            if t.number < 2:  # copies under the entry's lock
                await t.target_enter_data(omp.map(to=shared[t.number], always=True))
            else:
                await t.target(kernel, *shared, maps=omp.map(tofrom=shared), teams=8)

    run.sim.run(run.parallel, body, 6)
    assert run.trace is not None
    waiting: set[int] = set()
    since: dict[int, tuple[int, bool]] = {}
    holds: set[tuple[bool, bool]] = set()
    for event in run.trace.events:
        if getattr(event, "lock", "") != "device table":
            continue
        if isinstance(event, events.LockWait):
            waiting.add(event.actor)
        elif isinstance(event, events.LockAcquire):
            since[event.actor] = event.time_ps, event.actor in waiting
            waiting.discard(event.actor)
        else:
            begin, waited = since.pop(event.actor)
            holds.add((waited, event.time_ps - begin > 9e9))
    assert holds == {(True, True), (False, False)}
