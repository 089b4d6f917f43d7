"""A target region: map, launch, unmap (`target` in LLVM's omptarget.cpp).

No map lock is held while the kernel is launched or runs.

For a device with page faults, the launch must say which host memory the kernel accesses. For each array that the device
uses in place, these are the ranges of elements that follow from the kernel's source, as far as the region maps them.
Where the ranges depend on data, or the kernel is declared by its costs, they are the sections that the region maps; if
it maps none, they are the whole array, because a pointer does not tell its extent.

For managed memory, a launch also says in which order and how it is accessed (`accesses_of`). A loop nest's launch
counts this (`kernels/memory_streams.py`), and finds where in the array (`kernels/ranges.py`). For a declared kernel,
`ArrayUse` says whether an array is swept in order (``constant`` and ``affine``) or accessed at random (``irregular``
and ``indirect``), read or written, and after how many dependent loads. One without `ArrayUse` is read and written once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import attrs
import numpy as np

from offloadrt.driver import NOTHING, DriverError, KernelAccesses
from offloadrt.kernels import ArrayUse, Launch
from offloadrt.kernels.element_traces import ElementTrace
from offloadrt.kernels.memory_streams import AccessStream
from offloadrt.kernels.ranges import ElementRuns, merged
from offloadrt.machine import AccessFault, DeviceArray, MemoryAccessFault
from offloadrt.machine.host import HostContents
from offloadrt.machine.managed.sweep import ByteRuns, ManagedAccess
from offloadrt.machine.managed.warps import WARP, AddressTrace
from offloadrt.runtime.device import OffloadDevice, report_failure
from offloadrt.runtime.errors import MappingError
from offloadrt.runtime.events import KernelSubmitted
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.kernel_arguments import (
    Pointees,
    PrivateArguments,
    bind_arguments,
    body_of,
    pointed_to,
    resolver_of,
    unmapped,
)
from offloadrt.runtime.mapping.data_environment import target_data_begin, target_data_end
from offloadrt.runtime.mapping.map_item import BlockUse, DirectiveQueue, MapItem, PreparedDirective, PreparedKernel
from offloadrt.runtime.mapping.map_types import ATTACH, LITERAL, PRIVATE
from offloadrt.runtime.mapping.present_table import NOWHERE, Binding, DevicePointer
from offloadrt.sim import Actor


@attrs.define(eq=False)
class OffloadedRegion:
    """A target region as a compiler prepares it; it may run any number of times.

    launch: the kernel and its grid. items: the map items. arguments: the arguments of the kernel's body in order:
    HostArray, DevicePointer, Pointees or a value. follows: those of them that lead the kernel to further addresses.
    blocks: its known accesses through pointers, reads first.
    """

    launch: Launch
    items: Sequence[MapItem]
    arguments: Sequence[Any]
    follows: Sequence[object] = ()
    blocks: Sequence[BlockUse] = ()
    arrays: list[HostArray] = attrs.field(init=False)
    """The arrays among the arguments."""
    _touching: dict[int, tuple[Sequence[bool], KernelAccesses]] = attrs.field(factory=dict, init=False)
    """By device number: for each array whether it is used in place, and the launch's accesses in that case."""

    def __attrs_post_init__(self) -> None:
        named = [argument.pointers if isinstance(argument, Pointees) else argument for argument in self.arguments]
        self.arrays = [array for array in named if isinstance(array, HostArray)]

    @functools.cached_property
    def data(self) -> AddressTrace | None:
        """Return a trace of the accesses whose indices come from array data (see `data_of`); None if there are none."""
        return data_of(self.launch, self.arguments)

    def host_accesses(
        self, device: OffloadDevice, on_host: Sequence[bool], queue: DirectiveQueue, call: str
    ) -> KernelAccesses:
        """Return which host memory the kernel accesses, for a device that can reach it.

        on_host: for each of `arrays`, whether the device uses it in place. For a device to which pages migrate, the
        result has accesses to managed memory; for an APU it has ranges of host memory. `queue` gets the error if the
        kernel dies at a missing page. Raises FreedHostMemory, naming the directive `call`, for freed managed memory.
        """
        plugin = device.plugin
        if device.driver.managed.uvm is not None:
            migrating = [
                device.manages(array) and in_place for array, in_place in zip(self.arrays, on_host, strict=True)
            ]
            for array, in_place in zip(self.arrays, migrating, strict=True):
                if in_place:
                    device.check_alive(array, call)
            touching = self._known(device, migrating)
            if self.follows and (pointed := pointed_to(device, self.follows)):
                more = [ManagedAccess(begin, nbytes) for begin, nbytes in pointed]
                touching = KernelAccesses(accesses=tuple(dict.fromkeys([*touching.accesses, *more])))
            return touching
        if not plugin.kernels_fault:
            return NOTHING
        touching = self._known(device, on_host)
        if self.follows and (pointed := pointed_to(device, self.follows)):
            touching = attrs.evolve(touching, ranges=(*touching.ranges, *pointed))
        if plugin.kernels_die and touching.ranges:
            touching = dying(touching, queue, device.machine.host_memory.contents, device.sim.current)
        return touching

    def _known(self, device: OffloadDevice, on_host: Sequence[bool]) -> KernelAccesses:
        """Return the launch's accesses to its arrays, not those through pointers; cached until `on_host` changes."""
        places, touching = self._touching.get(device.number, (None, NOTHING))
        if places != on_host:
            if device.driver.managed.uvm is not None:
                touching = accesses_of(device.number, self.launch, self.items, self.arguments, self.arrays, on_host)
            else:
                touching = touching_of(device, self.launch, self.items, self.arguments, self.arrays, on_host)
            self._touching[device.number] = on_host, touching
        return touching


