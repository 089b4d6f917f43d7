"""What every allocator of device blocks offers, and what it is given to work with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import attrs

from offloadrt.driver import BlockCalls
from offloadrt.sim import LockStatistics, Simulation
from offloadrt.trace import HostTime


@attrs.frozen
class AllocatorSite:
    """One device's surroundings.

    begins: whether a block of the device begins at an address; work: charge host time to the running thread;
    hand_out_s: one search of a free list; threshold: the largest request that is pooled, in bytes
    (LIBOMPTARGET_MEMORY_MANAGER_THRESHOLD); host_time: where waits for the allocator's locks are accounted for;
    uncontended: an ablation, the allocator's locks exclude nobody; named: what a lock of the process and the device
    is called in reports.
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
    """Runs in the host thread that maps; its locks are its own."""

    def __init__(self, site: AllocatorSite) -> None: ...

    def allocate(self, nbytes: int, phantom: bool) -> Awaitable[int]:
        """Allocate a device block. Raises the driver's OutOfDeviceMemory."""

    def free(self, address: int) -> Awaitable[None]: ...

    async def release_pooled(self) -> None:
        """Return everything that is pooled to the driver, as at exit."""

    def locks(self) -> dict[str, LockStatistics]: ...
