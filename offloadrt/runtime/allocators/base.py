"""The interface of every allocator of device blocks, and the parameters that it gets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import attrs

from offloadrt.driver import BlockCalls
from offloadrt.sim import LockStatistics, Simulation
from offloadrt.trace import HostTime


@attrs.frozen
class AllocatorSite:
    """The functions and options that a device gives to its allocator.

    driver: its calls for blocks. number: the device's. begins: tells whether a device block begins at an address. work:
    charges seconds of host time to the running thread. hand_out_s: seconds of one search of a free list. threshold:
    largest pooled request in bytes (LIBOMPTARGET_MEMORY_MANAGER_THRESHOLD). host_time: the account of waits for the
    allocator's locks. uncontended: whether the allocator's locks exclude nobody (an ablation). named: returns a lock's
    name in reports.
    """

    sim: Simulation
    driver: BlockCalls
    number: int
    begins: Callable[[int], bool]
    work: Callable[[float], Awaitable[None]]
    hand_out_s: float
    threshold: int
    host_time: HostTime
    uncontended: bool = False
    named: Callable[[str], str] = str


class DeviceAllocator(Protocol):
    """Obtains and frees device blocks on the device of ``site``. It locks its data, as several threads call it."""

    def __init__(self, site: AllocatorSite) -> None: ...

    def allocate(self, nbytes: int, phantom: bool) -> Awaitable[int]:
        """Return the address of a new device block (`phantom`: without bytes). OutOfDeviceMemory if it does not fit."""

    def free(self, address: int) -> Awaitable[None]: ...

    async def release_pooled(self) -> None:
        """Return all pooled blocks to the driver, as at the program's exit."""

    def locks(self) -> dict[str, LockStatistics]: ...
