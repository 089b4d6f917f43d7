"""A fatal error ends the device: who catches it cannot use the device any more, and the run still comes to its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from openmp_rig import MakeRig

from offloadrt import kernel
from offloadrt import openmp as omp
from offloadrt.driver import OutOfDeviceMemory
from offloadrt.machine import MemoryAccessFault
from offloadrt.study.running.run import Run

Body = Callable[[omp.HostThread], Awaitable[Any]]


@kernel
def first(a: Any) -> None:
    a[0] = 1.0


@kernel
def broken(a: Any) -> None:
    raise ZeroDivisionError("mine")


async def unmapped_pointer(t: omp.HostThread) -> None:
    await t.target(first, t.array("p", 4, kind="heap"), maps=omp.map(tofrom=t.array("other", 4)))


async def own_fault(t: omp.HostThread) -> None:
    await t.target(broken, t.array("a", 4))


async def extension(t: omp.HostThread) -> None:
    a = t.array("a", 64)
    await t.target_enter_data(omp.map(to=omp.section(a, 8, 16)))
    await t.target_enter_data(omp.map(to=a))


async def too_much(t: omp.HostThread) -> None:
    await t.target_enter_data(omp.map(alloc=t.array("huge", 1 << 40, phantom=True)))


async def freed(t: omp.HostThread) -> None:
    a = t.array("a", 4, kind="heap")
    t.free(a)
    await t.target_enter_data(omp.map(to=a))


FATAL = [
    (unmapped_pointer, omp.IllegalAddress, "p is not mapped"),
    (own_fault, ZeroDivisionError, "mine"),
    (extension, omp.MappingError, "device failure or illegal mapping"),
    (too_much, OutOfDeviceMemory, "array 'huge'"),
    (freed, omp.FreedHostMemory, "was freed"),
]


async def directive(t: omp.HostThread) -> None:
    await t.target(first, t.array("later", 4))


async def routine(t: omp.HostThread) -> None:
    await t.omp_target_alloc(64)


async def region(t: omp.HostThread) -> None:
    async with t.target_data(omp.map(to=t.array("later", 4))):
        pass


@pytest.mark.parametrize(
    ("later", "call"), [(directive, "target"), (routine, "omp_target_alloc"), (region, "target data")]
)
@pytest.mark.parametrize(("fatal", "kind", "words"), FATAL, ids=[one[0].__name__ for one in FATAL])
def test_no_later_use(rig: MakeRig, fatal: Body, kind: type[Exception], words: str, later: Body, call: str) -> None:
    async def body(t: omp.HostThread) -> None:
        with pytest.raises(kind, match=words):
            await fatal(t)
        with pytest.raises(omp.DeviceEnded, match=f"device 0 cannot be used any more.*{words}") as refused:
            await later(t)
        error = refused.value
        assert isinstance(error.__cause__, kind)
        assert (error.call, error.thread, error.device, error.time_s) == (call, "host thread 0", 0, t.sim.now)

    rig().alone(body)


def test_after_a_memory_access_fault_the_run_ends_as_usual() -> None:
    run = Run(machine="mi300a", overrides={"gpu.xnack": False})
    run.configuration = "usm"
    refused: list[str] = []

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 4, fill=1.0)
        if t.number == 0:
            with pytest.raises(MemoryAccessFault):
                await t.target(first, a)
        await t.barrier()
        with pytest.raises(omp.DeviceEnded) as caught:
            await t.target_enter_data(omp.map(to=a))
        refused.append(caught.value.thread)

    async def main() -> None:
        await run.parallel(body, 2)
        await run.finish()

    run.sim.run(main)
    assert sorted(refused) == ["host thread 0", "host thread 1"]
    assert run.calls.count("memory_pool_free") == 0, "nothing is given back on a device that is over"


def test_another_device_goes_on(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> float:
        with pytest.raises(omp.IllegalAddress):
            await unmapped_pointer(t)
        a = t.array("a", 4, fill=0.0)
        await t.target(first, a, device=1)
        return float(a[0])

    assert rig(devices=2).alone(body) == 1.0


def test_what_a_routine_answers_with_an_error_code_is_not_fatal(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> float:
        assert await t.omp_target_alloc(1 << 50, phantom=True) is None
        a = t.array("a", 4, fill=0.0)
        await t.target(first, a)
        return float(a[0])

    assert rig().alone(body) == 1.0
