"""Numbers that papers report of their programs, and that were put in, as they come out."""

from __future__ import annotations

from collections.abc import Sequence

from invented_results import result_of

from offloadrt.extensions.evidence.validation.judging import Judgement, hear, paper_named
from offloadrt.study.reporting.results import Result
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point
from offloadrt.trace import CallStatistics


def test_inputs_of_jacc() -> None:
    """Two kernels of which one is divided; each iteration takes 100 executions."""
    paper = paper_named("jacc")
    checks = [check for id, check in paper.bench.checks.items() if id.split(".")[2] == "BT"]
    assert len(checks) == 5 and len(paper.bench.checks) == 50, "of ten benchmarks"

    def answers(points: Sequence[Point]) -> list[Result]:
        results = []
        for point in points:
            iterations = round(200 * float(str(point.parameters["fraction"])))
            figures = {"executions": 100 * iterations, "kernel_s": 0.5 * iterations, "iterations": iterations}
            named = {"a.executions": 1, "b.executions": 1, "a.adapted": True, "b.adapted": False}
            sizes = {"array_bytes": 4.915e9, "write_bytes": 342.05e6}
            results.append(result_of(point, **figures, **named, **sizes))
        return results

    found = hear(checks, paper.grid("quick", RunSpec()), answers)
    assert found["jacc.bench.BT"] == Judgement("4.915, 2", None, "+0.0%, -95.7%")
    assert found["jacc.detail.BT.adapted"] == Judgement("1", None, "-66.7%")
    assert found["jacc.detail.BT.write"] == Judgement("342.1", None, "-50.0%")
    assert found["jacc.detail.BT.launches"].emulated == "20100", "of 201 iterations"
    assert found["jacc.detail.BT.dup"] == Judgement("100500", None, "+13.3%")


def test_inputs_of_qmcpack() -> None:
    paper = paper_named("zerocopy")
    assert len(paper.bench.checks) == 7

    def answers(points: Sequence[Point]) -> list[Result]:
        calls = dict.fromkeys(("memory_async_copy", "memory_pool_allocate"), CallStatistics(30_000, 1.0, 1.0, 1.0, 1.0))
        results = [result_of(point, kernels=9_962.7) for point in points]
        for result in results:
            result.calls.update(calls, svm_attributes_set=CallStatistics(150_000, 1.0, 1.0, 1.0, 1.0))
        return results

    found = hear(list(paper.bench.checks.values()), paper.grid("quick", RunSpec()), answers)
    assert found["mi300a.table1.1t.kernels"] == Judgement("99627", None, "+0.0%"), "from a tenth of the steps"
    assert found["mi300a.eager.calls"] == Judgement("1500000", None, "+0.0%")
    assert found["mi300a.table1.1t.copies"] == Judgement("300000", None, "-2.5%")
