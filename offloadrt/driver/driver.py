"""The driver library of a device, whichever it is: what CUDA's (`CudaDriver`) and ROCr (`Rocr`) both have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from offloadrt.driver.cuda.driver import CudaDriver
from offloadrt.driver.cuda.launches import Graphs
from offloadrt.driver.rocr import Rocr
from offloadrt.driver.uvm.faults import FaultBatch
from offloadrt.driver.uvm.uvm import Advice, Uvm
from offloadrt.machine import Device, Machine
from offloadrt.sim import LockStatistics


class BlockCalls(Protocol):
    """The calls for blocks of the device, which allocators make."""

    async def alloc(self, nbytes: int, phantom: bool = False) -> int: ...
    async def free(self, address: int) -> None: ...


class ManagedCalls(Protocol):
    """The calls for managed memory. All but ``uvm`` raise DriverError where nothing migrates."""

    @property
    def uvm(self) -> Uvm | None:
        """Return the unified-memory driver, once the program uses managed memory."""

    def start(self) -> Uvm:
        """Use managed memory from now on, its actors included; called by a running actor."""

    async def alloc(self, nbytes: int, *, name: str = "") -> int:
        """Allocate managed memory, whatever the program's other arrays are; return its address."""

    async def free(self, address: int) -> None: ...
    async def advise(self, address: int, nbytes: int, advice: Advice) -> None:
        """Say how managed memory will be used."""


class PinningCalls(Protocol):
    """The calls for pinned memory of the host, whose copies need no staging. DriverError where there is none."""

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
        """Spawn the actors below. Called by a running actor."""

    def share_buffer(self) -> None:
        """Have one copy of pageable memory at a time staged where copies need staging; call it before any copy."""

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of its locks, by name."""

    def engines(self) -> Mapping[str, Any]:
        """Return what its own actors did, by name."""

    def faults(self) -> dict[str, int]:
        """Return the page faults so far, by kind."""

    def fault_batches(self) -> Sequence[FaultBatch]:
        """Return the batches in which faults on managed memory were served so far."""


def open_drivers(views: Sequence[Machine], devices: int = 1) -> Sequence[Sequence[Driver]]:
    """Return the driver libraries of each process on its first ``devices`` devices, as ``driver.api`` says.

    Each process has a view of the machine; all share the kernel drivers.
    """
    return Rocr.open(views, devices) if views[0].spec.text("driver.api") == "rocr" else CudaDriver.open(views, devices)


def open_driver(machine: Machine) -> Driver:
    """Return the driver library of a machine's first device, in a process that uses no other."""
    return open_drivers([machine])[0][0]
