"""Which changes of the program would make wasted operations needless, and how much time each would save.

One change of the program, a `Repair`, often makes several operations needless: if an array stays mapped around a loop,
its copies, allocations and frees in the loop are needed no more. What a repair saves is the difference between two
runs. In the second one these operations take no time (`NoCost`), and everything else is as it was. Operations that
overlap with others that are waited for anyway save nothing then, though they took long themselves.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Container, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
from numpy.typing import NDArray

from offloadrt.extensions.checking.cuda_calls import ReportedCalls
from offloadrt.extensions.checking.mistakes import ADVICE, Waste, WasteKind, WastePart
from offloadrt.extensions.checking.waste import DataOperation
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.host_array import HostArray, HostSpan
from offloadrt.runtime.mapping.map_item import DirectiveQueue
from offloadrt.sim import Simulation
from offloadrt.study.running.run import Run
from offloadrt.trace import Trace
from offloadrt.trace.events import PS_PER_S, Allocate, CallBegin, CallEnd, CopyBegin, CopyEnd, Event, Free

_BLOCKS: Final[Mapping[type[Event], str]] = {Allocate: "alloc", Free: "free"}
_NOTED: Final = frozenset((CallBegin, CallEnd, CopyBegin, CopyEnd, *_BLOCKS))
_COPIES: Final = {"cuMemcpyHtoDAsync": "h2d", "cuMemcpyDtoHAsync": "d2h"}


def _ps(seconds: float) -> int:
    return round(seconds * PS_PER_S)


class Costs(Trace):
    """Collects how long each data operation (copy, allocation, free) of a run takes; `take` returns the times in order.

    A copy lasts from the first to the last piece on a copy engine, or to the end of its driver call if that is later; a
    call that returns before the copy begins is added. An allocation or a free lasts as long as its driver call. An
    operation that a pool of the runtime served without the driver takes no time. The object takes the place of the
    run's trace, and stores no events, which saves time. has_program_events: False, so that it gets the events of
    drivers and of the machine only, and none of the program's.
    """

    has_program_events = False

    def __init__(self, sim: Simulation) -> None:
        super().__init__(sim, record=False, hash=False)
        self._calls: dict[int, list[float]] = {}
        self._blocks_of: dict[int, tuple[str, int, int, int]] = {}
        self._begun: dict[tuple[int, int], int] = {}
        self._copies: dict[tuple[str, int, int], dict[int, tuple[int, int, int]]] = {}
        self._queues: dict[tuple[str, int, int], deque[tuple[int, int, int]]] = {}
        self._lasted: dict[tuple[str, int, int, int], deque[int]] = {}
        self._copying: dict[tuple[str, int, int], deque[tuple[int, int]]] = {}

    def __call__(self, kind: type[Event], device: int, queue: int, cause: int, *payload: Any) -> None:
        """Note the time of an event of a copy, an allocation, a free or a driver call; ignore any other."""
        if kind in _NOTED:
            self.by((self._sim.running or self._sim.current).index, kind, device, queue, cause, *payload)

    def by(self, actor: int, kind: type[Event], device: int, queue: int, cause: int, *payload: Any) -> None:
        """Take the time of a trace event that begins or ends a copy, allocation, free or driver call.

        Other events are ignored. actor: the number of the actor (thread or part of the machine) that does it. cause:
        the number of its directive. payload: the event's own fields. kind: the type of the event. queue: the number of
        the stream or queue.
        """
        if kind is CallBegin:
            self._calls.setdefault(actor, []).append(self._sim.now)
        elif kind is CallEnd:
            if calls := self._calls.get(actor):
                began = calls.pop()
                block = self._blocks_of.pop(actor, None)
                if (way := _COPIES.get(payload[0])) is not None:
                    self._copying.setdefault((way, device, cause), deque()).append((_ps(began), self._now()))
                if block is not None:
                    self._lasted.setdefault(block, deque()).append(self._now() - _ps(began))
        elif kind is CopyBegin:
            self._begun[device, payload[0]] = self._now()
        elif kind is CopyEnd:
            number, direction, _, nbytes = payload[:4]
            copies = self._copies.setdefault((direction, device, cause), {})
            copies[number] = self._begun.pop((device, number)), self._now(), nbytes
        elif kind in _BLOCKS:
            self._blocks_of[actor] = _BLOCKS[kind], device, cause, payload[0]

    def _now(self) -> int:
        return _ps(self._sim.now)

    def aside(self, kind: type[Event], of: tuple[int, int, int], what: tuple[Any, ...], in_s: float = 0.0) -> None:
        """Ignore an event that the trace does not count: `Costs` needs only the times of those that `by` gets.

        kind: the event's class. of: its actor (the number of a thread or part of the machine), device and cause (the
        directive's number). what: its other fields. in_s: the virtual seconds from now at which it happens.
        """

    def close(self) -> None:
        """Sort the copies of each directive as they were submitted, so that `take` finds them in order; called last."""
        for key, copies in self._copies.items():
            self._queues[key] = deque(copies[number] for number in sorted(copies))

    def take(self, op: str, device: int, cause: int, address: int, nbytes: int) -> float:
        """Return how many virtual seconds the next operation with these properties took.

        op: alloc, free, h2d or d2h. cause: the number of the directive that did it. address: the device address.

        The first call with certain properties returns the time of the first such operation, the second call that of the
        second one, and so on.
        """
        if op in ("alloc", "free"):
            lasted = self._lasted.get((op, device, cause, address))
            return lasted.popleft() / PS_PER_S if lasted else 0.0
        pieces = self._queues.get((op, device, cause))
        if not pieces or pieces[0][2] > nbytes:
            return 0.0
        begin, end, left = pieces[0][0], pieces[0][1], nbytes
        while pieces and 0 < pieces[0][2] <= left:
            piece = pieces.popleft()
            end, left = max(end, piece[1]), left - piece[2]
        calls = self._copying.get((op, device, cause))
        called, left_call = calls.popleft() if calls else (begin, begin)
        beside = left_call - called if left_call <= begin else 0
        return (max(end, left_call) - begin + beside) / PS_PER_S


Key = tuple[str, int, int, int, int]
"""Identifies an operation in any run: (op, device, host address, bytes, how many with the same properties came before).
"""


@attrs.define(eq=False)
class Repair:
    """A change of the program that makes some operations needless, with these operations.

    advice: the change in words. keys: identify the operations in another run.
    """

    advice: str
    wasted: list[tuple[WasteKind, DataOperation, float]] = attrs.field(factory=list)
    """The wasted operations: (kind of waste, operation, seconds that it took)."""
    keys: set[Key] = attrs.field(factory=set)
    operations: int = 0
    """How many data operations the whole run had: a measure of how long it takes to run the program again."""

    def waste(self, uncertain: str) -> Waste:
        """Sum up the needless operations that this change avoids, for the report.

        uncertain: why they may be needed after all; empty if they are certainly needless. The time is the sum of their
        durations.
        """
        counts: Counter[WasteKind] = Counter()
        sizes: Counter[WasteKind] = Counter()
        for kind, operation, _ in self.wasted:
            counts[kind] += 1
            sizes[kind] += operation.nbytes
        parts = tuple(WastePart(kind, counts[kind], sizes[kind]) for kind in ADVICE if counts[kind])
        kind, first, _ = next(found for found in self.wasted if found[0] == parts[0].kind)
        seconds = sum(took for _, _, took in self.wasted)
        nbytes = sum(part.nbytes for part in parts)
        advice = "" if uncertain else self.advice
        return Waste(
            kind, first.name, first.device, first.story, nbytes, seconds, parts[0].times, advice, parts, uncertain
        )


_KEEP: Final = "Keep {name} mapped around all of it (`target data`), and update only what has changed."
_KEEP_ONE: Final = "Let one {name} last for all of it, mapped (`target data`), and update only what has changed."
_PRIVATE: Final = (
    "Each launch makes a copy of {name} (firstprivate): where kernels only read it, map it `to` around all of it "
    "(`target data`)."
)
_SENT_BY_COMPILER: Final = "It is the descriptor of {name}, which the compiler sends with each region."
_NO_MAP: Final = "No kernel uses the block: leave the map of {name} out."
_SOME_MAPS: Final = "Kernels use only some of the blocks of {name} that are mapped here: map it where they do."
_ONLY_READ: Final = "Kernels only read {name}: map it `to` instead of `tofrom`."
_UNREAD: Final = "The host does not read what it brings: map {name} `to` or `alloc`, or copy it when the host reads it."
_BACK: Final = "Kernels have not changed {name} since it was last sent: leave the copy back out."
_OTHERS: Final = "{advice} But {needed} of the {made} copies made here may be needed."


def repairs_of(operations: Sequence[DataOperation], costs: Costs, ended: bool) -> list[Repair]:
    """Return the changes of the program that would make its wasted operations needless.

    costs: how long each operation took. ended: whether the program came to its end.
    """
    found: dict[tuple[object, ...], Repair] = {}
    keys = _keys(operations)
    lasted = {one: costs.take(one.op, one.device, one.cause, one.address, one.nbytes) for one in operations}
    spare: dict[object, list[DataOperation]] = {}
    used = {_site(one) for one in operations if one.op == "alloc" and one.read and one.describes is None}
    first: dict[object, tuple[object, ...]] = {}
    for operation in operations:
        owner: Any = operation.owner
        if operation.op == "alloc" and owner is not None:
            first.setdefault(owner[:2], _site(operation))
    for operation in operations:
        if operation.op == "alloc" and not operation.read and (ended or operation.freed is not None):
            operation.kind = "unused allocation"
    for operation in operations:
        kind = operation.kind
        seconds = lasted[operation]
        if operation.op == "free":
            if operation.owner is not None and operation.made is not None and operation.made.read:
                spare.setdefault(operation.owner, []).append(operation)
            continue
        if operation.op == "alloc":
            if kind == "unused allocation":
                seconds += lasted[operation.freed] if operation.freed is not None else 0.0
            elif spare.get(operation.owner):
                kind = "repeated allocation"
                seconds += lasted[spare[operation.owner].pop()]
                operation.kind = kind
        elif kind is None and operation.op == "h2d" and not operation.read and ended:
            kind = "unread transfer"
        if kind is None:
            continue
        key, advice = _repair(kind, operation, used, first)
        repair = found.setdefault(key, Repair(advice, operations=len(operations)))
        repair.wasted.append((kind, operation, seconds))
        repair.keys.add(keys[operation])
    made = Counter(_copies(operation) for operation in operations)
    needless = Counter(_copies(operation) for repair in found.values() for _, operation, _ in repair.wasted)
    for key, repair in found.items():
        site = _copies(repair.wasted[0][1])
        if key[0] in ADVICE and (needed := made[site] - needless[site]) > 0:
            repair.advice = _OTHERS.format(advice=repair.advice, needed=needed, made=made[site])
    return list(found.values())


def _keys(operations: Iterable[DataOperation]) -> dict[DataOperation, Key]:
    """Return the key of each operation, by which it is found in another run of the same program."""
    counts: Counter[tuple[str, int, int, int]] = Counter()
    keys: dict[DataOperation, Key] = {}
    for operation in operations:
        kind = operation.op, operation.device, 0 if operation.op == "alloc" else operation.source, operation.nbytes
        keys[operation] = *kind, counts[kind]
        counts[kind] += 1
    return keys


def _site(operation: DataOperation) -> tuple[object, ...]:
    """Return what is equal for all operations that one clause of the program makes, whichever array it names."""
    return operation.device, operation.name, operation.story.did, operation.story.where


def _copies(operation: DataOperation) -> tuple[object, ...]:
    """Return what is equal for the copies of one clause that have one aim, apart from those of descriptors."""
    is_of_descriptor = operation.made is not None and operation.made.describes is not None
    return *_site(operation), operation.op, operation.role, is_of_descriptor


def _repair(
    kind: WasteKind, operation: DataOperation, used: Container[object], first: Mapping[object, tuple[object, ...]]
) -> tuple[tuple[object, ...], str]:
    """Return the change that makes an operation needless: a key that names the change, and the advice.

    used: the sites of maps of which kernels have used a block: they cannot be left out for those that nobody used.
    first: by owner (device, array) the site that mapped it first. What one line maps of many objects is one change.
    """
    made = operation if operation.op == "alloc" else operation.made
    described = made.describes if made is not None else None
    name, device, story = operation.name, operation.device, operation.story
    if described is not None and operation.kind == "unused allocation":
        return ("descriptor", name, device), _SENT_BY_COMPILER.format(name=name)
    if made is not None and made.kind == "unused allocation" and described is None:
        advice = _SOME_MAPS if _site(made) in used else _NO_MAP
        return ("no map", *_site(made)), advice.format(name=made.name)
    entered = operation.role == "enters" and kind in ("duplicate transfer", "round trip")
    left = operation.role == "leaves" and kind in ("duplicate transfer", "round trip", "unread transfer")
    if made is not None and (kind == "repeated allocation" or entered or (left and made.again) or made.is_private):
        array = described or made
        owner: Any = array.owner
        advice = _PRIVATE if array.is_private else _KEEP_ONE if array.anew else _KEEP
        return ("keep", *first[owner[:2]]), advice.format(name=name)
    key = kind, name, device, story.did, story.where
    if described is not None:
        return ("descriptor", name, device), _SENT_BY_COMPILER.format(name=name)
    if operation.op == "d2h" and kind in ("round trip", "duplicate transfer"):
        written = made is not None and made.written
        return (*key, written), (_BACK if written or operation.role != "leaves" else _ONLY_READ).format(name=name)
    if operation.op == "d2h" and kind == "unread transfer":
        return key, _UNREAD.format(name=name)
    return key, ADVICE[kind]


class WithoutOperations:
    """Repeats a run with chosen operations free of cost, to measure what a repair of the program saves.

    It observes the run, and takes effect at the first event. keys: identify the chosen operations.

    It needs no events of kernels, so `watch_kernel` is None; `watch_calls` makes the object to which a CUDA program
    reports its calls.
    """

    watch_kernel = None
    watch_calls = ReportedCalls

    def __init__(self, run: Run, keys: set[Key]) -> None:
        self._run = run
        self._keys = keys
        self._devices: list[NoCost] | None = None

    def watch_array(self, array: HostArray, values: NDArray[Any]) -> NDArray[Any]:
        """Return `values` unchanged: what Python code accesses is not needed here.

        array: the host array that has these values.
        """
        return values

    def handle(self, event: object) -> None:
        """At the first event, wrap the plugin and the allocator of each device in `NoCost`; ignore later events."""
        if self._devices is None:
            self._devices = [NoCost(device, self._keys) for device in self._run.openmp.devices]

    @property
    def is_complete(self) -> bool:
        """Tell whether all chosen operations have occurred in the run, so that its time shows what the repair saves."""
        return sum([device.met for device in self._devices or ()]) == len(self._keys)


class NoCost:
    """Makes chosen operations of a device take no time. Their bytes are still moved, so results stay the same.

    It replaces the device's plugin and allocator, and forwards everything that was not chosen to them.
    """

    def __init__(self, device: OffloadDevice, chosen: set[Key]) -> None:
        self.met = 0
        """How many of the chosen operations have occurred."""
        self._device = device
        self._memory = device.memory
        self._plugin: Any = device.plugin
        self._allocator = device.allocator
        self._chosen = chosen
        self._counts: Counter[tuple[str, int, int, int]] = Counter()
        self._own: set[int] = set()
        plugin: Any = self
        device.plugin = device.allocator = plugin

    def __getattr__(self, name: str) -> Any:
        """Forward any other attribute to the plugin, or to the allocator if the plugin has none of that name."""
        return getattr(self._plugin if hasattr(self._plugin, name) else self._allocator, name)

    def _chooses(self, op: str, address: int, nbytes: int) -> bool:
        kind = op, self._device.number, address, nbytes
        key: Key = (*kind, self._counts[kind])
        self._counts[kind] += 1
        self.met += key in self._chosen
        return key in self._chosen

    def locks(self) -> dict[str, Any]:
        """Return the statistics of the locks of the device's plugin and of its allocator, by the lock's name."""
        return {**self._plugin.locks(), **self._allocator.locks()}

    async def submit_data(self, queue: DirectiveQueue, device_address: int, source: HostSpan) -> None:
        """Copy to the device: without time if the copy was chosen, else by the plugin.

        queue: the work of the directive on the device. device_address: the destination. source: the host memory.
        """
        if not self._chooses("h2d", source.address, source.nbytes):
            await self._plugin.submit_data(queue, device_address, source)
        elif source.bytes is not None and not self._memory.is_phantom(device_address):
            self._memory.view(device_address, source.nbytes)[:] = source.bytes

    async def retrieve_data(self, queue: DirectiveQueue, destination: HostSpan, device_address: int) -> None:
        """Copy from the device. If chosen, the copy takes no time, but waits for the work before it in the queue.

        destination: the host memory. device_address: the source.
        """
        if not self._chooses("d2h", destination.address, destination.nbytes):
            await self._plugin.retrieve_data(queue, destination, device_address)
            return
        if destination.bytes is None or self._memory.is_phantom(device_address):
            return

        async def move() -> None:
            if destination.bytes is not None:
                destination.bytes[:] = self._memory.view(device_address, destination.nbytes)

        if queue.stream is None:
            await move()
        else:
            queue.post_processing.insert(0, move)

    async def allocate(self, nbytes: int, phantom: bool) -> int:
        """Allocate device memory, and return its address: without time if this was chosen, else by the allocator.

        phantom: whether the block has an address and a size only, and no values.
        """
        if not self._chooses("alloc", 0, nbytes):
            return await self._allocator.allocate(nbytes, phantom)
        # In segments of its own: the next block that needs a part of one is not the cheaper for it.
        block, _ = self._memory.allocate(max(nbytes, self._memory.segment), phantom)
        self._own.add(block.address)
        return block.address

    def free(self, address: int) -> Awaitable[None]:
        """Free device memory: without time if its allocation was chosen, else by the allocator."""
        return self._free_own(address) if address in self._own else self._allocator.free(address)

    async def _free_own(self, address: int) -> None:
        self._own.discard(address)
        self._memory.free(address)
