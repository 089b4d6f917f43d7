"""Kernels: what a target region computes and what it costs in flops and bytes (no seconds; those are the machine's).

A kernel (`Kernel`, made by the decorator ``kernel``) is a loop nest in source, from which everything is read, or a
Python body over NumPy views with costs per iteration, or costs and array uses alone; a `Launch` is one execution of it
with teams, threads and iterations.

==================  =================================================================================================
``kernel.py``       `Kernel`, `Launch`, the decorator; open it first
``subset.py``       what a loop nest may hold, and the refusals (`source.py` reads it, `hints.py` has `expect`)
``accesses.py``     the walk through it: loads, stores, operations (`values.py`, `polynomial.py`: what an index is)
``frequency.py``    block frequencies by a compiler's rules
``analysis.py``     `KernelAnalysis`: all that is known from the source alone, LAF above all (`array_use.py`)
``conditions.py``   comparisons that are ranges of an index
``counts.py``       `LaunchCounts`: what a launch does, its arguments known (`counting`, `touched`, `footprint`)
``index_ranges.py`` from where to where an index runs
``streams.py``      in which orders a launch comes to the elements of an array
``traffic.py``      which accesses move the same elements
``sectors.py``      what moves where memory gives whole sectors
``execution.py``    running it, in the interpreter or by Numba (`arithmetic.py`; `mapped_section.py`: on a part of
                    an array)
``predicated.py``   `predicate`: JACC's kernel for several devices (`written_regions.py`: what is divided along
                    which dimension; `dependence.py`: what feeds what; `filtering.py`: the source)
``loop_splitting``  `split_loop`: MACC's kernel for several devices
``divided.py``      `DividedKernel`, which both are: who does, owns and reads what (`boxes.py`: which bytes)
``partial_values``  their reductions: each device's partial value, and the kernel that combines them (`Combination`;
                    `reduced_elements.py`: elements as scalars)
``exchange.py``     who sends which bytes to whom
==================  =================================================================================================
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from offloadrt.kernels.array_use import ArrayUse
from offloadrt.kernels.errors import IndexOutOfRange, KernelError, SourceRefused
from offloadrt.kernels.hints import expect
from offloadrt.kernels.kernel import Kernel, Launch, kernel

if TYPE_CHECKING:
    from offloadrt.kernels.analysis import KernelAnalysis
    from offloadrt.kernels.counts import ArrayCounts, LaunchCounts
    from offloadrt.kernels.divided import DividedKernel, Part, Share
    from offloadrt.kernels.exchange import Holders, Transfer
    from offloadrt.kernels.loop_splitting import SplitKernel, split_loop
    from offloadrt.kernels.partial_values import Combination
    from offloadrt.kernels.predicated import PredicatedKernel, predicate
    from offloadrt.kernels.written_regions import WrittenRegion

__all__ = [
    "ArrayCounts",
    "ArrayUse",
    "Combination",
    "DividedKernel",
    "Holders",
    "IndexOutOfRange",
    "Kernel",
    "KernelAnalysis",
    "KernelError",
    "Launch",
    "LaunchCounts",
    "Part",
    "PredicatedKernel",
    "Share",
    "SourceRefused",
    "SplitKernel",
    "Transfer",
    "WrittenRegion",
    "expect",
    "kernel",
    "predicate",
    "split_loop",
]

_LATE = {
    "ArrayCounts": "counts",
    "Combination": "partial_values",
    "DividedKernel": "divided",
    "Holders": "exchange",
    "Part": "divided",
    "KernelAnalysis": "analysis",
    "LaunchCounts": "counts",
    "PredicatedKernel": "predicated",
    "Share": "divided",
    "SplitKernel": "loop_splitting",
    "Transfer": "exchange",
    "WrittenRegion": "written_regions",
    "predicate": "predicated",
    "split_loop": "loop_splitting",
}
"""Imported when they are first used: a program of kernels with costs needs no analysis."""


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_LATE[name]}"), name)
    return value
