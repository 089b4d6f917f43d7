"""Figures of the paper on AdaptiveCpp's stdpar and of its talk: what a sweep of each scenario draws."""

from __future__ import annotations

from offloadrt.study.scripts.definition import Figure

TITLES = {
    "native": "native",
    "vendor": "vendor's stdpar",
    "acpp": "AdaptiveCpp stdpar",
    "sycl": "AdaptiveCpp SYCL",
    "nvcpp": "nvc++",
    "rocstdpar": "roc-stdpar",
    "host": "host",
    "none": "none",
    "mp": "mp",
    "mp+se": "mp, se",
    "mp+pm": "mp, pm=first",
    "mp+se+pm": "mp, se, pm=first",
    "mp+xnack": "mp, XNACK",
    "mp+se+xnack": "mp, se, XNACK",
    "rocstdpar+xnack": "roc-stdpar, XNACK",
}

STDPAR_BABELSTREAM = Figure(
    x="kernel",
    y="fraction_of_peak",
    lines=("implementation",),
    ylabel="fraction of the memory's peak bandwidth",
    title="BabelStream",
    names=TITLES,
    bars=True,
)

STDPAR_MINIAPPS = Figure(
    x="application",
    y="time_s",
    lines=("implementation",),
    ylabel="performance over native",
    title="Mini-apps beside the machine's own model",
    names=TITLES,
    bars=True,
    baseline={"implementation": "native"},
)

STDPAR_LULESH = Figure(
    x="size",
    y="time_s",
    lines=("variant",),
    xlabel="elements along an edge",
    ylabel="performance over nvc++",
    title="LULESH on an A100: memory pool (mp), synchronization elision (se), prefetches (pm)",
    legend="AdaptiveCpp",
    names=TITLES,
    baseline={"variant": "nvcpp"},
)

STDPAR_LULESH_MI100 = Figure(
    x="size",
    y="zones_per_second",
    lines=("variant",),
    xlabel="elements along an edge",
    ylabel="elements and steps a second",
    title="LULESH on an MI100, without prefetches, and on its host",
    legend="implementation",
    names=TITLES,
)

STDPAR = Figure(
    x="size",
    y="time_s",
    lines=("implementation",),
    panels="application",
    names={"acpp": "AdaptiveCpp", "nvcpp": "nvc++", "rocstdpar": "roc-stdpar", "icpx": "icpx"},
)
