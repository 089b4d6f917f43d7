"""In every order of thread blocks, the windows of a kernel have each of its cells once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.kernels import Kernel, Launch, Tile
from offloadrt.machine.managed.window_order import GridStride, Tiled, order_of

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


@given(FEW, FEW, FEW, st.integers(1, 600))
def test_a_grid_stride_has_each_iteration_once(blocks: int, threads: int, resident: int, iterations: int) -> None:
    rounds = -(-iterations // (blocks * threads))
    order = GridStride(blocks, threads, -(-blocks // resident), rounds, iterations)
    assert cells(order) == list(range(iterations))
    firsts = [window for window in range(order.windows) if order.begins(window)]
    assert len(firsts) == order.groups == sum(order.ends(window) for window in range(order.windows))


@pytest.mark.parametrize(
    ("strided", "iterations", "tile", "kind"),
    [
        (True, 4096, None, GridStride),
        (True, 2048, None, type(None)),
        (False, 4096, None, type(None)),
        (True, 2048, Tile(16, 16, 4), Tiled),
    ],
)
def test_the_order_is_the_launchs(strided: bool, iterations: int, tile: Tile | None, kind: type) -> None:
    launch = Launch(Kernel("k"), 8, 256, iterations, strided=strided, tile=tile)
    assert isinstance(order_of(launch, 4), kind)
