"""Compiler models differ in the calls that they make; what these take is the driver's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from acc_kernels import add, increment, scale
from openacc_rig import MakeRig, Rig

from offloadrt import Kernel
from offloadrt import openacc as acc

N, PUSHES = 4096, 20
SHORT = Kernel("short", flops_per_iteration=1e4)


async def pushes(t: acc.HostThread, execution: Any) -> None:
    jacc = acc.Jacc(t, execution=execution)
    a = t.array("a", N, phantom=True)
    await jacc.jacc_create(a)
    for _ in range(PUSHES):
        await jacc.jacc_kernel_push(SHORT, acc.jacc_args(SHORT, a))
    await jacc.jacc_copyout(a)


def pushed(acc_rig: MakeRig, execution: str, **options: Any) -> Rig:
    rig = acc_rig({"jit.compile": 0}, **options)
    rig.alone(lambda t: pushes(t, execution))
    rig.assert_clean()
    return rig


@pytest.mark.parametrize(
    ("options", "execution", "allocations", "copies"),
    [
        ({"compiler": "pgi"}, "sync", 1, 0),
        ({"compiler": "gcc"}, "sync", 1 + PUSHES, PUSHES),
        ({"compiler": "gcc"}, "async", 1 + PUSHES, PUSHES),
        ({"compiler": "gcc", "pools": True}, "sync", 2, PUSHES),
    ],
)
def test_which_calls_a_launch_makes(
    acc_rig: MakeRig, options: Any, execution: str, allocations: int, copies: int
) -> None:
    rig = pushed(acc_rig, execution, **options)
    assert rig.calls_of("cuMemAlloc") == rig.calls_of("cuMemFree") == allocations
    assert rig.calls_of("cuMemcpyHtoDAsync") == copies
    assert rig.calls_of("cuLaunchKernel") == PUSHES


def test_user_data_of_gcc_is_allocated_each_time_that_of_pgi_and_of_the_pools_once(acc_rig: MakeRig) -> None:
    calls = {}
    for name, options in {
        "pgi": {"compiler": "pgi"},
        "gcc": {"compiler": "gcc"},
        "gcc with pools": {"compiler": "gcc", "pools": True},
    }.items():
        rig = acc_rig(**options)

        async def body(t: acc.HostThread) -> None:
            for _ in range(6):
                async with t.data(acc.create(t.array("a", N), t.array("b", 2 * N))):
                    pass

        rig.alone(body)
        calls[name] = rig.calls_of("cuMemAlloc")
    assert calls == {"pgi": 2, "gcc": 12, "gcc with pools": 2}


def test_what_a_launch_of_gcc_costs_is_the_sum_of_its_calls(acc_rig: MakeRig) -> None:
    """Twice the price of an allocation adds one price for each block (but the first, which takes a segment)."""
    base = {"jit.compile": 0, "driver.halt": "none", "alloc.cudaFree": "10 us"}
    times = []
    for price in ("10 us", "20 us"):
        rig = acc_rig({**base, "alloc.cudaMalloc_small": price}, compiler="gcc")
        rig.alone(lambda t: pushes(t, "sync"))
        times.append(rig.sim.now)
    assert times[1] - times[0] == pytest.approx(PUSHES * 10e-6)


def test_async_gains_more_with_gcc_than_with_pgi_and_pools_make_gcc_competitive(acc_rig: MakeRig) -> None:
    def seconds(execution: str, **options: Any) -> float:
        return pushed(acc_rig, execution, **options).sim.now

    gcc, pgi = seconds("sync", compiler="gcc"), seconds("sync", compiler="pgi")
    pools = seconds("sync", compiler="gcc", pools=True)
    assert pgi < pools < gcc
    assert pools - pgi < 0.3 * (gcc - pgi)


@pytest.mark.parametrize("depth", [8, 32])
def test_with_pools_async_needs_a_block_for_each_launch_in_flight(acc_rig: MakeRig, depth: int) -> None:
    """libgomp's rule: a launch has its block until it is over. So the internal pool grows while the host runs ahead, as
    far as the stream lets it; the host still gains, and returns the blocks one by one when the program ends.
    """
    launches, long = 200, Kernel("long", flops_per_iteration=3e5)
    base = {"jit.compile": 0, "driver.stream_depth": depth, "driver.halt": "none"}
    took, over, blocks = {}, {}, {}
    for execution in ("sync", "async"):

        async def body(t: acc.HostThread, execution: Any = execution) -> float:
            jacc = acc.Jacc(t, execution=execution)
            a = t.array("a", N, phantom=True)
            await jacc.jacc_create(a)
            args = acc.jacc_args(long, a)
            for _ in range(launches):
                await jacc.jacc_kernel_push(long, args)
            await jacc.jacc_delete(a)
            return t.sim.now

        rig = acc_rig(base, compiler="gcc", pools=True)
        took[execution] = rig.alone(body)
        over[execution] = rig.sim.now - took[execution]
        blocks[execution] = rig.calls_of("cuMemAlloc") - 1
    assert blocks["sync"] == 1
    commands = 2  # of a launch: the copy of its block, the kernel
    assert depth // commands <= blocks["async"] <= depth // commands + 2
    assert took["async"] < took["sync"]
    free = rig.machine.spec.value("alloc.cudaFree")
    assert over["async"] - over["sync"] == pytest.approx((blocks["async"] - 1) * free, rel=0.05)


@pytest.mark.parametrize("machine", ["alex-a100", "mi300a"])
@pytest.mark.parametrize("options", [{"compiler": "pgi"}, {"compiler": "gcc"}, {"compiler": "gcc", "pools": True}])
@pytest.mark.parametrize("clauses", [{}, {"async_": 1}])
def test_every_model_computes_the_same_and_leaves_nothing(
    acc_rig: MakeRig, machine: str, options: Any, clauses: Any
) -> None:
    rig = acc_rig(machine_name=machine, **options)

    async def body(t: acc.HostThread) -> Any:
        x, y, z = t.array("x", 50, fill=np.arange(50)), t.array("y", 50), t.array("z", 50)
        async with t.data(acc.copyin(x), acc.create(y), acc.copyout(z)):
            await t.parallel(scale, x, y, 2.0, **clauses)
            await t.parallel(add, x, y, z, **clauses)
            await t.kernels(increment, z, **clauses)
            await t.wait()
        return z

    assert (rig.alone(body).data == 3.0 * np.arange(50) + 1.0).all()
    for device in rig.program.devices:
        assert len(device.blocks) == 0
        assert machine != "alex-a100" or device.memory.allocated_bytes == 0


def test_blocks_of_asynchronous_launches_are_freed_by_later_allocations(acc_rig: MakeRig) -> None:
    rig = acc_rig({"driver.halt": "none"}, compiler="gcc")

    async def body(t: acc.HostThread) -> tuple[int, int]:
        await t.parallel(SHORT, async_=1)
        await t.wait(1)
        kept = rig.calls_of("cuMemFree")
        await t.parallel(SHORT, async_=1)
        return kept, rig.calls_of("cuMemFree")

    assert rig.alone(body) == (0, 1)
    rig.assert_clean()
