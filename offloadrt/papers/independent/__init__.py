"""Measurements from outside the papers: the data with its sources, and the programs that were measured.

``results.toml`` has what others measured and published, and which run predicts each; nothing of it was used to fit a
profile, except that a profile may be calibrated with entries of the kind `unit_cost`. ``programs/`` has the programs,
written from their descriptions: CUDA programs over managed memory, and small benchmarks of the driver's calls and of a
mutex. `offloadrt validate --independent` compares; `extensions/evidence/independent` does the work.
"""

from __future__ import annotations

import importlib.resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offloadrt.extensions.evidence.independent.prediction import MeasuredResult


def results() -> list[MeasuredResult]:
    """Read the results that others measured on GPUs and published, from the file `results.toml` beside this module."""
    from offloadrt.extensions.evidence.independent import prediction

    text = (importlib.resources.files(__name__) / "results.toml").read_text(encoding="utf-8")
    return prediction.parse(text, "results.toml")
