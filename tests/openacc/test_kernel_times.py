"""What kernels took, by name, for every layer and strategy: on the device, or the host where it waits for each."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from acc_kernels import increment, scale
from openacc_rig import MakeRig, Rig

from offloadrt import Kernel
from offloadrt import openacc as acc
from offloadrt.kernels import ArrayUse

N = 1 << 20
OTHER = Kernel("increment", flops_per_iteration=1e6, arrays=(ArrayUse("a", 0, writes=1),))


def seconds(rig: Rig) -> dict[str, float]:
    """Of all kernels on all devices, from the trace."""
    found: dict[str, float] = defaultdict(float)
    for name, begin, end in rig.kernel_spans():
        found[name] += (end - begin) * 1e-12
    return found


async def original(t: acc.HostThread, async_: int | None, steps: int = 3) -> None:
    a, b = t.array("a", N, phantom=True), t.array("b", N, phantom=True)
    async with t.data(acc.create(a)):
        for _ in range(steps):
            await t.parallel(increment, a, async_=async_)
            await t.kernels(scale, a, b, 2.0, async_=async_)
        await t.parallel(OTHER, a, iterations=10, async_=async_)


@pytest.mark.parametrize("async_", [None, 1])
@pytest.mark.parametrize("compiler", ["pgi", "gcc"])
def test_directives_tell_the_time_of_each_kernel(acc_rig: MakeRig, async_: int | None, compiler: str) -> None:
    rig = acc_rig(compiler=compiler)
    rig.alone(lambda t: original(t, async_))
    times = rig.program.kernel_times
    assert {name: one.executions for name, one in times.items()} == {"increment": 3, "scale": 3, "increment (2)": 1}
    both = seconds(rig)
    assert times["scale"].kernel_s == pytest.approx(both["scale"])
    assert times["increment"].kernel_s + times["increment (2)"].kernel_s == pytest.approx(both["increment"])


async def pushes(t: acc.HostThread, steps: int = 3, **options: Any) -> acc.Jacc:
    jacc = acc.Jacc(t, **options)
    a, b = t.array("a", N, phantom=True), t.array("b", N, phantom=True)
    await jacc.jacc_create(a, b)
    for _ in range(steps):
        await jacc.jacc_kernel_push(increment, acc.jacc_args(increment, a))
        await jacc.jacc_kernel_push(scale, acc.jacc_args(scale, a, b, 2.0))
    await jacc.jacc_kernel_push(OTHER, acc.jacc_args(OTHER, a), iterations=10)
    return jacc


@pytest.mark.parametrize("execution", ["sync", "async", "overlap"])
@pytest.mark.parametrize("strategy", acc.STRATEGIES)
def test_every_strategy_tells_the_time_of_each_kernel(acc_rig: MakeRig, strategy: str, execution: str) -> None:
    rig = acc_rig({"jit.compile": 0}, devices=4, machine_name="dgx1-v100")
    jacc = rig.alone(lambda t: pushes(t, devices=4, strategy=strategy, execution=execution))
    assert {name: one.executions for name, one in jacc.times.items()} == {
        "increment": 3,
        "scale": 3,
        "increment (2)": 1,
    }
    everywhere = seconds(rig)
    devices = 1 if strategy == "single" else 4
    for name, one in jacc.times.items():
        assert everywhere[name] / devices <= one.kernel_s * (1 + 1e-6)  # a trace counts picoseconds
        assert one.divided == (one.executions if strategy in ("always", "macc") and "(" not in name else 0)
    if strategy == "single" and execution != "sync":
        assert {name: pytest.approx(one.kernel_s) for name, one in jacc.times.items()} == everywhere
    assert rig.program.kernel_times == {}


def test_times_do_not_make_the_host_wait(acc_rig: MakeRig) -> None:
    async def body(t: acc.HostThread) -> int:
        jacc = await pushes(t, strategy="duplicated")
        running = jacc.times["scale"].executions
        await jacc.jacc_wait()
        assert jacc.times["scale"].executions == 3
        return running

    assert acc_rig({"jit.compile": 0}).alone(body) < 3


def test_kernels_of_one_name_are_told_apart_by_their_code(acc_rig: MakeRig) -> None:
    """Two kernels made from one source are one; the controller sees two of other costs as two."""

    async def body(t: acc.HostThread) -> acc.Jacc:
        jacc = acc.Jacc(t)
        a = t.array("a", 64, phantom=True)
        await jacc.jacc_create(a)
        for flops in (1e6, 1e6, 2e6, 1e6):
            made = Kernel("K", flops_per_iteration=flops, arrays=(ArrayUse("a", 0, writes=1),))
            await jacc.jacc_kernel_push(made, acc.jacc_args(made, a))
        return jacc

    rig = acc_rig({"jit.compile": 0})
    jacc = rig.alone(body)
    assert {name: one.executions for name, one in jacc.times.items()} == {"K": 3, "K (2)": 1}
    assert set(seconds(rig)) == set(jacc.times)
