"""What a CUDA program tells its observer: what its calls put into streams, and who waits for which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from offloadrt.driver import CudaDriver, TimedEvent
from offloadrt.kernels import Launch
from offloadrt.machine import DeviceArray, Machine, Stream
from offloadrt.models.host.arrays import Section, array_of, extent
from offloadrt.models.host.program import OffloadProgram
from offloadrt.runtime.events import (
    Awaited,
    BlockAllocated,
    BlockFreed,
    DataCopied,
    DirectiveBegan,
    DirectiveLeft,
    HostUsed,
    KernelSubmitted,
    MemoryUse,
    ProgramObserver,
    QueueAwaited,
    QueueMarked,
    StrandBegan,
    StrandEnded,
)
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.target import OffloadedRegion
from offloadrt.runtime.mapping.present_table import ON_HOST, DevicePointer


def device_of(machine: Machine, address: int) -> int | None:
    """Return the number of the device in whose memory an address of this process lies; None: in no device's."""
    return next((number for number, device in enumerate(machine.devices) if device.memory.reaches(address)), None)


CopyEnd = HostArray | Section | DeviceArray
"""An end of a copy: memory of the host, or of a device."""


@attrs.define(eq=False)
class StreamQueue:
    """A stream as an order of work. legacy: it is the legacy default stream; blocking: it blocks with that one."""

    name: str
    device: int
    legacy: bool
    blocking: bool


