"""Managed memory that the program has given back: whoever uses it says so, as for any other memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from offloadrt import openmp as omp
from offloadrt.kernels import kernel
from offloadrt.study.running.run import Run

Use = Callable[[omp.HostThread, omp.HostArray], Awaitable[Any]]


@kernel
def add_one(x: Any, n: int) -> None:
    for i in range(n):
        x[i] = x[i] + 1.0


USES: dict[str, Use] = {
    "cuMemPrefetchAsync": lambda t, x: t.prefetch(x),
    "cuMemAdvise": lambda t, x: t.advise(x, "prefer_host"),
    "host_access": lambda t, x: t.host_access(x),
    "first_touch": lambda t, x: t.first_touch(x),
}


def use_after_free(use: Use, configuration: str, allocated: bool, gear: str = "turbo") -> None:
    run = Run(machine="alex-a100", gear=gear)
    run.configuration = configuration

    async def body(t: omp.HostThread) -> None:
        if allocated:
            x = await t.managed_array("x", 100)
            await t.target(add_one, x, 100, is_device_ptr=x)
            await t.free_managed(x)
        else:
            x = t.array("x", 100, fill=1.0, kind="heap")
            t.free(x)
        await use(t, x)

    run.sim.run(lambda: run.parallel(body))


@pytest.mark.parametrize("gear", ["native", "turbo"])
@pytest.mark.parametrize("allocated", [True, False])
@pytest.mark.parametrize("call", USES)
def test_calls_and_the_host_refuse_it(call: str, allocated: bool, gear: str) -> None:
    said = rf"<x\+0> \(800 bytes\) was freed \(in {call}, array 'x', thread 'host thread 0'"
    with pytest.raises(omp.FreedHostMemory, match=said):
        use_after_free(USES[call], "managed", allocated, gear)


@pytest.mark.parametrize("configuration", ["copy", "managed"])
def test_a_kernel_that_gets_it_as_a_device_pointer_refuses_it(configuration: str) -> None:
    with pytest.raises(omp.FreedHostMemory, match=r"was freed \(in target, array 'x'"):
        use_after_free(lambda t, x: t.target(add_one, x, 100, is_device_ptr=x), configuration, True)


def test_a_construct_that_was_kept_refuses_it_at_its_next_use() -> None:
    run = Run(machine="alex-a100")

    async def body(t: omp.HostThread) -> None:
        x = await t.managed_array("x", 100)
        step = t.construct_target(add_one, x, 100, is_device_ptr=x)
        await t.run(step)
        await t.free_managed(x)
        await t.run(step)

    with pytest.raises(omp.FreedHostMemory, match="was freed"):
        run.sim.run(lambda: run.parallel(body))
