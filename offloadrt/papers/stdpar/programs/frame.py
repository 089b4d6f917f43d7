"""What the applications share: how they are called, what is timed, and which implementation runs.

An application is written once for all implementations. It allocates with ``t.new_array``, which gives shared memory, or
device memory where the program has copies of its own (`sycl`, `native`). It says what the host does with its data
(``t.read``, ``t.write``) and where a function that is not inlined returns (``t.function``). The implementation does the
rest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import attrs

from offloadrt.extensions import stdpar as std
from offloadrt.extensions.stdpar.implementations import HostPointer
from offloadrt.kernels import Kernel
from offloadrt.study import Run

Timed = Callable[[], AbstractAsyncContextManager[None]]
"""``async with timed():`` around what the application's authors time."""


@attrs.frozen
class ApplicationOutcome:
    """What an application reports, and its results: values of arrays by name, without those of phantoms."""

    figures: Mapping[str, float | int] = attrs.field(factory=dict)
    results: Mapping[str, Any] = attrs.field(factory=dict)


class Application(Protocol):
    """An application at one size. `steps` is the number of timed iterations."""

    @property
    def steps(self) -> int: ...

    async def run(self, t: std.HostThread, timed: Timed) -> ApplicationOutcome:
        """Run the whole program on one host thread."""


async def host_array(t: std.HostThread, name: str, shape: int) -> std.UsmArray:
    """Allocate an array for the host: shared memory where the heap is shared, never device memory."""
    make = t.foreign_malloc if t.runtime.is_explicit else t.new_array
    return await make(name, shape, phantom=False)


async def loads(t: std.HostThread, place: std.UsmArray | std.Section) -> None:
    """Let the host load from such an array."""
    if not t.runtime.is_explicit:
        await t.read(place)


async def stores(t: std.HostThread, place: std.UsmArray | std.Section, values: Any = None) -> None:
    """Let the host store to such an array."""
    if not t.runtime.is_explicit:
        await t.write(place, values)


def captured_by_reference(t: std.HostThread, name: str) -> None:
    """Check that kernels may capture an object by reference.

    Raises CompilationRefused under an implementation that does not compile that (icpx), wherever the object lies.
    """
    implementation = t.runtime.implementation
    if implementation.host_pointer is HostPointer.REFUSED:
        raise std.CompilationRefused(
            f"{implementation.name} does not compile kernels that capture {name!r} by reference"
        )


async def sequential_loop(t: std.HostThread, kernel: Kernel, array: std.UsmArray, *arguments: Any) -> None:
    """Run a loop of the host over an array on one core; what a device owns of the array comes back first."""
    await t.read(array)
    launch, _ = t.runtime.launches.of(kernel, (array, *arguments), None)
    await t.program.machine.host_workers.execute(launch, parallel=False)


@attrs.define
class Stopwatch:
    """Times an application by `Run.measure`, and says what its program did in that time."""

    run: Run
    _timed: bool = False

    @asynccontextmanager
    async def timed(self) -> AsyncIterator[None]:
        """Time the body, once per run."""
        async with self.run.measure():
            yield
        self._timed = True

    def figures(self) -> dict[str, float | int]:
        """Return algorithms, waits, barriers and why they stay, prefetches and allocations of the timed part.

        Raises ValueError when nothing was timed.
        """
        if not self._timed:
            raise ValueError("the application has timed nothing")
        measured = self.run.measured
        return std.algorithm_figures(measured.algorithms, measured.barriers)
