"""A host thread of an OpenMP program: its directives, in Python.

    async def body(t):
        a = t.array("a", 1 << 20, fill=1.0)
        async with t.target_data(omp.map(tofrom=a)):
            await t.target(scale, a, 2.0, teams=108)

Each directive is a number in the trace (the `cause` of all that follows from it), takes a queue of its own, and ends as
LLVM's entry points do: what is fatal there raises here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Unpack

from offloadrt.kernels import Kernel
from offloadrt.models.host.barrier import Barrier
from offloadrt.models.host.directive import Work, in_directive
from offloadrt.models.host.host_places import Arena
from offloadrt.models.host.program import OffloadProgram
from offloadrt.models.openmp.clauses import Clause, Depend
from offloadrt.models.openmp.construct import (
    Construct,
    TargetClauses,
    check_clauses,
    enter_data_construct,
    exit_data_construct,
    target_construct,
    update_construct,
)
from offloadrt.models.openmp.declarations import Declarations
from offloadrt.models.openmp.initial_device import INITIAL_DEVICE
from offloadrt.models.openmp.lowering import lower_data
from offloadrt.models.openmp.routines import RoutineCaller, is_host
from offloadrt.models.openmp.target_data import TargetData
from offloadrt.models.openmp.taskgraph import TaskGraphs, TaskNotes
from offloadrt.models.openmp.tasks import HiddenHelpers, Task, taskwait, wait_before, wait_for

Running = Coroutine[Any, Any, object]
"""What a directive returns: to be awaited; lowering has been done, nothing has run."""


class HostThread(RoutineCaller):
    """Given to the body of a host thread as ``t``.

    `number` is omp_get_thread_num(), `num_threads` omp_get_num_threads().

    Its directives are here, its routines in `RoutineCaller`.
    """

    def __init__(
        self,
        program: OffloadProgram[Any],
        declarations: Declarations,
        helpers: HiddenHelpers,
        number: int,
        num_threads: int,
        barrier: Barrier,
        heap: Arena,
        stack: Arena,
    ) -> None:
        super().__init__(program, helpers, number, num_threads, barrier, heap, stack)
        self.declarations = declarations
        self.recording: TaskNotes | None = None
        """What notes the tasks of a taskgraph region that is recorded."""
        self._graphs = TaskGraphs()

    # what a thread does besides

    async def barrier(self) -> None:
        """Wait for all threads of the team, and for the deferred tasks of this one."""
        await self.taskwait()
        await super().barrier()

    async def leave_team(self) -> None:
        """Wait for the deferred tasks of this thread."""
        await self.taskwait()

    async def taskwait(self, *depends: Depend) -> None:
        """Wait for the deferred tasks that this thread generated; with `depend` only for those concerned."""
        since = self.sim.now
        with self.doing("taskwait"):
            await taskwait(self.tasks, depends, self.program.observer)
        self.program.machine.host_time.add("threads", self.sim.now - since)

    # directives

    def target_data(self, *clauses: Clause, device: int | None = None, if_: bool = True) -> TargetData:
        """Make a data region: ``async with t.target_data(…) as pointers:``.

        Gives the device pointers of use_device_ptr and use_device_addr by array.

        A program that fails inside the region ends there: the region is then not closed. When a timeout leaves it, its
        mappings end without being copied back.
        """
        items = lower_data(clauses, "target data", self.declarations.mappers)
        return TargetData(self, items, device if if_ else INITIAL_DEVICE)

    def target_enter_data(
        self, *clauses: Clause, device: int | None = None, nowait: bool = False, if_: bool = True
    ) -> Running:
        """Run ``target enter data``."""
        where = device if if_ else INITIAL_DEVICE
        return self.run(enter_data_construct(self.declarations, clauses, where, nowait))

    def target_exit_data(
        self, *clauses: Clause, device: int | None = None, nowait: bool = False, if_: bool = True
    ) -> Running:
        """Run ``target exit data``."""
        where = device if if_ else INITIAL_DEVICE
        return self.run(exit_data_construct(self.declarations, clauses, where, nowait))

    def target_update(
        self, *clauses: Clause, device: int | None = None, nowait: bool = False, if_: bool = True
    ) -> Running:
        """Run ``target update to(…) from(…)``."""
        where = device if if_ else INITIAL_DEVICE
        return self.run(self.construct_target_update(*clauses, device=where, nowait=nowait))

    def target(self, kernel: Kernel, *arguments: Any, **clauses: Unpack[TargetClauses]) -> Running:
        """Run a kernel with these arguments on a device: ``target teams distribute parallel for``.

        arguments: in the kernel's order. A HostArray is captured: mapped as `maps` says, else implicitly. Numbers are
        firstprivate, a DevicePointer is passed as it is, `pointees` follows stored pointers. clauses: see
        `TargetClauses`. Raises MappingError, IllegalAddress, and what the driver raises.
        """
        return self.run(self.construct_target(kernel, *arguments, **clauses))

    def taskgraph(
        self, body: Callable[[], Awaitable[object]], *, graph_id: Hashable = 0, graph_reset: bool = False
    ) -> Running:
        """Run ``taskgraph``: record the target tasks (`nowait`) of `body` once, and replay them from then on.

        A replay does not call `body`: what it computes on the host besides happens once. Its tasks have ended when the
        construct has. graph_id: tells records of one body apart. graph_reset: record anew. A record is the thread's, in
        one parallel region. Raises ValueError for what is not replayed here: constructs other than `target` with
        `nowait`, tasks on several devices or the host, private arrays, and data that is not on the device all the
        while, or elsewhere at a replay.
        """
        return self._graphs.run(self, body, graph_id, graph_reset)

    # directives that run many times

    def construct_target(self, kernel: Kernel, *arguments: Any, **clauses: Unpack[TargetClauses]) -> Construct:
        """Prepare what `target` would run, to be given to `run` as often as the program comes to it."""
        check_clauses(clauses)
        return target_construct(self.declarations, kernel, arguments, **clauses)

    def construct_target_update(self, *clauses: Clause, device: int | None = None, nowait: bool = False) -> Construct:
        """Prepare what `target_update` would run."""
        return update_construct(self.declarations, clauses, device, nowait)

    def run(self, construct: Construct) -> Running:
        """Run a construct."""
        name, work, depends = construct.name, construct.work, construct.depends
        device = self.default_device if construct.device is None else construct.device
        if self.recording is not None:
            self.recording.note(construct, device, on_host=is_host(self, device))
        if is_host(self, device):
            return self._run_on_host(construct)
        if construct.nowait:
            return self._defer(name, device, work, depends)
        if depends:
            return self._run_after(name, device, work, depends)
        return in_directive(self.program, name, device, work)

    # how directives run

    async def _defer(self, name: str, device: int, work: Work, depends: tuple[Depend, ...]) -> Task:
        program = self.program
        where = program.device(device, name)
        await where.work(program.costs.task)

        causal_log = None if program.trace is None else program.trace.causal_log
        made = None if causal_log is None else causal_log.task_made(self.sim.current, f"{name} nowait")

        def run() -> Awaitable[object]:
            if causal_log is not None and made is not None:
                causal_log.task_run(self.sim.current, made)
            return in_directive(program, f"{name} nowait", where.number, work)

        return self.helpers.submit(self.tasks, name, run, depends)

    async def _run_on_host(self, construct: Construct) -> None:
        """Run a construct on the initial device at once, a deferred one too, when its predecessors are done."""
        if construct.depends:
            with self.doing("depend"):
                await wait_before(self.tasks, construct.depends, self.program.observer)
        if construct.on_host is not None:
            await construct.on_host.run(self, self.program.machine)

    async def _run_after(self, name: str, device: int, work: Work, depends: tuple[Depend, ...]) -> None:
        if any(clause.exclusive for clause in depends):
            made = await self._defer(name, device, work, depends)
            with self.doing("depend"):
                await wait_for([made], self.program.observer)
            return
        with self.doing("depend"):
            await wait_before(self.tasks, depends, self.program.observer)
        await in_directive(self.program, name, device, work)
