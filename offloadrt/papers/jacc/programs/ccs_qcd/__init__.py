"""CCS-QCD: a linear system of lattice quantum chromodynamics, solved by BiCGStab, after the public OpenACC code.

`clover.py`, `solver.py` and `vectors.py` hold its kernels, `program.py` the order in which they run.
"""

from offloadrt.papers.jacc.programs.ccs_qcd.program import BENCHMARK

__all__ = ["BENCHMARK"]
