"""Judges of the JACC paper's claims: each asks for the runs that its claim needs.

`figures` says where they look and how a few iterations stand for all, judges the figures of one GPU and of several, and
sets what was put in beside what comes out. `mechanisms` judges how JACC's layer works on one device and how it divides
kernels (predicates, the controller), with the small recorded runs of `probes`.
"""

from __future__ import annotations

from offloadrt.papers.jacc.judges import figures, mechanisms
from offloadrt.papers.jacc.judges.figures import CANDIDATES, MACHINE, SENSITIVITY, bench, grid
from offloadrt.study.validation.judging import Paper

PAPER = Paper("jacc", MACHINE, bench, grid, SENSITIVITY, CANDIDATES, uses=["process.driver_lock"])

__all__ = ["PAPER", "figures", "mechanisms"]
