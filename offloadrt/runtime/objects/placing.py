"""Placing the objects of a directive under the configuration `otm`: before its maps are looked at, and at its end.

The decision, and the advice to keep an object on the host, come under the device table's lock, as the public runtime
of the paper's authors does it: no thread sees an object that is half placed.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, cast

from offloadrt.kernels import Launch
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.errors import PlacementError
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.kernel_arguments import Pointees
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.map_type import ATTACH, LITERAL, PRIVATE, RETURN_PARAM, TARGET_PARAM, flags_of
from offloadrt.runtime.mapping.target_pointer import get_target_pointer, null_pointer
from offloadrt.runtime.objects.object_table import ManagedObject, ObjectTable
from offloadrt.runtime.objects.placement import Candidate
from offloadrt.trace import events

_NO_MAP = ATTACH | LITERAL | PRIVATE


async def place_for_target(
    device: OffloadDevice,
    table: ObjectTable,
    launch: Launch,
    items: Sequence[MapItem],
    arguments: Sequence[Any],
    queue: DirectiveQueue,
    call: str,
) -> None:
    """Decide on the arrays that a region maps and its kernel uses.

    What data directives have put off for those that are explicit is carried out. From then on they are the queue's
    `placed`, and `put_off_target_ended` is due.

    Raises PlacementError for an array of which the program's analysis knows nothing.
    """
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
            raise _unknown(device, table, array, call)
        objects.append(found)
    queue.placed = arrays = [one.array for one in objects]
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
    await _decide(device, table, candidates, queue.cause)
    for array in arrays:
        await _carry_out(device, table, array, queue, call)
        if table.mechanism(array) != "explicit":
            table.use_in_place(array)


async def place_for_data(
    device: OffloadDevice, table: ObjectTable, items: Sequence[MapItem], queue: DirectiveQueue, call: str
) -> None:
    """Pin what does not fit of the objects that a data directive maps.

    Raises PlacementError for use_device_ptr and use_device_addr: the address of an object that is still to
    be placed is not known.
    """
    found: dict[HostArray, ManagedObject] = {}
    mapped: list[MapItem] = []
    for item in items:
        array = item.array
        if array is None:
            continue
        if item.type & RETURN_PARAM:
            message = f"use_device_ptr and use_device_addr of array {array.name!r}: under 'otm' the runtime decides at "
            raise device.error(PlacementError, message + "each target call where an object lies", call, array.name)
        if _maps(item) and array.kind not in ("global", "link"):
            mapped.append(item)
            one = table.find(array)  # None: no target region uses it
            if one is not None:
                found[array] = one
    candidates = [Candidate(array, table.extent(one, mapped), one.known.rank, None) for array, one in found.items()]
    await _decide(device, table, candidates, queue.cause)


def put_off_target_ended(device: OffloadDevice, table: ObjectTable, queue: DirectiveQueue) -> None:
    """End a target call after what its queue has to do so far, as the removal of blocks that nobody needs."""
    arrays, queue.placed = queue.placed or (), ()
    queue.post_processing.append(functools.partial(_target_ended, device, table, arrays))


def put_off_data_ended(
    device: OffloadDevice, table: ObjectTable, items: Sequence[MapItem], queue: DirectiveQueue
) -> None:
    """End a data directive after what its queue has to do so far."""
    arrays = [item.array for item in items if item.array is not None]
    queue.post_processing.append(functools.partial(_data_ended, device, table, arrays))


async def _target_ended(device: OffloadDevice, table: ObjectTable, arrays: Sequence[HostArray]) -> None:
    for array in arrays:
        table.ended(array)
    await _data_ended(device, table, arrays)


async def _data_ended(device: OffloadDevice, table: ObjectTable, arrays: Sequence[HostArray]) -> None:
    for array in dict.fromkeys(arrays):
        table.leave(array, _has_block(device, array))


def _accesses(launch: Launch, arguments: Sequence[Any]) -> dict[HostArray, float]:
    """Return the compiler's accesses per iteration (LAF) of each array among the arguments."""
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
    """Tell whether an item maps bytes. A pointer alone does not."""
    return item.size > 0 and not item.type & _NO_MAP


def _is_mapped(device: OffloadDevice, one: ManagedObject, mapped: Sequence[MapItem]) -> bool:
    """Tell whether the region, or a data directive around it, maps bytes of an object."""
    own = any(item.array is one.array for item in mapped)
    return own or bool(one.open) or _has_block(device, one.array)


def _has_block(device: OffloadDevice, array: HostArray) -> bool:
    return device.table.lookup(array.address, array.nbytes).overlaps


def _unknown(device: OffloadDevice, table: ObjectTable, array: HostArray, call: str) -> PlacementError:
    known = ", ".join(one.name for one in table.program.objects) or "none"
    message = (
        f"the program's analysis (its option host_program) has no object {array.name!r}, which the kernel uses; "
        f"objects go by the names of their arrays, and it has: {known}"
    )
    return device.error(PlacementError, message, call, array.name)


async def _decide(device: OffloadDevice, table: ObjectTable, candidates: Sequence[Candidate], cause: int) -> None:
    if not candidates:
        return
    await device.table_lock.enter(len(candidates) * table.spec.decision)
    try:
        for change in table.decide(candidates):
            array = change.array
            if (trace := device.trace) is not None:
                trace(events.ObjectPlaced, device.number, -1, cause, array.name, array.nbytes, change.mechanism)
            await _advise(device, table, array)
        for candidate in candidates:  # the thread that decided on it may have been left before it told the driver
            await _advise(device, table, cast(HostArray, candidate.key))
    finally:
        device.table_lock.release()


async def _advise(device: OffloadDevice, table: ObjectTable, array: HostArray) -> None:
    if (advice := table.advice_due(array)) is not None:
        await device.driver.managed.advise(array.address, array.nbytes, advice)
        table.advised(array, advice)


async def _carry_out(
    device: OffloadDevice, table: ObjectTable, array: HostArray, queue: DirectiveQueue, call: str
) -> None:
    """Map what data directives around the region map of an explicit object, with their own map types.

    Each is taken under the lock under which it is entered in the present table, so that a thread that finds none left
    finds their entries.
    """
    while table.has_open(array):
        await device.table_lock.enter(0.0)
        item, bits = table.take_open(array)
        if item is None:
            device.table_lock.release()
            return
        try:
            try:
                await device.work(device.costs.lookup)
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
                queue.carried_out.append((pointer.entry, item))
        finally:
            device.release(pointer)
