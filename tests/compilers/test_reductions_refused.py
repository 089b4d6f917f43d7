"""Reductions that cannot be divided among devices, or not with these arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from divided_nests import WAYS, assert_refused, of

from offloadrt.extensions.openacc.multi_device import predicate
from offloadrt.kernels import KernelError, SourceRefused

REFUSED = [
    (
        "def k(out, n):\n    s = n\n    for i in range(s):\n        s += i\n    out[0] = s",
        3,
        "s, which the loop reduces, is a bound of it",
    ),
    (
        "def k(x, v, n):\n    s = 0.0\n    for i in range(n):\n        v[i] = x[i]\n        s += x[i]\n    v[0] = s",
        6,
        "v[0], of an array that the loop stores to, is used outside of it with a reduction",
    ),
    (
        "def k(x, v, n):\n    s = v[0]\n    for i in range(n):\n        v[i] = x[i]\n        s += x[i]\n    x[0] = s",
        2,
        "v[0], of an array that the loop stores to",
    ),
    (
        "def k(x, v, n):\n    s = 0.0\n    t = 0.0\n    for i in range(n):\n        t = x[i]; s += t\n    v[0] = s + t",
        6,
        "t, which the loop assigns, is used after it beside a reduction",
    ),
]


@pytest.mark.parametrize(("text", "line", "what"), REFUSED)
@pytest.mark.parametrize("divide", WAYS)
def test_what_cannot_be_combined_is_refused_with_file_and_line(divide: Any, text: str, line: int, what: str) -> None:
    assert_refused(divide, text, line, what)


def test_bounds_from_data_are_refused() -> None:
    text = "def k(c, out):\n    s = 0.0\n    for i in range(c[0]):\n        s += c[i]\n    out[0] = s"
    with pytest.raises(SourceRefused, match="the bounds of the loop whose reductions are divided are read from data"):
        predicate(of(text))


@pytest.mark.parametrize("divide", WAYS)
def test_an_element_that_each_iteration_would_round_is_refused_at_the_launch(divide: Any) -> None:
    divided = divide(of("def k(x, out, n):\n    for i in range(n):\n        out[0] += x[i]"))
    divided.split(2, [np.ones(9, np.int32), np.ones(1, np.int32), 9])
    with pytest.raises(KernelError, match="kernel 'k': an element of out is reduced, and would be rounded in each"):
        divided.split(2, [np.ones(9), np.ones(1, np.int32), 9])


def test_a_contribution_outside_of_the_region_that_decides_is_refused_at_the_launch() -> None:
    text = (
        "def k(x, v, out, n):\n    s = 0.0\n    for i in range(n):\n        s += x[i]\n"
        "        if i < 5:\n            v[i] = x[i]\n    out[0] = s"
    )
    divided = predicate(of(text))
    with pytest.raises(KernelError, match=r":4: kernel 'k': which device reduces into s cannot be told, as i is not"):
        divided.split(2, [np.ones(9), np.ones(5), np.ones(1), 9])
    assert [share.bounds for share in divided.split(2, [np.ones(9), np.ones(9), np.ones(1), 9])] == [
        ((0, 4),),
        ((5, 8),),
    ]
