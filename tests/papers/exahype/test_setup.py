"""Parameters of an experiment: defaults, mistakes, and who offloads which patches."""

from __future__ import annotations

from typing import Any

import pytest

from offloadrt.papers.exahype.program import Setup
from offloadrt.papers.exahype.program.kernels import UpdateKernels
from offloadrt.study.errors import ParameterError


def test_defaults_are_those_of_the_paper() -> None:
    setup = Setup()
    assert setup.geometry.patch == 17
    assert (setup.batch, setup.threads, setup.patches, setup.scaling) == (16, 8, 100, "weak")
    assert setup.total_patches == 800
    assert setup.total_volumes == 800 * 289
    assert setup.volumes_per_thread == 100 * 289


def test_weak_scaling_cuts_each_threads_patches_into_batches() -> None:
    shares = Setup(threads=2, patches=10, batch=4).shares()
    assert shares == [[range(4), range(4, 8), range(8, 10)], [range(10, 14), range(14, 18), range(18, 20)]]


def test_strong_scaling_deals_the_batches_out_in_turn() -> None:
    setup = Setup(threads=2, patches=10, batch=4, scaling="strong")
    assert setup.shares() == [[range(4), range(8, 10)], [range(4, 8)]]
    assert setup.total_patches == 10
    assert setup.volumes_per_thread == 10 * 289 / 2


def test_strong_scaling_may_leave_threads_without_work() -> None:
    shares = Setup(threads=4, patches=5, batch=4, scaling="strong").shares()
    assert shares == [[range(4)], [range(4, 5)], [], []]


@pytest.mark.parametrize(
    ("given", "parameter", "reason"),
    [
        ({"equations": "mhd"}, "equations", "'mhd' is not one of euler2d, euler3d, ccz4"),
        ({"patch": 5}, "patch", "euler2d runs with patches of 17 volumes per dimension"),
        ({"equations": "ccz4", "patch": 17}, "patch", "ccz4 runs with patches of 5 or 9"),
        ({"equations": "ccz4", "phantom": False}, "phantom", "sizes and its work only"),
        ({"memory": "heap"}, "memory", "'heap' is not one of map, pool, managed, managed.prefetch"),
        ({"temporaries": "host"}, "temporaries", "'host' is not one of managed, device"),
        ({"threads": 0}, "threads", "0 is out of range: expected int, 1 to 4096"),
        ({"batch": -1}, "batch", "-1 is out of range: expected int, 1 or more"),
        ({"kernel_work": "middle"}, "kernel_work", "'middle' is not one of low, mean, high"),
    ],
)
def test_mistakes_name_the_parameter_and_the_reason(given: dict[str, Any], parameter: str, reason: str) -> None:
    with pytest.raises(ParameterError, match=reason) as caught:
        Setup(**given)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(
    ("equations", "patch", "threads"), [("euler2d", 17, 289), ("euler3d", 9, 729), ("ccz4", 5, 125), ("ccz4", 9, 256)]
)
def test_a_team_has_a_thread_per_volume_as_far_as_registers_reach(equations: str, patch: int, threads: int) -> None:
    kernels = UpdateKernels.of(Setup(equations=equations, patch=patch))
    assert kernels.threads == threads


def test_ccz4_has_costs_but_no_body() -> None:
    kernels = UpdateKernels.of(Setup(equations="ccz4"))
    assert kernels.scattered.body is None and kernels.gathered.body is None
    assert kernels.scattered.flops_per_iteration > 2e4
