"""A target region whose kernel is a loop nest costs what its source says for its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from offloadrt import kernel
from offloadrt import openmp as omp
from offloadrt.study.running.run import Run


@kernel
def axpy(a: float, x: Any, y: Any) -> None:
    for i in range(len(x)):
        y[i] = a * x[i] + y[i]


@kernel(flops_per_iteration=2, bytes_per_iteration=24, loads_in_flight=2, bytes_per_load=12)
def axpy_declared(a: float, x: Any, y: Any) -> None:
    y += a * x


async def elapsed(run: Run, body_kernel: Any, phantom: bool, **launch: int) -> float:
    times: list[float] = []

    async def body(t: omp.HostThread) -> None:
        x = t.array("x", 1 << 16, fill=2.0, phantom=phantom)
        y = t.array("y", 1 << 16, fill=1.0, phantom=phantom)
        begin = run.sim.now
        await t.target(body_kernel, 3.0, x, y, maps=[omp.map(to=x), omp.map(tofrom=y)], **launch)
        times.append(run.sim.now - begin)
        if not phantom:
            np.testing.assert_array_equal(y.data, 7.0)

    await run.parallel(body)
    return times[0]


@pytest.mark.parametrize("phantom", [False, True])
async def test_a_loop_nest_costs_what_declared_counts_cost(offload: Run, phantom: bool) -> None:
    from_source = await elapsed(offload, axpy, phantom)
    again = await elapsed(offload, axpy, phantom)
    declared = await elapsed(offload, axpy_declared, phantom, iterations=1 << 16)
    assert from_source > 0.0
    assert declared == pytest.approx(again, rel=1e-6)


def test_the_iterations_are_those_of_the_source() -> None:
    assert axpy.analysis is not None
    assert axpy.analysis.trip_count(3.0, np.zeros(10), np.zeros(10)) == 10
    launch = axpy.launch(4, arguments=(3.0, np.zeros(10), np.zeros(10)))
    assert (launch.iterations, launch.flops, launch.bytes) == (10, 20.0, 240.0)
