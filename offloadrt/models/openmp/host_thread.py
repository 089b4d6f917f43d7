"""A host thread of an OpenMP program: its directives, in Python.

    async def body(t):
        a = t.array("a", 1 << 20, fill=1.0)
        async with t.target_data(omp.map(tofrom=a)):
            await t.target(scale, a, 2.0, teams=108)

Each directive has a number in the trace (the `cause` of all events that follow from it) and a queue of its own. It ends
as LLVM's entry points do; an error that is fatal in LLVM's runtime raises an exception here.

OpenMP 6.0's ``taskgraph`` (`TaskGraphs`) is a region of deferred target tasks, recorded once and replayed cheaply.

The first time that a thread reaches the region, the region runs as written, and its tasks are noted (the taskgraph
record). At its end each task's launch is prepared once more as a node of a CUDA graph; dependences become edges. A
replay launches that graph: no task is made, no helper is woken, no dependence is resolved and no array is looked up.
LLVM 22 replays only host tasks in this way, and launches target tasks one by one. Replaying them as a graph of the GPU
follows Yu, Royuela and Quiñones, "OpenMP to CUDA graphs", SCOPES 2020.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from typing import Any, Unpack

import attrs

from offloadrt.driver import BuiltGraph, GraphExec, Graphs
from offloadrt.kernels import Kernel
from offloadrt.models.host.arrays import Arena
from offloadrt.models.host.directive import Region, Work, check_logical, ending, in_directive, leave_region
from offloadrt.models.host.program import Barrier, OffloadProgram
from offloadrt.models.openmp.clauses import Clause, Depend
from offloadrt.models.openmp.lowering import (
    INITIAL_DEVICE,
    Construct,
    Declarations,
    TargetClauses,
    at_data_end,
    check_dependences,
    data_construct,
    lower_data,
    target_construct,
)
from offloadrt.models.openmp.routines import RoutineCaller, chosen, in_place, initial_device, is_host
from offloadrt.models.openmp.tasks import HiddenHelpers, Task, TaskRegion, taskwait, wait_before, wait_for
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.data_environment import target_data_begin
from offloadrt.runtime.mapping.map_item import DirectiveQueue, MapItem, PreparedDirective
from offloadrt.runtime.mapping.map_types import RETURN_PARAM
from offloadrt.runtime.mapping.present_table import DevicePointer
from offloadrt.sim import Signal


class TargetData(Region[dict[HostArray, DevicePointer | None]]):
    """A ``target data`` region; entering it returns the device pointers of the arrays in use_device clauses."""

    directive = "target_data"

    def __init__(self, thread: RoutineCaller, items: Sequence[MapItem], device: int | None) -> None:
        self._thread = thread
        self._device = device
        self._items = items
        self.made()

    @property
    def _number(self) -> int:
        """Return the region's device number; without one, the default device at the moment of the call, as in LLVM."""
        return self._thread.default_device if self._device is None else self._device

    async def begin(self) -> dict[HostArray, DevicePointer | None]:
        items = self._items
        if is_host(self._thread, self._number):
            host = initial_device(self._thread)
            arrays = [item.array for item in items if item.type & RETURN_PARAM and item.array is not None]
            return {array: in_place(array, array.address, host, array.shape) for array in arrays}
        pointers: dict[HostArray, DevicePointer | None] = {}

        async def begin(where: OffloadDevice, queue: DirectiveQueue) -> None:
            addresses = await target_data_begin(where, items, queue, "target data")
            for position, address in addresses.items():
                array = items[position].array
                if array is not None:
                    pointers[array] = None if address is None else _pointer(array, address, where)

        await in_directive(self._thread.program, "target data", self._number, begin)
        return pointers

    async def end(self) -> None:
        if is_host(self._thread, self._number):
            return
        items = at_data_end(self._items)
        work = ending(items, "target data")
        await in_directive(self._thread.program, "target data end", self._number, work, items)

    def leave(self) -> None:
        if not is_host(self._thread, self._number):
            leave_region(self._thread.program, "target data end", self._number, at_data_end(self._items))


