"""The JACC claims are the paper's, each has a judge, and the judges judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import pytest
from invented_results import result_of

from offloadrt.extensions.evidence.validation.judging import Judgement, hear
from offloadrt.papers.jacc import judges
from offloadrt.papers.jacc.judges import DETAILED, DIVISION, PAPER
from offloadrt.study import execute
from offloadrt.study.reporting.results import Result
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point

GRID = PAPER.grid("quick", RunSpec())
Measure = Callable[[Mapping[str, Any]], dict[str, Any]]


def _invented(measure: Measure) -> Callable[[Sequence[Point]], list[Result]]:
    """Answers that `measure(parameters)` makes up; `ran` among them is how many iterations the point asks for."""

    def answer(point: Point) -> Result:
        parameters = dict(point.parameters)
        if "benchmark" in parameters:
            iterations = judges.iterations_of(str(parameters["benchmark"]), str(parameters["size"]))
            parameters["ran"] = max(1, round(iterations * float(str(parameters["fraction"]))))
            made = {"iterations": parameters["ran"], **measure(parameters)}
        else:
            made = measure(parameters)
        return result_of(point, **made)

    return lambda points: [answer(point) for point in points]


def judged(claim: str, measure: Measure) -> Judgement:
    grid = attrs.evolve(GRID, benchmarks=DETAILED)
    return hear([PAPER.bench.judges[f"jacc.{claim}"]], grid, _invented(measure))[f"jacc.{claim}"]


def timed(**by_execution: float) -> Measure:
    """Transfers of 1 s; iterations take so long with each execution step (`gcc_sync` under GCC)."""

    def run(of: Mapping[str, Any]) -> dict[str, Any]:
        key = f"{of['compiler']}_{of['execution']}"
        each = by_execution.get(key, by_execution.get(of["execution"], 1.0))
        whole = judges.iterations_of(of["benchmark"])
        return {"total_s": 1.0 + each * of["ran"] * 1000 / whole}

    return run


@pytest.mark.parametrize(
    ("claim", "measure", "holds"),
    [
        ("async.pgi", timed(sync=1.04), True),
        ("async.pgi", timed(sync=1.005), False),
        ("async.gcc", timed(sync=1.15), True),
        ("async.gcc", timed(sync=1.05), False),
        ("async.gcc_gt_pgi", timed(gcc_sync=1.14, sync=1.04), True),
        ("async.gcc_gt_pgi", timed(gcc_sync=1.11, sync=1.04), False),
        ("async.overlap", timed(overlap=0.99), True),
        ("async.overlap", timed(overlap=1.03), False),
    ],
)
def test_execution_steps(claim: str, measure: Measure, holds: bool) -> None:
    judgement = judged(claim, measure)
    assert judgement.holds is holds
    assert holds or judgement.reason


@pytest.mark.parametrize(("pooled", "holds"), [(1.1, True), (1.2, False), (0.85, False)])
def test_pools_are_judged_for_each_benchmark(pooled: float, holds: bool) -> None:
    found = judged("gcc.pool_competitive", lambda of: {"total_s": (pooled if of["pools"] else 1.0) * of["ran"]})
    assert found.holds is holds and "EP" not in found.emulated


WARM = 5


def shared(alone: float, kernel: float, exchange: float, rest: float = 0.0, name: str = "long") -> Measure:
    """A kernel that is divided from its sixth execution on; seconds of an execution, alone and divided."""

    def run(of: Mapping[str, Any]) -> dict[str, Any]:
        ran = of["ran"]
        divided = 0 if of["strategy"] == "single" else ran if of["strategy"] == "always" else max(0, ran - WARM)
        kernel_s = alone * (ran - divided) + kernel * divided
        scale = 1.0 if of["gpus"] != 2 else 2.0
        figures = {"kernel_s": kernel_s, "communication_s": exchange * scale * divided}
        return {
            **figures,
            **{f"{name}.{key}": value for key, value in figures.items()},
            f"{name}.executions": ran,
            f"{name}.divided": divided,
            f"{name}.adapted": divided > 0,
            "total_s": kernel_s + exchange * divided + rest,
            "write_bytes": 1e6,
            "bandwidth_gb_s": 24.0,
        }

    return run


def test_a_few_iterations_stand_for_all() -> None:
    """Himeno's 1003: five alone, the others divided."""
    claim = "detail.Himeno.{}"
    good = shared(alone=30e-3, kernel=12e-3, exchange=11.2e-3)
    said = {column: judged(claim.format(column), good) for column in ("commkernel", "ktotal", "kadapted", "comm")}
    figures = {column: float(one.emulated.split()[0]) for column, one in said.items()}
    assert figures["kadapted"] == pytest.approx(998 * 12.0, rel=1e-4)
    assert figures["ktotal"] == pytest.approx(998 * 12.0 + 5 * 30.0, rel=1e-4)
    assert figures["comm"] == pytest.approx(998 * 11.2, rel=1e-4)
    assert figures["commkernel"] == pytest.approx(figures["ktotal"] + figures["comm"], rel=1e-4)
    assert said["comm"].holds and said["commkernel"].holds and not said["kadapted"].holds


