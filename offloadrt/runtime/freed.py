"""The use of an array of the host after the program has given its memory back."""

from __future__ import annotations

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.errors import FreedHostMemory
from offloadrt.runtime.host_array import HostArray


def check_alive(device: OffloadDevice, array: HostArray, call: str) -> None:
    """Raise FreedHostMemory when `call` uses an array that was freed."""
    if array.freed:
        message = f"<{array.name}+0> ({array.nbytes} bytes) was freed"
        raise device.error(FreedHostMemory, message, call, array.name)
