"""CloverLeaf: the compressible Euler equations on a staggered grid in two dimensions, after the public OpenACC code.

`lagrangian.py`, `advection.py` and `boundaries.py` hold its kernels, `program.py` the order in which they run.
"""

from offloadrt.papers.jacc.programs.cloverleaf.program import BENCHMARK

__all__ = ["BENCHMARK"]
