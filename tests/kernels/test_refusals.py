"""What is not in the subset is refused, with file, line and what to write instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written import function

from offloadrt.cli import main
from offloadrt.kernels import Kernel, KernelError, SourceRefused, atomic, kernel

IN_THE_LOOP = [
    ("while a[i] > 0: a[i] = 0.0", "while a[i] > 0 is not in the subset", "write a for over a range with an if in it"),
    ("if a[i]: break", "break is not in the subset", "write the condition as an if around the rest of the body"),
    ("if a[i]: continue", "continue is not", "write the condition as an if"),
    ("return", "return is not in the subset", "store the result in an array parameter"),
    ("a[i] = numpy.exp(a[i])", "a call of numpy.exp", "write math.exp"),
    ("a[i] = helper(a[i])", "a call of helper", "write what it does here, or use sqrt"),
    ("a[0:n] = 1.0", "the slice a[0:n]", "write a loop over the elements"),
    ("a[i] = a[i][0]", "a[i][0]", "write all indices in one pair of brackets"),
    ("a = 1.0", "array a is assigned as a whole", "write a loop that assigns a[i]"),
    ("a[i] = a + 1.0", "array a is used as a whole", "write a loop over a[i]"),
    ("x, y = 1.0, 2.0", "an assignment to (x, y)", "assign one scalar or one element"),
    ("x = y = 1.0", "x = y = 1.0 is not in the subset", "assign one scalar or one element"),
    ("x: float = 1.0", "is not in the subset", "leave out the annotation"),
    ("i = 3", "loop variable i is assigned", "use another name"),
    ("a[i] = x", "x is no number that a kernel can see", "pass it as a parameter"),
    ("a[i] = a[i] ** 0.5", "the power a[i] ** 0.5", "write a whole exponent from 1 to 16, or math.pow(x, y)"),
    ("a[i] = ~i", "~i is not in the subset", "write scalars, elements"),
    ("a[i] = 1j", "a complex number is stored in a[i]", "annotate a as NDArray[np.complex128]"),
    ("a[i] = [1.0][0]", "[1.0][0]", "index the kernel's array parameters only"),
    ("atomic(a)[i] += 1.0", "atomic(a)[i]", "mark the value that updates the element, as in a[i] += atomic(x)"),
    ("a[i] = min(a[i])", "min(a[i]) has 1 operands", "its own operands"),
    ("a[i] = math.sqrt(x=a[i])", "a call of math.sqrt", "write math.sqrt"),
    ("a[i] = a.ndim", "a.ndim is not in the subset", "write scalars"),
    ("a[i] = a.shape[n]", "a.shape[n]", "write the dimension as a number"),
    ("a[i] = len(3)", "len(3)", "write len(a) of an array parameter"),
    ("a[i] @= 2.0", "the operator of a[i] @= 2.0", "with the operators of the subset"),
    ("if expect(a[i], probability=2.0): a[i] = 1.0", "the hint probability=2.0", "write a number from 0 to 1, or the"),
    ("if expect(a[i], prob=0.5): a[i] = 1.0", "the hint prob=0.5", "write one of probability, trips, near"),
    ("for j in expect(range(i), trips=-1): a[j] = 0", "the hint trips=-1", "write a number that is not negative, or"),
    ("if expect(a[i]): a[i] = 1.0", "expect(a[i])", "write expect(condition, probability=p)"),
    ("for j in a: a[i] = j", "a loop over a", "write for i in range(n) and index with i"),
    ("for j in range(0, n, n): a[j] = 0.0", "a loop whose step is no number", "as in range(0, n, 2)"),
    ("for j, k in range(n): a[j] = 0.0", "a loop with several variables or an else", "write for i in range(n)"),
    ("for i in range(n): a[i] = 0.0", "loop variable i has a value already", "use another name"),
    ("with a: a[i] = 1.0", "with a is not in the subset", "write loops, if and assignments"),
    ("print(a[i])", "print(a[i]) is not in the subset", "write loops, if and assignments"),
]


@pytest.mark.parametrize(("statement", "what", "instead"), IN_THE_LOOP, ids=[row[0] for row in IN_THE_LOOP])
def test_a_statement_outside_of_the_subset(statement: str, what: str, instead: str) -> None:
    text = f"\ndef k(a, n):\n    for i in range(n):\n        a[i] = 0.0\n        {statement}\n"
    made = function(text, numpy=pytest, helper=print, atomic=atomic)
    with pytest.raises(SourceRefused) as raised:
        kernel(made)
    file = made.__code__.co_filename
    assert (raised.value.file, raised.value.line) == (file, 5)
    assert str(raised.value).startswith(f"{file}:5: kernel 'k': ")
    assert what in raised.value.what
    assert instead in raised.value.instead


WHOLE = [
    ("def k(a, n):\n    if n: a[0] = 1.0\n    for i in range(n): a[i] = 1.0", 2, "if n outside of the loop"),
    (
        "def k(a, n):\n    for i in range(n): a[i] = 1.0\n    for j in range(n): a[j] = 1.0",
        3,
        "a second outermost loop",
    ),
    ("def k(a, n):\n    a[0] = 1.0\n    for i in range(n): a[i] = 1.0", 2, "an element is stored before the loop"),
    ("def k(a, n=3):\n    for i in range(n): a[i] = 1.0", 1, "it has other than plain parameters"),
    ("def k(a, b, n):\n    for i in range(n): a[i] = 1.0", 1, "parameter b is not used"),
    ("async def k(a, n):\n    for i in range(n): a[i] = 1.0", 1, "a kernel awaits nothing"),
    (
        "def k(a, n):\n    s = 0.0\n    for i in range(n):\n        s = a[i] - s\n        a[i] = s",
        4,
        "s is handed from one",
    ),
    (
        "def k(a, n):\n    s = 0.0\n    for i in range(n):\n        a[i] = s\n        s += 1.0",
        5,
        "s is handed from one",
    ),
    (
        "def k(a, n):\n    for i in range(n):\n        if a[i]:\n            x = 1.0\n        a[i] = x",
        5,
        "x may have no",
    ),
    ("def k(a, n):\n    for i in range(n):\n        x = a[i]\n    a[0] = x", 4, "x may have no value here"),
]


@pytest.mark.parametrize(("text", "line", "what"), WHOLE)
def test_a_kernel_outside_of_the_subset(text: str, line: int, what: str) -> None:
    with pytest.raises(SourceRefused, match=f":{line}: kernel 'k': {what}"):
        kernel(function(text))


OTHER_LOOPS = [
    ("for j in reversed(range(n)): a[j] = 1.0", "a loop over reversed(range(n))", "for j in range(n - 1, -1, -1)"),
    ("for i in reversed(range(1, n + 1)): a[i] = 1", "a loop over reversed(", "for i in range(n + 1 - 1, 0, -1)"),
    ("for i, x in enumerate(a): a[i] = x + n", "a loop over enumerate(a)", "for i in range(len(a)) and index"),
    ("for i, j in zip(range(n), range(n)): a[i] = j", "a loop over zip(", "for i in range(n) and index with i"),
    ("for x in a: x *= n", "a loop over a", "write for i in range(n) and index with i"),
    ("for i in numpy.arange(1, n): a[i] = 1.0", "a loop over numpy.arange(1, n)", "write for i in range(1, n)"),
    ("while a[0] < n: a[0] += 1.0", "while a[0] < n is not in the subset", "write a for over a range with an if"),
    ("a[:] = [x * n for x in a]", "a loop in [x * n for x in a]", "write for i in range(n)"),
    ("a[0] = sum(x * n for x in a)", "a loop in (x * n for x in a)", "write for i in range(n)"),
    ("if n > 3:\n        for i in range(n): a[i] = 1.0", "inside of if n > 3", "put if n > 3 into the loop"),
    ("with n:\n        for i in range(n): a[i] = 1.0", "a loop over range(n) inside of with n", "write it outermost"),
]


@pytest.mark.parametrize(("statement", "what", "instead"), OTHER_LOOPS, ids=[row[0] for row in OTHER_LOOPS])
def test_another_loop_without_declared_costs(statement: str, what: str, instead: str) -> None:
    """It would be a kernel that costs nothing, whatever n is; with costs it may do what it likes."""
    made = function(f"def k(a, n):\n    {statement}\n", numpy=np)
    with pytest.raises(SourceRefused) as raised:
        kernel(made)
    assert raised.value.line == 2 + statement.count("\n")
    assert what in raised.value.what
    assert instead in raised.value.instead
    assert "or declare its costs: @kernel(flops_per_iteration=..." in raised.value.instead
    assert kernel(bytes_per_iteration=16)(made).body is made


SHORT_LOOPS = [
    "s = [m // 2 for m in a.shape]\n    a[:s[0]] = n",
    "if any(m > 0 for m in a.shape): a[:] = n",
    "for x in (a, n): x *= 2.0",
    "for m in a.shape: a *= m",
]


@pytest.mark.parametrize("statement", SHORT_LOOPS)
def test_a_loop_over_dimensions_or_written_views_is_none_of_the_kernel(statement: str) -> None:
    made = function(f"def k(a, n):\n    {statement}\n")
    assert kernel(made) == Kernel("k", made)


@pytest.mark.parametrize(
    "statement",
    [
        "for i in (n, n): a[i] = 0.0",
        "for m in a.shape: a[m - 1] = 0.0",
        "a[:] = [a[i] for i in (n, n)]",
        "a[:] = [x for v in (a, n) for x in v]",
        "for x in (a, n):\n        for i in range(n): x[i] = 0.0",
        "for x in (a, n):\n        while x[0] > n: x -= 1.0",
        "for x in (a[0], a[1]): x *= 2.0",
    ],
)
def test_a_short_loop_that_goes_through_elements_is_refused(statement: str) -> None:
    with pytest.raises(SourceRefused):
        kernel(function(f"def k(a, n):\n    {statement}\n"))


def total(terms: int) -> str:
    return "def k(a, n):\n    for i in range(n):\n        a[i] = 1.0\n        a[i] = " + " + ".join(["a[i]"] * terms)


def test_a_sum_of_many_terms() -> None:
    """Deeper ones are refused long before Python's own limits, whatever calls whom when the kernel runs."""
    a = np.ones(3)
    kernel(function(total(140)))(a, 3)
    assert a.tolist() == [140.0] * 3
    for terms in (151, 900):
        with pytest.raises(SourceRefused) as raised:
            kernel(function(total(terms)))
        assert raised.value.line == 4
        assert str(raised.value).endswith("nested more than 150 levels deep; divide it into several statements")


