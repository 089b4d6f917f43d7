"""How HIP's library copies larger pieces of pageable memory: it locks the program's pages and copies from or to them.

Follows ROCclr (``DmaBlitManager::writeBuffer`` and ``readBuffer`` of rocblit.cpp): copies of more than
``hip.pin_from`` bytes go piece by piece, and for each piece the library locks the pages (``hsa_amd_memory_lock``),
has them copied, waits and unlocks them, so that such a copy is synchronous.  Smaller ones are staged (``staging.py``),
as all are by CUDA's library.  To lock and to unlock are calls of the kernel, which serves one of a process at a time.
"""

from __future__ import annotations

from typing import Annotated

import attrs

from offloadrt.machine import Machine
from offloadrt.machine.host_lock import HostLock, lock_policy


@attrs.frozen
class PageLockingSpec:
    """When pages are locked, and what that costs."""

    more_than: Annotated[int, "hip.pin_from"]
    """Bytes; 0 is never."""
    piece: Annotated[int, "hip.pin_piece"]
    lock: Annotated[float, "hip.pin"]
    """Seconds, besides the bytes."""
    lock_per_byte: Annotated[float, "hip.pin_per_gib"]
    unlock: Annotated[float, "hip.unpin"]
    uncontended: Annotated[bool, "hip.pin.uncontended"]


class PageLocking:
    """The locking of pages for copies of one process, whose devices share it."""

    def __init__(self, machine: Machine) -> None:
        self.spec = machine.spec.read(PageLockingSpec)
        self.kernel = HostLock(
            machine,
            machine.named("page locking"),
            lock_policy("fifo"),
            # No hand-over is charged, as profiles have none for a mutex of the kernel.
            0.0,
            category="driver",
            wait_category="driver lock",
            uncontended=self.spec.uncontended,
        )

    def takes(self, nbytes: int) -> bool:
        """Tell whether a copy of so many bytes locks the program's pages."""
        return 0 < self.spec.more_than < nbytes

    async def lock(self, nbytes: int) -> None:
        """Lock the pages of a piece."""
        await self._work(self.spec.lock + nbytes * self.spec.lock_per_byte)

    async def unlock(self) -> None:
        """Unlock the pages of a piece."""
        await self._work(self.spec.unlock)

    async def _work(self, dt: float) -> None:
        await self.kernel.enter(dt)
        self.kernel.release()
