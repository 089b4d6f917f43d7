"""A host thread that calls CUDA's runtime library: its current device, the streams of its calls, its allocations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

import attrs

from offloadrt.driver import CudaDriver
from offloadrt.driver.calls import INVALID, DriverCall
from offloadrt.kernels.integers import is_integer
from offloadrt.machine import DeviceArray, InvalidDeviceAddress, Machine, MachineSpec, Stream
from offloadrt.models.host.arguments import checks_arguments
from offloadrt.models.host.program import OffloadProgram, ProgramThread
from offloadrt.runtime.configurations.usm import translates
from offloadrt.runtime.host_array import HostArray, Section
from offloadrt.runtime.plugins.plugin import DevicePlugin
from offloadrt.sim import Simulation

CopyEnd = HostArray | Section | DeviceArray
"""The source or the destination of a copy: memory of the host or of a device."""
ILLEGAL_ADDRESS = "CUDA_ERROR_ILLEGAL_ADDRESS"


def device_of(machine: Machine, address: int) -> int | None:
    """Return the number of the device whose memory contains an address of this process; None if none does."""
    return next((number for number, device in enumerate(machine.devices) if device.memory.reaches(address)), None)


@attrs.frozen
class Freed:
    """Records a free: which thread freed the block, by which call, and at which virtual time in seconds."""

    call: str
    thread: str
    time: float

    def __str__(self) -> str:
        return f"was freed by {self.call} ({self.thread} at {self.time:.9f} s)"


class Allocations:
    """Remembers which blocks of device and managed memory a program has freed, to report their later use."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._freed: dict[int, Freed] = {}

    def made(self, address: int) -> None:
        """Record that a new block begins at an address, so that the address counts as freed no longer."""
        self._freed.pop(address, None)

    def freed(self, call: str, address: int) -> None:
        """Record that the program has freed the block at an address by this call, for reports of a later use."""
        self._freed[address] = Freed(call, self._sim.current.name, self._sim.now)

    def check_free(self, driver: CudaDriver, call: DriverCall, address: int) -> None:
        """Raise the DriverError of `call` for a block that has been freed already, or belongs to another device."""
        if (story := self._freed.get(address)) is not None:
            raise driver.refusal(call, INVALID, f"{address:#x} {story}")
        number = None if driver.device.memory.reaches(address) else device_of(driver.machine, address)
        if number is not None:
            why = f"{address:#x} is memory of device {number}, and the current device is another"
            raise driver.refusal(call, INVALID, why)

    def check_use(
        self, driver: CudaDriver, call: DriverCall, what: str, argument: Any, *, anywhere: bool = False
    ) -> None:
        """Raise the DriverError of `call` for an argument that is freed, unallocated, on another device, or pageable.

        what: the argument's role in the message. anywhere: whether memory of other devices is allowed.
        """
        if isinstance(argument, HostArray):
            if argument.freed:
                raise driver.refusal(call, ILLEGAL_ADDRESS, f"{what}, array {argument.name!r}, was freed")
            reachable = argument.managed or driver.pinning.covers(argument.address, argument.nbytes)
            if not reachable and not (translates(spec := driver.machine.spec) or migrates_malloc(spec)):
                why = "is pageable memory of the host: a kernel has managed, pinned or device memory here"
                raise driver.refusal(call, ILLEGAL_ADDRESS, f"{what}, array {argument.name!r}, {why}")
        elif isinstance(argument, DeviceArray) and (error := self._misuse(driver, argument, anywhere)) is not None:
            raise driver.refusal(call, ILLEGAL_ADDRESS, f"{what}, {argument.address:#x}, {error}")

    def _misuse(self, driver: CudaDriver, array: DeviceArray, anywhere: bool) -> str | None:
        if (story := self._freed.get(array.address)) is not None:
            return str(story)
        if (number := device_of(driver.machine, array.address)) is None:
            of_process = f" of process {driver.machine.process}" if driver.machine.processes > 1 else ""
            return f"is no memory of a device{of_process}"
        memory = driver.machine.devices[number].memory
        if memory is not driver.device.memory and not anywhere:
            return f"is memory of device {number}; only a kernel reaches it, with peer access enabled"
        try:
            memory.block_of(array.address)
        except InvalidDeviceAddress:
            return "lies in no allocated block of the device"
        return None


def migrates_malloc(spec: MachineSpec) -> bool:
    """Tell whether memory of malloc migrates to a device that faults on it, as it does on AMD's with XNACK."""
    return spec.flag("usm.xnack") and spec.text("usm.shared") == "migrates"


class MappedMemory:
    """The ranges of memory outside of a device that its kernels have used in place, with the devices that access them.

    They are pinned, pageable where the device reaches memory of malloc, or memory of a peer device. A launch takes each
    array outside of its device as a `HostArray`, also one of a peer device.
    """

    def __init__(self) -> None:
        self._ranges: dict[int, tuple[int, list[CudaDriver]]] = {}

    def use(self, driver: CudaDriver, array: HostArray, peer: int | None = None) -> None:
        """Let kernels of a device (its `driver`) access an array of the host or of device `peer`, unless managed."""
        if array.managed or not array.nbytes:
            return
        begin, nbytes = array.address, array.nbytes
        if peer is not None:
            block = driver.machine.devices[peer].memory.block_of(begin)
            begin, nbytes = block.address, block.size
        _, drivers = self._ranges.setdefault(begin, (nbytes, []))
        if driver not in drivers:
            uvm = driver.managed.manage()
            if peer is not None or driver.pinning.covers(begin, nbytes):
                uvm.add(begin, nbytes, populated=True, name=array.name)
                uvm.keep_in_place(begin, nbytes, peer)
            else:
                populated = driver.machine.host_memory.pages.covers(begin, nbytes)
                add = uvm.add if migrates_malloc(driver.machine.spec) else uvm.add_system
                add(begin, nbytes, populated, array.name)
                driver.managed.start()
            drivers.append(driver)

    def at_peer(self, driver: CudaDriver, peer: int, array: DeviceArray, phantom: bool) -> HostArray:
        """Return an array of device `peer` as launches on another one (`driver`) take it. phantom: it has no values."""
        values = None if phantom else driver.machine.devices[peer].memory.array(array)
        seen = HostArray(f"memory of device {peer}", array.address, array.shape, array.dtype, values=values)
        self.use(driver, seen, peer)
        seen.managed = True
        return seen

    def end(self, address: int) -> None:
        """Make the range that begins at an address inaccessible to all devices, as it is unpinned or freed."""
        nbytes, drivers = self._ranges.pop(address, (0, []))
        for driver in drivers:
            driver.managed.manage().blocks.remove(address, nbytes)


