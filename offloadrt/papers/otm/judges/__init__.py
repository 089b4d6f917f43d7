"""Judges of the OTM paper's claims: each asks for the runs that its claim needs.

`places` says where they look; `figures` (Rodinia under explicit copies and managed memory), `placed` (Rodinia under
OTM), `synthetic` (Table 2 and what the paper says of density) and `mechanisms` hold the judges, `probes` the small
recorded runs of the mechanisms.
"""

from __future__ import annotations

from offloadrt.papers.otm.judges import figures, mechanisms, placed, synthetic
from offloadrt.papers.otm.judges.places import CANDIDATES, MACHINE, SENSITIVITY, bench, grid
from offloadrt.papers.otm.rodinia import inputs
from offloadrt.study.input_range import inputs_of
from offloadrt.study.validation.paper import Paper

PAPER = Paper("otm", MACHINE, bench, grid, SENSITIVITY, CANDIDATES, inputs=inputs_of(inputs), uses=["stream.interrupt"])

__all__ = ["PAPER", "figures", "mechanisms", "placed", "synthetic"]
