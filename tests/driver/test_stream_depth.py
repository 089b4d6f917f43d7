"""A stream holds so many commands: whoever submits one more waits for the oldest, with the driver's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from offloadrt.kernels import Kernel
from offloadrt.machine import load
from offloadrt.trace import events

SPEC = load("alex-a100")
LAUNCH = SPEC.value("driver.launch")
DEPTH = 4
WORK = Kernel("work", flops_per_iteration=1e9).launch(teams=1, iterations=1)


def returns(rig: Callable[..., Any], launches: int, depth: int = DEPTH) -> tuple[list[float], list[float], Any]:
    """When each of some launches returned, when each kernel had ended, and the hardware."""
    hardware = rig({"driver.stream_depth": depth})
    returned: list[float] = []
    ended: list[float] = []

    async def main() -> None:
        stream = await hardware.driver.streams.create()
        begin = hardware.sim.now
        for _ in range(launches):
            await hardware.driver.kernels.launch(WORK, (), stream)
            returned.append(hardware.sim.now - begin)
        await hardware.driver.streams.synchronize(stream)
        found = [event for event in hardware.trace.events if isinstance(event, events.KernelEnd)]
        ended.extend(event.time_ps * 1e-12 - begin for event in found)

    hardware.run(main)
    return returned, ended, hardware


def test_launches_return_at_once_until_the_stream_is_full(rig: Callable[..., Any]) -> None:
    returned, _, _ = returns(rig, DEPTH)
    assert returned == pytest.approx([LAUNCH * (number + 1) for number in range(DEPTH)])


def test_then_each_waits_for_the_kernel_that_many_places_before_it(rig: Callable[..., Any]) -> None:
    returned, ended, hardware = returns(rig, 10)
    assert returned[DEPTH:] == pytest.approx(ended[: 10 - DEPTH])
    waited = hardware.machine.host_time.seconds["kernels"]
    assert waited == pytest.approx(ended[-1] - 10 * LAUNCH, rel=1e-2)


def test_the_kernels_run_as_they_do_in_a_stream_without_end(rig: Callable[..., Any]) -> None:
    assert returns(rig, 10)[1] == pytest.approx(returns(rig, 10, 1 << 20)[1])


def test_calls_for_other_streams_wait_for_the_lock(rig: Callable[..., Any]) -> None:
    hardware = rig({"driver.stream_depth": DEPTH, "driver.handoff": "fifo", "driver.handover": 0})
    taken: list[float] = []

    async def fill() -> None:
        stream = await hardware.driver.streams.create()
        for _ in range(DEPTH + 1):
            await hardware.driver.kernels.launch(WORK, (), stream)

    async def other() -> None:
        stream = await hardware.driver.streams.create()
        await hardware.sim.sleep(10 * DEPTH * LAUNCH)
        begin = hardware.sim.now
        await hardware.driver.kernels.launch(WORK, (), stream)
        taken.append(hardware.sim.now - begin)

    hardware.together(fill, other)
    assert taken[0] > 10 * LAUNCH


def test_a_launch_that_is_left_while_it_waits_gives_the_lock_back(rig: Callable[..., Any]) -> None:
    hardware = rig({"driver.stream_depth": 1})

    async def main() -> float:
        stream = await hardware.driver.streams.create()
        await hardware.driver.kernels.launch(WORK, (), stream)
        with hardware.sim.move_on_after(5 * LAUNCH) as scope:
            await hardware.driver.kernels.launch(WORK, (), stream)
        assert scope.timed_out
        begin: float = hardware.sim.now
        await hardware.driver.kernels.launch(WORK, (), await hardware.driver.streams.create())
        return float(hardware.sim.now - begin)

    assert hardware.run(main) < 1e-3
