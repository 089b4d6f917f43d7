"""The present table of one device: which piece of host memory has which counterpart, and how often it is referenced.

Pure data: nothing here waits. Whoever calls it holds the device table. Follows LLVM's
`HostDataToTargetTy` and `MappingInfoTy::lookupMapping` (offload/libomptarget/OpenMP/Mapping.cpp).

A `DevicePointer` is a device address in the hands of the program: what omp_target_alloc and omp_get_mapped_ptr return.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, Final

import attrs
import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

from offloadrt.runtime.host_array import POINTER_BYTES, HostArray
from offloadrt.sim import Lock, LockStatistics, Simulation


@attrs.frozen(eq=False)
class Binding:
    """Says where a kernel finds an array: bytes [host_begin, host_end) of it lie at `address` on the device.

    is_host: the kernel uses the host's memory. address None: the kernel got a host pointer that it cannot use.
    """

    address: int | None
    host_begin: int = 0
    host_end: int = 0
    is_host: bool = False


ON_HOST: Final = Binding(None, is_host=True)
NOWHERE: Final = Binding(None)


INFINITE: Final = (1 << 64) - 1
"""The reference count of globals and of associated pointers, which never changes."""


@attrs.frozen
class ShadowPointer:
    """An attached pointer in a mapped block: its address and the address that it holds (value), on host and device."""

    host_address: int
    device_address: int
    host_value: int
    device_value: int
    pointee: Binding
    """The block that the device's pointer points into, or pointed into before it was freed."""
    descriptor: bytes = b""
    """The bytes after the address, where the pointer is a Fortran descriptor."""

    @property
    def nbytes(self) -> int:
        return POINTER_BYTES + len(self.descriptor)

    def content(self, value: int) -> NDArray[np.uint8]:
        """Return the bytes that the pointer would have in memory if it held the address `value`."""
        return np.frombuffer((value % (1 << 64)).to_bytes(POINTER_BYTES, "little") + self.descriptor, np.uint8)


@attrs.define(eq=False)
class Entry:
    """An entry of the present table: host memory [host_begin, host_end) has a device block at `device_begin`.

    dynamic, hold: the reference counts (hold: of ompx_hold). lock: held while the block's data is copied.
    data_end_users: the number of threads between the decrement and the removal in targetDataEnd; the last one may erase
    the entry. event: recorded after the last transfer to the block; other directives' streams wait for it. owned: the
    runtime allocated the device block and frees it. padding: bytes of that block before `device_begin`. offset: byte
    offset of the block in the array called `name`; the host address if there is no name. host_base: the host address of
    the array or struct of which this is a part. phantom: the block has a size but no bytes. shadow_pointers: the
    attached pointers in the block, by host address. binding: where kernels find the block.
    """

    name: str
    host_base: int
    host_begin: int
    host_end: int
    device_begin: int
    dynamic: int
    hold: int
    lock: Lock
    phantom: bool = False
    owned: bool = True
    offset: int = 0
    padding: int = 0
    event: Any = None
    data_end_users: int = 0
    is_erased: bool = False
    shadow_pointers: dict[int, ShadowPointer] = attrs.field(factory=dict)
    binding: Binding = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.binding = Binding(self.device_begin, self.host_begin, self.host_end)

    @property
    def block(self) -> int:
        """Return the address at which the device block begins, which is the address to free."""
        return self.device_begin - self.padding

    @property
    def size(self) -> int:
        return self.host_end - self.host_begin

    @property
    def total(self) -> int:
        total = self.dynamic + self.hold
        return total if total < INFINITE else INFINITE

    @property
    def is_unused(self) -> bool:
        """Tell whether both reference counts are zero."""
        return not (self.dynamic or self.hold)

    def device_address(self, host_address: int) -> int:
        return self.device_begin + (host_address - self.host_begin)

    def increment(self, hold: bool) -> None:
        if hold:
            if self.hold != INFINITE:
                self.hold += 1
        elif self.dynamic != INFINITE:
            self.dynamic += 1

    def decrement(self, hold: bool) -> None:
        """Decrement the hold count (`hold`) or else the dynamic count; a zero or infinite count stays as it is."""
        if hold:
            if self.hold and self.hold != INFINITE:
                self.hold -= 1
        elif self.dynamic and self.dynamic != INFINITE:
            self.dynamic -= 1

    def reset(self, hold: bool) -> None:
        """Set the hold count (`hold`) or else the dynamic one to 1, as `delete` does: the next decrement leaves 0."""
        if hold:
            if self.hold != INFINITE:
                self.hold = 1
        elif self.dynamic != INFINITE:
            self.dynamic = 1

    def would_be_last(self, hold: bool, after_reset: bool) -> bool:
        """Tell whether decrementing the hold (or else dynamic) count leaves both 0. after_reset: it is reset before."""
        this, other = (self.hold, self.dynamic) if hold else (self.dynamic, self.hold)
        if other > 0:
            return False
        return this != INFINITE if after_reset else this == 1

    def attach(self, shadow: ShadowPointer) -> bool:
        """Store `shadow`, an attached pointer of this block; return False if the device has the same value already."""
        known = self.shadow_pointers.get(shadow.host_address)
        self.shadow_pointers[shadow.host_address] = shadow
        return known is None or (known.device_value, known.descriptor) != (shadow.device_value, shadow.descriptor)


