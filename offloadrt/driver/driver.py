"""The driver of one device: the calls of a user-mode driver library (CUDA's), made by host threads.

Every call runs in the calling thread and takes the context lock for its work, so calls of several threads queue.
It costs what the profile says, is counted under its real name, and returns when the real one does: an asynchronous
copy of pinned memory at once, one of pageable memory when the bytes are staged (to the device) or have arrived
(from it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs

from offloadrt.driver.context import Context
from offloadrt.driver.costs import DriverCosts
from offloadrt.driver.errors import DriverError, OutOfDeviceMemory
from offloadrt.driver.halting import Halting
from offloadrt.driver.pinning import PinnedRanges
from offloadrt.driver.staging import DeviceBytes, Move, Staging, Steps
from offloadrt.kernels import Kernel, Launch
from offloadrt.machine import Device, DeviceArray, InvalidDeviceAddress, LaunchOutOfResources, Machine, OutOfSegments
from offloadrt.machine.backing import Bytes
from offloadrt.machine.hardware_queue import Stream
from offloadrt.machine.messages import CopyPacket, KernelPacket, WaitPacket
from offloadrt.sim import Lock, Signal
from offloadrt.trace import events

DeviceArguments = Sequence[Any] | Callable[[], Sequence[Any]]
"""Arguments of a kernel's body (a DeviceArray becomes a view), or a function that makes them when the kernel ends."""

INVALID = "CUDA_ERROR_INVALID_VALUE"
_MEMSET_THREADS, _MEMSET_BYTES_PER_THREAD = 512, 16


