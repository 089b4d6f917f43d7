"""The driver of one device: the calls of a user-mode driver library (CUDA's), made by host threads.

Every call runs in the calling thread and takes the context lock for its work, so calls of several threads queue.
It costs what the profile says, is counted under its real name, and returns when the real one does: an asynchronous
copy of pinned memory at once, one of pageable memory when the bytes are staged (to the device) or have arrived
(from it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from offloadrt.driver.copies import HostRange
from offloadrt.driver.driver_memory import DriverMemory
from offloadrt.driver.errors import DriverError
from offloadrt.driver.event import StreamEvent
from offloadrt.driver.peer_copies import PeerCopies
from offloadrt.driver.staging import Move
from offloadrt.driver.touching import NOTHING, Touching
from offloadrt.kernels import Kernel, Launch
from offloadrt.machine import Device, DeviceArray, LaunchOutOfResources, Machine, Stream
from offloadrt.machine.messages import KernelPacket, WaitPacket
from offloadrt.sim import Signal
from offloadrt.trace import events

DeviceArguments = Sequence[Any] | Callable[[], Sequence[Any]]
"""Arguments of a kernel's body (a DeviceArray becomes a view), or a function that makes them when the kernel ends."""

_MEMSET_THREADS, _MEMSET_BYTES_PER_THREAD = 512, 16


