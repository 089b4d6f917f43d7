"""How often host functions come to their target regions past jumps, and round loops that have several exits."""

from __future__ import annotations

import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from written import function

from offloadrt.extensions.otm.ranking import HostProgram
from offloadrt.kernels import ArrayUse, Kernel

one = Kernel("k", arrays=(ArrayUse("x", 0, reads=1),))
EXIT = 4 / 128
"""What LLVM gives an edge that leaves a loop."""


def runs(*lines: str) -> list[float]:
    """Of the regions in a host function with this body."""
    text = "def f(t, a, n):\n" + "".join(f"    {line}\n" for line in lines)
    return [region.frequency for region in HostProgram.of(function(text, k=one)).regions]


TARGET = "t.target(k, a)"


def test_what_follows_a_return_runs_as_often_as_control_falls_through() -> None:
    assert runs("if n: return", TARGET) == [0.5]
    assert runs("if n: return", "if n: return", TARGET) == [0.25]
    assert runs("if n:", "    return", "else:", "    return", TARGET) == [0.0]
    assert runs("if expect(n, probability=0.1): return", TARGET) == [0.9]


def test_a_return_ends_the_function_and_not_its_caller() -> None:
    assert runs("def inner():", "    if n: return", f"    {TARGET}", "inner()", TARGET) == [0.5, 1.0]


@pytest.mark.parametrize(("jump", "behind"), [("continue", 1.0), ("break", 1.0), ("return", 1 / 16)])
def test_jumps_in_a_loop_that_is_unrolled_are_branches_like_others(jump: str, behind: float) -> None:
    each = [0.5] * 4 if jump == "continue" else [0.5, 0.25, 0.125, 0.0625]
    assert runs("for i in range(4):", f"    if n: {jump}", f"    {TARGET}", TARGET) == [sum(each), behind]


def test_the_else_of_a_loop_runs_when_nothing_breaks_it() -> None:
    assert runs("for i in range(3):", "    if n: break", "else:", f"    {TARGET}", TARGET) == [1 / 8, 1.0]
    assert runs("while n:", "    n -= 1", "else:", f"    {TARGET}") == [1.0]
    assert runs("while n:", "    if n > 4: break", "else:", f"    {TARGET}") == [pytest.approx(31 / 63)]


def test_each_edge_that_leaves_a_loop_over_data_is_as_unlikely_as_its_own_exit() -> None:
    stay = 1 - EXIT
    both = 1 / (1 - stay * stay)
    found = runs("while True:", f"    {TARGET}", "    if n: break", f"    {TARGET}", TARGET)
    assert found == [1 / EXIT, stay / EXIT, 1.0]
    for jump, behind in (("break", 1.0), ("return", both * stay * EXIT)):
        found = runs("for i in n:", f"    {TARGET}", f"    if i: {jump}", f"    {TARGET}", TARGET)
        assert found == pytest.approx([both, both * stay, behind])
    assert runs("for i in n:", "    if i: continue", f"    {TARGET}") == [16.0]
    assert runs("while True:", "    if n:", "        if t: break", f"    {TARGET}") == [64 - 1]
    assert runs("while True:", "    if n or t: break", f"    {TARGET}") == pytest.approx([stay**2 / (1 - stay**2)])
    assert runs("while True:", "    if n and t: return", f"    {TARGET}") == [63]
    assert runs("while True:", "    if not n:", f"        {TARGET}", "        break") == [1.0]


def test_a_side_that_leaves_the_loop_only_later_leaves_it() -> None:
    """Nothing comes back from the last line, so that `continue` is the loop, and not going on its exit."""
    assert runs("while True:", f"    {TARGET}", "    if n: continue", f"    {TARGET}", "    break") == [32.0, 1.0]


def test_a_loop_that_surely_ends_in_its_first_round_is_none() -> None:
    assert runs("for i in n:", f"    {TARGET}", "    break") == [1.0]
    assert runs("while n:", f"    {TARGET}", "    return", TARGET) == [1.0, 0.0]


def test_numbers_decide_how_often_a_while_runs() -> None:
    assert runs("while expect(n, probability=0.75):", f"    {TARGET}", TARGET) == [3.0, 1.0]
    assert runs(f"while expect({TARGET}, probability=0.75): pass") == [4.0]
    assert runs("while True:", f"    {TARGET}", "    if expect(n, probability=0.1): break") == [pytest.approx(10.0)]
    assert runs("while False:", f"    {TARGET}", "if 0:", f"    {TARGET}") == [0.0, 0.0]
    assert runs("while True:", f"    {TARGET}", TARGET) == [32.0, 0.0]


def test_exceptions_never_come_but_where_nothing_else_can() -> None:
    assert runs("if n:", f"    {TARGET}", "    raise KeyError", TARGET) == [0.0, 1.0]
    assert runs("for i in n:", "    if i: raise KeyError", f"    {TARGET}") == [32.0]
    assert runs("for i in range(3):", "    if i: return", f"    {TARGET}", "raise KeyError") == [0.875]
    body = ["try:", "    raise KeyError", "except KeyError:", f"    {TARGET}", "else:", f"    {TARGET}", TARGET]
    assert sorted(runs(*body)) == [0.0, 1.0, 1.0]
    assert runs("try:", "    if n: return", "finally:", f"    {TARGET}", TARGET) == [1.0, 0.5]


@st.composite
def certain(draw: DrawFn, depth: int = 4, looping: bool = False) -> list[str]:
    """A block of statements whose branches are all certain."""
    kinds = ["target", "target", "return", "raise", *(["break", "continue"] if looping else [])]
    kinds += ["if", "for", "try", "with"] if depth else []
    lines: list[str] = []
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4)):
        parts: list[tuple[str, bool]] = []
        match kind:
            case "target":
                lines.append(TARGET)
            case "raise":
                lines.append("raise KeyError")
            case "if":
                holds = draw(st.integers(0, 1))
                parts = [(f"if expect({holds}, probability={holds}):", looping), ("else:", looping)]
            case "for":
                parts = [(f"for i in range({draw(st.integers(0, 3))}):", True), ("else:", looping)]
            case "try":
                parts = [("try:", looping), ("except KeyError:", looping), ("else:", looping)]
            case "with":
                parts = [("with n:", looping)]
            case jump:
                lines.append(jump)
        for head, inside in parts:
            lines += [head, *(f"    {line}" for line in draw(certain(depth - 1, inside)))]
        if kind == "try" and draw(st.booleans()):
            lines += ["finally:", f"    {TARGET}"]
    return lines


class Counting:
    """A thread, and a context, that counts which lines call it."""

    def __init__(self) -> None:
        self.lines: Counter[int] = Counter()

    def target(self, *_: object) -> None:
        self.lines[sys._getframe(1).f_lineno] += 1

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@given(certain())
def test_a_program_without_chance_runs_its_regions_as_often_as_python_does(lines: list[str]) -> None:
    made = function("def f(t, a, n):\n" + "".join(f"    {line}\n" for line in lines), k=one)
    thread = Counting()
    try:
        made(thread, None, thread)
    except KeyError:
        pass
    assert {
        region.line: region.frequency for region in HostProgram.of(made).regions if region.frequency
    } == thread.lines
