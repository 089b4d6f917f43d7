"""The driver of a device, as host threads and their runtime call it.

============  ======================================================================================================
``cuda``      CUDA's driver library of a discrete device: ``Driver``, with a coroutine for each call
``rocr``      ROCr, the driver library of an APU: ``Rocr``, with a coroutine for each call
``uvm``       the unified-memory driver of a discrete device: ``Uvm``, which migrates managed memory
``kfd``       the kernel driver of an APU: ``Kfd``, with pool memory, prefaults and page faults
============  ======================================================================================================

``open_driver`` makes the library that a machine has.  Calls run in the calling thread, cost what the profile says, and
wait for one another at the library's locks.  ``calls.py`` accounts for them, ``errors.py`` has the errors they raise,
``halting.py`` what allocations and frees do to running kernels, ``touching.py`` what a launch says of the memory that
its kernel reaches.  What a call costs alone is in the ``costs.py`` of each sub-package; actors and messages
are in ``README.md``.  To follow one call from top to bottom, open ``cuda/driver.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from offloadrt.driver.cuda import call_names as of_cuda
from offloadrt.driver.cuda.built_graph import BuiltGraph
from offloadrt.driver.cuda.call_names import call_name
from offloadrt.driver.cuda.capture import CapturedGraph, CaptureMode
from offloadrt.driver.cuda.context import Context
from offloadrt.driver.cuda.copies import Copies, HostRange
from offloadrt.driver.cuda.costs import DriverCosts
from offloadrt.driver.cuda.driver import Driver, DriverStatistics
from offloadrt.driver.cuda.event import StreamEvent, TimedEvent
from offloadrt.driver.cuda.graph_calls import GraphExec
from offloadrt.driver.cuda.memory_pool import MemPool, PoolAttributes, ReusePolicies
from offloadrt.driver.cuda.peer_copies import PeerCopies
from offloadrt.driver.cuda.pinning import PinnedRanges
from offloadrt.driver.cuda.staging import Staging
from offloadrt.driver.cuda.waiting import Schedule
from offloadrt.driver.errors import DeviceLost, DriverError, OutOfDeviceMemory
from offloadrt.driver.halting import Halting
from offloadrt.driver.kfd.kfd import Kfd, KfdStatistics
from offloadrt.driver.rocr import call_names as of_rocr
from offloadrt.driver.rocr.async_handler import AsyncHandler, RunHandler
from offloadrt.driver.rocr.blit import blit
from offloadrt.driver.rocr.hsa_signal import HsaSignal
from offloadrt.driver.rocr.rocr import Rocr
from offloadrt.driver.touching import NOTHING, Touching
from offloadrt.driver.uvm.counters import UvmCounters
from offloadrt.driver.uvm.gpu_faults import FaultBatch
from offloadrt.driver.uvm.uvm import ADVICE, Advice, Uvm
from offloadrt.machine import Machine

__all__ = [
    "ADVICE",
    "CALLS",
    "NOTHING",
    "Advice",
    "AsyncHandler",
    "BuiltGraph",
    "CaptureMode",
    "CapturedGraph",
    "Context",
    "Copies",
    "DeviceLost",
    "Driver",
    "DriverCosts",
    "DriverError",
    "DriverStatistics",
    "FaultBatch",
    "GraphExec",
    "Halting",
    "HostRange",
    "HsaSignal",
    "Kfd",
    "KfdStatistics",
    "MemPool",
    "OutOfDeviceMemory",
    "PeerCopies",
    "PinnedRanges",
    "PoolAttributes",
    "ReusePolicies",
    "Rocr",
    "RunHandler",
    "Schedule",
    "Staging",
    "StreamEvent",
    "TimedEvent",
    "Touching",
    "Uvm",
    "UvmCounters",
    "blit",
    "call_name",
    "open_driver",
    "share_process",
]

CALLS: Final = of_cuda.CALLS | of_rocr.CALLS
"""The names of all calls of all driver libraries, as faults name them."""


def open_driver(machine: Machine, number: int = 0, beside: Driver | Rocr | None = None) -> Driver | Rocr:
    """Return the driver library of a machine's device ``number``, as the profile's ``driver.api`` says.

    ``beside``: that of another process on the same device, whose kernel driver it has.
    """
    if machine.spec.text("driver.api") == "rocr":
        return Rocr.of(machine, number, beside if isinstance(beside, Rocr) else None)
    return Driver.of(machine, number, beside if isinstance(beside, Driver) else None)


def share_process(drivers: Sequence[Driver | Rocr]) -> None:
    """Let the drivers of one process share what it has once; call it before any of them manages memory."""
    of_process = [driver for driver in drivers if isinstance(driver, Driver)]
    if len(of_process) > 1:
        of_process[0].share_process(of_process[1:])
