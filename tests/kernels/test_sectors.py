"""What launches move where memory gives whole sectors: closed forms, and sectors counted one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instrumented import Phantom, counted
from property_examples import examples
from written import function

from offloadrt.kernels import Kernel, Launch, expect, kernel

SECTOR = 32
N = 4000


def launched(of: Kernel, *arguments: Any) -> Launch:
    return of.launch(8, arguments=arguments)


def nest(line: str, parameters: str = "a, b, n") -> Any:
    return function(f"def f({parameters}):\n    for i in range(n):\n        {line}\n")


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 16])
@pytest.mark.parametrize("kind", ["f8", "f4"])
def test_a_step_moves_as_much_as_it_takes_and_a_sector_at_most(step: int, kind: str) -> None:
    launch = launched(kernel(nest(f"b[{step} * i] = 1.0", "b, n")), Phantom((step * N,), kind), N)
    size = np.dtype(kind).itemsize
    assert launch.bytes == size * N
    assert launch.bytes_moved(SECTOR, 0.0) == pytest.approx(min(step * size, SECTOR) * N, rel=1e-2)


def test_what_lies_side_by_side_moves_alone() -> None:
    plain = launched(kernel(nest("b[i] = a[i]")), Phantom((N,)), Phantom((N,)), N)
    fields = launched(
        kernel(nest("b[i] = a[3 * i] + a[3 * i + 1] + a[3 * i + 2]")), Phantom((3 * N,)), Phantom((N,)), N
    )
    inner = "for j in range(16):\n            b[16 * i + j] = 1.0"
    rows = launched(kernel(nest(inner, "b, n")), Phantom((16 * N,)), N)
    ends = launched(kernel(nest("b[i] = a[i] + a[i + n]")), Phantom((2 * N,)), Phantom((N,)), N)
    for launch in (plain, fields, rows, ends):
        assert launch.bytes_moved(SECTOR, 0.0) == launch.bytes


def test_two_fields_of_a_record_share_its_sector() -> None:
    launch = launched(kernel(nest("b[i] = a[8 * i] + a[8 * i + 1]")), Phantom((8 * N,)), Phantom((N,)), N)
    assert launch.bytes == 3 * 8 * N
    assert launch.bytes_moved(SECTOR, 0.0) == pytest.approx((SECTOR + 8) * N, rel=1e-3)


def test_columns_of_a_matrix_and_a_field_that_is_stored() -> None:
    """Loads do not fill the gaps between stores."""
    launch = launched(kernel(nest("a[2 * i] = a[2 * i + 1]", "a, n")), Phantom((2 * N,)), N)
    assert launch.bytes_moved(SECTOR, 0.0) == pytest.approx(2 * launch.bytes, rel=1e-3)
    column = launched(kernel(nest("a[i, 0] = 1.0", "a, n")), Phantom((N, 100)), N)
    assert column.bytes_moved(SECTOR, 0.0) == pytest.approx(SECTOR * N, rel=1e-2)


@examples(50)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 40), st.integers(0, 30)), min_size=1, max_size=3))
def test_affine_patterns_move_the_sectors_that_a_run_touches(terms: list[tuple[int, int, int]]) -> None:
    """But for what lies before the first element and after the last one."""
    text = "def f(a, n):\n    for i in range(n):\n        for j in range(7):\n"
    for fast, slow, offset in terms:
        text += f"            a[{slow} * i + {fast} * j + {offset}] = 1.0\n"
    made = function(text)
    launch = launched(kernel(made), Phantom((2000,)), 20)
    stored = counted(made, np.zeros(2000), 20)[0].stored
    sectors = {place * 8 // SECTOR for place in stored}
    outside = min(stored) * 8 % SECTOR + -(max(stored) + 1) * 8 % SECTOR
    expected = (len(sectors) * SECTOR - outside) / (8 * len(stored))
    assert launch.bytes_moved(SECTOR, 0.0) == pytest.approx(launch.bytes * expected)


gathering = kernel(nest("b[i] = a[place[i]]", "a, place, b, n"))


def gather(large: int, cache: float, of: Kernel = gathering) -> float:
    """Bytes that the picked array moves."""
    launch = launched(of, Phantom((large,)), Phantom((N,), "i8"), Phantom((N,)), N)
    return launch.bytes_moved(SECTOR, cache) - 2 * 8 * N


def test_a_gather_moves_a_sector_for_each_access_unless_the_array_fits_in_the_cache() -> None:
    assert gather(10 * N, cache=8 * 10 * N - 1) == pytest.approx(SECTOR * N)
    assert gather(10 * N, cache=8 * 10 * N) == pytest.approx(SECTOR * N)  # few sectors are met twice
    assert gather(N // 10, cache=8 * N) == pytest.approx(8 * N / 10)
    assert gather(N // 10, cache=0.0) == pytest.approx(SECTOR * N)


@pytest.mark.parametrize("near", [0.0, 0.25, 1.0])
def test_what_is_near_comes_in_order(near: float) -> None:
    hinted = kernel(nest(f"b[i] = a[expect(place[i], near={near})]", "a, place, b, n"))
    assert gather(N, 0.0, hinted) == pytest.approx((1 - near) * SECTOR * N + min(near * SECTOR, 8) * N)


@kernel
def rows(first, a, b, n, trips):  # type: ignore[no-untyped-def]
    for i in range(n):
        for e in expect(range(first[i], first[i + 1]), trips=trips):
            b[e] = a[e]


def test_a_row_of_a_sparse_matrix_is_one_run() -> None:
    launch = launched(rows, Phantom((N + 1,), "i8"), Phantom((100 * N,)), Phantom((100 * N,)), N, 6.0)
    run = 6 * 8 + SECTOR - 8
    assert launch.bytes_moved(SECTOR, 0.0) == pytest.approx(8 * N + 2 * run * N, rel=1e-3)


@pytest.mark.parametrize("probability", [0.01, 0.1, 0.25, 0.9, 1.0])
def test_elements_that_data_choose_move_their_sectors_and_the_array_at_most(probability: float) -> None:
    made = function(
        "def f(mask, b, n):\n"
        "    for i in range(n):\n"
        f"        if expect(mask[i] > 0, probability={probability}):\n"
        "            b[i] = 1.0\n"
    )
    launch = launched(kernel(made), Phantom((N,), "i1"), Phantom((N,)), N)
    assert launch.bytes_moved(SECTOR, 0.0) == pytest.approx(N + min(probability * SECTOR, 8) * N)


def test_a_condition_on_the_index_leaves_a_run() -> None:
    made = function("def f(b, n, m):\n    for i in range(n):\n        if i < m:\n            b[i] = 1.0\n")
    launch = launched(kernel(made), Phantom((N,)), N, N // 10)
    assert launch.bytes_moved(SECTOR, 0.0) == launch.bytes == 8 * N / 10


def test_costs_that_are_declared_stay_as_they_are() -> None:
    assert Kernel("k", bytes_per_iteration=24.0).launch(1, iterations=10).bytes_moved(128, 0.0) == 240.0


SLANTED = {
    "a[i, 4 * j] = b[i]": ("i + 1", (64, 256), 64),  # rows of a triangle, every fourth column
    "a[i, j] = b[i]": ("i, i + 3", (200, 203), 200),  # a band: three elements are two sectors, or one
    "a[0, 8 * j] = b[i]": ("i, i + 3", (1, 8 * 203), 200),  # iterations share two of three elements
    "b[i] += a[0, 8 * j]": ("i", (1, 8 * 512), 512),  # all of the ranges together
}


@pytest.mark.parametrize("line", SLANTED)
def test_loops_that_depend_on_one_another_move_the_sectors_that_a_run_touches(line: str) -> None:
    between, shape, n = SLANTED[line]
    made = function(
        f"def f(a, b, n):\n    for i in range(n):\n        for j in range({between}):\n            {line}\n"
    )
    launch = launched(kernel(made), Phantom(shape), Phantom((n,)), n)
    touched = [
        side for each in counted(made, np.zeros(shape), np.zeros(n), n)[:2] for side in (each.loaded, each.stored)
    ]
    assert launch.bytes == pytest.approx(8 * sum(map(len, touched)), rel=0.01)
    sectors = sum(len({place * 8 // SECTOR for place in side}) for side in touched)
    assert launch.bytes_moved(SECTOR, 0.0) == pytest.approx(SECTOR * sectors, rel=0.01)