@pytest.mark.parametrize(("gb_s", "holds"), [(24.0, True), (28.0, False), (20.0, False)])
def test_bandwidths_are_banded(gb_s: float, holds: bool) -> None:
    measure = shared(1.0, 0.3, 0.1)
    assert judged("detail.Himeno.bw", lambda of: {**measure(of), "bandwidth_gb_s": gb_s}).holds is holds


@pytest.mark.parametrize(
    ("claim", "measure", "holds"),
    [
        ("multi.kernel.BT.pgi", shared(3.0, 1.0, 0.1), True),
        ("multi.kernel.BT.pgi", shared(3.9, 1.0, 0.1), False),
        ("multi.kernel.BT.gcc", shared(3.9, 1.0, 0.1), True),
        ("multi.kernel.SP.pgi", shared(3.9, 1.0, 0.1), True),
        ("multi.kernel.SP.gcc", shared(2.9, 1.0, 0.1), False),
        ("multi.ep", shared(1.0, 1.0, 0.01), True),
        ("multi.ep", shared(1.0, 1.0, 0.06), False),
        ("himeno.XL.kernel", shared(3.6, 1.0, 0.1, name="jacobi"), True),
        ("himeno.XL.kernel", shared(3.0, 1.0, 0.1, name="jacobi"), False),
        ("himeno.XL.comm", shared(3.6, 1.0, 0.1, name="jacobi"), True),
        ("himeno.size_trend", shared(3.6, 1.0, 0.1, name="jacobi"), False),
    ],
)
def test_ratios_are_taken_literally(claim: str, measure: Measure, holds: bool) -> None:
    judgement = judged(claim, measure)
    assert judgement.holds is holds
    assert holds or judgement.reason


def test_sizes_have_to_rise_both_ways() -> None:
    def rising(of: Mapping[str, Any]) -> dict[str, Any]:
        more = {"M": 0.0, "L": 0.1, "XL": 0.2}[of["size"]]
        return shared(3.0 + more, 1.0, 0.1 + (more if of["gpus"] == 2 else 0.0), name="jacobi")(of)

    assert judged("himeno.size_trend", rising).holds


@pytest.mark.parametrize(("rest", "holds"), [(10.0, True), (0.0, False)])
def test_what_the_host_does_beside_kernels_lessens_the_gain(rest: float, holds: bool) -> None:
    found = judged("multi.other", shared(1.0, 0.3, 0.1, rest))
    assert found.holds is holds and all(name in found.emulated for name in DETAILED)


FACTS: dict[str, Any] = {
    "compilations": 2, "pushes": 40, "first_s": 3.2, "compile_s": 3.0, "later_s": 1e-5, "value": 7.0,
    "routines": "jacc_copyin, jacc_create, jacc_kernel_push, jacc_copyout, jacc_delete",
    "K1_queue": 0, "K2_queue": 1, "K3_queue": 1, "K4_queue": 1, "K1_begin": 0, "K1_end": 5, "K2_begin": 1, "K2_end": 6,
    "K3_begin": 6, "K3_end": 9, "K4_begin": 9, "K4_end": 12, "out_begin": 12,
    "iterations": 8, "least_iterations": 8, "flops": 1.0, "bytes": 0.25, "equal": True, "kernel_s": 1.0,
    "least_owned": 8, "most_owned": 9, "row_bytes": 1, "owned": 32, "written_bytes": 32, "executions": 12,
    "least_sent": 288, "most_sent": 288, "transfers": 144, "least_wait_s": 1e-6, "shared_ps": 0,
    "outermost_dimension": 0, "carried_dimension": 1, "joined_dimension": 1, "outermost_segments": 1,
    "carried_segments": 16, "joined_segments": 4, "rows": 16, "planes": 4,
}  # fmt: skip
SPECIALIZED = {"plain": 1, "var_opt": 2, "restrict": 1, "both": 1, "aliased": "y", "value": 12.0}


