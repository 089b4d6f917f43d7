"""Which bytes of arrays a program reads and writes, in its kernels and in Python code, for the checker.

For a loop nest and for a recorded kernel the counts of the launch say which bytes it accesses (`static_uses`). A body
that computes on NumPy views is watched while it runs (`Watch`). For a kernel that is declared by its costs alone only
its arguments are known: it may read and write them.

A `WatchedArray` is an `ndarray` that reports its accesses. It returns plain arrays and numbers for what is read, and
watched arrays for views. If NumPy does not say which elements a call accesses, everything between the first and the
last element of the view is reported, as a range of which only some bytes are accessed.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, cast

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.extensions.checking.recorded import DEVICE_MEMORY, HostUse, split_atomic
from offloadrt.kernels.costs import ArrayCounts
from offloadrt.kernels.execution import MappedSection
from offloadrt.kernels.memory_streams import AccessStream
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.events import HOST, KernelEnded, KernelRan, KernelSubmitted, MemoryUse, Tell
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.kernel_arguments import Pointees, array_view, has_phantoms, reaches_host
from offloadrt.runtime.launch.target import OffloadedRegion
from offloadrt.runtime.mapping.map_item import MapItem, MapItems
from offloadrt.runtime.mapping.map_types import LITERAL, NOT_MAPPED, TARGET_PARAM
from offloadrt.runtime.mapping.present_table import Binding, DevicePointer, Entry

Note = Callable[[int, int, bool, bool], None]
"""Called for each access with (first byte, byte after the last, is write, are all bytes accessed); bytes count from the
start of the array.
"""

_SHAPE_ONLY = frozenset(
    {np.shape, np.size, np.ndim, np.zeros_like, np.empty_like, np.ones_like, np.result_type, np.may_share_memory,
     np.shares_memory, np.iscomplexobj, np.isrealobj}
)  # fmt: skip
_VIEWS = frozenset(
    {np.reshape, np.ravel, np.transpose, np.swapaxes, np.moveaxis, np.squeeze, np.expand_dims, np.broadcast_to,
     np.diagonal, np.split, np.array_split, np.hsplit, np.vsplit, np.real, np.imag, np.flip, np.rot90,
     np.atleast_1d, np.atleast_2d}
)  # fmt: skip
_FIRST_WRITTEN = frozenset({np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis})


class WatchedArray(np.ndarray[Any, np.dtype[Any]]):
    """An array that reports each access to its elements; it overrides every `ndarray` method that accesses them."""

    _tell: Note | None = None
    _first = 0
    _after = 0

    def __array_finalize__(self, made_from: Any) -> None:
        if isinstance(made_from, WatchedArray):
            self._tell, self._first, self._after = made_from._tell, made_from._first, made_from._after

    def _note(self, writes: bool, exact: bool = True) -> None:
        if self._tell is None or not self.size:
            return
        low, high = byte_bounds(self)
        if self._first <= low and high <= self._after:
            dense = exact and high - low == self.nbytes
            self._tell(low - self._first, high - self._first, writes, dense)

    def __getitem__(self, key: Any) -> Any:
        view = self._view(key)
        if view is None:
            self._note(False, exact=False)
            return np.asarray(self)[key]
        if view.ndim:
            return view
        whole = np.ndarray.__getitem__(self, key)
        if isinstance(whole, np.ndarray):
            return view
        view._note(False)
        return whole

    def __setitem__(self, key: Any, value: Any) -> None:
        view = self._view(key)
        if isinstance(value, WatchedArray) and view is not None and value.data == view.data:
            return  # the end of `a[...] += b`, which NumPy has done in place
        value = _plain(value)
        (self if view is None else view)._note(True, exact=view is not None)
        np.asarray(self)[key] = value

    def _view(self, key: Any) -> WatchedArray | None:
        """Return a view of the elements that a key names; None if the key picks single elements or names a field."""
        parts = key if isinstance(key, tuple) else (key,)
        if not all(part is None or part is Ellipsis or isinstance(part, (int, np.integer, slice)) for part in parts):
            if isinstance(key, str):
                return cast(WatchedArray, np.ndarray.__getitem__(self, key))
            return None
        if Ellipsis not in parts:
            key = (*parts, Ellipsis)
        return cast(WatchedArray, np.ndarray.__getitem__(self, key))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        written = (inputs[0],) if method == "at" else (out or ())
        read = [_plain(one) for one in inputs]
        if out is not None:
            options["out"] = tuple([np.asarray(one) if isinstance(one, WatchedArray) else one for one in out])
        result = getattr(ufunc, method)(*read, **options)
        for array in written:
            if isinstance(array, WatchedArray):
                array._note(True, exact=options.get("where", True) is True and method != "at")
        if out is not None:
            return out[0] if len(out) == 1 else out
        return result

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        if function in _VIEWS:
            return super().__array_function__(function, types, arguments, options)
        if function in _SHAPE_ONLY:
            return function(*_quietly(arguments), **{key: _quietly(value) for key, value in options.items()})
        outputs = [options.get("out"), *arguments[: int(function in _FIRST_WRITTEN)]]
        first = int(function in _FIRST_WRITTEN)
        plain = (*_quietly(arguments[:first]), *_plain(tuple(arguments[first:])))
        named = {key: _quietly(value) if key == "out" else _plain(value) for key, value in options.items()}
        result = function(*plain, **named)
        for array in outputs:
            if isinstance(array, WatchedArray):
                array._note(True, exact="where" not in options and function not in (np.put, np.place, np.putmask))
        return options["out"] if isinstance(options.get("out"), WatchedArray) else result

    def __iter__(self) -> Any:
        return iter([self[number] for number in range(len(self))])

    def __bool__(self) -> bool:
        return bool(_plain(self))

    def __float__(self) -> float:
        return float(_plain(self))

    def __int__(self) -> int:
        return int(_plain(self))

    def __repr__(self) -> str:
        return repr(_plain(self))

    __str__ = __repr__


def byte_bounds(array: NDArray[Any]) -> tuple[int, int]:
    """Return the address of the array's first byte, and the address after its last byte."""
    low = high = array.__array_interface__["data"][0]
    for length, stride in zip(array.shape, array.strides, strict=True):
        reach = (length - 1) * stride
        low, high = low + min(0, reach), high + max(0, reach)
    return low, high + array.itemsize


