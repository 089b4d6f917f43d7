"""Judges of the claims of the paper on AdaptiveCpp's stdpar: each asks for the runs that its claim needs.

`places` says where they look; `mechanisms` (memory, order, waits, prefetches, the heuristic), `figures` (BabelStream
and the mini-apps) and `lulesh` hold the judges, `memory_probes` and `flow_probes` the small runs of the mechanisms.
"""

from __future__ import annotations

from offloadrt.papers.stdpar.judges import figures, lulesh, mechanisms
from offloadrt.papers.stdpar.judges.places import CANDIDATES, MACHINE, MAX1550, MI100, MILAN, SENSITIVITY, bench, grid
from offloadrt.study.validation.paper import Paper

PAPER = Paper("stdpar", MACHINE, bench, grid, SENSITIVITY, CANDIDATES, other_machines=(MI100, MAX1550, MILAN))

__all__ = ["PAPER", "figures", "lulesh", "mechanisms"]
