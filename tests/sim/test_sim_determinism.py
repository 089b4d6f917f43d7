"""A run is a function of program, seed and strategy: not of gear, slice, Python, hash seed or Trio's random batches."""

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest
from workload_of_ties import digest, history

from offloadrt.sim import Fifo, Random, Signal, Simulation

HERE = Path(__file__).parent
NEEDS = [f"{name}=={version(name)}" for name in ("trio", "outcome", "attrs")] + ["numpy"]


@pytest.fixture(scope="module")
def native():
    return history("native")


def test_the_workload_has_hundreds_of_ties_and_dozens_of_timeouts_and_cancellations(native):
    instants = [time for time, *_ in native]
    assert len(native) - len(set(instants)) > 300
    assert len([entry for entry in native if entry[2:] == ("timed out", True)]) > 12
    assert len([entry for entry in native if entry[2] == "cleans up"]) == 36


def test_both_gears_give_one_history(native):
    assert history("turbo") == native


@pytest.mark.parametrize("slice", [1, 2, 3, 5, 7, 64])
def test_the_length_of_a_slice_changes_nothing(native, slice):
    assert history("turbo", slice=slice) == native


def test_ten_runs_give_one_history(gear, native):
    assert all(history(gear) == native for _ in range(10))


def test_a_random_strategy_repeats_with_its_seed_in_both_gears(native):
    orders = [history("native", Random(seed)) for seed in (1, 2, 3)]
    assert [history("turbo", Random(seed)) for seed in (1, 2, 3)] == orders
    assert [history("turbo", Random(seed), slice=3) for seed in (1, 2, 3)] == orders
    assert all(order != native for order in orders) and orders[0] != orders[1] != orders[2] != orders[0]


def many_wake_ups(gear, strategy):
    sim, order = Simulation(gear=gear, strategy=strategy), []

    async def sleeper(i, go):
        await sim.sleep(1.0)
        order.append(i)
        await go.wait()
        order.append(i)

    async def main():
        go = Signal(sim, "go")
        for i in range(40):
            sim.spawn(sleeper, i, go)
        await sim.sleep(2.0)
        go.set()

    sim.run(main)
    return tuple(order)


def test_200_runs_with_many_wake_ups_at_one_instant_give_one_order(gear):
    assert {many_wake_ups(gear, Fifo()) for _ in range(200)} == {(*range(40), *range(40))}


def test_random_orders_differ_by_seed_only(gear):
    assert len({many_wake_ups(gear, Random(seed)) for seed in range(20)}) == 20
    assert len({many_wake_ups(gear, Random(9)) for _ in range(20)}) == 1


@pytest.mark.parametrize("minor", [11, 12, 13, 14])
def test_every_python_and_hash_seed_gives_one_history(minor, native):
    python = interpreter(minor)
    expected = f"{digest(native)} {digest(history('native', Random(5)))}\n" * 3
    for hash_seed in ("0", "1", "4711"):
        done = subprocess.run(
            [python, HERE / "workload_of_ties.py"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(HERE.parents[1])},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.stdout, done.stderr) == (expected, "")


def interpreter(minor):
    """A Python 3.``minor`` that can import what ``offloadrt.sim`` needs; made once in a folder for temporary files."""
    if sys.version_info[:2] == (3, minor):
        return sys.executable
    if (uv := shutil.which("uv")) is None:
        pytest.skip("uv, which finds other Pythons, is not installed")
    names = [f"python3.{minor}", *sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3"))]
    folder = Path(tempfile.gettempdir()) / f"offloadrt-tests-{os.getuid()}" / f"3.{minor}-trio-{version('trio')}"
    python = folder / "bin" / "python"
    if not python.exists():
        for name in names:
            made = subprocess.run(
                [uv, "venv", "-q", "--clear", "--no-python-downloads", "--python", name, folder], capture_output=True
            )
            if made.returncode == 0:
                break
        else:
            pytest.skip(f"no Python 3.{minor} on this machine")
    wanted = subprocess.run([uv, "pip", "install", "-q", "--python", python, *NEEDS], capture_output=True, text=True)
    if wanted.returncode:
        pytest.skip(f"Python 3.{minor} lacks {', '.join(NEEDS)}: {wanted.stderr.strip().splitlines()[-1:]}")
    return python