class Driver(DriverMemory):
    """The driver library's context on one device.

    Every coroutine takes ``cause``, the number of the directive that asks for it (default: the running actor's).
    """

    def __init__(self, machine: Machine, device: Device) -> None:
        super().__init__(machine, device)
        self._peers = PeerCopies(self._context, self._copies)

    @classmethod
    def of(cls, machine: Machine, number: int = 0) -> Driver:
        """The driver of a machine's device ``number``."""
        return cls(machine, machine.devices[number])

    # Streams and events

    async def stream_create(self, cause: int | None = None) -> Stream:
        """cuStreamCreate: a new stream, on the next hardware queue."""
        with self._context.call("cuStreamCreate", None, cause):
            async with self._context.locked(self.costs.stream_create):
                stream = self.device.open_stream()
                self.streams.append(stream)
                self._copies.open(stream)
                return stream

    async def stream_destroy(self, stream: Stream, cause: int | None = None) -> None:
        """cuStreamDestroy: what was submitted still completes."""
        with self._context.call("cuStreamDestroy", stream, cause):
            async with self._context.locked(self.costs.stream_destroy):
                self.streams.remove(stream)
                self._copies.close(stream)

    async def stream_synchronize(self, stream: Stream, cause: int | None = None) -> None:
        """cuStreamSynchronize: wait until everything submitted to the stream has completed."""
        with self._context.call("cuStreamSynchronize", stream, cause):
            await self._context.synchronize(stream, stream.last)

    async def event_record(self, stream: Stream, cause: int | None = None) -> StreamEvent:
        """cuEventRecord: a mark behind everything submitted to the stream so far."""
        with self._context.call("cuEventRecord", stream, cause):
            await self._context.locked_work(self.costs.event_record)
            return StreamEvent(stream, stream.last)

    async def stream_wait_event(self, stream: Stream, event: StreamEvent, cause: int | None = None) -> None:
        """cuStreamWaitEvent: what is submitted to the stream from now on starts after the event.  Does not wait."""
        with self._context.call("cuStreamWaitEvent", stream, cause):
            if event.done is None or event.done.is_set:
                await self._context.locked_work(self.costs.event_wait)
                return
            done = Signal(self.machine.sim, f"wait of stream {stream.index} for stream {event.stream.index}")
            await self._context.submit(WaitPacket(stream, event.done, done), self.costs.event_wait)

    async def event_synchronize(self, event: StreamEvent, cause: int | None = None) -> None:
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
            await self._copies.to_device(call.api, dst, src, nbytes, stream, call.cause, pinned)

    async def memcpy_dtoh_async(
        self, dst: HostRange, src: int, nbytes: int, stream: Stream, cause: int | None = None, pinned: bool = False
    ) -> None:
        """cuMemcpyDtoHAsync: pinned memory is written when the copy completes, pageable memory before the call returns.

        Raises DriverError when the device's range lies in no block.
        """
        with self._context.call("cuMemcpyDtoHAsync", stream, cause) as call:
            await self._copies.to_host(call.api, dst, src, nbytes, stream, call.cause, pinned)

    async def memcpy_dtod_async(
        self, dst: int, src: int, nbytes: int, stream: Stream, cause: int | None = None
    ) -> None:
        """cuMemcpyDtoDAsync: a copy within the device.  Raises DriverError when a range lies in no block."""
        with self._context.call("cuMemcpyDtoDAsync", stream, cause) as call:
            await self._copies.within(call.api, dst, src, nbytes, stream, call.cause)

    async def memcpy_peer_async(
        self,
        stream: Stream,
        cause: int | None,
        dst_device: int,
        dst_address: int,
        src_device: int,
        src_address: int,
        nbytes: int,
    ) -> None:
        """cuMemcpyPeerAsync: a copy between two devices, in a stream of one of them, whose copy engine does it.

        It goes over their link when this context has enabled access to the other device; otherwise through the host, or
        without a link as ``p2p.without_link`` says.  Raises DriverError for a device that is not there, for a stream
        of neither, and when a range lies in no block.
        """
        with self._context.call("cuMemcpyPeerAsync", stream, cause) as call:
            await self._peers.copy(
                call.api, dst_device, dst_address, src_device, src_address, nbytes, stream, call.cause
            )

    async def device_can_access_peer(self, peer: int, cause: int | None = None) -> bool:
        """cuDeviceCanAccessPeer: has this device a link to another?  Raises DriverError for one that is not there."""
        with self._context.call("cuDeviceCanAccessPeer", None, cause) as call:
            return self._peers.can_access(call.api, peer)

    async def ctx_enable_peer_access(self, peer: int, cause: int | None = None) -> None:
        """cuCtxEnablePeerAccess: copies between this device and another use their link from now on.

        Raises DriverError when they have none, and when access is enabled already.
        """
        with self._context.call("cuCtxEnablePeerAccess", None, cause) as call:
            await self._context.locked_work(self.costs.enable_peer_access)
            self._peers.enable(call.api, peer)

    async def memset(self, dst: int, value: int, nbytes: int, stream: Stream, cause: int | None = None) -> None:
        """cuMemsetD8Async: the driver launches a kernel that writes ``nbytes`` bytes of ``value``.

        Raises DriverError when the range lies in no block.
        """
        with self._context.call("cuMemsetD8Async", stream, cause) as call:
            target = self._copies.device_bytes(call.api, dst, nbytes)
            run = None if target is None else lambda: target(0, nbytes).fill(value)
            writing = Kernel("cuMemsetD8", bytes_per_iteration=1.0, threads_per_team=_MEMSET_THREADS)
            teams = max(1, -(-nbytes // (_MEMSET_THREADS * _MEMSET_BYTES_PER_THREAD)))
            await self._launch(writing.launch(teams, iterations=nbytes), run, stream, call.cause)

    # Kernels

    async def launch_kernel(
        self,
        launch: Launch,
        device_args: DeviceArguments,
        stream: Stream,
        cause: int | None = None,
        touching: Touching = NOTHING,
    ) -> None:
        """cuLaunchKernel: the body runs when the kernel ends, unless it has none or an argument is a phantom.

        touching: what it does with managed memory.

        Raises DriverError when no team of the launch fits on an SM.
        """
        with self._context.call("cuLaunchKernel", stream, cause) as call:
            try:
                self.device.compute.spec.demand(launch)
            except LaunchOutOfResources as error:
                raise DriverError(call.api, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", str(error)) from None
            await self._launch(launch, self._body(launch.kernel, device_args), stream, call.cause, touching)

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

    async def _launch(
        self, launch: Launch, run: Move | None, stream: Stream, cause: int, touching: Touching = NOTHING
    ) -> None:
        number = self.machine.next_number()
        done = Signal(self.machine.sim, f"kernel {number} ({launch.kernel.name})")
        packet = KernelPacket(number, stream, cause, launch, run, done, accesses=touching.accesses)
        await self._context.submit(packet, self.costs.launch)
        if (trace := self.machine.trace) is not None:
            queue, name = stream.queue.number, launch.kernel.name
            trace(events.KernelSubmit, self.device.index, queue, cause, number, name)
