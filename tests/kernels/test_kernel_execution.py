"""Interpreter and Numba compute the same bits, alone and on an emulated device, in both gears."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from instrumented import counted
from nests import AFFINE, REAL, axpy, floats, graph
from nests import expand as breadth_first
from written import function

from offloadrt import openmp as omp
from offloadrt.driver import CudaDriver
from offloadrt.kernels import ArrayUse, Kernel, KernelError, kernel
from offloadrt.kernels.execution import NestBody
from offloadrt.machine import Machine, load
from offloadrt.sim import Simulation


def body_of(made: Kernel) -> NestBody:
    assert isinstance(made.body, NestBody)
    return made.body


def copies(arguments: list[Any]) -> list[Any]:
    return [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]


def bits(arguments: list[Any]) -> list[bytes]:
    return [a.tobytes() for a in arguments if isinstance(a, np.ndarray)]


@pytest.mark.parametrize(("source", "arguments"), REAL, ids=lambda v: getattr(v, "__name__", ""))
def test_numba_and_the_interpreter_agree_bit_by_bit(source: Any, arguments: list[Any]) -> None:
    pytest.importorskip("numba")
    body = body_of(kernel(source))
    interpreted, compiled = copies(arguments), copies(arguments)
    body.interpret(*interpreted)
    body.compile_and_run(*compiled)
    assert bits(interpreted) == bits(compiled)


@pytest.mark.parametrize(("source", "arguments"), AFFINE, ids=lambda v: getattr(v, "__name__", ""))
def test_doubles_are_those_of_plain_python(source: Any, arguments: list[Any]) -> None:
    interpreted = copies(arguments)
    body_of(kernel(source)).interpret(*interpreted)
    assert bits([a.values if hasattr(a, "values") else a for a in counted(source, *arguments)]) == bits(interpreted)


EDGES = """
def k(x, whole, small, out, kept, n):
    for i in range(n):
        a = x[i]
        b = x[n - 1 - i]
        out[i, 0] = a / b
        out[i, 1] = min(a, b, 1.0) + max(b, a)
        out[i, 2] = math.sqrt(a) + math.fabs(a)
        out[i, 3] = math.exp(a * 100.0)
        out[i, 4] = math.log(a)
        out[i, 5] = math.pow(a, b)
        out[i, 6] = math.sin(a) + math.cos(a) * math.tan(b) - math.atan2(a, b)
        out[i, 7] = a ** 3 - b ** 2 + -a ** 1
        out[i, 8] = math.asin(a) + math.tanh(a) + math.log10(a) * math.sinh(b)
        out[i, 9] = small[i] * small[i] + whole[i] * whole[i]
        out[i, 10] = whole[i] // 7 + whole[i] % 5 + (whole[i] & 6 | 1 ^ 4) + (1 << i % 8) + (whole[i] >> 1)
        out[i, 11] = a > b and b > 0.0 or not a < 0.5
        out[i, 12] = (1 if 0 < whole[i] <= 10 else 2) / 3
        small[i] = a * b
        whole[i] = int(min(max(a, -4.0), 4.0) * 10.0) + math.floor(b / 1e299) + len(x) + out.shape[1] + x.size
        kept[i] = a > b
        if kept[i]:
            kept[i] = not kept[i - 1]
