"""Complex elements: run alike by the interpreter and Numba, counted in real operations, refused where not defined."""

from __future__ import annotations

import cmath
from typing import Any

import numpy as np
import pytest
from instrumented import Phantom
from numpy.typing import NDArray
from written import function

from offloadrt.compilers.multi_device import DividedKernel, predicate, split_loop
from offloadrt.kernels import Kernel, KernelError, SourceRefused, kernel
from offloadrt.kernels.execution import NestBody

Complexes = NDArray[np.complex128]


def nest(*lines: str, parameters: str = "z: Complexes, x, n", **names: Any) -> Kernel:
    return kernel(function("\n    ".join([f"def k({parameters}):", *lines]), Complexes=Complexes, np=np, **names))


def operations(*lines: str) -> float:
    analysis = nest("for i in range(n):", *(f"    {line}" for line in lines)).analysis
    assert analysis is not None
    return analysis.flops


FLOPS = [
    ("z[i] = z[i + 1] + z[i]", 2),
    ("z[i] = z[i + 1] - x[i]", 1),
    ("z[i] = z[i + 1] * z[i]", 6),
    ("z[i] *= x[i]", 2),
    ("z[i] = 2.0 * z[i]", 2),
    ("z[i] = z[i + 1] / z[i]", 9),
    ("z[i] = z[i + 1] / x[i]", 2),
    ("z[i] = x[i] / z[i]", 9),
    ("z[i] = z[i + 1] ** 3", 12),
    ("z[i] = -z[i + 1].conjugate()", 0),
    ("x[i] = z[i].real * z[i].imag", 1),
    ("z[i] = complex(x[i], 1.0) * 1j", 6),
]


@pytest.mark.parametrize(("line", "flops"), FLOPS, ids=[row[0] for row in FLOPS])
def test_complex_operations_count_as_real_ones(line: str, flops: int) -> None:
    assert operations(line, "x[i] = x[i]") == flops


def test_a_complex_element_has_sixteen_bytes() -> None:
    made = nest("for i in range(n): z[i] = z[i] * x[i]")
    assert made.bytes_per_iteration == 16 + 16 + 8
    counts = made.launch(1, arguments=[Phantom((50,), "c16"), Phantom((50,)), 50]).counts
    assert counts is not None and (counts.bytes, counts.flops) == (50 * 40, 100)


EVERYTHING = """
def k(z: Complexes, w: Complexes, x, factor: complex, n):
    total = 0.0
    for i in range(n):
        a = z[i]
        b = z[n - 1 - i]
        w[i, 0] = a * b + a / b
        w[i, 1] = factor * a - x[i] * b / factor
        w[i, 2] = a / x[i] + x[i] / a - a ** 3
        w[i, 3] = complex(b.imag, x[i]) * UNIT + 2j
        w[i, 4] = a.conjugate() * -b if a != b else 0.5
        w[i, 4] -= +a
        s = 0.0
        for k in range(3):
            s += w[i, k] * a
        w[i, 5] = s
        x[i] = w[i, 3].real - (a * b).imag
        total += a * b
    w[0, 0] = total
"""


def everything() -> list[Any]:
    x = np.array([0.0, -0.0, 1.0, -2.5, 1e-300, 1e300, np.inf, np.nan])
    z = np.empty(64, complex)
    z.real, z.imag = np.repeat(x, 8), np.tile(x, 8)
    return [z, np.zeros((len(z), 6), complex), np.resize(x, len(z)), 0.3 - 1.7j, len(z)]


def run(made: Kernel, way: str) -> list[bytes]:
    arguments = everything()
    assert isinstance(made.body, NestBody)
    getattr(made.body, way)(*arguments)
    return [np.where(np.isnan(part), np.nan, part).tobytes() for a in arguments[:3] for part in (a.real, a.imag)]


def test_numba_and_the_interpreter_agree_bit_by_bit() -> None:
    pytest.importorskip("numba")
    made = kernel(function(EVERYTHING, Complexes=Complexes, UNIT=1j))
    assert run(made, "interpret") == run(made, "compile_and_run")


