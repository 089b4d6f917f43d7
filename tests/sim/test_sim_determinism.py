"""A run is a function of program, seed and strategy: not of gear, slice, Python, hash seed or Trio's random batches."""

from pathlib import Path

import pytest
from other_pythons import MINORS, interpreter, printed
from workload_of_ties import digest, history

from offloadrt.sim import Fifo, Random, Signal, Simulation

HERE = Path(__file__).parent


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


@pytest.mark.parametrize("minor", MINORS)
def test_every_python_and_hash_seed_gives_one_history(minor, native):
    python = interpreter(minor, "trio", "outcome", "attrs", "numpy")
    expected = f"{digest(native)} {digest(history('native', Random(5)))}\n" * 3
    for hash_seed in ("0", "1", "4711"):
        assert printed(python, HERE / "workload_of_ties.py", hash_seed) == expected
