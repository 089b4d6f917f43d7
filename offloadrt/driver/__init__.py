"""The driver of a device, as host threads and their runtime call it.

============  ======================================================================================================
``cuda``      CUDA's driver library of a discrete device: ``CudaDriver``, with a coroutine for each call
``rocr.py``   ROCr, the driver library of an APU: ``Rocr``, with a coroutine for each call
``uvm``       the unified-memory driver of a discrete device: ``Uvm``, which migrates managed memory
``kfd.py``    the kernel driver of an APU: ``Kfd``, with pool memory, prefaults and page faults
============  ======================================================================================================

``open_drivers`` makes the libraries that a machine has (``driver.py``, with the protocol ``Driver`` that both meet).
Calls are grouped by topic (``driver.memory.alloc``).  They run in the calling thread, cost what the profile says, and
wait for one another at the library's locks.  ``calls.py`` accounts for them and has the errors that they raise,
``halting.py`` what allocations and frees do to running kernels.  What a call costs alone is in ``DriverCosts``,
``RocrCosts`` and ``KfdCosts``; actors and messages are in ``README.md``.  To follow one call from top to bottom, open
``cuda/driver.py``.
"""

from __future__ import annotations

from offloadrt.driver.calls import CALLS, NOTHING, DeviceLost, DriverError, OutOfDeviceMemory, Touching, call_name
from offloadrt.driver.cuda.context import BuiltGraph, CapturedGraph, CaptureMode, Schedule, StreamEvent, TimedEvent
from offloadrt.driver.cuda.driver import CudaDriver
from offloadrt.driver.cuda.launches import GraphExec, Graphs
from offloadrt.driver.cuda.process import MemPool, PoolAttributes
from offloadrt.driver.driver import BlockCalls, Driver, open_driver, open_drivers
from offloadrt.driver.kfd import Kfd
from offloadrt.driver.rocr import HsaSignal, Rocr, RunHandler
from offloadrt.driver.uvm.costs import UvmCounters
from offloadrt.driver.uvm.faults import FaultBatch
from offloadrt.driver.uvm.uvm import ADVICE, Advice, Uvm

__all__ = [
    "ADVICE",
    "CALLS",
    "NOTHING",
    "Advice",
    "BlockCalls",
    "BuiltGraph",
    "CaptureMode",
    "CapturedGraph",
    "CudaDriver",
    "DeviceLost",
    "Driver",
    "DriverError",
    "FaultBatch",
    "GraphExec",
    "Graphs",
    "HsaSignal",
    "Kfd",
    "MemPool",
    "OutOfDeviceMemory",
    "PoolAttributes",
    "Rocr",
    "RunHandler",
    "Schedule",
    "StreamEvent",
    "TimedEvent",
    "Touching",
    "Uvm",
    "UvmCounters",
    "call_name",
    "open_driver",
    "open_drivers",
]
