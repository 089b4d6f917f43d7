"""Kernels of complex elements and numbers, pushed to several devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from divided_rig import DIVIDING
from numpy.typing import NDArray
from openacc_rig import MakeRig

from offloadrt import kernel
from offloadrt import openacc as acc

Complexes = NDArray[np.complex128]


@kernel
def turn(z: Complexes, w: Complexes, factor: complex, n: Any) -> None:
    for i in range(n):
        w[i] = factor * z[i].conjugate()


@kernel
def dot(z: Complexes, w: Complexes, total: Complexes, n: Any) -> None:
    s = 0j
    for i in range(n):
        s += z[i] * w[i]
    total[0] = s


@pytest.mark.parametrize("strategy", DIVIDING)
@pytest.mark.parametrize("flags", [acc.PushFlags.NONE, acc.PushFlags.RESTRICT | acc.PushFlags.VAR_OPT])
def test_devices_share_complex_arrays_and_their_reduction(
    acc_rig: MakeRig, strategy: str, flags: acc.PushFlags
) -> None:
    n = 37
    rng = np.random.default_rng(4)
    values = rng.normal(size=n) + 1j * rng.normal(size=n)

    async def body(t: acc.HostThread) -> tuple[Any, complex]:
        jacc = acc.Jacc(t, devices=4, strategy=strategy)
        z, w = t.array("z", n, np.complex128, fill=values), t.array("w", n, np.complex128)
        total = t.array("total", 1, np.complex128)
        await jacc.jacc_copyin(z, w, total)
        await jacc.jacc_kernel_push(turn, acc.jacc_args(turn, z, w, 2 - 1j, n), flags)
        await jacc.jacc_kernel_push(dot, acc.jacc_args(dot, z, w, total, n), flags)
        await jacc.jacc_copyout(z, w, total)
        assert not jacc.refused
        return w.data.copy(), complex(total[0])

    rig = acc_rig({"jit.compile": 0}, devices=4, machine_name="dgx1-v100")
    w, total = rig.alone(body)
    np.testing.assert_allclose(w, (2 - 1j) * values.conj(), rtol=1e-15)
    assert total == pytest.approx(complex((values * w).sum()))
