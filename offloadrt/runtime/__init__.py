"""The offloading runtime: what LLVM's libomptarget does between a directive and the driver.

Start with `mapping/data_environment.py` (what a construct does with its map items) or `launch/target.py` (a target
region). `device.py` is one device with all that belongs to it. Only `plugins/` and `allocators/` call a driver library.
A memory configuration (`configurations/`) decides what a map means, an allocator how device blocks are obtained, and a
lock policy (`machine/host_lock/`) which thread enters the present table next (``table.handoff``; the driver's locks
follow the policy too).
"""

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.errors import (
    DeviceEnded,
    FreedHostMemory,
    IllegalAddress,
    InvalidDevice,
    InvalidFree,
    MappingError,
    NotPresent,
    OffloadError,
    OutsideArray,
    PlacementError,
    UnifiedMemoryUnavailable,
)
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.present_table import DevicePointer

__all__ = [
    "DeviceEnded",
    "DevicePointer",
    "FreedHostMemory",
    "HostArray",
    "IllegalAddress",
    "InvalidDevice",
    "InvalidFree",
    "MapItem",
    "MappingError",
    "NotPresent",
    "OffloadDevice",
    "OffloadError",
    "OutsideArray",
    "PlacementError",
    "UnifiedMemoryUnavailable",
]
