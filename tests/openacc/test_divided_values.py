"""Whatever devices share, the values are those that one of them computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from acc_kernels import increment, scale, sum_of
from divided_rig import DIVIDING, STEPS, in_numpy, prefix, relax, run_stencil, start, step
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from openacc_rig import MakeRig
from property_examples import examples

from offloadrt import kernel
from offloadrt import openacc as acc


@kernel(collapse=2)
def transpose(x, y, rows, columns):  # type: ignore[no-untyped-def]
    for i in range(rows):
        for j in range(columns):
            y[j, i] = x[i, j]


@kernel
def clear(x, y, rows, columns):  # type: ignore[no-untyped-def]
    for i in range(2, rows):
        y[i, columns - 2] = 0.5 * x[0, i]


@pytest.mark.parametrize("communication", ["all-to-all", "needed"])
@pytest.mark.parametrize("strategy", [*DIVIDING, "duplicated", "single"])
@pytest.mark.parametrize("devices", [1, 2, 4, 8])
def test_a_stencil_is_what_one_device_computes(
    acc_rig: MakeRig, devices: int, strategy: str, communication: str
) -> None:
    rig, _, plate = run_stencil(acc_rig, devices, strategy=strategy, communication=communication)
    _, _, alone = run_stencil(acc_rig, 1)
    assert plate.tobytes() == alone.tobytes()
    np.testing.assert_allclose(plate, in_numpy(22, 13, STEPS), rtol=1e-13)
    moved = sum(device.bytes_moved()["p2p"] for device in rig.machine.devices)
    assert (moved > 0) is (devices > 1 and strategy in DIVIDING)


@pytest.mark.parametrize("strategy", DIVIDING)
@pytest.mark.parametrize("flags", [acc.PushFlags.NONE, acc.PushFlags.RESTRICT | acc.PushFlags.VAR_OPT])
@pytest.mark.parametrize("communication", ["all-to-all", "needed"])
def test_a_program_of_several_kernels_is_what_numpy_computes(
    acc_rig: MakeRig, strategy: str, flags: acc.PushFlags, communication: str
) -> None:
    """Divided kernels, two of them with reductions, one that cannot be divided, one whose array is only there for its
    launch, and the host, one after the other.
    """
    n = 37

    async def body(t: acc.HostThread) -> tuple[Any, float, acc.Jacc]:
        jacc = acc.Jacc(t, devices=4, strategy=strategy, communication=communication)
        x, y, total = t.array("x", n, fill=np.arange(n)), t.array("y", n), t.array("total", 1)
        most, count = t.array("most", 2), t.array("count", 1, np.int32)
        z = t.array("z", n, fill=1.0)
        await jacc.jacc_copyin(x, y, total, most, count)
        for factor in (1.0, 2.0):
            await jacc.jacc_kernel_push(scale, acc.jacc_args(scale, x, y, factor), flags)
            await jacc.jacc_kernel_push(prefix, acc.jacc_args(prefix, y, n), flags)
            await jacc.jacc_kernel_push(increment, acc.jacc_args(increment, y), flags)
            await jacc.jacc_kernel_push(scale, acc.jacc_args(scale, y, x, 0.5), flags)
        absent = (acc.jacc_args(scale, x, y, 1.0)[0], acc.jacc_arg_build("y", z, acc.Attribute.WRITE))
        await jacc.jacc_kernel_push(scale, (*absent, acc.jacc_arg_build("factor", 3.0)), flags)
        await jacc.jacc_kernel_push(sum_of, acc.jacc_args(sum_of, x, total), flags)
        await jacc.jacc_kernel_push(step, acc.jacc_args(step, x, y, most, count, n), flags)
        await jacc.jacc_host_access(x)
        await t.update(acc.host(x))
        assert np.array_equal(z.data, 3.0 * x.data)
        await jacc.jacc_copyout(total, x, most, count, y)
        assert np.array_equal(y.data, x.data - 3.0)
        assert (most[1], count[0]) == (x.data.max(), n)
        assert float(most[0]) == pytest.approx(x.data @ x.data)
        return x.data.copy(), float(total[0]), jacc

    rig = acc_rig({"jit.compile": 0}, devices=4, machine_name="dgx1-v100")
    x, total, jacc = rig.alone(body)
    wanted = np.arange(n, dtype=float)
    for factor in (1.0, 2.0):
        wanted = 0.5 * (np.cumsum(factor * wanted) + 1.0)
    assert np.array_equal(x, wanted) and total == pytest.approx(wanted.sum())
    assert list(jacc.refused) == ["prefix"]
    rig.assert_clean()


@pytest.mark.parametrize("strategy", ["always", "macc"])
@pytest.mark.parametrize("communication", ["all-to-all", "needed"])
def test_devices_for_which_nothing_is_left(acc_rig: MakeRig, strategy: str, communication: str) -> None:
    _, _, plate = run_stencil(acc_rig, 8, rows=7, strategy=strategy, communication=communication)
    np.testing.assert_allclose(plate, in_numpy(7, 13, STEPS), rtol=1e-13)


def test_one_array_seen_as_two_types_is_not_divided(acc_rig: MakeRig) -> None:
    async def body(t: acc.HostThread) -> Any:
        jacc = acc.Jacc(t, devices=2, strategy="always")
        a = t.array("a", 64, fill=1.0)
        await jacc.jacc_copyin(a)
        await jacc.jacc_kernel_push(scale, acc.jacc_args(scale, a.viewed(np.float64), a, 2.0))
        await jacc.jacc_copyout(a)
        assert "two arguments of two types" in jacc.refused["scale"]
        return a.data

    assert (acc_rig(devices=2, machine_name="dgx1-v100").alone(body) == 2.0).all()


def test_both_gears_give_one_trace(acc_rig: MakeRig) -> None:
    hashes = {
        run_stencil(acc_rig, 4, strategy="always", communication="needed", gear=gear)[0].trace.hash()
        for gear in ("turbo", "native")
    }
    assert len(hashes) == 1


@given(
    steps=st.lists(st.tuples(st.sampled_from("rtc"), st.permutations("abc"), st.booleans()), min_size=1, max_size=8),
    strategy=st.sampled_from(["always", "macc"]),
    communication=st.sampled_from(["all-to-all", "needed"]),
    devices=st.integers(2, 8),
)
@examples(20, HealthCheck.function_scoped_fixture)
def test_any_program_is_what_one_device_computes(
    acc_rig: MakeRig, steps: list[Any], strategy: str, communication: str, devices: int
) -> None:
    """Stencils, transpositions and copies between three arrays, divided along different dimensions, and host reads."""
    n = 9

    def run(devices: int, **options: Any) -> list[bytes]:
        async def body(t: acc.HostThread) -> list[bytes]:
            jacc = acc.Jacc(t, devices=devices, **options)
            arrays = {name: t.array(name, (n, n), fill=k + start(n, n)) for k, name in enumerate("abc")}
            await jacc.jacc_copyin(*arrays.values())
            seen = []
            for kind, (source, target, _), looks in steps:
                made = {"r": relax, "t": transpose, "c": clear}[kind]
                await jacc.jacc_kernel_push(made, acc.jacc_args(made, arrays[source], arrays[target], n, n))
                if looks:
                    await jacc.jacc_host_access(arrays[target])
                    await t.update(acc.host(arrays[target]))
                    seen.append(arrays[target].data.tobytes())
            await jacc.jacc_copyout(*arrays.values())
            return seen + [array.data.tobytes() for array in arrays.values()]

        rig = acc_rig({"jit.compile": 0}, devices=devices, machine_name="dgx1-v100")
        values: list[bytes] = rig.alone(body)
        rig.assert_clean()
        return values

    assert run(devices, strategy=strategy, communication=communication) == run(1)
