"""What a program's first construct pays, by what it finds: a warm, a loaded or a cold start."""

from __future__ import annotations

from itertools import pairwise

import pytest

from offloadrt import openmp as omp
from offloadrt.kernels import Kernel
from offloadrt.study.running.run import Run

TOUCH, OTHER = Kernel("touch", flops_per_iteration=1e6), Kernel("other", flops_per_iteration=1e6)
CUDA_CALLS = ("cuInit", "cuDevicePrimaryCtxRetain", "cuModuleLoadData", "cuModuleGetFunction")
ROCR_CALLS = ("init", "executable_load_agent_code_object")


def regions(machine: str, start: str, threads: int = 1, devices: int = 1) -> tuple[list[list[float]], Run]:
    """Return when three target regions of each thread ended (the third has another kernel), and the run."""
    run = Run(machine=machine)
    run.options = omp.OpenMPOptions(phantom=True, num_devices=devices)
    run.set("runtime.start", start)

    async def body(t: omp.HostThread) -> list[float]:
        ends = [t.sim.now]
        for kernel in (TOUCH, TOUCH, OTHER):
            await t.target(kernel)
            ends.append(t.sim.now)
        return ends

    return run.sim.run(lambda: run.parallel(body, threads)), run


def costs(run: Run, *keys: str) -> float:
    return sum(run.spec.value(key) for key in keys)


def longer(machine: str, start: str) -> tuple[list[float], Run]:
    """Return by how much each region takes longer than in a warm start."""
    (warm,), _ = regions(machine, "warm")
    (ends,), run = regions(machine, start)
    return [b - a - (d - c) for (a, b), (c, d) in zip(pairwise(ends), pairwise(warm), strict=True)], run


def test_a_cold_start_initializes_driver_and_context_and_loads_module_and_kernels_once() -> None:
    found, run = longer("alex-a100", "cold")
    first = costs(run, "init.library", "init.device", "init.context", "module.load", "module.kernel")
    assert found == pytest.approx([first, 0.0, costs(run, "module.kernel")], abs=1e-12)
    assert [run.calls.count(name) for name in CUDA_CALLS] == [1, 1, 1, 2]


def test_a_loaded_start_loads_the_image_only() -> None:
    found, run = longer("alex-a100", "loaded")
    assert found == pytest.approx([costs(run, "module.load", "module.kernel"), 0.0, costs(run, "module.kernel")])
    assert [run.calls.count(name) for name in CUDA_CALLS] == [0, 0, 1, 2]


def test_on_an_apu_the_library_and_the_code_object_come_first() -> None:
    found, run = longer("mi300a", "cold")
    first = costs(run, "init.library", "init.device", "module.load")
    assert found == pytest.approx([first, 0.0, 0.0], abs=1e-12)
    assert [run.calls.count(name) for name in ROCR_CALLS] == [1, 1]


@pytest.mark.parametrize(("machine", "calls"), [("alex-a100", CUDA_CALLS), ("mi300a", ROCR_CALLS)])
def test_a_warm_start_calls_none_of_it(machine: str, calls: tuple[str, ...]) -> None:
    _, run = regions(machine, "warm")
    assert [run.calls.count(name) for name in calls] == [0] * len(calls)


def test_threads_wait_for_the_one_that_starts_the_device() -> None:
    (alone,), _ = regions("alex-a100", "cold")
    together, run = regions("alex-a100", "cold", threads=8)
    assert [run.calls.count(name) for name in CUDA_CALLS] == [1, 1, 1, 2]
    assert all(ends[1] >= alone[1] - 1e-4 for ends in together)


def test_each_device_has_a_context_and_the_driver_looks_at_all_devices() -> None:
    _, run = regions("alex-a100", "cold", devices=4)
    assert [run.calls.count(name) for name in CUDA_CALLS] == [1, 4, 4, 2]
    assert run.calls.table()["cuInit"].total_s == pytest.approx(
        costs(run, "init.library") + 4 * costs(run, "init.device")
    )
