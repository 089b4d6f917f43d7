"""Random small loop nests: counts and ranges against an instrumented run, Numba against the interpreter."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from instrumented import Counted, counted
from property_examples import examples
from random_nests import FORMULAS, SIZE, Nest, arguments, nests

from offloadrt.kernels.execution import NestBody


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
