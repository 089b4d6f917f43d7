"""Figures of the talk on AdaptiveCpp's stdpar: BabelStream, mini-apps beside native, and LULESH over its size.

What runs is in `stdpar.py`; here is where it is looked at. A figure is of one machine: `--machine isambard-a100`,
`isambard-mi100`, `idc-max1550`; for BabelStream also `isambard-milan`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from offloadrt import Range, Run, scenario
from offloadrt.papers.figures import figures_of
from offloadrt.study import find_scenario

LISTED_AS = "figures of papers, for `sweep`"

FIGURES = figures_of("stdpar")

Side: TypeAlias = Literal["native", "vendor", "acpp", "sycl"]
Steps: TypeAlias = Annotated[int, Range(0, 1_000_000)]
Figures: TypeAlias = dict[str, Any]

KERNELS: Final = ("copy", "mul", "add", "triad", "dot")
SIDES: Final = ("vendor", "acpp", "sycl")
SIZES: Final = (15, 30, 45, 60, 90)

VARIANTS: Final[dict[str, dict[str, Any]]] = {
    "none": {"pool": "off", "elision": "off", "prefetch": "never"},
    "mp": {"pool": "on", "elision": "off", "prefetch": "never"},
    "mp+se": {"pool": "on", "elision": "on", "prefetch": "never"},
    "mp+pm": {"pool": "on", "elision": "off", "prefetch": "first"},
    "mp+se+pm": {"pool": "on", "elision": "on", "prefetch": "first"},
}
"""Variants of AdaptiveCpp: memory pool (mp), synchronization elision (se), prefetch mode (pm)."""

stdpar = find_scenario("stdpar")


def implementation_of(run: Run, side: str) -> str:
    """The name of an implementation on this machine."""
    if side != "vendor":
        return side
    if run.spec.text("usm.shared") == "no_device":
        return "host"
    return {"cuda": "nvcpp", "hip": "rocstdpar", "level_zero": "icpx"}[run.spec.text("driver.calls")]


@scenario(
    machine="isambard-a100",
    figure=FIGURES["stdpar_babelstream"],
    sweep={"kernel": KERNELS, "implementation": SIDES},
)
async def stdpar_babelstream(
    run: Run,
    kernel: Literal["copy", "mul", "add", "triad", "dot"] = "triad",
    implementation: Side = "acpp",
    steps: Steps = 3,
) -> Figures:
    """BabelStream's kernels as fractions of the machine's peak, under the stdpar of the vendor and of AdaptiveCpp, and
    under SYCL with copies.

    The figure: `offloadrt sweep stdpar_babelstream --machine isambard-mi100 --jobs 2 --out DIR`.

    Parameters:
        kernel: whose rate
        implementation: vendor is nvc++, roc-stdpar or icpx, as the machine is; without a device the host's algorithms
        steps: iterations
    """
    measured: Figures = await stdpar(
        run, application="babelstream", implementation=implementation_of(run, implementation), steps=steps
    )
    return {"fraction_of_peak": measured[f"{kernel}_gbs"] * 1e9 / run.spec.value("mem.bw_peak"), **_without(measured)}


@scenario(
    machine="isambard-a100",
    figure=FIGURES["stdpar_miniapps"],
    sweep={"application": ("minibude", "cloverleaf", "tealeaf"), "implementation": ("native", *SIDES)},
)
async def stdpar_miniapps(
    run: Run,
    application: Literal["minibude", "cloverleaf", "tealeaf"] = "minibude",
    implementation: Side = "acpp",
    steps: Steps = 5,
) -> Figures:
    """The mini-apps beside native, under the stdpar of the vendor and of AdaptiveCpp, and under SYCL with copies.

    The figure: `offloadrt sweep stdpar_miniapps --machine idc-max1550 --jobs 2 --out DIR`.

    Parameters:
        application: what runs, at its own size
        implementation: vendor is nvc++, roc-stdpar or icpx, as the machine is
        steps: iterations of what is timed
    """
    measured: Figures = await stdpar(
        run, application=application, implementation=implementation_of(run, implementation), steps=steps
    )
    return measured


@scenario(
    machine="isambard-a100",
    figure=FIGURES["stdpar_lulesh"],
    sweep={"size": SIZES, "variant": (*VARIANTS, "nvcpp")},
)
async def stdpar_lulesh(
    run: Run,
    size: Annotated[int, Range(1, 400)] = 30,
    variant: Literal["none", "mp", "mp+se", "mp+pm", "mp+se+pm", "nvcpp", "host"] = "mp+se",
    steps: Steps = 10,
) -> Figures:
    """LULESH over its problem size, with AdaptiveCpp's optimizations switched on one after the other, and nvc++.

    The figure: `offloadrt sweep stdpar_lulesh --jobs 2 --out DIR`.

    Parameters:
        size: elements along an edge
        variant: AdaptiveCpp with these optimizations, or another implementation
        steps: time steps
    """
    return await run_lulesh(run, size, variant, "auto", steps)


@scenario(
    machine="isambard-mi100",
    figure=FIGURES["stdpar_lulesh_mi100"],
    sweep={"size": SIZES, "variant": ("mp+se", "rocstdpar", "mp+se+xnack", "rocstdpar+xnack", "host")},
)
async def stdpar_lulesh_mi100(
    run: Run,
    size: Annotated[int, Range(1, 400)] = 30,
    variant: Literal["mp", "mp+xnack", "mp+se", "mp+se+xnack", "rocstdpar", "rocstdpar+xnack", "host"] = "mp+se",
    steps: Steps = 5,
) -> Figures:
    """LULESH over its problem size with XNACK off and on, without prefetches: with any of them it crashes here.

    The figure: `offloadrt sweep stdpar_lulesh_mi100 --jobs 2 --out DIR`.

    Parameters:
        size: elements along an edge
        variant: AdaptiveCpp with these optimizations, or another implementation; with xnack, pages of shared memory
            migrate, else it is host memory
        steps: time steps
    """
    name, xnack = variant.removesuffix("+xnack"), variant.endswith("+xnack")
    return await run_lulesh(run, size, name, "on" if xnack else "auto", steps)


async def run_lulesh(run: Run, size: int, variant: str, xnack: str, steps: int) -> Figures:
    """LULESH as `offloadrt run stdpar` runs it."""
    chosen: dict[str, Any] = {"implementation": variant}
    if variant in VARIANTS:
        chosen = {"implementation": "acpp", **VARIANTS[variant]}
    measured: Figures = await stdpar(run, application="lulesh", size=size, steps=steps, xnack=xnack, **chosen)
    return measured


def _without(measured: Figures) -> Figures:
    """What was measured, but for the fraction of the peak that is triad's."""
    return {name: value for name, value in measured.items() if name != "fraction_of_peak"}
