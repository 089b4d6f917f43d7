"""A program of C++ standard parallelism on an emulated machine: its implementation, its heap, its device."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs
from numpy.typing import DTypeLike

from offloadrt.compilers.stdpar.captures import refuse_captures
from offloadrt.compilers.stdpar.elision import Decision, Elided, Window, table
from offloadrt.driver import Rocr
from offloadrt.machine import Machine
from offloadrt.models.host.barrier import Barrier
from offloadrt.models.host.host_places import Arena
from offloadrt.models.host.program import OffloadProgram
from offloadrt.models.stdpar.arrays import UsmArray
from offloadrt.models.stdpar.counts import Counts
from offloadrt.models.stdpar.heap import Heap
from offloadrt.models.stdpar.heuristic import HeuristicRules, OffloadHeuristic
from offloadrt.models.stdpar.heuristic_database import HeuristicDatabase
from offloadrt.models.stdpar.host_thread import HostThread
from offloadrt.models.stdpar.implementations import DataMemory, HostPointer, Implementation, SubmitPath, implementation
from offloadrt.models.stdpar.launches import Launches
from offloadrt.models.stdpar.usm import Usm
from offloadrt.runtime.host_array import HostArray, Kind
from offloadrt.runtime.plugin import UserModeDriver
from offloadrt.sim import LockStatistics
from offloadrt.trace import Trace

R = TypeVar("R")

_SUBMIT = {SubmitPath.DIRECT: "stdpar.submit", SubmitPath.SYCL: "sycl.submit", SubmitPath.VENDOR: "vendor.submit"}


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
        drivers: Sequence[UserModeDriver | Rocr],
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
        self.implementation = _named(implementation)
        self.counts = Counts()
        self.pool_gb = pool_gb
        self.system_usm = system_usm and bool(self.devices)
        self.is_explicit = self.implementation.memory is DataMemory.DEVICE
        """Has the program device memory, copies and waits of its own, where it needs them?"""
        self.make_window = make_window or functools.partial(
            Window, self.implementation.elision or self.is_explicit, self.system_usm
        )
        """How a thread decides about barriers."""
        self.decisions: dict[Decision, int] = {}
        """What became of the barrier behind each offloaded algorithm, by place and reason, and how often."""
        spec = machine.spec
        self.submit_s = 0.0
        """Host time of one command in the implementation's own layers."""
        if (entry := _SUBMIT.get(self.implementation.submit)) is not None:
            self.submit_s = spec.value(entry)
        self.dispatch_s = spec.value("stdpar.dispatch")
        self.lookup_s = spec.value("stdpar.lookup")
        self.independent_progress = spec.flag("gpu.independent_progress")
        self.usm = Usm(machine, self.devices[0] if self.devices else None, self.system_usm)
        self.heap = Heap(self)
        self.rules = heuristic or HeuristicRules()
        self.database = HeuristicDatabase() if database is None else HeuristicDatabase.read(database)
        """Runtimes of operations, as the heuristic knows them."""
        self._database_file = database
        self.heuristics: list[OffloadHeuristic] = []
        """Of the threads, in order of their first algorithm: what each decided."""
        self.launches = Launches(self.implementation.kernel_factor.value)
        self.batches = 0
        """Batches of operations that have been completed by a wait, of all threads."""

    async def parallel(self, body: Callable[[HostThread], Awaitable[R]], num_threads: int = 1) -> list[R]:
        """A team of host threads, each `await body(t)`. Raises CompilationRefused before any of them starts."""
        if self.implementation.host_pointer is HostPointer.REFUSED and self.devices:
            refuse_captures(body, self.implementation.name)
        return await super().parallel(body, num_threads)

    def make_thread(self, number: int, num_threads: int, barrier: Barrier, heap: Arena, stack: Arena) -> HostThread:
        return HostThread(self, number, num_threads, barrier, heap, stack)

    def make_array(
        self,
        name: str,
        shape: int | tuple[int, ...],
        dtype: DTypeLike,
        fill: Any,
        phantom: bool | None,
        kind: Kind,
        align: int,
        heap: Arena,
        stack: Arena,
    ) -> UsmArray:
        """A C array on the stack, or memory that somebody has of the C library: neither is the device's."""
        made = super().make_array(name, shape, dtype, fill, phantom, kind, align, heap, stack)
        self.usm.add_system(made.address, made.nbytes)
        return self.adopt(made, "heap" if kind == "heap" else "stack")

    def adopt(self, array: HostArray, memory: Any) -> UsmArray:
        """An array as this model has it."""
        fields = {field.name: getattr(array, field.name) for field in attrs.fields(HostArray) if field.init}
        return UsmArray(**fields, memory=memory, sim=self.sim)

    def make_heuristic(self) -> OffloadHeuristic | None:
        """That of a thread, where the implementation has one and there is anything to decide."""
        if not (self.implementation.heuristic and self.devices):
            return None
        self.heuristics.append(OffloadHeuristic(self.database, self.rules))
        return self.heuristics[-1]

    def locks(self) -> dict[str, LockStatistics]:
        """Statistics of the runtime's locks, by name, the memory pool's among them."""
        return {**super().locks(), self.heap.lock.name: self.heap.lock.statistics()}

    @property
    def elided(self) -> int:
        """Barriers behind offloaded algorithms at which nobody waited."""
        return sum(times for decision, times in self.decisions.items() if isinstance(decision, Elided))

    def algorithms(self) -> dict[str, int]:
        """What the program did so far, in numbers: its `Counts`, barriers elided, decisions of the heuristic."""
        decisions = [decision for one in self.heuristics for decision in one.decisions]
        return {
            **attrs.asdict(self.counts),
            "elided": self.elided,
            "decisions": len(decisions),
            "changes": sum(decision.changed for decision in decisions),
        }

    def elision_table(self) -> str:
        """Where each barrier stood and what became of it, how often, and why."""
        return table(one for one, times in self.decisions.items() for _ in range(times))

    async def complete_tasks(self) -> None:
        """Nothing: each thread has waited for its queue at its end."""

    async def shutdown(self) -> None:
        """The runtime goes down; what the program allocates afterwards is the C library's."""
        self.heap.is_up = False
        await super().shutdown()
        if self._database_file is not None:
            self.database.write(self._database_file)


def _named(given: str | Implementation) -> Implementation:
    return given if isinstance(given, Implementation) else implementation(given)
