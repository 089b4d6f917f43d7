"""Published papers: what each reports, and the programs that its authors ran, written against `offloadrt.models`.

A program states its sizes, its kernels' work and its sequence of directives; it states no time of the device. What its
authors leave open is an `InputRange` with a source, and results report where in it a run was.

Each paper is a package: its programs, `claims.toml` (what it reports) and `judges/` (how each report is checked).
`exahype/program`, `zerocopy/qmcpack`, `zerocopy/specaccel`, `otm/rodinia`, `jacc/programs` and `stdpar/programs` are
applications; `zerocopy/first_touch` and `otm/unified_memory` are synthetic programs. Another package brings a paper of
its own by an entry point of the group `offloadrt.papers`, which gives a `Paper`. `independent/` has
measurements that belong to no paper. Open
`zerocopy/first_touch.py`, the smallest program, first.
"""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offloadrt.study.validation.judging import Paper

PAPERS = ("exahype", "jacc", "otm", "stdpar", "zerocopy")
"""The papers of this package."""


def find(name: str) -> Paper:
    """Import the paper of that name. Raises UserError, with the names that exist, for any other name."""
    paper: Paper
    if name in PAPERS:
        paper = importlib.import_module(f"{__name__}.{name}.judges").PAPER
        return paper
    others = {point.name: point for point in entry_points(group=__name__)}
    if name in others:
        paper = others[name].load()
        return paper
    from offloadrt.study.errors import UserError, did_you_mean

    known = sorted({*PAPERS, *others})
    raise UserError(f"--paper {name}: no claims of it{did_you_mean(name, known)} (there are: {', '.join(known)})")
