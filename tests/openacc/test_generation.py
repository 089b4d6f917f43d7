"""Generated kernels: what their text says, and that they compute what the original does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from acc_kernels import add, scale, sum_of
from hypothesis import given
from hypothesis import strategies as st
from property_examples import examples

from offloadrt import Kernel, expect, kernel
from offloadrt.extensions.openacc import Argument, PushFlags, generate, jacc_arg_build, jacc_args
from offloadrt.kernels.execution import NestBody
from offloadrt.runtime.host_array import HostArray

RESTRICT, VAR_OPT = PushFlags.RESTRICT, PushFlags.VAR_OPT
STEPS = 3


@kernel
def smooth(a, b, n, weight):  # type: ignore[no-untyped-def]
    for i in range(1, n - 1):
        total = 0.0
        for step in expect(range(STEPS), trips=3):
            total += a[i - 1] + a[i + 1] * step
        b[i] = weight * total if weight != 0.0 else a[i]


def array(name: str, values: Any, address: int = 0x1000) -> HostArray:
    data = np.array(values, float)
    return HostArray(name, address, data.shape, data.dtype, "static", 0, data)


def arguments(*values: Any) -> Any:
    return jacc_args(smooth, array("a", np.arange(8.0)), array("b", np.zeros(8), 0x2000), *values)


def text_of(flags: PushFlags, *values: Any) -> str:
    return generate(smooth, arguments(*values), flags).text


def test_the_text_is_readable_python() -> None:
    assert text_of(RESTRICT | VAR_OPT, 8, -2.0).splitlines() == [
        "# kernel smooth, generated at run time, restrict",
        "# types: a: float64[:], b: float64[:]",
        "# launch: 128 threads a gang, 32 registers a thread, collapse(1)",
        "# code: efficiency 1.0, 0.0 dependent accesses",
        "# constants: n = 8, weight = -2.0",
        "# numbers around it: STEPS = 3",
        "def smooth(a: 'restrict', b: 'restrict'):",
        "    for i in range(1, 8 - 1):",
        "        total = 0.0",
        "        for step in expect(range(STEPS), trips=3):",
        "            total += a[i - 1] + a[i + 1] * step",
        "        b[i] = -2.0 * total if -2.0 != 0.0 else a[i]",
    ]


def test_without_flags_nothing_is_specialised() -> None:
    text = text_of(PushFlags.NONE, 8, 2.0)
    assert "def smooth(a, b, n, weight):" in text
    assert text == text_of(PushFlags.NONE, 4, 0.5)


def test_each_specialization_and_each_constant_gives_another_text() -> None:
    texts = [text_of(flags, 8, 2.0) for flags in (PushFlags.NONE, RESTRICT, VAR_OPT, RESTRICT | VAR_OPT)]
    texts += [text_of(VAR_OPT, 8, 2), text_of(VAR_OPT, 7, 2.0)]
    assert len(set(texts)) == 6


def test_a_scalar_without_a_literal_stays_an_argument() -> None:
    text = text_of(VAR_OPT, 8, math.inf)
    assert "def smooth(a, b, weight):" in text
    assert "# types: a: float64[:], b: float64[:], weight: float64" in text


def test_annotations_are_kept_beside_restrict() -> None:
    from numpy.typing import NDArray

    @kernel
    def halve(a: NDArray[np.float32]) -> None:
        for i in range(len(a)):
            a[i] = a[i] / 2

    text = generate(halve, jacc_args(halve, array("a", np.ones(4))), RESTRICT).text
    assert "def halve(a: Annotated[NDArray[np.float32], 'restrict']) -> None:" in text


def test_a_phantom_kernel_has_a_text_and_no_statements() -> None:
    sweep = Kernel("sweep", flops_per_iteration=2, bytes_per_iteration=24)
    args = jacc_args(sweep, array("a", np.zeros(4)), 4)
    assert generate(sweep, args, VAR_OPT).text.endswith("def sweep(arg0): ...\n")
    assert generate(sweep, args, VAR_OPT).kernel is sweep


def test_a_body_over_views_is_generated_too() -> None:
    @kernel(flops_per_iteration=2, bytes_per_iteration=24)
    def axpy(alpha, x, y):  # type: ignore[no-untyped-def]
        y += alpha * np.abs(x)

    x, y = array("x", [1.0, -2.0]), array("y", [10.0, 10.0], 0x2000)
    made = generate(axpy, jacc_args(axpy, -3.0, x, y), VAR_OPT)
    assert "y += -3.0 * np.abs(x)" in made.text
    made.kernel(*made.arguments([-3.0, x.data, y.data]))
    assert y.data.tolist() == [7.0, 4.0]


@examples(40)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=9),
    st.floats(allow_nan=False, width=64),
    st.sampled_from([PushFlags.NONE, RESTRICT, VAR_OPT, RESTRICT | VAR_OPT]),
)
def test_a_generated_kernel_computes_what_the_original_does(
    values: list[float], weight: float, flags: PushFlags
) -> None:
    a, wanted = np.array(values), np.zeros(len(values))
    smooth(a, wanted, len(values), weight)
    b = np.zeros(len(values))
    args = jacc_args(smooth, array("a", a), array("b", b, 0x2000), len(values), weight)
    made = generate(smooth, args, flags)
    made.kernel(*made.arguments([a, b, len(values), weight]))
    assert b.tobytes() == wanted.tobytes()


def test_numba_compiles_a_generated_kernel_to_the_same_result() -> None:
    pytest.importorskip("numba")
    a, b, wanted = np.arange(9.0), np.zeros(9), np.zeros(9)
    smooth(a, wanted, 9, 0.1)
    made = generate(smooth, arguments(9, 0.1), RESTRICT | VAR_OPT)
    assert isinstance(made.kernel.body, NestBody)
    made.kernel.body.compile_and_run(a, b)
    assert b.tobytes() == wanted.tobytes()


def test_constants_do_not_change_what_a_launch_does() -> None:
    x, y = array("x", np.zeros(100)), array("y", np.zeros(100))
    made = generate(scale, jacc_args(scale, x, y, 3.0), VAR_OPT)
    assert made.kernel.analysis is not None and scale.analysis is not None
    generated, original = made.kernel.analysis.at(x, y), scale.analysis.at(x, y, 3.0)
    assert (generated.iterations, generated.flops, generated.bytes) == (
        original.iterations,
        original.flops,
        original.bytes,
    )


def test_descriptors_say_what_the_analysis_found() -> None:
    from offloadrt.extensions.openacc import Attribute

    x, y, z = (array(name, np.zeros(4), address) for name, address in (("x", 64), ("y", 128), ("z", 192)))
    first, second, third = jacc_args(add, x, y, z)
    assert (first.symbol, first.type, first.address, first.size) == ("x", np.float64, 64, 32)
    assert first.attributes == second.attributes == Attribute.PRESENT
    assert third.attributes == Attribute.PRESENT | Attribute.WRITE
    assert [one.writes for one in jacc_args(sum_of, x, y, present=False)] == [False, True]


def test_bounds_narrow_the_bytes() -> None:
    rows = HostArray("a", 0x100, (4, 8), np.dtype(np.float32))
    assert jacc_arg_build("a", rows, bounds=(1, 3)).range == (0x100 + 32, 0x100 + 96)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda a: jacc_arg_build("a", a, bounds=(2, 9)), ValueError, r"bounds \(2, 9\) lie outside of a\[0:4\]"),
        (lambda a: jacc_arg_build("n", 3, bounds=(0, 1)), ValueError, "argument 'n' is the number 3"),
        (lambda a: jacc_arg_build("n", "3"), TypeError, "argument 'n': '3' is neither an array nor a number"),
        (lambda a: jacc_args(add, a), ValueError, "kernel 'add' takes 3 arguments, not 1"),
    ],
)
def test_descriptors_that_make_no_sense_are_refused(build: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        build(array("a", np.zeros(4)))


def test_an_argument_knows_its_bytes_and_whether_the_kernel_writes_them() -> None:
    read, written, count, weight = arguments(8, 0.5)
    assert all(isinstance(one, Argument) for one in (read, written, count, weight))
    assert [one.is_array for one in (read, written, count, weight)] == [True, True, False, False]
    assert [one.writes for one in (read, written)] == [False, True]
    assert written.range[0] >= written.address == 0x2000 and written.range[1] <= written.address + written.size
    assert (count.address, count.size, count.value) == (0, 0, 8)
