"""Items that need no more than a look-up share a hold of the table; nothing but the order of waiting may change."""

from __future__ import annotations

from typing import Any

import pytest

from offloadrt import openmp as omp
from offloadrt.kernels import Kernel
from offloadrt.study.running.run import Run
from offloadrt.trace import events

KERNEL = Kernel("touch", bytes_per_iteration=8.0)


def run_program(
    items_per_hold: int, threads: int, *, configuration: str = "copy", shared: bool = False, kernels: int = 20
) -> Run:
    """Each thread runs kernels over twelve resident arrays, and maps two more of its own around each."""
    run = Run(record=True)
    run.configuration = configuration
    run.phantom = True
    run.set("table.items_per_hold", items_per_hold)
    run.set("table.handover", "0 us")
    run.set("driver.event_wait", "0 us")
    everybody: list[Any] = []

    async def body(t: omp.HostThread) -> None:
        if t.number == 0 or not shared:
            arrays = [t.array(f"a{i}", 100) for i in range(12)]
            everybody.append(arrays)
        await t.barrier()
        arrays = everybody[0] if shared else arrays
        fresh = [t.array(f"f{i}", 100) for i in range(2)]
        step = t.construct_target(KERNEL, *arrays, *fresh, maps=omp.map(tofrom=[*arrays, *fresh]), teams=8)
        async with t.target_data(omp.map(alloc=arrays)):
            for _ in range(kernels):
                await t.run(step)

    async def main() -> None:
        await run.parallel(body, num_threads=threads)
        await run.finish()

    run.sim.run(main)
    return run


def acquisitions(run: Run) -> int:
    return int(run.locks["device table"].acquired)


@pytest.mark.parametrize("configuration", ["copy", "managed"])
def test_one_thread_takes_the_same_time_in_fewer_holds(configuration: str) -> None:
    one_by_one = run_program(1, 1, configuration=configuration)
    together = run_program(64, 1, configuration=configuration)
    assert together.sim.now == pytest.approx(one_by_one.sim.now, rel=1e-9)
    assert acquisitions(together) < acquisitions(one_by_one) / 4


@pytest.mark.parametrize("configuration", ["copy", "managed"])
def test_many_threads_take_nearly_the_same_time(configuration: str) -> None:
    one_by_one = run_program(1, 8, configuration=configuration)
    together = run_program(64, 8, configuration=configuration)
    assert together.sim.now == pytest.approx(one_by_one.sim.now, rel=0.02)


@pytest.mark.parametrize("shared", [False, True])
def test_counts_end_at_zero_and_the_same_look_ups_happen(shared: bool) -> None:
    one_by_one = run_program(1, 4, shared=shared)
    together = run_program(64, 4, shared=shared)
    for run in (one_by_one, together):
        device = run.openmp.devices[0]
        assert len(device.table) == 0
        assert device.live_blocks == 0
    assert one_by_one.machine.devices[0].bytes_moved() == together.machine.devices[0].bytes_moved()


@pytest.mark.parametrize("items_per_hold", [1, 64])
def test_whoever_waited_for_the_table_and_nobody_else_pays_the_hand_over(items_per_hold: int) -> None:
    """Also when the entries were locked meanwhile, so that one hold for all of them is not to be had."""
    run = Run(record=True)
    run.phantom = True
    run.set("table.items_per_hold", items_per_hold)
    run.set("table.handover", "10 ms")
    shared: list[omp.HostArray] = []

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            shared.extend(t.array(f"a{i}", 1 << 20) for i in range(4))
            await t.target_enter_data(omp.map(to=shared))
        await t.barrier()
        for _ in range(10):
            if t.number < 2:  # copies under the entry's lock
                await t.target_enter_data(omp.map(to=shared[t.number], always=True))
            else:
                await t.target(KERNEL, *shared, maps=omp.map(tofrom=shared), teams=8)

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


def test_the_table_is_held_for_all_look_ups_together() -> None:
    run = run_program(64, 1, configuration="managed", kernels=1)
    lookup = run.spec.value("table.lookup")
    # begin, arguments and end of one region with 14 items; begin and end of the data region's 12
    assert run.locks["device table"].hold_s == pytest.approx((3 * 14 + 2 * 12) * lookup)
