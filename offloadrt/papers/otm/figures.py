"""Figures of the OTM paper: what a sweep of each of its scenarios draws."""

from __future__ import annotations

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

OTM_FIG1 = Figure(
    x="size_gb",
    y="time_s",
    lines=("placement",),
    panels="benchmark",
    xlabel="bytes of all arrays (GB)",
    ylabel="time (s)",
    title="Rodinia on a P100 with 16 GB: computation and data transfer",
    legend="placement",
    names=TITLES,
)

OTM_FIG2 = Figure(
    x="size_gb",
    y="moved_gb",
    lines=("direction", "placement"),
    panels="benchmark",
    xlabel="bytes of all arrays (GB)",
    ylabel="bytes moved (GB)",
    title="Rodinia on a P100 with 16 GB: traffic between host and device",
    legend="direction",
    names=TITLES,
)

OTM_FIG3 = Figure(
    x="size_gb",
    y="time_s",
    lines=("placement",),
    panels="benchmark",
    xlabel="bytes of all arrays (GB)",
    ylabel="time (s)",
    title="Rodinia on a P100 with 16 GB: computation and data transfer",
    legend="placement",
    names=TITLES,
)

RODINIA = Figure(
    x="size_gb",
    y="time_s",
    lines=("placement",),
    panels="benchmark",
    xlabel="bytes of all arrays (GB)",
    ylabel="time (s)",
    names={"bfs": "BFS", "cfd": "CFD", "srad": "SRAD", "explicit": "explicit copies", "um": "managed memory"},
)

UNIFIED_MEMORY = Figure(
    x="size_gb",
    y="elapsed_s",
    lines=("placement",),
    panels="reuse",
    xlabel="bytes of all arrays (GB)",
    ylabel="time (s)",
)
