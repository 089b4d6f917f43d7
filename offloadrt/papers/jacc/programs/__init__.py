"""The ten programs of the JACC paper, in the structure of the public codes of the same names.

`benchmark.py` defines how a program is written down, has the two layers that it can run on, and runs it. Each program
has a file of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from offloadrt.kernels import Kernel
from offloadrt.papers.jacc.programs.benchmark import Benchmark, BenchmarkExperiment, BenchmarkOutcome, KernelRow, extent

_NAMES = ("BT", "CG", "EP", "FT", "LU", "MG", "SP", "CloverLeaf", "CCS-QCD", "Himeno")
BENCHMARKS = {name: name.lower().replace("-", "_") for name in _NAMES}
"""The module of each program, by the paper's name."""


def benchmark(name: str) -> Benchmark:
    """Return the program of that name; its kernels are read at the first call. Raises ValueError for any other."""
    if name not in BENCHMARKS:
        raise ValueError(f"no benchmark {name!r}; there are: {', '.join(BENCHMARKS)}")
    program = importlib.import_module(f"{__name__}.{BENCHMARKS[name]}").BENCHMARK
    assert isinstance(program, Benchmark)
    return program


def kernels() -> Iterable[Kernel]:
    """Yield the kernels of all programs, each program's in the order of their first call."""
    for name in BENCHMARKS:
        yield from (call.kernel for call in benchmark(name).program(extent).executions())


__all__ = ["BENCHMARKS", "Benchmark", "BenchmarkExperiment", "BenchmarkOutcome", "KernelRow", "benchmark", "kernels"]
