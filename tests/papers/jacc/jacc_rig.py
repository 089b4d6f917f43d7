"""Benchmarks of the JACC paper on an emulated machine, for the tests of this folder."""

from __future__ import annotations

import functools
from typing import Any

from offloadrt import openacc as acc
from offloadrt.papers.jacc.programs import BenchmarkExperiment, BenchmarkOutcome, benchmark
from offloadrt.study import Run

MACHINE = "dgx1-v100"


@functools.cache
def run_benchmark(
    name: str, devices: int = 1, *, phantom: bool = False, compiler: str = "pgi", **options: Any
) -> BenchmarkOutcome:
    """One benchmark, by default with numbers at its small size, from a fresh machine to the end of the program.

    Equal runs are made once; nobody can write to the arrays that they give.
    """
    run = Run(machine=MACHINE)
    run.options = acc.OpenACCOptions(compiler=compiler, phantom=phantom, num_devices=devices)
    run.set("jit.compile", 0.0)
    options.setdefault("size", "" if phantom else "test")
    experiment = BenchmarkExperiment(benchmark(name), devices=devices, **options)

    async def main() -> BenchmarkOutcome:
        (outcome,) = await run.parallel(experiment.run)
        await run.finish()
        return outcome

    outcome = run.sim.run(main)
    for values in outcome.results.values():
        values.flags.writeable = False
    return outcome
