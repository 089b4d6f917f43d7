"""Judges of the zero-copy paper's claims: each asks for the runs that its claim needs.

`figures` has the parameters of all runs, and judges QMCPACK: Figures 3 and 4, Table I, Eager Maps and the noise; it
also compares assumed inputs with what follows from them. `mechanisms` judges SPECaccel (Tables II and III) and how the
configurations work, with the small recorded runs of `probes`.
"""

from __future__ import annotations

from offloadrt.extensions.evidence.validation.judging import Paper, inputs_of
from offloadrt.papers.zerocopy import specaccel
from offloadrt.papers.zerocopy.judges import figures, mechanisms
from offloadrt.papers.zerocopy.judges.figures import CANDIDATES, MACHINE, SENSITIVITY, bench, grid
from offloadrt.papers.zerocopy.qmcpack import structure

PAPER = Paper(
    "zerocopy",
    MACHINE,
    bench,
    grid,
    SENSITIVITY,
    CANDIDATES,
    inputs=inputs_of(structure, specaccel),
    uses=["stream.sync_copy_back", "teams.per_cu"],
)

__all__ = ["PAPER", "figures", "mechanisms"]
