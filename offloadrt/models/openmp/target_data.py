"""The region of ``target data``: items are mapped at its begin and unmapped at its end."""

from __future__ import annotations

from collections.abc import Sequence

from offloadrt.models.host.data_works import ending
from offloadrt.models.host.directive import in_directive, leave_region
from offloadrt.models.host.region import Region
from offloadrt.models.openmp.lowering import at_data_end
from offloadrt.models.openmp.routines import RoutineCaller, in_place, initial_device, is_host
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.device_pointer import DevicePointer
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.data_environment import target_data_begin
from offloadrt.runtime.mapping.map_item import RETURN_PARAM, MapItem


class TargetData(Region[dict[HostArray, DevicePointer | None]]):
    """A ``target data`` region. The pointers are None for arrays that are not mapped."""

    directive = "target_data"

    def __init__(self, thread: RoutineCaller, items: Sequence[MapItem], device: int | None) -> None:
        self._thread = thread
        self._device = device
        self._items = items
        self.made()

    @property
    def _number(self) -> int:
        """Look up the default device; as in LLVM, begin and end each do so."""
        return self._thread.default_device if self._device is None else self._device

    async def begin(self) -> dict[HostArray, DevicePointer | None]:
        items = self._items
        if is_host(self._thread, self._number):
            host = initial_device(self._thread)
            arrays = [item.array for item in items if item.type & RETURN_PARAM and item.array is not None]
            return {array: in_place(array, array.address, host, array.shape) for array in arrays}
        pointers: dict[HostArray, DevicePointer | None] = {}

        async def begin(where: OffloadDevice, queue: DirectiveQueue) -> None:
            addresses = await target_data_begin(where, items, queue, "target data")
            for position, address in addresses.items():
                array = items[position].array
                if array is not None:
                    pointers[array] = None if address is None else _pointer(array, address, where)

        await in_directive(self._thread.program, "target data", self._number, begin)
        return pointers

    async def end(self) -> None:
        if is_host(self._thread, self._number):
            return
        items = at_data_end(self._items)
        work = ending(items, "target data")
        await in_directive(self._thread.program, "target data end", self._number, work, items)

    def leave(self) -> None:
        if not is_host(self._thread, self._number):
            leave_region(self._thread.program, "target data end", self._number, at_data_end(self._items))


def _pointer(array: HostArray, address: int, where: OffloadDevice) -> DevicePointer:
    entry = where.table.lookup(array.address, 0).entry
    whole = entry is None or (entry.host_begin <= array.address and array.address + array.nbytes <= entry.host_end)
    part = None if entry is None or whole or entry.device_address(array.address) != address else entry.binding
    return DevicePointer(
        address, array.nbytes, where.number, array.phantom, array.dtype, array.shape, binding=part, array=array
    )
