"""Kernels of an APU in host memory with pages of 4 KiB: each page needs a translation, which lowers the bandwidth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from offloadrt.kernels import Kernel
from offloadrt.machine import load

SMALL_PAGES = load("mi300a").value("mem.small_pages")
BYTES = Kernel("bytes", None, 0.0, 4096.0, 256).launch(228 * 8)
FLOPS = Kernel("flops", None, 1e6, 8.0, 256).launch(228 * 8)


def seconds(apu: Callable[..., Any], launch: Any, thp: bool, in_host_memory: bool) -> float:
    """Return how long a kernel takes from its start, in memory that has its translations already."""
    rig = apu({"page.thp": thp, "launch.latency": 0})
    array = rig.array(1 << 21, touched=True)

    async def main() -> float:
        await rig.kfd.svm_attributes_set(*array)
        begin: float = rig.sim.now
        await rig.kernel(launch, *([array] if in_host_memory else []))
        return float(rig.sim.now - begin)

    return float(rig.run(main))


@pytest.mark.parametrize("in_host_memory", [True, False])
def test_huge_pages_cost_no_bandwidth(apu: Callable[..., Any], in_host_memory: bool) -> None:
    assert seconds(apu, BYTES, True, in_host_memory) == pytest.approx(seconds(apu, BYTES, True, False))


def test_a_kernel_that_the_memory_limits_is_slower_in_small_pages_of_the_host(apu: Callable[..., Any]) -> None:
    pool, host = (seconds(apu, BYTES, False, in_host_memory) for in_host_memory in (False, True))
    assert host == pytest.approx(pool / SMALL_PAGES) and host > 1.15 * pool


def test_a_kernel_that_arithmetic_limits_is_not(apu: Callable[..., Any]) -> None:
    assert seconds(apu, FLOPS, False, True) == pytest.approx(seconds(apu, FLOPS, False, False))