class TargetPointer(msgspec.Struct, eq=False):
    """The result of a look-up in the present table (LLVM's `TargetPointerResultTy`): a device address and an entry.

    A result may own the lock of its entry (`OffloadDevice.release`). Results that own none are shared by look-ups.
    """

    address: int | None = None
    """The device address; None without one (an illegal mapping, or a section of absent memory)."""
    entry: Entry | None = None
    """The entry; None if nothing is mapped, where an address means that the device uses the host's memory."""
    is_locked: bool = False
    """Whether this pointer owns the entry's lock."""
    is_new: bool = False
    """Whether the entry is new; for a member of a struct: whether the struct's entry has only one reference."""
    is_last: bool = False
    """Whether this look-up, for an unmapping, removes the last reference."""

    @property
    def is_host(self) -> bool:
        """Tell whether the device uses the host's memory."""
        return self.entry is None and self.address is not None


ABSENT: Final = TargetPointer()


@attrs.define(eq=False)
class Lookup:
    """The result of a search of the present table for a section that starts at `begin` (LLVM's `LookupResult`).

    visited: the entries that LLVM's search locks, in order; `locks` are their locks. entry: the last of them, or None;
    it may be a mere neighbour of the section. contained, overlaps: `entry` holds all, or some, of the section.
    extends_before, extends_after: the section begins before `entry`, or ends after it. pointer: the section's address
    in the block of `entry`, or its host address where no entry overlaps it. Equal look-ups share one object.
    """

    begin: int
    visited: tuple[Entry, ...]
    contained: bool = False
    extends_before: bool = False
    extends_after: bool = False
    locks: tuple[Lock, ...] = attrs.field(init=False)
    entry: Entry | None = attrs.field(init=False)
    overlaps: bool = attrs.field(init=False)
    pointer: TargetPointer = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        begin, visited = self.begin, self.visited
        self.locks = tuple(entry.lock for entry in visited)
        self.entry = entry = visited[-1] if visited else None
        self.overlaps = overlaps = self.contained or self.extends_before or self.extends_after
        if entry is not None and overlaps:
            self.pointer = TargetPointer(entry.device_begin + (begin - entry.host_begin), entry)
        else:
            self.pointer = TargetPointer(begin)


class PresentTable:
    """One device's present table. A search takes lookup_s seconds, and level_s more per tree level after the fifth."""

    __slots__ = ("_begins", "_entries", "_level_s", "_lookup_s", "generation", "known", "search_s")

    def __init__(self, lookup_s: float = 0.0, level_s: float = 0.0) -> None:
        self._lookup_s, self._level_s = lookup_s, level_s
        self.search_s = lookup_s
        """Seconds of one search: `lookup_s`, and `level_s` for each level of LLVM's `std::set` after the fifth."""
        self.generation = 0
        """Incremented when an entry is inserted or erased."""
        self._begins: list[int] = []
        self._entries: list[Entry] = []
        self.known: dict[tuple[int, int], Lookup] = {}
        """Cached results of look-ups of (begin, size) since the last insertion or erasure.

        On hot paths, write ``table.known.get((begin, size)) or table.lookup(begin, size)``.
        """

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def at(self, host_begin: int) -> Entry | None:
        """Return the entry that begins exactly at a host address; None if there is none."""
        position = bisect_left(self._begins, host_begin)
        if position < len(self._begins) and self._begins[position] == host_begin:
            return self._entries[position]
        return None

    def insert(self, entry: Entry) -> None:
        """Insert an entry. Raises KeyError if one begins at the same address."""
        position = bisect_left(self._begins, entry.host_begin)
        if position < len(self._begins) and self._begins[position] == entry.host_begin:
            raise KeyError(f"an entry of {self._entries[position].name!r} begins at {entry.host_begin:#x} already")
        self._begins.insert(position, entry.host_begin)
        self._entries.insert(position, entry)
        self._changed()

    def erase(self, entry: Entry) -> None:
        """Erase an entry. Raises KeyError if it is not in the table."""
        position = bisect_left(self._begins, entry.host_begin)
        if position >= len(self._begins) or self._entries[position] is not entry:
            raise KeyError(f"the table has no entry of {entry.name!r} at {entry.host_begin:#x}")
        del self._begins[position]
        del self._entries[position]
        self._changed()

    def _changed(self) -> None:
        self.generation += 1
        self.known.clear()
        # With up to 31 entries, five levels, a search takes `table.lookup`, which was measured with 16.
        self.search_s = self._lookup_s + self._level_s * max(len(self._entries).bit_length() - 5, 0)

    def lookup(self, begin: int, size: int) -> Lookup:
        """Search as `lookupMapping` does: the entry at or before `begin`; if that does not overlap, also the next one.

        The result is cached until an entry is inserted or erased. The caller charges the search (`search_s`).
        """
        found = self.known.get((begin, size))
        if found is None:
            found = self.known[begin, size] = self._search(begin, size)
        return found

    def _search(self, begin: int, size: int) -> Lookup:
        entries = self._entries
        upper = bisect_right(self._begins, begin)
        visited: tuple[Entry, ...] = ()
        end = begin + size
        if upper:
            before = entries[upper - 1]
            visited = (before,)
            if begin < before.host_end:
                if end <= before.host_end:
                    return Lookup(begin, visited, contained=True)
                return Lookup(begin, visited, extends_after=True)
        if upper < len(entries):
            after = entries[upper]
            visited = (*visited, after)
            if size == 0:
                return Lookup(begin, visited, contained=begin >= after.host_base)
            return Lookup(begin, visited, extends_before=end > after.host_begin, extends_after=end > after.host_end)
        return Lookup(begin, visited)


