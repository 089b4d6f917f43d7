"""Judges of the ExaHyPE paper's claims: each asks for the runs that its claim needs.

`curves` says where they look; `batches`, `scaling`, `mechanisms` and `unified` hold the judges, `probes` and
`unified_probes` the small recorded runs of the last two.
"""

from __future__ import annotations

from offloadrt.papers.exahype.judges import batches, mechanisms, scaling, unified
from offloadrt.papers.exahype.judges.curves import CANDIDATES, MACHINE, SENSITIVITY, bench, grid
from offloadrt.papers.exahype.program import kernels
from offloadrt.study.input_range import inputs_of
from offloadrt.study.validation.paper import Paper

PAPER = Paper("exahype", MACHINE, bench, grid, SENSITIVITY, CANDIDATES, runtime="nvhpc", inputs=inputs_of(kernels))

__all__ = ["PAPER", "batches", "mechanisms", "scaling", "unified"]