def test_a_script_that_python_cannot_compile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "deep.py"
    script.write_text(f"from offloadrt import kernel\n\n# a kernel\n@kernel\n{total(100_000)}\n")
    assert main(["run", str(script)]) == 2
    assert f"{script}: Python cannot compile the script" in capsys.readouterr().err


def test_an_outermost_while_beside_a_loop() -> None:
    text = "def k(a, n):\n    for i in range(n): a[i] = 1.0\n    while a[0] > n: pass"
    with pytest.raises(SourceRefused, match=r":3: .* outside of the loop; write a for over a range with an if in it"):
        kernel(function(text))


def test_the_line_is_that_of_the_file() -> None:
    with pytest.raises(SourceRefused) as raised:

        @kernel
        def wrong(a: Any, n: int) -> None:
            """With a docstring."""
            for i in range(n):
                a[i] = hash(a[i])  # the line that is named

    named = Path(raised.value.file).read_text(encoding="utf-8").splitlines()[raised.value.line - 1]
    assert raised.value.file == __file__
    assert "the line that is named" in named


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "def k(a, n):\n    for i in range(n):\n        a[i, 0] = 1.0\n        for j in range(n): a[i, j] = 1.0",
            "not perf",
        ),
        ("def k(a, n):\n    for i in range(n):\n        for j in range(i): a[i, j] = 1.0", "range depends on the loop"),
    ],
)
def test_what_cannot_be_collapsed(text: str, what: str) -> None:
    kernel(function(text))
    with pytest.raises(SourceRefused, match=what):
        kernel(collapse=2)(function(text))


