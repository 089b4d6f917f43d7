"""The driver of a device, as host threads and their runtime call it.

============  ======================================================================================================
``cuda``      CUDA's driver library of a discrete device: ``CudaDriver``, with a coroutine for each call
``rocr.py``   ROCr, the driver library of an APU: ``Rocr``, with a coroutine for each call
``uvm``       the unified-memory driver of a discrete device: ``Uvm``, which migrates managed memory
``kfd.py``    the kernel driver of an APU: ``Kfd``, with pool memory, prefaults and page faults
============  ======================================================================================================

``open_drivers`` makes the libraries that a machine has (``Driver`` is the protocol of both). Calls are grouped by topic
(``driver.memory.alloc``). They run in the calling thread, cost what the profile says, and wait for one another at the
library's locks. ``calls.py`` accounts for calls and has their errors; ``halting.py`` has the effects of allocations and
frees on running kernels. ``DriverCosts``, ``RocrCosts`` and ``KfdCosts`` have the cost of an uncontended call;
``README.md`` lists actors and messages. To follow one call from top to bottom, open ``cuda/driver.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from offloadrt.driver.calls import CALLS, NOTHING, DeviceLost, DriverError, KernelAccesses, OutOfDeviceMemory
from offloadrt.driver.cuda.context import BuiltGraph, CapturedGraph, CaptureMode, Schedule, TimedEvent
from offloadrt.driver.cuda.driver import CudaDriver
from offloadrt.driver.cuda.launches import GraphExec, Graphs
from offloadrt.driver.cuda.process import MemPool, PoolAttributes
from offloadrt.driver.kfd import Kfd
from offloadrt.driver.rocr import HsaSignal, Rocr, RunHandler
from offloadrt.driver.uvm.costs import UvmCounters
from offloadrt.driver.uvm.faults import FaultBatch
from offloadrt.driver.uvm.uvm import ADVICE, Advice, Uvm
from offloadrt.machine import Device, Machine
from offloadrt.sim import LockStatistics


class BlockCalls(Protocol):
    """Calls by which allocators get and free blocks of device memory; a ``phantom`` block has a size but no bytes."""

    async def alloc(self, nbytes: int, phantom: bool = False) -> int: ...
    async def free(self, address: int) -> None: ...


class ManagedCalls(Protocol):
    """The calls for managed memory. All except ``uvm`` raise DriverError on a device without migration."""

    @property
    def uvm(self) -> Uvm | None:
        """Return the unified-memory driver; None until the program uses managed memory."""

    def start(self) -> Uvm:
        """Begin to use managed memory: spawn the unified-memory driver's actors, and return this driver."""

    async def alloc(self, nbytes: int, *, name: str = "") -> int:
        """Allocate `nbytes` bytes of managed memory, and return the address. name: what reports call this memory."""

    async def free(self, address: int) -> None: ...
    async def advise(self, address: int, nbytes: int, advice: Advice) -> None:
        """Give advice (cuMemAdvise), such as `prefer_host`, on the use of a range of managed memory."""


class PinningCalls(Protocol):
    """Calls for pinned host memory, whose copies need no staging; DriverError if pinning is not emulated."""

    async def register(self, address: int, nbytes: int) -> None: ...
    async def unregister(self, address: int) -> None: ...
    async def alloc(self, nbytes: int) -> int:
        """Allocate pinned memory; return its address."""

    async def free(self, address: int) -> None: ...


class Driver(Protocol):
    """The driver library of one device, with its calls by topic: ``driver.memory.alloc``."""

    @property
    def machine(self) -> Machine: ...
    @property
    def device(self) -> Device: ...
    @property
    def memory(self) -> BlockCalls: ...
    @property
    def managed(self) -> ManagedCalls: ...
    @property
    def pinning(self) -> PinningCalls: ...
    @property
    def graphs(self) -> Graphs | None:
        """Return the calls for graphs; None for a library whose graphs are not emulated."""

    def start(self) -> None:
        """Spawn the actors (simulated tasks) of the kernel driver and the device. Called by a running actor."""

    def share_buffer(self) -> None:
        """Stage copies of pageable memory through one pinned buffer, one piece at a time; call this before any copy."""

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of the driver's locks, by name."""

    def engines(self) -> Mapping[str, Any]:
        """Return the statistics (busy and idle time, …) of the driver's own actors (simulated tasks), by name."""

    def faults(self) -> dict[str, int]:
        """Return the number of page faults so far, by kind."""

    def fault_batches(self) -> Sequence[FaultBatch]:
        """Return the batches in which faults on managed memory were served so far."""


def open_drivers(views: Sequence[Machine], devices: int = 1) -> Sequence[Sequence[Driver]]:
    """Return the driver libraries by process and device: those of the first ``devices`` devices of each process.

    ``views`` has a `Machine` object for each process. The profile's entry ``driver.api`` chooses the library. All
    processes on one node share the kernel drivers.
    """
    opened: list[Sequence[Driver]] = []
    for _, on_node in itertools.groupby(views, lambda view: view.node):
        node = list(on_node)
        is_rocr = node[0].spec.text("driver.api") == "rocr"
        opened += Rocr.open(node, devices) if is_rocr else CudaDriver.open(node, devices)
    return opened


def open_driver(machine: Machine) -> Driver:
    """Return the driver library of a machine's first device, in a process that uses no other device."""
    return open_drivers([machine])[0][0]


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
    "KernelAccesses",
    "Kfd",
    "MemPool",
    "OutOfDeviceMemory",
    "PoolAttributes",
    "Rocr",
    "RunHandler",
    "Schedule",
    "TimedEvent",
    "Uvm",
    "UvmCounters",
    "open_driver",
    "open_drivers",
]
