"""The JACC paper's programs on one or several GPUs: as OpenACC was written, and by JACC's routines."""

from __future__ import annotations

from typing import Annotated, Literal

import attrs

from offloadrt import ParameterError, Range, Run, scenario
from offloadrt import openacc as acc
from offloadrt.papers.figures import figures_of
from offloadrt.papers.jacc.programs import BenchmarkExperiment, BenchmarkOutcome, kernels
from offloadrt.papers.jacc.programs import benchmark as benchmark_of

FIGURES = figures_of("jacc")

Figures = dict[str, float | int | str | bool]


@scenario(
    machine="dgx1-v100",
    figure=FIGURES["jacc"],
    sweep={
        "gpus": (1, 2, 4),
        "strategy": ("single", "adaptive", "always"),
        "benchmark": ("Himeno",),
        "fraction": (0.02,),
    },
    measures=("kernel_s", "communication_s", "computed_s", "num_adapted"),
    kernels=kernels,
)
async def jacc(
    run: Run,
    benchmark: Literal["BT", "CG", "EP", "FT", "LU", "MG", "SP", "CloverLeaf", "CCS-QCD", "Himeno"] = "Himeno",
    gpus: Annotated[int, Range(1, 8)] = 4,
    compiler: Literal["pgi", "gcc"] = "pgi",
    layer: Literal["original", "jacc"] = "jacc",
    strategy: Literal["single", "duplicated", "adaptive", "always", "macc"] = "adaptive",
    execution: Literal["sync", "async", "overlap"] = "async",
    communication: Literal["all-to-all", "needed"] = "all-to-all",
    restrict: bool = False,
    var_opt: bool = False,
    pools: bool = False,
    size: str = "",
    fraction: Annotated[float, Range(1e-6, 1.0)] = 1.0,
    warm_up: Annotated[int, Range(0, 1000)] = 0,
    eff_dup: Literal["measured", "infinite"] = "measured",
    compiled: bool = True,
    phantom: bool = True,
) -> Figures:
    """One program on one host thread, from its first transfer to its last.

    `kernel_s` adds up what executions of kernels took, `communication_s` the exchanges between devices; a kernel's time
    is the host's where it waits for each execution (sync, or strategies that divide), otherwise the device's. The same
    follows for each kernel (`KERNEL.kernel_s`). `computed_s` is the time between the transfers of the arrays at the
    beginning and the end, `total_s` includes them. All is of the stated part of the iterations.

    Parameters:
        benchmark: the program
        gpus: devices that it uses; with strategy single one
        compiler: whose run-time library, and whose code
        layer: original (OpenACC's directives, on one device) or jacc (JACC's routines)
        strategy: how several devices share kernels
        execution: of JACC's pushes
        communication: what is exchanged after a divided kernel
        restrict: JACC's kernels are specialised with restrict
        var_opt: and with the values of scalars
        pools: GCC with JACC's two pools of device memory
        size: by name; the paper's without
        fraction: part of the iterations that is run; at least one is
        warm_up: iterations before those, of which nothing is told but in the elapsed time and the calls, nor of the
            setup; the controller lets a kernel run five times before it divides it
        eff_dup: how the controller reads the paper's second rule against a divided kernel; measured, as JACC's source,
            disables kernels that gain nothing; infinite keeps them divided, as the paper's EP does
        compiled: JACC's code is in its cache from an earlier run: compilations take no time
        phantom: sizes without numbers
    """
    code = benchmark_of(benchmark)
    if size and size not in (sizes := code.sizes):
        raise ParameterError("size", f"{benchmark} has no size {size!r}; there are: {', '.join(sizes)}")
    if layer == "original" and strategy != "single":
        raise ParameterError("strategy", f"{strategy}, but OpenACC's directives use one device; make it single")
    devices = 1 if strategy == "single" else gpus
    flags = acc.PushFlags.RESTRICT if restrict else acc.PushFlags.NONE
    flags |= acc.PushFlags.VAR_OPT if var_opt else acc.PushFlags.NONE
    run.options = acc.OpenACCOptions(compiler=compiler, pools=pools, phantom=phantom, num_devices=devices)
    if compiled:
        run.set("jit.compile", 0.0)
    shared = acc.strategy_named(strategy, devices)
    if strategy == "adaptive":
        shared = attrs.evolve(shared, policy=acc.AdaptiveController(acc.Rules(devices, eff_dup=eff_dup)))
    experiment = BenchmarkExperiment(
        code, layer, size, fraction, warm_up, devices, shared, execution, communication, flags
    )
    (outcome,) = await run.parallel(experiment.run)
    return {**totals(run, outcome), **by_kernel(outcome)}


def totals(run: Run, outcome: BenchmarkOutcome) -> Figures:
    """Return the figures of the whole program."""
    return {
        "kernel_s": outcome.kernel_s,
        "communication_s": outcome.communication_s,
        "computed_s": outcome.computed_s,
        "total_s": run.elapsed,
        "num_adapted": outcome.adapted,
        "write_bytes": outcome.write_bytes,
        "bandwidth_gb_s": outcome.bandwidth / 1e9,
        "array_bytes": outcome.nbytes,
        "iterations": outcome.iterations,
        "ran_fraction": outcome.fraction,
        "executions": sum(row.executions for row in outcome.kernels.values()),
        "compilations": run.program_as(acc.OpenACC).code.compilations,
        "refused": ", ".join(outcome.refused),
    }


def by_kernel(outcome: BenchmarkOutcome) -> Figures:
    """Return the figures of each kernel, and why it cannot be divided."""
    measured: Figures = {}
    for name, row in outcome.kernels.items():
        measured |= {
            f"{name}.executions": row.executions,
            f"{name}.divided": row.divided,
            f"{name}.kernel_s": row.kernel_s,
            f"{name}.communication_s": row.communication_s,
            f"{name}.execution_s": row.execution_s,
            f"{name}.sent_bytes": row.sent_bytes,
            f"{name}.adapted": row.adapted,
        }
    return measured | {f"{name}.refused": why for name, why in outcome.refused.items()}