class TestWhichKernelsAreLoopNests:
    def test_one_without_costs_and_with_a_loop_over_a_range(self) -> None:
        @kernel(threads_per_team=64, name="fill it")
        def fill(a: Any, n: int) -> None:
            for i in range(n):
                a[i] = 1.0

        assert fill.analysis is not None
        assert (fill.name, fill.analysis.name, fill.bytes_per_iteration, fill.threads_per_team) == (
            "fill it",
            "fill it",
            8.0,
            64,
        )
        assert [use.laf for use in fill.arrays] == [1.0]

    def test_costs_that_are_given_hold_and_the_body_is_as_it_is(self) -> None:
        def solve(a: Any) -> None:
            for k in range(1, len(a)):
                a[k:] -= a[k - 1]

        for given in ({"flops_per_iteration": 1}, {"bytes_per_iteration": 0}):
            made = kernel(**given)(solve)  # type: ignore[call-overload]
            assert (made.body, made.analysis, made.arrays) == (solve, None, ())
            assert made.with_arguments(3) is made

    def test_a_body_over_views_without_costs_is_as_it_is(self) -> None:
        def scale(a: Any, s: float) -> None:
            a *= s

        def careful(a: Any) -> None:
            try:
                a /= a.sum()
            except FloatingPointError:
                a[:] = 0.0
            a += 1.0

        for function_ in (scale, careful, np.negative):
            assert kernel(function_) == Kernel(function_.__name__, function_)

    def test_without_a_source_it_is_refused(self) -> None:
        scope: dict[str, Any] = {}
        exec("def k(a, n):\n    for i in range(n): a[i] = 1.0", scope)
        with pytest.raises(KernelError, match=r"kernel 'k': its source cannot be read .*; write it as a function in a"):
            kernel(scope["k"])

    def test_collapse_is_for_loop_nests(self) -> None:
        with pytest.raises(KernelError, match="kernel 'k': collapse is for a loop nest"):
            kernel(collapse=2, flops_per_iteration=1)(function("def k(a):\n    a[:] = 0"))

    def test_a_phantom_may_say_what_it_does_with_its_arrays(self) -> None:
        from offloadrt.kernels import ArrayUse

        made = Kernel("phantom", flops_per_iteration=3, arrays=(ArrayUse("a", 0, reads=2.5, pattern="indirect"),))
        assert made.arrays[0].density(10, 100) == 0.25
        with pytest.raises(KernelError, match="array 'a': reads is -1, but must not be negative"):
            ArrayUse("a", 0, reads=-1)
