"""A program of C++ standard parallelism on an emulated machine: its implementation, its heap, its device."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

import attrs

from offloadrt.compilers.stdpar.captures import refuse_captures
from offloadrt.compilers.stdpar.elision import Decision, Elided, Window, table
from offloadrt.machine import Machine
from offloadrt.models.host.barrier import Barrier
from offloadrt.models.host.host_places import Arena
from offloadrt.models.host.program import Drivers, OffloadProgram
from offloadrt.models.stdpar.heap import Heap
from offloadrt.models.stdpar.heuristic import HeuristicRules
from offloadrt.models.stdpar.heuristic_database import HeuristicDatabase
from offloadrt.models.stdpar.host_thread import HostThread
from offloadrt.models.stdpar.implementations import HostPointer, Implementation, implementation
from offloadrt.models.stdpar.stdpar_runtime import StdParRuntime
from offloadrt.sim import LockStatistics
from offloadrt.trace import Trace

R = TypeVar("R")


class StdPar(OffloadProgram[HostThread]):
    """The program's view of the machine, and of its default device.

    implementation: a name of `IMPLEMENTATIONS`, or one made of such by `attrs.evolve`. pool_gb: the pool's size in GiB
    (``ACPP_STDPAR_MEM_POOL_SIZE``). system_usm: the device uses all memory of the host as it is, so that nothing is
    taken over, validated or prefetched. heuristic: the rules of the offload heuristic, for an implementation that has
    one; database: the file with the runtimes that it knows, written at the end. make_window: which barriers stay, by
    default as the implementation has it. phantom: are arrays made without values unless they say otherwise?

    ValueError for an implementation that does not exist, and for system USM where the device cannot have it;
    HeuristicDatabaseError for a file that cannot be read.
    """

    def __init__(
        self,
        machine: Machine,
        drivers: Drivers,
        *,
        trace: Trace | None = None,
        implementation: str | Implementation = "acpp",
        pool_gb: float | None = None,
        system_usm: bool = False,
        heuristic: HeuristicRules | None = None,
        database: Path | None = None,
        make_window: Callable[[], Window] | None = None,
        phantom: bool = False,
    ) -> None:
        super().__init__(machine, drivers, trace=trace, configuration="copy", allocator="direct", phantom=phantom)
        self.runtime = StdParRuntime(
            machine,
            self.devices[0] if self.devices else None,
            trace,
            _named(implementation),
            system_usm=system_usm,
            rules=heuristic or HeuristicRules(),
            database=HeuristicDatabase() if database is None else HeuristicDatabase.read(database),
            make_window=make_window,
            next_directive=self.next_directive,
            phantom=phantom,
        )
        self.implementation, self.usm, self.counts = self.runtime.implementation, self.runtime.usm, self.runtime.counts
        self.heap = Heap(self.runtime, self, pool_gb)
        self._database_file = database

    async def parallel(self, body: Callable[[HostThread], Awaitable[R]], num_threads: int = 1) -> list[R]:
        """Run a team of host threads, each `await body(t)`. Raises CompilationRefused before any of them starts."""
        if self.implementation.host_pointer is HostPointer.REFUSED and self.devices:
            refuse_captures(body, self.implementation.name)
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

    def elision_table(self) -> str:
        """Print where each barrier stood and what became of it, how often, and why."""
        return table(decision for decision, times in self.decisions.items() for _ in range(times))

    async def complete_tasks(self) -> None:
        """Do nothing: each thread has waited for its queue at its end."""

    async def shutdown(self) -> None:
        """Shut the runtime down; what the program allocates afterwards is the C library's."""
        self.heap.is_up = False
        await super().shutdown()
        if self._database_file is not None:
            self.runtime.database.write(self._database_file)


def _named(given: str | Implementation) -> Implementation:
    return given if isinstance(given, Implementation) else implementation(given)
