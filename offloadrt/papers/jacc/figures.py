"""Figures of the JACC paper: what a sweep of each of its scenarios draws."""

from __future__ import annotations

import attrs

from offloadrt.study.scripts.definition import Figure

TITLES = {
    "original": "OpenACC",
    "jacc": "JACC",
    "async": "+ async",
    "overlap": "+ overlap",
    "restrict": "+ restrict",
    "var_opt": "+ var opt",
    "pgi": "PGI",
    "gcc": "GCC",
    "gcc_pools": "GCC with pools",
    "single": "one GPU",
    "adaptive": "adaptive",
    "always": "always divided",
    "macc": "MACC",
    "kernels": "kernels",
    "kernel_and_exchange": "kernels and exchanges",
    "total": "the computation",
}

JACC_STEPS = Figure(
    x="benchmark",
    y="iteration_s",
    lines=("step",),
    panels="compiler",
    ylabel="OpenACC's time over that of the step",
    title="JACC on one V100: automated asynchronous execution and specialization",
    names=TITLES,
    bars=True,
    baseline={"step": "original"},
)

JACC_POOLS = Figure(
    x="benchmark",
    y="iteration_s",
    lines=("library",),
    ylabel="PGI's time over that of the library",
    title="JACC on one V100: GCC with and without pools of device memory",
    legend="run-time library",
    names=TITLES,
    bars=True,
    baseline={"library": "pgi"},
)

JACC_GPUS = Figure(
    x="benchmark",
    y="share_s",
    lines=("gpus",),
    panels="what",
    ylabel="speed-up over one GPU",
    title="JACC's adaptive strategy on one, two and four V100",
    legend="GPUs",
    names=TITLES,
    bars=True,
    baseline={"gpus": 1},
)

JACC_KERNELS = Figure(
    x="gpus",
    y="execution_s",
    lines=("benchmark",),
    panels="what",
    xlabel="GPUs",
    ylabel="time of an execution (s)",
    title="JACC on several V100, every kernel divided that can be: mean of all executions",
    names=TITLES,
)

JACC_HIMENO = attrs.evolve(JACC_GPUS, x="size", y="jacobi_s", title="Himeno by size, its kernel divided")

JACC_STRATEGIES = Figure(
    x="benchmark",
    y="computed_s",
    lines=("strategy",),
    ylabel="one GPU's time over that of the strategy",
    title="Strategies on four V100",
    names=TITLES,
    bars=True,
    baseline={"strategy": "single"},
)

JACC = Figure(
    x="gpus",
    y="total_s",
    lines=("strategy",),
    panels="benchmark",
    xlabel="GPUs",
    ylabel="time (s)",
)
