"""Judges of the coefficients of variation: what the declared noise of a run makes of them, and what no noise can.

They are of role `calibrate`. The machine's noise is off; here it is set to what the paper reports of Copy, one draw a
run, the same for every configuration. A draw for each configuration would be a figure put in to get it out.
"""

from __future__ import annotations

import math

import attrs

from offloadrt.papers.zerocopy.judges.places import S2, THREADS, QmcpackGrid, bench
from offloadrt.study.reporting.results import Spread
from offloadrt.study.validation.judging import Hearing, Judgement

REPORTED = {claim.given.get("configuration"): claim.value for id, claim in bench.claims.items() if ".cov." in id}
"""The coefficients of variation that the paper reports, by configuration."""


@bench.judge("mi300a.cov.*")
def variation(grid: QmcpackGrid, configuration: str, declared: float, repeats: int) -> Hearing:
    plain = grid.point(
        {"size": S2, "threads": THREADS, "configuration": configuration, "fraction": grid.fraction},
    )
    options = attrs.evolve(plain.options, overrides={**plain.options.overrides, "noise.run": str(declared)})
    results = yield [attrs.evolve(plain, options=attrs.evolve(options, seed=seed)) for seed in range(repeats)]
    cov = Spread.of([result.elapsed_s for result in results]).cov
    assert cov is not None
    return Judgement(
        f"{cov:.2g}",
        None,
        f"a declared input: with one draw a run for all configurations it comes to {cov:.2g} (paper: "
        f"{REPORTED[configuration]}); different noise for each configuration is not put in",
    )


@bench.judge("mi300a.table2.cov")
def variation_of_specaccel(grid: QmcpackGrid, declared: float, repeats: int) -> Hearing:
    yield []
    return Judgement(
        "–",
        None,
        f"a declared input: noise.run is off by default, {declared} is its candidate ({repeats} runs could vary by "
        f"{math.sqrt(repeats):.2g} at most; the paper's 4.2 and 2.9 of 4 runs are impossible, the most is 2)",
    )
