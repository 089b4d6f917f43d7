"""Random affine kernels, one after the other, divided among devices: what they compute is what one device computes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from devices import Devices, arguments_of, copied, same_bits
from hypothesis import HealthCheck, assume, example, given
from hypothesis import strategies as st
from instrumented import Counted, counted
from property_examples import examples
from random_nests import FORMULAS, arguments, nests
from written import function

from offloadrt.compilers.multi_device.divided import DividedKernel
from offloadrt.compilers.multi_device.passes import predicate, split_loop
from offloadrt.kernels import Kernel, KernelError, SourceRefused, kernel

RANK = {"a": 1, "b": 2, "c": 3, "d": 2, "e": 1}
LOOPS = "ijk"
N = 7


@st.composite
def element(draw: st.DrawFn, array: str, variables: str) -> str:
    places = []
    for dimension in range(RANK[array]):
        kinds = [variables[(dimension + shift) % len(variables)] for shift in range(len(variables))]
        variable = draw(st.sampled_from([kinds[0], kinds[0], kinds[0], *kinds]))
        offset = draw(st.sampled_from(["", "", "", "", " + 1", " - 1", " - 2", " - low"]))
        places.append(draw(st.sampled_from([variable + offset] * 9 + ["2", "-1"])))
    if array == "a" and len(variables) > 1 and draw(st.integers(0, 7)) == 0:
        places = [f"{variables[0]} * n + {variables[1]}"]
    if draw(st.integers(0, 15)) == 0:
        places[-1] = f"at[{places[-1]}]"
    return f"{array}[{', '.join(places)}]"


@st.composite
def statement(draw: st.DrawFn, variables: str, scalars: list[str], stored: list[str], targets: str) -> str:
    def operand() -> str:
        kind = draw(st.integers(0, 7))
        if scalars and kind < 3:
            return draw(st.sampled_from(scalars))
        if stored and kind < 5:
            return draw(st.sampled_from(stored))
        others = [name for name in RANK if name not in targets or kind == 7]
        return draw(element(draw(st.sampled_from(others or ["a"])), variables))

    value = f"{operand()} {draw(st.sampled_from(['+', '*', '-', '//', '/']))} {operand()}"
    value = draw(
        st.sampled_from([value, value, operand(), f"max({value}, 0.5)", f"{value} if {operand()} > 0 else 1.5"])
    )
    if scalars and draw(st.integers(0, 9)) == 0:
        return f"{scalars[-1]} += {value}"
    if draw(st.integers(0, 3)) == 0:
        name = f"t{len(scalars)}"
        scalars.append(name)
        return f"{name} = {value}"
    place = draw(element(draw(st.sampled_from(targets)), variables))
    stored.append(place)
    return f"{place} {draw(st.sampled_from(['=', '=', '=', '+=', '*=']))} {value}"


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Of a nest of 1 to 3 loops over arrays of 1 to 3 dimensions."""
    lines = ["def k(a, b, c, d, e, at, n, low):"]
    targets = draw(st.sampled_from(["a", "b", "c", "bd", "ae", "bc", "ade", "abcde"]))
    scalars: list[str] = []
    stored: list[str] = []
    depth = draw(st.integers(1, 3))
    for level in range(depth):
        indent = "    " * (level + 1)
        kinds = ["1, n - 1", "1, n - 1", "n - 2, 0, -1", "1, n - 1, 2", "1, 3", "low, n - 1", "1, n // 2 + 2"]
        kinds += ["max(i - 1, 1), min(i + 2, n - 1)", "i, min(i + 3, n - 1), 2"] if level else []
        ends = draw(st.sampled_from(kinds))
        lines.append(f"{indent}for {LOOPS[level]} in range({ends}):")
        for _ in range(draw(st.integers(0 if level < depth - 1 else 1, 2))):
            text = draw(statement(LOOPS[: level + 1], scalars, stored, targets))
            if draw(st.integers(0, 9)) == 0 and not text.startswith("t"):
                where = f"{draw(element('b', LOOPS[: level + 1]))} > 0.1 or i % 2 == 0"
                lines.append(f"{indent}    if {draw(st.sampled_from([where, 'i > 1']))}:")
                text = "    " + text
            lines.append(f"{indent}    {text}")
    assume(stored)
    used = "\n".join(lines[1:])
    lines[0] = f"def k({', '.join(name for name in ('a', 'b', 'c', 'd', 'e', 'at', 'n', 'low') if _uses(used, name))}):"
    return "\n".join(lines)


def _uses(text: str, name: str) -> bool:
    return {"n": "n " in text, "low": "low" in text}.get(name, f"{name}[" in text)


def kernel_of(text: str) -> Kernel:
    try:
        return kernel(function(text))
    except SourceRefused:  # a scalar without a value on one way
        assume(False)
        raise


