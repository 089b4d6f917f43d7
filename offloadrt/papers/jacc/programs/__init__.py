"""The ten programs of the JACC paper, in the structure of the public codes of their names.

`benchmark.py` says how one is written down, `layer.py` on what it runs, `code_quality.py` what the compilers' code is
worth, `experiment.py` runs one; each program has a file of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from offloadrt.kernels import Kernel
from offloadrt.papers.jacc.programs.benchmark import Benchmark, extent
from offloadrt.papers.jacc.programs.experiment import Experiment, KernelRow, Outcome

_NAMES = ("BT", "CG", "EP", "FT", "LU", "MG", "SP", "CloverLeaf", "CCS-QCD", "Himeno")
BENCHMARKS = {name: name.lower().replace("-", "_") for name in _NAMES}
"""By the paper's names, the modules of the programs."""


def benchmark(name: str) -> Benchmark:
    """The program of that name; its kernels are read at the first call. ValueError for one that does not exist."""
    if name not in BENCHMARKS:
        raise ValueError(f"no benchmark {name!r}; there are: {', '.join(BENCHMARKS)}")
    found = importlib.import_module(f"{__name__}.{BENCHMARKS[name]}").BENCHMARK
    assert isinstance(found, Benchmark)
    return found


def kernels() -> Iterable[Kernel]:
    """Of all programs, each program's in the order of their first call."""
    for name in BENCHMARKS:
        yield from (call.kernel for call in benchmark(name).program(extent).executions())


__all__ = ["BENCHMARKS", "Benchmark", "Experiment", "KernelRow", "Outcome", "benchmark", "kernels"]
