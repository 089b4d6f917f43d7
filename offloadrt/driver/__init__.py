"""The driver library of a device, as host threads call it: allocation, pinning, streams, events, copies, kernels.

``Driver`` has one coroutine for each call, under the names of CUDA's driver API; ``Context`` holds the lock that
they take; ``Copies`` knows the way of each copy, and ``Staging`` that of pageable memory; ``Halting`` is what
allocations and frees do to running kernels.
"""

from __future__ import annotations

from offloadrt.driver.context import Context
from offloadrt.driver.copies import Copies, HostRange
from offloadrt.driver.costs import DriverCosts
from offloadrt.driver.driver import Driver, DriverStatistics
from offloadrt.driver.errors import DriverError, OutOfDeviceMemory
from offloadrt.driver.event import Event
from offloadrt.driver.halting import Halting
from offloadrt.driver.pinning import PinnedRanges
from offloadrt.driver.staging import Staging

__all__ = [
    "Context",
    "Copies",
    "Driver",
    "DriverCosts",
    "DriverError",
    "DriverStatistics",
    "Event",
    "Halting",
    "HostRange",
    "OutOfDeviceMemory",
    "PinnedRanges",
    "Staging",
]
