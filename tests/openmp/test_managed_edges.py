"""Managed memory at its edges: launches and arrays of nothing, and indices that no element has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from offloadrt import openmp as omp
from offloadrt.kernels import kernel
from offloadrt.study.running.run import Run


@kernel
def largest(a: Any, out: Any, n: int) -> None:
    hi = 0.0
    for i in range(n):
        hi = max(hi, a[i])
    if hi >= 0.0:
        out[0] = hi


@kernel
def chosen(a: Any, b: Any, n: int) -> None:
    for i in range(n):
        if b[i] > 0.0:
            b[i] = a[i]


@kernel
def never(a: Any, b: Any, n: int) -> None:
    for i in range(n):
        if b[i] > 0.0:
            a[4_000_000] = 2.0


def faults(machine: str, of: Callable[..., Any], elements: int, n: int) -> tuple[Run, list[float]]:
    """A launch on `a` with so many elements, and `b` with eight that are below zero, which it gives back."""
    run = Run(machine=machine)
    run.configuration = "managed"
    values: list[float] = []

    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", elements, fill=1.0), t.array("b", 8, fill=-1.0)
        await t.target(of, a, b, n, maps=omp.map(tofrom=[a, b]))
        values.extend(b.data)

    run.sim.run(lambda: run.parallel(body))
    return run, values


@pytest.mark.parametrize("machine", ["alex-a100", "summitdev-p100"])
def test_a_launch_without_iterations_stores_what_follows_its_loop(machine: str) -> None:
    run, values = faults(machine, largest, 8, 0)
    assert values == [0.0] + [-1.0] * 7 and run.elapsed > 0.0


def test_an_array_without_elements_has_no_pages() -> None:
    _, values = faults("alex-a100", chosen, 0, 8)
    assert values == [-1.0] * 8


def test_an_element_beyond_the_array_that_is_never_reached_has_no_page() -> None:
    run, values = faults("alex-a100", never, 8, 8)
    assert values == [-1.0] * 8
    assert run.statistics.faults["gpu_page_fault"] == 1, "of b"
