"""What goes wrong in an offloading program, in the words of LLVM's runtime where it prints any."""

from __future__ import annotations

from typing import Any, Self

from offloadrt.driver import OutOfDeviceMemory
from offloadrt.sim import Simulation


class OffloadError(Exception):
    """A directive or routine failed. On a real machine most of these end the program, and they end the run here.

    call: the directive or routine; array: what it was about; thread: the host thread; time_s: virtual time; device: its
    number.
    messages: the lines that LLVM's runtime would have written to the standard error, addresses as ``<array+offset>``.
    """

    def __init__(
        self,
        message: str,
        *,
        call: str = "",
        array: str = "",
        thread: str = "",
        time_s: float = 0.0,
        device: int = 0,
        messages: tuple[str, ...] = (),
    ) -> None:
        self.message = message
        self.call = call
        self.array = array
        self.thread = thread
        self.time_s = time_s
        self.device = device
        self.messages = messages
        super().__init__(message)

    @classmethod
    def now(cls, sim: Simulation, message: str, *, call: str, array: str = "", device: int = 0) -> Self:
        """Make one of the thread that runs, at this time."""
        return cls(message, call=call, array=array, thread=sim.current.name, time_s=sim.now, device=device)

    def __str__(self) -> str:
        where = [
            text
            for text in (
                self.call and f"in {self.call}",
                self.array and f"array {self.array!r}",
                self.thread and f"thread {self.thread!r}",
                f"device {self.device}",
                f"at {self.time_s:.9f} s",
            )
            if text
        ]
        return "\n".join([f"{self.message} ({', '.join(where)})", *self.messages])


class MappingError(OffloadError):
    """A map that LLVM refuses: explicit extension of a mapped section, or `present` where nothing is."""


class NotPresent(MappingError):
    """`present` where nothing, or not all of it, is mapped."""


class IllegalAddress(OffloadError):
    """A kernel used a host pointer, an unmapped part of an array or freed memory.

    The driver says CUDA_ERROR_ILLEGAL_ADDRESS, on an APU it is a memory access fault.
    """


class PlacementError(OffloadError):
    """A memory configuration cannot say where an array of the program lies.

    It knows nothing of the array, or the program wants to have its device address.
    """


class DeviceEnded(OffloadError):
    """A directive or routine on a device that a fatal error has ended, which is its ``__cause__``.

    A real program is over by then: LLVM's runtime ends it after a failed construct, ROCr after a memory access fault,
    and CUDA's context answers every further call with the error of the first.
    """


class InvalidDevice(OffloadError):
    """A device number that does not exist."""


class CopyFailed(OffloadError):
    """A copy that `omp_target_memcpy` did not make, for a caller that does not go on without it."""


class OutsideArray(OffloadError):
    """A copy that a routine was asked for reaches outside an array of the host.

    A real program would touch foreign memory, or crash.
    """


class FreedHostMemory(OffloadError):
    """An array of the host is used after it was freed; what a real program does then is open.

    Its user is a directive, a kernel, a call of the driver library or the host itself.
    """


class InvalidFree(OffloadError):
    """A pointer was freed that no allocation begins at, or for the second time."""


class UnifiedMemoryUnavailable(ValueError):
    """A memory configuration that the machine's devices cannot do; the program does not start.

    In particular `requires unified_shared_memory` on a device that has none: never a fall-back to copies.
    """


class ArrayOutOfDeviceMemory(OutOfDeviceMemory):
    """There is no device block for the `array` that a directive maps or a program allocates.

    Nor is there one in the allocator's pool that could be given up.
    """

    def __init__(self, failed: OutOfDeviceMemory, array: str) -> None:
        where = (failed.thread, failed.time, failed.device, failed.code)
        super().__init__(failed.call, failed.nbytes, failed.free_bytes, *where)
        self.array = array
        self.detail = f"array {array!r}: {self.detail}"

    def __reduce__(self) -> tuple[Any, ...]:
        where = (self.thread, self.time, self.device, self.code)
        failed = OutOfDeviceMemory(self.call, self.nbytes, self.free_bytes, *where)
        return ArrayOutOfDeviceMemory, (failed, self.array), {"messages": self.messages}
