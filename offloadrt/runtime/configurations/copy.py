"""Legacy Copy: every mapped section gets a device block of its own, and maps copy."""

from __future__ import annotations

from typing import ClassVar

from offloadrt.runtime.configurations.base import MapRequest, Placement


class Copy:
    """Separate memories (or treated as such)."""

    name: ClassVar[str] = "copy"
    host_pointers: ClassVar[bool] = False
    globals_on_host: ClassVar[bool] = False
    prefaults: ClassVar[bool] = False
    migrates: ClassVar[bool] = False
    places_objects: ClassVar[bool] = False

    def place(self, request: MapRequest) -> Placement:
        return Placement.DEVICE_COPY
