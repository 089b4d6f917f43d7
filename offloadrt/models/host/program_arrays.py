"""The arrays that a program makes in the memory of the host, whatever model it is written in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, get_args

from numpy.typing import DTypeLike

from offloadrt.machine import Machine
from offloadrt.models.host.host_places import Arena
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.errors import InvalidFree
from offloadrt.runtime.events import ArrayFreed, ArrayMade, ProgramObserver
from offloadrt.runtime.host_array import POINTER_BYTES, HostArray, Kind, element_of, make_values, shape_of
from offloadrt.runtime.launch.kernel_arguments import reaches_host
from offloadrt.runtime.observed_array import ObservedArray


class ProgramArrays:
    """Makes the arrays of a program and takes them back; devices that reach host memory are told of them.

    phantom: are arrays made without values unless they say otherwise?
    """

    def __init__(self, machine: Machine, devices: Sequence[OffloadDevice], phantom: bool) -> None:
        self.heap_blocks: dict[int, Arena] = {}
        """What the program has of the C library's heap: the arena that each block came from, by address."""
        self.observer: ProgramObserver | None = None
        self._sim = machine.sim
        self._memory = machine.host_memory
        self._devices = devices
        self._phantom = phantom
        self._managed = [uvm for device in devices if (uvm := device.driver.managed.uvm) is not None]
        self._pages_matter = any(device.plugin.kernels_fault for device in devices)
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
        """Make an array at a modelled address; with `fill` its pages are populated.

        A heap array gets a pointer variable on the stack.
        """
        if not isinstance(name, str):
            raise TypeError(f"array {name!r}: its name comes first, as a text, then its size")
        if kind not in get_args(Kind):
            raise ValueError(f"array {name!r}: no kind {kind!r}; there are {', '.join(get_args(Kind))}")
        lengths, element = shape_of(name, shape), element_of(name, dtype)
        ghost = self._phantom if phantom is None else phantom
        values = None if ghost else make_values(name, lengths, element, fill)
        nbytes = math.prod(lengths) * element.itemsize
        memory = self._memory
        pointer = 0
        if kind == "heap":
            address = heap.allocate(nbytes, align)
            self.heap_blocks[address] = heap
            pointer = stack.allocate(POINTER_BYTES, 8)
        elif kind == "static":
            address = stack.allocate(nbytes, align)
        else:
            address = memory.allocate(max(1, nbytes), align, "global")  # each has an address of its own
            if kind == "link" or self._globals_on_host:
                pointer = memory.allocate(POINTER_BYTES, 8, "global")
        if self.observer is None:
            array = HostArray(name, address, lengths, element, kind, pointer, values)
        else:
            array = ObservedArray(name, address, lengths, element, kind, pointer, values, observer=self.observer)
        return self.place(array, fill is not None)

    def place(self, array: HostArray, written: bool) -> HostArray:
        """Let an array lie where it says. written: the program has populated its pages."""
        begin, nbytes = array.address, array.nbytes
        if self.observer is not None:
            self.observer.handle(ArrayMade(array))
        if written and nbytes and self._pages_matter:
            self._memory.pages.insert(begin, begin + nbytes)
        for managed in self._managed:
            add = managed.add_system if self._in_place else managed.add
            add(begin, nbytes, written, array.name)
        if self._devices_reach_host:
            self._memory.contents.add(array)
        return array

    def take_heap_block(self, array: HostArray) -> Arena:
        """Take an array's block from the program, and return its arena, whichever thread frees it.

        Raises InvalidFree where no allocation begins.
        """
        arena = None if array.freed else self.heap_blocks.pop(array.address, None)
        if arena is None:
            why = "it was freed before" if array.freed else f"no allocation begins at {array.address:#x}"
            raise InvalidFree.now(self._sim, f"free of {array.name!r}: {why}", call="free", array=array.name)
        return arena

    def free(self, array: HostArray) -> None:
        """Give the memory of a heap array back to the arena that it came from. Raises InvalidFree."""
        self.take_heap_block(array).release(array.address)
        self.forget(array)

    def forget(self, array: HostArray, freed: bool = True) -> None:
        """Let the memory of an array be the program's no more. freed: it frees it now; else it has ended unseen."""
        array.freed = freed
        if freed and self.observer is not None:
            self.observer.handle(ArrayFreed(array))
        for managed in self._managed:  # nobody owns its pages any more
            managed.remove(array.address, array.nbytes)
        self._memory.contents.remove(array.address)
        for device in self._devices:
            if device.hooks.freed is not None:
                device.hooks.freed(array)
            device.table.generation += 1  # what is remembered of places in it holds no longer
