"""Machines that have only the host's side: whatever is offloaded there is refused, and host code runs."""

from __future__ import annotations

from typing import Any

import pytest

from offloadrt import Run, cuda, kernel
from offloadrt import openacc as acc
from offloadrt import openmp as omp
from offloadrt.models.host.options import ProgramOptions
from offloadrt.runtime.errors import InvalidDevice

HOST = "isambard-milan"


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def scale(a: Any) -> None:
    a *= 2.0


async def openmp_target(t: Any) -> None:
    a = t.array("a", 8, fill=1.0)
    await t.target(scale, a, maps=omp.map(tofrom=a))


async def openmp_routine(t: Any) -> None:
    await t.omp_target_alloc(64)


async def openacc_parallel(t: Any) -> None:
    a = t.array("a", 8, fill=1.0)
    await t.enter_data(acc.copyin(a))


async def cuda_malloc(t: Any) -> None:
    await t.malloc(64)


@pytest.mark.parametrize(
    ("options", "body"),
    [
        (omp.OpenMPOptions(), openmp_target),
        (omp.OpenMPOptions(), openmp_routine),
        (acc.OpenACCOptions(), openacc_parallel),
        (cuda.CUDAOptions(), cuda_malloc),
    ],
)
def test_an_offload_is_refused_with_the_entry_that_says_so(options: ProgramOptions, body: Any) -> None:
    run = Run(machine=HOST)
    run.options = options
    with pytest.raises(InvalidDevice, match=rf"{HOST} has no device to offload to \(usm.shared = no_device\)"):
        run.sim.run(run.parallel, body)


def test_what_stays_on_the_host_runs() -> None:
    async def body(t: omp.HostThread) -> None:
        assert t.omp_get_num_devices() == 0
        await t.compute(1e-3)
        a = t.array("a", 8, fill=1.0)
        await t.host_access(a)
        await t.target(scale, a, device=t.omp_get_initial_device())
        assert a.data[0] == 2.0

    run = Run(machine=HOST)
    run.sim.run(run.parallel, body)
    assert run.elapsed >= 1e-3
