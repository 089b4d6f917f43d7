"""BabelStream: five kernels over three arrays, whose rates are those of memory.

Each kernel is a method of a class in another translation unit, and is timed on its own: its barrier stays, whatever the
implementation; versions with copies of their own wait there, too. A rate is that of the fastest iteration, without the
first, as the benchmark reports it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.extensions import stdpar as std
from offloadrt.kernels import kernel
from offloadrt.papers.stdpar.programs.frame import ApplicationOutcome, Timed
from offloadrt.study.running.phases import StepNumbers

Doubles = NDArray[np.float64]

START = (0.1, 0.2, 0.0)
"""What the three arrays start with (public source)."""
SCALAR = 0.4
ARRAYS: Final = {"copy": 2, "mul": 2, "add": 3, "triad": 3, "dot": 2}
"""How many arrays each kernel reads or writes, once."""


@kernel
def multiply(b: Doubles, c: Doubles, scalar: float) -> None:
    for i in range(len(b)):
        b[i] = scalar * c[i]


@kernel
def add(a: Doubles, b: Doubles, c: Doubles) -> None:
    for i in range(len(c)):
        c[i] = a[i] + b[i]


@kernel
def triad(a: Doubles, b: Doubles, c: Doubles, scalar: float) -> None:
    for i in range(len(a)):
        a[i] = b[i] + scalar * c[i]


@kernel
def dot(a: Doubles, b: Doubles, total: Doubles) -> None:
    s = total[0]
    for i in range(len(a)):
        s += a[i] * b[i]
    total[0] = s


@attrs.frozen
class BabelStream:
    """`steps` iterations over arrays of `n` numbers."""

    n: int = 1 << 25
    steps: int = 100
    phantom: bool = True
    step_numbers: StepNumbers = range

    async def run(self, t: std.HostThread, timed: Timed) -> ApplicationOutcome:
        """Allocate, initialise on the device, iterate, and read the arrays. Rates are in bytes per second."""
        p = std.par_unseq
        a, b, c = [await t.new_array(name, self.n, phantom=self.phantom) for name in "abc"]
        async with t.function():
            for array, start in zip((a, b, c), START, strict=True):
                await t.fill(p, array, start)
        total: float | None = None

        async def reduction() -> None:
            nonlocal total
            total = await t.transform_reduce(p, dot, a, b)

        calls: dict[str, Callable[[], Awaitable[None]]] = {
            "copy": lambda: t.copy(p, a, c),
            "mul": lambda: t.transform(p, multiply, b, c, SCALAR),
            "add": lambda: t.transform(p, add, a, b, c),
            "triad": lambda: t.transform(p, triad, a, b, c, SCALAR),
            "dot": reduction,
        }
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        await t.wait()
        async with timed():
            for _ in self.step_numbers(self.steps):
                for name, call in calls.items():
                    begin = t.sim.now
                    async with t.function():
                        await call()
                        if t.runtime.is_explicit:
                            await t.wait()
                    seconds[name].append(t.sim.now - begin)
        results = {array.name: await t.read(array) for array in (a, b, c)}
        for array in (a, b, c):
            await t.delete(array)
        peak = t.program.machine.spec.value("mem.bw_peak")
        rates = {name: ARRAYS[name] * 8 * self.n / min(taken[1:] or taken) for name, taken in seconds.items()}
        figures = {f"{name}_gbs": rate / 1e9 for name, rate in rates.items()}
        return ApplicationOutcome({**figures, "fraction_of_peak": rates["triad"] / peak}, {**results, "dot": total})

    def expected(self) -> tuple[float, float, float, float]:
        """Return what each array holds everywhere at the end, and the last sum, as the benchmark checks them."""
        a, b, c = START
        for _ in range(self.steps):
            c = a
            b = SCALAR * c
            c = a + b
            a = b + SCALAR * c
        return a, b, c, a * b * self.n
