"""The memory that a kernel reaches besides the device's blocks, as a launch tells the driver library."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from offloadrt.machine import AccessFault
from offloadrt.machine.managed.access import Accesses


@attrs.frozen(eq=False)
class Touching:
    """What a kernel reaches besides the device's blocks; the fields become those of its ``KernelPacket``."""

    ranges: tuple[tuple[int, int], ...] = ()
    """(address, bytes) of host memory; give the same tuple again for the same kernel, which is then checked quickly."""
    serial_s: float = 0.0
    """Seconds that the kernel takes on top of its work."""
    fault: Callable[[AccessFault], None] | None = None
    """Called when the kernel dies of a page that it may not fault in."""
    accesses: Accesses = ()
    """What the kernel does with managed memory."""


NOTHING = Touching()
