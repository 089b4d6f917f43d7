"""Whether the threads of a loop have settled: in step for good, or out of it and steady."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.extensions.sampling.phases import change, has_settled, order_parameter

TAKEN = 4
durations = st.lists(st.floats(0.5, 2.0), min_size=3, max_size=20)


def starts(durations: list[float], begin: float = 0.0) -> list[float]:
    return [begin + math.fsum(durations[:number]) for number in range(len(durations) + 1)]


@given(st.lists(st.floats(0, 50), min_size=1, max_size=16), st.floats(0.5, 2.0), st.integers(-5, 5))
def test_the_order_is_a_share_and_whole_instances_do_not_change_it(begins: list[float], period: float, n: int) -> None:
    value = order_parameter(begins, period)
    assert -1e-9 <= value <= 1 + 1e-9
    assert order_parameter([begin + n * period for begin in begins], period) == pytest.approx(value, abs=1e-6)
    assert order_parameter([begins[0] + n * period, *begins[1:]], period) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("threads", [2, 3, 8, 64])
def test_the_order_of_threads_in_step_and_of_threads_anywhere(threads: int) -> None:
    assert order_parameter([1.5] * threads, 2.0) == pytest.approx(1.0)
    assert order_parameter([2.0 * number / threads for number in range(threads)], 2.0) == pytest.approx(0.0, abs=1e-9)


@given(durations, st.integers(1, 8))
def test_one_thread_and_threads_that_do_the_same_have_settled(of_one: list[float], threads: int) -> None:
    assert has_settled([starts(of_one)] * threads, 1000, TAKEN)


@given(st.integers(2, 8), st.integers(2, 100), st.floats(0.5, 2.0))
def test_threads_that_go_apart_have_not_settled_as_long_as_they_are_near(
    threads: int, done: int, period: float
) -> None:
    apart = 0.2 / (threads * done)  # of an instance, between the first and the last thread in the end
    of_each = [starts([period * (1 + apart * number)] * done) for number in range(threads)]
    assert not has_settled(of_each, 1000 * threads * done, TAKEN)
    assert has_settled(of_each, done + 1, TAKEN) or threads * done < 10


@given(st.integers(3, 16), st.floats(0.5, 2.0), st.floats(-0.2, 0.2))
def test_threads_out_of_step_have_settled_when_their_instances_do_not_change(
    threads: int, period: float, changed: float
) -> None:
    begins = [period * number / threads for number in range(threads)]
    of_each = [starts([period] * 6 + [period * (1 + changed)] * TAKEN, begin) for begin in begins]
    if abs(changed) < 0.005:
        assert has_settled(of_each, 1000, TAKEN)
    elif abs(changed) > 0.02:
        assert not has_settled(of_each, 1000, TAKEN)


def test_uneven_threads_were_never_in_step() -> None:
    assert has_settled([starts([1.0] * 4), starts([3.0])], 1000, TAKEN)


@given(durations, st.integers(1, 6), st.floats(-5, 5), st.floats(0.1, 10.0))
def test_a_change_goes_with_the_unit_and_not_with_the_begin(
    of_one: list[float], taken: int, begin: float, unit: float
) -> None:
    expected = change(starts(of_one), taken) * unit
    assert change([unit * (time + begin) for time in starts(of_one)], taken) == pytest.approx(expected, abs=1e-6)


def test_a_change_is_seen_through_noise() -> None:
    noise = random.Random(1)
    instances = [1.0 + noise.gauss(0, 0.001) for _ in range(10)] + [0.9 + noise.gauss(0, 0.001) for _ in range(4)]
    assert change(starts(instances), TAKEN) == pytest.approx(-0.1, abs=0.005)
    assert change(starts(instances[:2]), TAKEN) == 0.0
