"""OpenMP 6.0's taskgraph: a region of deferred target tasks that is recorded once and replayed at a lower cost.

The first time that a thread comes to the region it runs as written, while its tasks are noted (the taskgraph record).
At its end each task's launch is prepared once more, now for a graph of the driver (``driver/cuda/order.py``):
dependences become edges.  A replay launches that graph: no task is made, no helper woken, no dependence resolved and
nothing looked up.  LLVM 22 replays tasks of the host so, and launches target tasks one by one; that a replay becomes a
graph of the GPU follows Yu, Royuela and Quiñones, "OpenMP to CUDA graphs", SCOPES 2020.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Protocol

import attrs

from offloadrt.driver import BuiltGraph, GraphExec, Graphs
from offloadrt.models.host.directive import in_directive
from offloadrt.models.host.program import OffloadProgram
from offloadrt.models.openmp.construct import Construct
from offloadrt.models.openmp.tasks import Task, TaskRegion
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue, PreparedDirective
from offloadrt.runtime.host_array import HostArray
from offloadrt.sim import Signal

CALL = "taskgraph"


@attrs.define(eq=False)
class TaskNotes:
    """What a thread notes while it runs the region for the first time."""

    tasks: list[tuple[Construct, int]] = attrs.field(factory=list)
    """Each task's construct and the number of its device, in order of creation."""

    def note(self, construct: Construct, device: int, *, on_host: bool) -> None:
        """Note a construct. ValueError for one that is no replayable task here."""
        if on_host:
            raise ValueError(f"{CALL}: a {construct.name} on the initial device is no replayable task here")
        if construct.name != "target" or not construct.nowait:
            raise ValueError(f"{CALL}: a {construct.name} is no replayable task here: only target with nowait is")
        if construct.on_host is not None and construct.on_host.own:
            raise ValueError(f"{CALL}: private arrays of a target are not replayed here")
        if self.tasks and self.tasks[0][1] != device:
            raise ValueError(f"{CALL}: tasks of devices {self.tasks[0][1]} and {device} in one graph")
        self.tasks.append((construct, device))


class RecordingThread(Protocol):
    """What a taskgraph region needs of the thread that encounters it."""

    program: OffloadProgram[Any]
    recording: TaskNotes | None

    def taskwait(self) -> Awaitable[None]: ...


@attrs.define(eq=False)
class TaskGraph:
    """A taskgraph record (of one thread), ready to be replayed."""

    device: OffloadDevice
    graphs: Graphs
    executable: GraphExec
    places: dict[HostArray, int]
    """Where each array of its tasks lay on the device when they were recorded."""

    def check(self) -> None:
        """Raise ValueError for an array that lies elsewhere by now, or no longer on the device."""
        for array, address in self.places.items():
            if _place_of(self.device, array) != address:
                raise ValueError(f"{CALL}: array {array.name!r} is not where it was on the device when it was recorded")


class TaskGraphs:
    """The taskgraph records of one thread."""

    def __init__(self) -> None:
        self._records: dict[Hashable, TaskGraph] = {}

    async def run(
        self,
        t: RecordingThread,
        body: Callable[[], Awaitable[object]],
        graph_id: Hashable,
        graph_reset: bool,
    ) -> None:
        """Record the region, or replay it."""
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
            await known.graphs.launch(known.executable, queue.stream, queue.cause)

        await in_directive(t.program, CALL, known.device.number, replay)


async def _record(t: RecordingThread, body: Callable[[], Awaitable[object]]) -> TaskGraph | None:
    """Run the region and make a graph of its tasks; None when it has none."""
    if t.recording is not None:
        raise ValueError(f"{CALL}: regions within a {CALL} region are not emulated")
    recording = t.recording = TaskNotes()
    try:
        await body()
    finally:
        t.recording = None
    await t.taskwait()
    if not recording.tasks:
        return None
    device = t.program.device(recording.tasks[0][1], CALL)
    graphs = device.driver.graphs
    if graphs is None:
        raise ValueError(f"{CALL}: {t.program.machine.spec.name} has ROCr, whose graphs are not emulated")
    places = _places(device, recording)
    graph: BuiltGraph | None = None

    async def build(where: OffloadDevice, queue: DirectiveQueue) -> None:
        nonlocal graph
        assert isinstance(queue, PreparedDirective)
        await where.plugin.open(queue)
        graph = await graphs.create(queue.cause)
        region, nodes = TaskRegion(), dict[Task, int]()
        for construct, _ in recording.tasks:
            await construct.work(where, queue)
            kernel = queue.kernels.pop()
            task = Task(construct.name, _nothing, Signal(t.program.sim, CALL))
            after = sorted(nodes[one] for one in region.ordered_before(construct.depends))
            region.enter(task, construct.depends)
            nodes[task] = await graphs.add_kernel_node(graph, after, kernel.launch, (), queue.cause, kernel.touching)

    await in_directive(t.program, f"{CALL} record", device.number, build, make_queue=PreparedDirective)
    assert graph is not None
    return TaskGraph(device, graphs, await graphs.instantiate(graph), places)


def _places(device: OffloadDevice, recording: TaskNotes) -> dict[HostArray, int]:
    """Return where the arrays of the tasks lie. ValueError for one that is not on the device all the while."""
    places: dict[HostArray, int] = {}
    for construct, _ in recording.tasks:
        arguments: tuple[Any, ...] = () if construct.on_host is None else construct.on_host.arguments
        for array in arguments:
            if isinstance(array, HostArray) and not array.managed:
                address = _place_of(device, array)
                if address is None:
                    why = "is on the device only while its task runs; map it around the region: a graph keeps addresses"
                    raise ValueError(f"{CALL}: array {array.name!r} {why}")
                places[array] = address
    return places


def _place_of(device: OffloadDevice, array: HostArray) -> int | None:
    found = device.table.lookup(array.address, array.nbytes)
    return None if found.entry is None or not found.contained else found.entry.device_address(array.address)


async def _nothing() -> None:
    """Do nothing: the task of a graph is a node."""
