"""A target region: map, launch, unmap (`target` in LLVM's omptarget.cpp).

No map lock is held while the kernel is launched or runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

import attrs

from offloadrt.driver import DriverError, Touching
from offloadrt.runtime.device import OffloadDevice, report_failure
from offloadrt.runtime.errors import MappingError
from offloadrt.runtime.events import KernelSubmitted
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.kernel_arguments import PrivateArguments, bind_arguments, body_of, unmapped
from offloadrt.runtime.launch.region import OffloadedRegion
from offloadrt.runtime.mapping.data_environment import target_data_begin, target_data_end
from offloadrt.runtime.mapping.map_item import DirectiveQueue, PreparedDirective, PreparedKernel
from offloadrt.runtime.mapping.present_table import NOWHERE, Binding

_BEFORE: Final = (
    "omptarget error: Call to targetDataBegin failed, abort target.",
    "omptarget error: Failed to process data before launching the kernel.",
)
_AFTER: Final = (
    "omptarget error: Call to targetDataEnd failed, abort target.",
    "omptarget error: Failed to process data after launching the kernel.",
)
"""What LLVM writes when the data of a region could not be mapped, or unmapped."""

GlobalsOf = Callable[[OffloadDevice, HostArray], Binding | None]
"""Says where a device finds a global that is no argument of a region."""
Body = Callable[[], None]
"""What computes a kernel's result, at its end."""


async def target(
    device: OffloadDevice, region: OffloadedRegion, queue: DirectiveQueue, call: str, globals_of: GlobalsOf
) -> None:
    """Run a region up to, and without, the synchronization of its queue."""
    hooks, items = device.hooks, region.items
    if hooks.before_target is not None:
        await hooks.before_target(region.launch, items, region.arguments, queue, call)
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
    bindings: dict[HostArray, Binding] = {}
    private = await bind_arguments(device, items, queue, bindings)
    for array in region.arrays:
        if array not in bindings:
            is_global = array.kind in ("global", "link")
            bindings[array] = globals_of(device, array) or (NOWHERE if is_global else unmapped(device))
    await device.work(device.costs.kernel_arguments)
    run, touching = _submission(device, region, queue, call, bindings, private)
    if isinstance(queue, PreparedDirective):
        kernel = attrs.evolve(region.launch.kernel, body=run)
        queue.kernels.append(PreparedKernel(attrs.evolve(region.launch, kernel=kernel), touching))
        await target_data_end(device, items, queue, call)
        queue.post_processing.append(private.free)
        return
    try:
        await _launch(device, region, queue, run, touching)
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


def _submission(
    device: OffloadDevice,
    region: OffloadedRegion,
    queue: DirectiveQueue,
    call: str,
    bindings: dict[HostArray, Binding],
    private: PrivateArguments,
) -> tuple[Body | None, Touching]:
    """Return the kernel's body, and what the device has to know of the host's memory; who looks on is told."""
    launch, watch = region.launch, None
    if device.tell is not None and device.watch_kernel is not None:
        watch = device.watch_kernel(device, device.tell, region, bindings, private.placed, queue.cause)
    run = body_of(device, launch, region.arguments, bindings, queue, call, None if watch is None else watch.view)
    touching = region.touching(device, [bindings[array].is_host for array in region.arrays], queue, call)
    if watch is not None:
        run = watch.submitted(run)
    elif device.tell is not None:
        device.tell(KernelSubmitted(queue.cause, device.number, launch.kernel.name, ()))
    return run, touching


async def _launch(
    device: OffloadDevice, region: OffloadedRegion, queue: DirectiveQueue, run: Body | None, touching: Touching
) -> None:
    """Submit the kernel, with its arguments in device memory where the driver does not pass them itself."""
    launch_kernel, count = device.plugin.launch_kernel, len(region.arguments)
    if (blocks := device.argument_blocks) is None:
        await launch_kernel(queue, region.launch, run, touching, count)
    else:
        await blocks.around(queue, count, functools.partial(launch_kernel, queue, region.launch, run, touching, count))
