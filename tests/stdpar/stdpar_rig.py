"""Programs of C++ standard parallelism on an emulated machine, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import numpy as np

from offloadrt import stdpar as std
from offloadrt.kernels import kernel
from offloadrt.study.running.run import Run

Body = Callable[[std.HostThread], Awaitable[Any]]

WITH_DEVICE = ("isambard-a100", "isambard-mi100", "idc-max1550", "integrated-gpu")
MACHINES = (*WITH_DEVICE, "isambard-milan")


@kernel
def triad(a: Any, b: Any, c: Any, scalar: Any) -> None:
    for i in range(len(a)):
        a[i] = b[i] + scalar * c[i]


@kernel
def dot(a: Any, b: Any, total: Any) -> None:
    s = total[0]
    for i in range(len(a)):
        s += a[i] * b[i]
    total[0] = s


@kernel
def largest(a: Any, total: Any) -> None:
    s = total[0]
    for i in range(len(a)):
        s = max(s, a[i])
    total[0] = s


@kernel
def negative(a: Any, count: Any) -> None:
    found = 0
    for i in range(len(a)):
        if a[i] < 0.0:
            found += 1
    count[0] = found


@kernel
def scale(n: Any, a: Any, factor: Any) -> None:
    for i in range(n):
        a[i] = a[i] * factor


def made(
    machine: str = "isambard-a100",
    implementation: str | std.Implementation = "acpp",
    overrides: Mapping[str, str | float | bool] | None = None,
    gear: str = "turbo",
    record: bool = False,
    **options: Any,
) -> Run:
    run = Run(machine=machine, gear=gear, record=record)
    run.options = std.StdParOptions(implementation=implementation, **options)
    for key, value in (overrides or {}).items():
        run.set(key, value)
    return run


def play(run: Run, body: Body, threads: int = 1) -> list[Any]:
    """`body` in so many host threads, then the end of the program; what they return."""

    async def main() -> list[Any]:
        found = await run.parallel(body, threads)
        await run.finish()
        return found

    found: list[Any] = run.sim.run(main)
    return found


def alone(body: Body, **options: Any) -> tuple[Run, Any]:
    """`body` in one thread of a new program; the run, and what it returned."""
    run = made(**options)
    return run, play(run, body)[0]


def ramp(n: int, first: float = 0.0) -> Any:
    return np.arange(n, dtype=np.float64) * 0.25 + first
