"""A launch that surely leaves an array is refused, phantom or not; one that runs through on real arrays never is."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_examples import examples
from written import function

from offloadrt.kernels import IndexOutOfRange, Kernel, kernel


@attrs.frozen
class Phantom:
    """A shape and a type, without elements."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any] = attrs.field(factory=lambda: np.dtype(float))


def nest(body: str) -> Kernel:
    """A kernel of an array `a`, numbers `n` and `m`, and `used`, which keeps both in use."""
    return kernel(function(f"def k(a, n, m, used):\n{body}\n    used[0] = n + m"))


def refuses(made: Kernel, *arguments: Any) -> bool:
    try:
        made.launch(1, arguments=(*arguments, Phantom((2,))))
    except IndexOutOfRange:
        return True
    return False


FILL = "    for i in range(n):\n        a[i] = 1.0"


def test_the_error_names_kernel_array_range_and_length() -> None:
    with pytest.raises(
        IndexOutOfRange, match=r":3: kernel 'k': a\[i\] .* runs from 0 to 99, but array 'a' has 64 elem"
    ):
        nest(FILL).launch(1, arguments=(Phantom((64,)), 100, 0, Phantom((1,))))


@pytest.mark.parametrize(("n", "refused"), [(64, False), (65, True), (0, False)])
def test_the_last_element_is_the_limit(n: int, refused: bool) -> None:
    assert refuses(nest(FILL), Phantom((64,)), n, 0) == refused


def test_indices_from_minus_the_length_on_count_from_the_end() -> None:
    made = nest("    for i in range(n):\n        a[i - m] = 1.0")
    assert not refuses(made, Phantom((8,)), 8, 8)
    assert refuses(made, Phantom((8,)), 8, 9)


def test_what_is_guarded_or_indirect_is_not_refused() -> None:
    assert not refuses(
        nest("    for i in range(n):\n        if i > 0:\n            a[i - 20] = 1.0"), Phantom((9,)), 9, 0
    )
    assert not refuses(nest("    for i in range(n):\n        a[int(a[i])] = 1.0"), Phantom((9,)), 9, 0)


def test_a_chain_of_comparisons_ends_with_what_does_not_hold() -> None:
    for chain in ("0 <= 7 - i <= a[i]", "0 <= 7 - i < 9 < a[i]"):
        made = nest(f"    for i in range(n):\n        if {chain}:\n            used[1] = 1.0")
        made(np.ones(8), 16, 0, np.zeros(2))
        assert not refuses(made, Phantom((8,)), 16, 0)


def test_each_dimension_has_its_own_length() -> None:
    made = nest("    for i in range(n):\n        for j in range(m):\n            a[i, j] = 1.0")
    assert not refuses(made, Phantom((2, 6)), 2, 6)
    assert refuses(made, Phantom((6, 2)), 2, 6)
    with pytest.raises(IndexOutOfRange, match="has 2 elements of dimension 2"):
        made.launch(1, arguments=(Phantom((6, 2)), 2, 6, Phantom((1,))))


INDICES = st.sampled_from(
    ["i", "i + 1", "i - 1", "n - i", "2 * i", "i * m", "j", "i + j", "i - j", "j * m - i", "m", "i % 3"]
)
INNER = st.sampled_from(["m", "i", "i, n", "i + 1", "n, i, -1", "i - 2, m", "m, 0, -2", "int(a[0])"])
GUARDS = st.sampled_from(
    ["", "if i > 0:", "if j < n:", "if 0 <= j <= m:", "if a[0] > 0.0:", "if 0 <= i <= a[j]:", "if 0 < i < m < a[j]:"]
)


@st.composite
def nests(draw: st.DrawFn) -> str:
    lines = [f"    for i in range({draw(st.sampled_from(['n', 'm, n', 'n - 1, -1, -1', '0, n, 2']))}):"]
    lines.append(f"        for j in range({draw(INNER)}):")
    for _ in range(draw(st.integers(1, 2))):
        guard = draw(GUARDS)
        if guard:
            lines.append(f"            {guard}")
        lines.append(f"            {'    ' * bool(guard)}a[{draw(INDICES)}] = 1.0")
    return "\n".join(lines)


@examples(40)
@given(nests(), st.integers(0, 6), st.integers(-2, 6), st.integers(1, 12))
def test_what_runs_through_is_never_refused(body: str, n: int, m: int, length: int) -> None:
    """And where nothing is guarded or read from data, what is not refused runs through."""
    made = nest(body)
    fails = False
    try:
        made(np.ones(length), n, m, np.zeros(2))
    except IndexError:
        fails = True
    refused = refuses(made, Phantom((length,)), n, m)
    assert fails or not refused
    if "if" not in body and "int(" not in body and "%" not in body:
        assert refused == fails
