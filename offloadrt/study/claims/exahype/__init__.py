"""Judges of the ExaHyPE paper's claims: each asks for the runs that its expression needs.

`curves` says where they look; `batches`, `scaling`, `mechanisms` and `unified` hold the judges, `probes` and
`unified_probes` the small recorded runs of the last two.
"""

from __future__ import annotations

from offloadrt.study.claims.exahype import batches, mechanisms, scaling, unified
from offloadrt.study.claims.exahype.curves import (
    CANDIDATES,
    CASES,
    MACHINE,
    SENSITIVITY,
    bench,
    grid,
    saturation,
)

__all__ = [
    "CANDIDATES",
    "CASES",
    "MACHINE",
    "SENSITIVITY",
    "batches",
    "bench",
    "grid",
    "mechanisms",
    "saturation",
    "scaling",
    "unified",
]
