"""A target region: map, launch, unmap (`target` in LLVM's omptarget.cpp).

No map lock is held while the kernel is launched or runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from offloadrt.driver import NOTHING
from offloadrt.kernels import Launch
from offloadrt.kernels.execution.mapped_section import BadAccess
from offloadrt.machine import InvalidDeviceAddress
from offloadrt.machine.managed.access import ManagedAccess
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.device_pointer import DevicePointer
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.errors import IllegalAddress, MappingError
from offloadrt.runtime.freed import check_alive
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.kernel_arguments import (
    Pointees,
    Resolve,
    call_body,
    no_view,
    pointer_view,
    section_view,
)
from offloadrt.runtime.launch.managed_accesses import accesses_of
from offloadrt.runtime.launch.private_arguments import PrivateArguments
from offloadrt.runtime.launch.reachable import Reachable, pointed_to
from offloadrt.runtime.launch.touching import dying, touching_of
from offloadrt.runtime.mapping.binding import NOWHERE, ON_HOST, Binding
from offloadrt.runtime.mapping.data_environment import target_data_begin, target_data_end
from offloadrt.runtime.mapping.map_item import MapItem, MapItems
from offloadrt.runtime.mapping.map_type import LITERAL, PRIVATE, TARGET_PARAM
from offloadrt.runtime.mapping.table_visits import pass_visited
from offloadrt.runtime.mapping.unmapping import find_present
from offloadrt.runtime.objects.placing import place_for_target, put_off_target_ended


async def target(
    device: OffloadDevice,
    launch: Launch,
    items: Sequence[MapItem],
    arguments: Sequence[Any],
    queue: DirectiveQueue,
    call: str,
    globals_of: Callable[[HostArray], Binding | None],
) -> None:
    """Run a region up to, and without, the synchronization of its queue.

    arguments: what the kernel's body is called with, in order: HostArray, DevicePointer, Pointees or a value.
    globals_of: says where the device finds a global that is no argument of the region.
    """
    if device.objects is not None:
        await place_for_target(device, device.objects, launch, items, arguments, queue, call)
    try:
        await target_data_begin(device, items, queue, call)
    except MappingError as error:
        device.report("omptarget error: Call to targetDataBegin failed, abort target.")
        device.report("omptarget error: Failed to process data before launching the kernel.")
        error.messages = tuple(device.messages)
        raise
    plugin = device.plugin
    arrays = _arrays_of(items, arguments)
    bindings: dict[HostArray, Binding] = {}
    private = await _bind_others(device, items, queue, bindings)
    for array in arrays:
        if array not in bindings:
            bindings[array] = globals_of(array) or NOWHERE
    on_host = [bindings[array].is_host for array in arrays]

    await device.work(device.costs.kernel_arguments)
    kernel = launch.kernel
    run = None
    if kernel.body is not None and not any(_is_phantom(argument) for argument in arguments):
        resolvers = [_resolver(device, argument, bindings) for argument in arguments]
        run = functools.partial(_run, device, queue, call, kernel.name, kernel.body, resolvers)
    elif (missing := _missing(launch, arguments, bindings)) is not None:
        run = functools.partial(_run, device, queue, call, kernel.name, no_view(missing).touch, ())
    touching = NOTHING
    if plugin.managed is not None:
        migrating = [device.manages(array) and in_place for array, in_place in zip(arrays, on_host, strict=True)]
        for array, in_place in zip(arrays, migrating, strict=True):
            if in_place:
                check_alive(device, array, call)
        touching = accesses_of(device.number, launch, items, arguments, arrays, migrating)
        if isinstance(items, MapItems) and items.follows and (pointed := pointed_to(device, items.follows)):
            more = [ManagedAccess(begin, nbytes) for begin, nbytes in pointed]
            touching = attrs.evolve(touching, accesses=tuple(dict.fromkeys([*touching.accesses, *more])))
    elif plugin.kernels_fault:
        touching = touching_of(device, launch, items, arguments, arrays, on_host)
        if isinstance(items, MapItems) and items.follows and (pointed := pointed_to(device, items.follows)):
            touching = attrs.evolve(touching, ranges=(*touching.ranges, *pointed))
        if plugin.kernels_die and touching.ranges:
            touching = dying(touching, queue, device.machine.host_memory.contents, device.sim.current)
    if device.tool is not None:
        device.tool.target_submit(device.number, kernel.name)
    if (blocks := device.argument_blocks) is None:
        await plugin.launch_kernel(queue, launch, run, touching)
    else:
        await blocks.around(
            queue, len(arguments), functools.partial(plugin.launch_kernel, queue, launch, run, touching)
        )

    await target_data_end(device, items, queue, call)
    if private is not None:
        queue.post_processing.append(private.free)
    if device.objects is not None:
        put_off_target_ended(device, device.objects, queue)


def _arrays_of(items: Sequence[MapItem], arguments: Sequence[Any]) -> list[HostArray]:
    """The arrays among the arguments, remembered with a construct."""
    if isinstance(items, MapItems) and items.arrays is not None:
        return items.arrays
    named = [argument.pointers if isinstance(argument, Pointees) else argument for argument in arguments]
    arrays = [array for array in named if isinstance(array, HostArray)]
    if isinstance(items, MapItems):
        items.arrays = arrays
    return arrays


async def _bind_others(
    device: OffloadDevice, items: Sequence[MapItem], queue: DirectiveQueue, bindings: dict[HostArray, Binding]
) -> PrivateArguments:
    """Bind the arguments that are not bound yet, one by one; returns the private ones among them, transferred."""
    private = PrivateArguments(device, queue)
    queue.private = private.free
    table, lookup_s = device.table_lock, device.costs.lookup
    absent = ON_HOST if device.configuration.host_pointers or device.plugin.kernels_fault else NOWHERE
    for item in items:
        if not item.type & TARGET_PARAM or item.array is None or item.array in bindings:
            continue
        if item.type & LITERAL:
            bindings[item.array] = _in_hand(device, item.array)
            continue
        if item.type & PRIVATE:
            await private.add(item)
            continue
        await table.enter(lookup_s, item.begin, item.size, False)
        lookup = device.table.lookup(item.begin, item.size)
        if device.trace is None and pass_visited(device, lookup):
            entry = lookup.entry if lookup.overlaps else None
            table.release()
        else:
            entry = (await find_present(device, item.array, item.begin, item.size, cause=queue.cause)).entry
        bindings[item.array] = absent if entry is None else entry.binding
        if entry is None and item.array.managed:
            bindings[item.array] = ON_HOST
    await private.transfer()
    for array, address in private.addresses.items():
        bindings[array] = Binding(address, array.address, array.address + array.nbytes)
    return private


def _in_hand(device: OffloadDevice, array: HostArray) -> Binding:
    """The device address of an array that the program passes itself (has_device_addr). The runtime searches nothing,
    so this takes no time.
    """
    if array.managed:
        return ON_HOST
    found = device.table.lookup(array.address, array.nbytes)
    if found.entry is not None and found.overlaps:
        return found.entry.binding
    return Binding(None, is_host=device.configuration.host_pointers)


def _is_phantom(argument: Any) -> bool:
    if isinstance(argument, Pointees):
        return argument.pointers.phantom
    return isinstance(argument, (HostArray, DevicePointer)) and argument.phantom


def _missing(launch: Launch, arguments: Sequence[Any], bindings: dict[HostArray, Binding]) -> HostArray | None:
    """An array that a loop nest surely accesses, and of which the device has nothing: phantoms have no elements to
    miss.
    """
    for used in () if launch.counts is None else launch.counts.arrays:
        array = arguments[used.position]
        if isinstance(array, HostArray):
            binding = bindings[array]
            if binding.address is None and not binding.is_host and used.surely_accessed:
                return array
    return None


def _resolver(device: OffloadDevice, argument: Any, bindings: dict[HostArray, Binding]) -> Resolve:
    if isinstance(argument, HostArray):
        return functools.partial(array_view, device, argument, bindings[argument])
    if isinstance(argument, DevicePointer):
        nbytes = argument.nbytes or device.block_size(argument.address) or 0
        return functools.partial(pointer_view, Reachable(device), argument, nbytes)
    if isinstance(argument, Pointees):
        return functools.partial(_follow, device, argument, bindings[argument.pointers])
    return lambda: argument


def array_view(device: OffloadDevice, array: HostArray, binding: Binding) -> Any:
    """The kernel's view of an array, at the time of the call."""
    if binding.is_host:
        return array.data
    if binding.address is None:
        return no_view(array) if array.nbytes else np.empty(array.shape, array.dtype)
    device_begin = binding.address

    def view(host_address: int) -> Any:
        offset = host_address - binding.host_begin
        return device.memory.view(device_begin + offset, max(0, binding.host_end - host_address))

    return section_view(array, binding.host_begin, binding.host_end, view)


def _follow(device: OffloadDevice, argument: Pointees, binding: Binding) -> list[Any]:
    pointers, reachable = array_view(device, argument.pointers, binding), Reachable(device)
    return [
        reachable.view(int(address), argument.nbytes).view(argument.dtype).reshape(argument.shape)
        for address in np.asarray(pointers).ravel()
    ]


def _run(
    device: OffloadDevice,
    queue: DirectiveQueue,
    call: str,
    kernel: str,
    body: Callable[..., None],
    resolvers: Sequence[Resolve],
) -> None:
    """The kernel's body, in the compute units' actor.

    What goes wrong is for the host thread that waits for the queue.
    """
    try:
        call_body(body, resolvers)
    except (BadAccess, InvalidDeviceAddress) as bad:
        message = f"{device.plugin.illegal_access}: kernel {kernel!r}: {bad}"
        array = bad.array if isinstance(bad, BadAccess) else ""
        queue.kernel_error = device.error(IllegalAddress, message, call, array)
    except Exception as error:
        queue.kernel_error = error
