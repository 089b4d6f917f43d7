"""Makes a driver call for every request (LLVM with LIBOMPTARGET_MEMORY_MANAGER_THRESHOLD=0)."""

from __future__ import annotations

from collections.abc import Awaitable

from offloadrt.runtime.allocators.base import AllocatorSite
from offloadrt.sim import LockStatistics


class Direct:
    """Allocates and frees by the driver alone, without a pool or a lock."""

    def __init__(self, site: AllocatorSite) -> None:
        self._driver = site.driver

    def allocate(self, nbytes: int, phantom: bool) -> Awaitable[int]:
        return self._driver.alloc(nbytes, phantom=phantom)

    def free(self, address: int) -> Awaitable[None]:
        return self._driver.free(address)

    async def release_pooled(self) -> None:
        return None

    def locks(self) -> dict[str, LockStatistics]:
        return {}
