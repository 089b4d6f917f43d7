"""How often threads wait for memory, and for how many loads at once: by hand, for nests where that is plain."""

from __future__ import annotations

from typing import Any

import nests
import numpy as np
import pytest

from offloadrt.extensions.openacc.multi_device import predicate, split_loop
from offloadrt.kernels import Kernel, kernel

N, M = 64, 16
A, B, C = (np.ones((N, M)) for _ in range(3))
LINE = np.ones(N)
PLACES = np.arange(N)
POINTS = (N - 2) * (M - 2)


@kernel
def add(a, b, c):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        c[i] = a[i] + b[i]


@kernel
def clear(a):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        a[i] = 0.0


@kernel
def gather(a, places, b):  # type: ignore[no-untyped-def]
    for i in range(len(b)):
        b[i] = a[places[i]]


@kernel
def row_sums(a, sums, rows, columns):  # type: ignore[no-untyped-def]
    for i in range(rows):
        total = 0.0
        for j in range(columns):
            total += a[i, j]
        sums[i] = total


@kernel
def column_sums(a, sums, rows, columns):  # type: ignore[no-untyped-def]
    for j in range(columns):
        total = 0.0
        for i in range(rows):
            total += a[i, j]
        sums[j] = total


@kernel
def four_at_once(a, sums, rows):  # type: ignore[no-untyped-def]
    for j in range(rows):
        total = 0.0
        for i in range(4):
            total += a[i, j]
        sums[j] = total


@kernel
def forty_in_turn(a, sums, rows):  # type: ignore[no-untyped-def]
    for j in range(rows):
        total = 0.0
        for i in range(40):
            total += a[i, j]
        sums[j] = total


@kernel
def scaled(a, b, c, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        for k in range(n):
            b[k, i] = a[i] * c[0]


@kernel
def after_itself(a, b, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        a[i] = b[i]
        b[i] = a[i] + 1.0


@kernel
def on_either_side(a, b, c, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        if i < 10:
            c[i] = a[i]
        else:
            c[i] = b[i]


@kernel
def shared_table(table, out, n, m):  # type: ignore[no-untyped-def]
    for i in range(n):
        total = 0.0
        for k in range(m):
            total += table[k]
        out[i] = total


CASES: list[tuple[Kernel, list[Any], float, float]] = [
    (add, [LINE, LINE, LINE.copy()], 2 * N, N),
    (clear, [LINE], 0, 0),
    (gather, [LINE, PLACES, LINE.copy()], 2 * N, 2 * N),  # the index first
    (row_sums, [A, LINE, N, M], N * M / 4, N * M / 4),  # four doubles a sector
    (column_sums, [A, LINE, N, M], N * M, N * M),  # what neighbouring threads load is one sector, each time another
    (four_at_once, [A, LINE, M], 4 * M, M),  # unrolled
    (forty_in_turn, [A, LINE, M], 40 * M, 40 * M),
    (kernel(nests.records), [np.ones(4 * N), LINE, N], 2 * N, N),  # a sector for each thread, and its sum
    (scaled, [LINE, np.ones((N, N)), LINE, N], N, N),  # once for all k; the scalar comes from a cache
    (after_itself, [LINE, LINE.copy(), N], N, N),
    (on_either_side, [LINE, LINE, LINE.copy(), N], N, N),  # a thread has one of the two
    (shared_table, [LINE, LINE.copy(), N, M], 0, 0),
    (kernel(collapse=2)(nests.jacobi), [A, B, N, M], POINTS, POINTS),  # neighbours come from the cache
    (kernel(nests.jacobi), [A, B, N, M], POINTS / 4, POINTS / 4),  # a row for each thread
]


@pytest.mark.parametrize(("of", "arguments", "loads", "waits"), CASES, ids=lambda v: getattr(v, "name", ""))
def test_loads_wait_together_unless_one_needs_the_other(
    of: Kernel, arguments: list[Any], loads: float, waits: float
) -> None:
    assert of.analysis is not None
    found = of.analysis.at(*arguments).waits
    assert (found.loads, found.waits) == pytest.approx((loads, waits))


def test_a_launch_knows_what_its_threads_have_in_flight() -> None:
    code = add.launch(1, arguments=[LINE, LINE, LINE.copy()]).kernel
    assert (code.loads_in_flight, code.bytes_per_load) == (2.0, 12.0)  # a store goes with two loads
    assert add.loads_in_flight == 2.0  # before any argument is seen


def test_who_declares_costs_declares_loads() -> None:
    assert kernel(bytes_per_iteration=24, loads_in_flight=2)(lambda x, y: None).loads_in_flight == 2
    assert kernel(bytes_per_iteration=24)(lambda x, y: None).loads_in_flight is None


@pytest.mark.parametrize("divide", [predicate, split_loop])
def test_a_part_of_a_kernel_waits_for_a_part(divide: Any) -> None:
    """Predicates, each an `if` of its own, do not make loads wait for one another."""
    divided = divide(add)
    arguments = [LINE, LINE, LINE.copy()]
    for part in divided.parts(4, arguments):
        found = divided.kernel.analysis.at(*divided.arguments(part.share, arguments)).waits
        assert (found.loads, found.waits) == (2 * N / 4, N / 4)
