"""How many teams of how many threads a loop gets that leaves them open: LLVM's rule, under its variables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt import openmp as omp
from offloadrt.kernels import Kernel
from offloadrt.models.openmp.lowering import TargetClauses
from offloadrt.runtime.plugins.plugin import GridDefaults
from offloadrt.study.running.run import Run

LONG = 8192 * 128


def sizes(machine: str, runtime: str, environment: dict[str, str], **clauses: int) -> tuple[int, int]:
    """Return teams and threads of a region with these clauses."""
    run = Run(machine=machine, runtime=runtime, environment=environment)

    async def body(t: omp.HostThread) -> tuple[int, int]:
        wanted: TargetClauses = {"iterations": LONG, **clauses}  # type: ignore[typeddict-item]
        region = t.construct_target(Kernel("work", flops_per_iteration=1.0), **wanted).on_host
        assert region is not None
        return region.launch.teams, region.launch.threads

    (found,) = run.sim.run(lambda: run.parallel(body, 1))
    return found


@pytest.mark.parametrize(
    ("machine", "environment", "clauses", "expected"),
    [
        ("mi300a", {}, {}, (912, 256)),
        ("mi300a", {"LIBOMPTARGET_AMDGPU_TEAMS_PER_CU": "6"}, {}, (1368, 256)),
        ("mi300a", {}, {"teams": 5000}, (5000, 256)),
        ("mi300a", {}, {"iterations": 1280, "threads": 128}, (10, 128)),
        ("alex-a100", {}, {}, (3200, 128)),
        ("alex-a100", {}, {"threads": 512}, (2048, 512)),
        ("alex-a100", {"LIBOMPTARGET_REUSE_BLOCKS_FOR_HIGH_TRIP_COUNT": "0"}, {}, (8192, 128)),
    ],
)
def test_a_long_loop_has_the_teams_of_its_plugin(
    machine: str, environment: dict[str, str], clauses: dict[str, int], expected: tuple[int, int]
) -> None:
    assert sizes(machine, "llvm22", environment, **clauses) == expected


@pytest.mark.parametrize(
    ("machine", "runtime", "iterations", "environment", "expected"),
    [
        ("alex-a100", "llvm22", 128, {}, (4, 32)),  # as LLVM's own test of short loops has it
        ("alex-a100", "llvm22", 128, {"LIBOMPTARGET_MIN_THREADS_FOR_LOW_TRIP_COUNT": "8"}, (16, 8)),
        ("alex-a100", "llvm22", 3200 * 40, {}, (2000, 64)),
        ("mi300a", "llvm22", 912 * 100, {}, (713, 128)),
        ("mi300a", "rocm", 912 * 100, {}, (357, 256)),
        ("alex-a100", "nvhpc", 128, {}, (1, 128)),
        ("summitdev-p100", "clang-ykt", LONG, {}, (8192, 128)),
    ],
)
def test_a_short_loop_has_more_and_smaller_teams_under_llvm_22(
    machine: str, runtime: str, iterations: int, environment: dict[str, str], expected: tuple[int, int]
) -> None:
    assert sizes(machine, runtime, environment, iterations=iterations) == expected


@given(st.integers(1, 1 << 24), st.sampled_from([GridDefaults(3200, 128, 32), GridDefaults(912, 256, 32)]))
def test_teams_cover_their_loop_or_are_as_many_as_there_are(iterations: int, grid: GridDefaults) -> None:
    teams, threads = grid.over_threads(iterations, None)
    assert grid.least_threads <= threads <= grid.threads and teams <= grid.teams
    assert teams * threads >= iterations or (teams, threads) == (grid.teams, grid.threads)
    if threads > grid.least_threads:  # half of the threads would need more teams than there are
        assert -(-iterations // (threads // 2)) > grid.teams
