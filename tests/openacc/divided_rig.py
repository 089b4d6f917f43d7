"""A stencil on some devices through JACC, and kernels for programs that several devices share."""

from __future__ import annotations

from typing import Any

import numpy as np
from openacc_rig import MakeRig, Rig

from offloadrt import kernel
from offloadrt import openacc as acc

STEPS = 7
DIVIDING = ("adaptive", "always", "macc")


@kernel(collapse=2)
def relax(old, new, rows, columns):  # type: ignore[no-untyped-def]
    for i in range(1, rows - 1):
        for j in range(1, columns - 1):
            around = old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1]
            new[i, j] = 0.6 * old[i, j] + 0.1 * around


@kernel
def step(x, y, most, count, n):  # type: ignore[no-untyped-def]
    s = 0.0
    largest = x[0]
    done = count[0]
    for i in range(n):
        y[i] = x[i] - 3.0
        s += x[i] * x[i]
        largest = max(largest, x[i])
        done += 1
    most[0] = s
    most[1] = largest
    count[0] = done


@kernel
def prefix(a, n):  # type: ignore[no-untyped-def]
    for _ in range(1):
        for i in range(1, n):
            a[i] = a[i] + a[i - 1]


def start(rows: int, columns: int) -> Any:
    return np.random.default_rng(5).normal(size=(rows, columns))


def in_numpy(rows: int, columns: int, steps: int) -> Any:
    old = start(rows, columns)
    new = old.copy()
    for _ in range(steps):
        around = old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
        new[1:-1, 1:-1] = 0.6 * old[1:-1, 1:-1] + 0.1 * around
        old, new = new, old
    return old


async def stencil(t: acc.HostThread, rows: int, columns: int, steps: int, **options: Any) -> tuple[acc.Jacc, Any]:
    """Some steps; the jacc runtime, and the plate afterwards unless it is a phantom."""
    jacc = acc.Jacc(t, **options)
    phantom = t.program.phantom
    old, new = (t.array(n, (rows, columns), fill=None if phantom else start(rows, columns)) for n in ("old", "new"))
    await jacc.jacc_copyin(old, new)
    for _ in range(steps):
        await jacc.jacc_kernel_push(relax, acc.jacc_args(relax, old, new, rows, columns))
        old, new = new, old
    await jacc.jacc_copyout(old)
    await jacc.jacc_delete(new)
    return jacc, None if phantom else old.data.copy()


def run_stencil(
    acc_rig: MakeRig, devices: int, rows: int = 22, columns: int = 13, steps: int = STEPS, **options: Any
) -> tuple[Rig, acc.Jacc, Any]:
    rig = acc_rig(
        {"jit.compile": 0, **options.pop("entries", {})}, devices=devices, machine_name="dgx1-v100",
        gear=options.pop("gear", "turbo"),
        phantom=options.pop("phantom", False),
    )  # fmt: skip
    jacc, plate = rig.alone(lambda t: stencil(t, rows, columns, steps, devices=devices, **options))
    rig.assert_clean()
    return rig, jacc, plate
