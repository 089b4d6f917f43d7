"""In every order of thread blocks, the windows of a kernel have each of its cells once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.kernels import Kernel, Launch, Tile
from offloadrt.machine.managed.sweep import GridStride, Residence, Tiled, order_of

FEW = st.integers(1, 12)


def cells(order: GridStride | Tiled) -> list[int]:
    ranges = [one for window in range(order.windows) for one in order.cells(window)]
    return sorted(cell for low, high in ranges for cell in range(low, high))


@given(FEW, FEW, FEW, FEW, FEW)
def test_blocks_of_two_dimensions_have_each_thread_of_the_grid_once(
    width: int, height: int, columns: int, rows: int, resident: int
) -> None:
    launch = Launch(Kernel("k"), columns * rows, width * height, columns * rows * width * height)
    order = Tiled(launch.teams, width, height, columns, -(-launch.teams // resident))
    assert cells(order) == list(range(order.total))
    for window in range(order.windows):
        assert order.cells(window) == sorted(order.cells(window))


@given(FEW, FEW, FEW, st.integers(1, 600), FEW, st.one_of(st.none(), FEW))
def test_a_grid_stride_has_each_iteration_once(
    blocks: int, threads: int, resident: int, iterations: int, at_a_time: int, sms: int | None
) -> None:
    rounds = -(-iterations // (blocks * threads))
    order = GridStride(blocks, threads, -(-blocks // resident), rounds, iterations, at_a_time, sms)
    assert cells(order) == list(range(iterations))
    grid, windows = blocks * threads, range(order.windows)
    begin = [window for window in windows if window // order.lots % rounds == 0]
    assert len(begin) == sum(order.ends(window) for window in windows) == order.groups * order.lots
    assert all(order.before(window) is None for window in begin)
    for window in {*windows} - {*begin}:
        before = order.before(window)
        assert before is not None
        assert order.cells(window) == [
            (low + grid, min(high + grid, iterations)) for low, high in order.cells(before) if low + grid < iterations
        ]
    for window in windows:
        first, last = order.span(window)
        found = order.cells(window)
        assert (found[0][0], found[-1][1]) == (first, last) if found else first == last


PAGE = 4096


@pytest.mark.parametrize(("pages", "lots"), [(4, 4), (8, 4), (16, 2), (1000, 1)])
def test_an_sm_waits_for_the_pages_of_its_oldest_blocks_first(pages: int, lots: int) -> None:
    """Each of two SMs has four blocks, of which each needs 8 pages."""
    launch = Launch(Kernel("k"), 8, 16, 128)
    order = order_of(launch, Residence(2, 4, held_back=2 * pages * PAGE, page=PAGE), [64 * PAGE])
    assert order is not None
    firsts = [[low for low, _ in order.cells(window)] for window in range(order.windows)]
    assert len(firsts) == lots
    assert [first for window in firsts for first in window] == [*range(0, 128, 16)]


@pytest.mark.parametrize(
    ("strided", "iterations", "tile", "pages", "kind"),
    [
        (True, 4096, None, 0.001, GridStride),
        (True, 2048, None, 0.001, type(None)),
        (True, 2048, None, 1.0, GridStride),
        (True, 2048, None, 1.5, type(None)),  # a thread goes from page to page
        (False, 4096, None, 1.0, type(None)),
        (True, 2048, Tile(16, 16, 4), 1.0, Tiled),
    ],
)
def test_the_order_is_the_launchs(strided: bool, iterations: int, tile: Tile | None, pages: float, kind: type) -> None:
    launch = Launch(Kernel("k"), 8, 256, iterations, strided=strided, tile=tile)
    swept = [int(pages * iterations * PAGE)]
    assert isinstance(order_of(launch, Residence(2, 2, held_back=4 * swept[0], page=PAGE), swept), kind)


def test_blocks_of_which_few_have_pages_to_wait_for_come_as_the_iterations_do() -> None:
    """Two windows of resident blocks, and pages for three that the SMs can wait for."""
    launch = Launch(Kernel("k"), 8, 256, 2048, tile=Tile(16, 16, 4))
    for held_back, kind in ((4, Tiled), (3, type(None))):
        residence = Residence(2, 2, held_back=held_back * PAGE, page=PAGE)
        assert isinstance(order_of(launch, residence, [8 * PAGE]), kind)