class HostRange(Protocol):
    """The host's end of a copy: ``bytes`` is None for a phantom."""

    @property
    def address(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def bytes(self) -> Bytes | None: ...


@attrs.frozen(eq=False)
class Event:
    """A mark in a stream; complete when everything before it in the stream is, that is, the packet just before it."""

    stream: Stream
    done: Signal | None
    """Completion of that packet; None when there is none."""

    @property
    def is_complete(self) -> bool:
        return self.done is None or self.done.is_set


@attrs.frozen
class DriverStatistics:
    """Counts of one device's driver."""

    streams: int
    streams_visited: int
    """By frees, while they held the context lock (``driver.free_visits_streams``)."""


class Driver:
    """The driver library's context on one device.

    Every coroutine takes ``cause``, the number of the directive that asks for it (default: the running actor's).
    """

    def __init__(self, machine: Machine, device: Device) -> None:
        self.machine = machine
        self.device = device
        self.costs = DriverCosts.of(machine.spec)
        self.streams: list[Stream] = []
        """Those of the context, in order of creation."""
        self._context = Context(machine, device, self.costs)
        self._halting = Halting(machine.sim, device, machine.spec.text("driver.halt"), machine.host_time)
        self._pinned = PinnedRanges()
        self._staging: dict[int, tuple[Staging, Staging]] = {}
        self._visited = 0

    @classmethod
    def of(cls, machine: Machine, number: int = 0) -> Driver:
        """The driver of a machine's device ``number``."""
        return cls(machine, machine.devices[number])

    @property
    def context(self) -> Lock:
        """The context lock."""
        return self._context.lock

    def statistics(self) -> DriverStatistics:
        """What the driver counted so far."""
        return DriverStatistics(len(self.streams), self._visited)

    # Memory

    async def mem_alloc(self, nbytes: int, phantom: bool = False, cause: int | None = None) -> int:
        """cuMemAlloc: the address of a new block; a phantom block has no bytes.

        Raises OutOfDeviceMemory, and DriverError for a size that is not positive.
        """
        with self._context.call("cuMemAlloc", None, cause) as call:
            if nbytes <= 0:
                raise DriverError(call.api, INVALID, f"{nbytes} bytes asked for")
            woken = await self._context.enter()
            try:
                resume = await self._halting.begin("alloc", call.api, call.cause)
                try:
                    address = await self._allocate(nbytes, phantom, woken)
                finally:
                    self._halting.end(resume)
            finally:
                self._context.leave()
            self._context.trace(events.Allocate, -1, call.cause, address, nbytes, call.api)
            return address

    async def _allocate(self, nbytes: int, phantom: bool, woken: float) -> int:
        memory, sim = self.device.memory, self.machine.sim
        try:
            block, segments = memory.allocate(nbytes, phantom)
        except OutOfSegments:
            free = memory.free_bytes
            await self._context.work(woken + self.costs.allocate)
            raise OutOfDeviceMemory("cuMemAlloc", nbytes, free, sim.current.name, sim.now, self.device.index) from None
        try:
            new = segments * self.costs.allocate_segment
            await self._context.work(woken + (new if segments else self.costs.allocate))
        except BaseException:
            memory.free(block.address)
            raise
        return block.address

    async def mem_free(self, address: int, cause: int | None = None) -> None:
        """cuMemFree.  Raises DriverError for an address at which no block begins."""
        with self._context.call("cuMemFree", None, cause) as call:
            woken = await self._context.enter()
            try:
                for _ in self.streams if self.costs.visit else ():
                    await self._context.work(self.costs.visit)
                    self._visited += 1
                resume = await self._halting.begin("free", call.api, call.cause)
                try:
                    await self._context.work(woken + self.costs.free)
                    try:
                        block, segments = self.device.memory.free(address)
                    except InvalidDeviceAddress as error:
                        raise DriverError(call.api, INVALID, str(error)) from None
                    self._context.trace(events.Free, -1, call.cause, address, block.size, call.api)
                    if segments:
                        await self._context.work(segments * self.costs.free_segment)
                finally:
                    self._halting.end(resume)
            finally:
                self._context.leave()

    async def mem_host_register(self, address: int, nbytes: int, cause: int | None = None) -> None:
        """cuMemHostRegister: pin a range of host memory.  Raises DriverError when any of it is pinned already."""
        with self._context.call("cuMemHostRegister", None, cause) as call:
            if self._pinned.overlaps(address, nbytes):
                code = "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"
                raise DriverError(call.api, code, f"{nbytes} bytes at {address:#x}")
            self._pinned.add(address, nbytes)
            await self._context.locked_work(self.costs.register + nbytes * self.costs.register_per_byte)

    async def mem_host_unregister(self, address: int, cause: int | None = None) -> None:
        """cuMemHostUnregister.  Raises DriverError when no pinned range begins there."""
        with self._context.call("cuMemHostUnregister", None, cause) as call:
            if not self._pinned.remove(address):
                code = "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"
                raise DriverError(call.api, code, f"nothing is pinned at {address:#x}")
            await self._context.locked_work(self.costs.unregister)

    # Streams and events

    async def stream_create(self, cause: int | None = None) -> Stream:
        """cuStreamCreate: a new stream, on the next hardware queue."""
        with self._context.call("cuStreamCreate", None, cause):
            await self._context.locked_work(self.costs.stream_create)
            stream = self.device.open_stream()
            self.streams.append(stream)
            chunk, capacity = self.costs.staging_chunk, self.costs.staging_bytes
            self._staging[stream.index] = (Staging(chunk, capacity), Staging(chunk, capacity))
            return stream

    async def stream_destroy(self, stream: Stream, cause: int | None = None) -> None:
        """cuStreamDestroy: what was submitted still completes."""
        with self._context.call("cuStreamDestroy", stream, cause):
            await self._context.locked_work(self.costs.stream_destroy)
            self.streams.remove(stream)
            del self._staging[stream.index]

    async def stream_synchronize(self, stream: Stream, cause: int | None = None) -> None:
        """cuStreamSynchronize: wait until everything submitted to the stream has completed."""
        with self._context.call("cuStreamSynchronize", stream, cause):
            await self._context.synchronize(stream, stream.last)

    async def event_record(self, stream: Stream, cause: int | None = None) -> Event:
        """cuEventRecord: a mark behind everything submitted to the stream so far."""
        with self._context.call("cuEventRecord", stream, cause):
            await self._context.locked_work(self.costs.event_record)
            return Event(stream, stream.last)

    async def stream_wait_event(self, stream: Stream, event: Event, cause: int | None = None) -> None:
        """cuStreamWaitEvent: what is submitted to the stream from now on starts after the event.  Does not wait."""
        with self._context.call("cuStreamWaitEvent", stream, cause):
            if event.done is None or event.done.is_set:
                await self._context.locked_work(self.costs.event_wait)
                return
            done = Signal(self.machine.sim, f"wait of stream {stream.index} for stream {event.stream.index}")
            await self._context.submit(stream, WaitPacket(stream.index, event.done, done), self.costs.event_wait)

    async def event_synchronize(self, event: Event, cause: int | None = None) -> None:
        """cuEventSynchronize: wait until the event is complete."""
        with self._context.call("cuEventSynchronize", event.stream, cause):
            await self._context.synchronize(event.stream, event.done)

    # Copies

    async def memcpy_htod_async(
        self, dst: int, src: HostRange, nbytes: int, stream: Stream, cause: int | None = None, pinned: bool = False
    ) -> None:
        """cuMemcpyHtoDAsync: pinned memory is read when the copy completes, pageable memory before the call returns.

        Raises DriverError when the device's range lies in no block.
        """
        with self._context.call("cuMemcpyHtoDAsync", stream, cause) as call:
            target = self._device_bytes(call.api, dst, nbytes)
            source = src.bytes
            if pinned or self._pinned.covers(src.address, nbytes):
                move = None
                if source is not None and target is not None:
                    move = _moving(lambda: source[:nbytes], target, nbytes)
                await self._copy(stream, "h2d", nbytes, "pinned", move, call.cause)
            else:
                steps = self._steps(call.cause)
                await self._staging[stream.index][0].upload(steps, stream, source, target, nbytes)

    async def memcpy_dtoh_async(
        self, dst: HostRange, src: int, nbytes: int, stream: Stream, cause: int | None = None, pinned: bool = False
    ) -> None:
        """cuMemcpyDtoHAsync: pinned memory is written when the copy completes, pageable memory before the call returns.

        Raises DriverError when the device's range lies in no block.
        """
        with self._context.call("cuMemcpyDtoHAsync", stream, cause) as call:
            source = self._device_bytes(call.api, src, nbytes)
            target = dst.bytes
            if pinned or self._pinned.covers(dst.address, nbytes):
                move = None
                if source is not None and target is not None:
                    move = _moving(lambda: source(0, nbytes), lambda _, size: target[:size], nbytes)
                await self._copy(stream, "d2h", nbytes, "pinned", move, call.cause)
            else:
                steps = self._steps(call.cause)
                await self._staging[stream.index][1].download(steps, stream, target, source, nbytes)

    async def memcpy_dtod_async(
        self, dst: int, src: int, nbytes: int, stream: Stream, cause: int | None = None
    ) -> None:
        """cuMemcpyDtoDAsync: a copy within the device.  Raises DriverError when a range lies in no block."""
        with self._context.call("cuMemcpyDtoDAsync", stream, cause) as call:
            target = self._device_bytes(call.api, dst, nbytes)
            source = self._device_bytes(call.api, src, nbytes)
            move = None
            if source is not None and target is not None:
                move = _moving(lambda: source(0, nbytes), target, nbytes)
            await self._copy(stream, "d2d", nbytes, "device", move, call.cause)

    async def memset(self, dst: int, value: int, nbytes: int, stream: Stream, cause: int | None = None) -> None:
        """cuMemsetD8Async: the driver launches a kernel that writes ``nbytes`` bytes of ``value``.

        Raises DriverError when the range lies in no block.
        """
        with self._context.call("cuMemsetD8Async", stream, cause) as call:
            target = self._device_bytes(call.api, dst, nbytes)
            run = None if target is None else lambda: target(0, nbytes).fill(value)
            writing = Kernel("cuMemsetD8", bytes_per_iteration=1.0, threads_per_team=_MEMSET_THREADS)
            teams = max(1, -(-nbytes // (_MEMSET_THREADS * _MEMSET_BYTES_PER_THREAD)))
            await self._launch(writing.launch(teams, iterations=nbytes), run, stream, call.cause)

    # Kernels

    async def launch_kernel(
        self, launch: Launch, device_args: DeviceArguments, stream: Stream, cause: int | None = None
    ) -> None:
        """cuLaunchKernel: the body runs when the kernel ends, unless it has none or an argument is a phantom.

        Raises DriverError when no team of the launch fits on an SM.
        """
        with self._context.call("cuLaunchKernel", stream, cause) as call:
            try:
                self.device.compute.spec.demand(launch)
            except LaunchOutOfResources as error:
                raise DriverError(call.api, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", str(error)) from None
            await self._launch(launch, self._body(launch.kernel, device_args), stream, call.cause)

    def _body(self, kernel: Kernel, device_args: DeviceArguments) -> Move | None:
        memory, body = self.device.memory, kernel.body
        if body is None:
            return None
        if callable(device_args):
            return lambda: body(*device_args())
        arrays = [argument for argument in device_args if isinstance(argument, DeviceArray)]
        if any(memory.is_phantom(array.address) for array in arrays):
            return None
        return lambda: body(*(memory.array(one) if isinstance(one, DeviceArray) else one for one in device_args))

    async def _launch(self, launch: Launch, run: Move | None, stream: Stream, cause: int) -> None:
        number = self.machine.next_number()
        done = Signal(self.machine.sim, f"kernel {number} ({launch.kernel.name})")
        packet = KernelPacket(number, stream.index, stream.queue.number, cause, launch, run, done)
        await self._context.submit(stream, packet, self.costs.launch)
        self._context.trace(events.KernelSubmit, stream.queue.number, cause, number, launch.kernel.name)

    async def _copy(
        self, stream: Stream, direction: str, nbytes: int, memory: str, move: Move | None, cause: int
    ) -> Signal:
        number = self.machine.next_number()
        done = Signal(self.machine.sim, f"copy {number} ({direction})")
        queue = stream.queue.number
        packet = CopyPacket(number, stream.index, queue, cause, direction, nbytes, memory, move, done)
        await self._context.submit(stream, packet, self.costs.copy_submit)
        return done

    def _steps(self, cause: int) -> Steps:
        async def submit(stream: Stream, direction: str, nbytes: int, move: Move | None) -> Signal:
            return await self._copy(stream, direction, nbytes, "staged", move, cause)

        return Steps(submit, self._context.wait, self.machine.host_memory.copy)

    def _device_bytes(self, api: str, address: int, nbytes: int) -> DeviceBytes | None:
        """How to see the device's bytes of a copy; None for a phantom.  Raises DriverError."""
        memory = self.device.memory
        try:
            block = memory.block_of(address)
        except InvalidDeviceAddress as error:
            raise DriverError(api, INVALID, str(error)) from None
        if address + nbytes > block.address + block.size:
            raise DriverError(api, INVALID, f"{nbytes} bytes at {address:#x} reach beyond their block")
        return None if block.phantom else lambda offset, size: memory.view(address + offset, size)


def _moving(source: Callable[[], Bytes], target: DeviceBytes, nbytes: int) -> Move:
    def move() -> None:
        target(0, nbytes)[:] = source()

    return move
