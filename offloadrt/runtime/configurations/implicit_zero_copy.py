"""Implicit Zero-Copy: a program that was built for copies, on a device that can use host memory as it is.

A map of host memory is no storage operation, with `close` or without. Globals of declare target are nevertheless in the
present table: the device image has its own copy of them, and maps transfer to that copy as under `copy`.
"""

from __future__ import annotations

from typing import ClassVar

from offloadrt.runtime.configurations.usm import UnifiedSharedMemory
from offloadrt.runtime.device import MapRequest, Placement


class ImplicitZeroCopy(UnifiedSharedMemory):
    """Lets kernels use all host memory in place, except globals; the default of an APU with XNACK."""

    name: ClassVar[str] = "implicit_zero_copy"

    def place(self, request: MapRequest) -> Placement:
        return Placement.HOST_POINTER

    def place_global(self) -> Placement:
        return Placement.DEVICE_COPY
