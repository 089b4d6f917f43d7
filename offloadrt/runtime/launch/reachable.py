"""What a kernel reaches through an address that it was given, or finds in memory.

It is a block of the device, or, where the device uses host memory in place, an array of the program.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from offloadrt.machine.memory.backing import Bytes
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.device_pointer import DevicePointer
from offloadrt.runtime.launch.kernel_arguments import Pointees


def reaches_host(device: OffloadDevice) -> bool:
    """Tell whether kernels of the device reach host memory by its addresses."""
    return device.plugin.kernels_fault or device.host_pointers


@attrs.frozen(eq=False)
class Reachable:
    """The memory that kernels of a device reach."""

    device: OffloadDevice

    def view(self, address: int, nbytes: int) -> Bytes:
        """Return the bytes [address, address + nbytes), writable. Raises InvalidDeviceAddress."""
        device = self.device
        if reaches_host(device) and (contents := device.machine.host_memory.contents).find(address) is not None:
            return contents.view(address, nbytes)
        return device.memory.view(address, nbytes)


def pointed_to(device: OffloadDevice, arguments: Iterable[object]) -> tuple[tuple[int, int], ...]:
    """List (address, bytes) of host memory that a launch with these arguments reaches through pointers.

    These are device pointers of the program's, and those in arrays as the host has them now.
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
