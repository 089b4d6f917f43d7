"""A program of C++ standard parallelism on an emulated machine: its implementation, its heap, its device."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import TypeVar

import attrs

from offloadrt.extensions.stdpar.elision import Decision, Elided, refuse_captures, table
from offloadrt.extensions.stdpar.heap import Heap
from offloadrt.extensions.stdpar.host_thread import HostThread
from offloadrt.extensions.stdpar.implementations import HostPointer, StdParOptions
from offloadrt.extensions.stdpar.stdpar_runtime import StdParRuntime
from offloadrt.machine import Machine
from offloadrt.models.host.arrays import Arena
from offloadrt.models.host.program import Barrier, Drivers, Model, OffloadProgram
from offloadrt.sim import LockStatistics
from offloadrt.trace import Trace

R = TypeVar("R")


class StdPar(OffloadProgram[HostThread]):
    """The program's view of the machine, and of its default device.

    ValueError for an implementation that does not exist, and for system USM where the device cannot have it;
    HeuristicDatabaseError for a file that cannot be read.
    """

    def __init__(
        self, machine: Machine, drivers: Drivers, options: StdParOptions | None = None, trace: Trace | None = None
    ) -> None:
        options = options or StdParOptions()
        super().__init__(machine, drivers, options, trace)
        self.runtime = StdParRuntime(
            machine, self.devices[0] if self.devices else None, trace, options, self.next_directive
        )
        self.implementation, self.usm, self.counts = self.runtime.implementation, self.runtime.usm, self.runtime.counts
        self.heap = Heap(self.runtime, self, options.pool_gb)
        self._database_file = options.heuristic_file

    async def parallel(self, body: Callable[[HostThread], Awaitable[R]], num_threads: int = 1) -> list[R]:
        """Run a team of host threads, each `await body(t)`. Raises CompilationRefused before any of them starts.

        The program's first allocation starts the devices: the runtime library takes malloc's place, or the standard
        library allocates before `main`.
        """
        if self.implementation.host_pointer is HostPointer.REFUSED and self.devices:
            refuse_captures(body, self.implementation.name)
        await self.start_devices()
        return await super().parallel(body, num_threads)

    def make_thread(self, number: int, num_threads: int, barrier: Barrier, heap: Arena, stack: Arena) -> HostThread:
        return HostThread(self, self.runtime, self.heap, number, num_threads, barrier, heap, stack)

    @property
    def decisions(self) -> Mapping[Decision, int]:
        """Return what became of the barrier behind each offloaded algorithm, by place and reason, and how often."""
        return self.runtime.decisions

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of the runtime's locks, by name, the memory pool's among them."""
        return {**super().locks(), self.heap.lock.name: self.heap.lock.statistics()}

    @property
    def elided(self) -> int:
        """Count the barriers behind offloaded algorithms at which nobody waited."""
        return sum(times for decision, times in self.decisions.items() if isinstance(decision, Elided))

    def algorithms(self) -> dict[str, int]:
        """Tell what the program did so far, in numbers: its `Counts`, barriers elided, decisions of the heuristic."""
        decisions = [decision for heuristic in self.runtime.heuristics for decision in heuristic.decisions]
        return {
            **attrs.asdict(self.counts),
            "elided": self.elided,
            "decisions": len(decisions),
            "changes": sum(decision.changed for decision in decisions),
        }

    def barriers(self) -> dict[Hashable, int]:
        """Return how often each decision on a barrier was taken: elided, or kept for a reason."""
        return dict(self.decisions.items())

    def elision_table(self) -> str:
        """Print where each barrier stood and what became of it, how often, and why."""
        return table(decision for decision, times in self.decisions.items() for _ in range(times))

    async def complete_tasks(self) -> None:
        """Close the queues of threads that ended before they could; all others are closed."""
        for close in self.runtime.closers:
            await close()

    async def shutdown(self) -> None:
        """Shut the runtime down; what the program allocates afterwards is the C library's."""
        self.heap.is_up = False
        await super().shutdown()
        if self._database_file is not None:
            self.runtime.database.write(self._database_file)


MODEL = Model(StdParOptions, StdPar, module="offloadrt.extensions.stdpar")
