"""A host thread of a CUDA program, with the calls of the CUDA runtime API, which go straight to the driver library."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import attrs
import numpy as np
from numpy.typing import DTypeLike

from offloadrt.driver import Advice, Driver
from offloadrt.kernels import Kernel, Tile
from offloadrt.machine import DeviceArray, HostBuffer, Stream
from offloadrt.models.host.host_thread import ProgramThread
from offloadrt.models.host.program import OffloadProgram
from offloadrt.runtime.host_array import HostArray, element_of, make_values, shape_of
from offloadrt.runtime.launch.managed_accesses import accesses_of
from offloadrt.runtime.plugins.plugin import DevicePlugin

HostMemory = Literal["pageable", "pinned"]


@attrs.frozen
class PrimaryContext:
    """What CUDA's runtime library makes at its first call."""

    driver: Driver
    plugin: DevicePlugin
    default_stream: Stream


class HostThread(ProgramThread):
    """Given to the body of a host thread as ``t``. Without a stream, a command goes into the program's default one.

    Streams that the program makes do not wait for the default stream (``cudaStreamNonBlocking``). context: returns the
    context, which the first call of a program that did not start warm has to make.
    """

    def __init__(
        self, program: OffloadProgram[Any], context: Callable[[], Awaitable[PrimaryContext]], *place: Any
    ) -> None:
        super().__init__(program, *place)
        self._context = context

    # memory

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
        lengths, element = shape_of(name, shape), element_of(name, dtype)
        values = None if self.program.phantom else make_values(name, lengths, element, fill)
        array = HostArray(name, 0, lengths, element, values=values, managed=True)
        array.address = await (await self._context()).plugin.alloc_managed(array.nbytes, name)
        if written or fill is not None:
            await self.host_access(array)
        return array

    async def malloc(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.uint8) -> DeviceArray:
        """Allocate device memory (cudaMalloc). Raises OutOfDeviceMemory."""
        lengths, element = shape_of("device memory", shape), element_of("device memory", dtype)
        nbytes = DeviceArray(0, lengths, element).nbytes
        address = await (await self._context()).driver.mem_alloc(nbytes, phantom=self.program.phantom)
        return DeviceArray(address, lengths, element)

    async def malloc_host(self, nbytes: int) -> int:
        """Allocate pinned memory of the host (cudaMallocHost), and return its address."""
        return await (await self._context()).driver.mem_alloc_host(nbytes)

    async def free_host(self, address: int) -> None:
        """Free pinned memory of the host (cudaFreeHost)."""
        await (await self._context()).driver.mem_free_host(address)

    async def free(self, array: HostArray | DeviceArray) -> None:
        """Free device memory, or managed memory (cudaFree), which waits for the device as the profile says."""
        await (await self._context()).driver.mem_free(array.address)
        if isinstance(array, HostArray):
            array.freed = True

    async def mem_advise(self, array: HostArray, advice: Advice) -> None:
        """Say how managed memory will be used (cudaMemAdvise)."""
        await (await self._context()).driver.mem_advise(array.address, array.nbytes, advice)

    async def mem_prefetch(self, array: HostArray, *, to_host: bool = False, stream: Stream | None = None) -> None:
        """Have managed memory migrate in the order of a stream (cudaMemPrefetchAsync)."""
        context = await self._context()
        stream = stream or context.default_stream
        await context.driver.mem_prefetch_async(array.address, array.nbytes, stream, to_host)

    async def memcpy_htod(
        self, destination: DeviceArray, source: int, nbytes: int, *, memory: HostMemory, stream: Stream | None = None
    ) -> None:
        """Copy to the device (cudaMemcpy), from host memory at this address.

        The call returns when the host may change its memory: pinned memory when the copy has completed, pageable memory
        when it is staged, which begins when the stream is empty ("API synchronization behavior" of CUDA's manual).
        """
        context = await self._context()
        driver, stream = context.driver, stream or context.default_stream
        buffer, pinned = HostBuffer(source, nbytes), memory == "pinned"
        if not pinned:
            await driver.stream_synchronize(stream)
        await driver.memcpy_htod_async(destination.address, buffer, nbytes, stream, pinned=pinned)
        if pinned:
            await driver.stream_synchronize(stream)

    async def memcpy_dtoh(
        self, destination: int, source: DeviceArray, nbytes: int, *, memory: HostMemory, stream: Stream | None = None
    ) -> None:
        """Copy from the device and wait for it (cudaMemcpy), to host memory at this address."""
        context = await self._context()
        driver, stream = context.driver, stream or context.default_stream
        buffer = HostBuffer(destination, nbytes)
        await driver.memcpy_dtoh_async(buffer, source.address, nbytes, stream, pinned=memory == "pinned")
        await driver.stream_synchronize(stream)

    # kernels

    async def launch(
        self,
        kernel: Kernel,
        *arguments: Any,
        grid: int | tuple[int, int],
        block: int | tuple[int, int],
        iterations: int | None = None,
        stream: Stream | None = None,
        library: bool = False,
    ) -> None:
        """Launch a kernel, ``kernel<<<grid, block, 0, stream>>>(arguments)``, and go on.

        Its arguments are managed arrays, device arrays and numbers. A loop nest has the iterations that its source
        says, which the threads share as in a grid-stride loop. A grid and a block of two dimensions are (x, y): the
        threads of a row have iterations in a row. library: the kernel stands for code of a library, which keeps its
        operands in shared memory and loads ahead, so that its source does not say how many loads are in flight.
        """
        (columns, rows), (width, height) = (one if isinstance(one, tuple) else (one, 1) for one in (grid, block))
        launch = kernel.launch(columns * rows, width * height, iterations, arguments)
        if library:
            launch = attrs.evolve(launch, kernel=attrs.evolve(launch.kernel, loads_in_flight=None))
        tile = Tile(width, height, columns) if isinstance(block, tuple) else None
        launch = attrs.evolve(launch, strided=True, tile=tile)
        if self.program.phantom:
            launch = attrs.evolve(launch, kernel=attrs.evolve(launch.kernel, body=None))
        managed = [argument for argument in arguments if isinstance(argument, HostArray)]
        touching = accesses_of(0, launch, (), arguments, managed, [array.managed for array in managed])
        context = await self._context()
        await context.plugin.find_kernel(launch.kernel.name)
        await context.driver.launch_kernel(
            launch,
            [argument.values if isinstance(argument, HostArray) else argument for argument in arguments],
            stream or context.default_stream,
            touching=touching,
        )

    # streams

    async def stream_create(self) -> Stream:
        """Make a stream (cudaStreamCreateWithFlags)."""
        return await (await self._context()).driver.stream_create()

    async def stream_synchronize(self, stream: Stream) -> None:
        """Wait for everything in a stream (cudaStreamSynchronize)."""
        await (await self._context()).driver.stream_synchronize(stream)

    async def device_synchronize(self) -> None:
        """Wait for everything in all streams (cudaDeviceSynchronize)."""
        driver = (await self._context()).driver
        for stream in [*driver.streams]:
            await driver.stream_synchronize(stream)

    async def leave_team(self) -> None:
        """Do nothing: what the thread left in streams goes on."""
