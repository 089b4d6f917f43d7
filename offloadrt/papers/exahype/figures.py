"""Figures of the ExaHyPE paper: what a sweep of each of its scenarios draws."""

from __future__ import annotations

from offloadrt.study.scripts.definition import Figure

EXAHYPE_FIG1 = Figure(
    x="batch",
    y="time_per_volume_per_thread_s",
    lines=("threads",),
    xlabel="patches per offload",
    ylabel="time per volume update of one thread (s)",
    title="ExaHyPE, Euler 2D (17² volumes a patch), weak scaling, map clauses",
    legend="host threads",
)

EXAHYPE = Figure(
    x="threads",
    y="time_per_volume_s",
    lines=("batch",),
    panels="memory",
    xlabel="host threads",
    ylabel="time per volume update (s)",
)


def strong_scaling(title: str) -> Figure:
    """Describe one of the Figures 2 to 4, which differ in their memory."""
    return Figure(
        x="threads",
        y="time_per_volume_s",
        lines=("batch",),
        panels="case",
        xlabel="host threads",
        ylabel="time per volume update (s)",
        title=f"ExaHyPE, strong scaling, {title}",
        legend="patches per\noffload",
        names={
            "euler3d-5": "Euler 3D, 5³ volumes a patch",
            "euler3d-9": "Euler 3D, 9³ volumes a patch",
            "ccz4-5": "CCZ4, 5³ volumes a patch",
        },
    )
