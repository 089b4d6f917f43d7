"""What a kernel reaches beside the device's blocks, as a launch tells the driver library."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from offloadrt.machine import AccessFault
from offloadrt.machine.managed_access import Accesses


@attrs.frozen(eq=False)
class Touching:
    """What a kernel reaches beside the device's blocks.

    ``ranges``: (address, bytes) of host memory; give the same tuple again for the same kernel.  ``serial_s``: seconds
    on top of what the kernel does.  ``fault``: told when it dies of a page that it may not fault in.  ``accesses``:
    what it does with managed memory.
    """

    ranges: tuple[tuple[int, int], ...] = ()
    serial_s: float = 0.0
    fault: Callable[[AccessFault], None] | None = None
    accesses: Accesses = ()


NOTHING = Touching()
