"""A kernel's arguments: their positions, private copies, and the views that the kernel's body gets.

`bind_arguments` looks each argument up in the present table (`processDataBefore` in omptarget.cpp); `PrivateArguments`
follows LLVM's `PrivateArgumentManagerTy`: values up to 1024 bytes each are packed into one block and one copy, larger
ones get a block and a copy of their own, private ones a block and no copy. `body_of` makes the Python that computes a
kernel's result, on views of device memory that are made when it runs: an array that is wholly mapped is a NumPy array
over device memory. Of another one only the mapped part, if any, can be used (`MappedSection`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import Launch
from offloadrt.kernels.execution import BadAccess, MappedSection
from offloadrt.kernels.kernel import run_body
from offloadrt.machine import InvalidDeviceAddress
from offloadrt.machine.memory import Bytes
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.errors import IllegalAddress
from offloadrt.runtime.events import SectionFound
from offloadrt.runtime.host_array import HostArray, HostSpan
from offloadrt.runtime.mapping.data_environment import get_present_pointer, lock_visited, pass_visited, pointer_span
from offloadrt.runtime.mapping.map_item import DirectiveQueue, MapItem
from offloadrt.runtime.mapping.map_types import FIRST_MEMBER, LAMBDA, LITERAL, TO
from offloadrt.runtime.mapping.present_table import NOWHERE, ON_HOST, UNTYPED, Binding, DevicePointer, ShadowPointer

Resolve = Callable[[], Any]


@attrs.frozen
class Pointees:
    """A kernel argument that is an array of pointers; each leads the kernel to an array of `shape` and `dtype`."""

    pointers: HostArray
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    member: str = ""
    """For an array of structs: the member that holds the pointer."""
    lower: int = 0
    """Index, relative to each pointer, of the first element that the kernel can access."""

    def addresses(self, view: Any) -> list[int]:
        """Return, for each pointer in the values `view`, the device address at which the kernel's array begins."""
        held = np.asarray(view)
        for part in self.member.split(".") if self.member else ():
            held = held[part]
        return [int(address) + self.lower * self.dtype.itemsize for address in held.ravel()]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def section_view(array: HostArray, host_begin: int, host_end: int, view: Callable[[int], NDArray[np.uint8]]) -> Any:
    """Return the array that a kernel sees if only the host bytes [host_begin, host_end) of an array are mapped.

    ``view(address)`` returns the device's bytes for host address `address` and all mapped bytes after it.
    """
    if array.dtype.names and array.shape == (1,) and host_end - host_begin < array.nbytes:
        return _part_of_struct(array, host_begin, host_end, view)
    row = array.itemsize
    for length in array.shape[1:]:
        row *= length
    first = max(host_begin, array.address)
    last = min(host_end, array.address + array.nbytes)
    lower = -(-(first - array.address) // row) if row else 0
    upper = (last - array.address) // row if row else 0
    start = array.address + lower * row
    nbytes = max(0, upper - lower) * row
    raw = view(start)[:nbytes]
    values = raw.view(array.dtype).reshape((max(0, upper - lower), *array.shape[1:]))
    if lower == 0 and upper == array.shape[0]:
        return values
    return MappedSection(array.name, array.shape, lower, values)


def _part_of_struct(array: HostArray, host_begin: int, host_end: int, view: Callable[[int], NDArray[np.uint8]]) -> Any:
    """Return a kernel's view of the mapped members of a struct."""
    first, last = host_begin - array.address, host_end - array.address
    inside = {
        name: (dtype, offset - first)
        for name, (dtype, offset, *_) in (array.dtype.fields or {}).items()
        if first <= offset and offset + dtype.itemsize <= last
    }
    part = np.dtype(
        {
            "names": list(inside),
            "formats": [dtype for dtype, _ in inside.values()],
            "offsets": [offset for _, offset in inside.values()],
            "itemsize": last - first,
        }
    )
    return view(host_begin)[: last - first].view(part)


def no_view(array: HostArray) -> MappedSection:
    """Return an array that fails at each access, because the kernel's pointer to it still has its host value."""
    return MappedSection(array.name, array.shape, 0, np.empty((0, *array.shape[1:]), array.dtype), array.address)


def pointer_view(memory: Any, pointer: DevicePointer, nbytes: int) -> NDArray[Any]:
    """Return `nbytes` bytes of `memory` behind `pointer` as the array, of its type and shape, that a kernel sees."""
    shape = pointer.shape
    count = nbytes // pointer.dtype.itemsize if shape is None else math.prod(shape)
    raw = memory.view(pointer.address, count * pointer.dtype.itemsize)
    values: NDArray[Any] = raw if pointer.dtype == UNTYPED else raw.view(pointer.dtype)
    return values if shape is None else values.reshape(shape)


def reaches_host(device: OffloadDevice) -> bool:
    """Tell whether kernels of the device can access host memory by its addresses."""
    return device.plugin.kernels_fault or device.host_pointers


@attrs.frozen(eq=False)
class Reachable:
    """The memory that a device's kernels can access: its own, and the host's if they reach that."""

    device: OffloadDevice

    def view(self, address: int, nbytes: int) -> Bytes:
        """Return the bytes [address, address + nbytes) as a writable view; InvalidDeviceAddress if out of reach."""
        device = self.device
        if reaches_host(device) and (contents := device.machine.host_memory.contents).find(address) is not None:
            return contents.view(address, nbytes)
        return device.memory.view(address, nbytes)


def pointed_to(device: OffloadDevice, arguments: Iterable[object]) -> tuple[tuple[int, int], ...]:
    """List (address, size in bytes) of each piece of host memory that a launch reaches through its arguments' pointers.

    The pointers are `DevicePointer` arguments, and the elements of arrays of pointers (`Pointees`) on the host.
    """
    find = device.machine.host_memory.contents.find
    ranges: dict[tuple[int, int], None] = {}
    for argument in arguments:
        if isinstance(argument, DevicePointer) and find(argument.address) is not None:
            ranges[argument.address, argument.nbytes] = None
        elif isinstance(argument, Pointees) and not argument.pointers.phantom:
            for address in argument.addresses(argument.pointers.data):
                if find(address) is not None:
                    ranges[address, argument.nbytes] = None
    return tuple(ranges)


def body_of(
    device: OffloadDevice,
    launch: Launch,
    arguments: Sequence[Any],
    bindings: dict[HostArray, Binding],
    queue: DirectiveQueue,
    call: str,
    watch: Callable[[Any, Any], Any] | None = None,
) -> Callable[[], None] | None:
    """Return a function that computes the kernel's result at its end; None without a body, or if an array lacks data.

    bindings: where arrays are. watch: function of an argument and its usual array; returns the array to use instead.
    """
    kernel = launch.kernel
    if kernel.body is not None and not has_phantoms(arguments):
        resolvers = [resolver_of(device, argument, bindings) for argument in arguments]
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
    """Tell whether some argument is an array without values (phantom), so that the kernel's body cannot run."""
    return any(_is_phantom(argument) for argument in arguments)


def _watched(watch: Callable[[Any, Any], Any], argument: Any, resolve: Resolve) -> Any:
    return watch(argument, resolve())


def _is_phantom(argument: Any) -> bool:
    if isinstance(argument, Pointees):
        return argument.pointers.phantom
    return isinstance(argument, (HostArray, DevicePointer)) and argument.phantom


def _missing(launch: Launch, arguments: Sequence[Any], bindings: dict[HostArray, Binding]) -> HostArray | None:
    """Return an array that the loop nest certainly accesses but that is not mapped at all; None without such an array.

    The region then ends with an error, also if the array is a phantom, with which no body runs.
    """
    for used in () if launch.counts is None else launch.counts.arrays:
        array = arguments[used.position]
        if isinstance(array, HostArray):
            binding = bindings[array]
            if binding.address is None and not binding.is_host and used.surely_accessed:
                return array
    return None


def resolver_of(device: OffloadDevice, argument: Any, bindings: dict[HostArray, Binding]) -> Resolve:
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
    """Return the array that a kernel sees, as a view of the memory in which `binding` says that the array lies."""
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
    """Run the kernel's body in the actor of the compute units. `null` tells whether an argument is a null pointer.

    An error is stored in `queue.kernel_error`, and raised in the host thread that waits for the queue.
    """
    try:
        run_body(body, [resolve() for resolve in resolvers])
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


PACKING_THRESHOLD: Final = 1024
MAX_ALIGNMENT: Final = 16


@attrs.frozen
class _Packed:
    item: MapItem
    array: HostArray
    padding: int
    alignment: int


def required_alignment(address: int) -> int:
    """Return the alignment of an address in bytes (the largest power of two that divides it), at most 16."""
    return min(MAX_ALIGNMENT, address & -address) if address else MAX_ALIGNMENT


@attrs.define(eq=False)
class PrivateArguments:
    """The private and firstprivate arguments of one target region (LLVM's `PrivateArgumentManagerTy`).

    Call `add` for each item, then `transfer` for the small ones, which are `packed`. `placed` has the device address of
    each item. `blocks` has the addresses that `free` frees.
    """

    device: OffloadDevice
    queue: DirectiveQueue
    placed: list[tuple[MapItem, Binding]] = attrs.field(factory=list)
    packed: list[_Packed] = attrs.field(factory=list)
    blocks: list[int] = attrs.field(factory=list)

    async def add(self, item: MapItem, at_once: bool = False) -> None:
        """Add a private argument. at_once: give it a block of its own now, as the next map item is a member of it."""
        array = item.array
        if array is None:
            return
        firstprivate = bool(item.type & TO)
        if firstprivate and item.size <= PACKING_THRESHOLD and not at_once:
            self._pack(item, array)
            return
        address = await self.device.allocate(item.size, array, item.begin, array.phantom)
        self.blocks.append(address)
        self._place(item, address)
        if firstprivate:
            await self.device.submit(self.queue, address, array.span(item.begin, item.size), array)

    def _place(self, item: MapItem, address: int) -> None:
        self.placed.append((item, Binding(address, item.begin, item.begin + item.size)))

    def _pack(self, item: MapItem, array: HostArray) -> None:
        padding = 0
        alignment = MAX_ALIGNMENT
        if self.packed:
            last = self.packed[-1]
            alignment = last.item.size % last.alignment or last.alignment
            needed = required_alignment(item.begin)
            if needed > alignment:
                padding = needed - alignment
                alignment = needed
        self.packed.append(_Packed(item, array, padding, alignment))

    async def transfer(self) -> None:
        """Pack the values that `add` has packed into one buffer of the host, and copy that to one device block."""
        total = sum(one.padding + one.item.size for one in self.packed)
        await self.device.machine.host_memory.copy(total, "runtime")
        phantom = any(one.array.phantom for one in self.packed)
        address = await self.device.allocate(total, None, 0, phantom)
        self.blocks.append(address)
        buffer = np.zeros(total, np.uint8)
        offset = 0
        for one in self.packed:
            offset += one.padding
            size = one.item.size
            if (values := one.array.span(one.item.begin, size).bytes) is not None:
                buffer[offset : offset + size] = values
            self._place(one.item, address + offset)
            offset += size
        await self.device.submit(self.queue, address, HostSpan(0, total, None if phantom else buffer), None)

    async def free(self) -> None:
        """Free the blocks of the arguments. If a cancellation interrupts this, it can be called again for the rest."""
        while self.blocks:
            address = self.blocks[0]
            if self.device.block_size(address) is not None:
                await self.device.free(address, None, 0)
            del self.blocks[0]


async def bind_arguments(
    device: OffloadDevice, items: Sequence[MapItem], queue: DirectiveQueue, bindings: dict[HostArray, Binding]
) -> PrivateArguments:
    """Add to `bindings` where the kernel finds each array of the map items; return the private arguments.

    At the return, the copies of the private arguments have been submitted.
    """
    private = PrivateArguments(device, queue)
    queue.private = private.free
    table, lookup_s, tell = device.table_lock, device.table.search_s, device.tell
    present, known = device.table, device.table.known
    absent = unmapped(device)
    for position, item in enumerate(items):
        flags, array = item.flags, item.array
        if not flags.parameter or array is None:
            bits = item.type
            if bits & LAMBDA == LAMBDA and bits >= FIRST_MEMBER:
                await _capture(device, item, items[(item.type >> 48) - 1], private, queue)
            continue
        if flags.not_mapped:
            if item.type & LITERAL:
                bindings[array] = _in_hand(device, array)
            else:
                following = items[position + 1].type if position + 1 < len(items) else 0
                await private.add(item, at_once=following >= FIRST_MEMBER)
            continue
        begin, size = section = item.section
        await table.enter(lookup_s, begin, size, False)
        try:
            lookup = known.get(section) or present.lookup(begin, size)
            if not pass_visited(device, lookup):
                await lock_visited(device, lookup, False)
            if tell is not None:
                tell(SectionFound(queue.cause, device.number, array, begin, size, lookup.contained))
        finally:
            table.release()
        if (entry := lookup.pointer.entry) is not None:
            bindings[array] = entry.binding
        else:
            # Another part of the array may be present: a pointer beside it that nobody follows hides nothing.
            bindings.setdefault(array, ON_HOST if array.managed else absent)
    if private.packed:
        await private.transfer()
    for item, binding in private.placed:
        if item.array is not None:
            bindings[item.array] = binding
    return private


def unmapped(device: OffloadDevice) -> Binding:
    """Return the binding of an array that is not mapped at all: host memory, or a pointer that cannot be used."""
    return ON_HOST if device.host_pointers or device.plugin.kernels_fault else NOWHERE


async def _capture(
    device: OffloadDevice, item: MapItem, parent: MapItem, private: PrivateArguments, queue: DirectiveQueue
) -> None:
    """Write the device address of a variable into the device's copy of the lambda that captured it by reference."""
    captured = await get_present_pointer(device, item.array, item.begin, item.size, queue.cause)
    into = next((binding.address for item, binding in private.placed if item is parent), None)
    if into is None and (entry := device.table.lookup(parent.begin, parent.size).entry) is not None:
        into = entry.device_address(parent.begin)
    if captured.entry is None or into is None:
        return
    value, block = captured.entry.device_address(item.begin), captured.entry.binding
    source = pointer_span(ShadowPointer(item.base, into, item.begin, value, block))
    await device.submit(queue, into + item.base - parent.begin, source, None, op="attach")


def _in_hand(device: OffloadDevice, array: HostArray) -> Binding:
    """Return the binding of an array whose device address the program passes itself (has_device_addr).

    The runtime makes no look-up for such an array, so this takes no virtual time.
    """
    if array.managed:
        return ON_HOST
    found = device.table.lookup(array.address, array.nbytes)
    if found.entry is not None and found.overlaps:
        return found.entry.binding
    return Binding(None, is_host=device.host_pointers)
