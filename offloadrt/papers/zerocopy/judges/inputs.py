"""Numbers of calls of QMCPack that the paper reports and the program was built from, beside what is emulated."""

from __future__ import annotations

from collections.abc import Sequence

from offloadrt.papers.zerocopy.judges.places import COPY, EAGER, S2, QmcpackGrid, bench, call, runs
from offloadrt.study.reporting.results import Result
from offloadrt.study.validation.claims import Claim
from offloadrt.study.validation.judging import Asking
from offloadrt.study.validation.measured import number

CALLS = {"copies": "memory_async_copy", "allocs": "memory_pool_allocate"}


def _run(grid: QmcpackGrid, threads: int, configuration: str) -> Asking[Result]:
    results = yield from runs(grid, [(S2, threads, configuration)], grid.counted_fraction)
    return results[S2, threads, configuration]


@bench.beside("mi300a.table1.*t.kernels", "mi300a.table1.*t.copies", "mi300a.table1.*t.allocs")
def counted(grid: QmcpackGrid, claim: Claim) -> Asking[Sequence[float]]:
    _, _, threads, what = claim.id.split(".")
    result = yield from _run(grid, int(threads.removesuffix("t")), COPY)
    count = number(result.measured["kernels"]) if what == "kernels" else call(result, CALLS[what]).count
    return (count / grid.counted_fraction,)


@bench.beside("mi300a.eager.calls")
def prefaults(grid: QmcpackGrid, claim: Claim) -> Asking[Sequence[float]]:
    result = yield from _run(grid, 1, EAGER)
    return (call(result, "svm_attributes_set").count / grid.counted_fraction,)