def memory(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {
        "a": rng.normal(size=N * N + N),
        "b": rng.normal(size=(N, N + 1)).astype(np.float32),
        "c": rng.normal(size=(N + 2, N, N)),
        "d": rng.integers(-3, 9, (N, N)).astype(np.int32),
        "e": rng.normal(size=N),
        "at": rng.integers(-N, N, 100).astype(np.int32),
        "n": N,
        "low": seed % 3,
    }
    return found


def in_order(made: list[Kernel], given_: dict[str, Any]) -> dict[str, Any] | None:
    """The memory after running kernels on one device; None when a whole division by zero ends them."""
    found = copied(given_)
    try:
        for one in made:
            one.body.interpret(*arguments_of(one, found))  # type: ignore[union-attr]
    except (ZeroDivisionError, OverflowError, ValueError):
        return None
    return found


def divided_by(divide: Callable[[Kernel], DividedKernel], made: list[Kernel]) -> list[DividedKernel]:
    found = []
    for one in made:
        refused = None
        try:
            found.append(divide(one))
        except SourceRefused as error:
            refused = error
        assert refused is None or refused.file == one.analysis.file, "the changed source is in the subset"  # type: ignore[union-attr]
    found = [one for one in found if one.combination is None]  # whose order of operations is another one
    assume(found)
    return found


def taken(divided: list[DividedKernel], memory: dict[str, Any]) -> list[DividedKernel]:
    """Those that are divided with these arguments; the others say which index may count from the end."""
    found, why = [], []
    for one in divided:
        try:
            one.parts(2, arguments_of(one.original, memory))
            found.append(one)
        except KernelError as error:
            why.append(str(error))
    assert all("counts from the end" in one or "is stored at" in one for one in why)
    assume(found)
    return found


@pytest.mark.parametrize("divide", [predicate, split_loop])
@examples(20, HealthCheck.too_slow, HealthCheck.filter_too_much)
@example(
    written=[
        """
def k(b, e, at, n):
    for i in range(1, n - 1):
        if b[i, at[i]] > 0.1:
            e[at[i]] = b[i, 2]
        for j in range(1, n - 1):
            e[2] = e[at[i]]
"""
    ],
    seed=3,
)
@given(st.lists(texts(), min_size=1, max_size=3), st.integers(0, 9))
def test_together_devices_compute_what_one_does(
    divide: Callable[[Kernel], DividedKernel], written: list[str], seed: int
) -> None:
    start = memory(seed)
    divided = taken(divided_by(divide, [kernel_of(text) for text in written]), start)
    expected = in_order([one.original for one in divided], start)
    assume(expected is not None)
    assert expected is not None
    for count in (1, 2, 3, 4):
        all_to_all, lazily = Devices(count, start), Devices(count, start)
        for one in divided:
            all_to_all.run(one)
            lazily.run_lazily(one)
        lazily.gather()
        for found in (*all_to_all.memories, *lazily.memories):
            assert same_bits(found, expected), "\n".join(one.source for one in divided)


@examples(20, HealthCheck.filter_too_much)
@given(nests(values=FORMULAS), st.integers(1, 9), st.integers(0, 9), st.integers(2, 3))
def test_nests_that_hand_values_on_are_refused_or_right(nest: Any, n: int, m: int, count: int) -> None:
    _, made = nest.kernel()
    (divided,) = divided_by(predicate, [made])
    start = dict(zip("abcnm", arguments(n, m), strict=True))
    expected = in_order([made], start)
    assume(expected is not None)
    assert expected is not None
    devices = Devices(count, start)
    devices.run(divided)
    assert all(same_bits(found, expected) for found in devices.memories), divided.source


@examples(4, HealthCheck.too_slow, HealthCheck.filter_too_much)
@given(texts(), st.integers(0, 9))
def test_compiled_they_do_the_same(text: str, seed: int) -> None:
    pytest.importorskip("numba")
    start = memory(seed)
    (divided,) = taken(divided_by(predicate, [kernel_of(text)]), start)
    expected = in_order([divided.original], start)
    assume(expected is not None)
    assert expected is not None
    assume(
        not any(np.isnan(value).any() for value in expected.values() if isinstance(value, np.ndarray))
    )  # their signs
    devices = Devices(2, start)
    devices.run(divided, "compile_and_run")
    assert all(same_bits(found, expected) for found in devices.memories), divided.source


@pytest.mark.parametrize("divide", [predicate, split_loop])
@examples(15, HealthCheck.too_slow, HealthCheck.filter_too_much)
@given(texts(), st.integers(1, 4))
def test_loads_and_stores_of_a_share_are_counted_exactly(
    divide: Callable[[Kernel], DividedKernel], text: str, count: int
) -> None:
    (divided,) = taken(divided_by(divide, [kernel_of(text)]), memory(0))
    source = " ".join(divided.source.split())  # long lines are wrapped
    assume(not any(guessed in source for guessed in ("if b", "if i", "else 1.5")))  # branches on data are guessed
    assume(not re.search(r"at\[[^=]*\] [+*]= ", source))  # Python looks the index up once, a kernel twice
    given_ = arguments_of(divided.original, memory(0))
    analysis = divided.kernel.analysis
    assert analysis is not None
    for share in divided.split(count, given_):
        changed = divided.arguments(share, given_)
        counts = analysis.at(*changed)
        try:
            real = counted(function(divided.source, kernel=lambda body: body), *changed)
        except (ZeroDivisionError, OverflowError, ValueError):
            assume(False)
        if any("from data" in one for one in counts.assumed):  # stores to places that data decide
            continue
        assert counts.assumed == ()
        for found in counts.arrays:
            truth: Counted = real[found.position]
            assert (found.reads, found.writes) == (truth.loads, truth.stores), found.name
