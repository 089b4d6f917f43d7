"""The memory configuration `otm`: managed memory in which the runtime places each object.

An object lies on the GPU by copies (explicit), on the GPU by migrations on demand (implicit), or is pinned to the CPU
(Li and Chapman, Compiler Assisted Hybrid Implicit and Explicit GPU Memory Management).

Only arrays that target regions map are placed. The maps of `target data` and `target enter data` pin what does not fit
beside the rest of their objects. Whether the others are copied or migrate is decided at the first target call that uses
them, because only that knows a trip count. If they are copied, their maps are carried out there, with the reference
counts that `copy` would have. Globals of declare target stay managed, and memory of `omp_target_alloc` stays the
program's: neither is counted.

The decision, and the advice to keep an object on the host, come under the device table's lock, as in the public runtime
of the paper's authors: no thread sees an object that is half placed.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, cast

import attrs
import msgspec

from offloadrt.driver import Advice
from offloadrt.extensions.otm.object_table import (
    Candidate,
    ManagedObject,
    ObjectPlacement,
    ObjectTable,
)
from offloadrt.extensions.otm.ranking import HostProgram
from offloadrt.kernels import Launch
from offloadrt.machine import Machine
from offloadrt.runtime.configurations.managed import Managed
from offloadrt.runtime.device import MapHooks, OffloadDevice, Placement, ResultSection
from offloadrt.runtime.errors import PlacementError
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.kernel_arguments import Pointees
from offloadrt.runtime.lock_wait import no_work
from offloadrt.runtime.mapping.data_environment import ending_entries, get_target_pointer, null_pointer
from offloadrt.runtime.mapping.map_item import DirectiveQueue, MapItem
from offloadrt.runtime.mapping.map_types import ATTACH, LITERAL, PRIVATE, RETURN_PARAM, TARGET_PARAM, MapFlags, flags_of
from offloadrt.runtime.mapping.present_table import Entry
from offloadrt.study.reporting.results import Result
from offloadrt.trace import events

_NO_MAP = ATTACH | LITERAL | PRIVATE


@attrs.frozen
class Otm(Managed):
    """The memory configuration `otm`: places each object (array) as OTM, a published manager of objects, decides.

    Objects that OTM lets migrate (implicit) or pins on the host are treated as under the configuration `managed`,
    copied ones (explicit) as under `copy`. host_program: what a compiler knows of the program, from `HostProgram.of`.
    """

    name: ClassVar[str] = "otm"
    host_program: object = None

    def for_program(self, host_program: object) -> Otm:
        return self if host_program is None else Otm(host_program)

    def supports(self, machine: Machine) -> None:
        super().supports(machine)
        if (devices := len(machine.devices)) > 1:
            raise self.unavailable(machine, f"objects are placed on one device only, and the run has {devices}")

    def hooks(self, device: OffloadDevice) -> MapHooks:
        placing = ObjectPlacing(device, ObjectTable(device.machine.spec, device.hardware, self._known()))
        return MapHooks(
            before_target=placing.before_target,
            before_data=placing.before_data,
            placing=placing.placing,
            in_place=placing.in_place,
            updating=placing.updating,
            unmapping=placing.unmapping,
            data_ended=placing.data_ended,
            target_ended=placing.target_ended,
            left_early=placing.left_early,
            freed=placing.table.remove,
            state=placing.table,
        )

    def _known(self) -> HostProgram:
        """Return the analysis of the program. Raises ValueError if it is missing."""
        if isinstance(self.host_program, HostProgram):
            return self.host_program
        given = "is missing" if self.host_program is None else f"is {self.host_program!r}"
        raise ValueError(
            f"memory configuration {self.name!r} places objects by what a compiler knows of the program, and its "
            f"option host_program {given}: set it to extensions.otm.HostProgram.of(the program's host function)"
        )

    def sections(self, devices: Sequence[OffloadDevice]) -> dict[str, ResultSection]:
        """Return the last placement of each object over all devices, and how much memory the objects took.

        ``placements`` has for each object its bytes, rank by global access frequency (GAF), density (accesses per
        element), place (host or device) and mechanism (explicit: copied, implicit: migrating, pinned). Where several
        have one name, the later are numbered (``a (2)``). ``otm`` has the most bytes of explicit and of implicit
        objects that were active at one time (`explicit_bytes`, `implicit_bytes`), and the bytes available for both
        (`budget_bytes`).
        """
        placements: dict[str, ObjectPlacement] = {}
        seen: dict[str, int] = {}
        tables = [object_table(device) for device in devices]
        for placed in placements_on(devices):
            seen[placed.name] = number = seen.get(placed.name, 0) + 1
            placements[placed.name if number == 1 else f"{placed.name} ({number})"] = placed
        rows = tuple(
            (name, placed.nbytes, f"{placed.density:.4g}", placed.place, placed.mechanism)
            for name, placed in placements.items()
        )
        columns = ("", "bytes", "density", "place", "mechanism")
        return {
            "placements": ResultSection(
                {
                    name: attrs.asdict(placed, filter=attrs.filters.exclude("name"))
                    for name, placed in placements.items()
                },
                "objects by rank",
                columns,
                rows,
                right=(1, 2),
            ),
            "otm": ResultSection(
                {
                    "explicit_bytes": sum([table.peak.explicit for table in tables]),
                    "implicit_bytes": sum([table.peak.implicit for table in tables]),
                    "budget_bytes": sum([table.budget for table in tables]),
                }
            ),
        }


def placements_of(result: Result) -> dict[str, ObjectPlacement]:
    """Return the last placement of each object in a run, by name; empty under another configuration."""
    figures = {name: {"name": name, **placed} for name, placed in result.figures("placements").items()}
    return msgspec.convert(figures, dict[str, ObjectPlacement])


def object_table(device: OffloadDevice) -> ObjectTable:
    """Return the object table of a device under the configuration `otm`. Raises TypeError under another one."""
    table = device.hooks.state
    if not isinstance(table, ObjectTable):
        raise TypeError(f"no objects are placed on device {device.number}: its configuration is not 'otm'")
    return table


def placements_on(devices: Sequence[OffloadDevice]) -> tuple[ObjectPlacement, ...]:
    """Return the last placement of each object on each of `devices`, in order of rank."""
    return tuple(placement for device in devices for placement in object_table(device).placements())


@attrs.define(eq=False)
class TargetCall:
    """What must be remembered of a target region until it ends, so that OTM can then release the region's objects.

    OTM is a published manager of objects (arrays). carried_out: the present-table entries that the region has made for
    deferred maps of data directives around it, each with its map item.
    """

    arrays: Sequence[HostArray]
    """The arrays that the region uses as objects. They stay active until it ends."""
    carried_out: list[tuple[Entry, MapItem]] = attrs.field(factory=list)


@attrs.frozen(eq=False)
class ObjectPlacing:
    """Decides how the device reaches the objects (arrays) of a directive: copied, migrating or pinned on the host.

    It does so before they are mapped, and releases them at the directive's end. `table` has the objects of the device.
    """

    device: OffloadDevice
    table: ObjectTable

    async def before_target(
        self, launch: Launch, items: Sequence[MapItem], arguments: Sequence[Any], queue: DirectiveQueue, call: str
    ) -> None:
        """Decide how the device reaches the arrays that a target region maps and its kernel uses.

        Carries out the deferred maps of data directives for objects that are explicit (copied). From then on the queue
        keeps a `TargetCall`, and `target_ended` must be called. call: the directive's name, for errors.

        launch, arguments: the kernel's launch and its arguments. items: the map items. queue: the directive's. Raises
        PlacementError for an array that the program's analysis does not know.
        """
        device, table = self.device, self.table
        accesses = _accesses(launch, arguments)
        objects: list[ManagedObject] = []
        for item in items:
            array = item.array
            if array is None or not array.nbytes or not item.type & TARGET_PARAM or item.type & _NO_MAP:
                continue
            if array not in accesses or array.kind in ("global", "link"):
                continue
            found = table.find(array)
            if found is None:
                raise self._unknown(array, call)
            objects.append(found)
        queue.kept = kept = TargetCall([one.array for one in objects])
        for one in objects:
            one.running += 1
        mapped = [item for item in items if _maps(item)]
        candidates = [
            Candidate(
                one.array,
                table.extent(one, mapped),
                one.known.rank,
                _density(accesses[one.array], launch.iterations, one.array),
                _is_mapped(device, one, mapped),
            )
            for one in objects
        ]
        await self._decide(candidates, queue.cause)
        for array in kept.arrays:
            await self._carry_out(array, queue, kept, call)
            if table.mechanism(array) != "explicit":
                table.use_in_place(array)

    async def before_data(self, items: Sequence[MapItem], queue: DirectiveQueue, call: str) -> None:
        """Pin those objects of a data directive on the host that do not fit into device memory.

        items: the map items. queue: the directive's. call: the directive's name, for errors. Raises PlacementError for
        use_device_ptr and use_device_addr, because the address of an object that is not yet placed is not known.
        """
        if queue.kept is not None:
            return
        device, table = self.device, self.table
        found: dict[HostArray, ManagedObject] = {}
        mapped: list[MapItem] = []
        for item in items:
            array = item.array
            if array is None:
                continue
            if item.type & RETURN_PARAM:
                message = (
                    f"use_device_ptr and use_device_addr of array {array.name!r}: under 'otm' the runtime decides at "
                )
                raise device.error(PlacementError, message + "each target call where an object lies", call, array.name)
            if _maps(item) and array.kind not in ("global", "link"):
                mapped.append(item)
                one = table.find(array)  # None: no target region uses it
                if one is not None:
                    found[array] = one
        candidates = [Candidate(array, table.extent(one, mapped), one.known.rank, None) for array, one in found.items()]
        await self._decide(candidates, queue.cause)

    def placing(self, item: MapItem, size: int, flags: MapFlags) -> Placement:
        """Return how the device reaches a section that is not mapped yet: by a copy, or in place.

        It is copied if OTM has made its object explicit. item: the map item of the section. size, flags: its bytes and
        map flags, which make no difference here.
        """
        explicit = self.table.mechanism(item.array) == "explicit"
        return Placement.DEVICE_COPY if explicit else Placement.HOST_POINTER

    def in_place(self, item: MapItem, queue: DirectiveQueue) -> Awaitable[None]:
        """Record that a directive maps an object without a device block; its map is made once the object is copied.

        The result is awaited as all placing is, but nothing is left to do.
        """
        if queue.kept is None:
            self.table.put_off(item)
        return no_work()

    def updating(self, array: HostArray) -> None:
        """Record that a ``target update`` has changed the host's bytes of an array while its map may be deferred."""
        self.table.use_in_place(array)

    def unmapping(self, item: MapItem, entry: Entry | None, queue: DirectiveQueue) -> None:
        """Drop the deferred map of a data directive that ends, if there is one.

        Nothing is dropped while the object has a device block that outlives the directive. entry: the item's entry in
        the present table; None if it has none. queue: the directive's.
        """
        if queue.kept is None and (item.flags.delete or entry is None or entry.is_unused):
            self.table.drop(item, item.flags.delete)

    def data_ended(self, items: Sequence[MapItem], queue: DirectiveQueue) -> None:
        """Let a data directive's objects (its items) be released when all work that is in its queue now is done."""
        if queue.kept is None:
            arrays = [item.array for item in items if item.array is not None]
            queue.post_processing.append(functools.partial(self._data_ended, arrays))

    def target_ended(self, queue: DirectiveQueue) -> None:
        """Arrange that a target region's objects are released when all work that is in its queue now is done."""
        kept = queue.kept
        if isinstance(kept, TargetCall):
            arrays, kept.arrays = kept.arrays, ()
            queue.post_processing.append(functools.partial(self._target_ended, arrays))

    def left_early(self, queue: DirectiveQueue) -> Callable[[], None] | None:
        """Return the function to call once the maps of a directive that was left early, as at a timeout, have ended.

        The function ends the directive for OTM and releases its objects. Returns None if the directive has no object.
        queue: the directive's.
        """
        items, kept = queue.items, queue.kept
        if not isinstance(kept, TargetCall):
            return functools.partial(self.data_ended, items, queue) if items else None
        if not kept.arrays and not items:
            return None
        # Copies for data directives around it may be under way: their entries last until its queue has drained.
        for entry, item in kept.carried_out:
            entry.data_end_users += 1
            ending_entries(self.device, queue).append((entry, item))
        return functools.partial(self.target_ended, queue)

    async def _target_ended(self, arrays: Sequence[HostArray]) -> None:
        for array in arrays:
            self.table.ended(array)
        await self._data_ended(arrays)

    async def _data_ended(self, arrays: Sequence[HostArray]) -> None:
        for array in dict.fromkeys(arrays):
            self.table.leave(array, _has_block(self.device, array))

    def _unknown(self, array: HostArray, call: str) -> PlacementError:
        known = ", ".join(one.name for one in self.table.program.objects) or "none"
        message = (
            f"the program's analysis (its option host_program) has no object {array.name!r}, which the kernel uses; "
            f"objects go by the names of their arrays, and it has: {known}"
        )
        return self.device.error(PlacementError, message, call, array.name)

    async def _decide(self, candidates: Sequence[Candidate], cause: int) -> None:
        if not candidates:
            return
        device, table = self.device, self.table
        await device.table_lock.enter(len(candidates) * table.spec.decision)
        try:
            for array, mechanism in table.decide(candidates):
                if (trace := device.trace) is not None:
                    trace(events.ObjectPlaced, device.number, -1, cause, array.name, array.nbytes, mechanism)
                await self._advise(array)
            for candidate in candidates:  # the thread that decided on it may have been left before it told the driver
                await self._advise(cast(HostArray, candidate.key))
        finally:
            device.table_lock.release()

    async def _advise(self, array: HostArray) -> None:
        advice: Advice | None = self.table.advice_due(array)
        if advice is not None:
            await self.device.driver.managed.advise(array.address, array.nbytes, advice)
            self.table.advised(array, advice)

    async def _carry_out(self, array: HostArray, queue: DirectiveQueue, kept: TargetCall, call: str) -> None:
        """Carry out the deferred maps of an explicit object, those of data directives around the region.

        Each map is taken from the object's list under the same lock under which its entry is inserted in the present
        table. So a thread that finds no deferred map left finds the entries.
        """
        device, table = self.device, self.table
        while table.has_open(array):
            await device.table_lock.enter(0.0)
            item, bits = table.take_open(array)
            if item is None:
                device.table_lock.release()
                return
            try:
                try:
                    await device.work(device.table.search_s)
                except BaseException:
                    device.table_lock.release()
                    raise
                flags = flags_of(bits)
                pointer = await get_target_pointer(device, item, queue, item.begin, item.base, item.size, flags)
            except BaseException:
                table.put_back(item)
                raise
            try:
                if pointer.address is None:
                    raise null_pointer(device, item, call)
                if pointer.entry is not None:
                    kept.carried_out.append((pointer.entry, item))
            finally:
                device.release(pointer)


