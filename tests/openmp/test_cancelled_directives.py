"""A directive that is left at a timeout, whenever that is, leaves nothing behind, and the program goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from openmp_rig import MakeRig, Rig

from offloadrt import openmp as omp
from offloadrt.extensions.exploring.invariants import violations
from offloadrt.kernels import kernel
from offloadrt.study.running.run import Run
from offloadrt.trace import events

MACHINES = [("alex-a100", "copy"), ("mi300a", "copy"), ("mi300a", "eager_maps"), ("summitdev-p100", "managed")]
Body = Callable[[omp.HostThread, list[omp.HostArray]], Awaitable[object]]


@kernel(flops_per_iteration=1e4)
def add_one(a: Any, b: Any, c: Any) -> None:
    a += 1.0


async def target(t: omp.HostThread, arrays: list[omp.HostArray]) -> None:
    """Arrays that are mapped by the region, mapped already and of its own; small and large, also in one construct."""
    a, b, c = arrays
    await t.target(add_one, a, b, c, maps=[omp.map(tofrom=a), omp.map(to=b)], firstprivate=c, iterations=1 << 10)


async def update(t: omp.HostThread, arrays: list[omp.HostArray]) -> None:
    await t.target_update(omp.to(arrays[1]), omp.from_(arrays[1]))


async def enter(t: omp.HostThread, arrays: list[omp.HostArray]) -> None:
    await t.target_enter_data(omp.map(to=arrays))


async def region(t: omp.HostThread, arrays: list[omp.HostArray]) -> None:
    async with t.target_data(omp.map(tofrom=arrays)):
        await t.target(add_one, *arrays, iterations=1 << 10)


def assert_everything_is_back(rig: Rig, known: list[tuple[str, int]], blocks: int) -> None:
    device = rig.device
    assert violations(device) == []
    assert [(entry.name, entry.total) for entry in device.table] == known
    assert len(device.blocks) == blocks


def waits(rig: Rig) -> Counter[tuple[int, str]]:
    """Waits for completions that have begun and not ended, by actor and completion."""
    found: Counter[tuple[int, str]] = Counter()
    for event in rig.trace.events:
        if isinstance(event, events.SignalWaitBegin):
            found[event.actor, event.signal] += 1
        elif isinstance(event, events.SignalWaitEnd):
            found[event.actor, event.signal] -= 1
    return +found


def left_at(made: Rig, body: Body, patience: float | None) -> tuple[bool, float]:
    """Whether the body was left, and how long it took; everything is back afterwards, and the program goes on."""

    async def main(t: omp.HostThread) -> tuple[bool, float]:
        arrays = [t.array(name, n, fill=1.0) for name, n in (("a", 1 << 16), ("b", 1 << 18), ("c", 300))]
        await t.target_enter_data(omp.map(to=arrays[1]))
        await target(t, arrays)
        known, blocks = [(entry.name, entry.total) for entry in made.device.table], len(made.device.blocks)
        begin = t.sim.now
        with t.sim.move_on_after(1.0 if patience is None else patience) as scope:
            await body(t, arrays)
        taken = t.sim.now - begin
        if scope.timed_out:
            assert taken == pytest.approx(patience)
        await t.sleep(1.0)
        if scope.timed_out:
            assert_everything_is_back(made, known, blocks)
        assert not waits(made)
        if scope.timed_out:
            before = arrays[0].data.copy()
            await target(t, arrays)
            assert np.array_equal(arrays[0].data, before + 1.0)
        return scope.timed_out, taken

    return made.alone(main)


@pytest.mark.parametrize("body", [target, update, enter, region])
@pytest.mark.parametrize(("machine", "configuration"), MACHINES)
@pytest.mark.parametrize("steps", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_whenever_it_is_left(rig: MakeRig, machine: str, configuration: str, body: Body, steps: int) -> None:
    """At so many instants, evenly over its duration; and again in its first part."""

    def made() -> Rig:
        return rig({}, machine_name=machine, configuration=configuration)

    finished, whole = left_at(made(), body, None)
    assert not finished
    for patience in [whole * k / steps for k in range(steps)] + [whole / 20 * k / steps for k in range(1, steps)]:
        left, _ = left_at(made(), body, patience)
        assert left


@pytest.mark.parametrize(("machine", "configuration"), MACHINES[:2])
def test_an_exit_that_is_left_has_not_begun_or_is_brought_to_its_end(
    rig: MakeRig, machine: str, configuration: str
) -> None:
    async def body(t: omp.HostThread, made: Rig, patience: float) -> int:
        arrays = [t.array(name, 1 << 16, fill=1.0) for name in "abc"]
        await enter(t, arrays)
        with t.sim.move_on_after(patience) as scope:
            await t.target_exit_data(omp.map(from_=arrays))
        assert scope.timed_out
        await t.sleep(1.0)
        mapped = len(list(made.device.table))
        if not mapped:
            assert_everything_is_back(made, [], 0)
        return mapped

    found = []
    for patience in (0.0, 1e-7, 5e-6, 20e-6, 50e-6):
        made = rig(machine_name=machine, configuration=configuration)
        found.append(made.alone(partial(body, made=made, patience=patience)))
    assert set(found) == {0, 3} and found == sorted(found, reverse=True)


@pytest.mark.parametrize("patience", [3e-6, 30e-6, 300e-6])
def test_both_gears_leave_at_the_same_point_of_history(rig: MakeRig, patience: float) -> None:
    def history(gear: str) -> str:
        made = rig(gear=gear, machine_name="mi300a")
        left_at(made, target, patience)
        return made.trace.hash()

    assert history("native") == history("turbo")


@pytest.mark.parametrize(("machine", "configuration"), MACHINES)
def test_threads_that_share_arrays_leave_each_for_itself(rig: MakeRig, machine: str, configuration: str) -> None:
    shared: list[omp.HostArray] = []
    left = []

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            shared.extend(t.array(name, n, fill=1.0) for name, n in (("a", 1 << 16), ("b", 1 << 12), ("c", 300)))
            await region(t, shared)  # loads the image and creates the DMA queue, which no thread has the patience for
        await t.barrier()
        for turn in range(12):
            with t.sim.move_on_after((1 + t.number + 5 * turn) * 7e-6) as scope:
                await region(t, shared)
            left.append(scope.timed_out)
        await t.barrier()
        await t.sleep(1.0)
        await t.barrier()
        if t.number == 0:
            assert_everything_is_back(made, [], 0)

    made = rig(machine_name=machine, configuration=configuration)
    made.run(body, 5)
    assert True in left and not waits(made)


def test_siblings_of_a_cancelled_team_leave_nothing_behind(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        async def work() -> None:
            t_of_child = t.program.host_thread()
            await target(t_of_child, [t_of_child.array(name, 1 << 16, fill=1.0) for name in "abc"])

        async with t.sim.open_nursery() as nursery:
            for number in range(3):
                nursery.spawn(work, name=f"child {number}")
            await t.sleep(400e-6)
            nursery.cancel()
        await t.sleep(1.0)
        assert_everything_is_back(made, [], 0)

    made.alone(body)


def test_a_kernel_that_goes_wrong_after_its_directive_was_left_ends_the_run(rig: MakeRig) -> None:
    @kernel(flops_per_iteration=1e9)
    def wrong(a: Any) -> None:
        raise ZeroDivisionError("mine")

    async def body(t: omp.HostThread) -> None:
        with t.sim.move_on_after(1e-3):
            await t.target(wrong, t.array("a", 8, fill=1.0), iterations=1 << 10)
        await t.sleep(100.0)

    with pytest.raises(ZeroDivisionError, match="mine"):
        rig().alone(body)


def test_a_run_that_ends_while_a_directive_is_brought_to_its_end_waits_for_that() -> None:
    run = Run(machine="mi300a")

    async def body(t: omp.HostThread) -> None:
        with t.sim.move_on_after(300e-6) as scope:
            await target(t, [t.array(name, 1 << 16, fill=1.0) for name in "abc"])
        assert scope.timed_out

    async def main() -> None:
        await run.parallel(body)
        await run.finish()

    run.sim.run(main)
    assert run.device().memory.blocks() == []


def test_a_map_that_prefetches_and_is_left_gives_its_stream_back(rig: MakeRig) -> None:
    made = rig(machine_name="summitdev-p100", configuration="managed+prefetch")

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 1 << 18, fill=1.0)
        begin = t.sim.now
        await t.target_enter_data(omp.map(to=a))
        whole = t.sim.now - begin
        for step in range(1, 20):
            await t.host_access(a)
            with t.sim.move_on_after(whole / 2 * step / 20) as scope:
                await t.target_enter_data(omp.map(to=a))
            assert scope.timed_out
            await t.sleep(1e-3)
            assert made.device.plugin.in_use() == {"streams": 0} and made.device.plugin.streams.made == 1

    made.alone(body)


def test_a_map_of_a_linked_global_that_is_left_gives_the_table_back(rig: MakeRig) -> None:
    made = rig()
    linked = made.program.declare_target_link("linked", 1024, fill=1.0)

    async def body(t: omp.HostThread) -> None:
        await t.target_enter_data(omp.map(to=linked))
        begin = t.sim.now
        await t.target_enter_data(omp.map(to=linked))
        whole = t.sim.now - begin
        known = [(entry.name, entry.total) for entry in made.device.table]
        for step in range(1, 40):
            with t.sim.move_on_after(whole / 2 * step / 40) as scope:
                await t.target_enter_data(omp.map(to=linked))
            assert scope.timed_out
            await t.sleep(1e-3)
            assert_everything_is_back(made, known, len(made.device.blocks))

    made.alone(body)


def test_a_barrier_waits_also_for_whoever_gave_it_up_before(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> float:
        if t.number == 0:
            with t.sim.move_on_after(1.0) as scope:
                await t.barrier()
            assert scope.timed_out
        await t.sleep((2.0, 1.5)[t.number])
        await t.barrier()
        return t.sim.now

    assert rig().run(body, 2) == [3.0, 3.0]