Range = tuple[int, int]
"""The address of a piece of memory, and its size in bytes."""


def touching_of(
    device: OffloadDevice,
    launch: Launch,
    items: Sequence[MapItem],
    arguments: Sequence[Any],
    arrays: Sequence[HostArray],
    on_host: Sequence[bool],
) -> KernelAccesses:
    """Return the accesses of a launch to host memory.

    `items`: the map items. `arrays`: the arrays among the arguments; `on_host`: whether the device uses each in place.
    A kernel reaches a global of the host through a pointer on the device, which takes `usm.global_indirection` longer.
    """
    ranges: dict[Range, None] = {}
    indirect = False
    places = [k for k, argument in enumerate(arguments) if isinstance(argument, (HostArray, Pointees))]
    for position, array, in_place in zip(places, arrays, on_host, strict=True):
        if in_place:
            found: Sequence[Range] = sections(items, array)
            for counts in launch.counts.arrays if launch.counts and isinstance(arguments[position], HostArray) else ():
                if counts.position == position:
                    found = touched_ranges(counts.streams, array, counts.element_size, found)
            ranges.update(dict.fromkeys(found))
            indirect = indirect or (array.kind in ("global", "link") and device.globals_on_host)
    serial_s = device.plugin.global_indirection if indirect else 0.0
    return KernelAccesses(tuple(ranges), serial_s) if ranges else NOTHING


def touched_ranges(
    streams: Iterable[AccessStream], array: HostArray, element_size: int, mapped: Sequence[Range]
) -> Sequence[Range]:
    """Return the ranges (address, bytes) that a kernel accesses in an array, within the `mapped` ranges.

    streams: the kernel's accesses to the array, whose elements have `element_size` bytes. Where data decide indices, it
    is all of `mapped`. Accessed ranges that lie outside `mapped` are returned whole: they are used in place.
    """
    around = [stream.reach.ranges for stream in streams]
    known = [found for found in around if found is not None]
    if len(known) < len(around):
        return mapped
    begin, parts = array.address, list[Range]()
    ranges = [(begin + low * element_size, begin + (high + 1) * element_size) for low, high in merged(chain(*known))]
    for low, high in ranges:
        ends = [(max(first, low), min(first + nbytes, high)) for first, nbytes in mapped]
        parts += [(first, end - first) for first, end in ends if first < end]
    return parts or [(low, high - low) for low, high in ranges]


def sections(items: Sequence[MapItem], array: HostArray) -> list[Range]:
    """List (host address, size in bytes) of an array's sections that a region maps; all of it if it maps none."""
    mapped = [
        (item.begin, item.size)
        for item in items
        if item.array is array and item.size and not item.type & (ATTACH | LITERAL | PRIVATE) and not item.dimensions
    ]
    return mapped or ([(array.address, array.nbytes)] if array.nbytes else [])


