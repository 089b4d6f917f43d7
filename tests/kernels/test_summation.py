"""Nests whose inner loops are empty for a part of the outer one: what a launch counts, against a run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instrumented import Phantom
from property_examples import examples
from written import function

from offloadrt.kernels import KernelError, kernel


def flops(text: str, n: int) -> tuple[float, float]:
    """What a launch counts, and what a run adds up, of a nest that adds 1 in each iteration."""
    made, total = function(text), np.zeros(1)
    made(total, n)
    of = kernel(made)
    assert of.analysis is not None
    counts = of.analysis.at(Phantom((1,)), n)
    assert counts.assumed == ()
    return counts.flops, total[0]


@st.composite
def bands(draw: st.DrawFn) -> str:
    lines = ["def k(a, n):", "    s = 0.0", "    for i in range(n):"]
    for level in range(1, draw(st.integers(2, 3))):
        ends = []
        for _ in range(2):
            terms = [f"{draw(st.sampled_from([-2, -1, 1, 1, 2]))} * {v}" for v in "ij"[:level] if draw(st.booleans())]
            ends.append(" + ".join([*terms, str(draw(st.integers(-60, 160)))]))
        step = draw(st.sampled_from(["", "", ", 2", ", 3"]))
        lines.append(f"{'    ' * (level + 1)}for {'ijk'[level]} in range({', '.join(ends)}{step}):")
    lines.append("    " * (len(lines) - 1) + "s += 1.0")
    return "\n".join([*lines, "    a[0] = s"])


@examples(40)
@given(bands(), st.integers(70, 140))
def test_any_nest_of_linear_bounds_is_counted_exactly(text: str, n: int) -> None:
    counted, real = flops(text, n)
    assert counted == real


BAND = """
def k(a, n):
    s = 0.0
    for i in range(n):
        for j in range(300, i):
            for k in range(i, 400):
                s += 1.0
    a[0] = s
"""


@pytest.mark.parametrize("n", [300, 301, 302, 350, 400, 401, 1000, 100_000])
def test_a_band_that_few_samples_meet_is_counted(n: int) -> None:
    of = kernel(function(BAND))
    assert of.analysis is not None
    expected = sum((i - 300) * (400 - i) for i in range(300, min(n, 400)))
    assert of.analysis.at(Phantom((1,)), n).flops == expected


def test_a_loop_that_no_machine_can_count_is_refused() -> None:
    of = kernel(function("def k(a, n):\n    for i in range(n):\n        a[i] = 1.0"))
    assert of.analysis is not None
    with pytest.raises(
        KernelError, match=r"kernel 'k': the loop over i in line 2 is over range\(0, 9223372036854775808"
    ):
        of.analysis.trip_count(Phantom((9,)), 1 << 63)


@pytest.mark.parametrize(
    ("given_", "value", "message"),
    [
        ("probability", 1.5, "p is the probability of a branch, which is a number from 0 to 1, not 1.5"),
        ("probability", float("nan"), "a number from 0 to 1, not nan"),
        ("trips", -3.0, "p is how often a loop runs, which is a number at least 0, not -3"),
        ("trips", float("inf"), "a number at least 0, not inf"),
        ("near", 2.0, "p is the part of accesses that lies near, which is a number from 0 to 1, not 2"),
    ],
)
def test_a_hint_that_a_scalar_gives_is_checked_at_the_launch(given_: str, value: float, message: str) -> None:
    body = {
        "probability": "        if expect(at[i] > 0, probability=p):\n            a[i] = 1.0",
        "trips": "        for j in expect(range(at[i]), trips=p):\n            a[i] += 1.0",
        "near": "        a[expect(at[i], near=p)] = 1.0",
    }[given_]
    of = kernel(function(f"def k(a, at, n, p):\n    for i in range(n):\n{body}"))
    assert of.analysis is not None
    with pytest.raises(KernelError, match=f"kernel 'k': .*{message}"):
        of.analysis.at(Phantom((9,)), Phantom((9,), "i4"), 9, value)


def test_an_element_that_several_loops_come_to_moves_once() -> None:
    text = """
def k(x, y, w, n, m):
    for i in range(n):
        s = 0.0
        for j in range(m):
            s += w[j] * x[i + j]
        y[i] = s
"""
    of = kernel(function(text))
    assert of.analysis is not None
    n, m = 1 << 16, 64
    counts = of.analysis.at(Phantom((n + m,)), Phantom((n,)), Phantom((m,)), n, m)
    assert counts.array("x").reads == n * m
    assert counts.bytes == 8 * ((n + m - 1) + n + m)


@pytest.mark.parametrize(("low", "high", "expected"), [(-1, 1, (0, 59)), (0, 9, (0, 8)), (-9, -1, (0, 59))])
def test_a_range_around_an_index_that_counts_from_the_end_in_part_is_the_array(
    low: int, high: int, expected: tuple[int, int]
) -> None:
    of = kernel(function("def k(a, low, high):\n    for i in range(low, high):\n        a[i] = 1.0"))
    assert of.analysis is not None
    assert of.analysis.at(np.zeros(60), low, high).array("a").written_range == expected
