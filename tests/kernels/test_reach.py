"""Where a launch's accesses lie in their arrays: against runs of the same function that remember what they touch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instrumented import Phantom, counted
from property_examples import examples
from random_nests import SIZE, Nest, nests

from offloadrt.kernels import Kernel, expect, kernel
from offloadrt.kernels.ranges import ElementRuns, Range


def around(of: Kernel, name: str, *arguments: Any) -> list[tuple[Range, ...] | None]:
    assert of.analysis is not None
    return [stream.reach.ranges for stream in of.analysis.at(*arguments).array(name).streams]


def ranges_and_elements(nest: Nest, n: int, m: int) -> list[tuple[list[Range], set[int]]]:
    """Of each array of a random nest of which its launch says it: the ranges, and what a run of it touches."""
    function, of = nest.kernel()
    arrays = [np.random.default_rng(k).random(SIZE) for k in range(3)]
    real = counted(function, *arrays, n, m)
    found = []
    for use in of.arrays:
        known = around(of, use.name, *arrays, n, m)
        if None not in known:
            found.append(([one for some in known if some for one in some], real[use.position].touched))
    return found


@examples(60)
@given(nests(), st.integers(0, 6), st.integers(0, 6))
def test_nothing_is_touched_outside_of_the_range(nest: Nest, n: int, m: int) -> None:
    for found, touched in ranges_and_elements(nest, n, m):
        assert all(any(low <= place <= high for low, high in found) for place in touched)


@examples(60)
@given(nests(rectangular=True), st.integers(3, 6), st.integers(1, 6))
def test_of_loops_over_rectangles_the_ends_of_every_range_are_touched(nest: Nest, n: int, m: int) -> None:
    for found, touched in ranges_and_elements(nest, n, m):
        assert "if" in nest.text or {end for ends in found for end in ends} <= touched


@kernel
def inner(a: Any, n: int, m: int) -> None:
    for i in range(n):
        for j in range(m):
            if 2 <= i <= 3 and 1 <= j <= 4:
                a[i, j] = 1.0


@kernel
def previous(a: Any, n: int) -> None:
    for i in range(n):
        a[i - 1] = 1.0


def test_a_condition_on_the_index_narrows_the_range() -> None:
    assert around(inner, "a", Phantom((10, 8)), 10, 8) == [((2 * 8 + 1, 3 * 8 + 4),)]


def test_an_index_that_counts_from_the_end_may_be_anywhere() -> None:
    assert around(previous, "a", Phantom((50,)), 5) == [((0, 49),)]


@kernel
def ends(a: Any, b: Any, n: int) -> None:
    for i in range(n):
        b[i] = a[i] + a[i + 1] + a[500 + i] + a[999]


def test_accesses_that_lie_apart_have_ranges_of_their_own() -> None:
    assert around(ends, "a", Phantom((1000,)), Phantom((10,)), 10) == [((0, 10), (500, 509), (999, 999))]


@kernel
def gather(a: Any, index: Any, b: Any, low: int, high: int, part: float) -> None:
    for i in range(low, high):
        b[i] = a[expect(index[i], near=part)]


@kernel
def shifted(a: Any, index: Any, b: Any, n: int) -> None:
    for i in range(n):
        b[i] = a[expect(index[i] + n, near=1)]


def test_data_may_lead_anywhere_unless_they_are_near_their_iteration() -> None:
    arrays = [Phantom((1000,)), Phantom((100,), "i4"), Phantom((100,))]
    assert around(gather, "a", *arrays, 20, 60, 0.0) == [None]
    assert around(gather, "a", *arrays, 20, 60, 1.0) == [((20, 59),)]
    assert around(gather, "a", *arrays, 20, 60, 0.25) == [((20, 59),), None]


def test_what_is_computed_with_data_is_near_an_unknown_place() -> None:
    assert around(shifted, "a", Phantom((1000,)), Phantom((100,), "i4"), Phantom((100,)), 100) == [None]


@kernel
def rarely(a: Any, n: int, often: float) -> None:
    for i in range(n):
        if expect(a[i] > 0.0, probability=often):
            a[i] = 0.0


def test_loads_and_stores_have_arenas_of_their_own() -> None:
    assert rarely.analysis is not None
    (stream,) = rarely.analysis.at(Phantom((1000,)), 1000, 0.01).array("a").streams
    assert stream.reach.read == (ElementRuns(1.0, 1000.0, True, 0),)
    assert stream.reach.written == (ElementRuns(pytest.approx(10.0), 1.0, among=1000.0),)


@kernel
def rows(a: Any, b: Any, n: int, often: float) -> None:
    for i in range(n):
        if expect(b[i] > 0.0, probability=often):
            for k in range(4):
                b[i] += a[4 * i + k]


def test_a_row_that_a_branch_lets_through_is_one_place() -> None:
    assert rows.analysis is not None
    (stream,) = rows.analysis.at(Phantom((4000,)), Phantom((1000,)), 1000, 0.01).array("a").streams
    assert stream.order == "in order" and stream.places == pytest.approx(10.0)
    assert stream.reach.read == (ElementRuns(pytest.approx(10.0), pytest.approx(4.0), among=pytest.approx(1000.0)),)
