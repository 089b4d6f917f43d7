"""Loop nests as text that tests divide among devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from written import function

from offloadrt.extensions.openacc.multi_device import DividedKernel, predicate, split_loop
from offloadrt.kernels import Kernel, SourceRefused, kernel

WAYS = (predicate, split_loop)
"""To divide a kernel."""


def of(text: str, **options: Any) -> Kernel:
    return kernel(**options)(function(text))


def assert_refused(divide: Callable[[Kernel], DividedKernel], text: str, line: int, what: str) -> None:
    """With file and line."""
    made = of(text)
    assert made.analysis is not None
    with pytest.raises(SourceRefused) as raised:
        divide(made)
    assert (raised.value.file, raised.value.line) == (made.analysis.file, line)
    assert what in raised.value.what


SINGLE = """
def stencil(u, v, n, m):
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            v[i, j] = 0.5 * (u[i - 1, j] + u[i + 1, j])
"""
MULTI = """
def chain(x, a, b, c, n):
    for i in range(1, n - 1):
        t = x[i]
        a[i] = t * 2.0
        b[i + 1] = a[i] + x[i + 1]
        c[i] = x[i - 1]
"""
DIMENSIONS = """
def solve(left, right, n, m):
    for j in range(n):
        for k in range(1, m):
            right[k, j] = right[k, j] - left[k, j] * right[k - 1, j]
"""
