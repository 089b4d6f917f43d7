"""A loop nest on an array of which the device has a section: indices are those of the whole array, as in OpenMP."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from openmp_rig import MakeRig
from property_examples import examples

from offloadrt import kernel
from offloadrt import openmp as omp
from offloadrt.kernels import KernelError

N = 24


@kernel
def update(x: Any, y: Any, lo: int, hi: int) -> None:
    for i in range(lo, hi):
        x[i] += len(x) * y[i - len(y)]


@kernel
def rows(x: Any, lo: int, hi: int) -> None:
    for i in range(lo, hi):
        for j in range(x.shape[1]):
            x[i, j] = x.size + i


@kernel
def one(x: Any, lo: int, hi: int) -> None:
    for i in range(lo, hi):
        x[i] = 1.0


@kernel
def first(p: Any, n: int) -> None:
    for i in range(n):
        p[i] = 2.0


@kernel
def where(flag: Any, p: Any, n: int) -> None:
    for i in range(n):
        if flag[i] > 0.0:
            p[i] = 1.0


@pytest.fixture(params=["interpreted", "compiled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "compiled":
        pytest.importorskip("numba")
        monkeypatch.setattr("offloadrt.kernels.execution.WORTH_COMPILING", 0.0)
    else:
        monkeypatch.setattr("offloadrt.kernels.execution.WORTH_COMPILING", math.inf)
    return str(request.param)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", ["static", "heap"])
@examples(30, HealthCheck.function_scoped_fixture)
@given(bounds=st.lists(st.integers(0, N), min_size=4, max_size=4).map(sorted))
def test_the_elements_of_the_section_are_where_they_are_in_the_array(
    rig: MakeRig, kind: Any, bounds: list[int]
) -> None:
    lower, lo, hi, upper = bounds
    values = np.arange(float(N))

    async def body(t: omp.HostThread) -> list[float]:
        x, y = t.array("x", N, fill=values, kind=kind), t.array("y", N, fill=values, kind=kind)
        sections = [omp.section(array, lower, upper - lower) for array in (x, y)]
        await t.target(update, x, y, lo, hi, maps=[omp.map(tofrom=sections[0]), omp.map(to=sections[1])])
        return x.data.tolist()

    expected = values.copy()
    expected[lo:hi] += N * values[lo:hi]
    assert rig().alone(body) == expected.tolist()


@pytest.mark.usefixtures("way")
def test_rows_of_a_matrix(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> Any:
        x = t.array("x", (6, 4), fill=1.0)
        await t.target(rows, x, 2, 5, maps=omp.map(tofrom=omp.section(x, 2, 3)))
        return x.data

    expected = np.ones((6, 4))
    expected[2:5] = 24.0 + np.arange(2.0, 5.0)[:, np.newaxis]
    np.testing.assert_array_equal(rig().alone(body), expected)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("lo", "hi", "index"), [(8, 13, 12), (7, 9, 7), (-1, 0, -1)])
def test_an_index_outside_of_the_section_is_an_illegal_access(rig: MakeRig, lo: int, hi: int, index: int) -> None:
    async def body(t: omp.HostThread) -> None:
        x = t.array("x", N)
        await t.target(one, x, lo, hi, maps=omp.map(tofrom=omp.section(x, 8, 4)))

    with pytest.raises(omp.IllegalAddress, match=rf"'one': x\[{index}\] is not mapped: the device has \[8:12\] of it"):
        rig().alone(body)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("phantom", [False, True])
def test_a_pointer_that_is_not_mapped(rig: MakeRig, phantom: bool) -> None:
    async def body(t: omp.HostThread) -> None:
        p = t.array("p", N, kind="heap")
        await t.target(first, p, 0)  # touches nothing
        await t.target(first, p, N)

    with pytest.raises(omp.IllegalAddress, match="'first': p is not mapped: the device got its host address 0x") as bad:
        rig(phantom=phantom).alone(body)
    assert (bad.value.array, bad.value.thread) == ("p", "host thread 0")


@pytest.mark.parametrize("phantom", [False, True])
@pytest.mark.parametrize(
    ("dtype", "n", "message"),
    [
        ("f2", 4, "p is indexed in its source, but float16 was given; pass an array of bool"),
        ("f8", "4", "n is a number in its source, but '4' was given"),
        (">f8", 4, "p is indexed in its source, but >f8 was given; .* in this machine's byte order"),
    ],
)
def test_what_a_loop_nest_does_not_take_is_refused_at_its_launch(
    rig: MakeRig, dtype: str, n: Any, message: str, phantom: bool
) -> None:
    async def body(t: omp.HostThread) -> None:
        await t.target(first, t.array("p", 4, dtype), n)

    with pytest.raises(KernelError, match=message):
        rig(phantom=phantom).alone(body)


@pytest.mark.parametrize("phantom", [False, True])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((8, 8), r"p\[i\] has 1 indices in its source \(line \d+\), but an array of shape \(8, 8\) was given"),
        (np.float64(3.0), "p is indexed in its source, but <class 'numpy.float64'> was given"),
    ],
    ids=["two dimensions", "number"],
)
def test_an_argument_has_the_dimensions_that_the_source_indexes(
    rig: MakeRig, given: Any, message: str, phantom: bool
) -> None:
    async def body(t: omp.HostThread) -> None:
        await t.target(first, t.array("p", given) if isinstance(given, tuple) else given, 4)

    with pytest.raises(KernelError, match=message):
        rig(phantom=phantom).alone(body)


@pytest.mark.parametrize("phantom", [False, True])
def test_what_only_data_lead_to_need_not_be_mapped(rig: MakeRig, phantom: bool) -> None:
    async def body(t: omp.HostThread) -> None:
        await t.target(where, t.array("flag", N, fill=0.0), t.array("p", N, kind="heap"), N)

    rig(phantom=phantom).alone(body)


@pytest.mark.parametrize("phantom", [False, True])
def test_memory_of_no_type_is_viewed_first(rig: MakeRig, phantom: bool) -> None:
    async def body(t: omp.HostThread) -> None:
        pointer, back = await t.omp_target_alloc(8 * N), t.array("back", N)
        assert pointer is not None
        with pytest.raises(KernelError, match=r"memory of no type was given; .* pointer\.viewed\(np\.float64\)"):
            await t.target(first, pointer, N, is_device_ptr=pointer)
        await t.target(first, pointer.viewed("f8"), N, is_device_ptr=pointer)
        await t.omp_target_memcpy(back, pointer, 8 * N)
        assert phantom or set(back.data) == {2.0}
        await t.omp_target_free(pointer)

    rig(phantom=phantom).alone(body)


def test_a_body_over_views_that_takes_the_whole_array_touches_what_is_not_there(rig: MakeRig) -> None:
    @kernel(flops_per_iteration=1)
    def scale(x: Any) -> None:
        x *= 2.0

    async def body(t: omp.HostThread) -> None:
        x = t.array("x", N)
        await t.target(scale, x, maps=omp.map(tofrom=omp.section(x, 8, 4)))

    with pytest.raises(omp.IllegalAddress, match=r"x\[:\] is not mapped: the device has \[8:12\] of it"):
        rig().alone(body)