def dying(touching: KernelAccesses, queue: DirectiveQueue, contents: HostContents, thread: Actor) -> KernelAccesses:
    """Return `touching` with a handler of fatal page faults, which stores a fault as `queue.kernel_error`.

    touching: the memory that a kernel accesses. contents: the arrays by address, to name the array; thread: the host
    thread to name in the error.
    """

    def fault(fault: AccessFault) -> None:
        array = contents.find(fault.address)
        queue.kernel_error = MemoryAccessFault(fault, "" if array is None else array.name, thread.name)

    return KernelAccesses(touching.ranges, touching.serial_s, fault)


def accesses_of(
    device: int,
    launch: Launch,
    items: Sequence[MapItem],
    arguments: Sequence[Any],
    arrays: Sequence[HostArray],
    on_host: Sequence[bool],
    view: Callable[[Any], Any] | None = None,
) -> KernelAccesses:
    """Return the accesses of a launch to managed memory.

    `arrays`: the arrays among the arguments; `on_host`: whether each is managed memory that the kernel uses in place;
    `view`: returns the array with an argument's values; None: the caller sets it in the result's `trace` later.
    """
    managed = {array for array, in_place in zip(arrays, on_host, strict=True) if in_place}
    uses = {use.position: use for use in launch.kernel.arrays}
    found: dict[ManagedAccess, None] = {}
    for position, argument in enumerate(arguments):
        array = argument.pointers if isinstance(argument, Pointees) else argument
        if isinstance(array, HostArray) and array in managed:
            whole = isinstance(argument, Pointees)
            found.update(dict.fromkeys(_accesses(uses.get(position), launch, array, whole, sections(items, array))))
    if not found:
        return NOTHING
    mapped = {array: sections(items, array) for array in managed}
    return KernelAccesses(accesses=tuple(found), trace=_trace_of(launch, arguments, mapped, view))


_MOST_VISITS: Final = 1 << 28
"""Largest number of accesses of a launch that is evaluated thread by thread; a larger one counts as a sweep."""
_MOST_AT_A_TIME: Final = 1 << 25
"""Largest number of accesses of the resident threads, which are evaluated together."""
_RESIDENT: Final = 1 << 18
"""Approximate number of threads that a large GPU holds."""
_MOST_DRAWN: Final = 1 << 22
"""Largest number of accesses whose positions are drawn at random; more would touch nearly every page anyway."""
_GPU_PAGE: Final = 4096
"""Bytes that a GPU reports with one fault."""


def _trace_of(
    launch: Launch,
    arguments: Sequence[Any],
    managed: Mapping[HostArray, Sequence[Range]],
    view: Callable[[Any], Any] | None,
) -> AddressTrace | None:
    """Return a trace of each thread's accesses to managed memory; None where a sweep in order describes them as well.

    A launch is evaluated thread by thread if data decide its indices, or a thread's own loops walk through pages.
    `managed`: for each managed array the ranges that the region maps; positions that depend on phantoms are drawn
    there.
    """
    analysis = launch.kernel.analysis
    if analysis is None or launch.tile is not None or (analysis.follows_iterations and len(analysis.distributed) == 1):
        return None
    if any(isinstance(argument, Pointees) for argument in arguments):
        return None
    named = dict(zip(analysis.parameters, arguments, strict=True))
    places = {
        name: (array.address, array.itemsize)
        for name, array in named.items()
        if isinstance(array, HostArray) and array in managed
    }
    lists = ",".join(str(getattr(argument, "address", "")) for argument in arguments)
    trace = ElementTrace(
        analysis, analysis.counted_launch(arguments), _known(launch, named), frozenset(places), _GPU_PAGE,
        f"{launch.kernel.name} {lists}",
        {name: _elements(array, managed[array]) for name, array in named.items() if name in places},
    )  # fmt: skip
    if trace.shape is None or not (trace.wanted & analysis.without_form or trace.walks or trace.strides_apart):
        return None
    if not trace.is_known and trace.size > _MOST_DRAWN:
        return None
    if trace.size > _MOST_VISITS or trace.size * min(1.0, _RESIDENT / max(launch.iterations, 1)) > _MOST_AT_A_TIME:
        return None
    return AddressTrace(trace, named, places, view or _no_view)


