"""A host thread of an OpenACC program: its directives and routines, in Python.

    async def body(t):
        a, b = t.array("a", 1 << 20, fill=1.0), t.array("b", 1 << 20)
        async with t.data(acc.copyin(a), acc.copyout(b)):
            await t.parallel(scale, a, b, 2.0, async_=1)
            await t.wait(1)

A directive with `async_` ends when its work is in the activity queue; every other one when it is done. Async queues
belong to a device and are shared by all threads. A wait clause (`wait=`) orders a directive behind other queues.

Data clauses are written as calls: ``acc.copyin(a)``, ``acc.create(b, c)``, ``acc.host(d)``.

An item is a `HostArray` (all of it) or a section of one, ``acc.section(a, lower, length)``; a subarray of OpenACC has
no stride.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final, Literal

import attrs

from offloadrt.extensions.openacc.async_queue import AsyncQueue
from offloadrt.extensions.openacc.runtime_library import (
    AsyncQueues,
    InFlight,
    KernelTimes,
    RuntimeLibrary,
    device_pointers,
)
from offloadrt.kernels import Kernel
from offloadrt.kernels.integers import is_integer
from offloadrt.models.host.arguments import checks_arguments
from offloadrt.models.host.arrays import Arena
from offloadrt.models.host.directive import (
    Region,
    Work,
    beginning,
    construct_launch,
    ending,
    in_directive,
    leave_region,
    updating,
)
from offloadrt.models.host.program import Barrier, OffloadProgram, ProgramThread
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.host_array import HostArray, Section, Span, array_of
from offloadrt.runtime.launch.target import OffloadedRegion, target
from offloadrt.runtime.mapping.map_item import DirectiveQueue, MapItem, MapItems, literal_item, map_item
from offloadrt.runtime.mapping.map_types import ALLOC, DELETE, FROM, OMPX_HOLD, PRESENT, TARGET_PARAM, TO
from offloadrt.runtime.mapping.present_table import DevicePointer

DataKind = Literal["copy", "copyin", "copyout", "create", "present", "delete"]


@attrs.frozen(eq=False)
class DataClause:
    """A data clause of this `kind` (its name) with `items`, the arrays and sections in its list."""

    kind: DataKind
    items: tuple[Span, ...]


@attrs.frozen(eq=False)
class UpdateClause:
    """A clause of ``update`` with its list `items`: ``host(…)``, also called ``self``, or ``device(…)``."""

    kind: Literal["host", "device"]
    items: tuple[Span, ...]


def copy(*items: Span) -> DataClause:
    """Make the clause ``copy``: copy in at the region's beginning and out at its end, unless the data is present."""
    return DataClause("copy", items)


def copyin(*items: Span) -> DataClause:
    """Make the clause ``copyin``: copy the data in at the beginning, unless it is present."""
    return DataClause("copyin", items)


def copyout(*items: Span) -> DataClause:
    """Make the clause ``copyout``: allocate device memory; copy the data out when the last reference is dropped."""
    return DataClause("copyout", items)


def create(*items: Span) -> DataClause:
    """Make the clause ``create``: allocate device memory without copying anything."""
    return DataClause("create", items)


def present(*items: Span) -> DataClause:
    """Make the clause ``present``: the data must be on the device, or the directive raises `NotPresent`."""
    return DataClause("present", items)


def delete(*items: Span) -> DataClause:
    """Make the clause ``delete``: drop one dynamic reference without copying anything."""
    return DataClause("delete", items)


def host(*items: Span) -> UpdateClause:
    """Make the clause ``host`` of `update`: copy from the device to the host."""
    return UpdateClause("host", items)


def device(*items: Span) -> UpdateClause:
    """Make the clause ``device`` of `update`: copy from the host to the device."""
    return UpdateClause("device", items)


DataConstruct = Literal["data", "enter data", "exit data", "parallel", "kernels"]
Default = Literal["copy", "present", "none"]
"""What happens to an array that no clause names: it is treated as `copy`, or as the `default` clause says."""

