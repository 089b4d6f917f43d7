"""Kernels of the tests of this folder, as loop nests."""

from __future__ import annotations

from offloadrt import kernel


@kernel
def scale(x, y, factor):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        y[i] = factor * x[i]


@kernel
def add(x, y, z):  # type: ignore[no-untyped-def]
    for i in range(len(z)):
        z[i] = x[i] + y[i]


@kernel
def increment(a):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        a[i] = a[i] + 1.0


@kernel
def sum_of(a, total):  # type: ignore[no-untyped-def]
    s = 0.0
    for i in range(len(a)):
        s += a[i]
    total[0] = s
