"""Seeded concurrency bugs in copies of runtime components are found, and the sound runtime is not accused."""

from __future__ import annotations

import mutant_programs
import mutants
import pytest

from offloadrt.extensions.exploring.explore import Exploration, explore
from offloadrt.extensions.exploring.schedules import SchedulePlan
from offloadrt.study.sweep import InProcess

RUNS = 10_000
STRATEGIES = ("random", "pct:3", "delay:2", "dfs:1:20us", "costs:0.3")


def explored(main: mutant_programs.Main, strategy: str, runs: int) -> Exploration:
    return explore(mutant_programs.program(main), SchedulePlan.parse(strategy), runs, InProcess())


@pytest.mark.parametrize("name", mutants.MUTANTS)
def test_every_seeded_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seed, main = mutants.MUTANTS[name]
    seed(monkeypatch)
    found = explored(main, "delay:2", RUNS)
    assert not found.reference.is_error, "the order of scheduling does not show it"
    assert found.failures


@pytest.mark.parametrize("name", mutant_programs.SOUND)
def test_the_sound_runtime_survives_a_few(name: str) -> None:
    assert not explored(mutant_programs.SOUND[name], "delay:2", 8).failures


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", mutant_programs.SOUND)
def test_the_sound_runtime_survives_many(name: str, strategy: str) -> None:
    assert not explored(mutant_programs.SOUND[name], strategy, RUNS // len(mutant_programs.SOUND)).failures
