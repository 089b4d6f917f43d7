"""Programs of three objects under the configuration `otm`, for its tests."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from offloadrt import openmp as omp
from offloadrt.extensions.otm.configuration import placements_on
from offloadrt.extensions.otm.ranking import HostProgram, ObjectFrequency
from offloadrt.kernels import kernel
from offloadrt.study import Run

BLOCK = 2 << 20
N = BLOCK // 8
SIZE = 8 * N
Body = Callable[[omp.HostThread], Awaitable[Any]]
ALL_IMPLICIT = {"otm.threshold": "2"}
ALL_EXPLICIT = {"otm.threshold": "0"}


def room_for(arrays: int) -> dict[str, str]:
    return {"mem.size": f"{arrays * SIZE} B", "mem.reserved": "0 B", "otm.reserve": "0 B"}


@kernel
def step(a: Any, b: Any, c: Any) -> None:
    for i in range(len(a)):
        c[i] = c[i] + a[i]
        if b[i] > 0.5:
            a[i] = a[i] + 1.0


@kernel
def add(b: Any, c: Any) -> None:
    for i in range(len(b)):
        c[i] = c[i] + b[i]


@functools.cache
def numbers_of(thread: int) -> Any:
    """What is in the three arrays of a thread at first."""
    return np.random.default_rng(thread).random((3, N))


def arrays_of(t: omp.HostThread) -> list[omp.HostArray]:
    values = numbers_of(t.number)
    return [t.array(name, N, fill=numbers, align=BLOCK) for name, numbers in zip("abc", values, strict=True)]


async def three_objects(t: omp.HostThread) -> list[Any]:
    """The common program: `target data` around a loop of targets."""
    a, b, c = arrays_of(t)
    async with t.target_data(omp.map(tofrom=[a, b, c])):
        for _ in range(3):
            await t.target(add, b, c, maps=omp.map(tofrom=[b, c]))
            await t.target(step, a, b, c, maps=omp.map(tofrom=[a, b, c]))
    for array in (a, b, c):
        await t.host_access(array)
    return [array.data.copy() for array in (a, b, c)]


async def plain_targets(t: omp.HostThread) -> list[Any]:
    """The other common program: each target has its maps, and none is open between."""
    a, b, c = arrays_of(t)
    for _ in range(3):
        await t.target(add, b, c, maps=[omp.map(to=b), omp.map(tofrom=c)])
        await t.target(step, a, b, c, maps=[omp.map(tofrom=[a, c]), omp.map(to=b)])
    for array in (a, b, c):
        await t.host_access(array)
    return [array.data.copy() for array in (a, b, c)]


def known(**gaf: float) -> HostProgram:
    """Objects in order of rank."""
    return HostProgram((), tuple(ObjectFrequency(name, f, k, ()) for k, (name, f) in enumerate(gaf.items(), 1)))


GIVEN = known(c=9.0, a=5.0, b=4.0)


def run_body(
    body: Body,
    configuration: str = "otm",
    program: HostProgram | None = GIVEN,
    overrides: dict[str, str] | None = None,
    threads: int = 1,
    machine: str = "summitdev-p100",
    gear: str = "turbo",
    phantom: bool = False,
    devices: int = 1,
    before: Callable[[Run], object] = id,
) -> tuple[Run, list[Any]]:
    """`before` is given the run before it begins."""
    run = Run(machine=machine, gear=gear, record=True)
    before(run)
    for key, value in (overrides or {}).items():
        run.set(key, value)
    run.options = omp.OpenMPOptions(
        configuration=configuration, host_program=program, phantom=phantom, num_devices=devices
    )

    async def main() -> list[Any]:
        returned = await run.parallel(body, threads)
        await run.finish()
        return returned

    return run, run.sim.run(main)


def mechanisms(run: Run) -> dict[str, str]:
    return {one.name: one.mechanism for one in placements_on(run.program.devices)}


def faults(run: Run, *names: str) -> list[int]:
    return [run.statistics.faults[name] for name in names]
