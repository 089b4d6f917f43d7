"""Globals of declare target: their place on each device, and how a kernel reaches them.

``enter``: the device image holds the global itself; its table entry is there from the start and infinite. ``link``: the
image holds a reference pointer, which an attachment fills when the variable is mapped. Under unified shared memory
`enter` has a reference pointer as well. Where the device uses host memory in place, the image is copied from the host
when it is loaded (`loadImagesOntoDevice`): reference pointers then lead to the host's globals, until a map with `close`
attaches a block.
"""

from __future__ import annotations

import attrs
import numpy as np

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.host_array import POINTER_BYTES, Bytes, HostArray
from offloadrt.runtime.lock_wait import take
from offloadrt.runtime.mapping.data_environment import enter_entry
from offloadrt.runtime.mapping.present_table import INFINITE, ON_HOST, Binding, Entry
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
        """Return what the image holds at first: zeros, or the host's bytes."""
        if not device.host_pointers:
            return 0
        if array.pointer_address:
            return np.array([array.address], "<u8").view(np.uint8)
        return 0 if array.bytes is None else array.bytes

    def binding(self, device: OffloadDevice, array: HostArray) -> Binding | None:
        """Return where a kernel finds a global; None if its pointer leads nowhere."""
        if array.kind not in ("global", "link"):
            return None
        entry = device.table.at(array.pointer_address or array.address)
        if entry is None or not array.pointer_address:
            return None if entry is None else entry.binding
        shadow = entry.shadow_pointers.get(array.pointer_address)
        if shadow is not None:
            return shadow.pointee  # also after its block was freed: the pointer is not reset
        return ON_HOST if device.host_pointers else None
