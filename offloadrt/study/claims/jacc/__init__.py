"""Judges of the JACC paper's claims: each asks for the runs that its expression needs.

`places` says where they look; `mechanisms` (JACC's layer on one device) and `divided` (predicates, the controller) hold
judges of how it works, with the small recorded runs of `probes` and `divided_probes`.
"""

from __future__ import annotations

from offloadrt.study.claims.jacc import divided, mechanisms
from offloadrt.study.claims.jacc.places import CANDIDATES, MACHINE, SENSITIVITY, bench

__all__ = ["CANDIDATES", "MACHINE", "SENSITIVITY", "bench", "divided", "mechanisms"]