DefaultStream = Literal["cudaStreamLegacy", "cudaStreamPerThread"]
STREAM_LEGACY: Final = "cudaStreamLegacy"
"""Stands for the legacy default stream of the current device, wherever a call takes a stream."""
STREAM_PER_THREAD: Final = "cudaStreamPerThread"
"""Stands for the calling thread's own default stream on the current device."""


@attrs.define(eq=False)
class PrimaryContext:
    """The state of CUDA's runtime library on device `number`, which the first call there creates."""

    number: int
    driver: CudaDriver
    plugin: DevicePlugin
    default_stream: Stream
    """The legacy default stream."""
    per_thread: dict[int, Stream] = attrs.field(factory=dict)
    """The per-thread default streams, by thread number."""


@attrs.define(eq=False)
class ProgramState:
    """The state that all threads of a CUDA program share: allocations, memory used in place, streams and devices."""

    allocations: Allocations
    mapped: MappedMemory
    own_default_streams: bool
    """Whether a call without a stream uses the thread's own default stream (nvcc --default-stream per-thread)."""
    shared: str
    """Where managed memory lies, and how kernels reach memory of the host (``usm.shared``)."""
    devices: dict[Stream, int] = attrs.field(factory=dict)
    """The device of each stream that has not been destroyed."""
    told: Any = None
    """Reports the program's calls to its observer (`ProgramObserver.watch_calls`); None without an observer."""


@checks_arguments
class CallingThread(ProgramThread):
    """The part of a CUDA host thread that all its groups of calls use: the current device, and stream arguments.

    context: a function that returns the context of a device, and makes it if needed. state: what all threads of the
    program share. place: the thread's number, team and memory, for `ProgramThread`.
    """

    def __init__(
        self,
        program: OffloadProgram[Any],
        context: Callable[[int], Awaitable[PrimaryContext]],
        state: ProgramState,
        *place: Any,
    ) -> None:
        super().__init__(program, *place)
        self._context_of = context
        self._state = state
        self._device = 0

    # devices

    async def set_device(self, device: int) -> None:
        """Set this thread's current device (cudaSetDevice). Raises DriverError for an unknown device.

        As since CUDA 12, the device's context is made here if it does not exist.
        """
        if not is_integer(device) or not 0 <= device < self.program.num_devices:
            driver = (await self._context()).driver
            why = f"{device!r} is no device: the program has {self.program.num_devices}"
            raise driver.refusal(driver.call("cudaSetDevice"), "CUDA_ERROR_INVALID_DEVICE", why)
        self._device = int(device)
        await self._context()

    def get_device(self) -> int:
        """Return the current device of this thread (cudaGetDevice)."""
        return self._device

    def get_device_count(self) -> int:
        """Return how many devices the program has (cudaGetDeviceCount)."""
        return self.program.num_devices

    # for the groups of calls

    def _context(self) -> Awaitable[PrimaryContext]:
        """Return the context of the current device."""
        return self._context_of(self._device)

    def _context_on(self, index: int) -> Awaitable[PrimaryContext]:
        """Return the context of the device with this index on the machine; a MIG instance is the program's device 0."""
        devices = self.program.machine.devices
        return self._context_of(next(number for number, device in enumerate(devices) if device.index == index))

    async def _stream(
        self, context: PrimaryContext, stream: Stream | DefaultStream | None, call: str, *, anywhere: bool = False
    ) -> Stream:
        """Return the stream that a stream argument of a call stands for.

        anywhere: whether the call accepts streams of other devices. Raises DriverError for a destroyed stream, and for
        a stream of another device unless `anywhere`.
        """
        if stream is None:
            stream = STREAM_PER_THREAD if self._state.own_default_streams else STREAM_LEGACY
        if stream == STREAM_LEGACY:
            return context.default_stream
        if stream == STREAM_PER_THREAD:
            if (own := context.per_thread.get(self.number)) is None:
                own = context.per_thread[self.number] = await context.driver.streams.create(order="blocking")
                self._state.devices[own] = context.number
            return own
        device = self._state.devices.get(stream)
        if device == context.number or (anywhere and device is not None):
            return stream
        why = "was destroyed" if device is None else f"belongs to device {device}"
        driver = context.driver
        raise driver.refusal(driver.call(call), "CUDA_ERROR_INVALID_HANDLE", f"stream {stream.index} {why}")

    async def _at_stream(self, stream: Stream | DefaultStream | None, call: str) -> tuple[CudaDriver, Stream]:
        """Return the stream that an argument stands for, which may be of any device, and that device's driver."""
        context = await self._context()
        chosen = await self._stream(context, stream, call, anywhere=True)
        number = self._state.devices.get(chosen, context.number)
        return (await self._context_of(number)).driver, chosen
