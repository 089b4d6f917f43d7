"""A host thread of a CUDA program, with the calls of the CUDA runtime API, which go straight to the driver library."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import DTypeLike

from offloadrt.driver import (
    Advice,
    BuiltGraph,
    CapturedGraph,
    CaptureMode,
    CudaDriver,
    GraphExec,
    KernelAccesses,
    MemPool,
    PoolAttributes,
    Schedule,
    TimedEvent,
)
from offloadrt.driver.calls import INVALID
from offloadrt.driver.cuda.context import GraphNode
from offloadrt.kernels import Kernel, Launch, Tile
from offloadrt.kernels.integers import check_integers
from offloadrt.machine import DeviceArray, Stream
from offloadrt.models.cuda.calling_thread import CallingThread, CopyEnd, DefaultStream, PrimaryContext, device_of
from offloadrt.models.host.arguments import checks_arguments
from offloadrt.models.host.directive import check_arguments
from offloadrt.runtime.configurations.usm import translates
from offloadrt.runtime.events import ArrayMade
from offloadrt.runtime.host_array import (
    HostArray,
    HostSpan,
    Section,
    array_of,
    element_of,
    extent,
    give_address,
    make_values,
    shape_of,
)
from offloadrt.runtime.launch.target import accesses_of, data_of

Shape = int | tuple[int, int]


@attrs.frozen(eq=False)
class PreparedLaunch:
    """A kernel launch with checked and converted arguments, not submitted yet; `touching`: host memory it uses."""

    launch: Launch
    values: Sequence[Any]
    """The values that the kernel's body gets."""
    touching: KernelAccesses
    uses: Sequence[tuple[str, Any]]
    """The launch's arguments, each with its role in messages: ``argument 1 of kernel 'saxpy'``."""


