"""A loop in a short form is what it stands for: nested loops, or statements."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from instrumented import counted
from written import function

from offloadrt.kernels import Kernel, SourceRefused, kernel

FIELDS = (0, 1, 2)
LOOPS = [
    ("for m in (0, 2): a[m, i] = b[m, i] * m", ["a[0, i] = b[0, i] * 0", "a[2, i] = b[2, i] * 2"]),
    (
        "for j, l in product(range(3), range(1, n)): a[j, l] += i",
        ["for j in range(3):\n            for l in range(1, n): a[j, l] += i"],
    ),
    ("for m in FIELDS: a[m, i] = 1.0", [f"a[{m}, i] = 1.0" for m in FIELDS]),
    ("for m, x in ((0, -0.5), (1, 2.5)): a[m, i] += x ** 2", ["a[0, i] += (-0.5) ** 2", "a[1, i] += 2.5 ** 2"]),
    ("for m in (2,):\n            if b[m, i] > 0: a[m, i] = m", ["if b[2, i] > 0: a[2, i] = 2"]),
    (
        "for m in FIELDS:\n            for q in (1, 2): a[m, i] = b[q, i]",
        [f"a[{m}, i] = b[{q}, i]" for m in FIELDS for q in (1, 2)],
    ),
]


def traffic(made: Kernel, *arguments: Any) -> Any:
    assert made.analysis is not None
    counts = made.analysis.at(*arguments)
    return counts.flops, counts.bytes, [(array.reads, array.writes) for array in counts.arrays]


def nest(statements: str) -> Any:
    return function(
        f"def k(a, b, n):\n    for i in range(n):\n        b[0, i] = a[0, i]\n        {statements}\n",
        FIELDS=FIELDS,
        product=product,
    )


@pytest.mark.parametrize(("loop", "statements"), LOOPS, ids=[row[0] for row in LOOPS])
def test_a_loop_over_numbers_is_its_statements(loop: str, statements: list[str]) -> None:
    looped, written = kernel(nest(loop)), kernel(nest("\n        ".join(statements)))
    start = [np.arange(12.0).reshape(3, 4), np.arange(12.0).reshape(3, 4) - 5.0]
    assert traffic(looped, *start, 4) == traffic(written, *start, 4)
    arrays, others, truth = ([array.copy() for array in start] for _ in range(3))
    looped(*arrays, 4)
    written(*others, 4)
    real = counted(nest(loop), *truth, 4)
    for array, other, counts in zip(arrays, others, real, strict=False):
        assert array.tolist() == other.tolist() == counts.values.tolist()


@pytest.mark.parametrize(
    ("statements", "what"),
    [
        ("for m in (0, 1):\n            for j in range(n): a[m, j] = 0.0", "for j in range(n) inside of a loop over"),
        ("for j, l in product(range(3), range(j)): a[j, l] = 0.0", "range(j) depends on the product around it"),
        ("for j, l in product(range(3), b): a[j, l] = 0.0", "a loop over product(range(3), b)"),
        ("for j in product(range(3), range(3)): a[j, i] = 0.0", "a loop over product(range(3), range(3))"),
        ("for i in (0, 1): a[i, i] = 0.0", "loop variable i has a value already"),
        ("for n in (0, 1): a[n, i] = 0.0", "loop variable n has a value already"),
        ("for m in (0, 1):\n            for m in (1, 2): a[m, i] = 0.0", "loop variable m has a value already"),
        ("for m in (0, 1):\n            m = 2\n            a[m, i] = 0.0", "loop variable m has a value already"),
        ("for m in (0, 1): a[m, i] = 0.0\n        a[m, i] = 1.0", "m is no number that a kernel can see"),
        ("for m in (): a[m, i] = 0.0", "a loop over ()"),
        ("for m in (i, 1): a[m, i] = 0.0", "a loop over (i, 1)"),
        ("for m, q in (0, 1): a[m, i] = q", "a loop over (0, 1)"),
    ],
)
def test_a_loop_over_numbers_that_is_refused(statements: str, what: str) -> None:
    with pytest.raises(SourceRefused, match=r":\d+: kernel 'k': ") as raised:
        kernel(nest(statements))
    assert raised.value.what.startswith(what)
    assert raised.value.line >= 4


def test_a_product_outermost_is_collapsed() -> None:
    made = kernel(collapse=2)(
        function("def k(a, n):\n    for i, j in product(range(3), range(n)): a[i, j] = n\n", product=product)
    )
    assert made.launch(1, arguments=[np.zeros((3, 4)), 4]).iterations == 12
