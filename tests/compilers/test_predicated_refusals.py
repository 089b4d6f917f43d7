"""Kernels for several devices: indices below zero, and what cannot be divided."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from devices import Devices, copied, same_bits
from divided_nests import assert_refused, of

from offloadrt.extensions.openacc.multi_device import DividedKernel, predicate, split_loop
from offloadrt.kernels import KernelError, kernel


def from_the_end(divide: Any, text: str, n: int, low: int = 0) -> DividedKernel:
    """A kernel of v, x and low that is divided in three is what one device computes."""
    divided: DividedKernel = divide(of(text))
    rng = np.random.default_rng(3)
    memory = {"v": rng.normal(size=n), "x": rng.normal(size=n), "low": low, "n": n}
    given = {name: memory[name] for name in divided.original.analysis.parameters}  # type: ignore[union-attr]
    expected = copied(given)
    divided.original(*expected.values())
    for lazily in (False, True):
        devices = Devices(3, given)
        (devices.run_lazily if lazily else devices.run)(divided)
        devices.gather()
        assert all(same_bits(found, expected) for found in devices.memories)
    return divided


LOOP = "def k(v, x, low, n):\n    for i in range(low, n):\n        "


@pytest.mark.parametrize(
    "text",
    [
        "def k(v, x, n):\n    for i in range(n):\n        v[i - 1] = x[i]",
        "def k(v, x, n):\n    for i in range(n):\n        v[i - 2] += x[i]\n        v[i - 2] *= v[i - 2]",
        "def k(v, x, n):\n    for i in range(n):\n        if i > 0:\n            v[i - 1] = x[i]",
        "def k(v, x, n):\n    for i in range(n):\n        if x[i] > 0.0:\n            v[i - 3] = x[i - 1]",
        "def k(v, x, n):\n    for i in range(n):\n        for j in range(1):\n            v[-i - 1] = x[i]",
    ],
)
def test_an_index_below_zero_counts_from_the_end(text: str) -> None:
    assert "% v.shape[0] <=" in from_the_end(predicate, text, 11).source


@pytest.mark.parametrize("divide", [predicate, split_loop])
def test_an_index_that_the_arguments_put_below_zero_is_refused_at_the_launch(divide: Any) -> None:
    assert "%" not in from_the_end(divide, f"{LOOP}v[i - 1] = x[i]", 11, 1).source
    with pytest.raises(KernelError) as raised:
        from_the_end(divide, f"{LOOP}v[i - 1] = x[i]", 11, 0)
    message = str(raised.value)
    assert ":3: kernel 'k': index 0 of v[i - 1], an array that it writes, may be -1" in message
    assert "begin the loop where the index is 0, or write it % v.shape[0]" in message
    if divide is predicate:
        from_the_end(divide, f"{LOOP}v[(i - 1) % v.shape[0]] = x[i]", 11, 0)


def test_a_split_loop_whose_stores_wrap_has_no_owners() -> None:
    with pytest.raises(KernelError, match=r"v\[i - 1\].* may be -1, which counts from the end"):
        from_the_end(split_loop, "def k(v, x, n):\n    for i in range(n):\n        v[i - 1] = x[i]", 11)


REFUSED = [
    (predicate, "def k(v, n):\n    for i in range(1, n):\n        v[i] = v[i - 1]", 2, "handed on from iteration"),
    (
        predicate,
        "def k(x, out, n):\n    for i in range(n):\n        if i > 3:\n            out[0] = max(out[0], x[i])",
        4,
        "no parallel loop runs",
    ),
    (
        predicate,
        "def k(v, n):\n    for i in range(n):\n        if v[i] > 0.0:\n            v[i] = 1.0",
        3,
        "which way the kernel",
    ),
    (predicate, "def k(v, n):\n    s = 0.0\n    for i in range(n):\n        s += v[i]", 1, "it writes no array"),
    (
        split_loop,
        "def k(at, v, n):\n    for i in range(n):\n        v[at[i]] = 1.0",
        3,
        "v[at[i]] is scattered: at decides",
    ),
    (split_loop, "def k(v, n):\n    for i in range(1, n):\n        v[i] = v[i - 1]", 3, "different elements of v"),
    (
        split_loop,
        "def k(v, n, m):\n    for i in range(n):\n        for j in range(m):\n            v[i * n + j] = 1.0",
        4,
        "of v",
    ),
    (
        split_loop,
        "def k(v, n):\n    for i in range(n):\n        if i > 3:\n            v[0] += 1.0",
        4,
        "v[0] is reduced by the loop that is split, but not in each iteration",
    ),
    (
        split_loop,
        "def k(v, n):\n    for i in range(n):\n        v[i] = 1.0\n    v[0] = 2.0",
        4,
        "stands after the loop",
    ),
    (split_loop, "def k(c, v):\n    for i in range(c[0]):\n        v[i] = 1.0", 2, "are read from data"),
]


@pytest.mark.parametrize(("divide", "text", "line", "what"), REFUSED, ids=[row[3] for row in REFUSED])
def test_what_cannot_be_divided_is_refused_with_file_and_line(divide: Any, text: str, line: int, what: str) -> None:
    assert_refused(divide, text, line, what)


@pytest.mark.parametrize("divide", [predicate, split_loop])
def test_a_kernel_without_source_is_refused(divide: Any) -> None:
    made = kernel(name="halve", flops_per_iteration=1, bytes_per_iteration=8)(lambda v: None)
    with pytest.raises(KernelError, match="kernel 'halve' is declared by its costs and has no source to divide"):
        divide(made)
