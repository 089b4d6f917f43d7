"""A result is about the measured windows: what happened outside them is in none of its figures."""

from __future__ import annotations

import math

import pytest

from offloadrt import Run, scenario
from offloadrt import openmp as omp
from offloadrt.study import execute

THREADS = 4


async def _allocate(t: omp.HostThread) -> None:
    await t.target_enter_data(omp.map(to=t.array("a", 4096, phantom=True)))
    await t.barrier()  # so that all threads live as long as the region


@scenario()
async def windows(run: Run, before: int = 0, inside: int = 1, after: int = 0) -> None:
    """Parallel regions before, inside (each a window of its own) and after the measured windows."""
    for _ in range(before):
        await run.parallel(_allocate, num_threads=THREADS)
    for _ in range(inside):
        async with run.measure():
            await run.parallel(_allocate, num_threads=THREADS)
    for _ in range(after):
        await run.parallel(_allocate, num_threads=THREADS)


@pytest.mark.parametrize(("before", "after"), [(0, 0), (2, 0), (0, 2), (1, 3)])
def test_only_what_was_measured_counts(before: int, after: int) -> None:
    result = execute(windows, {"before": before, "inside": 2, "after": after})
    assert result.calls["cuMemAlloc"].count == 2 * THREADS
    assert result.locks["device table"].acquired == 2 * THREADS
    assert result.bytes.h2d == 2 * THREADS * 4096 * 8
    for name, part in result.devices.items():
        parts = 128 if name == "cores" else 1
        assert part.busy_s + part.idle_s == pytest.approx(parts * result.elapsed_s)


@pytest.mark.parametrize("before", [0, 2])
def test_where_the_time_went_is_the_lives_of_the_threads_in_the_windows(before: int) -> None:
    result = execute(windows, {"before": before})
    spent = math.fsum(part.total_s for part in result.where_time_went.values())
    assert spent == pytest.approx(THREADS * result.elapsed_s)


def test_a_calls_shortest_and_longest_time_are_those_in_the_windows() -> None:
    warm = execute(windows, {"before": 1}).calls["cuMemAlloc"]
    cold = execute(windows).calls["cuMemAlloc"]
    assert warm.max_s < cold.max_s, "the first allocation, which opens a segment, came before the window"


def test_the_whole_run_stays_visible_to_a_test() -> None:
    seen = {}

    @scenario()
    async def looking(run: Run) -> None:
        """Counts twice."""
        await run.parallel(_allocate, num_threads=1)
        async with run.measure():
            await run.parallel(_allocate, num_threads=1)
        seen["all"] = run.calls.count("cuMemAlloc")
        seen["measured"] = run.measured.calls.count("cuMemAlloc")

    execute(looking)
    assert seen == {"all": 2, "measured": 1}
