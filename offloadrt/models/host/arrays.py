"""The arrays of a program in the memory of the host: where they lie, and globals of declare target.

`Arena` is a thread's part of the heap, as in glibc's malloc, or its stack. `ProgramArrays` makes the arrays of a
program. `DeviceGlobals` has the addresses of globals of declare target on each device, by which kernels find them.

Addresses matter to the runtime: a lookup in the present table also locks the neighbour by address. Small heap blocks
come from the arena of the thread that allocates (`HEAP_MAX_SIZE`, 64 MiB), large ones from `mmap` (`M_MMAP_THRESHOLD`,
128 KiB). A freed block is used again for the same size, last freed first. C arrays lie on the thread's own stack (8
MiB, large ones apart).

The device image holds a global of ``declare target enter`` itself. Its table entry exists from the start, with an
infinite reference count. For a global of ``link`` the image holds a reference pointer, to which mapping the variable
attaches its device block; under unified shared memory this is so for ``enter``, too. Where the device uses host memory
in place, the image is copied from the host when it is loaded (`loadImagesOntoDevice`): reference pointers then hold the
addresses of the host's globals, until a map with `close` attaches a block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

import attrs
import numpy as np
from numpy.typing import DTypeLike

from offloadrt.kernels.integers import is_integer
from offloadrt.machine import HostMemory, Machine
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.errors import InvalidFree
from offloadrt.runtime.events import ArrayFreed, ArrayMade, Tell
from offloadrt.runtime.host_array import POINTER_BYTES, Bytes, HostArray, Kind, Watch, element_of, make_values, shape_of
from offloadrt.runtime.launch.kernel_arguments import reaches_host
from offloadrt.runtime.lock_wait import take
from offloadrt.runtime.mapping.data_environment import enter_entry
from offloadrt.runtime.mapping.present_table import INFINITE, ON_HOST, Binding, Entry
from offloadrt.sim import Lock

HEAP_MAX_SIZE: Final = 64 << 20
MMAP_THRESHOLD: Final = 128 << 10
CHUNK_HEADER: Final = 16
STACK_SIZE: Final = 8 << 20
STACK_ARRAY_LIMIT: Final = 1 << 20
PAGE: Final = 4096


Bin = list[int]
"""The addresses of an arena's free blocks of one size and alignment, the last freed at the end."""


