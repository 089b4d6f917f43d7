"""The driver of one device: the calls of a user-mode driver library (CUDA's), made by host threads.

Every call runs in the calling thread and takes the context lock for its work, so calls of several threads queue.
It costs what the profile says, is counted under its real name, and returns when the real one does: an asynchronous
copy of pinned memory at once, one of pageable memory when the bytes are staged (to the device) or have arrived
(from it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import attrs

from offloadrt.driver.context import Context
from offloadrt.driver.copies import Copies, HostRange
from offloadrt.driver.costs import DriverCosts
from offloadrt.driver.errors import INVALID, DriverError, OutOfDeviceMemory
from offloadrt.driver.event import Event
from offloadrt.driver.halting import Halting
from offloadrt.driver.peer_copies import PeerCopies
from offloadrt.driver.rocr import NOTHING, Touching
from offloadrt.driver.staging import Move
from offloadrt.driver.uvm import ADVICE, Advice, Uvm
from offloadrt.kernels import Kernel, Launch
from offloadrt.machine import (
    Device,
    DeviceArray,
    InvalidDeviceAddress,
    LaunchOutOfResources,
    Machine,
    OutOfSegments,
    Statistics,
    Stream,
)
from offloadrt.machine.messages import KernelPacket, PrefetchPacket, WaitPacket
from offloadrt.sim import Lock, LockStatistics, Signal
from offloadrt.trace import events

DeviceArguments = Sequence[Any] | Callable[[], Sequence[Any]]
"""Arguments of a kernel's body (a DeviceArray becomes a view), or a function that makes them when the kernel ends."""