def _plain(value: Any) -> Any:
    """Return a value with plain arrays in place of watched ones, and report each of these as read."""
    if isinstance(value, WatchedArray):
        value._note(False)
        return np.asarray(value)
    if isinstance(value, (tuple, list)):
        return type(value)([_plain(one) for one in value])
    return value


def _quietly(value: Any) -> Any:
    """Return a value with plain arrays in place of watched ones, without reporting a read."""
    if isinstance(value, WatchedArray):
        return np.asarray(value)
    if isinstance(value, (tuple, list)):
        return type(value)([_quietly(one) for one in value])
    return value


def _reader(name: str) -> Callable[..., Any]:
    def read(self: WatchedArray, *arguments: Any, **options: Any) -> Any:
        return getattr(_plain(self), name)(*_plain(arguments), **options)

    return read


def _writer(name: str) -> Callable[..., Any]:
    def write(self: WatchedArray, *arguments: Any, **options: Any) -> Any:
        self._note(True, exact=name in ("fill", "sort"))
        return getattr(np.asarray(self), name)(*_plain(arguments), **options)

    return write


for _name in ("copy", "tolist", "item", "tobytes", "astype", "dot", "argsort", "argmax", "argmin", "take", "nonzero",
              "searchsorted", "repeat", "choose", "compress", "trace", "flatten"):  # fmt: skip
    setattr(WatchedArray, _name, _reader(_name))
for _name in ("fill", "sort", "put", "partition", "itemset"):
    setattr(WatchedArray, _name, _writer(_name))


def watched(values: NDArray[Any], tell: Note) -> WatchedArray:
    """Return an array over the same values that calls `tell` for each read and write of elements.

    tell: called with the first byte, the byte after the last, whether it writes, and whether it touches every byte.
    """
    view = values.view(WatchedArray)
    view._tell = tell
    view._first, view._after = byte_bounds(values)
    return view


@attrs.frozen
class _Placed:
    """An argument as the kernel finds it: `begin` is the address of its first element in the memory `memory`.

    low, high: the range of addresses that the kernel may use there.
    """

    name: str
    memory: int
    begin: int
    low: int
    high: int
    mapped: bool


