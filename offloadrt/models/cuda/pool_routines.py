"""The calls of CUDA's runtime library for stream-ordered allocations and the memory pools that they come from."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from offloadrt.driver import MemPool, PoolAttributes
from offloadrt.kernels.integers import is_integer
from offloadrt.machine import DeviceArray, Stream
from offloadrt.models.cuda.calling_thread import CallingThread, DefaultStream
from offloadrt.runtime.host_array import element_of, shape_of


class PoolRoutines(CallingThread):
    """Allocations and frees in the order of a stream. On AMD's GPUs they are hipMallocAsync and so on."""

    async def malloc_async(
        self,
        shape: int | tuple[int, ...],
        dtype: DTypeLike = np.uint8,
        *,
        stream: Stream | DefaultStream | None = None,
        pool: MemPool | None = None,
    ) -> DeviceArray:
        """Allocate memory for what comes into a stream from now on (cudaMallocAsync, cudaMallocFromPoolAsync).

        pool: by default the device's. Raises OutOfDeviceMemory, and DriverError for a pool of another device.
        """
        lengths, element = shape_of("device memory", shape), element_of("device memory", dtype)
        context = await self._context()
        chosen = await self._stream(context, stream, "cuMemAllocFromPoolAsync")
        pools, nbytes = context.driver.pools, DeviceArray(0, lengths, element).nbytes
        address = await pools.mem_alloc_async(
            nbytes, chosen, pools.default_pool() if pool is None else pool, self.program.phantom
        )
        self._state.allocations.made(address)
        return DeviceArray(address, lengths, element)

    async def free_async(self, array: DeviceArray, *, stream: Stream | DefaultStream | None = None) -> None:
        """Free stream-ordered memory when what is in a stream has completed (cudaFreeAsync); the host goes on.

        Raises DriverError for memory that is freed already, of another device, or not allocated so.
        """
        context = await self._context()
        chosen = await self._stream(context, stream, "cuMemFreeAsync")
        driver = context.driver
        self._state.allocations.check_free(driver, driver.call("cuMemFreeAsync"), array.address)
        await driver.pools.mem_free_async(array.address, chosen)
        self._state.allocations.freed("cuMemFreeAsync", array.address)

    async def device_get_default_mem_pool(self) -> MemPool:
        """Return the current device's pool (cudaDeviceGetDefaultMemPool)."""
        return (await self._context()).driver.pools.default_pool()

    async def mem_pool_create(self) -> MemPool:
        """Make a pool on the current device (cudaMemPoolCreate)."""
        return await (await self._context()).driver.pools.pool_create()

    async def mem_pool_destroy(self, pool: MemPool) -> None:
        """Destroy a pool (cudaMemPoolDestroy). Raises DriverError while something is allocated from it."""
        await (await self._context()).driver.pools.pool_destroy(pool)

    def mem_pool_set_attribute(
        self,
        pool: MemPool,
        *,
        release_threshold: int | None = None,
        reuse_follow_event_dependencies: bool | None = None,
        reuse_allow_opportunistic: bool | None = None,
        reuse_allow_internal_dependencies: bool | None = None,
    ) -> None:
        """Set what a pool keeps at a synchronization, and which memory it reuses (cudaMemPoolSetAttribute).

        release_threshold: bytes, 0 at first, so that a synchronization gives back all that nobody uses. ValueError for
        what is no number of bytes.
        """
        if release_threshold is not None:
            if not is_integer(release_threshold) or release_threshold < 0:
                raise ValueError(f"release_threshold is {release_threshold!r}, but must be a whole number from 0")
            pool.release_threshold = release_threshold
        if reuse_follow_event_dependencies is not None:
            pool.policies.follow_event_dependencies = reuse_follow_event_dependencies
        if reuse_allow_opportunistic is not None:
            pool.policies.allow_opportunistic = reuse_allow_opportunistic
        if reuse_allow_internal_dependencies is not None:
            pool.policies.allow_internal_dependencies = reuse_allow_internal_dependencies

    def mem_pool_get_attribute(self, pool: MemPool) -> PoolAttributes:
        """Return what a pool holds and has held, in bytes (cudaMemPoolGetAttribute)."""
        return pool.statistics()

    async def mem_pool_trim_to(self, pool: MemPool, keep: int) -> None:
        """Have a pool give back what nobody uses until at most so many bytes are left (cudaMemPoolTrimTo)."""
        await (await self._context()).driver.pools.pool_trim_to(pool, keep)

    async def mem_pool_set_access(self, pool: MemPool, device: int) -> None:
        """Let another device reach the memory of a pool (cudaMemPoolSetAccess), which each growth then pays for."""
        await (await self._context()).driver.pools.pool_set_access(pool, device)
