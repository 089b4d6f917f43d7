"""Every request is a call of the driver (LLVM with LIBOMPTARGET_MEMORY_MANAGER_THRESHOLD=0)."""

from __future__ import annotations

from offloadrt.runtime.allocators.base import AllocatorSite
from offloadrt.sim import LockStatistics


class Direct:
    """No pool, no lock."""

    def __init__(self, site: AllocatorSite) -> None:
        self._driver = site.driver

    async def allocate(self, nbytes: int, phantom: bool) -> int:
        return await self._driver.mem_alloc(nbytes, phantom=phantom)

    async def free(self, address: int) -> None:
        await self._driver.mem_free(address)

    async def release_pooled(self) -> None:
        return None

    def locks(self) -> dict[str, LockStatistics]:
        return {}
