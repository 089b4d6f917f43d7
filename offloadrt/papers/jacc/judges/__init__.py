"""Judges of the JACC paper's claims: each asks for the runs that its claim needs.

`places` says where they look, and how a few iterations stand for all; `steps` (one GPU: execution steps, pools) and
`multi` (several GPUs) judge figures, `mechanisms` (JACC's layer on one device) and `divided` (predicates, the
controller) how it works, with the small recorded runs of `probes` and `divided_probes`; `inputs` sets what was put in
beside what comes out.
"""

from __future__ import annotations

from offloadrt.papers.jacc.judges import divided, inputs, mechanisms, multi, steps
from offloadrt.papers.jacc.judges.places import CANDIDATES, MACHINE, SENSITIVITY, bench, grid
from offloadrt.study.validation.paper import Paper

PAPER = Paper("jacc", MACHINE, bench, grid, SENSITIVITY, CANDIDATES, uses=["process.driver_lock"])

__all__ = ["PAPER", "divided", "inputs", "mechanisms", "multi", "steps"]
