"""Legacy Copy: every mapped section gets a device block of its own, and maps copy."""

from __future__ import annotations

from typing import ClassVar

from offloadrt.runtime.device import MapRequest, MemoryConfiguration, Placement


class Copy(MemoryConfiguration):
    """Separate memories (or treated as such)."""

    name: ClassVar[str] = "copy"

    def place(self, request: MapRequest) -> Placement:
        return Placement.DEVICE_COPY