def _accesses(launch: Launch, arguments: Sequence[Any]) -> dict[HostArray, float]:
    """Return for each array among the arguments the accesses per iteration that the compiler counts (LAF)."""
    uses = {use.position: use.laf for use in launch.kernel.arrays}
    found: dict[HostArray, float] = {}
    for position, argument in enumerate(arguments):
        array = argument.pointers if isinstance(argument, Pointees) else argument
        if isinstance(array, HostArray):
            found[array] = found.get(array, 0.0) + uses.get(position, 0.0)
    return found


def _density(laf: float, iterations: int, array: HostArray) -> float:
    return min(1.0, laf * iterations * array.itemsize / array.nbytes)


def _maps(item: MapItem) -> bool:
    """Tell whether an item maps bytes, rather than only a pointer."""
    return item.size > 0 and not item.type & _NO_MAP


def _is_mapped(device: OffloadDevice, one: ManagedObject, mapped: Sequence[MapItem]) -> bool:
    """Tell whether the region, or a data directive around it, maps bytes of an object."""
    own = any(item.array is one.array for item in mapped)
    return own or bool(one.open) or _has_block(device, one.array)


def _has_block(device: OffloadDevice, array: HostArray) -> bool:
    return device.table.lookup(array.address, array.nbytes).overlaps
