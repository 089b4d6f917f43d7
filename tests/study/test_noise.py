"""The operating system's noise: one draw a run, off by default."""

from __future__ import annotations

from typing import Any

import pytest

from offloadrt.study import Run, execute, find_scenario, scenario

QUIET, NOISY = {"noise.run": "0"}, {"noise.run": "0.03"}
SMALL = {"n": 1024, "iterations": 2}


@scenario
async def runtime_work(run: Run, steps: int = 10) -> dict[str, float]:
    """Nothing but steps of the runtime, one after another, on a core."""

    async def body(t: Any) -> None:
        for _ in range(steps):
            await run.machine.cores.compute(run.machine.jitter(1e-6), "runtime")

    await run.parallel(body)
    return {"slowness": run.machine.slowness}


def program(overrides: dict[str, str], seed: int = 0, gear: str = "turbo") -> tuple[float, str | None]:
    result = execute(find_scenario("fig2_zerocopy"), SMALL, overrides=overrides, seed=seed, gear=gear, hash=True)
    return result.elapsed_s, result.trace_hash


def test_noise_is_off_by_default_and_off_changes_nothing() -> None:
    assert program({}) == program(QUIET) == program(QUIET, seed=5)


def test_a_seed_is_a_run() -> None:
    first, again, other = program(NOISY, seed=1), program(NOISY, seed=1, gear="native"), program(NOISY, seed=2)
    assert first == again and first != other and first != program(QUIET)


def test_one_factor_slows_all_host_side_work_of_a_run() -> None:
    quiet = execute(runtime_work, overrides=QUIET)
    noisy = execute(runtime_work, overrides=NOISY, seed=3)
    factor = noisy.measured["slowness"]
    assert quiet.measured["slowness"] == 1.0 and factor != 1.0
    assert noisy.where_time_went["runtime"].total_s == pytest.approx(10e-6 * factor)  # type: ignore[operator]


@pytest.mark.parametrize("cov", [0.03, 0.1])
def test_runs_vary_as_the_entry_says(cov: float) -> None:
    repeated = execute(runtime_work, overrides={"noise.run": str(cov)}, repeat=400)
    spread = repeated.spreads["slowness"]
    assert spread.cov == pytest.approx(cov, rel=0.12)
    assert spread.mean == pytest.approx(1.0, abs=4 * cov / 400**0.5)
    assert {repeat.measured["slowness"] for repeat in repeated.repeats} >= {repeated.measured["slowness"]}
