"""Kernels: what a target region computes and what it costs in flops and bytes; `machine/` makes seconds of them.

A kernel (`Kernel`, made by the decorator ``kernel``) is a loop nest in source, from which its costs are read; or a
Python body over NumPy views with costs per iteration; or costs and array uses alone. A `Launch` is one execution of a
kernel with teams, threads and iterations.

``kernel.py``           `Kernel`, `Launch` and the decorator that makes kernels of Python functions; open it first
``source.py``           a function's source; `loop_subset.py` has the Python that a loop nest may use, and the refusals
``algebra.py``          polynomials and other operations on whole numbers: what an index is
``accesses.py``         loads and stores, and the loops and branches around each block
``walk.py``             the walk through a nest, and what is known about each number in it
``number_kinds.py``     which numbers are whole, floating-point, complex or truth values
``counting.py``         how often blocks run at a launch
``ranges.py``           where in their arrays accesses lie
``costs.py``            flops, bytes, loads: `KernelAnalysis` before a launch, `LaunchCounts` at one
``memory_streams.py``   which bytes accesses move between memory and the caches
``execution.py``        running a nest, in the interpreter or by Numba
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from offloadrt.kernels.array_use import ArrayUse, IndexOutOfRange, KernelError, SourceRefused
from offloadrt.kernels.kernel import Kernel, Launch, Tile, kernel
from offloadrt.kernels.loop_subset import atomic, expect

if TYPE_CHECKING:
    from offloadrt.kernels.costs import KernelAnalysis

__all__ = [
    "ArrayUse",
    "IndexOutOfRange",
    "Kernel",
    "KernelAnalysis",
    "KernelError",
    "Launch",
    "SourceRefused",
    "Tile",
    "atomic",
    "expect",
    "kernel",
]


def __getattr__(name: str) -> Any:
    if name != "KernelAnalysis":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # A program of kernels with costs needs no analysis, so it is imported at its first use.
    value = globals()[name] = importlib.import_module(f"{__name__}.costs").KernelAnalysis
    return value
