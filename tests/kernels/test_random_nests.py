"""Random small loop nests: counts and ranges against an instrumented run, Numba against the interpreter."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from instrumented import Counted, counted
from property_examples import examples
from written import function

from offloadrt.kernels import Kernel, kernel
from offloadrt.kernels.execution.nest_body import NestBody

VARIABLES = "ijk"
SIZE = 600


@attrs.frozen
class Nest:
    """A text, and whether all its loops are rectangles that are not empty."""

    text: str
    rectangular: bool

    def kernel(self) -> tuple[Any, Kernel]:
        made = function(self.text)
        return made, kernel(made)


@st.composite
def indices(draw: st.DrawFn, variables: str) -> str:
    """An affine index from 0 to SIZE - 1 of variables from 0 to 9."""
    terms = [f"{draw(st.integers(1, 15))} * {v}" for v in variables if draw(st.booleans())]
    return " + ".join([*terms, str(draw(st.integers(0, 9)))])


@st.composite
def ranges(draw: st.DrawFn, outer: str, rectangular: bool) -> str:
    kinds = ["n", "3", "0, n, 2", "n - 1, -1, -1", "1, 4", "m"]
    if outer and not rectangular:
        kinds += [f"{outer[-1]}, n", f"{outer[0]}", f"{outer[-1]}, {outer[0]} + 4", f"n, {outer[-1]}, -2", "n, m"]
    return draw(st.sampled_from(kinds))


@st.composite
def statements(draw: st.DrawFn, variables: str, values: st.SearchStrategy[str] | None) -> str:
    place = f"{draw(st.sampled_from('ab'))}[{draw(indices(variables))}]"
    if values is None:
        value = f"{draw(st.sampled_from('abc'))}[{draw(indices(variables))}]"
    else:
        value = draw(values).replace("?", f"{draw(st.sampled_from('abc'))}[{draw(indices(variables))}]", 1)
        value = value.replace("?", f"c[{draw(indices(variables))}]")
    return f"{place} {draw(st.sampled_from(['=', '+=', '-=', '*=']))} {value}"


FORMULAS = st.sampled_from(
    [
        "? / (? - 0.5)",
        "math.exp(?) - math.sin(?)",
        "min(?, ?, 0.25) * 3",
        "? ** 3 - ? * 2",
        "1.0 if ? > ? else 1 / 3",
        "math.sqrt(?) + abs(?)",
        "(? + 1e-9) * 0.5 + ? // 0.75",
        "math.pow(abs(?), 1.7) % 1.25",
        "not (? > 0.1 and ? > 0.1)",
    ]
)
CONDITIONS = st.sampled_from(["a[{0}] > 0.0", "i % 2 == 0", "not b[{0}] < c[0] or n > 3"])


@st.composite
def nests(draw: st.DrawFn, rectangular: bool = False, values: st.SearchStrategy[str] | None = None) -> Nest:
    lines = ["def k(a, b, c, n, m):"]
    for depth in range(draw(st.integers(1, 3))):
        outer = VARIABLES[:depth]
        indent = "    " * (depth + 1)
        lines.append(f"{indent}for {VARIABLES[depth]} in range({draw(ranges(outer, rectangular))}):")
        inside = f"{indent}    "
        for _ in range(draw(st.integers(1, 2))):
            if values is not None and draw(st.booleans()):
                condition = draw(CONDITIONS).format(draw(indices(VARIABLES[: depth + 1])))
                lines.append(f"{inside}if {condition}:")
                lines.append(f"{inside}    {draw(statements(VARIABLES[: depth + 1], values))}")
            lines.append(inside + draw(statements(VARIABLES[: depth + 1], values)))
    lines.append("    a[0] = b[n] + c[m]")
    return Nest("\n".join(lines), rectangular)


def arguments(n: int, m: int) -> list[Any]:
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=SIZE), rng.normal(size=SIZE).astype(np.float32)
    return [a, b, rng.normal(size=SIZE), n, m]


def compare(nest: Nest, n: int, m: int) -> None:
    made, written = nest.kernel()
    given_ = arguments(n, m)
    real = counted(made, *given_)
    analysis = written.analysis
    assert analysis is not None
    counts = analysis.at(*given_)
    assert counts.assumed == ()
    for use, found in zip(analysis.arrays, counts.arrays, strict=True):
        truth: Counted = real[use.position]
        assert (found.reads, found.writes) == (truth.loads, truth.stores)
        assert found.touched == len(truth.touched) if found.exact else found.touched >= len(truth.touched)
        for reached, seen in ((found.read_range, truth.loaded), (found.written_range, truth.stored)):
            if not seen:
                continue
            assert reached is not None
            if nest.rectangular:
                assert reached == (min(seen), max(seen))
            else:
                assert reached[0] <= min(seen) <= max(seen) <= reached[1]


@examples(80)
@given(nests(), st.integers(0, 9), st.integers(0, 9))
def test_affine_nests_are_counted_exactly(nest: Nest, n: int, m: int) -> None:
    compare(nest, n, m)


@examples(60)
@given(nests(rectangular=True), st.integers(1, 9), st.integers(1, 9))
def test_ranges_of_rectangles_are_exact(nest: Nest, n: int, m: int) -> None:
    compare(nest, n, m)


@examples(6, HealthCheck.too_slow)
@given(nests(values=FORMULAS), st.integers(1, 9), st.integers(0, 9))
def test_numba_and_the_interpreter_agree_on_any_nest(nest: Nest, n: int, m: int) -> None:
    pytest.importorskip("numba")
    _, written = nest.kernel()
    assert isinstance(written.body, NestBody)
    interpreted, compiled = arguments(n, m), arguments(n, m)
    failed = []
    for way, given_ in ((written.body.interpret, interpreted), (written.body.compile_and_run, compiled)):
        try:
            way(*given_)
        except ZeroDivisionError as error:
            failed.append(str(type(error)))
    assert len(failed) in (0, 2)
    for one, other in zip(interpreted[:3], compiled[:3], strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
        numbers = ~np.isnan(one)
        assert one[numbers].tobytes() == other[numbers].tobytes()


@examples(60)
@given(nests(values=FORMULAS))
def test_any_nest_has_finite_frequencies(nest: Nest) -> None:
    _, written = nest.kernel()
    for use in written.arrays:
        assert math.isfinite(use.laf) and use.laf > 0
        assert use.elements_read <= use.reads
        assert use.elements_written <= use.writes
        assert 0 <= use.density(100, SIZE) <= 1
