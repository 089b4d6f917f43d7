"""A SYCL queue of the program's own: USM of all kinds, kernels and copies without the algorithms around them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from offloadrt.compilers.stdpar.translation_unit import par_unseq
from offloadrt.kernels import Kernel
from offloadrt.models.stdpar.algorithms import AlgorithmCall
from offloadrt.models.stdpar.arrays import UsmArray
from offloadrt.models.stdpar.execution import Executor, submit
from offloadrt.models.stdpar.queue import Queue
from offloadrt.runtime.device import OffloadDevice


class SyclQueue:
    """``sycl::queue``, in order. Its commands go through SYCL's layers, whatever the program's implementation."""

    def __init__(self, executor: Executor, device: OffloadDevice) -> None:
        """executor: of the thread that the queue belongs to."""
        self._executor = executor
        self._runtime = executor.runtime
        self._queue = Queue(self._runtime, device, self._runtime.machine.spec.value("sycl.submit"))

    async def malloc_shared(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, phantom: bool | None = None
    ) -> UsmArray:
        """Allocate shared USM: memory of host and device."""
        with self._runtime.calling("malloc_shared"):
            await self._executor.meets_call("malloc_shared")
            array = self._runtime.unplaced(name, shape, dtype, phantom, "shared")
            array.address = await self._runtime.usm.malloc_shared(max(1, array.nbytes), array.name)
        return array

    async def malloc_device(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, phantom: bool | None = None
    ) -> UsmArray:
        """Allocate device memory, which the host cannot use. Raises ArrayOutOfDeviceMemory."""
        with self._runtime.calling("malloc_device"):
            await self._executor.meets_call("malloc_device")
            array = self._runtime.unplaced(name, shape, dtype, phantom, "device")
            array.address = await self._runtime.usm.malloc_device(max(1, array.nbytes), array.phantom, name)
        return array

    async def malloc_host(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, phantom: bool | None = None
    ) -> UsmArray:
        """Allocate pinned host memory, which the device reaches over the link."""
        with self._runtime.calling("malloc_host"):
            await self._executor.meets_call("malloc_host")
            array = self._runtime.unplaced(name, shape, dtype, phantom, "host")
            array.address = await self._runtime.usm.malloc_host(max(1, array.nbytes))
        return array

    async def free(self, array: UsmArray) -> None:
        """Call ``sycl::free`` for memory of any kind. Raises DriverError where no such memory begins."""
        with self._runtime.calling("free"):
            await self._executor.meets_call("free")
            await self._runtime.usm.free(array)

    async def submit(self, kernel: Kernel, *arguments: Any, iterations: int | None = None) -> None:
        """Call ``parallel_for``, which returns when the kernel is in the queue."""
        with self._runtime.calling("parallel_for"):
            await self._executor.meets_call("parallel_for")
            await submit(
                self._runtime, self._queue, AlgorithmCall("parallel_for", par_unseq, kernel, arguments, iterations)
            )

    async def memcpy(self, destination: UsmArray, source: UsmArray) -> None:
        """Copy all bytes of an array; returns when the host may go on. ValueError for different sizes."""
        with self._runtime.calling("memcpy"):
            await self._executor.meets_call("memcpy")
            await self._queue.memcpy(destination, source)

    async def prefetch(self, array: UsmArray) -> None:
        """Have shared USM migrate to the device. ValueError for other memory, PrefetchCrash."""
        if array.memory != "shared":
            raise ValueError(f"prefetch of {array.name!r}: it is {array.memory} memory, not shared USM")
        with self._runtime.calling("prefetch"):
            await self._executor.meets_call("prefetch")
            await self._queue.prefetch(array.address, array.nbytes, array.name)

    async def wait(self) -> None:
        """Wait for everything in the queue. Raises what a kernel in it did wrong."""
        with self._runtime.calling("wait"):
            await self._executor.meets_call("wait")
            await self._queue.wait()

    async def close(self) -> None:
        """Wait for the queue at its end, and give its stream back."""
        with self._runtime.calling("wait"):
            await self._executor.meets_call("wait")
            await self._queue.close()
