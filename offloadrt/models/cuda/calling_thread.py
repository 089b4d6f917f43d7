"""A host thread that calls CUDA's runtime library: its current device, and the streams that its calls mean."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

import attrs

from offloadrt.driver import Driver
from offloadrt.kernels.integers import is_integer
from offloadrt.machine import Stream
from offloadrt.models.cuda.allocations import Allocations
from offloadrt.models.cuda.mapped_memory import MappedMemory
from offloadrt.models.host.host_thread import ProgramThread
from offloadrt.models.host.program import OffloadProgram
from offloadrt.runtime.plugins.plugin import DevicePlugin

DefaultStream = Literal["cudaStreamLegacy", "cudaStreamPerThread"]
STREAM_LEGACY: Final = "cudaStreamLegacy"
"""Stands for the legacy default stream of the current device, wherever a call takes a stream."""
STREAM_PER_THREAD: Final = "cudaStreamPerThread"
"""Stands for the calling thread's own default stream on the current device."""


@attrs.define(eq=False)
class PrimaryContext:
    """What CUDA's runtime library makes on a device at its first call there."""

    number: int
    driver: Driver
    plugin: DevicePlugin
    default_stream: Stream
    """The legacy default stream."""
    per_thread: dict[int, Stream] = attrs.field(factory=dict)
    """The default streams of threads that have one, by number of the thread."""


@attrs.define(eq=False)
class ProgramState:
    """What the threads of a CUDA program share besides the machine."""

    allocations: Allocations
    mapped: MappedMemory
    own_default_streams: bool
    """Whether a call without a stream means the thread's own (nvcc --default-stream per-thread)."""
    devices: dict[Stream, int] = attrs.field(factory=dict)
    """The device of each stream that is not destroyed."""


class CallingThread(ProgramThread):
    """The part of a thread that all groups of calls need. context: returns a device's context, made at its first use.

    state: what the program's threads share.
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
        """Let this thread's calls concern another device (cudaSetDevice). Raises DriverError for one that is none.

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

    async def _stream(
        self, context: PrimaryContext, stream: Stream | DefaultStream | None, call: str, *, anywhere: bool = False
    ) -> Stream:
        """Return the stream that an argument of a call means.

        anywhere: the call takes streams of other devices, too. Raises DriverError for a stream that is destroyed, and
        for one of another device otherwise.
        """
        if stream is None:
            stream = STREAM_PER_THREAD if self._state.own_default_streams else STREAM_LEGACY
        if stream == STREAM_LEGACY:
            return context.default_stream
        if stream == STREAM_PER_THREAD:
            if (own := context.per_thread.get(self.number)) is None:
                own = context.per_thread[self.number] = await context.driver.stream_create(order="blocking")
                self._state.devices[own] = context.number
            return own
        if not isinstance(stream, Stream):
            raise TypeError(f"{call}: stream is {stream!r}, which is none")
        device = self._state.devices.get(stream)
        if device == context.number or (anywhere and device is not None):
            return stream
        why = "was destroyed" if device is None else f"belongs to device {device}"
        driver = context.driver
        raise driver.refusal(driver.call(call), "CUDA_ERROR_INVALID_HANDLE", f"stream {stream.index} {why}")

    async def _at_stream(self, stream: Stream | DefaultStream | None, call: str) -> tuple[Driver, Stream]:
        """Return a stream of any device, with that device's driver library."""
        context = await self._context()
        chosen = await self._stream(context, stream, call, anywhere=True)
        number = self._state.devices.get(chosen, context.number)
        return (await self._context_of(number)).driver, chosen


def check_host_function(call: str, function: Callable[[], object] | None, seconds: float) -> None:
    """Raise TypeError for a coroutine function, ValueError for a time that is negative or not finite."""
    if inspect.iscoroutinefunction(function) or not (function is None or callable(function)):
        raise TypeError(f"{call}: {function!r} is no plain function; a host function makes no calls")
    if not isinstance(seconds, int | float) or not 0.0 <= seconds < math.inf:
        raise ValueError(f"{call}: seconds is {seconds!r}, but must be finite and not negative")
