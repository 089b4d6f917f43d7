"""Managed arrays of a program with several devices, by OpenMP's directives."""

from __future__ import annotations

import numpy as np

from offloadrt import Run
from offloadrt import openmp as omp
from offloadrt.kernels import kernel

N = 1 << 18


@kernel
def add(a, s):
    for i in range(len(a)):
        a[i] = a[i] + s


def test_devices_take_turns_on_a_managed_array_and_the_host_reads_the_sum() -> None:
    async def body(t: omp.HostThread) -> float:
        a = await t.managed_array("a", N)
        for device in (0, 1, 0):
            await t.target(add, a, device + 1.0, is_device_ptr=a, device=device)
        await t.host_access(a)
        return float(np.sum(a.values))

    run = Run(machine="dgx1-v100")
    run.options = omp.OpenMPOptions(num_devices=2)
    assert run.sim.run(lambda: run.parallel(body)) == [N * 4.0]
    faults, nbytes = run.statistics.faults, 8 * N
    assert faults["bytes_transfer_dtod"] == 2 * nbytes  # to device 1 and back
    assert faults["bytes_transfer_dtoh"] == nbytes
    assert faults["bytes_transfer_htod"] == 0  # nobody had touched it before device 0
    assert run.statistics.managed_objects["a"].bytes_dtod == 2 * nbytes


def test_maps_of_the_configuration_managed_are_shared_by_the_devices() -> None:
    async def body(t: omp.HostThread) -> list[float]:
        a = t.array("a", N, fill=1.0)
        for device in (0, 1):
            await t.target(add, a, 1.0, maps=omp.map(tofrom=a), device=device)
        await t.host_access(a)
        return [float(a.values[0]), float(a.values[-1])]

    run = Run(machine="dgx1-v100")
    run.options = omp.OpenMPOptions(num_devices=2, configuration="managed")
    assert run.sim.run(lambda: run.parallel(body)) == [[3.0, 3.0]]
    assert run.statistics.faults["bytes_transfer_dtod"] > 0
