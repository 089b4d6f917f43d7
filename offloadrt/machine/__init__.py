"""The hardware: cores, memories, links, copy engines, hardware queues, compute units, and their profiles.

========================  ========================================================================================
``load``, ``available``   profiles of machines: TOML files whose entries name their source (``profiles/*.toml``)
``Machine``               the hardware of one run: ``cores``, ``host_memory``, ``devices``, ``host_time``
``Device``                ``memory``, ``compute`` units, copy ``engines``, hardware ``queues``
``FairShare``             division of a bandwidth or of the SMs among its users: the only place where a number of
                          users yields a time
========================  ========================================================================================

What an operation costs alone is in the profile.  What it costs among others is never computed: it is what happens when
actors wait for one another, or what ``share.py`` leaves them.
"""

from __future__ import annotations

from offloadrt.machine.compute_units import ComputeSpec, ComputeStatistics, ComputeUnits
from offloadrt.machine.copy_engine import CopyEngines, EngineSpec, EngineStatistics
from offloadrt.machine.cores import Cores, CoreStatistics
from offloadrt.machine.device import Device
from offloadrt.machine.device_memory import Block, DeviceArray, DeviceMemory, InvalidDeviceAddress, OutOfSegments
from offloadrt.machine.entry import Entry, RangeEnd
from offloadrt.machine.hardware_queue import HardwareQueue, HardwareQueues, QueueStatistics
from offloadrt.machine.host_memory import HostBuffer, HostMemory, HostMemoryStatistics
from offloadrt.machine.machine import Machine, Statistics
from offloadrt.machine.messages import MESSAGES
from offloadrt.machine.occupancy import LaunchOutOfResources, SMLimits
from offloadrt.machine.profile import MachineSpec, ProfileError, UnknownEntry, available, load
from offloadrt.machine.share import FairShare, SharedPool
from offloadrt.machine.stream import Stream

__all__ = [
    "MESSAGES",
    "Block",
    "ComputeSpec",
    "ComputeStatistics",
    "ComputeUnits",
    "CopyEngines",
    "CoreStatistics",
    "Cores",
    "Device",
    "DeviceArray",
    "DeviceMemory",
    "EngineSpec",
    "EngineStatistics",
    "Entry",
    "FairShare",
    "HardwareQueue",
    "HardwareQueues",
    "HostBuffer",
    "HostMemory",
    "HostMemoryStatistics",
    "InvalidDeviceAddress",
    "LaunchOutOfResources",
    "Machine",
    "MachineSpec",
    "OutOfSegments",
    "ProfileError",
    "QueueStatistics",
    "RangeEnd",
    "SMLimits",
    "SharedPool",
    "Statistics",
    "Stream",
    "UnknownEntry",
    "available",
    "load",
]
