"""Reductions that several devices share: their results are those of one device, and every iteration counts once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from devices import Devices, arguments_of, copied
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from instrumented import Counted, Phantom
from property_examples import examples
from written import function

from offloadrt.kernels import DividedKernel, Kernel, KernelError, SourceRefused, kernel, predicate, split_loop

N = 7
WAYS = (predicate, split_loop)


def of(text: str, **options: Any) -> Kernel:
    return kernel(**options)(function(text))


# random nests


LOOPS = "ijk"
READ = {"x": 1, "b": 2, "at": 1}
STORED = {"v": 1, "w": 2}
REDUCTIONS = {
    "s": ("0.0", ["s += {}", "s = s + {}", "s -= {}", "s = {} + s"]),
    "p": ("1", ["p *= {}", "p = p * {}"]),
    "least": ("x[0]", ["least = min(least, {})", "least = min({}, least)"]),
    "most": ("-1000", ["most = max(most, {})"]),
    "e": ("", ["e[0] += {}", "e[0] = {} + e[0]"]),
    "f": ("", ["f[1] = max(f[1], {})", "f[1] = min({}, f[1])"]),
    "count": ("start", ["count += 1", "count = count - at[i]"]),
}


@st.composite
def element(draw: st.DrawFn, arrays: dict[str, int], variables: str) -> str:
    name = draw(st.sampled_from(sorted(arrays)))
    places = [
        f"{draw(st.sampled_from(variables))}{draw(st.sampled_from(['', '', '', ' + 1', ' - 1']))}"
        for _ in range(arrays[name])
    ]
    places = draw(st.sampled_from([places] * 12 + [["2"] * arrays[name], ["-1"] * arrays[name]]))
    return f"{name}[{', '.join(places)}]"


@st.composite
def operand(draw: st.DrawFn, variables: str, known: list[str]) -> str:
    first = draw(st.sampled_from(known) if known and draw(st.booleans()) else element(READ, variables))
    second = draw(element(READ, variables))
    return draw(st.sampled_from([first, f"{first} * {second}", f"abs({first} - {second})", f"({first} + 1) // 2", "2"]))


@st.composite
def statement(draw: st.DrawFn, variables: str, known: list[str], scalars: list[str]) -> str:
    value = draw(operand(variables, known))
    kind = draw(st.integers(0, 5))
    if kind == 0:
        name = f"t{len(known)}"
        known.append(name)
        return f"{name} = {value}"
    if kind <= 2:
        place = draw(element(STORED, variables))
        return f"{place} {draw(st.sampled_from(['=', '=', '+=']))} {value}"
    form = draw(st.sampled_from(REDUCTIONS[draw(st.sampled_from(scalars))][1]))
    return form.format(value)


@st.composite
def reducing(draw: st.DrawFn) -> Kernel:
    """A nest of 1 to 3 loops that reduces some scalars, and may store arrays."""
    scalars = draw(st.lists(st.sampled_from(sorted(REDUCTIONS)), min_size=1, max_size=2, unique=True))
    lines = [f"    {name} = {REDUCTIONS[name][0]}" for name in scalars if REDUCTIONS[name][0]]
    known: list[str] = []
    depth = draw(st.integers(1, 3))
    for level in range(depth):
        indent = "    " * (level + 1)
        ends = ["1, n - 1", "1, n - 1", "n - 2, 0, -1", "1, n - 1, 2", "low, n - 1", *(["1, i"] if level else [])]
        lines.append(f"{indent}for {LOOPS[level]} in range({draw(st.sampled_from(ends))}):")
        for _ in range(draw(st.integers(0 if level < depth - 1 else 1, 2))):
            text = draw(statement(LOOPS[: level + 1], known, scalars))
            if draw(st.integers(0, 5)) == 0 and not text.startswith("t"):
                lines.append(f"{indent}    if {draw(st.sampled_from(['x[i] > 0', 'i > 2']))}:")
                text = "    " + text
            lines.append(f"{indent}    {text}")
    for name in scalars:
        form = draw(st.sampled_from(REDUCTIONS[name][1]))
        lines.append("    " * (depth + 1) + form.format(draw(operand(LOOPS[:depth], known))))
    lines += [f"    out[{place}] = {name}" for place, name in enumerate(scalars) if REDUCTIONS[name][0]]
    body = "\n".join(lines)
    names = [name for name in (*READ, *STORED, "out", "e", "f") if f"{name}[" in body]
    names += [name for name, text in (("n", "n - "), ("low", "low"), ("start", "start")) if text in body]
    try:
        return of(f"def k({', '.join(names)}):\n{body}")
    except SourceRefused:  # a scalar without a value on one way, or one that is not reduced
        assume(False)
        raise


def memory(seed: int) -> dict[str, Any]:
    """Small whole numbers, of which sums and products are exact in any order."""
    rng = np.random.default_rng(seed)
    return {
        "x": rng.integers(-2, 3, N).astype(float),
        "b": rng.integers(-2, 3, (N, N)).astype(np.float32),
        "at": rng.integers(-2, 3, N).astype(np.int32),
        "v": rng.integers(-2, 3, N).astype(float),
        "w": rng.integers(-2, 3, (N, N)).astype(float),
        "out": np.zeros(2),
        "e": np.full(1, 5.0),
        "f": np.full(2, 3, np.int32) if seed % 2 else np.full(2, 3.0, np.float32),
        "n": N,
        "low": seed % 4,
        "start": seed,
    }


def in_order(made: Kernel, start: dict[str, Any]) -> dict[str, Any]:
    found = copied(start)
    made.body.interpret(*arguments_of(made, found))  # type: ignore[union-attr]
    return found


def same(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    return all(np.array_equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("divide", WAYS)
@examples(25, HealthCheck.too_slow, HealthCheck.filter_too_much)
@given(reducing(), st.integers(0, 9))
def test_together_devices_reduce_what_one_does(
    divide: Callable[[Kernel], DividedKernel], made: Kernel, seed: int
) -> None:
    start = memory(seed)
    try:
        divided = divide(made)
        divided.parts(2, arguments_of(made, start))
    except KernelError:
        assume(False)
        raise
    assume(divided.combination is not None)
    expected = in_order(made, start)
    assume(np.all(np.abs(expected["out"]) < 2**40) and np.abs(expected["e"][0]) < 2**40)
    for count in (1, 2, 3, 4, 9):
        all_to_all, lazily = Devices(count, start), Devices(count, start)
        all_to_all.run(divided)
        lazily.run_lazily(divided)
        lazily.gather()
        assert all(same(one, expected) for one in (*all_to_all.memories, *lazily.memories)), divided.source


@examples(3, HealthCheck.too_slow, HealthCheck.filter_too_much)
@given(reducing(), st.integers(0, 9))
def test_compiled_they_do_the_same(made: Kernel, seed: int) -> None:
    pytest.importorskip("numba")
    start = memory(seed)
    try:
        divided = predicate(made)
        divided.parts(2, arguments_of(made, start))
    except KernelError:
        assume(False)
        raise
    devices = Devices(3, start)
    devices.run(divided, "compile_and_run")
    assert all(same(one, in_order(made, start)) for one in devices.memories), divided.source


# as a reader checks it

NORM = """
def norm(r, total, n):
    s = 0.0
    largest = -1.0
    for i in range(1, n - 1):
        for j in range(n):
            s += r[i, j] * r[i, j]
            largest = max(largest, r[i, j])
    total[0] = math.sqrt(s)
    total[1] = largest