def _pointer(array: HostArray, address: int, where: OffloadDevice) -> DevicePointer:
    entry = where.table.lookup(array.address, 0).entry
    whole = entry is None or (entry.host_begin <= array.address and array.address + array.nbytes <= entry.host_end)
    part = None if entry is None or whole or entry.device_address(array.address) != address else entry.binding
    return DevicePointer(
        address, array.nbytes, where.number, array.phantom, array.dtype, array.shape, binding=part, array=array
    )


CALL = "taskgraph"


@attrs.define(eq=False)
class TaskNotes:
    """Collects the target tasks that a thread creates when it runs a taskgraph region for the first time."""

    tasks: list[tuple[Construct, int]] = attrs.field(factory=list)
    """The construct and the device number of each task, in order of creation."""

    def note(self, construct: Construct, device: int, *, on_host: bool) -> None:
        """Add a construct to `tasks`. Raises ValueError for one that cannot be replayed (as those `on_host`)."""
        if on_host:
            raise ValueError(f"{CALL}: a {construct.name} on the initial device is no replayable task here")
        if construct.name != "target" or not construct.nowait:
            raise ValueError(f"{CALL}: a {construct.name} is no replayable task here: only target with nowait is")
        if construct.on_host is not None and construct.on_host.own:
            raise ValueError(f"{CALL}: private arrays of a target are not replayed here")
        if self.tasks and self.tasks[0][1] != device:
            raise ValueError(f"{CALL}: tasks of devices {self.tasks[0][1]} and {device} in one graph")
        self.tasks.append((construct, device))


@attrs.define(eq=False)
class TaskGraph:
    """The record of a taskgraph region of one thread: an executable graph that replays the region's tasks."""

    device: OffloadDevice
    graphs: Graphs
    executable: GraphExec
    addresses: dict[HostArray, int]
    """The device address, when the region was recorded, of each array that its tasks use."""

    def check(self) -> None:
        """Raise ValueError for an array whose device address has changed, or that is no longer on the device."""
        for array, address in self.addresses.items():
            if _address_on(self.device, array) != address:
                raise ValueError(f"{CALL}: array {array.name!r} is not where it was on the device when it was recorded")


class TaskGraphs:
    """The records of one thread's taskgraph regions, by which the regions are replayed."""

    def __init__(self) -> None:
        self._records: dict[Hashable, TaskGraph] = {}

    async def run(
        self, t: HostThread, body: Callable[[], Awaitable[object]], graph_id: Hashable, graph_reset: bool
    ) -> None:
        """Record `body`, a region of thread `t`, or replay the record `graph_id`; graph_reset drops it first."""
        key = getattr(body, "__code__", body), graph_id
        if graph_reset and (record := self._records.pop(key, None)) is not None:
            await record.graphs.destroy(record.executable)
        if (known := self._records.get(key)) is None:
            if (made := await _record(t, body)) is not None:
                self._records[key] = made
            return
        known.check()

        async def replay(where: OffloadDevice, queue: DirectiveQueue) -> None:
            await where.plugin.open(queue)
            await known.graphs.launch(known.executable, queue.stream)

        await in_directive(t.program, CALL, known.device.number, replay)


async def _record(t: HostThread, body: Callable[[], Awaitable[object]]) -> TaskGraph | None:
    """Run a taskgraph region and make the graph of its target tasks; return None if it has none."""
    if t.recording is not None:
        raise ValueError(f"{CALL}: regions within a {CALL} region are not emulated")
    recording = t.recording = TaskNotes()
    try:
        if not inspect.isawaitable(region := body()):
            raise TypeError(f"{CALL}: body returns {region!r:.80}; write it as `async def`")
        await region
    finally:
        t.recording = None
    await t.taskwait()
    if not recording.tasks:
        return None
    device = t.program.device(recording.tasks[0][1], CALL)
    graphs = device.driver.graphs
    if graphs is None:
        raise ValueError(f"{CALL}: {t.program.machine.spec.name} has ROCr, whose graphs are not emulated")
    addresses = _addresses(device, recording)
    graph: BuiltGraph | None = None

    async def build(where: OffloadDevice, queue: DirectiveQueue) -> None:
        nonlocal graph
        assert isinstance(queue, PreparedDirective)
        await where.plugin.open(queue)
        graph = await graphs.create()
        region, nodes = TaskRegion(), dict[Task, int]()
        for construct, _ in recording.tasks:
            await construct.work(where, queue)
            kernel = queue.kernels.pop()
            task = Task(construct.name, _nothing, Signal(t.program.sim, CALL))
            after = sorted(nodes[one] for one in region.ordered_before(construct.depends))
            region.enter(task, construct.depends)
            nodes[task] = await graphs.add_kernel_node(graph, after, kernel.launch, (), kernel.touching)

    await in_directive(t.program, f"{CALL} record", device.number, build, make_queue=PreparedDirective)
    assert graph is not None
    return TaskGraph(device, graphs, await graphs.instantiate(graph), addresses)


