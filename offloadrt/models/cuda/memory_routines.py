"""The calls of CUDA's runtime library for memory of the device and of the host, and for copies."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from offloadrt.driver import Advice
from offloadrt.driver.errors import INVALID
from offloadrt.machine import DeviceArray, HostBuffer, Stream
from offloadrt.models.cuda.allocations import device_of
from offloadrt.models.cuda.calling_thread import CallingThread, DefaultStream, PrimaryContext
from offloadrt.models.host.section import Section, array_of, extent
from offloadrt.runtime.host_array import HostArray, HostSpan, element_of, make_values, shape_of

HostMemory = Literal["pageable", "pinned"]
CopyPlace = HostArray | Section | DeviceArray
"""An end of a copy: memory of the host, or of a device."""


class MemoryRoutines(CallingThread):
    """Memory, and copies between memories."""

    async def malloc_managed(
        self,
        name: str,
        shape: int | tuple[int, ...],
        dtype: DTypeLike = np.float32,
        *,
        fill: Any = None,
        written: bool = False,
    ) -> HostArray:
        """Allocate managed memory (cudaMallocManaged).

        fill: values, which this thread writes; written: it writes all of it, whatever the values. Without either nobody
        has touched its pages.
        """
        array = self._made(name, shape, dtype, fill)
        array.managed = True
        array.address = await (await self._context()).plugin.alloc_managed(array.nbytes, name)
        self._state.allocations.made(array.address)
        if written or fill is not None:
            await self.host_access(array)
        return array

    async def malloc(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.uint8) -> DeviceArray:
        """Allocate memory of the current device (cudaMalloc). Raises OutOfDeviceMemory."""
        lengths, element = shape_of("device memory", shape), element_of("device memory", dtype)
        nbytes = DeviceArray(0, lengths, element).nbytes
        address = await (await self._context()).driver.mem_alloc(nbytes, phantom=self.program.phantom)
        self._state.allocations.made(address)
        return DeviceArray(address, lengths, element)

    async def free(self, array: HostArray | DeviceArray) -> None:
        """Free device memory, or managed memory (cudaFree).

        Where a free halts the device (``driver.halt``), it first waits for everything in its streams. Memory of a pool
        goes back to the pool.
        Raises DriverError for memory that is freed already, of another device, or not allocated so.
        """
        driver = (await self._context()).driver
        self._state.allocations.check_free(driver, driver.call("cuMemFree"), array.address)
        await driver.mem_free(array.address, synchronizes=True)
        self._state.allocations.freed("cuMemFree", array.address)
        if isinstance(array, HostArray):
            array.freed = True

    async def mem_advise(self, array: HostArray, advice: Advice) -> None:
        """Say how managed memory will be used (cudaMemAdvise)."""
        await (await self._context()).driver.mem_advise(array.address, array.nbytes, advice)

    async def mem_prefetch(
        self, array: HostArray, *, to_host: bool = False, stream: Stream | DefaultStream | None = None
    ) -> None:
        """Have managed memory migrate in the order of a stream (cudaMemPrefetchAsync)."""
        context = await self._context()
        chosen = await self._stream(context, stream, "cuMemPrefetchAsync")
        await context.driver.mem_prefetch_async(array.address, array.nbytes, chosen, to_host)

    # pinned memory of the host

    async def host_alloc(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float32, *, fill: Any = None
    ) -> HostArray:
        """Allocate an array in pinned memory of the host (cudaHostAlloc, hipHostMalloc).

        Copies from and to it need no staging, on all devices, and kernels use it in place, over the link. Its pages
        exist from the beginning. Free it by `free_host`.
        """
        array = self._made(name, shape, dtype, fill)
        array.address = await self.malloc_host(array.nbytes)
        return self.program.arrays.place(array, written=True)

    async def malloc_host(self, nbytes: int) -> int:
        """Allocate pinned memory of the host (cudaMallocHost), and return its address."""
        return await (await self._context()).driver.mem_alloc_host(nbytes)

    async def free_host(self, memory: int | HostArray) -> None:
        """Free pinned memory of the host (cudaFreeHost).

        Raises DriverError for memory that is not allocated so, or freed already.
        """
        address = memory.address if isinstance(memory, HostArray) else memory
        await (await self._context()).driver.mem_free_host(address)
        self._state.mapped.end(address)
        if isinstance(memory, HostArray):
            self.program.arrays.forget(memory)

    async def host_register(self, array: HostArray) -> None:
        """Pin an array of the host that exists (cudaHostRegister, hipHostRegister).

        Raises DriverError when a part of it is pinned already, and FreedHostMemory.
        """
        self.program.devices[self._device].check_alive(array, "cudaHostRegister")
        await (await self._context()).driver.mem_host_register(array.address, array.nbytes)

    async def host_unregister(self, array: HostArray) -> None:
        """Unpin an array (cudaHostUnregister). Raises DriverError when it is not pinned."""
        await (await self._context()).driver.mem_host_unregister(array.address)
        self._state.mapped.end(array.address)

    # copies

    async def memcpy(self, destination: CopyPlace, source: CopyPlace) -> None:
        """Copy as many bytes as the source has (cudaMemcpy with cudaMemcpyDefault), in the default stream.

        It returns when the real call does: copies from pinned memory and to the host have completed then, pageable
        memory is staged, and the host does not wait for a copy between or within devices.
        Raises DriverError for memory that is freed, no device's, or too small, and FreedHostMemory.
        """
        context = await self._context()
        stream = await self._stream(context, None, "cudaMemcpy")
        driver = context.driver
        from_host, to_host = (not isinstance(place, DeviceArray) for place in (source, destination))
        pinned = from_host and driver.is_pinned(*_range(source, "cudaMemcpy"))
        if from_host and not to_host and not pinned:
            await driver.stream_synchronize(stream)
        await self._copy(context, destination, source, stream, "cudaMemcpy")
        if pinned or to_host:
            await driver.stream_synchronize(stream)

    async def memcpy_async(
        self, destination: CopyPlace, source: CopyPlace, *, stream: Stream | DefaultStream | None = None
    ) -> None:
        """Copy as many bytes as the source has in the order of a stream (cudaMemcpyAsync, cudaMemcpyPeerAsync).

        With pinned memory the call returns at once; pageable memory is staged or has arrived when it returns. Raises
        what `memcpy` does.
        """
        context = await self._context()
        chosen = await self._stream(context, stream, "cudaMemcpyAsync")
        await self._copy(context, destination, source, chosen, "cudaMemcpyAsync")

    async def memset_async(
        self, array: DeviceArray, value: int, *, stream: Stream | DefaultStream | None = None
    ) -> None:
        """Write a byte to all of an array in the order of a stream (cudaMemsetAsync)."""
        context = await self._context()
        chosen = await self._stream(context, stream, "cuMemsetD8Async")
        driver = context.driver
        self._state.allocations.check_use(driver, driver.call("cuMemsetD8Async"), "its destination", array)
        if (capture := driver.graphs.capture_of(chosen)) is not None:
            capture.uses.append(("the destination of a memset", array))
        await driver.memset(array.address, value, array.nbytes, chosen)

    async def device_enable_peer_access(self, peer: int) -> None:
        """Let copies between the current device and another use their link (cudaDeviceEnablePeerAccess)."""
        await (await self._context()).driver.ctx_enable_peer_access(peer)

    async def memcpy_htod(
        self,
        destination: DeviceArray,
        source: int,
        nbytes: int,
        *,
        memory: HostMemory,
        stream: Stream | DefaultStream | None = None,
    ) -> None:
        """Copy to the device (cudaMemcpy), from host memory at this address.

        The call returns when the host may change its memory: pinned memory when the copy has completed, pageable memory
        when it is staged, which begins when the stream is empty ("API synchronization behavior" of CUDA's manual).
        """
        context = await self._context()
        driver, chosen = context.driver, await self._stream(context, stream, "cudaMemcpy")
        buffer, pinned = HostBuffer(source, nbytes), memory == "pinned"
        if not pinned:
            await driver.stream_synchronize(chosen)
        await driver.memcpy_htod_async(destination.address, buffer, nbytes, chosen, pinned=pinned)
        if pinned:
            await driver.stream_synchronize(chosen)

    async def memcpy_dtoh(
        self,
        destination: int,
        source: DeviceArray,
        nbytes: int,
        *,
        memory: HostMemory,
        stream: Stream | DefaultStream | None = None,
    ) -> None:
        """Copy from the device and wait for it (cudaMemcpy), to host memory at this address."""
        context = await self._context()
        driver, chosen = context.driver, await self._stream(context, stream, "cudaMemcpy")
        buffer = HostBuffer(destination, nbytes)
        await driver.memcpy_dtoh_async(buffer, source.address, nbytes, chosen, pinned=memory == "pinned")
        await driver.stream_synchronize(chosen)

    # inside

    def _made(self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike, fill: Any) -> HostArray:
        """Return an array that has no address yet."""
        lengths, element = shape_of(name, shape), element_of(name, dtype)
        values = None if self.program.phantom else make_values(name, lengths, element, fill)
        return HostArray(name, 0, lengths, element, values=values)

    def _copy(
        self, context: PrimaryContext, destination: CopyPlace, source: CopyPlace, stream: Stream, call: str
    ) -> Awaitable[None]:
        """Submit the copy that leads from one place to another, whatever they are."""
        driver = context.driver
        (to, room), (begin, nbytes) = _range(destination, call), _range(source, call)
        if nbytes > room:
            why = f"the source has {nbytes} bytes, its destination {room}"
            raise driver.refusal(driver.call(call), INVALID, why)
        between = isinstance(source, DeviceArray) and isinstance(destination, DeviceArray)
        capture = driver.graphs.capture_of(stream)
        for what, place in {"its source": source, "its destination": destination}.items():
            if capture is not None:
                capture.uses.append((f"the {what[4:]} of a copy", place))
            if isinstance(place, DeviceArray):
                self._state.allocations.check_use(driver, driver.call(call), what, place, anywhere=between)
            else:
                self.program.devices[context.number].check_alive(array_of(place), call)
        if isinstance(source, DeviceArray) and isinstance(destination, DeviceArray):
            devices = device_of(to), device_of(begin)
            if devices == (context.number, context.number):
                return driver.memcpy_dtod_async(to, begin, nbytes, stream)
            return driver.memcpy_peer_async(stream, None, devices[0], to, devices[1], begin, nbytes)
        if isinstance(source, DeviceArray):
            return driver.memcpy_dtoh_async(_span(destination, to, nbytes), begin, nbytes, stream)
        if isinstance(destination, DeviceArray):
            return driver.memcpy_htod_async(to, _span(source, begin, nbytes), nbytes, stream)
        return self._copy_on_host(_span(destination, to, nbytes), _span(source, begin, nbytes))

    async def _copy_on_host(self, destination: HostSpan, source: HostSpan) -> None:
        """Copy within the host, by the calling thread."""
        await self.program.machine.host_memory.copy(source.nbytes)
        if destination.bytes is not None and source.bytes is not None:
            destination.bytes[:] = source.bytes


def _range(place: CopyPlace, call: str) -> tuple[int, int]:
    """Return the address and the bytes of an end of a copy."""
    if isinstance(place, Section) and not place.is_contiguous:
        raise ValueError(f"{call}: {place} is in pieces, and a copy moves one range of bytes")
    return (place.address, place.nbytes) if isinstance(place, DeviceArray) else extent(place, call)


def _span(place: CopyPlace, address: int, nbytes: int) -> HostSpan:
    assert not isinstance(place, DeviceArray)
    return array_of(place).span(address, nbytes)
