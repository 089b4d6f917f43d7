"""Figures and tables of the zero-copy paper: what a sweep of each of its scenarios draws."""

from __future__ import annotations

from offloadrt.study.scripts.definition import Figure

OVER_COPY = {"configuration": "copy"}
TITLES = {"copy": "Copy", "usm": "USM", "implicit_zero_copy": "Implicit Zero-Copy", "eager_maps": "Eager Maps"}

ZEROCOPY_FIG3 = Figure(
    x="threads",
    y="elapsed_s",
    lines=("size",),
    panels="configuration",
    baseline=OVER_COPY,
    xlabel="host threads",
    ylabel="time of Copy over time",
    title="QMCPack NiO on MI300A",
    names=TITLES,
)

ZEROCOPY_FIG4 = Figure(
    x="size",
    y="elapsed_s",
    lines=("configuration",),
    baseline=OVER_COPY,
    ylabel="time of Copy over time",
    title="QMCPack NiO on MI300A, 8 host threads",
    names=TITLES,
)

ZEROCOPY_TABLE1 = Figure(
    x="threads", y="elapsed_s", baseline=OVER_COPY, xlabel="host threads", ylabel="time of Copy over time"
)

ZEROCOPY_TABLE2 = Figure(
    x="benchmark",
    y="elapsed_s",
    lines=("configuration",),
    baseline=OVER_COPY,
    ylabel="time of Copy over time",
    title="SPECaccel 2023 on MI300A",
    names=TITLES,
    bars=True,
)

ZEROCOPY_TABLE3 = Figure(
    x="benchmark",
    y="memory_initialization_s",
    lines=("configuration",),
    ylabel="memory initialisation, MI (s)",
    title="SPECaccel 2023 on MI300A: kernels that wait for a first touch",
    names=TITLES,
    bars=True,
)

QMCPACK = Figure(
    x="threads",
    y="elapsed_s",
    lines=("configuration",),
    panels="size",
    xlabel="host threads",
    ylabel="time of the steps (s)",
)

SPECACCEL = Figure(x="benchmark", y="elapsed_s", lines=("configuration",), ylabel="time (s)", log=False)

FIRST_TOUCH = Figure(
    x="bytes",
    y="elapsed_s",
    lines=("configuration",),
    panels="remaps",
    xlabel="bytes touched for the first time",
    ylabel="time (s)",
)
