"""Under `otm` a directive that is left at a timeout, whenever that is, keeps no object active and no map open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import numpy as np
import pytest
from otm_rig import ALL_EXPLICIT, ALL_IMPLICIT, GIVEN, SIZE, add, arrays_of, room_for, run_body, step

from offloadrt import openmp as omp
from offloadrt.extensions.otm.configuration import object_table
from offloadrt.extensions.otm.object_table import ActiveBytes

Part = Callable[[omp.HostThread, list[omp.HostArray]], Awaitable[object]]
ROOM_FOR_TWO = {**room_for(2), "otm.threshold": "0.8"}
NO_ROOM = {**room_for(1), "otm.reserve": f"{SIZE} B", "otm.leave": "program"}
MEMORIES = [ALL_EXPLICIT, ALL_IMPLICIT, ROOM_FOR_TWO]


async def target(t: omp.HostThread, arrays: list[omp.HostArray]) -> None:
    await t.target(step, *arrays, maps=omp.map(tofrom=arrays))


async def region(t: omp.HostThread, arrays: list[omp.HostArray]) -> None:
    async with t.target_data(omp.map(tofrom=arrays)):
        await t.target(add, *arrays[1:], maps=omp.map(tofrom=arrays[1:]))
        await target(t, arrays)


async def enter_and_exit(t: omp.HostThread, arrays: list[omp.HostArray]) -> None:
    await t.target_enter_data(omp.map(to=arrays))
    await t.target_exit_data(omp.map(delete=arrays))


def assert_nothing_is_active(t: omp.HostThread) -> None:
    device = t.program.device(0)
    table = object_table(device)
    assert table.counters == ActiveBytes() and not table._active
    assert [one for one in table._objects.values() if one.running or one.open] == []
    assert not list(device.table) and len(device.blocks) == 0


async def left_at(t: omp.HostThread, part: Part, patience: float, left: list[bool]) -> float:
    """How long the part took; when it was left, nothing stays active and the next one is as the first."""
    arrays = arrays_of(t)
    begin = t.sim.now
    with t.sim.move_on_after(patience) as scope:
        await part(t, arrays)
    took = t.sim.now - begin
    left.append(scope.timed_out)
    await t.sleep(1.0)
    if part is enter_and_exit and scope.timed_out:
        await t.target_exit_data(omp.map(delete=arrays))  # of an enter that has come to its end
    assert_nothing_is_active(t)
    await t.host_access(arrays[2])
    before = arrays[2].data.copy()
    await t.target(add, arrays[1], arrays[2], maps=omp.map(tofrom=arrays[1:]))
    await t.host_access(arrays[2])
    assert np.array_equal(arrays[2].data, before + arrays[1].data)
    assert_nothing_is_active(t)
    return took


@pytest.mark.parametrize("part", [target, region, enter_and_exit])
@pytest.mark.parametrize("leave", ["region", "data"])
@pytest.mark.parametrize("overrides", MEMORIES, ids=["explicit", "implicit", "two fit"])
def test_whenever_it_is_left(part: Part, leave: str, overrides: dict[str, str]) -> None:
    left: list[bool] = []

    def at(patience: float) -> float:
        body = partial(left_at, part=part, patience=patience, left=left)
        return float(run_body(body, program=GIVEN, overrides={**overrides, "otm.leave": leave})[1][0])

    whole = at(10.0)
    assert left == [False]
    for patience in [whole * k / 6 for k in range(6)] + [whole * k / 400 for k in range(1, 7, 2)]:
        at(patience)
    assert all(left[1:])


def test_an_advice_that_was_not_given_is_given_by_the_next_call() -> None:
    """A pinned object never migrates, though the call that decided so was left before the driver was told."""

    async def body(t: omp.HostThread, patience: float) -> bool:
        a, b, c = arrays_of(t)
        with t.sim.move_on_after(patience) as scope:
            await target(t, [a, b, c])
        await target(t, [a, b, c])
        return scope.timed_out

    for patience in [4e-6 * k for k in range(12)]:
        run, left = run_body(partial(body, patience=patience), overrides=NO_ROOM)
        assert left == [True]
        assert run.statistics.faults["bytes_transfer_htod"] == 0