_BITS: Final = {"copy": TO | FROM, "copyin": TO, "copyout": FROM, "create": ALLOC, "present": PRESENT, "delete": ALLOC}
_REGION: Final = ("copy", "copyin", "copyout", "create", "present")
_ALLOWED: Final[dict[DataConstruct, tuple[str, ...]]] = {
    "data": _REGION,
    "enter data": ("copyin", "create"),
    "exit data": ("copyout", "delete"),
    "parallel": _REGION,
    "kernels": _REGION,
}


def lower_data(clauses: Sequence[DataClause], construct: DataConstruct, finalize: bool = False) -> list[MapItem]:
    """Lower a data construct to its map items, in the order of the clauses.

    finalize: `exit data` drops all dynamic references. Raises ValueError for a clause that the construct does not take,
    an array that is in two clauses, or a stride.
    """
    bits = DELETE if finalize else OMPX_HOLD if construct in ("data", "parallel", "kernels") else 0
    items: list[MapItem] = []
    seen: set[Span] = set()
    for clause in clauses:
        if not isinstance(clause, DataClause):
            raise ValueError(f"{construct} takes data clauses, not {clause!r}")
        if clause.kind not in _ALLOWED[construct]:
            raise ValueError(f"{clause.kind}(…) is not allowed on {construct}: only {', '.join(_ALLOWED[construct])}")
        for span in clause.items:
            _check(span, construct)
            if array_of(span) in seen:
                raise ValueError(f"array {array_of(span).name!r} stands in two data clauses of one {construct}")
            seen.add(array_of(span))
            items.append(map_item(span, _BITS[clause.kind] | bits))
    return items


def _check_any(directive: str, clauses: Sequence[object], example: str) -> None:
    """Raise ValueError where a directive has no clause that says of which data."""
    if not clauses:
        raise ValueError(f"{directive}: at least one clause says of which data, as in {example}")


def _check(span: Span, construct: str) -> None:
    if not isinstance(span, (HostArray, Section)):
        raise ValueError(f"{construct}: {span!r} is neither an array nor a section of one")
    if isinstance(span, Section) and span.stride != 1:
        raise ValueError(f"{construct}: {span} has a stride, which a subarray of OpenACC cannot have")


def lower_update(clauses: Sequence[UpdateClause], if_present: bool) -> list[MapItem]:
    """Lower the directive `update` to its map items.

    if_present: arrays that are not on the device are skipped; otherwise the directive raises an error for them when it
    runs. clauses: those of the directive.
    """
    items: list[MapItem] = []
    for clause in clauses:
        if not isinstance(clause, UpdateClause):
            raise ValueError(f"update takes host(…) and device(…), not {clause!r}")
        bits = (FROM if clause.kind == "host" else TO) | (0 if if_present else PRESENT)
        for span in clause.items:
            _check(span, "update")
            items.append(map_item(span, bits))
    return items


def lower_compute(
    construct: DataConstruct, clauses: Sequence[DataClause], arguments: Sequence[Any], default: Default
) -> MapItems:
    """Lower a compute construct to map items: first the kernel's arguments in their order, then the other arrays.

    The other arrays are those that a data clause names and the kernel does not take. default: how an array without a
    clause is mapped (copied in and out, or expected to be present). Raises ValueError for a clause that the construct
    does not take, an array that is in two clauses, a stride, and an array that `default(none)` leaves without a clause.
    """
    named = {item.array: item for item in lower_data(clauses, construct)}
    items: list[MapItem] = []
    captured: dict[HostArray, None] = {}
    for argument in arguments:
        if isinstance(argument, HostArray):
            if argument in captured:
                continue
            captured[argument] = None
            item = named.get(argument) or _implicit(argument, default, construct)
            items.append(MapItem(item.array, item.base, item.begin, item.size, item.type | TARGET_PARAM))
        else:
            items.append(literal_item(argument))
    items.extend(item for array, item in named.items() if array not in captured)
    return MapItems(items)


def _implicit(array: HostArray, default: Default, construct: str) -> MapItem:
    if default == "none":
        raise ValueError(f"array {array.name!r} is used in {construct} with default(none), but no clause names it")
    return map_item(array, OMPX_HOLD | (PRESENT if default == "present" else TO | FROM))


