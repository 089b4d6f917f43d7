"""The events of the trace that tell who waits for the device table."""

from __future__ import annotations

from openmp_rig import SLOW_TABLE, MakeRig, mapped

from offloadrt import Run
from offloadrt import openmp as omp
from offloadrt.kernels import Kernel
from offloadrt.trace import events


def test_the_trace_shows_who_waits_for_the_table(rig: MakeRig) -> None:
    made = mapped(rig, 3, SLOW_TABLE)
    lock = made.program.locks()["device table"]
    waits = [e for e in made.trace.events if isinstance(e, events.LockWait) and e.lock == "device table"]
    acquired = [e for e in made.trace.events if isinstance(e, events.LockAcquire) and e.lock == "device table"]
    released = [e for e in made.trace.events if isinstance(e, events.LockRelease) and e.lock == "device table"]
    assert len(waits) == lock.contended
    assert len(acquired) == len(released) == lock.acquired


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