def static_uses(
    device: OffloadDevice,
    region: OffloadedRegion,
    bindings: dict[HostArray, Binding],
    private: Sequence[tuple[MapItem, Binding]] = (),
) -> tuple[MemoryUse, ...]:
    """Return which memory a kernel will read and write, as far as that is known before it runs; reads come first.

    region: the launch with its arguments and map items. bindings: where each array lies on the device. private: the map
    items with private copies, and where these lie.
    """
    launch, arguments = region.launch, region.arguments
    counted = {} if launch.counts is None else {counts.position: counts for counts in launch.counts.arrays}
    declared = {} if launch.counts is not None else {use.position: use for use in launch.kernel.arrays}
    reads: list[MemoryUse] = []
    writes: list[MemoryUse] = []
    parts = _parts(device, region.items, arguments, private)
    for position, argument in enumerate(arguments):
        if (part := parts.get(position)) is not None:
            placed = _bound(device, argument, part)
        else:
            placed = _placed(device, argument, bindings)
        if placed is None:
            continue
        counts = counted.get(position)
        if counts is None and launch.counts is not None:
            continue  # the kernel does not touch it
        use = declared.get(position)
        if counts is None and use is not None and use.laf and not isinstance(argument, Pointees):
            for often, writing, uses in ((use.reads, False, reads), (use.writes, True, writes)):
                if often and placed.high > placed.low:
                    nbytes = placed.high - placed.low
                    uses.append(
                        MemoryUse(placed.memory, placed.low, nbytes, writing, False, placed.name, placed.mapped)
                    )
            continue
        if counts is None or isinstance(argument, Pointees):
            maybe = MemoryUse(
                placed.memory, placed.low, placed.high - placed.low, True, False, placed.name, placed.mapped, True
            )
            if maybe.nbytes > 0:
                writes.append(maybe)
            continue
        reads += _of_kind(placed, counts, "read")
        writes += _of_kind(placed, counts, "write")
    return (*reads, *writes, *_reached(device, region))


def _parts(
    device: OffloadDevice,
    items: Sequence[MapItem],
    arguments: Sequence[Any],
    private: Sequence[tuple[MapItem, Binding]],
) -> dict[int, Binding]:
    """Return where arguments lie that share their array with another argument, by position: each is a part of it."""
    if len(set(map(id, arguments))) == len(arguments):
        return {}
    given = [item for item in items if item.type & TARGET_PARAM]
    if len(given) != len(arguments):
        return {}
    found: dict[int, Binding] = {}
    shared = {array for array, times in Counter(map(id, arguments)).items() if times > 1}
    for position, (item, argument) in enumerate(zip(given, arguments, strict=True)):
        if id(argument) not in shared or argument is not item.array:
            continue
        if item.type & NOT_MAPPED:
            binding = next((binding for own, binding in private if own is item), None)
        else:
            entry = device.table.lookup(item.begin, item.size).pointer.entry
            binding = None if entry is None else entry.binding
        if binding is not None:
            found[position] = binding
    return found


def _placed(device: OffloadDevice, argument: Any, bindings: dict[HostArray, Binding]) -> _Placed | None:
    """Find an argument's memory; None for a number, or for an array of which the kernel gets nothing."""
    if isinstance(argument, Pointees):
        argument = argument.pointers
    if isinstance(argument, DevicePointer):
        if argument.binding is not None and argument.array is not None:
            return _bound(device, argument.array, argument.binding)
        nbytes = argument.nbytes or device.block_size(argument.address) or 0
        name = argument.array.name if argument.array is not None else DEVICE_MEMORY
        end = argument.address + nbytes
        return _Placed(name, device.number, argument.address, argument.address, end, False)
    return _bound(device, argument, bindings[argument]) if isinstance(argument, HostArray) else None


def _bound(device: OffloadDevice, array: HostArray, binding: Binding) -> _Placed | None:
    begin, end = array.address, array.address + array.nbytes
    if binding.is_host:
        return _Placed(array.name, HOST, begin, begin, end, False)
    if binding.address is None:
        return None
    shift = binding.address - binding.host_begin
    low, high = max(begin, binding.host_begin), min(end, binding.host_end)
    return _Placed(array.name, device.number, begin + shift, low + shift, high + shift, True)