ACC_ASYNC_NOVAL = -1
"""The queue of an `async` clause without a value."""

ACC_ASYNC_SYNC = -2
"""The value of an `async` clause that means the same as no clause (OpenACC 3.3, section 2.16): no queue is used."""

AwaitableDirective = Coroutine[Any, Any, object]
"""What a directive's method returns. The clauses have been lowered; the directive runs when it is awaited."""


@checks_arguments
class HostThread(ProgramThread):
    """The host thread ``t`` that the program's function gets; it has OpenACC's directives and routines as methods.

    `device_number` is its current device. A directive runs in the queue with the async value `async_`; with None the
    host waits until it is complete. `wait` has the async values of the queues after whose work it runs.
    """

    def __init__(
        self,
        program: OffloadProgram[Any],
        library: RuntimeLibrary,
        number: int,
        num_threads: int,
        barrier: Barrier,
        heap: Arena,
        stack: Arena,
    ) -> None:
        super().__init__(program, number, num_threads, barrier, heap, stack)
        self.library = library
        self.device_number = 0
        self.spread = 1
        """The number of devices on which JACC's runtime keeps this thread's data."""

    async def leave_team(self) -> None:
        """End the thread without waiting for its async queues, because these belong to the device."""

    # devices

    def acc_get_num_devices(self) -> int:
        """Return how many devices the program has."""
        return self.program.num_devices

    def acc_get_device_num(self) -> int:
        """Return the number of the thread's current device."""
        return self.device_number

    def acc_set_device_num(self, number: int) -> None:
        """Set the thread's current device, from its next directive on (``set device_num``).

        Raises InvalidDevice for a number that does not exist, TypeError for what is no whole number.
        """
        self.program.device(number, "acc_set_device_num")
        self.device_number = number

    # data

    def data(self, *clauses: DataClause, async_: int | None = None, wait: int | Sequence[int] = ()) -> Data:
        """Make a data region, in which the data of the clauses is on the device: ``async with t.data(…):``.

        If the program fails inside the region, the region is not closed. When a timeout leaves the region, its data is
        deleted without being copied out. async_: the async queue in which it runs; None: the host waits. wait: queues
        after whose work it runs.
        """
        _check_any("data", clauses, "copy(a)")
        return Data(self, clauses, async_, wait)

    def enter_data(
        self, *clauses: DataClause, async_: int | None = None, wait: int | Sequence[int] = ()
    ) -> AwaitableDirective:
        """Run ``enter data``: each item gets one more dynamic reference.

        async_: the async queue in which it runs; None: the host waits. wait: queues after whose work it runs.
        """
        _check_any("enter data", clauses, "copyin(a)")
        return self.run("enter data", beginning(lower_data(clauses, "enter data"), "enter data"), async_, wait)

    def exit_data(
        self,
        *clauses: DataClause,
        finalize: bool = False,
        async_: int | None = None,
        wait: int | Sequence[int] = (),
    ) -> AwaitableDirective:
        """Run ``exit data``: each item loses one dynamic reference, or all with `finalize`. Absent data is ignored.

        async_: the async queue in which it runs; None: the host waits. wait: queues after whose work it runs.
        """
        _check_any("exit data", clauses, "copyout(a)")
        items = lower_data(clauses, "exit data", finalize)
        return self.run("exit data", ending(items, "exit data"), async_, wait)

    def update(
        self,
        *clauses: UpdateClause,
        if_present: bool = False,
        async_: int | None = None,
        wait: int | Sequence[int] = (),
    ) -> AwaitableDirective:
        """Run ``update host(…) device(…)`` on the current device.

        async_: the async queue in which it runs; None: the host waits. wait: queues after whose work it runs. Raises
        NotPresent for data that is not there, unless `if_present`. Raises ValueError for `device(…)` of data that the
        runtime of JACC, which divides kernels among devices, keeps on several.
        """
        _check_any("update", clauses, "host(a)")
        items = lower_update(clauses, if_present)
        others = self.program.devices[1 : self.spread]
        for item in items if others else ():
            if item.type & TO and others[0].table.lookup(item.begin, item.size).contained:
                name = "" if item.array is None else item.array.name
                raise ValueError(
                    f"update device({name}) reaches one device, but JACC's runtime keeps {name} on {self.spread}: use "
                    "jacc_update_device"
                )
        return self.run("update", updating(items, "update"), async_, wait)

    def host_data(self, *arrays: HostArray) -> HostData:
        """Make a ``host_data use_device`` region: ``async with t.host_data(a, b) as pointers:``.

        Raises NotPresent, and TypeError for anything but whole arrays.
        """
        _check_any("host_data", arrays, "a")
        for array in arrays:
            if not isinstance(array, HostArray):
                raise TypeError(f"host_data takes whole arrays of the program, not {array!r:.80}")
        return HostData(self, arrays)

    async def acc_is_present(self, array: HostArray) -> bool:
        """Return whether all of an array is present on the current device."""
        contained: list[bool] = []

        async def look(where: OffloadDevice, queue: DirectiveQueue) -> None:
            await where.work(where.table.search_s)
            contained.append(where.table.lookup(array.address, array.nbytes).contained)

        await self.run("acc_is_present", look)
        return contained[0]

    # kernels

    def parallel(
        self,
        kernel: Kernel,
        *arguments: Any,
        data: Sequence[DataClause] = (),
        default: Default = "copy",
        num_gangs: int | None = None,
        vector_length: int | None = None,
        iterations: int | None = None,
        async_: int | None = None,
        wait: int | Sequence[int] = (),
    ) -> AwaitableDirective:
        """Run a ``parallel loop``: a kernel with these arguments on the current device.

        arguments: in the kernel's order. An array that no clause names is copied in and out (or as `default` says),
        numbers are firstprivate, and a DevicePointer is a deviceptr. num_gangs, vector_length, iterations: the launch
        configuration, by default what a loop nest needs. data: the data clauses. Raises MappingError, NotPresent,
        IllegalAddress, and what the driver raises.
        """
        return self._compute(
            "parallel", kernel, arguments, data, default, num_gangs, vector_length, iterations, async_, wait
        )

    def kernels(
        self,
        kernel: Kernel,
        *arguments: Any,
        data: Sequence[DataClause] = (),
        default: Default = "copy",
        async_: int | None = None,
        wait: int | Sequence[int] = (),
    ) -> AwaitableDirective:
        """Run a ``kernels`` construct: a kernel whose launch configuration the compiler chooses.

        data: the data clauses. default: how an array that no clause names is mapped.
        """
        return self._compute("kernels", kernel, arguments, data, default, None, None, None, async_, wait)

    def _compute(
        self,
        construct: DataConstruct,
        kernel: Kernel,
        arguments: Sequence[Any],
        data: Sequence[DataClause],
        default: Default,
        teams: int | None,
        threads: int | None,
        iterations: int | None,
        async_: int | None,
        wait: int | Sequence[int],
    ) -> AwaitableDirective:
        launch = construct_launch(
            construct, kernel, arguments, teams, threads, iterations, clauses=("num_gangs", "vector_length")
        )
        offloaded = OffloadedRegion(launch, lower_compute(construct, data, arguments, default), arguments)
        records = self.library.records
        times = records.of_constructs.setdefault(records.name(kernel), KernelTimes())

        async def region(where: OffloadDevice, queue: DirectiveQueue) -> None:
            records.expect(where.number, queue.cause, InFlight(times, False, 1))
            await target(where, queue, offloaded, construct, self.program.globals.binding)

        return self.run(construct, region, async_, wait)

    # queues

    def wait(self, *values: int, async_: int | None = None) -> AwaitableDirective:
        """Run ``wait(…)``: wait for these queues of the current device, or without values for all of them.

        With `async_`, the queue of that number waits, and not the host. Raises the error of a kernel in a queue.
        """
        queues, number = self.library.queues, self.device_number
        _check_async("wait", values)

        def named() -> list[AsyncQueue]:
            return _queues(queues, number, values) if values else queues.in_use(number)

        async def drain(where: OffloadDevice, queue: DirectiveQueue) -> None:
            for async_queue in named():
                await async_queue.drain(where, queue.cause)

        async def order(where: OffloadDevice, queue: DirectiveQueue) -> None:
            for async_queue in named():
                await async_queue.precede(where, queue)

        return self.run("wait", drain if async_ in (None, ACC_ASYNC_SYNC) else order, async_)

    def run(
        self,
        name: str,
        work: Work,
        async_: int | None = None,
        wait: int | Sequence[int] = (),
        device: int | None = None,
        unmaps: Sequence[MapItem] = (),
    ) -> AwaitableDirective:
        """Return a coroutine that runs `work`, the body of a directive, after the async queues in `wait`.

        name: the directive's name in errors and traces. work: called with the device and the directive's queue. async_:
        the async queue in which it runs; None for a queue of its own, for which the host waits. device: the number of
        the device, by default the thread's current one. unmaps: items whose mapping ends even if the directive is left
        before it has begun to unmap them.

        Raises ValueError for an async value that is no whole number, or below `ACC_ASYNC_SYNC`.
        """
        queues = self.library.queues
        number = self.device_number if device is None else device
        values = tuple(wait) if isinstance(wait, (tuple, list)) else (wait,)
        if values or async_ is not None:
            _check_async(name, values if async_ is None else (*values, async_))
        lasting = None if async_ is None or async_ == ACC_ASYNC_SYNC else queues.of(number, async_)

        async def behind(where: OffloadDevice, queue: DirectiveQueue) -> None:
            for earlier in _queues(queues, number, values):
                await earlier.precede(where, queue)
            await work(where, queue)

        return in_directive(self.program, name, number, behind if values else work, unmaps, lasting)


