"""Every scenario of the project runs, and gives what is pinned for it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from offloadrt.study.scripts import registry

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("pin", HERE / "pin.py")
assert _spec is not None and _spec.loader is not None
pin = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pin)


def test_every_scenario_has_its_pins() -> None:
    questions = {f"{folder}/{name}" for folder in ("questions", "concepts") for name in registry.shipped(folder)}
    assert {*registry.shipped(), *questions} == set(pin.CASES)
    assert questions and not questions & {*registry.shipped()}, "they are asked for by name, not listed with the rest"


LONG = {("oversubscription", 3), ("unified_memory", 3)}
"""Cases that take seconds each; the other cases of their scenarios are quick."""


@pytest.mark.parametrize(
    ("name", "number"),
    [
        pytest.param(name, number, marks=[pytest.mark.slow] * ((name, number) in LONG))
        for name, cases in pin.CASES.items()
        for number in range(len(cases))
    ],
)
def test_a_scenario_gives_what_is_pinned(name: str, number: int) -> None:
    pinned: list[dict[str, Any]] = json.loads((pin.PINNED / f"{name}.json").read_text())
    assert [case["parameters"] for case in pinned] == pin.CASES[name], "pin anew: python tests/scenarios/pin.py"
    expected, found = pinned[number], pin.outcome(name, pin.CASES[name][number])
    assert found["calls"] == expected["calls"]
    assert _split(found["measured"], str) == _split(expected["measured"], str)
    numbers = int | float | None
    assert _split(found["measured"], numbers) == pytest.approx(_split(expected["measured"], numbers), rel=1e-12)
    assert found["events"] == expected["events"]
    assert found["trace_hash"] == expected["trace_hash"]


def _split(measured: dict[str, Any], kind: Any) -> dict[str, Any]:
    """The figures of one kind: texts, or the rest."""
    return {name: value for name, value in measured.items() if isinstance(value, kind)}
