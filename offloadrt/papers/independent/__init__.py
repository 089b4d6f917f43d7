"""Measurements from outside the papers: the data with its sources, the programs that were measured, and how they meet.

``results.toml`` has what others measured and published; nothing of it was used to fit a profile, except that a profile
may be calibrated with entries of the kind `unit_cost`. ``runs.toml`` says which scenario stands for which entry.
``programs/`` has the programs, written from their descriptions: CUDA programs over managed memory, and small benchmarks
of the driver's calls and of a mutex. `offloadrt validate --independent` compares; `study/independent` does the work.
"""

from __future__ import annotations

import importlib.resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offloadrt.study.independent.measured import MeasuredResult
    from offloadrt.study.independent.rules import PredictionRules


def results() -> list[MeasuredResult]:
    """Read the entries that come with the package."""
    from offloadrt.study.independent import measured

    return measured.parse(_text("results.toml"), "results.toml")


def rules() -> PredictionRules:
    """Read the rules that find the runs of entries."""
    from offloadrt.study.independent import rules

    return rules.parse(_text("runs.toml"), "runs.toml")


def _text(name: str) -> str:
    return (importlib.resources.files(__name__) / name).read_text(encoding="utf-8")
