"""The JACC paper's results: execution steps and specializations, GCC's pools, several GPUs, Himeno by size, strategies.

What runs is in `jacc.py`; here is where it is looked at. A run is a stated part of the iterations. The detail table is
`offloadrt compare jacc strategy=single,adaptive,always benchmark=BT,CG,EP,SP,Himeno gpus=4 fraction=0.02`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from offloadrt import Range, Run, scenario
from offloadrt.papers.figures import figures_of
from offloadrt.papers.jacc.programs import BENCHMARKS
from offloadrt.study import find_scenario

LISTED_AS = "figures of papers, for `sweep`"

FIGURES = figures_of("jacc")

Benchmark: TypeAlias = Literal["BT", "CG", "EP", "FT", "LU", "MG", "SP", "CloverLeaf", "CCS-QCD", "Himeno"]
Fraction: TypeAlias = Annotated[float, Range(1e-6, 1.0)]
Compiler: TypeAlias = Literal["pgi", "gcc"]
Gpus: TypeAlias = Annotated[int, Range(1, 8)]
Step: TypeAlias = Literal["original", "jacc", "async", "overlap", "restrict", "var_opt"]
Figures: TypeAlias = dict[str, Any]

NAMES = tuple(BENCHMARKS)
STEPS = ("original", "jacc", "async", "overlap", "restrict", "var_opt")
PART = 0.01
"""The part of the iterations that is run."""
WARM_UP = 12
"""Iterations in which the controller divides kernels, after five executions, and gives up those that lose by it."""


jacc = find_scenario("jacc")


def per_iteration(measured: Figures) -> Figures:
    """Add the seconds that the computation takes for each iteration, without the transfers before and after it."""
    return {"iteration_s": measured["computed_s"] / measured["iterations"], **measured}


@scenario(
    machine="dgx1-v100",
    figure=FIGURES["jacc_steps"],
    sweep={"benchmark": NAMES, "step": STEPS, "compiler": ("pgi", "gcc")},
)
async def jacc_steps(
    run: Run,
    benchmark: Benchmark = "Himeno",
    step: Step = "async",
    compiler: Compiler = "pgi",
    fraction: Fraction = PART,
) -> Figures:
    """Time of an iteration with each step of JACC's on one GPU, relative to plain OpenACC.

    The figure: `offloadrt sweep jacc_steps --jobs 2 --out DIR`.

    Parameters:
        benchmark: the program
        step: OpenACC as it was written, JACC (the host waits for each kernel), and what JACC adds, each with all before
        compiler: whose run-time library and code
        fraction: part of the iterations that is run
    """
    number = STEPS.index(step)
    execution = "sync" if number < 2 else "async" if number == 2 else "overlap"
    measured: Figures = await jacc(
        run,
        benchmark=benchmark,
        gpus=1,
        compiler=compiler,
        layer="original" if step == "original" else "jacc",
        strategy="single",
        execution=execution,
        restrict=number >= STEPS.index("restrict"),
        var_opt=number >= STEPS.index("var_opt"),
        fraction=fraction,
    )
    return per_iteration(measured)


@scenario(
    machine="dgx1-v100",
    figure=FIGURES["jacc_pools"],
    sweep={"benchmark": NAMES, "library": ("pgi", "gcc", "gcc_pools")},
)
async def jacc_pools(
    run: Run,
    benchmark: Benchmark = "Himeno",
    library: Literal["pgi", "gcc", "gcc_pools"] = "gcc_pools",
    fraction: Fraction = PART,
) -> Figures:
    """Time of an iteration under GCC, with and without JACC's pools, relative to PGI.

    The figure: `offloadrt sweep jacc_pools --jobs 2 --out DIR`.

    Parameters:
        benchmark: the program
        library: PGI's, GCC's, or GCC's with JACC's two pools
        fraction: part of the iterations that is run
    """
    measured: Figures = await jacc(
        run,
        benchmark=benchmark,
        gpus=1,
        compiler="pgi" if library == "pgi" else "gcc",
        pools=library == "gcc_pools",
        strategy="single",
        fraction=fraction,
    )
    return per_iteration(measured)


@scenario(
    machine="dgx1-v100",
    figure=FIGURES["jacc_gpus"],
    sweep={
        "benchmark": NAMES,
        "gpus": (1, 2, 4),
        "what": ("kernels", "kernel_and_exchange", "total"),
        "fraction": (PART,),
    },
)
async def jacc_gpus(
    run: Run,
    benchmark: Benchmark = "Himeno",
    gpus: Gpus = 4,
    what: Literal["kernels", "kernel_and_exchange", "total"] = "total",
    compiler: Compiler = "pgi",
    fraction: Fraction = PART,
) -> Figures:
    """Time of kernels, of kernels and exchanges, and of the computation, on several GPUs.

    The figure: `offloadrt sweep jacc_gpus --jobs 2 --out DIR`, without the first iterations, in which the controller
    looks at kernels.

    Parameters:
        benchmark: the program
        gpus: how many share kernels
        what: which time
        compiler: whose run-time library and code
        fraction: part of the iterations that is measured
    """
    strategy = "single" if gpus == 1 else "adaptive"
    measured: Figures = await jacc(
        run, benchmark=benchmark, gpus=gpus, compiler=compiler, strategy=strategy, fraction=fraction, warm_up=WARM_UP
    )
    both = measured["kernel_s"] + measured["communication_s"]
    times = {"kernels": measured["kernel_s"], "kernel_and_exchange": both, "total": measured["computed_s"]}
    return {"share_s": times[what], **measured}


@scenario(
    machine="dgx1-v100",
    figure=FIGURES["jacc_kernels"],
    sweep={"gpus": (1, 2, 4), "benchmark": NAMES, "what": ("kernels", "kernel_and_exchange")},
)
async def jacc_kernels(
    run: Run,
    gpus: Gpus = 4,
    benchmark: Benchmark = "Himeno",
    what: Literal["kernels", "kernel_and_exchange"] = "kernels",
    compiler: Compiler = "pgi",
    fraction: Fraction = PART,
) -> Figures:
    """Mean time of an execution of a kernel, alone and with the exchange after it.

    The figure: `offloadrt sweep jacc_kernels --jobs 2 --out DIR`. All kernels are divided that can be, so that there is
    no first execution that is not; on one GPU no kernel is.

    Parameters:
        gpus: how many share each kernel
        benchmark: the program
        what: the kernels, or kernels and exchanges
        compiler: whose run-time library and code
        fraction: part of the iterations that is run
    """
    measured: Figures = await jacc(
        run, benchmark=benchmark, gpus=gpus, compiler=compiler, strategy="always", fraction=fraction
    )
    exchanges = measured["communication_s"] if what == "kernel_and_exchange" else 0.0
    return {"execution_s": (measured["kernel_s"] + exchanges) / measured["executions"], **measured}


@scenario(
    machine="dgx1-v100",
    figure=FIGURES["jacc_himeno"],
    sweep={"size": ("M", "L", "XL"), "gpus": (1, 2, 4), "what": ("kernels", "kernel_and_exchange")},
)
async def jacc_himeno(
    run: Run,
    size: Literal["M", "L", "XL"] = "XL",
    gpus: Gpus = 4,
    what: Literal["kernels", "kernel_and_exchange"] = "kernels",
    fraction: Fraction = PART,
) -> Figures:
    """The long kernel of Himeno over the size of its grid, alone and with the exchange after it.

    The figure: `offloadrt sweep jacc_himeno --jobs 2 --out DIR`.

    Parameters:
        size: of the grid
        gpus: how many share the kernel
        what: the kernel, or the kernel and the exchange
        fraction: part of the iterations that is run
    """
    measured: Figures = await jacc(
        run, benchmark="Himeno", gpus=gpus, strategy="single" if gpus == 1 else "always", size=size, fraction=fraction
    )
    exchange = measured["jacobi.communication_s"] if what == "kernel_and_exchange" else 0.0
    return {"jacobi_s": measured["jacobi.kernel_s"] + exchange, **measured}


@scenario(
    machine="dgx1-v100",
    figure=FIGURES["jacc_strategies"],
    sweep={
        "benchmark": NAMES,
        "strategy": ("single", "adaptive", "always", "macc"),
        "fraction": (PART,),
    },
)
async def jacc_strategies(
    run: Run,
    benchmark: Benchmark = "Himeno",
    strategy: Literal["single", "adaptive", "always", "macc"] = "adaptive",
    gpus: Gpus = 4,
    fraction: Fraction = PART,
) -> Figures:
    """Time of the computation under each strategy on several GPUs, relative to one GPU.

    The figure: `offloadrt sweep jacc_strategies --jobs 2 --out DIR`. The paper's MACC supports CG and Himeno only.

    Parameters:
        benchmark: the program
        strategy: one GPU, JACC's controller, every kernel divided that can be, or MACC's splitting of loops
        gpus: that share kernels
        fraction: part of the iterations that is measured, after those in which the controller looks at kernels
    """
    measured: Figures = await jacc(
        run, benchmark=benchmark, gpus=gpus, strategy=strategy, fraction=fraction, warm_up=WARM_UP
    )
    return measured
