"""What a kernel's code executes besides its flops: divisions, functions, and whole numbers."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from offloadrt import kernel
from offloadrt.machine import load
from offloadrt.machine.compute.residency import ComputeSpec

Doubles = NDArray[np.float64]
Whole = NDArray[np.int64]
N = 1 << 20


@kernel
def logarithms(a: Doubles, k: int) -> None:
    for i in range(len(a)):
        x = a[i]
        for _ in range(k):
            x = math.log(x)
        a[i] = x


@kernel
def quotients(a: Doubles, k: int) -> None:
    for i in range(len(a)):
        x = a[i]
        for _ in range(k):
            x = 2.0 / x
        a[i] = x


@kernel
def products(a: Doubles, k: int) -> None:
    for i in range(len(a)):
        x = a[i]
        for _ in range(k):
            x = 2.0 * x
        a[i] = x


@kernel
def whole(a: Whole, k: int, seed: int) -> None:
    for i in range(len(a)):
        x = seed
        for _ in range(k):
            x = (x * 5) & 1023
        a[i] = x


@kernel
def indices(a: Doubles, n: int, k: int) -> None:
    for i in range(n):
        for j in range(k):
            a[2 * i * k + 3 * j + 1] = 1.0


def besides(used, *arguments) -> tuple[float, float]:
    """Return the flops of an iteration, and the operations besides."""
    counted = used.with_arguments(*arguments)
    return counted.flops_per_iteration, counted.further_per_iteration


def test_a_function_is_many_operations_and_counts_as_one() -> None:
    assert besides(logarithms, np.ones(N), 3) == (3.0, 3 * 73.0)
    assert besides(quotients, np.ones(N), 3) == (3.0, 3 * 17.0)
    assert besides(products, np.ones(N), 3) == (3.0, 0.0)


def test_whole_numbers_take_instructions_and_indices_none_of_their_own() -> None:
    assert besides(whole, np.ones(N, np.int64), 3, 1) == (0.0, 3 * (5.0 + 2.0))
    assert besides(indices, np.ones(N), 4, 4) == (0.0, 0.0)


@pytest.mark.parametrize(("used", "times"), [(products, 1.0), (quotients, 18.0), (logarithms, 74.0)])
def test_arithmetic_takes_its_operations(used, times: float) -> None:
    spec = load("alex-a100").with_overrides({"gpu.sustained_clock": 1}).read(ComputeSpec)
    launch = used.launch(N // 256, 256, arguments=(np.ones(N), 100_000))
    tail = math.ceil(N / 256 / 108) / (N / 256 / 108)  # SMs with one team more end last
    assert spec.seconds_on_idle_device(launch) == pytest.approx(times * N * 1e5 / spec.flops * tail, rel=0.3)
