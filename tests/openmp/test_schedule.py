"""How OpenMP's threads wait for a CUDA device: LLVM has them sleep until its interrupt."""

from __future__ import annotations

import pytest

from offloadrt import openmp as omp
from offloadrt.kernels import Kernel
from offloadrt.study.running.run import Run

KERNEL = Kernel("work", flops_per_iteration=1.0, threads_per_team=128)


def region_s(runtime: str, interrupt: str, machine: str = "alex-a100", schedule: str = "") -> float:
    """Return the virtual seconds of a region that is waited for."""
    run = Run(machine=machine, runtime=runtime)
    run.set("stream.interrupt", interrupt)
    if schedule:
        run.set("runtime.schedule", schedule)

    async def body(t: omp.HostThread) -> float:
        begin = t.sim.now
        await t.target(KERNEL, teams=1, iterations=128)
        return t.sim.now - begin

    (found,) = run.sim.run(lambda: run.parallel(body, 1))
    return found


def later_s(runtime: str, **more: str) -> float:
    """Return how much later a region ends for an interrupt that takes 20 us longer."""
    return region_s(runtime, "30 us", **more) - region_s(runtime, "10 us", **more)


@pytest.mark.parametrize("runtime", ["llvm22", "clang-ykt"])
def test_a_region_of_llvms_ends_with_an_interrupt(runtime: str) -> None:
    assert later_s(runtime) == pytest.approx(20e-6, rel=1e-3)


def test_other_runtimes_and_other_schedules_poll() -> None:
    assert later_s("nvhpc") == 0.0
    assert later_s("llvm22", schedule="yield") == 0.0


def test_hips_devices_have_no_such_flag() -> None:
    assert later_s("llvm22", machine="isambard-mi100") == 0.0
