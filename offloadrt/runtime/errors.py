"""Errors of an offloading program, with the text of LLVM's runtime where it prints one."""

from __future__ import annotations

from typing import Any, Self

from offloadrt.driver import OutOfDeviceMemory
from offloadrt.sim import Simulation


class OffloadError(Exception):
    """Raised when a directive or routine fails. On a real machine most such errors end the program.

    call: the directive or routine; array: the name of the array concerned; thread: the name of the host thread; time_s:
    virtual seconds; device: the device's number. messages: the lines that LLVM's runtime would have written to the
    standard error, addresses as ``<array+offset>``.
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
        """Make the error for the running thread at the current virtual time. call: the directive or routine."""
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
    """Raised for a map that LLVM refuses: an explicit extension of a mapped section, or `present` without a mapping."""


class NotPresent(MappingError):
    """Raised for a section with the modifier `present` that is not, or not completely, mapped."""


class IllegalAddress(OffloadError):
    """Raised when a kernel used a host pointer, an unmapped part of an array or freed memory.

    The driver reports CUDA_ERROR_ILLEGAL_ADDRESS; on an APU, the error is a memory access fault.
    """


class PlacementError(OffloadError):
    """Raised when a memory configuration cannot say where an array of the program lies.

    The configuration does not know the array, or the program requests the array's device address.
    """


class DeviceEnded(OffloadError):
    """Raised by a directive or routine on a device that a fatal error, the exception's ``__cause__``, has ended.

    A real program is over by then: LLVM's runtime ends it after a failed construct, ROCr after a memory access fault,
    and CUDA's context answers every further call with the error of the first.
    """


class InvalidDevice(OffloadError):
    """Raised by a directive or routine that was given a device number that does not exist."""


class OutsideArray(OffloadError):
    """Raised by a routine that was asked to copy outside of a host array, where a real program may crash."""


class FreedHostMemory(OffloadError):
    """Raised when a host array is used after it was freed; a real program has undefined behaviour then.

    A directive, a kernel, a call of the driver library or the host itself used it.
    """


class InvalidFree(OffloadError):
    """Raised when a pointer is freed at which no allocation begins, or that was freed before."""


class UnifiedMemoryUnavailable(ValueError):
    """Raised when the machine's devices do not support a memory configuration; the program does not start.

    One case is `requires unified_shared_memory` on a device without it: there is no fall-back to copies.
    """


class ArrayOutOfDeviceMemory(OutOfDeviceMemory):
    """Raised when the device has no memory for the `array` that a directive maps or a program allocates.

    The allocator's pool has no free block to return to the driver, either. failed: the allocation's own error.
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
