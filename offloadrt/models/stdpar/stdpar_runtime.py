"""The runtime that an implementation of C++ standard parallelism links a program with, and what that knows."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import attrs
from numpy.typing import DTypeLike

from offloadrt.compilers.stdpar.elision import Decision, Window
from offloadrt.machine import Machine
from offloadrt.models.stdpar.arrays import Memory, UsmArray
from offloadrt.models.stdpar.heuristic import HeuristicRules, OffloadHeuristic
from offloadrt.models.stdpar.heuristic_database import HeuristicDatabase
from offloadrt.models.stdpar.implementations import DataMemory, SubmitPath
from offloadrt.models.stdpar.launches import Launches
from offloadrt.models.stdpar.options import StdParOptions
from offloadrt.models.stdpar.usm import Usm
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.host_array import element_of, make_values, shape_of
from offloadrt.trace import Trace, events

_SUBMIT = {SubmitPath.DIRECT: "stdpar.submit", SubmitPath.SYCL: "sycl.submit", SubmitPath.VENDOR: "vendor.submit"}


@attrs.define
class Counts:
    """Numbers of all threads, since the start of the program."""

    calls: int = 0
    """Calls of algorithms, whatever their policy."""
    offloaded: int = 0
    on_host: int = 0
    host_pointers: int = 0
    """Algorithms among `on_host` that ran there because one of the kernel's pointers was the host's."""
    waits: int = 0
    """Waits for a queue."""
    prefetches: int = 0
    prefetched_bytes: int = 0
    interposed: int = 0
    """Allocations of the program that were rerouted to shared USM."""
    from_pool: int = 0
    """Allocations among `interposed` that the pool served."""


class StdParRuntime:
    """The runtime of one program, which all of its threads share.

    next_directive: gives the numbers by which a trace tells the program's calls apart. ValueError for system USM where
    the device cannot have it; HeuristicDatabaseError for a file that cannot be read.
    """

    def __init__(
        self,
        machine: Machine,
        device: OffloadDevice | None,
        trace: Trace | None,
        options: StdParOptions,
        next_directive: Callable[[], int],
    ) -> None:
        self.implementation = implementation = options.chosen
        self.machine = machine
        self.sim = machine.sim
        self.system_usm = options.system_usm and device is not None
        self.is_explicit = implementation.memory is DataMemory.DEVICE
        """Whether the program has device memory, copies and waits of its own, where it needs them."""
        self.usm = Usm(machine, device, self.system_usm)
        self.launches = Launches(implementation.kernel_factor.value)
        self.counts = Counts()
        self.decisions: dict[Decision, int] = {}
        """What became of the barrier behind each offloaded algorithm, by place and reason, and how often."""
        self.make_window: Callable[[], Window] = functools.partial(
            Window, implementation.elision or self.is_explicit, self.system_usm
        )
        """Makes what decides about the barriers of a thread."""
        self.rules = options.heuristic or HeuristicRules()
        file = options.heuristic_file
        self.database = HeuristicDatabase() if file is None else HeuristicDatabase.read(file)
        """Runtimes of operations, as the heuristic knows them."""
        self.heuristics: list[OffloadHeuristic] = []
        """The heuristic of each thread, with what it decided, in the order in which the threads were made."""
        self.closers: list[Callable[[], Awaitable[None]]] = []
        """Each closes a queue of the program, unless it is closed; for queues of threads that ended before."""
        self.batches = 0
        """Batches of operations that have been completed by a wait, of all threads."""
        spec = machine.spec
        entry = _SUBMIT.get(implementation.submit)
        self.submit_s = 0.0 if entry is None else spec.value(entry)
        """Host time of one command in the implementation's own layers."""
        self.dispatch_s = spec.value("stdpar.dispatch")
        self.lookup_s = spec.value("stdpar.lookup")
        self.independent_progress = spec.flag("gpu.independent_progress")
        self._next_directive = next_directive
        self._phantom = options.phantom
        self._trace = trace

    def make_heuristic(self) -> OffloadHeuristic | None:
        """Make that of a thread, where the implementation has one and there is anything to decide."""
        if not self.implementation.heuristic or self.usm.device is None:
            return None
        self.heuristics.append(OffloadHeuristic(self.database, self.rules))
        return self.heuristics[-1]

    async def work(self, seconds: float) -> None:
        """Let the calling thread spend time of its core in the runtime."""
        await self.machine.work(seconds, "runtime")

    def unplaced(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike, phantom: bool | None, memory: Memory
    ) -> UsmArray:
        """Make an array that lies nowhere yet."""
        lengths, element = shape_of(name, shape), element_of(name, dtype)
        ghost = self._phantom if phantom is None else phantom
        values = None if ghost else make_values(name, lengths, element, None)
        return UsmArray(name, 0, lengths, element, "heap", 0, values, memory=memory, sim=self.sim)

    @contextmanager
    def calling(self, name: str) -> Iterator[None]:
        """Give one call of the implementation's library a number, which is the cause of what happens in it."""
        actor, trace, number = self.sim.running or self.sim.current, self._trace, self._next_directive()
        outer, actor.cause = actor.cause, number
        if trace is not None:
            trace.directive(0, number, name)
        try:
            yield
        finally:
            actor.cause = outer
            if trace is not None:
                trace(events.DirectiveEnd, 0, -1, number, number, name)