@checks_arguments
class HostThread(CallingThread):
    """The object ``t`` that the body of a host thread gets. Its methods have the names of CUDA's calls, without prefix.

    A call without a stream uses the default stream that the program's options choose. On AMD's GPUs the calls are HIP's
    (hipMallocAsync, hipGraph and so on).

    The nodes of a graph that a program builds itself have numbers from 0; ``after`` has those of the nodes that a node
    waits for. Events that are recorded in a capture become edges. A call that a capture forbids raises CUDA's error and
    invalidates the capture, so that `stream_end_capture` raises, too. Graphs within graphs, memory nodes, pageable
    memory and streams of several devices in one graph are not emulated, and raise errors.
    """

    async def launch(
        self, kernel: Kernel, *arguments: Any, grid: Shape, block: Shape, iterations: int | None = None,
        stream: Stream | DefaultStream | None = None, library: bool = False, by_value: int = 0,
    ) -> None:  # fmt: skip
        """Launch a kernel, ``kernel<<<grid, block, 0, stream>>>(arguments)``, without waiting for it.

        arguments: device arrays, managed arrays, arrays in pinned memory, which the kernel uses in place, and numbers.
        iterations: of the kernel's loop, which the threads share as in a grid-stride loop; by default a loop nest's
        follow from its source and arguments, and any other kernel has one for each thread. grid, block:
        with two dimensions (x, y), the threads of a row have consecutive iterations. library: the kernel stands for
        library code, which prefetches to shared memory, so that its source does not tell how many loads are in flight.
        by_value: bytes of structs that are passed by value in addition. Raises DriverError for memory that the kernel
        cannot reach or that is freed, and for a stream of another device.
        """
        context = await self._context()
        prepared = self._prepared("cuLaunchKernel", context, kernel, arguments, grid, block, iterations, library)
        chosen = await self._stream(context, stream, "cuLaunchKernel")
        await context.plugin.find_kernel(prepared.launch.kernel.name)
        capture = context.driver.graphs.capture_of(chosen)
        if capture is None:
            self._report("launched", "a launch", [context.number, chosen], prepared.launch, arguments)
        await context.driver.kernels.launch(
            prepared.launch, prepared.values, chosen, touching=prepared.touching, by_value=by_value
        )
        if capture is not None:
            self._node(capture.last(chosen), prepared.uses)

    async def leave_team(self) -> None:
        """Do nothing: in CUDA, a thread at the end of its parallel region does not wait for its work in streams."""

    # memory

    async def malloc_managed(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float32, *, fill: Any = None,
        written: bool = False,
    ) -> HostArray:  # fmt: skip
        """Allocate managed memory (cudaMallocManaged); on AMD's GPUs without XNACK it lies on the host.

        fill: values that this thread writes to the array. written: whether the thread writes the whole array, without
        telling which values. Without either, no page is populated yet.
        """
        array = self._made(name, shape, dtype, fill)
        array.managed = True
        managed = (await self._context()).driver.managed
        managed.start()
        give_address(array, await managed.alloc(array.nbytes, name=name))
        if self._state.shared == "host":  # the device cannot fault
            for number in range(self.get_device_count()):
                uvm = (await self._context_on(number)).driver.managed.manage()
                uvm.keep_in_place(array.address, array.nbytes)
        self._state.allocations.made(array.address)
        if (tell := self.program.tell) is not None:
            tell(ArrayMade(array))
        if written or fill is not None:
            await self.host_access(array)
        return array

    async def malloc(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.uint8) -> DeviceArray:
        """Allocate memory of the current device (cudaMalloc). Raises OutOfDeviceMemory if it does not fit."""
        lengths, element = shape_of("device memory", shape), element_of("device memory", dtype)
        nbytes = DeviceArray(0, lengths, element).nbytes
        context = await self._context()
        address = await context.driver.memory.alloc(nbytes, phantom=self.program.phantom)
        self._state.allocations.made(address)
        self._report("allocated", "cudaMalloc", [context.number], address, nbytes)
        return DeviceArray(address, lengths, element)

    async def free(self, array: HostArray | DeviceArray) -> None:
        """Free device memory, or managed memory (cudaFree).

        Where a free halts the device (``driver.halt``), it first waits for everything in the device's streams. Memory
        of a pool goes back to the pool. Raises DriverError for memory that has been freed already, belongs to another
        device, or is not device or managed memory.
        """
        context = await self._context()
        driver = context.driver
        self._state.allocations.check_free(driver, driver.call("cuMemFree"), array.address)
        await driver.memory.free(array.address, synchronizes=True)
        self._state.allocations.freed(driver.call("cuMemFree").api, array.address)
        self._state.mapped.end(array.address)
        if isinstance(array, HostArray):
            array.freed = True
        self._tell("device_synchronized", context.number)
        self._report("freed", "cudaFree", [context.number], array.address)

    async def mem_advise(self, array: HostArray | Section, advice: Advice) -> None:
        """Advise the driver on where and how managed memory, all of an array or a part, will be used (cudaMemAdvise).

        Raises DriverError for other memory, ValueError for an unknown advice and for a strided section.
        """
        context = await self._context()
        await context.driver.managed.advise(*self._migrating(context, array, "cuMemAdvise"), advice)

    async def mem_prefetch(
        self, array: HostArray | Section, *, to_host: bool = False, stream: Stream | DefaultStream | None = None
    ) -> None:
        """Migrate an array or section in managed memory to device or host, in stream order (cudaMemPrefetchAsync).

        Raises DriverError for other memory, and ValueError for a strided section.
        """
        context = await self._context()
        begin, nbytes = self._migrating(context, array, "cuMemPrefetchAsync")
        chosen = await self._stream(context, stream, "cuMemPrefetchAsync")
        await context.driver.managed.prefetch(begin, nbytes, chosen, to_host)

    def _migrating(self, context: PrimaryContext, place: HostArray | Section, call: str) -> tuple[int, int]:
        """Return address and bytes of memory that can migrate: managed memory, or any where the device uses ATS."""
        array, driver = array_of(place), context.driver
        if not array.managed:
            if not translates(driver.machine.spec) or driver.pinning.covers(array.address, array.nbytes):
                raise driver.refusal(driver.call(call), INVALID, f"array {array.name!r} is no managed memory")
            self._state.mapped.use(driver, array)
        return _range(place, call)

    # pinned memory of the host

    async def host_alloc(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float32, *, fill: Any = None
    ) -> HostArray:  # fmt: skip
        """Allocate an array in pinned memory of the host (cudaHostAlloc, hipHostMalloc); `fill`: its values.

        Copies from and to it need no staging, on all devices, and kernels use it in place, over the link. Its pages
        exist from the beginning. Free it by `free_host`.
        """
        array = self._made(name, shape, dtype, fill)
        give_address(array, await self.malloc_host(array.nbytes))
        return self.program.arrays.add(array, written=True)

    async def malloc_host(self, nbytes: int) -> int:
        """Allocate pinned memory of the host (cudaMallocHost), and return its address."""
        return await (await self._context()).driver.pinning.alloc(nbytes)

    async def free_host(self, memory: int | HostArray) -> None:
        """Free pinned memory of the host (cudaFreeHost).

        Raises DriverError for memory that was not allocated as pinned memory, or was freed already.
        """
        address = memory if isinstance(memory, int) else memory.address
        await (await self._context()).driver.pinning.free(address)
        self._state.mapped.end(address)
        if isinstance(memory, HostArray):
            self.program.arrays.forget(memory)

    async def host_register(self, array: HostArray) -> None:
        """Pin an existing array of the host (cudaHostRegister, hipHostRegister).

        Raises DriverError when a part of it is pinned already, and FreedHostMemory when it was freed.
        """
        self.program.devices[self._device].check_alive(array, "cudaHostRegister")
        await (await self._context()).driver.pinning.register(array.address, array.nbytes)

    async def host_unregister(self, array: HostArray) -> None:
        """Unpin an array (cudaHostUnregister). Raises DriverError when it is not pinned."""
        await (await self._context()).driver.pinning.unregister(array.address)
        self._state.mapped.end(array.address)

    # copies

    async def memcpy(self, destination: CopyEnd, source: CopyEnd) -> None:
        """Copy as many bytes as the source has (cudaMemcpy with cudaMemcpyDefault), in the default stream.

        The call returns when the real one does: after the completion of a copy from pinned memory or to the host, and
        at once for a copy between or within devices. Pageable memory is staged when the stream is empty, or at once for
        few bytes (``staging.inline``). Raises DriverError for device memory that is freed or unallocated, and for a
        destination too small; FreedHostMemory for a host array that was freed.
        """
        context = await self._context()
        stream = await self._stream(context, None, "cudaMemcpy")
        driver = context.driver
        from_host, to_host = (not isinstance(end, DeviceArray) for end in (source, destination))
        pinned = from_host and is_in_stream_order(driver, source, "cudaMemcpy")
        if from_host and not to_host and not pinned and _range(source, "cudaMemcpy")[1] > driver.costs.staging_inline:
            await driver.streams.synchronize(stream)
        await driver.call_copy()
        await self._copy(context, destination, source, stream, "cudaMemcpy")
        if pinned or to_host:
            await driver.streams.synchronize(stream)
            self._tell("synchronized", [stream])

    async def memcpy_async(
        self, destination: CopyEnd, source: CopyEnd, *, stream: Stream | DefaultStream | None = None
    ) -> None:
        """Copy as many bytes as the source has in the order of a stream (cudaMemcpyAsync, cudaMemcpyPeerAsync).

        With pinned memory the call returns at once. At its return, pageable memory has been read to a buffer, or
        written. Raises DriverError and FreedHostMemory as `memcpy` does.
        """
        context = await self._context()
        chosen = await self._stream(context, stream, "cudaMemcpyAsync")
        await context.driver.call_copy(chosen)
        await self._copy(context, destination, source, chosen, "cudaMemcpyAsync")

    async def memset_async(
        self, array: DeviceArray, value: int, *, stream: Stream | DefaultStream | None = None
    ) -> None:
        """Write the byte `value` to all of an array in the order of a stream (cudaMemsetAsync)."""
        context = await self._context()
        chosen = await self._stream(context, stream, "cuMemsetD8Async")
        driver = context.driver
        self._state.allocations.check_use(driver, driver.call("cuMemsetD8Async"), "its destination", array)
        capture = driver.graphs.capture_of(chosen)
        if capture is None:
            self._report("written", "cudaMemsetAsync", [context.number, chosen], array)
        await driver.kernels.memset(array.address, value & 0xFF, array.nbytes, chosen)
        if capture is not None:
            self._node(capture.last(chosen), [("the destination of a memset", array)])

    async def device_enable_peer_access(self, peer: int) -> None:
        """Let copies use the link to another device, and kernels its memory in place (cudaDeviceEnablePeerAccess)."""
        await (await self._context()).driver.peers.enable_access(peer)

    # stream-ordered memory, and the pools that it comes from

    async def malloc_async(
        self, shape: int | tuple[int, ...], dtype: DTypeLike = np.uint8, *,
        stream: Stream | DefaultStream | None = None, pool: MemPool | None = None,
    ) -> DeviceArray:  # fmt: skip
        """Allocate memory for later commands of a stream (cudaMallocAsync, cudaMallocFromPoolAsync).

        pool: by default the device's. Raises OutOfDeviceMemory if it does not fit, and DriverError for a pool of
        another device.
        """
        lengths, element = shape_of("device memory", shape), element_of("device memory", dtype)
        context = await self._context()
        chosen = await self._stream(context, stream, "cuMemAllocFromPoolAsync")
        pools, nbytes = context.driver.pools, DeviceArray(0, lengths, element).nbytes
        address = await pools.alloc(nbytes, chosen, pools.default() if pool is None else pool, self.program.phantom)
        self._state.allocations.made(address)
        self._report("allocated", "cudaMallocAsync", [context.number, chosen], address, nbytes)
        return DeviceArray(address, lengths, element)

    async def free_async(self, array: DeviceArray, *, stream: Stream | DefaultStream | None = None) -> None:
        """Free stream-ordered memory when a stream has completed its commands so far (cudaFreeAsync), without waiting.

        Raises DriverError for memory that has been freed already, belongs to another device, or is not stream-ordered.
        """
        context = await self._context()
        chosen = await self._stream(context, stream, "cuMemFreeAsync")
        driver = context.driver
        self._state.allocations.check_free(driver, driver.call("cuMemFreeAsync"), array.address)
        await driver.pools.free(array.address, chosen)
        self._state.allocations.freed(driver.call("cuMemFreeAsync").api, array.address)
        self._state.mapped.end(array.address)
        self._report("freed", "cudaFreeAsync", [context.number, chosen], array.address)

    async def device_get_default_mem_pool(self) -> MemPool:
        """Return the current device's default pool (cudaDeviceGetDefaultMemPool)."""
        return (await self._context()).driver.pools.default()

    async def mem_pool_create(self) -> MemPool:
        """Make a pool on the current device (cudaMemPoolCreate)."""
        return await (await self._context()).driver.pools.create()

    async def mem_pool_destroy(self, pool: MemPool) -> None:
        """Destroy a pool (cudaMemPoolDestroy). Raises DriverError while the pool has allocations."""
        await (await self._context()).driver.pools.destroy(pool)

    def mem_pool_set_attribute(
        self,
        pool: MemPool,
        *,
        release_threshold: int | None = None,
        reuse_follow_event_dependencies: bool | None = None,
        reuse_allow_opportunistic: bool | None = None,
        reuse_allow_internal_dependencies: bool | None = None,
    ) -> None:
        """Set how much unused memory a pool keeps, and which memory it reuses (cudaMemPoolSetAttribute).

        release_threshold: the unused bytes that the pool keeps at a synchronization; initially 0. The others: as in
        `ReusePolicies`. None leaves an attribute as it is. Raises ValueError for a threshold that is no byte count.
        """
        if release_threshold is not None:
            check_integers("mem_pool_set_attribute", [("release_threshold", release_threshold, 0)])
            pool.release_threshold = release_threshold
        if reuse_follow_event_dependencies is not None:
            pool.policies.follow_event_dependencies = reuse_follow_event_dependencies
        if reuse_allow_opportunistic is not None:
            pool.policies.allow_opportunistic = reuse_allow_opportunistic
        if reuse_allow_internal_dependencies is not None:
            pool.policies.allow_internal_dependencies = reuse_allow_internal_dependencies

    def mem_pool_get_attribute(self, pool: MemPool) -> PoolAttributes:
        """Return a pool's reserved and used bytes, now and at most, and its reuses (cudaMemPoolGetAttribute)."""
        return pool.statistics()

    async def mem_pool_trim_to(self, pool: MemPool, keep: int) -> None:
        """Give unused memory of a pool back until at most `keep` bytes are left (cudaMemPoolTrimTo)."""
        await (await self._context()).driver.pools.trim_to(pool, keep)

    async def mem_pool_set_access(self, pool: MemPool, device: int) -> None:
        """Let another device access a pool's memory (cudaMemPoolSetAccess); each growth of the pool then costs more."""
        await (await self._context()).driver.pools.set_access(pool, device)

    # streams

    async def stream_create(self, *, non_blocking: bool = False, priority: int = 0) -> Stream:
        """Make a stream on the current device (cudaStreamCreateWithPriority).

        The stream blocks with the legacy default stream unless it is ``non_blocking`` (cudaStreamNonBlocking): commands
        of either stream wait for earlier commands of the other. priority: 0, or a lower number for a greater priority;
        as in CUDA, a number outside of `device_get_stream_priority_range` is clamped to the range.
        """
        context = await self._context()
        least, greatest = self.device_get_stream_priority_range()
        stream = await context.driver.streams.create(
            priority=min(max(priority, greatest), least), order="non-blocking" if non_blocking else "blocking"
        )
        self._state.devices[stream] = context.number
        if non_blocking and self._state.told is not None:
            self._state.told.non_blocking.add(stream)
        return stream

    def device_get_stream_priority_range(self) -> tuple[int, int]:
        """Return the least and the greatest priority that a stream can have (cudaDeviceGetStreamPriorityRange)."""
        return 0, 1 - self.program.machine.spec.count("stream.priorities")

    async def stream_destroy(self, stream: Stream | DefaultStream | None) -> None:
        """Destroy a stream (cudaStreamDestroy); what was put into it still completes.

        Raises DriverError for the default stream, and for a stream that has been destroyed already.
        """
        driver, chosen = await self._at_stream(stream, "cuStreamDestroy")
        if chosen not in self._state.devices:
            raise driver.refusal(
                driver.call("cuStreamDestroy"), "CUDA_ERROR_INVALID_HANDLE", "it is the default stream"
            )
        await driver.streams.destroy(chosen)
        del self._state.devices[chosen]

    async def stream_synchronize(self, stream: Stream | DefaultStream | None = None) -> None:
        """Wait for everything in a stream (cudaStreamSynchronize); the legacy stream waits for blocking ones, too."""
        driver, chosen = await self._at_stream(stream, "cuStreamSynchronize")
        await driver.streams.synchronize(chosen)
        self._tell("synchronized", [chosen])

    async def stream_query(self, stream: Stream | DefaultStream | None = None) -> bool:
        """Tell whether everything in a stream has completed (cudaStreamQuery)."""
        driver, chosen = await self._at_stream(stream, "cuStreamQuery")
        is_complete = await driver.streams.query(chosen)
        if is_complete:
            self._tell("synchronized", [chosen])
        return is_complete

    async def stream_wait_event(self, stream: Stream | DefaultStream | None, event: TimedEvent) -> None:
        """Let later commands of a stream wait for an event of any device (cudaStreamWaitEvent).

        The host does not wait. An event that was never recorded is complete, as in CUDA.
        """
        driver, chosen = await self._at_stream(stream, "cuStreamWaitEvent")
        if event.destroyed:
            why = f"event {event.number} is destroyed"
            raise driver.refusal(driver.call("cuStreamWaitEvent"), "CUDA_ERROR_INVALID_HANDLE", why)
        if event.mark is not None:
            await driver.streams.wait_event(chosen, event.mark)
            if not driver.graphs.is_capturing(chosen):
                self._tell("follows", event, chosen)

    async def launch_host_func(
        self,
        function: Callable[[], object] | None,
        *,
        stream: Stream | DefaultStream | None = None,
        seconds: float = 0.0,
    ) -> None:
        """Put a host function into a stream (cudaLaunchHostFunc), without waiting for it.

        The library's callback thread calls the function when everything before it in the stream has completed, and
        works for ``seconds`` on a core; later commands of the stream wait. As in CUDA, the function makes no calls: it
        gets no ``t``. Raises TypeError for a coroutine function, ValueError for a time that is negative or not finite.
        """
        check_host_function("cudaLaunchHostFunc", function, seconds)
        driver, chosen = await self._at_stream(stream, "cuLaunchHostFunc")
        capture = driver.graphs.capture_of(chosen)
        if capture is None and (told := self._state.told) is not None and function is not None:
            function = told.host_function(function, chosen)
        await driver.streams.launch_host_func(chosen, function, seconds)
        if capture is not None:
            self._node(capture.last(chosen))

    async def set_device_flags(self, schedule: Schedule) -> None:
        """Set how threads wait for the current device (cudaSetDeviceFlags): auto, spin, yield or blocking_sync.

        While they wait, spinning threads keep cores that others may need; sleeping threads return later.
        """
        (await self._context()).driver.set_schedule(schedule)

    async def device_synchronize(self) -> None:
        """Wait for everything in all streams of the current device (cudaDeviceSynchronize)."""
        context = await self._context()
        for stream in [*context.driver.streams.all]:
            await context.driver.streams.synchronize(stream)
        self._tell("device_synchronized", context.number)

    # events

    async def event_create(self, *, timing: bool = True, blocking_sync: bool = False) -> TimedEvent:
        """Make an event on the current device (cudaEventCreateWithFlags).

        timing: False for cudaEventDisableTiming. blocking_sync: a thread that waits for the event gives its core up,
        whatever the device's flags say (cudaEventBlockingSync).
        """
        driver = (await self._context()).driver
        return await driver.events.create(timing=timing, blocking_sync=blocking_sync)

    async def event_destroy(self, event: TimedEvent) -> None:
        """Destroy an event (cudaEventDestroy); threads that wait for it go on waiting."""
        await (await self._context_on(event.device)).driver.events.destroy(event)

    async def event_record(self, event: TimedEvent, stream: Stream | DefaultStream | None = None) -> None:
        """Put an event behind everything in a stream of its device (cudaEventRecord)."""
        driver, chosen = await self._at_stream(stream, "cuEventRecord")
        await driver.events.record(event, chosen)
        if not driver.graphs.is_capturing(chosen):
            self._tell("recorded", event, chosen)

    async def event_synchronize(self, event: TimedEvent) -> None:
        """Wait until the device has reached an event (cudaEventSynchronize)."""
        await (await self._context_on(event.device)).driver.events.synchronize(event)
        self._tell("reached", event)

    async def event_query(self, event: TimedEvent) -> bool:
        """Tell whether the device has reached an event (cudaEventQuery)."""
        is_complete = await (await self._context_on(event.device)).driver.events.query(event)
        if is_complete:
            self._tell("reached", event)
        return is_complete

    async def event_elapsed_time(self, begin: TimedEvent, end: TimedEvent) -> float:
        """Return the milliseconds between two events (cudaEventElapsedTime).

        Raises DriverError for an event that was never recorded, or that the device has not reached yet.
        """
        events = (await self._context_on(begin.device)).driver.events
        return 1e3 * await events.elapsed_time(begin, end)

    # graphs: captured from streams or built node by node, and launched

    async def stream_begin_capture(self, stream: Stream | DefaultStream, *, mode: CaptureMode = "global") -> None:
        """Begin to capture a stream's commands instead of executing them (cudaStreamBeginCapture).

        mode: during the capture, global forbids memory calls to all threads, thread_local to this thread, relaxed to
        none. Raises DriverError for the legacy default stream, and for a stream that captures already.
        """
        driver, chosen = await self._at_stream(stream, "cuStreamBeginCapture")
        await driver.graphs.begin_capture(chosen, mode)

    async def stream_end_capture(self, stream: Stream | DefaultStream) -> CapturedGraph:
        """End the capture that began in a stream, and return its graph (cudaStreamEndCapture).

        Raises DriverError for a capture that is invalid, that another thread began, or whose origin does not wait for
        all streams that joined.
        """
        driver, chosen = await self._at_stream(stream, "cuStreamEndCapture")
        return await driver.graphs.end_capture(chosen)

    async def stream_is_capturing(self, stream: Stream | DefaultStream) -> bool:
        """Tell whether a stream is capturing (cudaStreamIsCapturing)."""
        driver, chosen = await self._at_stream(stream, "cuStreamIsCapturing")
        return driver.graphs.is_capturing(chosen)

    async def graph_create(self) -> BuiltGraph:
        """Make a graph without nodes on the current device (cudaGraphCreate)."""
        return await (await self._context()).driver.graphs.create()

    async def graph_add_kernel_node(
        self,
        graph: BuiltGraph,
        kernel: Kernel,
        *arguments: Any,
        grid: Shape,
        block: Shape,
        iterations: int | None = None,
        after: Sequence[int] = (),
        library: bool = False,
    ) -> int:
        """Add a launch (cudaGraphAddKernelNode) behind nodes `after`; return the node's number. Arguments: `launch`.

        Raises DriverError for memory that the kernel cannot reach or that is freed, and for an unknown node.
        """
        context = await self._context_on(graph.device)
        call = "cuGraphAddKernelNode"
        prepared = self._prepared(call, context, kernel, arguments, grid, block, iterations, library)
        await context.plugin.find_kernel(prepared.launch.kernel.name)
        place = await context.driver.graphs.add_kernel_node(
            graph, after, prepared.launch, prepared.values, touching=prepared.touching
        )
        self._node(graph.nodes[place], prepared.uses)
        return place

    async def graph_add_memset_node(
        self, graph: BuiltGraph, destination: DeviceArray, value: int, *, after: Sequence[int] = ()
    ) -> int:
        """Add a memset of device memory (cudaGraphAddMemsetNode) behind nodes `after`; return the node's number."""
        context = await self._context_on(graph.device)
        driver, call = context.driver, "cuGraphAddMemsetNode"
        self._state.allocations.check_use(driver, driver.call(call), "its destination", destination)
        place = await driver.graphs.add_memset_node(graph, after, destination.address, value & 0xFF, destination.nbytes)
        self._node(graph.nodes[place], [("the destination of a memset", destination)])
        return place

    async def graph_add_memcpy_node(
        self,
        graph: BuiltGraph,
        destination: HostArray | Section | DeviceArray,
        source: HostArray | Section | DeviceArray,
        *,
        after: Sequence[int] = (),
    ) -> int:
        """Add a copy of all of the source (cudaGraphAddMemcpyNode) behind nodes `after`; return the node's number.

        Raises DriverError for memory that is freed, pageable or another device's, and for a destination too small.
        """
        context, call = await self._context_on(graph.device), "cuGraphAddMemcpyNode"
        driver = context.driver
        to, begin, nbytes = self._check_copy(context, destination, source, call)
        if not isinstance(destination, DeviceArray) and not isinstance(source, DeviceArray):
            raise driver.refusal(driver.call(call), INVALID, "copies within the host are no nodes here")
        into = to if isinstance(destination, DeviceArray) else _span(destination, to, nbytes)
        out_of = begin if isinstance(source, DeviceArray) else _span(source, begin, nbytes)
        place = await driver.graphs.add_memcpy_node(graph, after, into, out_of, nbytes)
        self._node(graph.nodes[place], _ends(destination, source))
        return place

    async def graph_add_host_node(
        self,
        graph: BuiltGraph,
        function: Callable[[], object] | None,
        *,
        seconds: float = 0.0,
        after: Sequence[int] = (),
    ) -> int:
        """Add a function taking `seconds` (cudaGraphAddHostNode) behind nodes `after`; return the node's number."""
        driver = (await self._context_on(graph.device)).driver
        check_host_function("cudaGraphAddHostNode", function, seconds)
        place = await driver.graphs.add_host_node(graph, after, function, seconds)
        self._node(graph.nodes[place])
        return place

    async def graph_instantiate(self, graph: CapturedGraph | BuiltGraph) -> GraphExec:
        """Make an executable graph (cudaGraphInstantiate); a graph may have several.

        A graph that a program builds itself may grow afterwards; the executable graph keeps its present nodes.
        """
        return await (await self._context_on(graph.device)).driver.graphs.instantiate(graph)

    async def graph_launch(self, executable: GraphExec, *, stream: Stream | DefaultStream | None = None) -> None:
        """Put all nodes of a graph into a stream (cudaGraphLaunch), without waiting for them.

        The graph comes after the stream's earlier commands and after the executable graph's previous launch; the host
        takes no part in the execution. Raises DriverError for a graph that is destroyed or of another device, for a
        capturing stream, and for memory of the graph that has been freed: a graph keeps addresses, not memory.
        """
        driver, chosen = await self._at_stream(stream, "cuGraphLaunch")
        for what, end in [use for node in executable.graph.nodes for use in node.uses]:
            if isinstance(end, DeviceArray) or (isinstance(end, HostArray) and end.managed):
                call = driver.call("cuGraphLaunch")
                self._state.allocations.check_use(driver, call, what, end, anywhere=True)
            elif isinstance(end, HostArray | Section):
                made_on = await self._context_on(executable.graph.device)
                self.program.devices[made_on.number].check_alive(array_of(end), "cuGraphLaunch")
        if (told := self._state.told) is not None:
            told.graph_launched(executable, (await self._context_on(executable.graph.device)).number, chosen)
        await driver.graphs.launch(executable, chosen)

    async def graph_exec_destroy(self, executable: GraphExec) -> None:
        """Destroy an executable graph (cudaGraphExecDestroy); launched work still completes."""
        await (await self._context_on(executable.graph.device)).driver.graphs.destroy(executable)

    # for several groups of calls

    def _tell(self, what: str, *details: Any) -> None:
        """Tell the observer, if there is one, what has happened: the name of its method, and the details."""
        if (told := self._state.told) is not None:
            getattr(told, what)(*details)

    def _report(self, what: str, call: str, place: Sequence[Any], *details: Any) -> None:
        """Report to the observer `what` a call has done. place: its device, and its stream if it has one."""
        if (told := self._state.told) is not None:
            with told.call(call, *place) as number:
                getattr(told, what)(number, place[0], *details)

    def _node(self, node: GraphNode, uses: Sequence[tuple[str, Any]] = ()) -> None:
        """Store in a new graph node its memory arguments, each with its role, and report the node to the observer."""
        node.uses = uses
        self._tell("node_made", node)

    def _prepared(
        self, call: str, context: PrimaryContext, kernel: Kernel, arguments: Sequence[Any], grid: Shape, block: Shape,
        iterations: int | None, library: bool,
    ) -> PreparedLaunch:  # fmt: skip
        """Make a launch and check its arguments. Raises DriverError for memory that the kernel cannot reach."""
        check_arguments(kernel, arguments, "t.malloc(...) or t.malloc_managed(...)")
        for name, shape in (("grid", grid), ("block", block)):
            sizes = shape if isinstance(shape, tuple) else (shape,)
            if not all(0 < size < 1 << 31 for size in sizes):
                raise ValueError(f"{call}: {name} is {shape!r}, but must be a number from 1 to 2**31 - 1 or two (x, y)")
        (columns, rows), (width, height) = (one if isinstance(one, tuple) else (one, 1) for one in (grid, block))
        launch = kernel.launch(columns * rows, width * height, iterations, tuple(arguments))
        if library:
            launch = attrs.evolve(launch, kernel=attrs.evolve(launch.kernel, loads_in_flight=None))
        tile = Tile(width, height, columns) if isinstance(block, tuple) else None
        launch = attrs.evolve(launch, strided=True, tile=tile)
        if self.program.phantom:
            launch = attrs.evolve(launch, kernel=attrs.evolve(launch.kernel, body=None))
        uses = [
            (f"argument {number} of kernel {launch.kernel.name!r}", argument)
            for number, argument in enumerate(arguments, 1)
        ]
        driver, arguments = context.driver, [*arguments]
        for place, (what, argument) in enumerate(uses):
            may_be_remote = isinstance(argument, DeviceArray) and driver.peers.enabled
            peer = device_of(driver.machine, argument.address) if may_be_remote else None
            reached = peer in driver.peers.enabled
            self._state.allocations.check_use(driver, driver.call(call), what, argument, anywhere=reached)
            if peer is not None and reached:
                arguments[place] = self._state.mapped.at_peer(driver, peer, argument, self.program.phantom)
        in_place = [one for one in arguments if isinstance(one, HostArray) and self._state.shared != "one_memory"]
        for array in in_place:
            self._state.mapped.use(driver, array)
        memory = driver.device.memory

        def view(argument: Any) -> Any:
            return argument.values if isinstance(argument, HostArray) else memory.array(argument)

        touching = accesses_of(0, launch, (), tuple(arguments), in_place, [True] * len(in_place), view)
        if (data := data_of(launch, arguments, view)) is not None:
            touching = attrs.evolve(touching, data=data)
        values = [argument.values if isinstance(argument, HostArray) else argument for argument in arguments]
        return PreparedLaunch(launch, values, touching, uses)

    def _made(self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike, fill: Any) -> HostArray:
        """Make an array without an address, for memory that is allocated next."""
        lengths, element = shape_of(name, shape), element_of(name, dtype)
        values = None if self.program.phantom else make_values(name, lengths, element, fill)
        return HostArray(name, 0, lengths, element, values=values, watch=self.program.arrays.watch)

    async def _copy(
        self, context: PrimaryContext, destination: CopyEnd, source: CopyEnd, stream: Stream, call: str
    ) -> None:
        """Submit a copy from and to memory of any kind; report it, or note its memory in the node of a capture."""
        await self._copying(context, destination, source, stream, call)
        capture = context.driver.graphs.capture_of(stream)
        if capture is not None and any(isinstance(end, DeviceArray) for end in (source, destination)):
            self._node(capture.last(stream), _ends(destination, source))
        elif (told := self._state.told) is not None:
            told.copied(call, context.driver, stream, destination, source)

    def _copying(
        self, context: PrimaryContext, destination: CopyEnd, source: CopyEnd, stream: Stream, call: str
    ) -> Awaitable[None]:
        driver = context.driver
        between = isinstance(source, DeviceArray) and isinstance(destination, DeviceArray)
        to, begin, nbytes = self._check_copy(context, destination, source, call, between)
        if isinstance(source, DeviceArray) and isinstance(destination, DeviceArray):
            there, here = (device_of(self.program.machine, address) for address in (to, begin))
            assert there is not None and here is not None, "check_use lets no other address pass"
            if there == here == context.number:
                return driver.copies.dtod(to, begin, nbytes, stream)
            return driver.peers.copy(stream, None, there, to, here, begin, nbytes)
        if isinstance(source, DeviceArray):
            return driver.copies.dtoh(_span(destination, to, nbytes), begin, nbytes, stream)
        if isinstance(destination, DeviceArray):
            return driver.copies.htod(to, _span(source, begin, nbytes), nbytes, stream)
        return self._copy_on_host(_span(destination, to, nbytes), _span(source, begin, nbytes))

    def _check_copy(
        self, context: PrimaryContext, destination: CopyEnd, source: CopyEnd, call: str, anywhere: bool = False
    ) -> tuple[int, int, int]:
        """Check a copy; return the addresses of destination and source, and the bytes. Raises what `memcpy` does."""
        driver = context.driver
        (to, room), (begin, nbytes) = _range(destination, call), _range(source, call)
        if nbytes > room:
            why = f"the source has {nbytes} bytes, its destination {room}"
            raise driver.refusal(driver.call(call), INVALID, why)
        for what, end in {"its source": source, "its destination": destination}.items():
            if isinstance(end, DeviceArray):
                self._state.allocations.check_use(driver, driver.call(call), what, end, anywhere=anywhere)
            else:
                self.program.devices[context.number].check_alive(array_of(end), call)
        return to, begin, nbytes

    async def _copy_on_host(self, destination: HostSpan, source: HostSpan) -> None:
        """Copy within the host, in the calling thread."""
        await self.program.machine.host_memory.copy(source.nbytes)
        if destination.bytes is not None and source.bytes is not None:
            destination.bytes[:] = source.bytes