_MEMSET_THREADS, _MEMSET_BYTES_PER_THREAD = 512, 16


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
        self.costs = machine.spec.read(DriverCosts)
        self.streams: list[Stream] = []
        """Those of the context, in order of creation."""
        self._context = Context(machine, device, self.costs)
        self._halting = Halting(machine.sim, device, machine.spec.text("driver.halt"), machine.host_time)
        self._copies = Copies(self._context)
        self._peers = PeerCopies(self._context, self._copies)
        self._visited = 0
        self.uvm: Uvm | None = None
        """The unified-memory driver, once ``manage`` has been called."""
        self._managed_sizes: dict[int, int] = {}
        """Bytes of what ``mem_alloc_managed`` gave, by address."""

    def manage(self) -> Uvm:
        """Use managed memory: called once.  Raises ProfileError."""
        self.uvm = Uvm(self.machine, self.device)
        return self.uvm

    @cached_property
    def _malloc_host(self) -> float:
        return self.machine.spec.value("usm.malloc_host")

    @classmethod
    def of(cls, machine: Machine, number: int = 0) -> Driver:
        """The driver of a machine's device ``number``."""
        return cls(machine, machine.devices[number])

    @property
    def context(self) -> Lock:
        """The context lock."""
        return self._context.lock

    def locks(self) -> dict[str, LockStatistics]:
        """Statistics of its locks, by name."""
        found = {self.context.name: self.context.statistics()}
        if self.uvm is not None:
            found[self.uvm.lock.name] = self.uvm.lock.statistics().together()
        return found

    def engines(self) -> dict[str, Statistics]:
        """What the actors of the unified-memory driver did, by name."""
        return {} if self.uvm is None else {self.uvm.handler.mailbox.name: self.uvm.handler.statistics()}

    def faults(self) -> dict[str, int]:
        """Faults and migrations of managed memory; nothing without any."""
        return {} if self.uvm is None else self.uvm.counters.table()

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
            async with self._context as woken:
                halts = self._halting.concerns("alloc")
                resume = await self._halting.begin("alloc", call.api, call.cause) if halts else None
                try:
                    address = await self._allocate(nbytes, phantom, woken)
                finally:
                    self._halting.end(resume)
            if (trace := self.machine.trace) is not None:
                trace(events.Allocate, self.device.index, -1, call.cause, address, nbytes, call.api)
            return address

    async def _allocate(self, nbytes: int, phantom: bool, woken: float) -> int:
        memory, sim = self.device.memory, self.machine.sim
        if self.uvm is not None and not memory.has_room(memory.needs(nbytes)):
            await self.uvm.make_room(nbytes, sim.current.cause)
        try:
            block, segments = memory.allocate(nbytes, phantom)
        except OutOfSegments:
            free = memory.free_bytes
            await self._context.work(woken + self.costs.allocate)
            raise OutOfDeviceMemory("cuMemAlloc", nbytes, free, sim.current.name, sim.now, self.device.index) from None
        try:
            new = self.costs.allocate_segment + (segments - 1) * self.costs.further_segment
            await self._context.work(woken + (new if segments else self.costs.allocate))
        except BaseException:
            memory.free(block.address)
            raise
        return block.address

    async def mem_free(self, address: int, cause: int | None = None) -> None:
        """cuMemFree, also of managed memory.  Raises DriverError for an address at which no block begins."""
        with self._context.call("cuMemFree", None, cause) as call:
            async with self._context as woken:
                for _ in self.streams if self.costs.visit else ():
                    await self._context.work(self.costs.visit)
                    self._visited += 1
                halts = self._halting.concerns("free")
                resume = await self._halting.begin("free", call.api, call.cause) if halts else None
                try:
                    await self._context.work(woken + self.costs.free)
                    if self.uvm is not None and address in self._managed_sizes:
                        self.uvm.remove(address, self._managed_sizes.pop(address))
                        self.machine.host_memory.release(address)
                        return
                    try:
                        block, segments = self.device.memory.free(address)
                    except InvalidDeviceAddress as error:
                        raise DriverError(call.api, INVALID, str(error)) from None
                    if (trace := self.machine.trace) is not None:
                        trace(events.Free, self.device.index, -1, call.cause, address, block.size, call.api)
                    if self.uvm is not None:
                        self.uvm.try_again()
                    if segments:
                        await self._context.work(segments * self.costs.free_segment)
                finally:
                    self._halting.end(resume)

    async def mem_host_register(self, address: int, nbytes: int, cause: int | None = None) -> None:
        """cuMemHostRegister: pin a range of host memory.

        Raises DriverError when any of it is pinned already, and for a size that is not positive.
        """
        with self._context.call("cuMemHostRegister", None, cause) as call:
            if nbytes <= 0:
                raise DriverError(call.api, INVALID, f"{nbytes} bytes at {address:#x}")
            async with self._context as woken:
                if self._copies.pinned.overlaps(address, nbytes):
                    code = "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"
                    raise DriverError(call.api, code, f"{nbytes} bytes at {address:#x}")
                await self._context.work(woken + self.costs.register + nbytes * self.costs.register_per_byte)
                self._copies.pinned.add(address, nbytes)

    async def mem_host_unregister(self, address: int, cause: int | None = None) -> None:
        """cuMemHostUnregister.  Raises DriverError when no pinned range begins there."""
        with self._context.call("cuMemHostUnregister", None, cause) as call:
            async with self._context as woken:
                if not self._copies.pinned.remove(address):
                    code = "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"
                    raise DriverError(call.api, code, f"nothing is pinned at {address:#x}")
                await self._context.work(woken + self.costs.unregister)

    async def mem_alloc_host(self, nbytes: int, cause: int | None = None) -> int:
        """cuMemAllocHost: the address of pinned host memory.  Raises DriverError for a size that is not positive."""
        with self._context.call("cuMemAllocHost", None, cause) as call:
            if nbytes <= 0:
                raise DriverError(call.api, INVALID, f"{nbytes} bytes asked for")
            async with self._context as woken:
                await self._context.work(woken + self._malloc_host + nbytes * self.costs.register_per_byte)
                address = self.machine.host_memory.allocate(nbytes, self.costs.managed_alignment)
                self._copies.pinned.add(address, nbytes)
            return address

    async def mem_free_host(self, address: int, cause: int | None = None) -> None:
        """cuMemFreeHost.  Raises DriverError for an address at which no such memory begins."""
        with self._context.call("cuMemFreeHost", None, cause) as call:
            async with self._context as woken:
                if not self._copies.pinned.remove(address):
                    raise DriverError(call.api, INVALID, f"no pinned memory begins at {address:#x}")
                await self._context.work(woken + self._malloc_host)
                self.machine.host_memory.release(address)

    # Managed memory

    async def mem_alloc_managed(self, nbytes: int, cause: int | None = None, name: str = "") -> int:
        """cuMemAllocManaged: the address of memory that host and device both use; nobody has touched its pages yet.

        Small allocations share blocks of the unified-memory driver.  ``name`` is the object's, for reports.

        Raises DriverError without managed memory, and for a size that is not positive.
        """
        with self._context.call("cuMemAllocManaged", None, cause) as call:
            uvm = self._managed(call.api)
            if nbytes <= 0:
                raise DriverError(call.api, INVALID, f"{nbytes} bytes asked for")
            async with self._context as woken:
                await self._context.work(woken + self.costs.allocate_managed)
                address = self.machine.host_memory.allocate(nbytes, self.costs.managed_alignment, "managed")
                self._managed_sizes[address] = nbytes
                uvm.add(address, nbytes, populated=False, name=name)
            return address

    async def mem_prefetch_async(
        self, address: int, nbytes: int, stream: Stream, to_host: bool = False, cause: int | None = None
    ) -> None:
        """cuMemPrefetchAsync: managed memory migrates to the device, or to the host, in the order of the stream.

        Raises DriverError without managed memory.
        """
        with self._context.call("cuMemPrefetchAsync", stream, cause) as call:
            uvm = self._managed(call.api)
            done = Signal(self.machine.sim, f"prefetch of {nbytes} bytes")
            packet = PrefetchPacket(stream, call.cause, address, nbytes, to_host, done)
            await self._context.submit(packet, uvm.costs.prefetch_call)

    async def mem_advise(self, address: int, nbytes: int, advice: Advice, cause: int | None = None) -> None:
        """cuMemAdvise.  Raises DriverError without managed memory, and for an advice that there is not."""
        with self._context.call("cuMemAdvise", None, cause) as call:
            uvm = self._managed(call.api)
            if advice not in ADVICE:
                raise DriverError(call.api, INVALID, f"no advice {advice!r}; there are {', '.join(ADVICE)}")
            await uvm.advise(address, nbytes, advice)

    def _managed(self, api: str) -> Uvm:
        if self.uvm is None:
            raise DriverError(api, INVALID, "the program uses no managed memory")
        return self.uvm

    # Streams and events

    async def stream_create(self, cause: int | None = None) -> Stream:
        """cuStreamCreate: a new stream, on the next hardware queue."""
        with self._context.call("cuStreamCreate", None, cause):
            async with self._context as woken:
                await self._context.work(woken + self.costs.stream_create)
                stream = self.device.open_stream()
                self.streams.append(stream)
                self._copies.open(stream)
                return stream

    async def stream_destroy(self, stream: Stream, cause: int | None = None) -> None:
        """cuStreamDestroy: what was submitted still completes."""
        with self._context.call("cuStreamDestroy", stream, cause):
            async with self._context as woken:
                await self._context.work(woken + self.costs.stream_destroy)
                self.streams.remove(stream)
                self._copies.close(stream)

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
            await self._context.submit(WaitPacket(stream, event.done, done), self.costs.event_wait)

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
