"""The adaptive controller: when a kernel is divided among devices, and when no longer. No machine is involved."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.extensions.openacc import AdaptiveController, Execution, KernelState, Mode, Rules, after_execution

MB = 1e6


def after(executions: Iterable[Execution], state: KernelState | None = None, **rules: Any) -> KernelState:
    state = state or KernelState()
    for execution in executions:
        state = after_execution(Rules(devices=4, **rules), state, execution)
    return state


def executions_until_change(execution: Execution, state: KernelState, limit: int = 100, **rules: Any) -> int | None:
    for number in range(1, limit + 1):
        mode, state = state.mode, after([execution], state, **rules)
        if state.mode is not mode:
            return number
    return None


def divided(duplicated: Execution, **rules: Any) -> KernelState:
    """A kernel that has just been divided, after five executions like this one."""
    state = after([duplicated] * 5, **rules)
    assert state.mode is Mode.DIVIDED
    return state


LONG = Execution(kernel_s=30e-3, write_bytes=270 * MB)
"""Divided it would take 7.5 ms and 10.8 ms for the exchange."""
SHORT = Execution(kernel_s=1e-3, write_bytes=270 * MB)
FIRST_ONLY: dict[str, Any] = {"eff_dup": "infinite"}
"""Without the second rule of a divided kernel."""


def test_a_long_kernel_is_divided_after_exactly_five_executions() -> None:
    assert executions_until_change(LONG, KernelState()) == 5


def test_a_short_kernel_that_writes_much_is_never_divided() -> None:
    assert executions_until_change(SHORT, KernelState()) is None


def test_equal_sides_do_not_count() -> None:
    # 4 ms = 4 ms / 4 + 75 MB / 25 GB/s
    assert executions_until_change(Execution(4e-3, write_bytes=75 * MB), KernelState()) is None


def test_the_five_need_not_be_consecutive_by_default() -> None:
    mixed = [LONG, LONG, SHORT, LONG, LONG, SHORT, LONG]
    assert after(mixed).mode is Mode.DIVIDED
    assert after(mixed, consecutive=True).mode is Mode.DUPLICATED
    assert after([SHORT, *[LONG] * 5], consecutive=True).mode is Mode.DIVIDED


def test_a_divided_kernel_whose_exchange_grows_is_duplicated_after_five() -> None:
    slow = Execution(kernel_s=8e-3, communication_s=30e-3, write_bytes=270 * MB)
    assert executions_until_change(slow, divided(LONG)) == 5


def test_a_divided_kernel_that_gains_stays_divided() -> None:
    good = Execution(kernel_s=8e-3, communication_s=11e-3, write_bytes=270 * MB)
    assert executions_until_change(good, divided(LONG)) is None


def test_a_compute_bound_kernel_gains_nothing_and_is_found_out_by_the_second_rule_only() -> None:
    """The first rule takes t_K * n for the time of one device, which a kernel that is not divided does not have."""
    alone = Execution(kernel_s=24.4e-3, write_bytes=0.03 * MB)
    together = Execution(kernel_s=24.4e-3, communication_s=0.05e-3, write_bytes=0.03 * MB)
    assert executions_until_change(together, divided(alone), limit=512, **FIRST_ONLY) is None
    assert executions_until_change(together, divided(alone)) == 5
    gained = after([together] * 4, divided(alone)).disable[0]
    assert gained.mean == pytest.approx(together.communication_s)  # each time by its exchange: it is no noise


def test_five_slow_executions_are_not_enough_while_the_mean_is_negative() -> None:
    good = Execution(kernel_s=8e-3, communication_s=11e-3, write_bytes=270 * MB)  # 11 ms below what is expected
    slow = Execution(kernel_s=8e-3, communication_s=25e-3, write_bytes=270 * MB)  # 1 ms above the 32 ms and 3 the 30
    state = after([good] * 20, divided(LONG))
    assert after([slow] * 5, state).mode is Mode.DIVIDED
    # 20 times 11 ms below against 3 ms above each time: at 74 the mean is positive
    assert executions_until_change(slow, state) == 74


def test_the_second_rule_compares_with_the_duplicated_time_for_as_many_bytes() -> None:
    half = Execution(kernel_s=8e-3, communication_s=8e-3, write_bytes=135 * MB)  # 16 ms against 15 ms duplicated
    assert executions_until_change(half, divided(LONG)) == 5


def test_a_kernel_that_only_reduces_sends_nothing_and_stays_divided() -> None:
    """As 3 kernels of the paper's MG are, with a WriteSize of 0 MB."""
    assert executions_until_change(Execution(kernel_s=1e-6), KernelState()) == 5
    assert executions_until_change(Execution(kernel_s=1e-3), divided(Execution(kernel_s=1e-6))) is None


