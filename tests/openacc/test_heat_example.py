"""A program as a user would write it: heat in a plate by Jacobi's method, in plain OpenACC and with JACC's routines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openacc_rig import MakeRig

from offloadrt import kernel
from offloadrt import openacc as acc

ROWS, COLUMNS, STEPS = 12, 10, 8


@kernel(collapse=2)
def relax(old, new, rows, columns, rate):  # type: ignore[no-untyped-def]
    for i in range(1, rows - 1):
        for j in range(1, columns - 1):
            around = old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1]
            new[i, j] = old[i, j] + rate * (around - 4.0 * old[i, j])


@kernel(collapse=2)
def distance(old, new, rows, columns, sum_of_squares):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(1, rows - 1):
        for j in range(1, columns - 1):
            total += (new[i, j] - old[i, j]) ** 2
    sum_of_squares[0] = total


def plate() -> Any:
    start = np.zeros((ROWS, COLUMNS))
    start[0, :] = 100.0
    return start


def in_numpy() -> tuple[Any, float]:
    old, new = plate(), plate()
    for _ in range(STEPS):
        around = old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
        new[1:-1, 1:-1] = old[1:-1, 1:-1] + 0.2 * (around - 4.0 * old[1:-1, 1:-1])
        change = float(((new - old) ** 2).sum())
        old, new = new, old
    return old, change


async def in_openacc(t: acc.HostThread) -> tuple[Any, float]:
    old = t.array("old", (ROWS, COLUMNS), fill=plate())
    new = t.array("new", (ROWS, COLUMNS), fill=plate())
    change = t.array("change", 1)
    async with t.data(acc.copy(old, new), acc.create(change)):
        for _ in range(STEPS):
            await t.parallel(relax, old, new, ROWS, COLUMNS, 0.2, async_=1)
            await t.parallel(distance, old, new, ROWS, COLUMNS, change, async_=1)
            old, new = new, old
        await t.update(acc.host(change), wait=1)
    return old.data, float(change[0])


async def with_jacc(t: acc.HostThread, execution: Any, flags: acc.PushFlags) -> tuple[Any, float]:
    old = t.array("old", (ROWS, COLUMNS), fill=plate())
    new = t.array("new", (ROWS, COLUMNS), fill=plate())
    change = t.array("change", 1)
    jacc = acc.Jacc(t, execution=execution)
    await jacc.jacc_copyin(old, new)
    await jacc.jacc_create(change)
    for _ in range(STEPS):
        await jacc.jacc_kernel_push(relax, acc.jacc_args(relax, old, new, ROWS, COLUMNS, 0.2), flags)
        await jacc.jacc_kernel_push(distance, acc.jacc_args(distance, old, new, ROWS, COLUMNS, change), flags)
        old, new = new, old
    await jacc.jacc_copyout(old, change)
    await jacc.jacc_delete(new)
    return old.data, float(change[0])


def test_plain_openacc_computes_what_numpy_does(acc_rig: MakeRig) -> None:
    temperature, change = acc_rig().alone(in_openacc)
    expected, expected_change = in_numpy()
    np.testing.assert_allclose(temperature, expected, rtol=1e-14)
    assert change == pytest.approx(expected_change)


@pytest.mark.parametrize("execution", ["sync", "async", "overlap"])
@pytest.mark.parametrize("flags", [acc.PushFlags.NONE, acc.PushFlags.RESTRICT | acc.PushFlags.VAR_OPT])
@pytest.mark.parametrize("compiler", ["pgi", "gcc"])
def test_jacc_computes_what_plain_openacc_does(
    acc_rig: MakeRig, execution: str, flags: acc.PushFlags, compiler: str
) -> None:
    rig = acc_rig(compiler=compiler)
    temperature, change = rig.alone(lambda t: with_jacc(t, execution, flags))
    expected, expected_change = acc_rig().alone(in_openacc)
    assert (temperature == expected).all() and change == expected_change
    assert rig.program.code.compilations == 2
    rig.assert_clean()


def test_the_host_is_busy_with_other_things_than_waiting(acc_rig: MakeRig) -> None:
    """+Async: what the host waits for kernels becomes less; the trace is the same in both gears."""
    waits = {}
    for execution in ("sync", "async"):
        runs = []
        for gear in ("turbo", "native"):
            rig = acc_rig({"jit.compile": 0}, gear=gear)
            rig.alone(lambda t, execution=execution: with_jacc(t, execution, acc.PushFlags.NONE))
            runs.append(rig.trace.hash())
            waits[execution] = rig.machine.host_time.seconds["kernels"] + rig.machine.host_time.seconds["device"]
        assert runs[0] == runs[1]
    assert waits["async"] < 0.5 * waits["sync"]
