"""The configuration `usm` on a machine whose GPU uses the host's page table: malloc'ed arrays in place."""

from __future__ import annotations

import numpy as np
import pytest

from offloadrt import openmp as omp
from offloadrt.kernels import Kernel
from offloadrt.study import execute, find_scenario
from offloadrt.study.errors import UserError
from offloadrt.study.running.run import Run


def add_one(a: np.ndarray) -> None:
    a += 1.0


def test_kernels_compute_in_memory_of_the_host_without_copies() -> None:
    run = Run(machine="gh200")
    run.configuration = "usm"
    kernel = Kernel("add", bytes_per_iteration=16.0, body=add_one)

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 1 << 16, fill=1.0)
        for _ in range(3):
            await t.target(kernel, a, iterations=1 << 16, maps=omp.map(tofrom=a))
        assert (a.data == 4.0).all()

    run.sim.run(lambda: run.parallel(body))
    assert "cuMemcpyHtoDAsync" not in run.measured.calls.table()


@pytest.mark.parametrize(
    ("configuration", "devices", "message"),
    [
        ("usm", 2, "emulated with one device, and the run has 2"),
        ("eager_maps", 1, "uses the host's page table .*; take 'usm'"),
    ],
)
def test_what_is_not_emulated_is_refused(configuration: str, devices: int, message: str) -> None:
    run = Run(machine="gh200", overrides={"gpu.devices": "2"})
    run.options = omp.OpenMPOptions(configuration=configuration, num_devices=devices)

    async def main() -> None:
        with pytest.raises(UserError, match=message):
            await run.parallel(lambda t: t.barrier())

    run.sim.run(main)


def test_counters_pay_for_many_sweeps_and_not_for_few() -> None:
    def seconds(memory: str, sweeps: int, **overrides: str) -> float:
        parameters = {"memory": memory, "sweeps": sweeps, "nbytes": 1 << 25}
        given = {key.replace("__", "."): value for key, value in overrides.items()}
        measured = execute(find_scenario("system_memory"), parameters, overrides=given).measured
        return float(measured["time_s"])

    off = {"access_counter__migration": "false"}
    assert seconds("usm", 1) == pytest.approx(seconds("usm", 1, **off), rel=0.05)
    assert seconds("usm", 1) < seconds("copy", 1)
    assert seconds("usm", 300) < seconds("usm", 300, **off)