def check_host_function(call: str, function: Callable[[], object] | None, seconds: float) -> None:
    """Raise, for `call`, TypeError for a coroutine function, ValueError for a time that is negative or not finite."""
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{call}: {function!r} is no plain function; a host function makes no calls")
    if seconds < 0.0:
        raise ValueError(f"{call}: seconds is {seconds!r}, but must not be negative")


def is_in_stream_order(driver: CudaDriver, end: CopyEnd, call: str) -> bool:
    """Tell whether copies access the host memory `end` in stream order, and not before the call returns.

    That is so for pinned and managed memory. call: its name in errors. Raises ValueError for a strided section.
    """
    begin, nbytes = _range(end, call)
    return (not isinstance(end, DeviceArray) and array_of(end).managed) or driver.pinning.covers(begin, nbytes)


def _range(end: CopyEnd, call: str) -> tuple[int, int]:
    """Return the address and the bytes of a copy's source or destination. Raises ValueError for a strided section."""
    if isinstance(end, Section) and not end.is_contiguous:
        raise ValueError(f"{call}: {end} is in pieces, and a copy moves one range of bytes")
    return (end.address, end.nbytes) if isinstance(end, DeviceArray) else extent(end, call)


def _ends(destination: CopyEnd, source: CopyEnd) -> list[tuple[str, CopyEnd]]:
    return [("the destination of a copy", destination), ("the source of a copy", source)]


def _span(end: CopyEnd, address: int, nbytes: int) -> HostSpan:
    assert not isinstance(end, DeviceArray)
    return array_of(end).span(address, nbytes)