@attrs.define(eq=False)
class Arena:
    """A range of addresses (heap or stack) from which one thread allocates; a full arena takes a new range.

    To free a block, its address is put back into the bin (list of free blocks) that it came from. glibc's malloc joins
    free neighbours and splits them for other sizes. Here a free block is reused only for its own size and alignment, so
    a program that frees one size and allocates another spreads over more addresses than with glibc.

    extent: bytes of a range. large: blocks of this many bytes and more lie outside of it. gap: bytes between blocks.
    """

    memory: HostMemory
    region: Literal["heap", "stack"]
    extent: int
    large: int
    gap: int
    _top: int = 0
    _end: int = 0
    _bins: dict[tuple[int, int], Bin] = attrs.field(factory=dict)

    @classmethod
    def heap(cls, memory: HostMemory) -> Arena:
        return cls(memory, "heap", HEAP_MAX_SIZE, MMAP_THRESHOLD, CHUNK_HEADER)

    @classmethod
    def stack(cls, memory: HostMemory) -> Arena:
        return cls(memory, "stack", STACK_SIZE, STACK_ARRAY_LIMIT, 0)

    def allocate(self, nbytes: int, align: int = 16) -> int:
        """Return an address, a multiple of `align` (a power of two), for a new block of `nbytes` bytes."""
        if free := self.bin_of(nbytes, align):
            return free.pop()
        if nbytes >= self.large:
            address = self.memory.allocate(nbytes, max(align, PAGE), self.region)
        else:
            address = self._next_address(align)
            if address + nbytes > self._end:
                self._top = self.memory.allocate(self.extent, PAGE, self.region)
                self._end = self._top + self.extent
                address = self._next_address(align)
            self._top = address + nbytes
        return address

    def bin_of(self, nbytes: int, align: int) -> Bin:
        """Return the bin (a list of freed blocks) to which blocks of this size and alignment belong."""
        return self._bins.setdefault((nbytes, align), [])

    def _next_address(self, align: int) -> int:
        return -(-(self._top + self.gap) // align) * align


class ProgramArrays:
    """Makes and frees a program's arrays, and reports them to managed memory and to devices that use host memory.

    phantom: whether arrays have no values unless a caller asks for values.
    """

    def __init__(self, machine: Machine, devices: Sequence[OffloadDevice], phantom: bool) -> None:
        self.heap_blocks: dict[int, Bin] = {}
        """For each allocated heap block of the program, by its address: the bin to which the block returns."""
        self.tell: Tell | None = None
        self.watch: Watch | None = None
        """Makes the view of an array's values that the program's Python gets, for an observer; None without one."""
        self._sim = machine.sim
        self._memory = machine.host_memory
        self._devices = devices
        self._phantom = phantom
        self._managed = [uvm for device in devices if (uvm := device.driver.managed.uvm) is not None]
        self._in_place = any(device.uses_system_memory for device in devices)
        self._globals_on_host = any(device.globals_on_host for device in devices)
        self._devices_reach_host = any(reaches_host(device) for device in devices)

    def make(
        self,
        name: str,
        shape: int | tuple[int, ...],
        dtype: DTypeLike,
        fill: Any,
        phantom: bool | None,
        kind: Kind,
        align: int,
        heap: Arena,
        stack: Arena,
    ) -> HostArray:
        """Make an array at an emulated address. Its pages are populated if `fill` is given.

        kind: where it lies: `heap` (with a pointer variable on the stack), `static` (on the stack), `global` or `link`
        (declare target enter or link). heap, stack: the calling thread's memory. phantom: whether it has no values
        (None: the program decides). align: its address is a multiple of this.
        """
        if not isinstance(name, str):
            raise TypeError(f"array {name!r}: its name comes first, as a text, then its size")
        if kind not in get_args(Kind):
            raise ValueError(f"array {name!r}: no kind {kind!r}; there are {', '.join(get_args(Kind))}")
        if not is_integer(align) or align < 1 or align & (align - 1):
            raise ValueError(f"array {name!r}: align is {align!r:.80}, but an alignment is a power of two")
        if not isinstance(phantom, bool | np.bool_ | None):
            raise TypeError(f"array {name!r}: phantom is {phantom!r:.80}, but must be True, False or None")
        lengths, element = shape_of(name, shape), element_of(name, dtype)
        ghost = self._phantom if phantom is None else phantom
        values = None if ghost else make_values(name, lengths, element, fill)
        nbytes = math.prod(lengths) * element.itemsize
        memory = self._memory
        pointer = 0
        if kind == "heap":
            address = self.allocate(heap, nbytes, align)
            pointer = stack.allocate(POINTER_BYTES, 8)
        elif kind == "static":
            address = stack.allocate(nbytes, align)
        else:
            address = memory.allocate(max(1, nbytes), align, "global")  # each has an address of its own
            if kind == "link" or self._globals_on_host:
                pointer = memory.allocate(POINTER_BYTES, 8, "global")
        array = HostArray(name, address, lengths, element, kind, pointer, values, watch=self.watch)
        return self.add(array, fill is not None)

    def allocate(self, heap: Arena, nbytes: int, align: int) -> int:
        """Allocate a block of the C library's heap, from a thread's arena, and return the block's address."""
        address = heap.allocate(nbytes, align)
        self.heap_blocks[address] = heap.bin_of(nbytes, align)
        return address

    def add(self, array: HostArray, written: bool) -> HostArray:
        """Register and return an array that has an address. written: whether the program has populated its pages."""
        begin, nbytes = array.address, array.nbytes
        if self.tell is not None:
            self.tell(ArrayMade(array))
        if written and nbytes:
            self._memory.pages.insert(begin, begin + nbytes)
        for managed in self._managed:
            add = managed.add_system if self._in_place else managed.add
            add(begin, nbytes, written, array.name)
        if self._devices_reach_host:
            self._memory.contents.add(array)
        return array

    def take_heap_block(self, array: HostArray) -> Bin:
        """End the use of a heap array's block; return the bin (list of free blocks) that the block came from.

        The caller appends the array's address to the bin, and so makes the block free. Raises InvalidFree if the array
        was freed before, or if no allocation begins at its address.
        """
        if not isinstance(array, HostArray):
            raise TypeError(f"free takes an array of the program, not {array!r}")
        home = None if array.freed else self.heap_blocks.pop(array.address, None)
        if home is None:
            why = "it was freed before" if array.freed else f"no allocation begins at {array.address:#x}"
            raise InvalidFree.now(self._sim, f"free of {array.name!r}: {why}", call="free", array=array.name)
        return home

    def free(self, array: HostArray) -> None:
        """Give a heap array's memory back to its arena. Raises InvalidFree as `take_heap_block` does."""
        self.take_heap_block(array).append(array.address)
        self.forget(array)

    def forget(self, array: HostArray, freed: bool = True) -> None:
        """Unregister an array. `freed`: whether the program frees it; otherwise it disappears without a free."""
        array.freed = freed
        if freed and self.tell is not None:
            self.tell(ArrayFreed(array))
        for managed in self._managed:  # nobody owns its pages any more
            managed.blocks.remove(array.address, array.nbytes)
        self._memory.contents.remove(array.address)
        for device in self._devices:
            if device.hooks.freed is not None:
                device.hooks.freed(array)
            device.table.generation += 1  # positions in it that are remembered hold no longer


@attrs.define(eq=False)
class DeviceGlobals:
    """A program's globals of declare target, with their places in the device images (the program on each device).

    `load` loads the image on devices that have none, and adds the globals declared so far to every device's image.
    """

    devices: list[OffloadDevice]
    lock: Lock
    declared: list[HostArray] = attrs.field(factory=list)
    _loaded: int = 0
    _bare: list[OffloadDevice] = attrs.field(init=False)
    """Devices on which the image has not been loaded yet."""
    pending: bool = attrs.field(init=False)
    """Whether `load` has anything to do."""

    def __attrs_post_init__(self) -> None:
        self._bare = [device for device in self.devices if device.plugin.image_pending]
        self.pending = bool(self._bare)

    def declare(self, array: HostArray) -> None:
        """Add a variable of ``declare target``, with or without ``link``, to the program's device image."""
        self.declared.append(array)
        self.pending = True

    async def load(self) -> None:
        """Load the program image on the devices; the first thread that uses a device does so, and others wait."""
        await take(self.lock, self.devices[0].machine.host_time)
        try:
            while self._bare:
                await self._bare[0].plugin.load_image(self.devices[0].sim.current.cause)
                # Only now: should this thread be left early, the next one loads the image.
                self._bare.pop(0)
            while self._loaded < len(self.declared):
                array = self.declared[self._loaded]
                for device in self.devices:
                    await self._load_one(device, array)
                self._loaded += 1
            self.pending = False
        finally:
            self.lock.release()

    async def _load_one(self, device: OffloadDevice, array: HostArray) -> None:
        pointer = array.pointer_address
        begin, size = (pointer, POINTER_BYTES) if pointer else (array.address, array.nbytes)
        phantom = array.phantom and not pointer
        if device.table.at(begin) is not None:  # a thread that was loading it left early
            return
        address = await device.driver.memory.alloc(max(1, size), phantom=phantom)
        if not phantom:
            device.memory.view(address, size)[:] = self._initial(device, array)
        entry = Entry(
            name=f"{array.name}_decl_tgt_ref_ptr" if pointer else array.name,
            host_base=begin,
            host_begin=begin,
            host_end=begin + size,
            device_begin=address,
            dynamic=INFINITE,
            hold=0,
            lock=device.entry_locks.take(array.name),
            phantom=phantom,
            owned=False,
        )
        enter_entry(device, device.sim.current.cause, entry)

    def _initial(self, device: OffloadDevice, array: HostArray) -> Bytes | int:
        """Return the image's initial value for a global: zeros, or the host's bytes."""
        if not device.host_pointers:
            return 0
        if array.pointer_address:
            return np.array([array.address], "<u8").view(np.uint8)
        return 0 if array.bytes is None else array.bytes

    def binding(self, device: OffloadDevice, array: HostArray) -> Binding | None:
        """Return where a kernel finds a global; None for another array, or while its device pointer is not attached."""
        if array.kind not in ("global", "link"):
            return None
        entry = device.table.at(array.pointer_address or array.address)
        if entry is None or not array.pointer_address:
            return None if entry is None else entry.binding
        shadow = entry.shadow_pointers.get(array.pointer_address)
        if shadow is not None:
            return shadow.pointee  # also after its block was freed: the pointer is not reset
        return ON_HOST if device.host_pointers else None