def test_separate_counting_wants_five_of_one_rule() -> None:
    first = Execution(kernel_s=1e-3, communication_s=4e-3, write_bytes=270 * MB)  # 5 > 4, but 5 < 30
    second = Execution(kernel_s=20e-3, communication_s=15e-3, write_bytes=270 * MB)  # 35 < 80, but 35 > 30
    mixed = [first, second] * 4
    assert after(mixed, divided(LONG), counting="joint").mode is Mode.DUPLICATED
    assert after(mixed, divided(LONG), counting="separate").mode is Mode.DIVIDED


def test_the_time_in_the_rules_may_be_the_duplicated_one() -> None:
    good = Execution(kernel_s=8e-3, communication_s=11e-3, write_bytes=270 * MB)
    assert executions_until_change(good, divided(LONG)) is None
    assert executions_until_change(good, divided(LONG), divided_time="duplicated") == 5  # 30 + 11 > 30


def test_a_kernel_that_was_duplicated_again_stays_so() -> None:
    slow = Execution(kernel_s=8e-3, communication_s=30e-3, write_bytes=270 * MB)
    back = after([slow] * 5, divided(LONG))
    assert back.mode is Mode.DUPLICATED and back.changes == 2
    assert executions_until_change(LONG, back) is None


def test_the_counts_start_anew_with_the_mode() -> None:
    slow = Execution(kernel_s=8e-3, communication_s=30e-3, write_bytes=270 * MB)
    state = after([slow] * 3, divided(LONG))
    assert state.disable[0].held == 3
    assert after([slow] * 2, state).disable == ()


def test_the_controller_keeps_kernels_apart() -> None:
    controller = AdaptiveController(Rules(devices=4))
    for _ in range(5):
        controller.after("jacobi", LONG)
        controller.after("copy", SHORT)
    assert controller.before("jacobi") is Mode.DIVIDED
    assert controller.before("copy") is Mode.DUPLICATED
    assert controller.before("unknown") is Mode.DUPLICATED
    assert list(controller.states) == ["jacobi", "copy"]


@given(st.floats(1e-6, 1.0), st.floats(8.0, 1e10), st.integers(2, 8))
def test_a_kernel_is_divided_exactly_when_the_inequality_says_so(
    kernel_s: float, write_bytes: float, devices: int
) -> None:
    rules, state = Rules(devices=devices), KernelState()
    for _ in range(5):
        state = after_execution(rules, state, Execution(kernel_s, write_bytes=write_bytes))
    wanted = kernel_s > kernel_s / devices + write_bytes / 25e9
    assert (state.mode is Mode.DIVIDED) == wanted


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[(field, value) for field in ("devices", "times") for value in (0, -1, 2.5, True, "4", None)],
        *[("peak_p2p", value) for value in (0, -1.0, math.nan, math.inf, "x", None)],
        *[(field, value) for field in ("consecutive",) for value in ("no", 1, None)],
        *[(field, value) for field in ("divided_time", "eff_dup", "counting") for value in ("x", None, 1)],
    ],
)
def test_rules_that_make_no_sense_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"Rules: {field} is {value!r}")):
        Rules(**{"devices": 4, field: value})
