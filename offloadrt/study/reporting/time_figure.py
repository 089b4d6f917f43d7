"""The figure of one run: where its host threads' time went, stacked."""

from __future__ import annotations

from pathlib import Path

from offloadrt.study.errors import UserError, writing
from offloadrt.study.reporting.panels import COLOURS
from offloadrt.study.reporting.results import Result
from offloadrt.study.reporting.table import library
from offloadrt.study.reporting.words import named, seconds, where

_TYPES = (".png", ".svg", ".pdf")
_NOTHING = 1e-4
"""The share of a part that is left out."""
_NARROW = 0.06
"""The share of a part whose name does not fit into it."""


def check_type(path: Path) -> None:
    """Check that a figure can be drawn to that file. Raises UserError for another type, and without matplotlib."""
    if path.suffix not in _TYPES:
        raise UserError(f"--figure {path}: a figure is a file that ends with {', '.join(_TYPES)}")
    library("matplotlib")


def draw_time(result: Result, path: Path) -> None:
    """Draw where the time of the host threads went, in percent of their lives, to a file that `check_type` lets pass.

    Raises UserError when no host thread lived in the measured time, or the file cannot be written.
    """
    if not result.where_time_went:
        raise UserError(f"--figure {path}: no host thread lived in the measured time")
    canvas = library("matplotlib.figure").Figure(figsize=(9.0, 2.4), layout="constrained")
    area = canvas.subplots()
    left = 0.0
    parts = [item for item in result.where_time_went.items() if item[1].share >= _NOTHING]
    for number, (name, part) in enumerate(parts):
        share = 100.0 * part.share
        label = f"{name}: {seconds(part.total_s)}"
        area.barh([0], [share], left=left, color=COLOURS[number % len(COLOURS)], edgecolor="white", label=label)
        if part.share >= _NARROW:
            area.text(
                left + share / 2, 0, f"{name}\n{share:.0f} %", ha="center", va="center", color="white", fontsize=8
            )
        left += share
    area.set_xlim(0.0, 100.0)
    area.set_yticks([])
    area.set_xlabel("share of the host threads' time (%)")
    area.set_title(
        f"{result.scenario} {named(result.parameters)}\n{seconds(result.elapsed_s)} on {where(result)}",
        fontsize="small",
        wrap=True,
    )
    area.spines[["top", "right", "left"]].set_visible(False)
    canvas.legend(loc="outside lower center", ncols=4, fontsize="x-small", frameon=False)
    with writing(path):
        canvas.savefig(path, dpi=160, metadata={"Date": None} if path.suffix == ".svg" else None)
