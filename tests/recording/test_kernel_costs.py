"""What the recorder counts in kernels equals what can be counted by hand."""

from __future__ import annotations

import pytest
from raw_files import OP
from recorded_programs import built, recorded

N = 16 * 1024
SECTORS = N * 8 // 32
STREAMING = {  # bytes loaded, bytes stored, flops an element
    "copy": (8, 8, 0),
    "multiply": (8, 8, 1),
    "add": (16, 8, 1),
    "triad": (16, 8, 2),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("programs")


def test_streaming_kernels_move_and_compute_what_their_source_says(folder, capfd):
    _, raw = recorded(built("five_kernels.c", folder), N)
    for launch, (loads, stores, flops) in zip(raw.launches()[:4], STREAMING.values(), strict=True):
        assert launch.moved() == (loads * N, stores * N)
        assert launch.counts["load_bytes"] == loads * N  # none for a thread's number, which clang loads by a pointer
        assert launch.counts["f64"] == flops * N
        assert (launch.teams, launch.threads, launch.gpu_threads, launch.trip) == (N // 128, 128, N, N)
        assert all(array.sectors_loaded in (0, SECTORS) for array in launch.arrays)
    assert capfd.readouterr().out == f"0.096000 0.140000 {0.00384 * N:.6f}\n"


def test_a_reduction_is_combined_by_each_thread_and_then_by_each_team(folder):
    _, raw = recorded(built("five_kernels.c", folder), N)
    dot = raw.launches()[4]
    assert [array.load_bytes for array in dot.arrays if array.size == 8 * N] == [8 * N, 8 * N]
    assert dot.counts["f64"] == 2 * N + N + N // 128


def test_a_launch_that_is_only_counted_has_the_same_work_an_element(folder):
    _, raw = recorded(built("five_kernels.c", folder), N, 2)
    traced, counted = raw.launches()[3], raw.launches()[8]
    assert (traced.traced, counted.traced) == (True, False)
    assert counted.counts["f64"] == traced.counts["f64"] == 2 * N
    assert counted.counts["store_bytes"] == 8 * N
    assert counted.counts["load_bytes"] == 16 * N


def test_a_stencil_loads_each_sector_three_times_but_touches_it_once(folder):
    _, raw = recorded(built("stencil.c", folder), N, 1)
    (launch,) = raw.launches()
    assert launch.counts["f64"] == 5 * (N - 2)
    assert launch.moved() == (3 * 8 * (N - 2), 8 * (N - 2))
    assert sum(array.sectors_loaded for array in launch.arrays) == SECTORS
    assert sum(array.sectors_stored for array in launch.arrays) in (SECTORS, SECTORS + 1)  # the ends are not stored


def test_pages_are_told_in_the_order_of_the_teams_that_touch_them_first(folder):
    """A run of pages is told by the first teams of its ends; an array that begins within a page may have two runs."""
    _, raw = recorded(built("stencil.c", folder), N, 1)
    for array in raw.launches()[0].arrays:
        begins_at = array.host % 4096
        expected = 0
        for _, first_page, pages, *teams in array.pages:
            assert first_page == expected
            expected += pages
            for page, team in zip((first_page, expected - 1), teams, strict=True):
                first_element = max(0, page * 4096 - begins_at) // 8
                assert abs(team - first_element // 128) <= 1  # a stencil reads one element of its neighbour
        assert expected == -(-(begins_at + 8 * N) // 4096)


def test_pages_that_a_launch_writes_before_it_reads_them_are_not_read(folder):
    """So that a program whose kernel only makes values is not taken for one that relies on old copies."""
    _, raw = recorded(built("rewritten.c", folder))
    by_loads = {array.sectors_stored: array for array in raw.launches()[0].arrays}
    read, rewritten = by_loads[0], by_loads[SECTORS]
    assert {kind for kind, *_ in read.pages} == {1}
    assert {kind for kind, *_ in rewritten.pages} == {2}
    assert (rewritten.load_bytes, rewritten.store_bytes) == (8 * N, 16 * N)


def test_fortran_is_counted_as_c_is(folder, capfd):
    """flang's descriptors, and the threads' copies of them, are arrays of their own or none."""
    _, raw = recorded(built("axpy.f90", folder))
    axpy = raw.launches()[0]
    assert axpy.counts["f64"] == 2 * 10_000
    moved = [(array.load_bytes, array.store_bytes) for array in axpy.arrays if array.size == 8 * 10_000]
    assert sorted(moved) == [(80_000, 0), (80_000, 80_000)]
    assert capfd.readouterr().out.split() == ["8.0", "80000.0"]


def test_kernels_written_for_a_gpu_compute_what_they_do_on_one(folder, capfd):
    """Barriers among the threads of a team, teams that wait for one another, iterations that threads fetch."""
    _, raw = recorded(built("blocks.c", folder))
    assert capfd.readouterr().out == "right 1000 64\n"
    barriers, waiting, fetching = raw.launches()
    assert (barriers.teams, barriers.threads, barriers.gpu_threads) == (24, 64, 24 * 64)
    assert barriers.barriers == 24 * (2 + 6)
    assert (waiting.teams, waiting.threads, waiting.counts["atomics"]) == (24, 1, 24)
    assert (fetching.teams, fetching.threads, fetching.counts["atomics"]) == (1, 64, 1000)


def test_under_unified_shared_memory_kernels_touch_the_hosts_own_arrays(folder, tmp_path):
    _, raw = recorded(built("stencil.c", tmp_path, "-fopenmp-force-usm"), N, 1)
    (launch,) = raw.launches()
    assert len(raw.of(OP)) == 0
    assert launch.moved() == (3 * 8 * (N - 2), 8 * (N - 2))
    assert all(array.host == array.device for array in launch.arrays)


def test_threads_that_wait_for_one_another_are_counted_the_same_traced_or_not(folder):
    """A counter that a compiler keeps in a register across a barrier would lose what other threads count."""
    program = built("blocks.c", folder)
    traced, counted = (recorded(program, samples=samples)[1].launches()[0] for samples in (1, 0))
    assert (traced.traced, counted.traced) == (True, False)
    assert traced.counts == counted.counts


@pytest.mark.parametrize(("samples", "traced"), [(1, [0, 5]), (3, [0, 1, 2, 5]), (0, [5])])
def test_a_launch_is_traced_anew_when_the_kernel_does_other_work_than_before(folder, samples, traced):
    """Four launches of eight rounds, then four of 32: the first of these tells, the next is traced."""
    _, raw = recorded(built("growing.c", folder), samples=samples)
    launches = raw.launches()
    assert [number for number, launch in enumerate(launches) if launch.traced] == traced
    assert [launch.counts["f64"] for launch in launches] == [2 * 1024 * 8] * 4 + [2 * 1024 * 32] * 4
