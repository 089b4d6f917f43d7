"""The driver library of a device, as host threads call it: allocation, pinning, streams, events, copies, kernels.

``Driver`` has one coroutine for each call, under the names of CUDA's driver API: those for memory in its base
``DriverMemory``, what they all work on in ``Library``.  ``Context`` holds the lock that they take; ``Copies`` knows the
way of each copy, ``PeerCopies`` that of copies between devices, and ``Staging`` that of pageable memory; ``Halting`` is
what allocations and frees do to running kernels.  On an APU the library is ``Rocr``, under the names of the HSA runtime
(below it ``RocrMemory`` and ``RocrLibrary``), with its ``AsyncHandler``; ``Kfd`` is the kernel driver.  ``Uvm`` is the
part of a discrete device's kernel driver that migrates managed memory, with its ``UvmFaultHandler`` and
``MigrationWorker``.  ``open_driver`` makes the library that a machine has.
"""

from __future__ import annotations

from offloadrt.driver.cuda.call_names import call_name
from offloadrt.driver.cuda.context import Context
from offloadrt.driver.cuda.copies import Copies, HostRange
from offloadrt.driver.cuda.costs import DriverCosts
from offloadrt.driver.cuda.driver import Driver, DriverStatistics
from offloadrt.driver.cuda.event import StreamEvent
from offloadrt.driver.cuda.peer_copies import PeerCopies
from offloadrt.driver.cuda.pinning import PinnedRanges
from offloadrt.driver.cuda.staging import Staging
from offloadrt.driver.errors import DriverError, OutOfDeviceMemory
from offloadrt.driver.halting import Halting
from offloadrt.driver.kfd.kfd import Kfd, KfdStatistics
from offloadrt.driver.rocr.async_handler import AsyncHandler, RunHandler
from offloadrt.driver.rocr.blit import blit
from offloadrt.driver.rocr.hsa_signal import HsaSignal
from offloadrt.driver.rocr.rocr import Rocr
from offloadrt.driver.touching import NOTHING, Touching
from offloadrt.driver.uvm.counters import UvmCounters
from offloadrt.driver.uvm.uvm import ADVICE, Advice, Uvm
from offloadrt.machine import Machine

__all__ = [
    "ADVICE",
    "NOTHING",
    "Advice",
    "AsyncHandler",
    "Context",
    "Copies",
    "Driver",
    "DriverCosts",
    "DriverError",
    "DriverStatistics",
    "Halting",
    "HostRange",
    "HsaSignal",
    "Kfd",
    "KfdStatistics",
    "OutOfDeviceMemory",
    "PeerCopies",
    "PinnedRanges",
    "Rocr",
    "RunHandler",
    "Staging",
    "StreamEvent",
    "Touching",
    "Uvm",
    "UvmCounters",
    "blit",
    "call_name",
    "open_driver",
]


def open_driver(machine: Machine, number: int = 0) -> Driver | Rocr:
    """Return the driver library of a machine's device ``number``, as the profile's ``driver.api`` says."""
    return Rocr.of(machine, number) if machine.spec.text("driver.api") == "rocr" else Driver.of(machine, number)
