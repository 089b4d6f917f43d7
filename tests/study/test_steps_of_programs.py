"""Programs of papers that say where their steps begin: a few of them stand for all, in every figure they return."""

from __future__ import annotations

from typing import Any

import pytest

from offloadrt.extensions.sampling import phases
from offloadrt.study import execute, find_scenario

PROGRAMS: list[tuple[str, dict[str, Any], int]] = [
    ("specaccel", {"benchmark": "stencil", "fraction": 0.005}, 79),
    ("specaccel", {"benchmark": "lbm", "fraction": 0.02}, 49),
    ("specaccel", {"benchmark": "ep", "fraction": 0.02}, 22),
    ("specaccel", {"benchmark": "spC", "fraction": 0.2, "configuration": "implicit_zero_copy"}, 89),
    ("specaccel", {"benchmark": "bt", "fraction": 0.3}, 67),
    ("ranks", {"steps": 60, "processes": 2, "threads": 2}, 60),
]
STARTS_ONCE = {"decisions", "changes", "host_faults", "fault_batches", "fault_groups", "to_device_gb", "to_host_gb"}
"""What happens when a program starts, and little later: a few instances do not tell it well."""


@pytest.fixture(autouse=True)
def short_programs_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "WORTH_TIMERS", 1)


@pytest.mark.parametrize(("name", "parameters", "steps"), PROGRAMS)
def test_a_few_steps_stand_for_all(name: str, parameters: dict[str, Any], steps: int) -> None:
    whole, few = (execute(find_scenario(name), parameters, sample_phases=sampled) for sampled in (False, True))
    (phase,) = few.phases
    assert phase.instances == steps and phase.instances - phase.skipped <= max(7, steps // 4)
    assert few.events < whole.events / 2
    assert few.elapsed_s == pytest.approx(whole.elapsed_s, rel=0.03)
    assert few.measured.keys() == whole.measured.keys()
    for figure, value in whole.measured.items():
        if figure not in STARTS_ONCE and isinstance(value, (int, float)):
            assert few.measured[figure] == pytest.approx(value, rel=0.06, abs=2), figure