def data_of(launch: Launch, arguments: Sequence[Any], view: Callable[[Any], Any] | None = None) -> AddressTrace | None:
    """Return a trace of accesses whose indices are not affine in the loops, as far as the index arrays have values.

    An accessed array may be a phantom (without values); an array of its indices may not. Returns None if no access can
    be traced. view: returns the kernel's view of an argument.
    """
    analysis = launch.kernel.analysis
    if analysis is None or not analysis.without_form:
        return None
    named = dict(zip(analysis.parameters, arguments, strict=True))
    if any(getattr(named[name], "shape", None) is None for name in analysis.signature.arrays):
        return None
    trace = ElementTrace(
        analysis, analysis.counted_launch(arguments), _known(launch, named), analysis.without_form, 1,
        launch.kernel.name,
    )  # fmt: skip
    trace = attrs.evolve(trace, wanted=trace.with_known_indices)
    if not trace.wanted or trace.shape is None or trace.size * WARP > _MOST_AT_A_TIME * max(launch.iterations, 1):
        return None
    return AddressTrace(trace, named, {}, view or _no_view)


def _known(launch: Launch, named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as far as they are known before the launch: of arrays with values, NumPy arrays."""
    return dict(named) if launch.kernel.body is None else {name: _of_its_shape(each) for name, each in named.items()}


def _elements(array: HostArray, mapped: Sequence[Range]) -> tuple[int, int]:
    """Return the first mapped element of an array, and the number of elements up to the last mapped one."""
    begin = min((begin for begin, _ in mapped), default=array.address) - array.address
    end = max((begin + nbytes for begin, nbytes in mapped), default=array.address) - array.address
    return begin // array.itemsize, max(0, end - begin) // array.itemsize


def _no_view(argument: Any) -> Any:
    raise TypeError(f"nothing is known yet of what the kernel sees of {argument!r}")


def _of_its_shape(argument: Any) -> Any:
    """Return, for an array with values, a NumPy array of its shape that needs no memory; other objects unchanged."""
    is_array = isinstance(argument, HostArray | DevicePointer | DeviceArray)
    if is_array and argument.shape is not None and not getattr(argument, "phantom", False):
        return np.broadcast_to(np.zeros((), argument.dtype), argument.shape)
    return argument


def _accesses(
    use: ArrayUse | None, launch: Launch, array: HostArray, whole: bool, mapped: Sequence[Range]
) -> Iterator[ManagedAccess]:
    """Yield a launch's accesses to a managed array. `whole`: they are to all of `mapped`, as the array has pointers."""
    if use is None:
        for begin, nbytes in mapped:
            yield ManagedAccess(begin, nbytes)
    elif launch.counts is None:
        for begin, nbytes, part in _parts(mapped):
            yield _declared(use, launch, begin, nbytes, part)
    else:
        counts = launch.counts.array(use.name)
        for stream in counts.streams:
            ranges = mapped if whole else touched_ranges([stream], array, counts.element_size, mapped)
            for begin, nbytes, part in _parts(ranges):
                yield _counted(stream, array.address, counts.element_size, begin, nbytes, part)


def _parts(ranges: Sequence[Range]) -> Iterator[tuple[int, int, float]]:
    """Yield the address and the bytes of each range, and the range's fraction of all bytes."""
    total = 0
    for _, nbytes in ranges:
        total += nbytes
    for begin, nbytes in ranges:
        if nbytes:
            yield begin, nbytes, nbytes / total


def _counted(
    stream: AccessStream, address: int, element_size: int, begin: int, nbytes: int, part: float
) -> ManagedAccess:
    """Return one access stream of a loop nest in one range; `part` is the fraction of its accesses that go there."""
    picked = None
    if stream.order == "in order":
        places = stream.places * part
        run = max(stream.read, stream.written) * element_size / stream.places if places else 0.0
        picked = ByteRuns(places, run, element_size, among=stream.among * part)
    scattered = stream.places * part if stream.order == "random" else 0.0
    reads, writes = (
        tuple([_in_bytes(one, address, element_size, part) for one in places])
        for places in (stream.reach.read, stream.reach.written)
    )
    return ManagedAccess(begin, nbytes, stream.level, scattered, reads, writes, picked)


def _in_bytes(places: ElementRuns, address: int, element_size: int, part: float) -> ByteRuns:
    alignment = math.gcd(address, places.step * element_size)
    return ByteRuns(places.count * part, places.run * element_size, alignment, places.even, places.among * part)


def _declared(use: ArrayUse, launch: Launch, begin: int, nbytes: int, part: float) -> ManagedAccess:
    """Return the access, to one range, of a kernel that is declared by its costs; `part` as in `_counted`."""
    scattered, often = 0.0, launch.iterations * part
    if use.pattern in ("irregular", "indirect"):
        scattered = (use.elements_read + use.elements_written or use.laf) * often
    reads, writes = (
        _of_declared(use, elements * often, scattered > 0.0)
        for elements in (use.elements_read or use.reads, use.elements_written or use.writes)
    )
    return ManagedAccess(begin, nbytes, use.level, scattered, reads, writes)


def _of_declared(use: ArrayUse, elements: float, at_random: bool) -> tuple[ByteRuns, ...] | None:
    """Return the elements that a declared use loads or stores at random, () for none; None: a sweep in order."""
    if use.laf and not elements:
        return ()
    return (ByteRuns(elements, use.element_size, use.element_size),) if at_random else None


_BEFORE: Final = (
    "omptarget error: Call to targetDataBegin failed, abort target.",
    "omptarget error: Failed to process data before launching the kernel.",
)
_AFTER: Final = (
    "omptarget error: Call to targetDataEnd failed, abort target.",
    "omptarget error: Failed to process data after launching the kernel.",
)
"""LLVM's messages when the data of a region could not be mapped, or unmapped."""

GlobalsOf = Callable[[OffloadDevice, HostArray], Binding | None]
"""Returns where a device's kernels find a global that the region does not map; None for any other array."""
Body = Callable[[], None]
"""Computes a kernel's result, at the kernel's end."""


async def target(
    device: OffloadDevice, queue: DirectiveQueue, region: OffloadedRegion, call: str, globals_of: GlobalsOf
) -> None:
    """Run a target region: map its items, launch its kernel, end the mappings. The caller then synchronizes `queue`.

    call: the directive's name in errors. globals_of: returns where the kernel finds a global that `region` does not
    map. Raises MappingError for a map that LLVM refuses, and DriverError for a driver call that fails.
    """
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
        # LLVM counts down as soon as the kernel is launched: `target` (omptarget.cpp) calls `processDataAfter` when
        # `launchKernel` has returned, and `targetDataEnd` counts down by `getTgtPtrBegin` (Mapping.cpp). Only what
        # stands in `PostProcessingPtrs` waits for the queue: the removal, which `DataEndThreadCount` guards. An entry's
        # event is recorded behind copies (`addEventIfNecessary`), never behind kernels. So another thread's end can
        # be the last and copy back, in its own stream, before this kernel has run: what it writes is lost. A queue that
        # lasts keeps that order under `table.count_down = kernel` too, for its directives wait for nothing.
        if device.counts_down_late and not queue.lasts:
            await device.plugin.synchronize(queue)
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
) -> tuple[Body | None, KernelAccesses]:
    """Return the function that computes the kernel's result, and its accesses to host memory; report the submission."""
    launch, watch = region.launch, None
    if device.tell is not None and device.watch_kernel is not None:
        watch = device.watch_kernel(device, device.tell, region, bindings, private.placed, queue.cause)
    run = body_of(device, launch, region.arguments, bindings, queue, call, None if watch is None else watch.view)
    touching = region.host_accesses(device, [bindings[array].is_host for array in region.arrays], queue, call)
    if (trace := touching.trace) is not None or region.data is not None:

        def view(argument: Any) -> Any:
            return resolver_of(device, argument, bindings)()

        seen = [each and attrs.evolve(each, view=view) for each in (trace, region.data)]
        touching = attrs.evolve(touching, trace=seen[0], data=seen[1])
    if watch is not None:
        run = watch.submitted(run)
    elif device.tell is not None:
        device.tell(KernelSubmitted(queue.cause, device.number, launch.kernel.name, ()))
    return run, touching


async def _launch(
    device: OffloadDevice, region: OffloadedRegion, queue: DirectiveQueue, run: Body | None, touching: KernelAccesses
) -> None:
    """Submit the kernel, with its arguments in device memory where the driver does not pass them itself."""
    launch_kernel, count = device.plugin.launch_kernel, len(region.arguments)
    if (blocks := device.argument_blocks) is None:
        await launch_kernel(queue, region.launch, run, touching, count)
    else:
        await blocks.around(queue, count, functools.partial(launch_kernel, queue, region.launch, run, touching, count))
