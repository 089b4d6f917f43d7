"""Judges of the ExaHyPE paper's claims: each asks for the runs that its expression needs.

`curves` says where they look; `batches`, `scaling`, `mechanisms` and `unified` hold the judges, `probes` and
`unified_probes` the small recorded runs of the last two.
"""

from __future__ import annotations

from offloadrt.papers.exahype.judges import batches, mechanisms, scaling, unified
from offloadrt.papers.exahype.judges.curves import (
    CANDIDATES,
    CASES,
    MACHINE,
    SENSITIVITY,
    bench,
    claims,
    grid,
    saturation,
)
from offloadrt.study.paper import Paper

PAPER = Paper("exahype", MACHINE, tuple(claims.values()), bench, grid, SENSITIVITY, CANDIDATES)

__all__ = [
    "CANDIDATES",
    "CASES",
    "MACHINE",
    "PAPER",
    "SENSITIVITY",
    "batches",
    "bench",
    "grid",
    "mechanisms",
    "saturation",
    "scaling",
    "unified",
]
