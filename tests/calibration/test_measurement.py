"""The estimators: lines over sizes, and two groups of calls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.calibration.operations import linear_cost, two_groups


@given(
    fixed=st.floats(1e-6, 1e-3),
    slope=st.floats(1e-12, 1e-9),
    outlier=st.floats(1.0, 1e4),
)
def test_a_line_is_found_through_an_outlier_at_each_size(fixed, slope, outlier):
    sizes = [1 << power for power in range(12, 30, 3)]
    points = [(float(size), fixed + slope * size) for size in sizes for _ in range(3)]
    points += [(float(size), outlier) for size in sizes]
    line = linear_cost(points)
    assert line is not None and line.count == len(points)
    assert line.per_unit("", "").value == pytest.approx(slope, rel=1e-6)
    assert line.fixed("", "").value == pytest.approx(fixed, rel=1e-3)


def test_sizes_that_are_much_the_same_give_no_line():
    assert linear_cost([(100.0, 1.0), (200.0, 2.0), (300.0, 3.0)]) is None


@given(
    quick=st.lists(st.floats(1.0, 3.0), min_size=5, max_size=30),
    slow=st.lists(st.floats(20.0, 60.0), min_size=5, max_size=30),
)
def test_groups_that_lie_apart_are_found(quick, slow):
    assert two_groups([*slow, *quick]) == (sorted(quick), sorted(slow))


@given(times=st.lists(st.floats(1.0, 4.0), min_size=1, max_size=40), outlier=st.floats(100.0, 1e6))
def test_an_outlier_is_no_group(times, outlier):
    assert two_groups([*times, outlier]) == (sorted([*times, outlier]), [])
