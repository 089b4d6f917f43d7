"""When a kernel reaches the SMs: after the launch latency, or after a gap behind what its stream did before."""

from __future__ import annotations

from typing import Any

import pytest

from offloadrt.kernels import Kernel
from offloadrt.machine.messages import KernelPacket
from offloadrt.sim import Signal
from offloadrt.trace import events

LATENCY, GAP = 4e-6, 1e-6
LONG = Kernel("long", None, 1e5, 0.0, 256).launch(8, iterations=2000)


def starts(rig: Any, *submitted: float, streams: int = 1) -> tuple[list[float], float]:
    """Submit kernels at these times, in turn to so many streams; return when each starts and what one takes."""
    hardware = rig({"launch.latency": f"{LATENCY} s", "launch.gap": f"{GAP} s"})
    device, sim = hardware.machine.devices[0], hardware.sim

    async def main() -> None:
        opened = [device.open_stream() for _ in range(streams)]
        for number, at in enumerate(submitted):
            await sim.sleep(at - sim.now)
            stream = opened[number % streams]
            stream.submit(KernelPacket(number, stream, 0, LONG, None, Signal(sim)))
        for stream in opened:
            assert stream.last is not None
            await stream.last.wait()

    hardware.run(main)
    found = [event.time_ps * 1e-12 for event in hardware.trace.events if isinstance(event, events.KernelStart)]
    return found, device.compute.spec.seconds_on_idle_device(LONG)


def test_kernels_in_a_row_are_a_gap_apart(rig: Any) -> None:
    (first, second, third), alone = starts(rig, 0.0, 0.0, 0.0)
    assert first == pytest.approx(LATENCY)
    assert [second - first, third - second] == pytest.approx([alone + GAP] * 2)


def test_a_kernel_for_an_idle_stream_takes_the_whole_latency(rig: Any) -> None:
    (_, second), _ = starts(rig, 0.0, 1.0)
    assert second == pytest.approx(1.0 + LATENCY)


def test_a_kernel_submitted_shortly_before_the_other_ends_takes_what_is_left_of_the_latency(rig: Any) -> None:
    (first,), alone = starts(rig, 0.0)
    late = first + alone - 1e-6
    (_, second), _ = starts(rig, 0.0, late)
    assert second == pytest.approx(late + LATENCY)


def test_streams_do_not_hide_one_anothers_latency(rig: Any) -> None:
    (_, second), _ = starts(rig, 0.0, 1e-6, streams=2)
    assert second == pytest.approx(1e-6 + LATENCY)
