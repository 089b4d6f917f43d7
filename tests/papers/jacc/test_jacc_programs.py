"""How a benchmark is written down, how good its code is, and what the scenario refuses."""

from __future__ import annotations

from typing import Any

import pytest
from jacc_rig import MACHINE, run_benchmark

from offloadrt import ParameterError, kernel
from offloadrt import openacc as acc
from offloadrt.machine import load
from offloadrt.papers.jacc.programs.benchmark import (
    EP_BY_GCC,
    SLOWER_WITH_RESTRICT,
    BenchmarkProgram,
    Number,
    OnHost,
    RepeatedSteps,
    call,
    extent,
)
from offloadrt.study import execute, find_scenario


@kernel
def scale(x, factor):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        x[i] = factor * x[i]


def test_executions_are_counted_through_repetitions() -> None:
    x = extent("x", 8)
    one, other = call(scale, x, 2.0), call(scale, x, 3.0)
    program = BenchmarkProgram(
        (other, RepeatedSteps(3, (one, OnHost((x,)))), one), 10, setup=(one,), finish=(other,), copyin=(x,)
    )
    assert program.executions() == {one: 1 + 10 * 4, other: 10 + 1}
    assert program.launches(2) == {"scale": 1 + 2 * 4 + 2 + 1}
    assert program.nbytes == 64


def test_a_number_is_looked_at_when_its_kernel_runs() -> None:
    x, factor = extent("x", 8), Number(2.0)
    one = call(scale, x, factor)
    factor.value = 5.0
    assert one.values == (x, 5.0)


def seconds(name: str, **options: Any) -> dict[str, float]:
    found = run_benchmark(name, phantom=True, fraction=1e-4, **options)
    return {name: row.execution_s for name, row in found.kernels.items()}


def test_a_programs_kernels_take_together_what_is_known_of_them() -> None:
    """Himeno 33.726 s in 1003 iterations, EP 37.485 s in 512 blocks: the host's time, with a launch and a wait each."""
    machine = load(MACHINE)
    besides = sum(machine.value(entry) for entry in ("driver.launch", "launch.latency", "sync.latency"))
    for layer in ("jacc", "original"):
        two, four = seconds("Himeno", layer=layer).values(), seconds("EP", layer=layer).values()
        assert sum(two) + 2 * besides == pytest.approx(33.726 / 1003, rel=1e-9)
        assert sum(four) + 3 * besides == pytest.approx(37.485 / 512, rel=1e-6), (
            "one kernel runs once, not in each block"
        )


def test_the_counts_alone_divide_a_programs_time_among_its_kernels() -> None:
    """Himeno's first kernel moves 14 arrays of single precision, its second one 2; both wait for memory."""
    himeno = seconds("Himeno")
    assert himeno["jacobi"] / himeno["copy_back"] == pytest.approx(14 / 2, rel=1e-3)


def test_the_compilers_code_differs_by_the_papers_factors() -> None:
    pgi, gcc = seconds("EP")["gaussian_pairs"], seconds("EP", compiler="gcc")["gaussian_pairs"]
    restrict = seconds("EP", compiler="gcc", flags=acc.PushFlags.RESTRICT)["gaussian_pairs"]
    assert gcc / pgi == pytest.approx(EP_BY_GCC)
    assert restrict / gcc == pytest.approx(SLOWER_WITH_RESTRICT)


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ({"size": "XXL"}, "size"),
        ({"layer": "original"}, "strategy"),
        ({"benchmark": "IS"}, "benchmark"),
        ({"gpus": 9}, "gpus"),
        ({"fraction": 0.0}, "fraction"),
    ],
)
def test_a_bad_parameter_is_named(parameters: dict[str, Any], names: str) -> None:
    with pytest.raises(ParameterError, match=names):
        execute(find_scenario("jacc"), parameters)


def test_every_layer_and_strategy_reports_each_kernel() -> None:
    for layer, strategy in (("original", "single"), ("jacc", "single"), ("jacc", "duplicated"), ("jacc", "always")):
        asked = {"size": "test", "gpus": 2, "layer": layer, "strategy": strategy}
        measured = execute(find_scenario("jacc"), asked).measured
        for name in ("jacobi", "copy_back"):
            assert measured[f"{name}.executions"] == 8
            assert float(measured[f"{name}.kernel_s"] or 0.0) > 0.0
        assert (float(measured["communication_s"] or 0.0) > 0.0) is (strategy == "always")
        kernel_s = sum(float(measured[f"{name}.kernel_s"] or 0.0) for name in ("jacobi", "copy_back"))
        assert kernel_s == pytest.approx(measured["kernel_s"])