@pytest.mark.parametrize("way", ["interpret", "compile_and_run"])
def test_finite_numbers_are_those_of_python(way: str) -> None:
    if way == "compile_and_run":
        pytest.importorskip("numba")
    made = nest("for i in range(n): z[i] = (z[i] * z[n - 1 - i] - 2.0) / (z[i] + 0.5j)", parameters="z: Complexes, n")
    rng = np.random.default_rng(1)
    z = rng.normal(size=20) + 1j * rng.normal(size=20)
    expected = [complex(number) for number in z]
    for i in range(20):
        expected[i] = (expected[i] * expected[19 - i] - 2.0) / (expected[i] + 0.5j)
    getattr(made.body, way)(z, 20)
    assert z.tolist() == expected


@pytest.mark.parametrize("divide", [predicate, split_loop])
def test_devices_divide_complex_arrays_and_reductions(divide: Any) -> None:
    made = nest(
        "total = 0j",
        "for i in range(n):",
        "    w[i] = z[i] * 2j if x[i] > 0.0 else z[i].conjugate()",
        "    total += z[i] * x[i]",
        "out[0] = total",
        parameters="z: Complexes, x, w: Complexes, out: Complexes, n",
    )
    divided: DividedKernel = divide(made)
    rng = np.random.default_rng(2)
    z, x = rng.normal(size=10) + 1j * rng.normal(size=10), rng.normal(size=10)
    w, out = np.zeros(10, complex), np.zeros(1, complex)
    arguments = [z, x, w, out, 10]
    assert divided.combination is not None
    (kind,) = divided.combination.types(arguments)
    partials = np.zeros(2, kind)
    copies = []
    for part in divided.parts(2, arguments):
        copied = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
        divided.kernel(*divided.arguments(part.share, copied, [partials]))
        copies.append((part, copied))
    for part, copied in copies:
        for offset, nbytes in part.segments["w"]:
            mine = slice(offset // 16, (offset + nbytes) // 16)
            w[mine] = copied[2][mine]
    divided.combination.kernel(*divided.combination.arguments(arguments, [partials]))
    assert w.tolist() == np.where(x > 0.0, z * 2j, z.conjugate()).tolist()
    assert cmath.isclose(out[0], (z * x).sum())


REFUSED = [
    ("x[i] = z[i]", "a complex number is stored in x[i]", "annotate x as NDArray[np.complex128]"),
    ("x[i] = x[i].real", "x[i].real is not of a complex number", "annotate its array"),
    ("z[i] = z[i] // 2.0", "z[i] // 2.0 is not defined for complex numbers", "use + - * / or **"),
    ("z[i] = abs(z[i])", "abs(z[i]) is not defined for complex numbers", "use .real and .imag"),
    ("if z[i] < z[i + 1]: x[i] = 1.0", "z[i] < z[i + 1] compares complex numbers", "compare .real or .imag"),
    ("x[z[i]] = 1.0", "z[i] in x[z[i]] is no whole number", "write int(z[i].real)"),
    ("z[i] = complex(x[i])", "complex(x[i]) has 1 operands", "give a function"),
    ("z[i] = z[i].conjugate(1)", "z[i].conjugate(1) has 1 operands", "write z[i].conjugate()"),
]


@pytest.mark.parametrize(("line", "what", "instead"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_complex_numbers_do_not_have_is_refused(line: str, what: str, instead: str) -> None:
    with pytest.raises(SourceRefused) as raised:
        nest("for i in range(n):", f"    {line}", "    x[i] = z[i].real")
    assert raised.value.what.startswith(what) and instead in raised.value.instead


@pytest.mark.parametrize(
    ("z", "x", "message"),
    [
        (np.zeros(3), np.zeros(3), "z is indexed in its source, but float64 was given; pass an array of complex128"),
        (np.zeros(3, complex), np.zeros(3, complex), "annotate x as NDArray"),
    ],
)
def test_arrays_have_the_elements_that_the_source_says(z: Any, x: Any, message: str) -> None:
    made = nest("for i in range(n): z[i] = z[i] * x[i]")
    for use in (made, lambda *arguments: made.launch(1, arguments=arguments)):
        with pytest.raises(KernelError, match=message):
            use(z, x, 3)


def test_a_number_may_be_complex_where_it_is_annotated() -> None:
    made = nest("for i in range(n): z[i] = z[i] * f", parameters="z: Complexes, f: complex, n")
    z = np.ones(2, complex)
    made(z, 2j, 2)
    assert z.tolist() == [2j, 2j] and made.launch(1, arguments=[z, 2j, 2]).flops == 12
    with pytest.raises(KernelError, match="n is a number in its source, but"):
        made(z, 2j, 2j)
