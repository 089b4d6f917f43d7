"""Bounds and indices are whole numbers: others are refused, by form or at the launch, alike in both ways of running."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instrumented import Phantom
from property_examples import examples
from written import function

from offloadrt.kernels import Kernel, KernelError, SourceRefused, kernel
from offloadrt.kernels.execution import NestBody


def nest(*lines: str) -> Kernel:
    return kernel(function("\n    ".join(["def k(a, n):", *lines])))


BY_FORM = [
    (["for i in range(n / 2): a[i] = 2.0"], 2, "n / 2 in range(n / 2) is no whole number", "write n // 2"),
    (["for i in range(n): a[i / 2] = 2.0"], 2, "i / 2 in a[i / 2] is no whole number", "write i // 2"),
    (["for i in range(n): a[i] = a[i * 0.5]"], 2, "i * 0.5 in a[i * 0.5] is no whole", "write int(i * 0.5)"),
    (["for i in range(n): a[a[i] > 1.0] = 3.0"], 2, "a[i] > 1.0 in a[a[i] > 1.0] is a truth value", "write an if"),
    (["for i in range(n): a[not i] = 3.0"], 2, "not i in a[not i] is a truth value", "int(not i)"),
    (["for i in range(min(n, 2.0)): a[i] = 3.0"], 2, "min(n, 2.0) in range(", "write int(min(n, 2.0))"),
    (["for i in range(0, n, True): a[i] = 3.0"], 2, "True in range(0, n, True) is a truth value", ""),
    (["m = n / 2", "for i in range(m): a[i] = 1.0"], 3, "m in range(m) is no whole number", "write int(m)"),
    (["for i in range(n):", "    k = i", "    if n > 3: k = 0.5", "    a[k] = 1.0"], 5, "k in a[k] is no whole", ""),
    (
        ["for i in range(n):", "    k = 0", "    for j in range(3):", "        a[k] = 1.0", "        k += 0.5"],
        5,
        "k in a[k] is no whole",
        "",
    ),
]


@pytest.mark.parametrize(("lines", "line", "what", "instead"), BY_FORM, ids=[row[2] for row in BY_FORM])
def test_what_is_no_whole_number_by_its_form(lines: list[str], line: int, what: str, instead: str) -> None:
    with pytest.raises(SourceRefused) as raised:
        nest(*lines)
    assert raised.value.line == line
    assert raised.value.what.startswith(what)
    assert instead in raised.value.instead


AT_A_LAUNCH = [
    (["for i in range(n): a[i] = 1.0"], 3.5, "n must be whole for range(n) (line 2), but 3.5 was given"),
    (["for i in range(n): a[i] = 1.0"], 3.0, "but 3.0 was given; pass a whole number"),
    (["for i in range(n): a[i] = 1.0"], np.float32(3), "but 3.0 was given"),
    (["for i in range(n): a[i] = 1.0"], True, "but True was given"),
    (["for i in range(2): a[i + n] = 1.0"], 0.5, "n must be whole for a[i + n] (line 2)"),
    (["m = 2 * n - 1", "for i in range(m): a[i] = 1.0"], 1.5, "n must be whole for range(m) (line 3)"),
    (["for i in range(2): a[a[i]] = n"], 0.5, "elements of a must be whole for a[a[i]] (line 2), but an array of flo"),
]


@pytest.mark.parametrize(("lines", "n", "what"), AT_A_LAUNCH, ids=[row[2] for row in AT_A_LAUNCH])
def test_an_argument_that_makes_it_none(lines: list[str], n: Any, what: str) -> None:
    made = nest(*lines)
    assert isinstance(made.body, NestBody)
    said = set()
    for way in (
        lambda: made(np.ones(6), n),
        lambda: made.body.compile_and_run(np.ones(6), n),  # type: ignore[union-attr]
        lambda: made.launch(1, 32, arguments=(np.ones(6), n)),
        lambda: made.launch(1, 32, arguments=(Phantom((6,)), n)),
    ):
        with pytest.raises(KernelError) as raised:
            way()
        said.add(str(raised.value))
    (message,) = said
    assert message.startswith("kernel 'k': ")
    assert what in message


WHOLE = [
    ["for i in range(3): a[int(a[i]) + int(n)] = 1.0"],
    ["m = n / 2", "m = int(m)", "for i in range(m): a[i] = 1.0"],
    ["for i in range(3): a[math.floor(i * n)] = 1.0"],
    ["for i in range(3): a[i + (n > 0.5)] = 1.0"],
    ["for i in range(3): a[1 if n > 0.5 else i] = n"],
]


@pytest.mark.parametrize("lines", WHOLE, ids=[row[-1] for row in WHOLE])
def test_what_is_made_whole_is_taken(lines: list[str]) -> None:
    pytest.importorskip("numba")
    made = nest(*lines)
    one, other = np.ones(6), np.ones(6)
    assert isinstance(made.body, NestBody)
    made.body.interpret(one, 1.5)
    made.body.compile_and_run(other, 1.5)
    assert one.tolist() == other.tolist()
    made.launch(1, 32, arguments=(one, 1.5))


TERMS = st.recursive(
    st.sampled_from(["i", "n", "2", "b[i]", "i // 2", "i / 2", "0.5", "i > n", "int(n / 2)", "math.floor(n * 0.5)"]),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*"]), inner),
        st.builds("min({}, {})".format, inner, inner),
        st.builds("abs({})".format, inner),
        st.builds("({} if i > 1 else {})".format, inner, inner),
    ),
    max_leaves=4,
)


@examples(60)
@given(TERMS)
def test_a_nest_that_is_taken_never_indexes_with_anything_else(index: str) -> None:
    """Whatever Python makes of the index: a whole number, if the nest was not refused."""
    try:
        kernel(function(f"def k(a, b, n):\n    for i in range(n):\n        a[{index}] = b[i] + n"))
    except SourceRefused:
        return
    b = np.arange(6)
    for i in range(4):
        found = eval(index, {"i": i, "n": 4, "b": b.tolist(), "math": math})
        assert type(found) is int
