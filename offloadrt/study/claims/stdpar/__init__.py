"""Judges of the claims of the paper on AdaptiveCpp's stdpar: each asks for the runs that its expression needs.

`places` says where they look; `mechanisms` (memory, order, waits, prefetches, the heuristic), `figures` (BabelStream
and the mini-apps) and `lulesh` hold the judges, `memory_probes` and `flow_probes` the small runs of the mechanisms.
"""

from __future__ import annotations

from offloadrt.study.claims.stdpar import figures, lulesh, mechanisms
from offloadrt.study.claims.stdpar.places import CANDIDATES, MACHINE, SENSITIVITY, bench, grid

__all__ = ["CANDIDATES", "MACHINE", "SENSITIVITY", "bench", "figures", "grid", "lulesh", "mechanisms"]
