from offloadrt.machine.compute.compute_units import ComputeUnits
from offloadrt.machine.compute.residency import ComputeSpec, LaunchOutOfResources, SMLimits
from offloadrt.machine.device import Apu, Device, DiscreteGpu, Statistics
from offloadrt.machine.host import HostMemory
from offloadrt.machine.injection import ThreadDied
from offloadrt.machine.links.peers import Peers
from offloadrt.machine.machine import Machine
from offloadrt.machine.memory import (
    AccessFault,
    Block,
    DeviceArray,
    DeviceMemory,
    InvalidDeviceAddress,
    MemoryAccessFault,
    OutOfSegments,
    PageTable,
)
from offloadrt.machine.messages import Stream
from offloadrt.machine.profile.entry import ProfileEntry
from offloadrt.machine.profile.machine_spec import (
    MachineSpec,
    ProfileError,
    UnknownEntry,
    available,
    available_runtimes,
    load,
    load_runtime,
    of_packages,
)
from offloadrt.machine.share import FairShare, SharedPool

__all__ = [
    "AccessFault",
    "Apu",
    "Block",
    "ComputeSpec",
    "ComputeUnits",
    "Device",
    "DeviceArray",
    "DeviceMemory",
    "DiscreteGpu",
    "FairShare",
    "HostMemory",
    "InvalidDeviceAddress",
    "LaunchOutOfResources",
    "Machine",
    "MachineSpec",
    "MemoryAccessFault",
    "OutOfSegments",
    "PageTable",
    "Peers",
    "ProfileEntry",
    "ProfileError",
    "SMLimits",
    "SharedPool",
    "Statistics",
    "Stream",
    "ThreadDied",
    "UnknownEntry",
    "available",
    "available_runtimes",
    "load",
    "load_runtime",
    "of_packages",
]