"""

RELAX = """
def relax(u, v, gosa, n):
    s = 0.0
    for i in range(1, n - 1):
        d = 0.5 * (u[i - 1] + u[i + 1]) - u[i]
        s += d * d
        v[i] = u[i] + d
    gosa[0] = s
"""


class TestSource:
    def test_the_device_that_stores_contributes(self) -> None:
        divided = predicate(of(RELAX))
        assert {region.name: region.dimension for region in divided.written} == {"v": 0, "gosa": None}
        assert divided.source == (
            "@kernel\n"
            "def relax(u, v, n, v_lb, v_ub, s_parts, device):\n"
            "    s = 0.0\n"
            "    for i in range(1, n - 1):\n"
            "        to_v = v_lb <= i <= v_ub\n"
            "        d = 0.5 * ((u[i - 1] if to_v else 0) + (u[i + 1] if to_v else 0)) - (u[i] if to_v else 0)\n"
            "        s_value = d * d\n"
            "        if to_v:\n"
            "            s += s_value\n"
            "        v_value = (u[i] if to_v else 0) + d\n"
            "        if to_v:\n"
            "            v[i] = v_value\n"
            "    s_parts[device] = s\n"
        )
        assert divided.combination is not None
        assert divided.combination.source == (
            "@kernel\n"
            "def combine_relax(gosa, s_parts):\n"
            "    s = 0.0\n"
            "    for device in range(len(s_parts)):\n"
            "        s += s_parts[device]\n"
            "    gosa[0] = s\n"
        )

    def test_where_nothing_is_stored_iterations_are_split(self) -> None:
        divided = predicate(of(NORM, collapse=2))
        assert [region.dimension for region in divided.written] == [None]
        assert divided.source == (
            "@kernel(collapse=2)\n"
            "def norm(r, n, i_lb, i_ub, largest_parts, s_parts, device):\n"
            "    s = 0.0\n"
            "    largest = -1.0\n"
            "    for i in range(1, n - 1):\n"
            "        for j in range(n):\n"
            "            to_i = i_lb <= i <= i_ub\n"
            "            s_value = (r[i, j] if to_i else 0) * (r[i, j] if to_i else 0)\n"
            "            if to_i:\n"
            "                s += s_value\n"
            "            if to_i:\n"
            "                largest = max(largest, r[i, j])\n"
            "    largest_parts[device] = largest\n"
            "    s_parts[device] = s\n"
        )

    def test_a_split_loop_reduces_its_own_iterations(self) -> None:
        assert split_loop(of(NORM)).source.splitlines()[1:5] == [
            "def norm(r, n, i_lb, i_ub, largest_parts, s_parts, device):",
            "    s = 0.0",
            "    largest = -1.0",
            "    for i in range(i_lb, i_ub + 1):",
        ]


# what is shared


def shares_of(divided: DividedKernel, devices: int, arguments: list[Any]) -> list[Any]:
    analysis = divided.kernel.analysis
    assert analysis is not None
    return [analysis.at(*divided.arguments(share, arguments)) for share in divided.split(devices, arguments)]


@pytest.mark.parametrize("divide", WAYS)
def test_loads_are_divided_and_nothing_is_owned(divide: Any) -> None:
    divided, arguments = divide(of(NORM)), [Phantom((402, 400)), Phantom((2,)), 402]
    counts = shares_of(divided, 4, arguments)
    assert [one.array("r").reads for one in counts] == [of(NORM).analysis.at(*arguments).array("r").reads / 4] * 4  # type: ignore[union-attr]
    for part in divided.parts(4, arguments):
        assert part.segments == {}
        assert part.reads["r"] is not None and sum(nbytes for _, nbytes in part.reads["r"]) == 100 * 400 * 8


@pytest.mark.parametrize("divide", WAYS)
def test_every_iteration_contributes_once(divide: Any) -> None:
    """Each element of x is loaded by one device, also where iterations go backwards or leave some out."""
    for ends in ("n", "n - 1, -1, -1", "2, n, 3", "n - 1, 1, -4"):
        divided = divide(
            of(f"def k(x, out, n):\n    s = 0\n    for i in range({ends}):\n        s += x[i]\n    out[0] = s")
        )
        x = np.arange(23)
        seen: list[int] = []
        for part in divided.parts(5, [x, np.zeros(1), 23]):
            loads = Counted(x)
            function(divided.source.removeprefix("@kernel\n"))(
                *divided.arguments(part.share, [loads, np.zeros(1), 23], [np.zeros(5)])
            )
            seen += loads.loaded
        assert sorted(seen) == sorted(range(*eval(f"({ends},)", {"n": 23})))


def test_an_iteration_whose_store_may_be_left_out_still_contributes() -> None:
    """The loop that stores runs from row to row less often; rows without it have an owner all the same."""
    text = (
        "def k(x, v, out, n):\n    s = 0.0\n    for i in range(n):\n        s += x[i]\n"
        "        for j in range(i - 3):\n            v[i, j] = x[i]\n    out[0] = s"
    )
    start = {"x": np.arange(9.0), "v": np.zeros((9, 9)), "out": np.zeros(1), "n": 9}
    divided = predicate(of(text))
    assert "if to_v:\n            s += x[i]" in divided.source
    for count in (1, 2, 4):
        devices = Devices(count, start)
        devices.run(divided)
        assert all(same(one, in_order(divided.original, start)) for one in devices.memories)


# rounding, and types


def test_a_sum_is_rounded_in_another_order_and_the_largest_value_is_exact() -> None:
    values = np.random.default_rng(3).normal(size=(60, 60)) * 1e3
    start = {"r": values, "total": np.zeros(2), "n": 60}
    found = []
    for count in (1, 2, 4):
        devices = Devices(count, start)
        devices.run(predicate(of(NORM)))
        totals = {memory["total"].tobytes() for memory in devices.memories}
        assert len(totals) == 1  # all devices have one result
        found.append(devices.memories[0]["total"])
    inside = values[1:-1]
    assert {total[1] for total in found} == {inside.max()}
    for total in found:
        assert total[0] == pytest.approx(math.sqrt(math.fsum((inside * inside).ravel())), rel=1e-14)


def test_whole_numbers_are_reduced_in_64_bits() -> None:
    text = (
        "def k(x, out, n):\n    s = 5\n    for i in range(n):\n        s += x[i] * x[i] // 2\n    out[0] = s % 1000003"
    )
    divided = predicate(of(text))
    start = {"x": np.arange(1, 40) * (2**24 + 1), "out": np.zeros(1, np.int64), "n": 39}
    assert divided.combination is not None
    assert divided.combination.types(list(start.values())) == (np.dtype(np.int64),)
    assert divided.combination.types([start["x"] / 3, start["out"], 39]) == (np.dtype(np.float64),)
    devices = Devices(4, start)
    devices.run(divided)
    assert devices.memories[3]["out"][0] == (5 + sum(int(x) ** 2 // 2 for x in start["x"])) % 1000003


def test_what_was_there_before_the_loop_counts_once() -> None:
    text = "def k(x, out, n, s):\n    for i in range(n):\n        s += x[i]\n    out[0] = out[0] + s"
    for divide in WAYS:
        devices = Devices(3, {"x": np.ones(10), "out": np.full(1, 100.0), "n": 10, "s": 7.0})
        devices.run(divide(of(text)))
        assert [memory["out"][0] for memory in devices.memories] == [117.0] * 3


def test_an_element_that_every_iteration_reduces_is_like_a_scalar() -> None:
    text = "def k(x, out, n):\n    for i in range(n):\n        out[0] = max(out[0], x[i])\n        out[1] += x[i]"
    with pytest.raises(SourceRefused, match="no parallel loop runs along a dimension of out"):  # it has two of them
        predicate(of(text))
    divided = predicate(of(text.replace("out[1]", "sums[k]").replace("(x, out", "(x, out, sums, k")))
    assert divided.combination is not None
    assert divided.combination.source.splitlines()[2:] == [
        "    out_value = out[0]",
        "    sums_value = sums[k]",
        "    for device in range(len(out_value_parts)):",
        "        out_value = max(out_value, out_value_parts[device])",
        "        sums_value += sums_value_parts[device]",
        "    out[0] = out_value",
        "    sums[k] = sums_value",
    ]
    start = {"x": np.arange(9.0), "out": np.full(1, 4.0), "sums": np.full(3, 100.0), "k": 1, "n": 9}
    devices = Devices(4, start)
    devices.run(divided)
    assert all(memory["out"][0] == 8.0 for memory in devices.memories)
    assert all(memory["sums"].tolist() == [100.0, 136.0, 100.0] for memory in devices.memories)


@pytest.mark.parametrize("divide", WAYS)
def test_an_element_that_each_iteration_would_round_is_refused_at_the_launch(divide: Any) -> None:
    divided = divide(of("def k(x, out, n):\n    for i in range(n):\n        out[0] += x[i]"))
    divided.split(2, [np.ones(9, np.int32), np.ones(1, np.int32), 9])
    with pytest.raises(KernelError, match="kernel 'k': an element of out is reduced, and would be rounded in each"):
        divided.split(2, [np.ones(9), np.ones(1, np.int32), 9])


# refusals

REFUSED = [
    (
        "def k(out, n):\n    s = n\n    for i in range(s):\n        s += i\n    out[0] = s",
        3,
        "s, which the loop reduces, is a bound of it",
    ),
    (
        "def k(x, v, n):\n    s = 0.0\n    for i in range(n):\n        v[i] = x[i]\n        s += x[i]\n    v[0] = s",
        6,
        "v[0], of an array that the loop stores to, is used outside of it with a reduction",
    ),
    (
        "def k(x, v, n):\n    s = v[0]\n    for i in range(n):\n        v[i] = x[i]\n        s += x[i]\n    x[0] = s",
        2,
        "v[0], of an array that the loop stores to",
    ),
    (
        "def k(x, v, n):\n    s = 0.0\n    t = 0.0\n    for i in range(n):\n        t = x[i]; s += t\n    v[0] = s + t",
        6,
        "t, which the loop assigns, is used after it beside a reduction",
    ),
]


@pytest.mark.parametrize(("text", "line", "what"), REFUSED)
@pytest.mark.parametrize("divide", WAYS)
def test_what_cannot_be_combined_is_refused_with_file_and_line(divide: Any, text: str, line: int, what: str) -> None:
    made = of(text)
    assert made.analysis is not None
    with pytest.raises(SourceRefused) as raised:
        divide(made)
    assert (raised.value.file, raised.value.line) == (made.analysis.file, line)
    assert what in raised.value.what


def test_bounds_from_data_are_refused() -> None:
    text = "def k(c, out):\n    s = 0.0\n    for i in range(c[0]):\n        s += c[i]\n    out[0] = s"
    with pytest.raises(SourceRefused, match="the bounds of the loop whose reductions are divided are read from data"):
        predicate(of(text))


def test_a_contribution_outside_of_the_region_that_decides_is_refused_at_the_launch() -> None:
    text = (
        "def k(x, v, out, n):\n    s = 0.0\n    for i in range(n):\n        s += x[i]\n"
        "        if i < 5:\n            v[i] = x[i]\n    out[0] = s"
    )
    divided = predicate(of(text))
    with pytest.raises(KernelError, match=r":4: kernel 'k': which device reduces into s cannot be told, as i is not"):
        divided.split(2, [np.ones(9), np.ones(5), np.ones(1), 9])
    assert [share.bounds for share in divided.split(2, [np.ones(9), np.ones(9), np.ones(1), 9])] == [
        ((0, 4),),
        ((5, 8),),
    ]