def _queues(queues: AsyncQueues, device: int, values: Iterable[int]) -> list[AsyncQueue]:
    """Return the async queues with these values; `ACC_ASYNC_SYNC` stands for none."""
    return [queues.of(device, value) for value in values if value != ACC_ASYNC_SYNC]


def _check_async(name: str, values: Iterable[object]) -> None:
    for value in values:
        if not is_integer(value) or value < ACC_ASYNC_SYNC:
            raise ValueError(f"{name}: async value {value!r} is none; queues have whole numbers from 0")


class Data(Region[None]):
    """A structured ``data`` region, on the device that is current when it begins."""

    directive = "data"

    def __init__(
        self, thread: HostThread, clauses: Sequence[DataClause], async_: int | None, wait: int | Sequence[int]
    ) -> None:
        self._thread = thread
        self._device = thread.device_number
        self._items = lower_data(clauses, "data")
        self._async = async_
        self._wait = wait
        self.made()

    async def begin(self) -> None:
        await self._thread.run("data", beginning(self._items, "data"), self._async, self._wait, self._device)

    async def end(self) -> None:
        end = ending(self._items, "data")
        await self._thread.run("data end", end, self._async, (), self._device, self._items)

    def leave(self) -> None:
        leave_region(self._thread.program, "data end", self._device, self._items)


class HostData(Region[dict[HostArray, DevicePointer]]):
    """A ``host_data use_device`` region, which gives device pointers of arrays and changes no reference count."""

    directive = "host_data"

    def __init__(self, thread: HostThread, arrays: Sequence[HostArray]) -> None:
        self._thread = thread
        self._arrays = arrays
        self.made()

    async def begin(self) -> dict[HostArray, DevicePointer]:
        pointers: dict[HostArray, DevicePointer] = {}

        async def look(where: OffloadDevice, queue: DirectiveQueue) -> None:
            looked_up = await device_pointers(where, self._arrays, queue, "host_data")
            pointers.update(zip(self._arrays, looked_up.pointers, strict=True))

        await self._thread.run("host_data", look)
        return pointers

    async def end(self) -> None:
        """End the region. There is nothing to undo, as the region counted no references."""

    def leave(self) -> None:
        """Leave the region early. There is nothing to undo, as the region counted no references."""
