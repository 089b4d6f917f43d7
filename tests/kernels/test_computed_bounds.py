"""Bounds and indices that are no polynomials: what a launch counts, against a run that counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instrumented import Phantom, counted
from property_examples import examples
from written import function

from offloadrt.kernels import KernelError, kernel
from offloadrt.kernels.algebra import Polynomial, SymbolicOperation

SIZE = 400


@st.composite
def numbers(draw: st.DrawFn, names: list[str], depth: int = 0) -> str:
    """A whole number of some scalars, written with everything that makes one."""
    leaf = st.sampled_from([*names, "a.shape[0]", "3", "7"])
    if depth == 2 or draw(st.integers(0, 2)) == 0:
        return draw(leaf)
    one, other = (f"({draw(numbers(names, depth + 1))})" for _ in range(2))
    forms = ["{0} // 3", "{0} // (abs({1}) + 1)", "{0} % 9", "min({0}, {1})", "max({0}, {1}, 2)", "abs({0} - {1})"]
    forms += ["{0} + {1}", "{0} - {1}", "{0} >> 2", "{0} << 1", "int({0} / 2)", "{0} ** 2 // 5"]
    return draw(st.sampled_from(forms)).format(one, other)


def agrees(text: str, n: int, m: int) -> None:
    """What a launch counts is what a run does, and nothing is assumed."""
    of = kernel(function(text))
    assert of.analysis is not None
    given_ = [np.zeros(SIZE), n, m]
    counts = of.analysis.at(*given_)
    real = counted(function(text), *given_)[0]
    assert counts.assumed == ()
    assert (counts.array("a").reads, counts.array("a").writes) == (real.loads, real.stores)


@examples(60)
@given(numbers(["n", "m"]), numbers(["n", "m", "int(h)", "q"]), st.integers(0, 12), st.integers(0, 12))
def test_a_bound_of_scalars_and_lengths_is_known_at_the_launch(first: str, bound: str, n: int, m: int) -> None:
    lines = ["def k(a, n, m):", f"    q = {first}", "    h = q / 4", f"    for i in range(min({bound}, {SIZE})):"]
    agrees("\n".join([*lines, "        a[i] = n + m"]), n, m)


@pytest.mark.parametrize("bound", ["int(x / y)", "math.floor(x / y)", "int(x * 10)", "int(y)", "int(4 * y) + 2"])
def test_a_bound_of_numbers_with_fractions_is_known_once_it_is_whole(bound: str) -> None:
    text = f"def k(a, x, y):\n    for i in range({bound}):\n        a[i] = x + y"
    of = kernel(function(text))
    assert of.analysis is not None
    assert (
        of.analysis.at(np.zeros(SIZE), 2.5, 0.3).array("a").writes
        == counted(function(text), np.zeros(SIZE), 2.5, 0.3)[0].stores
    )


TILES = [
    "ii, min(ii + 4, n)",
    "max(0, ii - 2), min(n, ii + 3)",
    "min(n - 1, ii + 2), max(ii - 3, -1), -1",
    "ii, min(ii + 9, n, 3 * m), 2",
    "max(ii, m), n",
    "max(ii - m // 2, 0), min(ii + m // 2 + 1, n)",
]


@pytest.mark.parametrize("ends", TILES)
@pytest.mark.parametrize("step", [1, 4])
@pytest.mark.parametrize(("n", "m"), [(0, 0), (1, 3), (17, 5), (30, 12)])
def test_a_range_that_a_least_or_greatest_number_cuts_is_counted(ends: str, step: int, n: int, m: int) -> None:
    agrees(
        f"def k(a, n, m):\n    for ii in range(0, n, {step}):\n        for j in range({ends}):\n            a[j] += m",
        n,
        m,
    )


def test_what_a_tile_or_a_band_reads_moves_once() -> None:
    n = 1 << 20
    tiles = "range(0, n, 256):\n        for i in range(ii, min(ii + 256, n)):\n            y[i] = x[i]"
    of = kernel(function(f"def k(x, y, n):\n    for ii in {tiles}"))
    band = kernel(
        function("def k(x, y, n):\n    for i in range(n):\n        for j in range(i, i + 3):\n            y[i] += x[j]")
    )
    assert of.analysis is not None and band.analysis is not None
    counts = of.analysis.at(Phantom((n,)), Phantom((n,)), n)
    assert counts.bytes == 16 * n and counts.array("x").surely_accessed
    assert band.analysis.at(Phantom((n + 2,)), Phantom((n,)), n).bytes == 8 * (n + 2) + 16 * n


@pytest.mark.parametrize("n", [1, 2, 5, 1000, 10**9])
def test_a_clamped_window_over_a_long_row_is_counted(n: int) -> None:
    of = kernel(
        function(
            "def k(a, n):\n    for i in range(n):\n"
            "        for j in range(max(0, i - 2), min(n, i + 3)):\n            a[j] += 1.0"
        )
    )
    assert of.analysis is not None
    writes = of.analysis.at(Phantom((n,)), n).array("a").writes
    assert writes == sum(min(n, i + 3) - max(0, i - 2) for i in range(n)) if n <= 1000 else writes == 5 * n - 6


def test_what_is_divided_by_nothing_is_said_to_be_missing() -> None:
    of = kernel(function("def k(a, n, m):\n    for i in range(n // m):\n        a[i] = 1.0"))
    assert of.analysis is not None and of.analysis.trip_count(np.zeros(9), 9, 2) == 4
    with pytest.raises(KernelError, match=r"the loop over i in line 2 needs \(n // m\), which is not known"):
        of.analysis.trip_count(np.zeros(9), 9, 0)


INDICES = ["i // 7", "i % 7 + 3", "(2 * i + 1) // 5", "abs(i - 20)", "min(i, 11)", "max(i - 9, 4)", "n - 1 - i // 2"]


@pytest.mark.parametrize("index", INDICES)
def test_an_index_that_is_no_polynomial_has_a_range(index: str) -> None:
    text = f"def k(a, n, m):\n    for i in range(n):\n        a[{index}] = m"
    of = kernel(function(text))
    assert of.analysis is not None
    (stream,) = of.analysis.at(np.zeros(SIZE), 40, 0).array("a").streams
    touched = counted(function(text), np.zeros(SIZE), 40, 0)[0].touched
    ((low, high),) = stream.reach.ranges or ()
    assert low <= min(touched) and max(touched) <= high
    assert (low, high) == (min(touched), max(touched)) or index == "n - 1 - i // 2"


ONE_OPERAND = ("abs", "int", "floor", "ceil")


@given(
    st.sampled_from(["//", "%", "/", "+", "-", "*", "min", "max", *ONE_OPERAND]),
    st.tuples(st.integers(-30, 30), st.integers(0, 20)),
    st.tuples(st.integers(1, 9), st.integers(0, 5)),
)
def test_ends_hold_every_value(name: str, first: tuple[int, int], second: tuple[int, int]) -> None:
    x, y = Polynomial.symbol("x"), Polynomial.symbol("y")
    operation = SymbolicOperation(name, (x,) if name in ONE_OPERAND else (x, y))
    sides = {x: (first[0], sum(first)), y: (second[0], sum(second))}
    ends = operation.ends(sides.get)
    values = [
        operation.value({"x": one, "y": other})
        for one in range(first[0], sum(first) + 1)
        for other in range(second[0], sum(second) + 1)
    ]
    assert ends is not None and ends[0] <= min(values) and max(values) <= ends[1]
