"""Legacy Copy: every mapped section gets a device block of its own, and maps copy."""

from __future__ import annotations

from typing import ClassVar

from offloadrt.runtime.device import MapRequest, MemoryConfiguration, Placement


class Copy(MemoryConfiguration):
    """Gives each mapped section a device block and copies to it: host and device memory are, or count as, separate."""

    name: ClassVar[str] = "copy"

    def place(self, request: MapRequest) -> Placement:
        return Placement.DEVICE_COPY