@attrs.define(eq=False)
class ToldCalls:
    """Tells the observer of one program. device: the number of the one that a call concerns.

    devices: of the streams that the program has made. legacy: the default streams of the devices. non_blocking: the
    streams that do not block with these.
    """

    _program: OffloadProgram[Any]
    _observer: ProgramObserver
    _devices: dict[Stream, int]
    legacy: dict[Stream, int] = attrs.field(factory=dict)
    non_blocking: set[Stream] = attrs.field(factory=set)
    _queues: dict[Stream, StreamQueue] = attrs.field(factory=dict)

    def _queue(self, stream: Stream) -> StreamQueue:
        queue = self._queues.get(stream)
        if queue is None:
            device = self.legacy.get(stream)
            what = "default stream" if device is not None else f"stream {stream.index}"
            number = self._devices[stream] if device is None else device
            blocking = device is None and stream not in self.non_blocking
            queue = self._queues[stream] = StreamQueue(
                f"{what} of device {number}", number, device is not None, blocking
            )
        return queue

    def _before(self, queue: StreamQueue) -> list[StreamQueue]:
        """Return the streams for whose work of now the next command of a stream waits by itself."""
        return [
            other
            for other in self._queues.values()
            if other.device == queue.device and ((queue.legacy and other.blocking) or (queue.blocking and other.legacy))
        ]

    @contextmanager
    def call(self, name: str, device: int, stream: Stream | None = None) -> Iterator[int]:
        """Tell of a call; yields its number. stream: where its work goes, if it goes into one."""
        number, handle = self._program.next_directive(), self._observer.handle
        queue = None if stream is None else self._queue(stream)
        handle(DirectiveBegan(number, device, name, queue))
        for other in () if queue is None else self._before(queue):
            handle(QueueAwaited(other, number))
        error: BaseException | None = None
        try:
            yield number
        except BaseException as raised:
            error = raised
            raise
        finally:
            handle(DirectiveLeft(number, device, name, error))
            error = None

    # who waits

    def synchronized(self, streams: Sequence[Stream]) -> None:
        """Tell that the thread has waited for these streams."""
        for stream in streams:
            queue = self._queue(stream)
            for other in (*(self._before(queue) if queue.legacy else ()), queue):
                self._observer.handle(QueueAwaited(other))

    def recorded(self, event: TimedEvent, stream: Stream) -> None:
        """Tell that an event is behind everything in a stream."""
        queue = self._queue(stream)
        with self.call("cudaEventRecord", queue.device, stream):
            self._observer.handle(QueueMarked(queue, event))

    def reached(self, event: TimedEvent) -> None:
        """Tell that the thread knows an event to be complete."""
        self._observer.handle(Awaited(event))

    def follows(self, event: TimedEvent, stream: Stream) -> None:
        """Tell that what comes into a stream from now on waits for an event."""
        queue = self._queue(stream)
        with self.call("cudaStreamWaitEvent", queue.device, stream):
            self._observer.handle(Awaited(event, queue))

    def host_function(self, function: Callable[[], object], stream: Stream) -> Callable[[], object]:
        """Return a function of the host that tells of itself as a part of the stream's work."""
        here, queue = object(), self._queue(stream)
        with self.call("cudaLaunchHostFunc", queue.device, stream):
            self._observer.handle(QueueMarked(queue, here))

        def told() -> object:
            self._observer.handle(StrandBegan(f"a host function in {queue.name}", (here,), queue=queue))
            try:
                return function()
            finally:
                self._observer.handle(StrandEnded(object()))  # the stream's order says what comes behind it

        return told

    # memory

    def allocated(self, number: int, device: int, address: int, nbytes: int) -> None:
        self._observer.handle(BlockAllocated(number, device, address, nbytes, None, 0))

    def freed(self, number: int, device: int, address: int) -> None:
        self._observer.handle(BlockFreed(number, device, address, 0, None, 0))

    def copied(self, name: str, driver: CudaDriver, stream: Stream, destination: CopyEnd, source: CopyEnd) -> None:
        """Tell of a copy, when its call has returned.

        Pinned memory of the host is used in the stream's order. Pageable memory is read before the call returns, and
        written: then everything in the stream is over ("API synchronization behavior" of CUDA's manual).
        """
        handle = self._observer.handle
        nbytes = source.nbytes if isinstance(source, DeviceArray) else extent(source, name)[1]
        if isinstance(source, DeviceArray) and isinstance(destination, DeviceArray):
            into, out_of = self._device(destination), self._device(source)
            with self.call(name, into, stream) as number:
                handle(DataCopied(number, into, "d2d", source.address, destination.address, nbytes, None, out_of))
        elif isinstance(source, DeviceArray):
            assert not isinstance(destination, DeviceArray)
            array, begin = array_of(destination), extent(destination, name)[0]
            is_pinned = driver.pinning.covers(begin, nbytes)
            if not is_pinned:
                self.synchronized([stream])
            device = self._device(source)
            with self.call(name, device, stream if is_pinned else None) as number:
                handle(DataCopied(number, device, "d2h", begin, source.address, nbytes, array))
        elif isinstance(destination, DeviceArray):
            array, begin = array_of(source), extent(source, name)[0]
            is_pinned = driver.pinning.covers(begin, nbytes)
            if not is_pinned:
                handle(HostUsed(array, begin, nbytes, False))
            device = self._device(destination)
            with self.call(name, device, stream) as number:
                told = (begin, array) if is_pinned else (0, None)
                handle(DataCopied(number, device, "h2d", told[0], destination.address, nbytes, told[1]))
        else:
            handle(HostUsed(array_of(source), extent(source, name)[0], nbytes, False))
            handle(HostUsed(array_of(destination), extent(destination, name)[0], nbytes, True))

    def _device(self, array: DeviceArray) -> int:
        number = device_of(self._program.machine, array.address)
        assert number is not None, "a copy elsewhere is refused"
        return number

    # kernels

    def launched(self, number: int, device: int, launch: Launch, arguments: Sequence[Any]) -> None:
        """Tell of a kernel and of what is known of its uses."""
        pointers = [_pointer(device, argument) for argument in arguments]
        on_host = {argument: ON_HOST for argument in arguments if isinstance(argument, HostArray)}
        region = OffloadedRegion(launch, (), pointers)
        watch = self._observer.watch_kernel(
            self._program.devices[device], self._observer.handle, region, on_host, (), number
        )
        watch.submitted(None)  # which tells all of its uses, as nothing of it shows while it runs

    def maybe_used(self, number: int, device: int, name: str, ends: Sequence[object]) -> None:
        """Tell of work of which nothing is known but the memory that it was given."""
        uses = [
            MemoryUse(device, end.address, end.nbytes, True, False, "device memory", mapped=True, maybe=True)
            for end in ends
            if isinstance(end, DeviceArray) and end.nbytes
        ]
        self._observer.handle(KernelSubmitted(number, device, name, tuple(uses)))

    def written(self, number: int, device: int, array: DeviceArray) -> None:
        """Tell of a memset."""
        use = MemoryUse(device, array.address, array.nbytes, True, True, "device memory")
        self._observer.handle(KernelSubmitted(number, device, "memset", (use,)))


def _pointer(device: int, argument: Any) -> Any:
    if isinstance(argument, DeviceArray):
        return DevicePointer(argument.address, argument.nbytes, device, dtype=argument.dtype, shape=argument.shape)
    return argument