def _of_kind(placed: _Placed, counts: ArrayCounts, kind: Literal["read", "write"]) -> Iterator[MemoryUse]:
    """Yield the ranges of an argument that a kernel loads from (read) or stores to (write)."""
    often, around = (counts.reads, counts.read_range) if kind == "read" else (counts.writes, counts.written_range)
    if not often:
        return
    if (known := counts.known.get(kind)) is not None:
        for low, high, atomic in split_atomic(known, counts.known.get("atomic", ())):
            begin, end = placed.begin + low * counts.element_size, placed.begin + (high + 1) * counts.element_size
            first, after = max(placed.low, begin), min(placed.high, end)
            if first < after:
                yield MemoryUse(
                    placed.memory, first, after - first, kind == "write", True, placed.name, placed.mapped,
                    atomic=atomic,
                )  # fmt: skip
        return
    for stream in counts.streams:
        moved = stream.read if kind == "read" else stream.written
        if not moved:
            continue  # it loads what it has stored itself
        reach = stream.reach
        if reach.ranges is None or around is None:
            pieces: Sequence[tuple[int, int]] = [_elements(placed, counts.element_size)]
        else:
            clipped = [(max(low, around[0]), min(high, around[1])) for low, high in reach.ranges]
            pieces = [(low, high) for low, high in clipped if low <= high]
        whole = _touches_all(stream, kind, pieces) and often >= _length(pieces)
        for low, high in pieces:
            begin, end = placed.begin + low * counts.element_size, placed.begin + (high + 1) * counts.element_size
            first, after = max(placed.low, begin), min(placed.high, end)
            beyond = whole and (first, after) != (begin, end)
            if first < after or beyond:
                yield MemoryUse(
                    placed.memory, first, max(0, after - first), kind == "write", whole, placed.name, placed.mapped,
                    outside=beyond,
                )  # fmt: skip


def _elements(placed: _Placed, element_size: int) -> tuple[int, int]:
    """Return the numbers of the first and the last element that the kernel may use."""
    return (placed.low - placed.begin) // element_size, (placed.high - placed.begin) // element_size - 1


def _length(pieces: Sequence[tuple[int, int]]) -> int:
    return sum([high - low + 1 for low, high in pieces])


def _touches_all(stream: AccessStream, kind: str, pieces: Sequence[tuple[int, int]]) -> bool:
    """Tell whether a swept stream of accesses reaches every element of `pieces`, which are ranges of elements."""
    if stream.order != "swept" or not math.isinf(stream.among):
        return False
    runs = stream.reach.read if kind == "read" else stream.reach.written
    return math.fsum([one.count * one.run for one in runs]) >= _length(pieces)


def _reached(device: OffloadDevice, region: OffloadedRegion) -> Iterator[MemoryUse]:
    """Yield what the kernel accesses, or may access, through pointers that are no mapped arguments."""
    known: set[Entry] = set()
    for use in region.blocks:
        writes, maybe = use.writes or not use.exact, not use.exact
        begin, nbytes, name, mapped, memory = use.address, use.nbytes, DEVICE_MEMORY, False, device.number
        if use.of_host and (found := _in_entry(device, begin, nbytes)) is not None:
            entry, begin, nbytes = found
            name, mapped = entry.name, _holds(region, entry)
            known.add(entry)
        elif isinstance(use, HostUse) and reaches_host(device):  # in the host's memory itself
            name, memory = use.name, HOST
        elif use.of_host:
            continue
        yield MemoryUse(memory, begin, nbytes, writes, use.exact, name, mapped, maybe=maybe, atomic=use.atomic)
    for pointer in region.follows:
        if isinstance(pointer, DevicePointer) and pointer not in region.arguments and pointer.nbytes:
            found = _in_entry(device, pointer.address, pointer.nbytes)
            if found is not None and found[0] not in known:
                entry, begin, nbytes = found
                yield MemoryUse(device.number, begin, nbytes, True, False, entry.name, False, True)


def _in_entry(device: OffloadDevice, address: int, nbytes: int) -> tuple[Entry, int, int] | None:
    """Return the entry that maps some of these host bytes, their device address, and how many of them it maps."""
    entry = device.table.lookup(address, nbytes).pointer.entry
    if entry is None:
        return None
    low = max(address, entry.host_begin)
    held = min(address + nbytes, entry.host_end) - low
    return (entry, entry.device_address(low), held) if held > 0 else None


