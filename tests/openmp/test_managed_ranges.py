"""A kernel migrates, maps and faults for the part of an array that it touches, and for no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from offloadrt import openmp as omp
from offloadrt.kernels import expect, kernel
from offloadrt.study.running.run import Run

PAGE, BLOCK = 64 << 10, 2 << 20
N = 8 * BLOCK // 8
"""Elements of an array of eight blocks."""


@kernel
def part(a: Any, low: int, high: int) -> None:
    for i in range(low, high):
        a[i] = a[i] + 1.0


@kernel
def broadcast(a: Any, b: Any, n: int) -> None:
    for i in range(n):
        b[i] = a[0]


@kernel
def rarely(a: Any, n: int, often: float) -> None:
    for i in range(n):
        if expect(a[i] > 0.0, probability=often):
            a[i] = 0.0


@kernel
def gather(a: Any, index: Any, b: Any, n: int) -> None:
    for i in range(n):
        b[i] = a[index[i]]


Launch = Callable[[omp.HostThread, omp.HostArray], Any]


def run_of(launch: Launch, gear: str = "turbo", pinned: bool = False, **settings: Any) -> Run:
    """One launch on an array `a` that the host has written."""
    run = Run(machine=settings.pop("machine", "summitdev-p100"), gear=gear, record=True)
    run.phantom = settings.pop("phantom", True)
    run.configuration = settings.pop("configuration", "managed")
    for key, value in settings.pop("overrides", {}).items():
        run.set(key, value)

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0, align=BLOCK)
        if pinned:
            await t.advise(a, "prefer_host")
        await launch(t, a)

    async def main() -> None:
        await run.parallel(body)
        await run.finish()

    run.sim.run(main)
    return run


def migrated(run: Run, name: str = "a") -> int:
    return run.statistics.managed_objects[name].bytes_htod


def touching(low: int, high: int) -> Launch:
    return lambda t, a: t.target(part, a, low, high)


@pytest.mark.parametrize("gear", ["native", "turbo"])
def test_ten_elements_migrate_one_page(gear: str) -> None:
    assert migrated(run_of(touching(0, 10), gear)) == PAGE


@pytest.mark.parametrize("low", [0, 1, N // 3, N - 10])
def test_wherever_they_are(low: int) -> None:
    assert PAGE <= migrated(run_of(touching(low, low + 10))) <= 2 * PAGE


@pytest.mark.parametrize("gear", ["native", "turbo"])
@pytest.mark.parametrize("first", [0, 1, 5])
def test_a_part_migrates_as_many_bytes_wherever_it_is(first: int, gear: str) -> None:
    blocks = BLOCK // 8
    assert migrated(run_of(touching(first * blocks, (first + 3) * blocks), gear)) == 3 * BLOCK


def test_the_parts_of_an_array_are_all_of_it() -> None:
    async def both(t: omp.HostThread, a: omp.HostArray) -> None:
        await t.target(part, a, 0, N // 4)
        await t.target(part, a, N // 4, N)

    assert migrated(run_of(both)) == migrated(run_of(touching(0, N))) == 8 * BLOCK


def test_one_element_that_all_iterations_read_is_one_page() -> None:
    async def launch(t: omp.HostThread, a: omp.HostArray) -> None:
        b = t.array("b", N, fill=1.0, align=BLOCK)
        await t.target(broadcast, a, b, N)

    run = run_of(launch)
    assert (migrated(run), migrated(run, "b")) == (PAGE, 8 * BLOCK)


def test_what_a_section_leaves_out_is_not_touched_where_data_decide() -> None:
    async def launch(t: omp.HostThread, a: omp.HostArray) -> None:
        index, b = t.array("index", 10**6, np.int32, fill=0, align=BLOCK), t.array("b", 10**6, align=BLOCK)
        half = omp.section(a, 0, N // 2)
        await t.target(gather, a, index, b, 10**6, maps=omp.map(to=half))

    assert migrated(run_of(launch)) == 4 * BLOCK


def test_a_section_limits_what_a_kernel_touches() -> None:
    def launch(t: omp.HostThread, a: omp.HostArray) -> Any:
        return t.target(part, a, 0, N // 2, maps=omp.map(tofrom=omp.section(a, 0, N // 4)))

    assert migrated(run_of(launch)) == 2 * BLOCK


def test_the_ends_of_an_array_are_two_pages() -> None:
    @kernel
    def ends(a: Any, b: Any, n: int, last: int) -> None:
        for i in range(n):
            b[i] = a[i] + a[last - i]

    async def launch(t: omp.HostThread, a: omp.HostArray) -> None:
        await t.target(ends, a, t.array("b", 10, fill=0.0, align=BLOCK), 10, N - 1)

    assert migrated(run_of(launch)) == 2 * PAGE


def test_real_values_move_the_same_pages() -> None:
    launch = touching(BLOCK // 8, BLOCK // 8 + 10)
    ghost, real = run_of(launch), run_of(launch, phantom=False)
    assert migrated(ghost) == migrated(real) == PAGE
    assert ghost.trace.hash() == real.trace.hash()


@pytest.mark.parametrize("count", [10, N // 2, N])
def test_an_apu_faults_for_the_part_alone(count: int) -> None:
    run = run_of(touching(0, count), machine="mi300a", configuration="usm")
    assert run.statistics.faults["gpu_pages"] == -(-count * 8 // BLOCK)


# Over the link


def over_the_link(run: Run) -> tuple[float, float]:
    managed = run.device().managed
    assert managed is not None and migrated(run) == 0
    return managed.ports["h2d"].bytes, managed.ports["d2h"].bytes


@pytest.mark.parametrize("gear", ["native", "turbo"])
@pytest.mark.parametrize(("low", "count"), [(0, 10), (4 * 1000, 10), (0, N // 4), (N // 2, N // 4), (0, N)])
def test_a_pinned_part_moves_its_sectors_each_way(low: int, count: int, gear: str) -> None:
    by_hand = -(-count * 8 // 32) * 32
    assert over_the_link(run_of(touching(low, low + count), gear, pinned=True)) == pytest.approx((by_hand, by_hand))


def test_rare_stores_go_back_by_themselves() -> None:
    read, written = over_the_link(run_of(lambda t, a: t.target(rarely, a, N, 1e-4), pinned=True))
    assert read == pytest.approx(8 * N)
    assert written == pytest.approx(1e-4 * N * 32, rel=0.01)


@pytest.mark.parametrize("count", [100, 10_000, 1_000_000])
def test_accesses_at_random_count_whether_their_page_was_mapped_before_or_not(count: int) -> None:
    async def launch(t: omp.HostThread, a: omp.HostArray) -> None:
        index, b = t.array("index", count, np.int32, fill=0, align=BLOCK), t.array("b", count, fill=0.0, align=BLOCK)
        await t.target(gather, a, index, b, count)

    assert over_the_link(run_of(launch, pinned=True))[0] == pytest.approx(32 * count)


@pytest.mark.parametrize("gear", ["native", "turbo"])
@pytest.mark.parametrize("often", [1e-5, 1e-3])
def test_a_sweep_that_leaves_pages_out_moves_all_of_its_sectors(often: float, gear: str) -> None:
    @kernel
    def some(a: Any, b: Any, n: int, often: float) -> None:
        for i in range(n):
            if expect(b[i] > 0.0, probability=often):
                b[i] = a[i]

    async def launch(t: omp.HostThread, a: omp.HostArray) -> None:
        b = t.array("b", N, fill=0.0, align=BLOCK)
        await t.target(some, a, b, N, often)

    assert over_the_link(run_of(launch, gear, pinned=True))[0] == pytest.approx(often * N * 32, rel=0.05)


# Conditions

STRIDE = PAGE // 8
"""Elements of a page."""


def faulted(run: Run) -> int:
    return run.statistics.managed_objects["a"].faults


@kernel
def all_but_the_first(a: Any, n: int) -> None:
    for i in range(n):
        if i >= 1:
            a[STRIDE * i] = 1.0


@kernel
def sides(a: Any, b: Any, n: int, often: float) -> None:
    for i in range(n):
        if expect(b[i] > 0.0, probability=often):
            a[STRIDE * i] = 1.0
        else:
            a[STRIDE * (i + n)] = 1.0


@pytest.mark.parametrize("gear", ["native", "turbo"])
def test_a_condition_on_the_index_leaves_out_no_other_page(gear: str) -> None:
    pages = N // STRIDE
    assert faulted(run_of(lambda t, a: t.target(all_but_the_first, a, pages), gear, pinned=True)) == pages - 1


@pytest.mark.parametrize("gear", ["native", "turbo"])
def test_two_sides_at_different_places_touch_no_more_pages_than_there_are_iterations(gear: str) -> None:
    n = N // STRIDE // 2

    async def launch(t: omp.HostThread, a: omp.HostArray) -> None:
        await t.target(sides, a, t.array("b", n, fill=0.0, align=BLOCK), n, 0.5)

    run = run_of(launch, gear, pinned=True)
    assert n / 2 < faulted(run) <= n
    assert over_the_link(run)[1] == pytest.approx(32 * n, rel=0.01)
