"""Running one scenario from Python: results, windows, seeds, errors."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest

from offloadrt.study import ParameterError, Run, ScriptFailed, UserError, execute, find_scenario, scenario
from offloadrt.study.errors import ScenarioRefused
from offloadrt.study.reporting.results import to_json
from offloadrt.study.running.execution import patient_collector

TOYS = Path(__file__).with_name("toys.py")
QUEUEING = find_scenario(f"{TOYS}:queueing")
PICKY = find_scenario(f"{TOYS}:picky")
DRAWN = find_scenario(f"{TOYS}:drawn")


@pytest.mark.parametrize("gear", ["native", "turbo"])
def test_a_result_says_what_was_measured(gear: str) -> None:
    result = execute(QUEUEING, {"threads": "4"}, gear=gear)
    assert result.elapsed_s == 2.0
    assert result.measured == {"per_thread_s": 0.5, "contended": 3, "note": None}
    assert result.parameters == {"threads": 4, "hold_s": 0.5, "policy": "fair", "note": None}
    assert result.machine == "alex-a100" and result.seed == 0 and result.trace_hash is None


def test_the_json_object_has_the_agreed_keys() -> None:
    record = json.loads(to_json(execute(QUEUEING)))
    assert list(record) == [
        "scenario", "parameters", "machine", "runtime", "seed", "elapsed_s", "measured", "calls", "locks", "devices",
        "bytes", "faults", "events", "trace_hash", "where_time_went",
    ]  # fmt: skip
    assert record["bytes"] == {"h2d": 0, "d2h": 0, "d2d": 0, "p2p": 0}


def test_both_gears_give_one_hash() -> None:
    hashes = {
        execute(QUEUEING, {"threads": 8}, gear=gear, hash=True).trace_hash for gear in ("native", "turbo", "turbo")
    }
    assert len(hashes) == 1 and None not in hashes


def test_the_measured_window_and_the_seed() -> None:
    first, second, again = (execute(DRAWN, seed=seed).elapsed_s for seed in (1, 2, 1))
    assert 1 <= first <= 2 and first != second and first == again


def test_repeats_report_the_median_run() -> None:
    result = execute(DRAWN, seed=10, repeat=5)
    times = [repeat.elapsed_s for repeat in result.repeats]
    assert [repeat.seed for repeat in result.repeats] == [10, 11, 12, 13, 14]
    assert result.elapsed_s == sorted(times)[2]
    with pytest.raises(UserError, match="--repeat 0"):
        execute(DRAWN, repeat=0)


def test_windows_add_up() -> None:
    @scenario
    async def windows(run: Run) -> None:
        await run.sim.sleep(1)
        for _ in range(3):
            async with run.measure():
                await run.sim.sleep(2)
            await run.sim.sleep(4)
        with pytest.raises(UserError, match="no measured window"):
            run.windows.end()
        run.windows.start()
        with pytest.raises(UserError, match="is open already"):
            run.windows.start()
        await run.sim.sleep(1)

    assert execute(windows).elapsed_s == 7.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gear": "fast"}, "--gear fast"),
        ({"strategy": "lifo"}, "--strategy lifo: it can be fifo"),
        ({"machine": "alex-a10"}, "did you mean alex-a100"),
        ({"overrides": {"alloc.cudaFre": "1us"}}, "alloc.cudaFree"),
        ({"overrides": {"alloc.cudaFree": "1 kg"}}, "alloc.cudaFree"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        execute(QUEUEING, {}, **options)


def test_a_scenario_may_refuse_its_parameters() -> None:
    with pytest.raises(ParameterError, match="parameter right: must differ from left"):
        execute(PICKY, {"right": 1})


@pytest.mark.parametrize("gear", ["native", "turbo"])
def test_a_scenario_that_raises_shows_its_own_frames(gear: str) -> None:
    with pytest.raises(ScriptFailed) as caught:
        execute(PICKY, {"bang": True}, gear=gear)
    shown = str(caught.value)
    assert isinstance(caught.value.__cause__, BaseException)
    assert "ZeroDivisionError: as told" in shown and "in picky" in shown and "in _deep" in shown
    assert "/sim/" not in shown and "/study/running/execution.py" not in shown and "trio/" not in shown


def test_figures_are_plain_values() -> None:
    import numpy as np

    @scenario
    async def numpy_figures(run: Run) -> dict[str, Any]:
        return {"a": np.float64(1.5), "b": np.int32(2), "c": np.bool_(True)}

    @scenario
    async def arrays(run: Run) -> dict[str, Any]:
        return {"a": [1, 2]}

    @scenario
    async def number(run: Run) -> int:
        return 3

    measured = execute(numpy_figures).measured
    assert measured == {"a": 1.5, "b": 2, "c": True} and [type(value) for value in measured.values()] == [
        float,
        int,
        bool,
    ]
    for bad in (arrays, number):
        with pytest.raises(ScenarioRefused, match=r"test_execution\.py: scenario .* returned"):
            execute(bad)


def test_set_is_for_before_the_machine_runs() -> None:
    run = Run()
    run.set("alloc.cudaFree", "20 us")
    assert run.spec.value("alloc.cudaFree") == pytest.approx(20e-6)
    with pytest.raises(UserError, match="nonsense"):
        run.set("nonsense", 1)


def test_the_garbage_collector_is_as_before_after_a_run_that_made_it_patient() -> None:
    before, callbacks = gc.get_threshold(), list(gc.callbacks)
    with patient_collector():
        thresholds = [gc.get_threshold()[0]]
        for _ in range(6):
            gc.collect()
            thresholds.append(gc.get_threshold()[0])
    assert thresholds == [10_000, 20_000, 40_000, 80_000, 160_000, 160_000, 160_000]
    assert (gc.get_threshold(), gc.callbacks) == (before, callbacks)