class EntryLocks:
    """Hands out a free lock to each new entry of a present table; `statistics` sums over all these locks."""

    def __init__(self, sim: Simulation, name: str) -> None:
        self.sim = sim
        self.name = name
        self._all: list[Lock] = []
        self._free: list[Lock] = []
        self.passed = 0
        """Number of times that a free lock would have been taken and released at once (`OffloadDevice.pass_entry`)."""

    def take(self, array: str) -> Lock:
        if self._free:
            lock = self._free.pop()
        else:
            lock = Lock(self.sim, self.name)
            self._all.append(lock)
        lock.name = f"entry of {array}" if array else "entry"
        return lock

    def give_back(self, lock: Lock) -> None:
        """Take back the lock of an erased entry for a later entry; no thread can wait for it any more."""
        self._free.append(lock)

    def statistics(self) -> LockStatistics:
        total = LockStatistics.total(lock.statistics() for lock in self._all)
        return attrs.evolve(total, acquired=total.acquired + self.passed)


UNTYPED: Final = np.dtype("V1")
"""Data type of untyped memory, such as that of a ``void *``."""


@attrs.frozen
class DevicePointer:
    """An address of device memory (or of host memory, where the device reads that directly).

    nbytes: the size of the memory that begins there, 0 if unknown. ``int(pointer)`` is the address, which a program
    can store in an array. dtype, shape: how a kernel sees the memory. Memory of omp_target_alloc has no type until
    `viewed` gives it one: a body over NumPy views then sees bytes, and a kernel that is a loop nest rejects it.
    phantom: the memory has a size but no bytes.
    """

    address: int
    nbytes: int
    device: int
    phantom: bool = False
    dtype: np.dtype[np.generic] = attrs.field(default=UNTYPED)
    shape: tuple[int, ...] | None = None
    host: HostArray | None = attrs.field(default=None, repr=False)
    """The array into which the pointer points on the initial device, which is the host."""

    binding: Binding | None = attrs.field(default=None, repr=False)
    """For use_device_ptr on a partly mapped array: the position of the mapped part."""
    array: HostArray | None = attrs.field(default=None, repr=False)
    """For use_device_ptr: the array that the clause names."""

    def __int__(self) -> int:
        return self.address

    def __index__(self) -> int:
        return self.address

    def __add__(self, nbytes: int) -> DevicePointer:
        """Return the pointer advanced by `nbytes` bytes."""
        return attrs.evolve(
            self, address=self.address + nbytes, nbytes=max(0, self.nbytes - nbytes), shape=None, binding=None
        )

    def viewed(self, dtype: DTypeLike, shape: int | tuple[int, ...] | None = None) -> DevicePointer:
        """Let kernels see the same memory as an array of this type and shape (without a shape: all of it, flat)."""
        element = np.dtype(dtype)
        lengths = (shape,) if isinstance(shape, int) else shape
        if lengths is None and self.nbytes and element != UNTYPED:
            lengths = (self.nbytes // element.itemsize,)
        return attrs.evolve(self, dtype=element, shape=lengths, binding=None)
