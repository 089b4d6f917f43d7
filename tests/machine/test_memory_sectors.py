"""Kernels whose elements lie apart take the time of the sectors that hold them."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

from offloadrt.kernels import Kernel, Launch, kernel
from offloadrt.machine import ComputeSpec, available, load

N = 1 << 24
P100 = load("summitdev-p100").read(ComputeSpec)
DOUBLES, WHOLE = np.dtype("f8"), np.dtype("i8")


@attrs.frozen
class Phantom:
    shape: tuple[int, ...]
    dtype: Any = DOUBLES


@kernel
def copy(a, b, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        b[i] = a[i]


@kernel
def every_second(a, b, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        b[i] = a[2 * i]


@kernel
def every_sixteenth(a, b, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        b[i] = a[16 * i]


@kernel
def a_page_each(a, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        a[512 * i] = 1.0


@kernel
def gather(a, place, b, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        b[i] = a[place[i]]


@kernel
def branching(a, b, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        if a[i] > 0.0:
            b[i] = a[i]
        else:
            b[i] = 0.0


def filled(of: Kernel, *arguments: Any) -> Launch:
    return of.launch(N // 128, 128, arguments=arguments)


def picked(elements: int) -> Launch:
    return filled(gather, Phantom((elements,)), Phantom((N,), WHOLE), Phantom((N,)), N)


def test_every_machine_says_what_its_memory_gives_at_least() -> None:
    for name in available():
        spec = load(name).read(ComputeSpec)
        assert spec.sector in (32, 64, 128) and spec.cache > 1e6


@pytest.mark.parametrize(("of", "apart", "moved"), [(copy, 1, 8), (every_second, 2, 16), (every_sixteenth, 16, 32)])
def test_a_step_takes_its_bytes_up_to_a_sector(of: Kernel, apart: int, moved: int) -> None:
    launch = filled(of, Phantom((apart * N,)), Phantom((N,)), N)
    assert launch.bytes == 16 * N
    assert P100.seconds_on_idle_device(launch) == pytest.approx((moved + 8) * N / P100.bandwidth, rel=1e-2)


def test_both_sides_of_a_branch_take_what_straight_code_takes() -> None:
    straight, either = (filled(of, Phantom((N,)), Phantom((N,)), N) for of in (copy, branching))
    assert P100.seconds_on_idle_device(either) == P100.seconds_on_idle_device(straight)


def test_a_gather_takes_a_sector_an_access_of_the_memory_or_of_the_sms() -> None:
    """An array that fits in the cache costs the memory next to nothing, but sectors still come to the SMs."""
    fitting, larger = int(P100.cache) // 8, int(P100.cache) // 8 + 1
    plain = 16 * N / P100.bandwidth
    assert P100.seconds_on_idle_device(picked(larger)) == pytest.approx(plain + P100.sector * N / P100.bandwidth)
    of_memory = (16 * N + P100.cache) / P100.bandwidth
    of_sms = (16 + P100.sector) * N / (P100.sms * P100.sm_bandwidth)
    assert P100.seconds_on_idle_device(picked(fitting)) == pytest.approx(max(of_memory, of_sms))


def test_few_threads_wait_for_latency_wherever_the_elements_lie() -> None:
    near, apart = (
        of.launch(1, 128, arguments=(Phantom((16 * N,)), Phantom((N,)), N)) for of in (copy, every_sixteenth)
    )
    latency_bound = attrs.evolve(P100, sm_bandwidth=P100.bandwidth)
    assert latency_bound.seconds_on_idle_device(near) == latency_bound.seconds_on_idle_device(apart)


@pytest.mark.parametrize("channels", [16, 64])
def test_elements_that_lie_far_apart_have_each_a_row_to_open_and_neighbours_share_one(channels: int) -> None:
    spec = attrs.evolve(load("t4").read(ComputeSpec), activate=4e-9 / channels, memory_latency=1e-12)
    as_fast_as_sectors = attrs.evolve(spec, activate=0.0)
    apart = filled(a_page_each, Phantom((512 * N,)), N)
    # What lies before the first element that is looked at, and after the last one, does not count.
    rows, sectors = N * spec.activate, 32 * N / spec.bandwidth
    assert spec.seconds_on_idle_device(apart) == pytest.approx(max(rows, sectors), rel=1e-3)
    assert as_fast_as_sectors.seconds_on_idle_device(apart) == pytest.approx(sectors, rel=1e-3)
    together = filled(copy, Phantom((N,)), Phantom((N,)), N)
    assert spec.seconds_on_idle_device(together) == as_fast_as_sectors.seconds_on_idle_device(together)
