"""Runs side by side: ratios, cases, calls, and where the time went otherwise."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from offloadrt.study import ParameterError, Run, UserError, execute, find_scenario, scenario
from offloadrt.study.reporting.compare import Comparison, compare, differences
from offloadrt.study.reporting.results import Result, TimeShare
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import InProcess

TOYS = Path(__file__).with_name("toys.py")
QUEUEING = find_scenario(f"{TOYS}:queueing")


def compared(axes: dict[str, Any], name: str = "queueing", **asked: Any) -> Comparison:
    return compare(find_scenario(f"{TOYS}:{name}"), axes, InProcess(), **asked)


def ratios(found: Comparison, figure: str = "elapsed_s") -> list[list[float | None]]:
    return [[variant.figures[figure].ratio for variant in case.variants] for case in found.cases]


def test_a_ratio_is_the_baseline_over_the_variant() -> None:
    found = compared({"threads": ("2", "1", "4")})
    assert found.baseline == {"threads": 2} and ratios(found) == [[1.0, 2.0, 0.5]]
    assert [variant.parameters for variant in found.cases[0].variants] == [
        {"threads": 2},
        {"threads": 1},
        {"threads": 4},
    ]
    assert found.fixed == {"hold_s": 0.5, "policy": "fair", "note": None}


def test_the_first_value_of_each_parameter_is_the_baseline() -> None:
    found = compared({"threads": ("1", "2"), "hold_s": ("1", "2")})
    assert found.baseline == {"threads": 1, "hold_s": 1.0}
    assert ratios(found) == [[1.0, 1 / 2, 1 / 2, 1 / 4]]


def test_what_the_baseline_does_not_name_is_compared_on_its_own() -> None:
    found = compared({"threads": ("1", "4"), "hold_s": ("1", "2")}, baseline={"hold_s": "2"})
    assert [case.parameters for case in found.cases] == [{"threads": 1}, {"threads": 4}]
    assert ratios(found) == [[1.0, 2.0], [1.0, 2.0]]
    assert [variant.parameters for variant in found.cases[0].variants] == [{"hold_s": 2.0}, {"hold_s": 1.0}]


def test_machines_and_configurations_are_compared_as_parameters_are() -> None:
    """A variant's figures are those of a run on its machine; a file keeps its name, whatever it calls its machine."""
    found = compare(find_scenario("launches"), {"machine": ("alex-a100", "t4")}, InProcess())
    assert found.baseline == {"machine": "alex-a100"} and found.machine == "alex-a100, t4"
    times = [execute(find_scenario("launches"), machine=name).elapsed_s for name in ("alex-a100", "t4")]
    assert [variant.figures["elapsed_s"].value for variant in found.cases[0].variants] == times
    given = {"threads": (2,), "n": (64,), "configuration": ("copy", "managed"), "machine": ("t4", "h100")}
    cases = compare(find_scenario("overlap"), given, InProcess(), baseline={"machine": "t4"}).cases
    assert [case.parameters for case in cases] == [{"configuration": "copy"}, {"configuration": "managed"}]


def test_measured_figures_and_columns_of_the_table_are_compared() -> None:
    found = compared({"threads": ("1", "4")}, measures=["per_thread_s", "contended", "events"])
    assert found.measures == ("elapsed_s", "per_thread_s", "contended", "events")
    assert ratios(found, "per_thread_s") == [[1.0, 1.0]]
    assert ratios(found, "contended") == [[None, 0.0]]


def test_figures_that_the_scenario_names_are_compared_unless_others_are_asked_for() -> None:
    named = attrs.evolve(QUEUEING, measures=("per_thread_s",))
    axes = {"threads": ("1", "4")}
    assert compare(named, axes, InProcess()).measures == ("elapsed_s", "per_thread_s")
    assert compare(named, axes, InProcess(), measures=["contended"]).measures == ("elapsed_s", "contended")


def test_a_scenario_brings_its_own_comparison() -> None:
    found = compared({"hold_s": ("1",)})
    assert found.baseline == {"threads": 1, "policy": "fair"} and len(found.results) == 6


def test_nothing_to_compare() -> None:
    with pytest.raises(UserError, match="give a parameter the values to compare"):
        compared({"left": ("3",)}, name="picky")


@scenario
async def started(run: Run, extra: int = 0) -> None:
    """Calls before, in and after the measured time."""
    for count in (2, 1 + extra):
        async with run.measure() if count != 2 else contextlib.nullcontext():
            for _ in range(count):
                await run.sim.sleep(1.0)
                run.machine.calls.add("cuMemAlloc", 1.0)  # type: ignore[union-attr]
    run.machine.calls.add("cuMemFree", 0.5)  # type: ignore[union-attr]


