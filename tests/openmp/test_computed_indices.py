"""Indices that numbers give, such as a remainder: their sectors and pages are exact, with phantoms as with values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from offloadrt import openmp as omp
from offloadrt.kernels import Kernel, kernel
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.target import data_of
from offloadrt.study.running.run import Run

N = 4096
SECTOR, PAGE = 32, 4096


@kernel
def around(out: Any, a: Any, n: int, stride: int) -> None:
    for i in range(n):
        out[i] = a[(i * stride) % len(a)]


@kernel
def picked(out: Any, a: Any, table: Any, chosen: Any, n: int) -> None:
    for i in range(n):
        out[i] = a[i * i % len(a)] + table[chosen[i]]


@kernel
def long_walks(out: Any, a: Any, n: int, trips: int) -> None:
    for i in range(n):
        out[i] = 0.0
        for k in range(trips):
            out[i] += a[i * k % len(a)]


def phantom(name: str, length: int, dtype: str = "f8") -> HostArray:
    return HostArray(name, 1 << 30, (length,), np.dtype(dtype))


def bytes_moved(of: Kernel, *arguments: Any, cache: float = 1e9) -> float:
    """Bytes that a launch of one window moves, from memory, or without a cache to the SMs."""
    launch = of.launch(N // 128, 128, arguments=arguments)
    data = data_of(launch, arguments)
    assert data is not None
    return data.measured(launch, N, 32, SECTOR, 1e9).bytes_moved(SECTOR, cache)


@pytest.mark.parametrize("stride", [1, 3, 4, 100, 1 << 10])
@pytest.mark.parametrize("length", [500, N, 1 << 20])
def test_a_remainder_moves_the_sectors_that_it_meets(stride: int, length: int) -> None:
    met = [(i * stride) % length * 8 // SECTOR for i in range(N)]
    arguments = phantom("out", N), phantom("a", length), N, stride
    assert bytes_moved(around, *arguments) == pytest.approx(8 * N + SECTOR * len(set(met)))
    of_warps = sum(len(set(met[first : first + 32])) for first in range(0, N, 32))
    assert bytes_moved(around, *arguments, cache=0.0) == pytest.approx(8 * N + SECTOR * of_warps)


def test_beside_an_array_that_unknown_data_pick_from_a_computed_index_stays_exact() -> None:
    arguments = phantom("out", N), phantom("a", 1 << 20), phantom("table", 1 << 20), phantom("chosen", N, "i8"), N
    met = {i * i % (1 << 20) * 8 // SECTOR for i in range(N)}
    declared = N * (8 + 8 + SECTOR)  # of out, chosen and table
    assert bytes_moved(picked, *arguments) == pytest.approx(declared + SECTOR * len(met))


def test_walks_that_are_too_long_to_follow_are_not_followed() -> None:
    arguments = phantom("out", N), phantom("a", 1000), N, 1 << 40
    assert data_of(long_walks.launch(N // 128, 128, arguments=arguments), arguments) is None


def run_of(configuration: str, stride: int, length: int, *, values: bool) -> Run:
    run = Run(machine="alex-a100", gear="turbo")
    run.set("prefetch.tree", "false")
    run.options = omp.OpenMPOptions(configuration=configuration, phantom=not values)

    async def main(t: omp.HostThread) -> None:
        a, out = t.array("a", length, align=2 << 20), t.array("out", N, align=2 << 20)
        maps = [omp.map(to=a), omp.map(from_=out)]
        await t.target(around, out, a, N, stride, maps=maps, teams=N // 128, threads=128)

    async def whole() -> None:
        await run.parallel(main, 1)
        await run.finish()

    run.sim.run(whole)
    return run


@pytest.mark.parametrize(("stride", "length"), [(512, 1 << 20), (1024, 1 << 20), (3 << 15, 1 << 20), (1, 1 << 20)])
def test_a_remainder_faults_on_the_pages_that_it_meets_and_phantoms_take_the_time_of_values(
    stride: int, length: int
) -> None:
    real, without = (run_of("managed", stride, length, values=values) for values in (True, False))
    met = {(i * stride) % length * 8 // PAGE for i in range(N)}
    for run in (real, without):
        assert run.statistics.faults["faults"] == len(met) + N * 8 // PAGE
    assert real.sim.now == without.sim.now


@pytest.mark.parametrize("stride", [1, 4, 512])
def test_a_copied_array_takes_the_same_time_with_values_and_without(stride: int) -> None:
    real, without = (run_of("copy", stride, 1 << 20, values=values) for values in (True, False))
    assert real.sim.now == without.sim.now
