"""Random nests that reduce, divided among devices: their results are those of one device."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from devices import Devices, Memory, arguments_of, on_one_device, same_values
from divided_nests import WAYS, of
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from property_examples import examples

from offloadrt.extensions.openacc.multi_device import DividedKernel, predicate
from offloadrt.kernels import Kernel, KernelError, SourceRefused

N = 7
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


REFUSED_AT_LAUNCH = ("would be rounded in each", "cannot be told", "counts from the end", "is stored at")


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
def reducing(draw: st.DrawFn) -> str:
    """The text of a nest of 1 to 3 loops that reduces some scalars, and may store arrays."""
    scalars = draw(st.lists(st.sampled_from(sorted(REDUCTIONS)), min_size=1, max_size=2, unique=True))
    lines = [f"    {name} = {REDUCTIONS[name][0]}" for name in scalars if REDUCTIONS[name][0]]
    known: list[str] = []
    depth = draw(st.integers(1, 3))
    for level in range(depth):
        indent = "    " * (level + 1)
        ends = ["1, n - 1", "1, n - 1", "n - 2, 0, -1", "1, n - 1, 2", "low, n - 1", "1, n // 2 + 2"]
        ends += ["1, i", "max(i - 1, 1), min(i + 2, n - 1)"] if level else []
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
    names += [name for name in ("n", "low", "start") if re.search(rf"\b{name}\b", body)]
    return f"def k({', '.join(names)}):\n{body}"


def memory(seed: int) -> Memory:
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


def reduced(text: str, start: Memory, divide: Callable[[Kernel], DividedKernel]) -> tuple[DividedKernel, Memory]:
    """A kernel that can be divided, and what it leaves in memory: whole numbers that 64 bits hold in any order."""
    why = ""
    try:
        made = of(text)
        divided = divide(made)
        divided.parts(2, arguments_of(made, start))
    except SourceRefused:  # a scalar without a value on one way, or one that is not reduced
        assume(False)
        raise
    except KernelError as error:
        why = str(error)
    assert not why or any(known in why for known in REFUSED_AT_LAUNCH), why
    assume(not why)
    assume(divided.combination is not None)
    expected = on_one_device(made, start)
    assume(np.all(np.abs(expected["out"]) < 2**40) and np.abs(expected["e"][0]) < 2**40)
    return divided, expected


@pytest.mark.parametrize("divide", WAYS)
@examples(25, HealthCheck.too_slow, HealthCheck.filter_too_much)
@given(reducing(), st.integers(0, 9))
def test_together_devices_reduce_what_one_does(divide: Callable[[Kernel], DividedKernel], text: str, seed: int) -> None:
    start = memory(seed)
    divided, expected = reduced(text, start, divide)
    for count in (1, 2, 3, 4, 9):
        all_to_all, lazily = Devices(count, start), Devices(count, start)
        all_to_all.run(divided)
        lazily.run_lazily(divided)
        lazily.gather()
        assert all(same_values(one, expected) for one in (*all_to_all.memories, *lazily.memories)), divided.source


@examples(3, HealthCheck.too_slow, HealthCheck.filter_too_much)
@given(reducing(), st.integers(0, 9))
def test_compiled_they_do_the_same(text: str, seed: int) -> None:
    pytest.importorskip("numba")
    start = memory(seed)
    divided, expected = reduced(text, start, predicate)
    devices = Devices(3, start)
    devices.run(divided, "compile_and_run")
    assert all(same_values(one, expected) for one in devices.memories), divided.source
