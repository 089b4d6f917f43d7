"""The offloading runtime: what LLVM's libomptarget does between a directive and the driver.

Start with `data_environment.py` (begin, end and update of a data environment) and `mapping.py` (who holds which lock
while one item is looked up, allocated, copied and removed). `present_table.py` is the table itself,
`table_arbiter.py` the actor that decides who enters it, `target.py` the launch of a target region, `touching.py` what
of the host's memory it reaches, `device.py` one device with all of that. Only plugins talk to the driver:
`cuda_plugin.py` to CUDA's, `amdgpu_plugin.py` to ROCr. A memory configuration (`configurations/`) decides what a map
means, an allocator (`allocators/`) how device blocks are obtained.
"""

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.device_pointer import DevicePointer
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
from offloadrt.runtime.host_array import HostArray, HostSpan
from offloadrt.runtime.map_item import MapItem
from offloadrt.runtime.present_table import Entry, PresentTable

__all__ = [
    "DeviceEnded",
    "DevicePointer",
    "Entry",
    "FreedHostMemory",
    "HostArray",
    "HostSpan",
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
    "PresentTable",
    "UnifiedMemoryUnavailable",
]
