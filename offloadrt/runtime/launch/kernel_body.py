"""The body of a kernel: Python that computes its result, on views of what the device has of the arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from offloadrt.kernels import Launch
from offloadrt.kernels.execution import BadAccess
from offloadrt.machine import InvalidDeviceAddress
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.device_pointer import DevicePointer
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.errors import IllegalAddress
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.kernel_arguments import (
    Pointees,
    Resolve,
    call_body,
    no_view,
    pointer_view,
    section_view,
)
from offloadrt.runtime.launch.reachable import Reachable
from offloadrt.runtime.mapping.binding import Binding


def body_of(
    device: OffloadDevice,
    launch: Launch,
    arguments: Sequence[Any],
    bindings: dict[HostArray, Binding],
    queue: DirectiveQueue,
    call: str,
    watch: Callable[[Any, Any], Any] | None = None,
) -> Callable[[], None] | None:
    """Make what computes the kernel's result at its end; None for a kernel without a body, or with phantoms.

    watch: called with each argument and the kernel's view of it, gives what the body sees instead.
    """
    kernel = launch.kernel
    if kernel.body is not None and not has_phantoms(arguments):
        resolvers = [_resolver(device, argument, bindings) for argument in arguments]
        if watch is not None:
            resolvers = [
                functools.partial(_watched, watch, argument, resolve)
                for argument, resolve in zip(arguments, resolvers, strict=True)
            ]
        null = any(argument is None for argument in arguments)
        return functools.partial(_run, device, queue, call, kernel.name, kernel.body, resolvers, null)
    if (missing := _missing(launch, arguments, bindings)) is not None:
        return functools.partial(_run, device, queue, call, kernel.name, no_view(missing).touch, ())
    return None


def has_phantoms(arguments: Sequence[Any]) -> bool:
    """Tell whether some argument has a size and no values, so that no body runs."""
    return any(_is_phantom(argument) for argument in arguments)


def _watched(watch: Callable[[Any, Any], Any], argument: Any, resolve: Resolve) -> Any:
    return watch(argument, resolve())


def _is_phantom(argument: Any) -> bool:
    if isinstance(argument, Pointees):
        return argument.pointers.phantom
    return isinstance(argument, (HostArray, DevicePointer)) and argument.phantom


def _missing(launch: Launch, arguments: Sequence[Any], bindings: dict[HostArray, Binding]) -> HostArray | None:
    """Find an array that a loop nest surely accesses, and of which the device has nothing.

    It ends the region with an error, also for phantoms, which have no elements to miss.
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
        if argument.binding is not None and argument.array is not None:
            return functools.partial(array_view, device, argument.array, argument.binding)
        nbytes = argument.nbytes or device.block_size(argument.address) or 0
        return functools.partial(pointer_view, Reachable(device), argument, nbytes)
    if isinstance(argument, Pointees):
        return functools.partial(_follow, device, argument, bindings[argument.pointers])
    return lambda: argument


def array_view(device: OffloadDevice, array: HostArray, binding: Binding) -> Any:
    """Return the kernel's view of an array, at the time of the call."""
    if binding.is_host:
        return array.values
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
        reachable.view(address, argument.nbytes).view(argument.dtype).reshape(argument.shape)
        for address in argument.addresses(pointers)
    ]


def _run(
    device: OffloadDevice,
    queue: DirectiveQueue,
    call: str,
    kernel: str,
    body: Callable[..., None],
    resolvers: Sequence[Resolve],
    null: bool = False,
) -> None:
    """Run the kernel's body, in the compute units' actor; null: whether an argument is a null pointer.

    What goes wrong is for the host thread that waits for the queue.
    """
    try:
        call_body(body, resolvers)
    except (BadAccess, InvalidDeviceAddress) as bad:
        message = f"{device.plugin.illegal_access}: kernel {kernel!r}: {bad}"
        array = bad.array if isinstance(bad, BadAccess) else ""
        queue.kernel_error = device.error(IllegalAddress, message, call, array)
    except (TypeError, AttributeError) as error:
        queue.kernel_error = error
        if null:  # as omp_target_alloc returns it when there is no memory
            message = f"{device.plugin.illegal_access}: kernel {kernel!r} uses a null pointer: {error}"
            queue.kernel_error = device.error(IllegalAddress, message, call, "")
    except Exception as error:
        queue.kernel_error = error
