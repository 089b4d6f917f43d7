"""Kernels: costs per iteration, launches, bodies."""

import numpy as np
import pytest

from offloadrt.kernels import Kernel, KernelError, Launch, kernel


def test_a_kernel_is_a_function_with_costs():
    @kernel(flops_per_iteration=2, bytes_per_iteration=24, threads_per_team=256)
    def axpy(a, x, y):
        y += a * x

    launch = axpy.launch(teams=4, iterations=1000)
    assert launch == Launch(axpy, 4, 256, 1000)
    assert (axpy.name, launch.flops, launch.bytes) == ("axpy", 2000, 24000)
    y = np.ones(3)
    axpy(2.0, np.arange(3.0), y)
    assert y.tolist() == [1, 3, 5]


def test_the_decorator_works_without_arguments():
    @kernel
    def nothing():
        pass

    assert (nothing.name, nothing.launch(3).iterations, nothing.launch(3).flops) == ("nothing", 3 * 128, 0)


def test_a_phantom_has_costs_but_no_body():
    with pytest.raises(KernelError, match="'cost' is a phantom"):
        Kernel("cost", flops_per_iteration=1e6)()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"flops_per_iteration": -1.0}, r"flops_per_iteration is -1.0, but must lie between 0 and 2\*\*63"),
        ({"threads_per_team": 0}, "threads_per_team is 0, but must be positive"),
        ({"flops_per_iteration": float("inf")}, r"flops_per_iteration is inf, but must lie between 0 and 2\*\*63"),
        ({"precision": "half"}, "precision is 'half', but can be double or single"),
        ({"efficiency": 1.5}, r"efficiency is 1.5, but must lie in \(0, 1\]"),
    ],
)
def test_costs_are_checked(wrong, message):
    with pytest.raises(KernelError, match=f"kernel 'k': {message}"):
        Kernel("k", **wrong)
    with pytest.raises(KernelError, match="teams is 0"):
        Kernel("k").launch(0)
