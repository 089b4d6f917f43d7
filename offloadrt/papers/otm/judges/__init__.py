"""Judges of the OTM paper's claims: each asks for the runs that its claim needs.

`figures` says where they look and judges Rodinia under explicit copies, under managed memory and under OTM, then
Table 2 and what the paper says of density. `mechanisms` judges how OTM works, with the small recorded runs of `probes`.
"""

from __future__ import annotations

from offloadrt.extensions.evidence.validation.judging import Paper
from offloadrt.papers.otm.judges import figures, mechanisms
from offloadrt.papers.otm.judges.figures import CANDIDATES, MACHINE, SENSITIVITY, bench, grid
from offloadrt.papers.otm.rodinia import inputs
from offloadrt.study.inputs import inputs_of

PAPER = Paper("otm", MACHINE, bench, grid, SENSITIVITY, CANDIDATES, inputs=inputs_of(inputs), uses=["stream.interrupt"])

__all__ = ["PAPER", "figures", "mechanisms"]
