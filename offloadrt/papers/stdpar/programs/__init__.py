"""Applications in C++ standard parallelism, each written once for all implementations and machines.

Source: Alpay and Heuveline, "AdaptiveCpp Stdpar: C++ Standard Parallelism Integrated Into a SYCL Compiler"; what calls
what, how often and on how much data is that of the public versions, the kernels are written anew.

`frame`        what applications have in common; open it first
`babelstream`  rates of memory: five kernels over three arrays (UoB-HPC/BabelStream)
`minibude`     energies of a molecule in many poses; bound by arithmetic (UoB-HPC/miniBUDE)
`cloverleaf`   Euler's equations; most algorithms are small updates of halos (UoB-HPC/CloverLeaf)
`tealeaf`      conjugate gradients on a grid, whose iterations wait for two sums (UoB-HPC/TeaLeaf)
`lulesh`       shock hydrodynamics with many small algorithms and allocations (LLNL/LULESH, stdpar)
`recorded`     the public version of LULESH itself, recorded at some sizes
"""

from __future__ import annotations

from offloadrt.papers.stdpar.programs.babelstream import BabelStream
from offloadrt.papers.stdpar.programs.cloverleaf import CloverLeaf
from offloadrt.papers.stdpar.programs.frame import Application, ApplicationOutcome, Stopwatch
from offloadrt.papers.stdpar.programs.lulesh import Lulesh
from offloadrt.papers.stdpar.programs.minibude import MiniBude
from offloadrt.papers.stdpar.programs.recorded import RecordedApplication, sizes
from offloadrt.papers.stdpar.programs.tealeaf import TeaLeaf

__all__ = [
    "Application",
    "ApplicationOutcome",
    "BabelStream",
    "CloverLeaf",
    "Lulesh",
    "MiniBude",
    "RecordedApplication",
    "Stopwatch",
    "TeaLeaf",
    "sizes",
]