@pytest.mark.parametrize(
    ("claim", "right", "wrong"),
    [
        ("mech.layer", {}, {"compilations": 40}),
        ("mech.layer", {}, {"later_s": 4.0}),
        ("mech.layer", {}, {"value": 6.0}),
        ("mech.async", {}, {"K2_queue": 0}),
        ("mech.async", {}, {"K2_begin": 5}),
        ("mech.async", {}, {"K3_begin": 5}),
        ("mech.async", {}, {"K4_begin": 8}),
        ("mech.async", {}, {"out_begin": 11}),
        ("mech.specialize", SPECIALIZED, {"var_opt": 1}),
        ("mech.specialize", SPECIALIZED, {"aliased": ""}),
        ("mech.pred_dup", {}, {"least_iterations": 2}),
        ("mech.pred_dup", {}, {"flops": 0.25}),
        ("mech.pred_dup", {}, {"bytes": 0.5}),
        ("mech.pred_dup", {}, {"equal": False}),
        ("mech.pred_write_even", {}, {"most_owned": 10}),
        ("mech.pred_write_even", {}, {"owned": 31}),
        ("mech.pred_write_even", {}, {"least_sent": 280}),
        ("mech.pred_comm", {}, {"transfers": 72}),
        ("mech.pred_comm", {}, {"least_wait_s": 0.0}),
        ("mech.pred_comm", {}, {"shared_ps": 1}),
        ("detail.sum", {}, {"shared_ps": 1}),
        ("mech.pred_multidim", {}, {"joined_dimension": 0}),
        ("mech.pred_multidim", {}, {"carried_segments": 1}),
    ],
)
def test_a_mechanism_is_judged_by_its_facts(claim: str, right: dict[str, Any], wrong: dict[str, Any]) -> None:
    assert judged(claim, lambda of: {**FACTS, **right}).holds
    refuted = judged(claim, lambda of: {**FACTS, **right, **wrong})
    assert refuted.holds is False and refuted.reason


def test_the_controller_is_judged_by_counts() -> None:
    def counts(long: int, short: int) -> Measure:
        return lambda of: {"executions": 12, "divided": long if of["planes"] == 40 else short}

    assert judged("mech.enable", counts(7, 0)).holds
    assert judged("mech.enable", counts(8, 0)).holds is False
    assert judged("mech.enable", counts(7, 1)).holds is False


def test_a_kernel_that_loses_is_judged_by_counts() -> None:
    def divided(measured: int, infinite: int) -> Measure:
        return lambda of: {"divided": measured if of["eff_dup"] == "measured" else infinite}

    assert judged("mech.disable1", divided(0, 5)).holds
    assert judged("mech.disable1", divided(0, 6)).holds is False
    assert judged("mech.disable2", divided(5, 6)).holds
    assert judged("mech.disable2", divided(6, 6)).holds is False
    assert judged("mech.disable2", divided(5, 5)).holds is False


def test_pools_save_calls_and_time() -> None:
    def costs(pools_s: float, allocations: int = 400) -> Measure:
        def run(of: Mapping[str, Any]) -> dict[str, Any]:
            if of["compiler"] == "gcc" and not of["pools"]:
                return {"allocations": allocations, "allocating_s": 0.8, "elapsed_s": 1.0}
            return {"allocations": 1, "allocating_s": 0.0, "elapsed_s": 0.2 + pools_s}

        return run

    assert judged("mech.gcc_pools", costs(0.05)).holds
    assert judged("mech.gcc_pools", costs(0.1)).holds is False
    assert judged("mech.gcc_pools", costs(0.05, allocations=200)).holds is False
    assert judged("mech.alloc_latency", costs(0.0)).holds


def test_longer_kernels_have_to_gain_more() -> None:
    def gains(exchange: float) -> Measure:
        return lambda of: {
            "kernel_s": of["rows"] * (1.0 if of["strategy"] == "single" else 0.25),
            "communication_s": exchange + 0.1 * of["rows"],
        }

    assert judged("detail.longer_better", gains(1e4)).holds
    assert judged("detail.longer_better", gains(0.0)).holds is False


def test_the_probe_s_values_are_those_of_numpy() -> None:
    found = execute(DIVISION, {"planes": 3, "rows": 9, "steps": 3, "data": True}, record=True).measured
    assert found["equal"] is True and found["divided"] == 3
