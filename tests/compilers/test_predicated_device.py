"""A divided kernel on an emulated device: what its share takes, and that it computes there what it does on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from instrumented import Phantom
from written import function

from offloadrt import openmp as omp
from offloadrt.compilers.multi_device import predicate, split_loop
from offloadrt.driver import CudaDriver
from offloadrt.kernels import Kernel, kernel
from offloadrt.machine import Machine, load
from offloadrt.sim import Simulation

STREAM = """
def stream(x, v, n, m):
    for i in range(n):
        for j in range(m):
            v[i, j] = 0.5 * x[i, j]
"""
COMPUTE = """
def compute(v, n, m):
    for i in range(n):
        for j in range(m):
            s = 0.5
            for k in range(500):
                s = s * s + 0.25
            v[i, j] = s
"""


def seconds(made: Kernel, arguments: list[Any], phantom: bool = True) -> tuple[float, list[Any]]:
    """Virtual time of one launch whose arrays are on the device; and the arrays as they come back."""
    sim = Simulation(gear="turbo")
    machine = Machine(sim, load("alex-a100", {}))
    program = omp.OpenMP(machine, [CudaDriver.of(machine, 0)], omp.OpenMPOptions(phantom=phantom))
    taken: list[float] = []
    results: list[Any] = []

    async def main() -> None:
        async def body(t: omp.HostThread) -> None:
            given = [
                t.array(f"a{k}", a.shape, dtype=a.dtype, fill=None if phantom else a) if hasattr(a, "shape") else a
                for k, a in enumerate(arguments)
            ]
            arrays = [a for a in given if not isinstance(a, int)]
            async with t.target_data(omp.map(tofrom=arrays)):
                began = sim.now
                await t.target(made, *given)
                taken.append(sim.now - began)
            results.extend([] if phantom else [array.data.copy() for array in arrays])

        await program.parallel(body, 1)

    sim.run(main)
    return taken[0], results


def test_memory_accesses_are_divided_and_computation_is_not() -> None:
    n, m = 1 << 16, 4096
    for text, predicated in ((STREAM, 4.0), (COMPUTE, 1.0)):
        made = kernel(collapse=2)(function(text))
        assert made.analysis is not None
        arguments = [Phantom((n, m)) for name in made.analysis.parameters if name in "xv"] + [n, m]
        alone, _ = seconds(made, arguments)
        for divide, gain in ((predicate, predicated), (split_loop, 4.0)):
            divided = divide(made)
            share = divided.parts(4, arguments)[1].share
            shared, _ = seconds(divided.kernel, list(divided.arguments(share, arguments)))
            assert alone / shared == pytest.approx(gain, rel=0.1), (text, divide)


def test_what_a_device_owns_is_right_there() -> None:
    made = kernel(function(STREAM))
    divided = predicate(made)
    rng = np.random.default_rng(3)
    arguments = [rng.normal(size=(9, 4)), rng.normal(size=(9, 4)), 9, 4]
    expected = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    made(*expected)
    for part in divided.parts(2, arguments):
        _, (_, v) = seconds(divided.kernel, list(divided.arguments(part.share, arguments)), phantom=False)
        ((low, high),) = part.share.bounds
        assert v[low : high + 1].tobytes() == expected[1][low : high + 1].tobytes()
        assert (v != expected[1]).any()
