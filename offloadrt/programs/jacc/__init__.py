"""The ten programs of the JACC paper, in the structure of the public codes of their names.

`benchmark.py` says how one is written down, `layer.py` on what it runs, `code_quality.py` what the compilers' code is
worth; each program has a file of its own.
"""

from offloadrt.programs.jacc.benchmark import Benchmark
from offloadrt.programs.jacc.experiment import Experiment, KernelRow, Outcome
from offloadrt.programs.jacc.ccs_qcd import CCS_QCD
from offloadrt.programs.jacc.cloverleaf import CLOVERLEAF
from offloadrt.programs.jacc.himeno import HIMENO

BENCHMARKS: dict[str, Benchmark] = {one.name: one for one in (CCS_QCD, CLOVERLEAF, HIMENO)}
"""By the paper's names."""

__all__ = ["BENCHMARKS", "Benchmark", "Experiment", "KernelRow", "Outcome"]