def _addresses(device: OffloadDevice, recording: TaskNotes) -> dict[HostArray, int]:
    """Return the device addresses of the tasks' arrays. Raises ValueError for one mapped only during its task."""
    addresses: dict[HostArray, int] = {}
    for construct, _ in recording.tasks:
        arguments: tuple[Any, ...] = () if construct.on_host is None else construct.on_host.arguments
        for array in arguments:
            if isinstance(array, HostArray) and not array.managed:
                address = _address_on(device, array)
                if address is None:
                    why = "is on the device only while its task runs; map it around the region: a graph keeps addresses"
                    raise ValueError(f"{CALL}: array {array.name!r} {why}")
                addresses[array] = address
    return addresses


def _address_on(device: OffloadDevice, array: HostArray) -> int | None:
    found = device.table.lookup(array.address, array.nbytes)
    return None if found.entry is None or not found.contained else found.entry.device_address(array.address)


async def _nothing() -> None:
    """Do nothing; stands for a task whose work is a graph node, and for `taskwait nowait`, which only orders tasks."""


Running = Coroutine[Any, Any, object]
"""A directive to await: it has been lowered, and does not run before it is awaited."""


class HostThread(RoutineCaller):
    """The object ``t`` that the body of a host thread gets: OpenMP's directives as methods.

    `number` is omp_get_thread_num(), `num_threads` omp_get_num_threads(). OpenMP's routines are in `RoutineCaller`.
    Parameters such as `nowait` and `if_` (if) are the directive's clauses; device: its number, None for the default.
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
        """Notes the tasks of a taskgraph region while it is recorded; None otherwise."""
        self._graphs = TaskGraphs()

    # what a thread does besides

    async def barrier(self) -> None:
        """Wait for all threads of the team, and for the calling thread's deferred tasks."""
        await self.taskwait()
        await super().barrier()

    async def leave_team(self) -> None:
        """Wait for this thread's deferred tasks at the end of its part of a parallel region."""
        await self.taskwait()

    async def taskwait(self, *depends: Depend, nowait: bool = False) -> None:
        """Wait for this thread's deferred tasks; with `depends`, for those that must precede a task with these clauses.

        nowait: make an empty task after them instead, on which others can depend. LLVM 22 waits nevertheless, but
        programs may not rely on that. Raises ValueError for `nowait` without a depend clause.
        """
        since = self.sim.now
        check_logical("taskwait", nowait=nowait)
        if nowait and not depends:
            raise ValueError("taskwait: nowait needs depend")
        check_dependences("taskwait", depends)
        with self.doing("taskwait"):
            if nowait:
                before = self.tasks.predecessors(depends)
                self.helpers.submit(self.tasks, "taskwait", _nothing, depends)
                await wait_for(before)
            else:
                await taskwait(self.tasks, depends, self.program.tell)
        self.program.machine.host_time.add("threads", self.sim.now - since)

    # directives

    def target_data(self, *clauses: Clause, device: int | None = None, if_: bool = True) -> TargetData:
        """Make a data region: ``async with t.target_data(…) as pointers:``.

        The region gives the device pointers of use_device_ptr and use_device_addr by array. An error inside the region
        ends the program, so the region is not closed. When a timeout leaves the region, its mappings end without being
        copied back.
        """
        check_logical("target data", if_=if_)
        items = lower_data(clauses, "target data", self.declarations.mappers)
        return TargetData(self, items, device if if_ else INITIAL_DEVICE)

    def target_enter_data(
        self, *clauses: Clause, device: int | None = None, nowait: bool = False, if_: bool = True
    ) -> Running:
        """Run the directive ``target enter data``: map the items of the clauses on the device."""
        return self.run(data_construct(self.declarations, "target enter data", clauses, device, nowait, if_))

    def target_exit_data(
        self, *clauses: Clause, device: int | None = None, nowait: bool = False, if_: bool = True
    ) -> Running:
        """Run the directive ``target exit data``: end mappings, and copy back what the clauses say."""
        return self.run(data_construct(self.declarations, "target exit data", clauses, device, nowait, if_))

    def target_update(
        self, *clauses: Clause, device: int | None = None, nowait: bool = False, if_: bool = True
    ) -> Running:
        """Run ``target update to(…) from(…)``: copy mapped data to or from the device."""
        return self.run(data_construct(self.declarations, "target update", clauses, device, nowait, if_))

    def target(self, kernel: Kernel, *arguments: Any, **clauses: Unpack[TargetClauses]) -> Running:
        """Run a kernel with these arguments on a device: ``target teams distribute parallel for``.

        arguments: in the kernel's order. A HostArray is captured: mapped as `maps` says, else implicitly. Numbers are
        firstprivate, a DevicePointer is passed as it is, `pointees` follows stored pointers. clauses: `TargetClauses`.
        Raises MappingError for a map that LLVM refuses, IllegalAddress if the kernel uses memory that it may not use,
        and what the driver raises.
        """
        return self.run(self.construct_target(kernel, *arguments, **clauses))

    def taskgraph(
        self, body: Callable[[], Awaitable[object]], *, graph_id: Hashable = 0, graph_reset: bool = False
    ) -> Running:
        """Run ``taskgraph``: record the target tasks (`nowait`) of `body` once, and replay them afterwards.

        A replay does not call `body`, so that other host work in it happens only once. The tasks have ended when the
        construct has. graph_id distinguishes records of one body; graph_reset records anew. A record belongs to one
        thread in one parallel region. Raises ValueError for what cannot be replayed here: constructs other than
        `target` with `nowait`, tasks on several devices or the host, private arrays, and data that is not on the device
        throughout or has moved before a replay.
        """
        if not callable(body):
            raise TypeError(f"taskgraph: body is {body!r:.80}, which is no function")
        return self._graphs.run(self, body, graph_id, graph_reset)

    # directives that run many times

    def construct_target(self, kernel: Kernel, *arguments: Any, **clauses: Unpack[TargetClauses]) -> Construct:
        """Prepare the construct that `target` would run, for repeated use with `run`."""
        return target_construct(self.declarations, kernel, arguments, **clauses)

    def construct_target_update(self, *clauses: Clause, device: int | None = None, nowait: bool = False) -> Construct:
        """Prepare the construct that `target_update` would run, for repeated use with `run`."""
        return data_construct(self.declarations, "target update", clauses, device, nowait)

    def run(self, construct: Construct) -> Running:
        """Run a construct that `construct_target` or `construct_target_update` has prepared."""
        name, work, depends = construct.name, construct.work, construct.depends
        device = chosen(self, construct.device)
        on_host = device == self.program.num_devices
        if self.recording is not None:
            self.recording.note(construct, device, on_host=on_host)
        if on_host:
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
        """Run a construct on the initial device at once; a deferred construct first waits for its predecessors."""
        if construct.depends:
            with self.doing("depend"):
                await wait_before(self.tasks, construct.depends, self.program.tell)
        if construct.on_host is not None:
            await construct.on_host.run(self, self.program.machine)

    async def _run_after(self, name: str, device: int, work: Work, depends: tuple[Depend, ...]) -> None:
        if any(clause.exclusive for clause in depends):
            made = await self._defer(name, device, work, depends)
            with self.doing("depend"):
                await wait_for([made], self.program.tell)
            return
        with self.doing("depend"):
            await wait_before(self.tasks, depends, self.program.tell)
        await in_directive(self.program, name, device, work)
