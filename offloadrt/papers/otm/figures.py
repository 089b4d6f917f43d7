"""Figures of the OTM paper: what a sweep of each of its scenarios draws."""

from __future__ import annotations

import attrs

from offloadrt.study.scripts.definition import Figure

TITLES = {
    "bfs": "BFS",
    "cfd": "CFD",
    "srad": "SRAD",
    "explicit": "explicit copies",
    "um": "managed memory",
    "otm": "OTM",
    "h2d": "to the device",
    "d2h": "to the host",
}

RODINIA = Figure(
    x="size_gb",
    y="time_s",
    lines=("placement",),
    panels="benchmark",
    xlabel="bytes of all arrays (GB)",
    names=TITLES,
)

OTM_FIG1 = OTM_FIG3 = attrs.evolve(RODINIA, title="Rodinia on a P100 with 16 GB: computation and data transfer")

OTM_FIG2 = attrs.evolve(
    RODINIA,
    y="moved_gb",
    lines=("direction", "placement"),
    ylabel="bytes moved (GB)",
    title="Rodinia on a P100 with 16 GB: traffic between host and device",
    legend="direction",
)

UNIFIED_MEMORY = Figure(
    x="size_gb",
    y="elapsed_s",
    lines=("placement",),
    panels="reuse",
    xlabel="bytes of all arrays (GB)",
    ylabel="time (s)",
)
