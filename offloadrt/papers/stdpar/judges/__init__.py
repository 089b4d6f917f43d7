"""Judges of the claims of the paper on AdaptiveCpp's stdpar: each asks for the runs that its claim needs.

`figures` says where they look and judges BabelStream, the mini-apps and LULESH; `mechanisms` judges memory, order,
waits, prefetches and the heuristic, with the small runs of `probes`.
"""

from __future__ import annotations

from offloadrt.papers.stdpar.judges import figures, mechanisms
from offloadrt.papers.stdpar.judges.figures import CANDIDATES, MACHINE, MAX1550, MI100, MILAN, SENSITIVITY, bench, grid
from offloadrt.study.validation.judging import Paper

PAPER = Paper("stdpar", MACHINE, bench, grid, SENSITIVITY, CANDIDATES, other_machines=(MI100, MAX1550, MILAN))

__all__ = ["PAPER", "figures", "mechanisms"]
