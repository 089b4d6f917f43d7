"""A target region: map, launch, unmap (`target` in LLVM's omptarget.cpp).

No map lock is held while the kernel is launched or runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from offloadrt.driver import NOTHING, DriverError, Touching
from offloadrt.kernels import Launch
from offloadrt.machine.managed.access import ManagedAccess
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue, PreparedKernel
from offloadrt.runtime.errors import MappingError
from offloadrt.runtime.failures import report_failure
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.bindings import bind_arguments, unmapped
from offloadrt.runtime.launch.kernel_arguments import (
    Pointees,
)
from offloadrt.runtime.launch.kernel_body import body_of
from offloadrt.runtime.launch.managed_accesses import accesses_of
from offloadrt.runtime.launch.memory_uses import KernelWatch
from offloadrt.runtime.launch.reachable import pointed_to
from offloadrt.runtime.launch.touching import dying, touching_of
from offloadrt.runtime.mapping.binding import NOWHERE, Binding
from offloadrt.runtime.mapping.data_environment import target_data_begin, target_data_end
from offloadrt.runtime.mapping.map_item import MapItem, MapItems

_BEFORE: Final = (
    "omptarget error: Call to targetDataBegin failed, abort target.",
    "omptarget error: Failed to process data before launching the kernel.",
)
_AFTER: Final = (
    "omptarget error: Call to targetDataEnd failed, abort target.",
    "omptarget error: Failed to process data after launching the kernel.",
)
"""What LLVM writes when the data of a region could not be mapped, or unmapped."""


async def target(
    device: OffloadDevice,
    launch: Launch,
    items: Sequence[MapItem],
    arguments: Sequence[Any],
    queue: DirectiveQueue,
    call: str,
    globals_of: Callable[[OffloadDevice, HostArray], Binding | None],
) -> None:
    """Run a region up to, and without, the synchronization of its queue.

    arguments: what the kernel's body is called with, in order: HostArray, DevicePointer, Pointees or a value.
    globals_of: says where the device finds a global that is no argument of the region.
    """
    hooks = device.hooks
    if hooks.before_target is not None:
        await hooks.before_target(launch, items, arguments, queue, call)
    try:
        await target_data_begin(device, items, queue, call)
    except MappingError as error:
        for line in _BEFORE:
            device.report(line)
        error.messages = tuple(device.messages)
        raise
    except DriverError as error:
        report_failure(device, error, *_BEFORE)
        raise
    arrays = _arrays_of(items, arguments)
    bindings: dict[HostArray, Binding] = {}
    private = await bind_arguments(device, items, queue, bindings)
    for array in arrays:
        if array not in bindings:
            is_global = array.kind in ("global", "link")
            bindings[array] = globals_of(device, array) or (NOWHERE if is_global else unmapped(device))
    on_host = [bindings[array].is_host for array in arrays]
    """Of each array among the arguments, whether the device uses it in place."""

    await device.work(device.costs.kernel_arguments)
    watch = None
    if device.observer is not None:
        watch = KernelWatch(device, device.observer, launch, items, arguments, bindings, private.placed, queue.cause)
    run = body_of(device, launch, arguments, bindings, queue, call, None if watch is None else watch.view)
    touching = _touching(device, launch, items, arguments, arrays, on_host, queue, call)
    if device.tool is not None:
        device.tool.target_submit(device.number, launch.kernel.name)
    if watch is not None:
        run = watch.submitted(run)
    if queue.prepared is not None:
        kernel = attrs.evolve(launch.kernel, body=run)
        queue.prepared.append(PreparedKernel(attrs.evolve(launch, kernel=kernel), touching))
        await target_data_end(device, items, queue, call)
        queue.post_processing.append(private.free)
        return
    launch_kernel, count = device.plugin.launch_kernel, len(arguments)
    try:
        if (blocks := device.argument_blocks) is None:
            await launch_kernel(queue, launch, run, touching, count)
        else:
            launching = functools.partial(launch_kernel, queue, launch, run, touching, count)
            await blocks.around(queue, count, launching)
    except DriverError as error:
        report_failure(device, error, "omptarget error: Executing target region abort target.")
        raise
    try:
        await target_data_end(device, items, queue, call)
    except DriverError as error:
        report_failure(device, error, *_AFTER)
        raise
    if not private.blocks:
        queue.private = None  # there is nothing to free, and without it the queue is in no cycle
    if private.blocks:
        queue.post_processing.append(private.free)
    if hooks.target_ended is not None:
        hooks.target_ended(queue)


def _touching(
    device: OffloadDevice,
    launch: Launch,
    items: Sequence[MapItem],
    arguments: Sequence[Any],
    arrays: Sequence[HostArray],
    on_host: Sequence[bool],
    queue: DirectiveQueue,
    call: str,
) -> Touching:
    """Say what of the host's memory a kernel touches, to a device that can reach it.

    On a device that migrates pages these are accesses to managed memory, on an APU ranges of host memory. Raises
    FreedHostMemory for managed memory that was freed.
    """
    plugin = device.plugin
    follows = items.follows if isinstance(items, MapItems) else ()
    if plugin.managed is not None:
        migrating = [device.manages(array) and in_place for array, in_place in zip(arrays, on_host, strict=True)]
        for array, in_place in zip(arrays, migrating, strict=True):
            if in_place:
                device.check_alive(array, call)
        touching = accesses_of(device.number, launch, items, arguments, arrays, migrating)
        if follows and (pointed := pointed_to(device, follows)):
            more = [ManagedAccess(begin, nbytes) for begin, nbytes in pointed]
            touching = attrs.evolve(touching, accesses=tuple(dict.fromkeys([*touching.accesses, *more])))
        return touching
    if not plugin.kernels_fault:
        return NOTHING
    touching = touching_of(device, launch, items, arguments, arrays, on_host)
    if follows and (pointed := pointed_to(device, follows)):
        touching = attrs.evolve(touching, ranges=(*touching.ranges, *pointed))
    if plugin.kernels_die and touching.ranges:
        touching = dying(touching, queue, device.machine.host_memory.contents, device.sim.current)
    return touching


def _arrays_of(items: Sequence[MapItem], arguments: Sequence[Any]) -> list[HostArray]:
    """Return the arrays among the arguments, remembered with a construct."""
    if isinstance(items, MapItems) and items.arrays is not None:
        return items.arrays
    named = [argument.pointers if isinstance(argument, Pointees) else argument for argument in arguments]
    arrays = [array for array in named if isinstance(array, HostArray)]
    if isinstance(items, MapItems):
        items.arrays = arrays
    return arrays
