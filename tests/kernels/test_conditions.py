"""Conditions and the sides of a branch: what a launch counts, against a run that counts, and what a compiler sees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instrumented import counted
from property_examples import examples
from written import function

from offloadrt.kernels import Kernel, kernel

N = 30

CONDITIONS = [
    "i < m",
    "m > i",
    "i > 0 and i < n - 1",
    "0 < i < n - 1",
    "1 <= i < m",
    "n > i >= m",
    "i == 5",
    "i == n",
    "i != 0",
    "not (i >= 10)",
    "not (3 < i <= 10)",
    "i < 4 or i >= n - 2",
    "i < 20 or i > 10",
    "3 * i < n and i != 2 and i != 40",
    "i == 1 or i == 2 or not i < n - 1",
    "m == 12",
    "m != 12",
    "2 * m < n <= 40",
]


def branching(condition: str, loops: str = "i") -> Any:
    """A kernel that stores on either side of a condition."""
    text, margin = "def f(a, b, c, n, m):\n", "    "
    for loop in loops:
        text += f"{margin}for {loop} in range(n):\n"
        margin += "    "
    index = ", ".join(loops)
    text += f"{margin}if {condition}:\n{margin}    b[{index}] = a[{index}]\n"
    return function(text + f"{margin}else:\n{margin}    c[{index}] = m\n")


def compared(made: Any, dimensions: int) -> None:
    """What a launch counts is what a run does."""
    arguments = [*(np.ones((N,) * dimensions) for _ in range(3)), N, 12]
    of = kernel(made)
    assert of.analysis is not None
    counts = of.analysis.at(*arguments)
    real = counted(made, *arguments)
    assert counts.assumed == ()
    assert [(found.reads, found.writes) for found in counts.arrays] == [(one.loads, one.stores) for one in real[:3]]
    assert counts.bytes == 8 * sum(len(one.loaded) + len(one.stored) for one in real[:3])


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_on_an_index_and_their_complements_are_counted_exactly(condition: str) -> None:
    compared(branching(condition), 1)


@pytest.mark.parametrize("condition", ["j <= i", "i < j + 3 and j < i + 3", "i == j", "i + j != m", "i > m or j == i"])
def test_conditions_on_two_loops_are_counted_exactly(condition: str) -> None:
    compared(branching(condition, "ij"), 2)


COMPARISON = st.builds(
    "{} {} {}".format,
    st.sampled_from(["i", "2 * i", "m - i", "3"]),
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    st.sampled_from(["7", "n - 4", "m", "i + m", "n - i"]),
)


@examples(60)
@given(
    st.recursive(
        COMPARISON,
        lambda inner: st.one_of(
            st.builds("not ({})".format, inner),
            st.builds("({} and {})".format, inner, inner),
            st.builds("({} or {})".format, inner, inner),
        ),
        max_leaves=4,
    )
)
def test_conditions_made_of_others_are_counted_exactly(condition: str) -> None:
    compared(branching(condition), 1)


@pytest.mark.parametrize(("condition", "laf"), [("i < m", 0.5), ("0 < i < n", 0.5), ("i > 0 and i < m", 0.25)])
def test_a_compiler_takes_a_condition_on_an_index_for_any_branch(condition: str, laf: float) -> None:
    """A comparison, also a chain, is one branch of 0.5, though a launch counts it exactly."""
    analysis = kernel(branching(condition)).analysis
    assert analysis is not None
    assert [analysis.use(name).laf for name in "abc"] == [laf, laf, 1.0 - laf]
    assert analysis.guessed == () and analysis.exact_at_launch == (3,)


def test_what_is_not_known_is_guessed_and_said() -> None:
    made = kernel(
        function(
            "def f(a, b, first, x, n):\n"
            "    for i in range(n):\n"
            "        if a[i] > x and i > 0:\n"
            "            for e in range(first[i], first[i + 1]):\n"
            "                b[e] = 1.0\n"
            "        if expect(a[i] < 2.0, probability=0.1):\n"
            "            b[i] = 2.0\n"
        )
    )
    assert made.analysis is not None
    said = ("line 3: the branch is taken with probability 0.5", "line 4: the loop over e runs 32 times")
    assert made.analysis.guessed == said
    assert made.analysis.at(np.ones(N), np.ones(N), np.ones(N + 1, int), 0.5, N).assumed == said


@kernel
def plain(a, b, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        b[i] = 2.0 * a[i]


@kernel
def by_value(a, b, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        if a[i] > 0.0:
            b[i] = 2.0 * a[i]
        else:
            b[i] = 3.0 * a[i]


@kernel
def chain_of_values(a, b, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        if a[i] > 0.0:
            b[i] = 1.0
        elif a[i] > -1.0:
            if a[i] > -0.5:
                b[i] = 2.0
            else:
                b[i] = 3.0
        else:
            b[i] = 4.0


@kernel
def asked_twice(a, b, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        positive = a[i] > 0.0
        if positive:
            b[i] = 1.0
        if not positive:
            b[i] = 2.0


@kernel
def chosen(a, b, n):  # type: ignore[no-untyped-def]
    for i in range(1, n - 1):
        b[i] = a[i - 1] if b[i] > 0.0 else a[i + 1]


@pytest.mark.parametrize("of", [by_value, chain_of_values, asked_twice], ids=lambda of: str(of.name))
def test_the_sides_of_a_branch_move_together_what_straight_code_moves(of: Kernel) -> None:
    line = np.ones(N)
    straight = plain.launch(1, arguments=[line, line.copy(), N])
    launch = of.launch(1, arguments=[line, line.copy(), N])
    assert launch.bytes == straight.bytes == 16 * N
    assert launch.counts is not None and straight.counts is not None
    assert launch.counts.array("b").streams[0].order == straight.counts.array("b").streams[0].order == "swept"


def test_a_load_on_either_side_is_one_load() -> None:
    line = np.ones(N)
    counts = chosen.launch(1, arguments=[line, line.copy(), N]).counts
    assert counts is not None
    assert counts.bytes == 8 * 3 * (N - 2) and counts.waits.loads == 2 * (N - 2)


def test_conditions_that_may_hold_at_once_do_not_add_up() -> None:
    made = kernel(
        function(
            "def f(a, b, n):\n"
            "    for i in range(1, n - 1):\n"
            "        if b[i] > 0.0:\n"
            "            b[i] += a[i - 1]\n"
            "        if b[i] > 1.0:\n"
            "            b[i] += a[i + 1]\n"
        )
    )
    counts = made.launch(1, arguments=[np.ones(N), np.ones(N), N]).counts
    assert counts is not None and counts.array("a").streams[0].read == (N - 2) / 2


def test_sides_that_a_loop_chooses_share_what_does_not_vary_with_it() -> None:
    """Each element of a comes once for all j, on whichever side."""
    made = kernel(
        function(
            "def f(a, b, n):\n"
            "    for i in range(n):\n"
            "        for j in range(n):\n"
            "            if j < 5:\n"
            "                b[i, j] = a[i]\n"
            "            else:\n"
            "                b[i, j] = 2.0 * a[i]\n"
        )
    )
    counts = made.launch(1, arguments=[np.ones(N), np.ones((N, N)), N]).counts
    assert counts is not None
    assert [counts.array(name).streams[0].read for name in "ab"] == [N, 0]
    assert counts.array("b").streams[0].written == N * N
