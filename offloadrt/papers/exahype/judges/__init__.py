"""Judges of the ExaHyPE paper's claims: each asks for the runs that its claim needs.

`curves` says where they look and holds the judges of figures, `mechanisms` those of how the runtime and unified memory
work, `probes` the small recorded runs of the last ones.
"""

from __future__ import annotations

from offloadrt.extensions.evidence.validation.judging import Paper
from offloadrt.papers.exahype.judges import curves, mechanisms
from offloadrt.papers.exahype.judges.curves import CANDIDATES, MACHINE, SENSITIVITY, bench, grid
from offloadrt.papers.exahype.program import kernels
from offloadrt.study.inputs import inputs_of

PAPER = Paper("exahype", MACHINE, bench, grid, SENSITIVITY, CANDIDATES, runtime="nvhpc", inputs=inputs_of(kernels))

__all__ = ["PAPER", "curves", "mechanisms"]
