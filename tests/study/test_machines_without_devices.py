"""Where a program can use no device: OpenMP falls back on the host unless it must not, other models are refused."""

from __future__ import annotations

from typing import Any

import pytest

from offloadrt import Run, cuda, kernel
from offloadrt import openacc as acc
from offloadrt import openmp as omp
from offloadrt.models.host.program import ProgramOptions
from offloadrt.runtime.errors import InvalidDevice
from offloadrt.study import execute, find_scenario
from offloadrt.study.errors import UserError

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
        (omp.OpenMPOptions(target_offload="mandatory"), openmp_target),
        (omp.OpenMPOptions(target_offload="mandatory"), openmp_routine),
        (acc.OpenACCOptions(), openacc_parallel),
        (cuda.CUDAOptions(), cuda_malloc),
    ],
)
def test_an_offload_is_refused_with_the_entry_that_says_so(options: ProgramOptions, body: Any) -> None:
    run = Run(machine=HOST)
    run.options = options
    with pytest.raises(InvalidDevice, match=rf"{HOST} has no device to offload to \(usm.shared = no_device\)"):
        run.sim.run(run.parallel, body)


WITHOUT = [(HOST, {}), ("mi300a", {"OMP_TARGET_OFFLOAD": "DISABLED"}), ("h100", {"OMP_TARGET_OFFLOAD": "disabled"})]


@pytest.mark.parametrize(("machine", "environment"), WITHOUT)
def test_an_openmp_program_falls_back_on_the_host(machine: str, environment: dict[str, str]) -> None:
    async def body(t: omp.HostThread) -> None:
        assert t.omp_get_num_devices() == t.omp_get_initial_device() == 0
        a = t.array("a", 8, fill=1.0)
        async with t.target_data(omp.map(tofrom=a)):
            await t.target(scale, a, maps=omp.map(tofrom=a), nowait=True)
            await t.target(scale, a, device=5)
            assert a.data[0] == 4.0  # the region worked in place
        block = await t.omp_target_alloc(64)
        assert block is not None
        await t.omp_target_free(block)

    run = Run(machine=machine, environment=environment)
    run.sim.run(run.parallel, body)
    assert not run.calls.table() and run.machine.host_workers.statistics().algorithms == 2


def test_a_variable_with_a_wrong_value_says_which_it_can_have() -> None:
    with pytest.raises(UserError, match="OMP_TARGET_OFFLOAD is 'never'; it can be default, disabled, mandatory"):
        Run(machine="h100", environment={"OMP_TARGET_OFFLOAD": "never"}).machine  # noqa: B018  # it is built when asked


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


@pytest.mark.parametrize("name", ["exahype", "qmcpack", "unified_memory"])
def test_a_whole_program_runs_without_a_device(name: str) -> None:
    result = execute(find_scenario(name), {}, environment={"OMP_TARGET_OFFLOAD": "disabled"})
    assert result.calls == {} and result.elapsed_s > 0.0
