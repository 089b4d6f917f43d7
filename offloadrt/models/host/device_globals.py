"""Globals of declare target: their place on each device, and how a kernel reaches them.

``enter``: the device image holds the global itself; its table entry is there from the start and infinite. ``link``: the
image holds a reference pointer, which an attachment fills when the variable is mapped. Under unified shared memory the
device uses the host's global.
"""

from __future__ import annotations

import attrs

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.host_array import POINTER_BYTES, HostArray
from offloadrt.runtime.lock_wait import take
from offloadrt.runtime.mapping.binding import Binding
from offloadrt.runtime.mapping.present_table import INFINITE, Entry
from offloadrt.runtime.mapping.table_visits import enter_entry
from offloadrt.sim import Lock


@attrs.define(eq=False)
class DeviceGlobals:
    """The globals of a program, and the devices' images that hold them.

    `load` puts those declared so far into every device's image, once, and the image itself on devices that have none.
    """

    devices: list[OffloadDevice]
    lock: Lock
    declared: list[HostArray] = attrs.field(factory=list)
    _loaded: int = 0
    _bare: list[OffloadDevice] = attrs.field(init=False)
    """Devices without the image."""

    def __attrs_post_init__(self) -> None:
        self._bare = [device for device in self.devices if device.plugin.image_pending]

    @property
    def pending(self) -> bool:
        """Tell whether there is anything to load."""
        return bool(self._bare) or self._loaded < len(self.declared)

    async def load(self) -> None:
        """Done by the first thread that reaches a device; others wait for it."""
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
        finally:
            self.lock.release()

    async def _load_one(self, device: OffloadDevice, array: HostArray) -> None:
        if array.kind == "global":
            if device.configuration.globals_on_host:
                return
            begin, size, phantom = array.address, array.nbytes, array.phantom
        else:
            begin, size, phantom = array.pointer_address, POINTER_BYTES, False
        if device.table.at(begin) is not None:  # a thread that was loading it left early
            return
        address = await device.driver.mem_alloc(max(1, size), phantom=phantom)
        if not phantom:
            device.memory.view(address, size)[:] = 0
        entry = Entry(
            name=array.name if array.kind == "global" else f"{array.name}_decl_tgt_ref_ptr",
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

    def binding(self, device: OffloadDevice, array: HostArray) -> Binding | None:
        """Return where a kernel finds a global; None if its pointer leads nowhere."""
        if array.kind not in ("global", "link"):
            return None
        if device.configuration.globals_on_host:
            return Binding(None, is_host=True)
        if array.kind == "global":
            entry = device.table.at(array.address)
            return None if entry is None else Binding(entry.device_begin, entry.host_begin, entry.host_end)
        pointer = device.table.at(array.pointer_address)
        shadow = None if pointer is None else pointer.shadow_pointers.get(array.pointer_address)
        if shadow is None:
            return None
        for entry in device.table:
            inside = array.address <= entry.host_begin < array.address + array.nbytes
            if inside and entry.device_address(array.address) == shadow.device_value:
                return Binding(entry.device_begin, entry.host_begin, entry.host_end)
        return None