def test_calls_are_those_of_the_whole_run() -> None:
    found = compare(started, {"extra": (0, 1)}, InProcess())
    one, two = found.cases[0].variants
    assert found.whole_run and (one.calls["cuMemAlloc"].count, two.calls["cuMemAlloc"].count) == (3, 4)
    assert one.result.calls["cuMemAlloc"].count == 1 and one.result.calls_outside["cuMemFree"].count == 1
    assert two.calls["cuMemAlloc"].ratio == 3 / 4


@pytest.mark.parametrize(
    ("axes", "asked", "message"),
    [
        ({"threads": ("2", "2")}, {}, "2 is given twice"),
        ({"threads": ("2", "100")}, {}, "100 is out of range"),
        ({"treads": ("2", "4")}, {}, "did you mean threads"),
        ({"threads": ("2", "4")}, {"baseline": {"threads": "3"}}, "baseline 3 is not among the values 2, 4"),
        ({"threads": ("2", "4")}, {"baseline": {"policy": "fair"}}, "compared: threads"),
        ({"threads": ("2", "4")}, {"measures": ["per_thread"]}, "no number of that name; did you mean per_thread_s"),
        ({"threads": ("2", "4")}, {"measures": ["policy"]}, "no number of that name"),
    ],
)
def test_what_cannot_be_compared(axes: dict[str, Any], asked: dict[str, Any], message: str) -> None:
    with pytest.raises((UserError, ParameterError), match=message):
        compared(axes, **asked)


def test_a_baseline_that_fails_is_named() -> None:
    with pytest.raises(UserError, match="compare: left=2: parameter right: must differ from left"):
        compared({"left": ("2", "1")}, name="picky")


def test_a_variant_that_cannot_be_run_is_listed_beside_those_that_can() -> None:
    found = compared({"left": ("1", "2", "3")}, name="picky")
    assert [variant.parameters["left"] for variant in found.cases[0].variants] == [1, 3]
    (refused,) = found.refused
    assert refused.parameters == {"left": 2} and "must differ from left" in refused.reason
    assert "not run: left=2: parameter right: must differ from left" in found._repr_html_()


@scenario
async def drawn_longer(run: Run, factor: int = 1) -> dict[str, float]:
    """Takes a drawn time, times a factor."""
    dt = factor * float(run.sim.rng.uniform(1, 2))
    await run.sim.sleep(dt)
    return {"drawn_s": dt}


def test_repeated_runs_compare_medians_and_show_their_variation() -> None:
    found = compare(drawn_longer, {"factor": (1, 3)}, InProcess(), options=RunSpec(repeat=4), measures=["drawn_s"])
    one, three = (variant.figures["elapsed_s"] for variant in found.cases[0].variants)
    times = sorted(execute(drawn_longer, seed=seed).elapsed_s for seed in range(4))
    assert one.value == pytest.approx((times[1] + times[2]) / 2)
    assert three.ratio == pytest.approx(1 / 3)
    assert one.cov is not None and three.cov == pytest.approx(one.cov)


def _spent(**seconds: float) -> Result:
    plain = execute(QUEUEING)
    return attrs.evolve(plain, where_time_went={name: TimeShare(dt, dt / 10) for name, dt in seconds.items()})


def test_the_largest_differences_come_first() -> None:
    base = _spent(driver=4.0, kernels=3.0, copies=2.0, compute=1.0)
    found = differences(base, _spent(driver=3.5, kernels=3.0, device=3.0, compute=0.5), most=3)
    assert [(one.category, one.more_s) for one in found] == [("device", 3.0), ("copies", -2.0), ("driver", -0.5)]
    assert found[1].baseline_share == 0.2 and found[1].variant_share == 0.0


def test_calls_are_set_side_by_side() -> None:
    overlap = find_scenario("overlap")
    axes = {"configuration": ("copy", "managed"), "n": (1024,), "threads": (4,)}
    alex = RunSpec(machine="alex-a100")
    copy, managed = compare(overlap, axes, InProcess(), options=alex).cases[0].variants
    assert list(copy.calls) == list(managed.calls)
    assert copy.calls["cuLaunchKernel"].count == managed.calls["cuLaunchKernel"].count == 4
    assert managed.calls["cuMemAlloc"].count == 0 and managed.calls["cuMemAlloc"].ratio is None
    synchronize = "cuLaunchKernel"
    assert managed.calls[synchronize].ratio == copy.calls[synchronize].total_s / managed.calls[synchronize].total_s
    assert managed.differences and not copy.differences


def test_a_comparison_is_one_json_object() -> None:
    record = json.loads(compared({"threads": ("1", "2")}).to_json())
    variants = record["cases"][0]["variants"]
    assert variants[1]["figures"]["elapsed_s"]["ratio"] == 0.5 and variants[1]["result"]["elapsed_s"] == 1.0
