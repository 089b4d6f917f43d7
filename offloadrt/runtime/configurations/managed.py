"""Managed memory: every array of the program migrates, page by page, to whoever touches it.

As if the program allocated with cuMemAllocManaged and required unified shared memory: a map is no storage operation.
"""

from __future__ import annotations

from typing import ClassVar

from offloadrt.runtime.configurations.base import MapRequest, MemoryConfiguration, Placement


class Managed(MemoryConfiguration):
    """Maps do nothing; pages migrate by faults of the device and of the host."""

    name: ClassVar[str] = "managed"
    host_pointers: ClassVar[bool] = True
    globals_on_host: ClassVar[bool] = True
    migrates: ClassVar[bool] = True

    def place(self, request: MapRequest) -> Placement:
        return Placement.HOST_POINTER


class ManagedPrefetch(Managed):
    """The same, and each map of host memory is a cuMemPrefetchAsync to the device, for which it waits."""

    name: ClassVar[str] = "managed+prefetch"
    prefaults: ClassVar[bool] = True