"""


def edge_arguments() -> list[Any]:
    x = np.array([0.0, -0.0, 1.0, -1.0, 0.3, -2.5, 1e-310, 1e300, -1e300, 7.0, 9.9, math.pi])
    n = len(x)
    whole = np.arange(-4, n - 4, dtype=np.int32) * 1000003
    return [x, whole, floats(n).astype(np.float32), np.zeros((n, 13)), np.zeros(n, np.bool_), n]


def test_interpreted_and_compiled_agree_at_the_edges_of_arithmetic() -> None:
    pytest.importorskip("numba")
    body = body_of(kernel(function(EDGES)))
    interpreted, compiled = edge_arguments(), edge_arguments()
    body.interpret(*interpreted)
    body.compile_and_run(*compiled)
    for one, other in zip(interpreted[:-1], compiled[:-1], strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
        np.testing.assert_array_equal(np.signbit(one[one == one]), np.signbit(other[one == one]))
    assert np.isinf(interpreted[3][:, 0]).any()


@pytest.mark.parametrize("way", ["interpret", "compile_and_run"])
class TestErrors:
    def run(self, way: str, text: str, *arguments: Any) -> None:
        if way == "compile_and_run":
            pytest.importorskip("numba")
        getattr(body_of(kernel(function(text))), way)(*arguments)

    def test_an_index_outside_of_its_array(self, way: str) -> None:
        with pytest.raises(IndexError):
            self.run(way, "def k(a, n):\n    for i in range(n):\n        a[i + 1] = a[i]", np.zeros(5), 5)

    def test_whole_numbers_divided_by_zero(self, way: str) -> None:
        with pytest.raises(ZeroDivisionError):
            self.run(way, "def k(a, n):\n    for i in range(n):\n        a[i] = 3 // i", np.zeros(5), 5)

    def test_arguments_that_a_kernel_cannot_take(self, way: str) -> None:
        text = "def k(a, n):\n    for i in range(n):\n        a[i] = n"
        for a, n, message in (
            ([0.0], 1, "a is indexed in its source, but <class 'list'> was given; pass an array of"),
            (np.zeros(1, complex), 1, "a is indexed in its source, but complex128"),
            (np.zeros(1, np.uint64), 1, "but uint64"),
            (np.zeros(1), "1", "n is a number in its source, but <class 'str'>"),
        ):
            with pytest.raises(KernelError, match=message):
                self.run(way, text, a, n)
        with pytest.raises(KernelError, match=r"kernel 'k' takes 2 arguments \(a, n\), not 1"):
            self.run(way, text, np.zeros(1))


def test_numpy_scalars_are_taken() -> None:
    made, y = kernel(axpy), np.zeros(3)
    made(np.float32(2.0), np.arange(3.0), y)
    assert y.tolist() == [0.0, 2.0, 4.0]


def test_it_is_compiled_when_it_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr("offloadrt.kernels.execution.WORTH_COMPILING", 1000.0)
    body = body_of(kernel(axpy))
    used: list[str] = []
    monkeypatch.setattr(NestBody, "interpret", lambda self, *a: used.append("interpreter"))
    monkeypatch.setattr(NestBody, "compile_and_run", lambda self, *a: used.append("numba"))
    for _ in range(4):
        body(2.0, np.zeros(50), np.zeros(50))  # 250 accesses and operations
    assert used == ["interpreter", "interpreter", "interpreter", "numba"]
    monkeypatch.setattr("offloadrt.kernels.execution.numba_is_installed", lambda: False)
    without = body_of(kernel(axpy))
    for _ in range(5):
        without(2.0, np.zeros(50), np.zeros(50))
    assert used[4:] == ["interpreter"] * 5


def test_without_numba_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offloadrt.kernels.execution.numba_is_installed", lambda: False)
    with pytest.raises(KernelError, match=r"without Numba; install offloadrt\[kernels\]"):
        body_of(kernel(axpy)).compile_and_run(2.0, np.zeros(2), np.zeros(2))


def on_a_device(gear: Any, made: Kernel, configuration: str) -> tuple[list[bytes], float]:
    """Breadth-first levels of a small graph, computed on an emulated device; and the virtual time."""
    sim = Simulation(gear=gear)
    machine = Machine(sim, load("alex-a100", {}))
    program = omp.OpenMP(machine, [CudaDriver.of(machine, 0)], omp.OpenMPOptions(configuration=configuration))
    results: list[bytes] = []

    async def main() -> None:
        async def body(t: omp.HostThread) -> None:
            *values, n = graph(80, 3)
            arrays = [t.array(f"a{k}", v.shape, dtype=v.dtype, fill=v) for k, v in enumerate(values)]
            async with t.target_data(omp.map(tofrom=arrays)):
                for _ in range(3):
                    await t.target(made, *arrays, n, iterations=n)
            results.extend(array.data.tobytes() for array in arrays)

        await program.parallel(body, 1)

    sim.run(main)
    return results, sim.now


@pytest.mark.parametrize("configuration", ["copy", "managed"])
def test_on_a_device_results_are_those_of_the_host_in_both_gears(configuration: str) -> None:
    expected = copies(graph(80, 3))
    body = body_of(kernel(breadth_first))
    for _ in range(3):
        body.interpret(*expected)
    native = on_a_device("native", kernel(breadth_first), configuration)
    assert native == on_a_device("turbo", kernel(breadth_first), configuration)
    assert native[0] == bits(expected)


@pytest.mark.parametrize("gear", ["native", "turbo"])
def test_compiled_on_a_device(gear: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr("offloadrt.kernels.execution.WORTH_COMPILING", 0.0)
    compiled = on_a_device(gear, kernel(breadth_first), "copy")
    monkeypatch.setattr("offloadrt.kernels.execution.WORTH_COMPILING", math.inf)
    assert on_a_device(gear, kernel(breadth_first), "copy") == compiled


def test_a_body_over_views_says_by_name_what_it_reads_and_writes() -> None:
    @kernel(bytes_per_iteration=16, reads=("x",), writes=("x", "y"))
    def move(a: float, x: Any, y: Any) -> None:
        y[:] = x

    assert [(use.name, use.position, use.reads, use.writes) for use in move.arrays] == [("x", 1, 1, 1), ("y", 2, 0, 1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reads": ("z",)}, r"reads: there is no parameter 'z' \(x\)"),
        ({"writes": "x"}, r'writes=\'x\': write writes=\("x",\)'),
        ({"reads": ("x",), "arrays": (ArrayUse("x", 0, reads=1),)}, "give either reads and writes, or arrays"),
    ],
)
def test_what_a_body_reads_and_writes_is_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(KernelError, match=message):

        @kernel(bytes_per_iteration=8, **options)
        def move(x: Any) -> None:
            x[:] = 0
