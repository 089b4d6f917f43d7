"""CloverLeaf in OpenACC: the compressible Euler equations on a staggered grid in two dimensions.

`offloadrt.papers.cloverleaf` has the kernels that both papers share, `boundaries.py` and `field_summary.py` the others;
`program.py` has the order in which they run.
"""

from offloadrt.papers.jacc.programs.cloverleaf.program import BENCHMARK

__all__ = ["BENCHMARK"]
