"""Each scenario of the project, at the tiny parameters of its pins, with a fault at many of its awaits."""

from __future__ import annotations

import pytest
from test_scenarios import pin

from offloadrt.extensions.exploring.explore import everywhere
from offloadrt.extensions.exploring.program import ScenarioProgram
from offloadrt.study.scripts import registry
from offloadrt.study.sweep import InProcess

RUNS = 60
"""Awaits of each case, evenly chosen where it has more."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name, cases in pin.CASES.items() for number in range(len(cases))]
)
def test_every_fault_ends_as_documented_and_leaves_nothing_behind(name: str, number: int) -> None:
    scenario = registry.find(name)
    program = ScenarioProgram(registry.reference(scenario), scenario.bind(pin.CASES[name][number]))
    found = everywhere(program, RUNS, InProcess())
    assert found.runs > 0 and not found.reference.is_error
    assert {counted.case.faults: counted.outcome.text for counted in found.failures} == {}
