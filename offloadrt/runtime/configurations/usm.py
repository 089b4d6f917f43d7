"""Unified shared memory (`requires unified_shared_memory`, -fopenmp-force-usm): a map is no storage operation.

`close` asks for a device copy all the same. It works on an APU, and on a device that uses the page table of the host
(`ats.enabled`, machine `gh200`). What kernels of another device pay for memory of the host in place is not emulated, so
that such a device refuses it (`OffloadDevice`).
"""

from __future__ import annotations

from typing import ClassVar

from offloadrt.runtime.configurations.base import MapRequest, MemoryConfiguration, Placement


class UnifiedSharedMemory(MemoryConfiguration):
    """The device reads and writes host memory; no table entries, no copies, and `present` never holds."""

    name: ClassVar[str] = "usm"
    host_pointers: ClassVar[bool] = True
    globals_on_host: ClassVar[bool] = True

    def place(self, request: MapRequest) -> Placement:
        return Placement.DEVICE_COPY if request.close else Placement.HOST_POINTER
