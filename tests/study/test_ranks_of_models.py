"""Several processes of a program in each model (CUDA: `tests/cuda/test_cuda_processes.py`); each has its own values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from offloadrt import Run, kernel
from offloadrt import openacc as acc
from offloadrt import openmp as omp
from offloadrt import stdpar as std

N = 512


@kernel
def scale(a: Any, s: float) -> None:
    for i in range(len(a)):
        a[i] = a[i] * s


@kernel
def scale_n(n: int, a: Any, s: float) -> None:
    for i in range(n):
        a[i] = a[i] * s


async def openmp(t: omp.HostThread, x: Any) -> Any:
    """Maps, updates, a deferred region and memory of its own, on each device."""
    difference = np.zeros(N)
    for device in range(t.program.num_devices):
        a = t.array("a", N, np.float64, fill=x)
        async with t.target_data(omp.map(tofrom=a), device=device):
            await t.target(scale, a, 2.0, maps=omp.map(tofrom=a), device=device)
            await t.target_update(omp.from_(a), device=device)
        await t.target(scale, a, 2.0, maps=omp.map(tofrom=a), device=device, nowait=True)
        await t.taskwait()
        memory = await t.omp_target_alloc(N * 8, device=device)
        await t.omp_target_memcpy(memory, a, N * 8)
        await t.omp_target_memcpy(a, memory, N * 8)
        await t.omp_target_free(memory)
        difference += a.data - 4 * x
    return difference


async def openacc(t: acc.HostThread, x: Any) -> Any:
    a = t.array("a", N, np.float64, fill=x)
    async with t.data(acc.copy(a)):
        await t.parallel(scale, a, 2.0, async_=1)
        await t.wait(1)
        await t.update(acc.host(a))
        await t.parallel(scale, a, 3.0)
    return a.data - 6 * x


async def stdpar(t: std.HostThread, x: Any) -> Any:
    a, b = [await t.new_array(name, N) for name in "ab"]
    await t.write(a, x)
    await t.for_each_n(std.par_unseq, N, scale_n, a, 2.0)
    await t.copy(std.par_unseq, a, b)
    total = await t.reduce(std.par_unseq, b)
    difference = np.array(await t.read(b)) - 2 * x + (total - 2 * x.sum())
    for array in (a, b):
        await t.delete(array)
    return difference


def wrong(run: Run, body: Any) -> Any:
    """Return by how much the worst value of any thread of any rank is wrong."""

    async def main(process: Any) -> Any:
        async def thread(t: Any) -> Any:
            return await body(t, (1.0 + process.rank + 10 * t.number) * np.arange(1.0, N + 1))

        found = await process.parallel(thread, num_threads=2)
        await process.world.Barrier()
        return found

    async def all_of_it() -> Any:
        found = await run.mpiexec(main)
        await run.finish()
        return found

    return np.abs(run.sim.run(all_of_it)).max()


OPENMP = [
    ("alex-a100", 1, "copy"), ("alex-a100", 2, "managed"), ("mi300x", 2, "copy"),
    ("mi300a", 1, "usm"), ("gh200", 1, "usm"),
]  # fmt: skip


@pytest.mark.parametrize("ranks", [1, 2, 4])
class TestRanks:
    @pytest.mark.parametrize(("machine", "devices", "configuration"), OPENMP)
    def test_openmp(self, ranks: int, machine: str, devices: int, configuration: str) -> None:
        run = Run(machine=machine)
        run.configure(num_processes=ranks, num_devices=devices, configuration=configuration)
        assert wrong(run, openmp) == 0.0

    @pytest.mark.parametrize(("compiler", "devices"), [("pgi", 1), ("gcc", 2)])
    def test_openacc(self, ranks: int, compiler: str, devices: int) -> None:
        run = Run(machine="alex-a100")
        run.options = acc.OpenACCOptions(num_processes=ranks, num_devices=devices, compiler=compiler)
        assert wrong(run, openacc) == 0.0

    @pytest.mark.parametrize("machine", ["isambard-a100", "isambard-mi100"])
    def test_stdpar(self, ranks: int, machine: str) -> None:
        run = Run(machine=machine)
        run.options = std.StdParOptions(num_processes=ranks)
        assert wrong(run, stdpar) == 0.0

    def test_managed_memory_of_mig_instances(self, ranks: int) -> None:
        """Each instance has managed memory of its own; the processes take the instances in turn."""
        run = Run(machine="alex-a100")
        run.configure(num_processes=ranks, configuration="managed")
        run.set("process.sharing", "mig")
        run.set("mig.instances", "3g.40gb 3g.40gb")
        assert wrong(run, openmp) == 0.0


@pytest.mark.parametrize(("machine", "devices", "configuration"), OPENMP)
@pytest.mark.parametrize("nodes", [2, 3])
def test_openmp_on_several_nodes(machine: str, devices: int, configuration: str, nodes: int) -> None:
    run = Run(machine=machine)
    run.configure(num_processes=5, num_nodes=nodes, num_devices=devices, configuration=configuration)
    assert wrong(run, openmp) == 0.0
    indices = [device.index for process in run.processes for device in process.program.machine.devices]
    assert set(indices) == set(range(nodes * devices))


def test_mig_instances_on_two_nodes() -> None:
    run = Run(machine="alex-a100")
    run.configure(num_processes=4, num_nodes=2)
    run.set("process.sharing", "mig")
    run.set("mig.instances", "3g.40gb 3g.40gb")
    assert wrong(run, openmp) == 0.0
