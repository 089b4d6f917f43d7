from typing import TYPE_CHECKING

from offloadrt.models.openmp.clauses import (
    Depend,
    Map,
    Maps,
    Member,
    Motion,
    StructPointee,
    UseDevice,
    depend,
    from_,
    map,
    member,
    pointee,
    pointees,
    to,
    use_device_addr,
    use_device_ptr,
)
from offloadrt.models.openmp.host_thread import HostThread
from offloadrt.models.openmp.lowering import INITIAL_DEVICE, Construct, TargetClauses
from offloadrt.models.openmp.program import OpenMP, OpenMPOptions
from offloadrt.runtime.errors import (
    DeviceEnded,
    FreedHostMemory,
    IllegalAddress,
    InvalidDevice,
    InvalidFree,
    MappingError,
    OffloadError,
    OutsideArray,
    PlacementError,
    UnifiedMemoryUnavailable,
)
from offloadrt.runtime.host_array import Dimension, HostArray, Section, SectionExtent, array_section, section
from offloadrt.runtime.mapping.present_table import DevicePointer

if TYPE_CHECKING:  # a program finds these by entry points
    from offloadrt.extensions.recording.replay.lowered import LoweredItem, LoweredProgram
    from offloadrt.papers.exahype.memory_manager import GpuMemoryManager, ManagerStatistics, UnifiedMemoryManager

__all__ = [
    "INITIAL_DEVICE",
    "Construct",
    "Depend",
    "DeviceEnded",
    "DevicePointer",
    "Dimension",
    "FreedHostMemory",
    "GpuMemoryManager",
    "HostArray",
    "HostThread",
    "IllegalAddress",
    "InvalidDevice",
    "InvalidFree",
    "LoweredItem",
    "LoweredProgram",
    "ManagerStatistics",
    "Map",
    "MappingError",
    "Maps",
    "Member",
    "Motion",
    "OffloadError",
    "OpenMP",
    "OpenMPOptions",
    "OutsideArray",
    "PlacementError",
    "Section",
    "SectionExtent",
    "StructPointee",
    "TargetClauses",
    "UnifiedMemoryManager",
    "UnifiedMemoryUnavailable",
    "UseDevice",
    "array_section",
    "depend",
    "from_",
    "map",
    "member",
    "pointee",
    "pointees",
    "section",
    "to",
    "use_device_addr",
    "use_device_ptr",
]
