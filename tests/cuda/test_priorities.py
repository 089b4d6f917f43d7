"""Priorities of streams: whose kernels get places on the SMs first."""

import pytest
from cuda_rig import run_of

from offloadrt.kernels import Kernel

FULL = Kernel("full", flops_per_iteration=1e3)
"""With 216 blocks of 1024 threads a kernel takes all places of an A100."""


def order_of(priorities, settings=None):
    """The order in which kernels end that streams of these priorities get one after the other, and when."""

    async def body(t):
        streams = [await t.stream_create(non_blocking=True, priority=priority) for priority in priorities]
        ends = [await t.event_create() for _ in streams]
        for stream, end in zip(streams, ends, strict=True):
            await t.launch(FULL, grid=216, block=1024, iterations=216 * 1024 * 100, stream=stream)
            await t.event_record(end, stream)
        await t.device_synchronize()
        return sorted(range(len(ends)), key=lambda number: ends[number].reached), [end.reached for end in ends]

    return run_of(body, settings=settings)[1]


@pytest.mark.parametrize(
    ("priorities", "order"),
    [
        ([0, 0, 0, 0], [0, 1, 2, 3]),
        ([0, 0, 0, -1], [0, 3, 1, 2]),
        ([0, -1, -2, -3], [0, 3, 2, 1]),
        ([0, -1, 0, -1], [0, 1, 3, 2]),
        ([-5, -9, -7, -5], [0, 1, 2, 3]),  # all the greatest that there is
    ],
)
def test_a_waiting_kernel_of_greater_priority_gets_places_first(priorities, order):
    assert order_of(priorities)[0] == order


def test_priorities_change_nothing_where_all_kernels_find_room():
    usual, urgent = (order_of([0, 0, 0, priority], {"compute.uncontended": True})[1] for priority in (0, -5))
    assert usual == pytest.approx(urgent)


def test_nothing_that_runs_is_stopped_for_a_greater_priority():
    first = [order_of([0, priority])[1][0] for priority in (0, -5)]
    assert first[0] == pytest.approx(first[1])


def test_a_kernel_takes_as_long_whatever_its_priority():
    alone = [order_of([priority])[1][0] for priority in (0, -5)]
    assert alone[0] == pytest.approx(alone[1])


WAVES = 40


def overtaking(priority, blocks, waves=WAVES):
    """When a kernel of some waves ends, and one of `blocks` blocks that comes in its third wave, in waves."""

    async def body(t):
        streams = [await t.stream_create(non_blocking=True, priority=one) for one in (0, priority)]
        ends = [await t.event_create() for _ in streams]
        sizes = 216 * waves, blocks
        begin = t.sim.now
        for stream, end, size in zip(streams, ends, sizes, strict=True):
            await t.launch(FULL, grid=size, block=1024, iterations=size * 1024 * 100, stream=stream)
            await t.event_record(end, stream)
            await t.sleep(2.5 * WAVE_S)
        await t.device_synchronize()
        return [(end.reached - begin) / WAVE_S for end in ends]

    settings = {"launch.latency": 0, "launch.gap": 0, "driver.launch": 0}
    return run_of(body, settings=settings)[1]


WAVE_S = 216 * 1024 * 100 * 1e3 / 9.7e12
"""Seconds of a wave of `FULL`: its operations over the A100's peak."""


def test_a_kernel_of_greater_priority_gets_the_slots_of_teams_that_end():
    usual, urgent = overtaking(0, 8), overtaking(-1, 8)
    assert usual == pytest.approx([WAVES, WAVES + 0.5], rel=0.01)  # alone on its SM, a team has all of its rate
    assert urgent == pytest.approx([WAVES + 8 / 216, 3.5], rel=0.001)  # from the end of the third wave on


def test_a_kernel_of_greater_priority_that_fills_the_device_stops_the_other_between_two_waves():
    assert overtaking(-1, 3 * 216) == pytest.approx([WAVES + 3, 6], rel=0.01)


def test_a_kernel_in_its_last_wave_is_not_overtaken():
    assert overtaking(-1, 216, waves=3) == overtaking(0, 216, waves=3) == pytest.approx([3, 4], rel=0.01)
