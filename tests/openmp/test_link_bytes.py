"""Bytes of pinned arrays over the link: sectors counted one by one, each way by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from offloadrt.kernels import ArrayUse, Kernel, expect, kernel
from offloadrt.machine.managed.sweep import ManagedAccess
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.target import accesses_of

SECTOR = 32
N = 96


def array(name: str, *shape: int, element: Any = np.float64, begin: int = 1 << 30) -> HostArray:
    return HostArray(name, begin, shape, np.dtype(element))


def accesses(of: Kernel, *arguments: Any) -> tuple[ManagedAccess, ...]:
    arrays = [one for one in arguments if isinstance(one, HostArray)]
    return accesses_of(0, of.launch(1, arguments=arguments), (), arguments, arrays, [True] * len(arrays)).accesses


def moved(of: Kernel, *arguments: Any) -> tuple[float, float]:
    """Bytes in and out for the first array."""
    first = arguments[0]
    mine = [one for one in accesses(of, *arguments) if first.address <= one.begin < first.address + first.nbytes]
    return sum(one.moved(one.reads, SECTOR) for one in mine), sum(one.moved(one.writes, SECTOR) for one in mine)


def sectors(elements: Iterable[int], size: int = 8) -> int:
    """Bytes of the sectors in which some elements lie."""
    return SECTOR * len({byte // SECTOR for one in elements for byte in range(one * size, (one + 1) * size)})


@kernel
def strided(a: Any, n: int, step: int) -> None:
    for i in range(n):
        a[step * i] = a[step * i] + 1.0


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 6, 16, 64])
@pytest.mark.parametrize("element", [np.float64, np.float32])
def test_a_stride_moves_the_sectors_of_its_elements(step: int, element: Any) -> None:
    size = np.dtype(element).itemsize
    by_hand = sectors((step * i for i in range(N)), size)
    found = moved(strided, array("a", N * step, element=element), N, step)
    assert found == pytest.approx((by_hand, by_hand), abs=SECTOR)


@kernel
def part(a: Any, low: int, high: int) -> None:
    for i in range(low, high):
        a[i] = 0.0


@pytest.mark.parametrize("low", [0, 1, 4, 41])
def test_a_part_of_an_array_moves_its_own_sectors_and_is_not_read(low: int) -> None:
    read, written = moved(part, array("a", 1000), low, low + N)
    assert read == 0.0 and written == pytest.approx(sectors(range(low, low + N)), abs=SECTOR)


@kernel
def fields(a: Any, b: Any, n: int) -> None:
    for i in range(n):
        b[i] = a[16 * i + 2] + a[16 * i + 3] + a[16 * i + 12]


@kernel
def column(a: Any, b: Any, n: int, j: int) -> None:
    for i in range(n):
        b[i] = a[i, j]


@kernel
def block(a: Any, b: Any, n: int, m: int) -> None:
    for i in range(n):
        for j in range(m):
            b[i] += a[i, j]


@kernel
def stencil(a: Any, b: Any, n: int) -> None:
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            b[i, j] = a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]


@kernel
def triangle(a: Any, b: Any, n: int) -> None:
    for i in range(n):
        for j in range(i + 1):
            b[i] += a[i, j]


def test_fields_of_a_structure_move_their_sectors() -> None:
    by_hand = sectors(16 * i + k for i in range(N) for k in (2, 3, 12))
    assert moved(fields, array("a", 16 * N), array("b", N, begin=1 << 31), N)[0] == pytest.approx(by_hand)


def test_a_column_moves_one_sector_of_each_row() -> None:
    for cols in (40, 41):
        by_hand = sectors(cols * i + 7 for i in range(N))
        assert moved(column, array("a", N, cols), array("b", N, begin=1 << 31), N, 7)[0] == pytest.approx(by_hand)


@pytest.mark.parametrize(("cols", "width"), [(100, 5), (101, 5), (100, 4), (64, 64)])
def test_a_block_of_a_matrix_moves_the_sectors_of_its_rows(cols: int, width: int) -> None:
    by_hand = sectors(cols * i + j for i in range(N) for j in range(width))
    assert moved(block, array("a", N, cols), array("b", N, begin=1 << 31), N, width)[0] == pytest.approx(by_hand)


def test_neighbours_that_read_the_same_elements_move_them_once() -> None:
    """But for the two rows at the edge that one neighbour alone reads."""
    a, b = array("a", N, N), array("b", N, N, begin=1 << 31)
    assert moved(stencil, a, b, N)[0] == pytest.approx(N * N * 8, rel=2 / N)


def test_a_triangle_moves_half_of_its_matrix() -> None:
    by_hand = sectors(512 * i + j for i in range(512) for j in range(i + 1))
    found = moved(triangle, array("a", 512, 512), array("b", 512, begin=1 << 31), 512)[0]
    assert found == pytest.approx(by_hand, rel=0.01)


@kernel
def store_and_load(a: Any, b: Any, n: int) -> None:
    for i in range(n):
        a[i] = 1.0
        b[i] = a[i] + 1.0


def test_what_an_iteration_has_stored_itself_is_not_loaded() -> None:
    assert moved(store_and_load, array("a", N), array("b", N, begin=1 << 31), N) == (0.0, 8 * N)


@kernel
def rarely(a: Any, n: int, often: float) -> None:
    for i in range(n):
        if expect(a[i] > 0.0, probability=often):
            a[i] = 0.0


@pytest.mark.parametrize("often", [1e-6, 0.01, 0.1])
def test_what_is_rarely_stored_goes_back_by_itself(often: float) -> None:
    n = 1 << 20
    stored = np.random.default_rng(1).random(n).reshape(-1, SECTOR // 8) < often
    read, written = moved(rarely, array("a", n), n, often)
    assert read == n * 8
    assert written == pytest.approx(SECTOR * stored.any(axis=1).sum(), rel=0.05, abs=2 * SECTOR)


@kernel
def gather(a: Any, index: Any, b: Any, n: int) -> None:
    for i in range(n):
        b[i] = a[index[i]]


def test_each_access_at_random_moves_a_sector() -> None:
    a, index, b = array("a", 10**6), array("index", N, element=np.int32, begin=1 << 31), array("b", N, begin=1 << 32)
    assert moved(gather, a, index, b, N) == (N * SECTOR, 0.0)


def test_a_declared_kernel_moves_at_random_what_it_declares() -> None:
    use = ArrayUse("a", 0, reads=1.0, writes=0.25, pattern="indirect", elements_read=1.0, elements_written=0.25)
    a, of = array("a", 10**6), Kernel("declared", arrays=(use,))
    (found,) = accesses_of(0, of.launch(1, 128, N), (), [a], [a], [True]).accesses
    assert (found.moved(found.reads, SECTOR), found.moved(found.writes, SECTOR)) == (N * SECTOR, N // 4 * SECTOR)


# Conditions on an index


@kernel
def lower(a: Any, n: int) -> None:
    for i in range(n):
        for j in range(n):
            if j <= i:
                a[i, j] = 1.0


@kernel
def lower_loop(a: Any, n: int) -> None:
    for i in range(n):
        for j in range(i + 1):
            a[i, j] = 1.0


@kernel
def chosen_row(a: Any, n: int, k: int) -> None:
    for i in range(n):
        if i == k:
            for j in range(n):
                a[i, j] = 1.0


@kernel
def chosen_column(a: Any, n: int, k: int) -> None:
    for i in range(n):
        for j in range(n):
            if j == k:
                a[i, j] = 1.0


@kernel
def diagonal(a: Any, n: int) -> None:
    for i in range(n):
        for j in range(n):
            if i == j:
                a[i, j] = 1.0


@kernel
def rim(a: Any, n: int) -> None:
    for i in range(n):
        for j in range(n):
            if i == 0 or j == 0 or i == n - 1 or j == n - 1:
                a[i, j] = 1.0


@kernel
def corner(a: Any, n: int) -> None:
    for i in range(n):
        for j in range(n):
            if i + j <= 10:
                a[i, j] = 1.0


@kernel
def antidiagonal(a: Any, n: int) -> None:
    for i in range(n):
        for j in range(n):
            if i + j == 99:
                a[j, i] = 1.0


@kernel
def few_of_a_column(a: Any, n: int) -> None:
    for i in range(n):
        for j in range(n):
            if i + j <= 10:
                a[j, 3] = 1.0


@kernel
def two_sides(a: Any, n: int, m: int) -> None:
    for i in range(n):
        if i < m:
            a[i] = 1.0
        else:
            a[i + n] = 1.0


@kernel
def nested_guards(a: Any, n: int, m: int) -> None:
    for i in range(n):
        if i < m:
            a[i] = 1.0
        if i < 2 * m:
            a[i] = 2.0


@kernel
def all_but_one(a: Any, n: int, k: int) -> None:
    for i in range(n):
        if i != k:
            a[8 * i] = 1.0


@pytest.mark.parametrize(
    ("of", "arguments", "touches", "tolerance"),
    [
        (lower, (), lambda i, j: j <= i, 0.02),
        (lower_loop, (), lambda i, j: j <= i, 0.02),
        (chosen_row, (5,), lambda i, j: i == 5, 0.0),
        (chosen_column, (5,), lambda i, j: j == 5, 1e-9),
        (diagonal, (), lambda i, j: i == j, 1e-9),
        (antidiagonal, (), lambda i, j: i + j == 99, 1e-9),
        (few_of_a_column, (), lambda i, j: i <= 10 and j == 3, 1e-9),
        (rim, (), lambda i, j: {i, j} & {0, 255}, 0.007),
        (corner, (), lambda i, j: i + j <= 10, 0.3),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_condition_on_an_index_moves_the_sectors_that_it_leaves(
    of: Kernel, arguments: Any, touches: Any, tolerance: float
) -> None:
    n = 256
    by_hand = sectors(n * i + j for i in range(n) for j in range(n) if touches(i, j))
    read, written = moved(of, array("a", n, n), n, *arguments)
    assert read == 0.0 and written == pytest.approx(by_hand, rel=tolerance)


def test_a_triangle_by_a_condition_is_the_triangle_by_a_loop() -> None:
    a = array("a", 300, 300)
    assert accesses(lower, a, 300) == accesses(lower_loop, a, 300)


def test_the_two_sides_of_an_exact_condition_move_their_own_sectors() -> None:
    n, m = 1 << 12, 100
    assert moved(two_sides, array("a", 2 * n), n, m) == (0.0, 8 * n)


def test_what_two_conditions_let_through_moves_once() -> None:
    assert moved(nested_guards, array("a", 1 << 12), 1 << 12, 100) == (0.0, 8 * 200)


def test_an_excluded_element_is_left_out() -> None:
    assert moved(all_but_one, array("a", 8 * N), N, 7)[1] == pytest.approx(SECTOR * (N - 1))
