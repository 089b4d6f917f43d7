"""Judges of the zero-copy paper's claims: each asks for the runs that its claim needs.

`places` says where they look; `ratios` (Figures 3 and 4), `calls` (Table I and what grows with the size), `prefault`
(Eager Maps), `accelerator` (SPECaccel, Tables II and III), `mechanisms` and `noise` hold the judges, `inputs` sets
what was put in beside what comes out, `probes` are the small recorded runs of the mechanisms.
"""

from __future__ import annotations

from offloadrt.papers.zerocopy import specaccel as specaccel_inputs
from offloadrt.papers.zerocopy.judges import accelerator, calls, inputs, mechanisms, noise, prefault, ratios
from offloadrt.papers.zerocopy.judges.places import CANDIDATES, MACHINE, SENSITIVITY, bench, grid
from offloadrt.papers.zerocopy.qmcpack import inputs as qmcpack_inputs
from offloadrt.study.input_range import inputs_of
from offloadrt.study.validation.paper import Paper

PAPER = Paper(
    "zerocopy",
    MACHINE,
    bench,
    grid,
    SENSITIVITY,
    CANDIDATES,
    inputs=inputs_of(qmcpack_inputs, specaccel_inputs),
    uses=["teams.per_cu"],
)

__all__ = ["PAPER", "accelerator", "calls", "inputs", "mechanisms", "noise", "prefault", "ratios"]