def _holds(region: OffloadedRegion, entry: Entry) -> bool:
    """Tell whether the region, or a mapper of one of its items, keeps the entry mapped while the kernel runs."""
    items = region.items.mapped if isinstance(region.items, MapItems) else region.items
    return any(entry.host_begin <= item.begin < entry.host_end for item in items if not item.type & LITERAL)


@attrs.define(eq=False)
class Watch:
    """Reports to the checker which memory a kernel reads and writes, for one launch.

    The report comes when the launch is submitted, or after the kernel's body has run if only the run shows the
    accesses.
    """

    _device: OffloadDevice
    _tell: Tell
    _region: OffloadedRegion
    _bindings: dict[HostArray, Binding]
    _private: Sequence[tuple[MapItem, Binding]]
    _cause: int
    _uses: list[MemoryUse] = attrs.field(factory=list, init=False)
    _shows: bool = attrs.field(init=False)
    """Whether only the run of the body shows what the kernel uses."""

    def __attrs_post_init__(self) -> None:
        has_body = self._region.launch.counts is None and self._region.launch.kernel.body is not None
        self._shows = has_body and not has_phantoms(self._region.arguments)

    def view(self, argument: Any, seen: Any) -> Any:
        """Return the array that a kernel's body gets for an argument: one that reports its accesses, if that is needed.

        seen: the array that the body would get otherwise.
        """
        if not self._shows:
            return seen
        if isinstance(argument, Pointees):
            return [self._pointee(argument, number, array) for number, array in enumerate(seen)]
        placed = _placed(self._device, argument, self._bindings)
        if placed is None:
            return seen
        if isinstance(seen, MappedSection):
            row = seen.values.nbytes // max(1, len(seen.values))
            values = self._watched(seen.values, attrs.evolve(placed, begin=placed.begin + seen.lower * row))
            return attrs.evolve(seen, values=values)
        if not isinstance(seen, np.ndarray):
            return seen
        partial = isinstance(argument, HostArray) and seen.nbytes < argument.nbytes
        return self._watched(seen, attrs.evolve(placed, begin=placed.low) if partial else placed)

    def _pointee(self, argument: Pointees, number: int, array: Any) -> Any:
        """Watch the memory behind a stored pointer, whose address is read from the view of the pointers."""
        binding = self._bindings[argument.pointers]
        pointers = array_view(self._device, argument.pointers, binding)
        address = argument.addresses(pointers)[number]
        on_host = self._device.machine.host_memory.contents.find(address) is not None
        memory = HOST if on_host and reaches_host(self._device) else self._device.number
        end = address + argument.nbytes
        name = f"what {argument.pointers.name} points to"
        return self._watched(array, _Placed(name, memory, address, address, end, False))

    def _watched(self, values: Any, placed: _Placed) -> Any:
        def tell(low: int, high: int, writes: bool, exact: bool) -> None:
            self._note(placed, placed.begin + low, placed.begin + high, writes, exact)

        return watched(values, tell) if values.size else values

    def _note(self, placed: _Placed, low: int, high: int, writes: bool, exact: bool) -> None:
        """Note one access; an access that extends the one before it is merged with it."""
        use = MemoryUse(placed.memory, low, high - low, writes, exact, placed.name, placed.mapped)
        if self._uses and exact:
            last = self._uses[-1]
            alike = attrs.evolve(last, begin=low, nbytes=use.nbytes) == use
            if alike and last.begin <= low <= last.begin + last.nbytes:
                after = max(last.begin + last.nbytes, high)
                self._uses[-1] = attrs.evolve(last, nbytes=after - last.begin)
                return
        self._uses.append(use)

    def submitted(self, run: Callable[[], None] | None) -> Callable[[], None]:
        """Report that the kernel is submitted; return the function to call when it ends.

        run: computes the kernel's results, None without a body; the returned function calls it and reports the
        accesses.
        """
        known = None
        if not self._shows or run is None:
            known = static_uses(self._device, self._region, self._bindings, self._private)
        self._tell(KernelSubmitted(self._cause, self._device.number, self._region.launch.kernel.name, known))
        return functools.partial(self._run, run, known is None)

    def _run(self, run: Callable[[], None] | None, shows: bool) -> None:
        if run is not None:
            run()
        self._tell(KernelRan(self._cause, tuple(self._uses)) if shows else KernelEnded(self._cause))
