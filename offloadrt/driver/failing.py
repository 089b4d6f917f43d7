"""Faults that are injected into the calls of a driver library: which error each returns, and what follows from it.

After some errors CUDA's context is of no more use: "any further CUDA work will return the same error" (CUDA's manual,
``CUresult``).  These are the sticky ones.  A kernel that fails and a page fault that nobody can serve have sticky
errors, which the next call that waits for the device returns.  An allocation for which there is no memory has not.
What a device that disappeared answers is documented neither by CUDA nor by ROCr: every call raises ``DeviceLost``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from offloadrt.driver.errors import OUT_OF_RESOURCES, DeviceLost, DriverError, OutOfDeviceMemory
from offloadrt.machine.injection import DeviceFailure, Injector

_CODES: Final[Mapping[str, Mapping[str, str]]] = {
    "cuda": {
        "call": "CUDA_ERROR_UNKNOWN",
        "allocation": "CUDA_ERROR_OUT_OF_MEMORY",
        "kernel": "CUDA_ERROR_LAUNCH_FAILED",
        "page_fault": "CUDA_ERROR_ILLEGAL_ADDRESS",
        "device": "CUDA_ERROR_UNKNOWN",
    },
    "rocr": {
        "call": "HSA_STATUS_ERROR",
        "allocation": OUT_OF_RESOURCES,
        "kernel": "HSA_STATUS_ERROR_EXCEPTION",
        "page_fault": "HSA_STATUS_ERROR_MEMORY_FAULT",
        "device": "HSA_STATUS_ERROR",
    },
}
"""The error of each kind of fault in each library, unless the fault names another."""

STICKY: Final = frozenset(
    {
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "CUDA_ERROR_LAUNCH_TIMEOUT",
        "CUDA_ERROR_ASSERT",
        "CUDA_ERROR_HARDWARE_STACK_ERROR",
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "CUDA_ERROR_MISALIGNED_ADDRESS",
        "CUDA_ERROR_INVALID_ADDRESS_SPACE",
        "CUDA_ERROR_INVALID_PC",
        "CUDA_ERROR_LAUNCH_FAILED",
    }
)
"""The errors whose description in CUDA's manual says that every further call returns the same."""


class FailingCalls:
    """The faults of one device's calls; ``library`` is ``driver.api`` of the profile."""

    def __init__(self, injector: Injector, device: int, library: str) -> None:
        self._injector = injector
        self._device = device
        self._codes = _CODES[library]

    @property
    def broken(self) -> bool:
        """Tell whether the device is of no more use."""
        return self._device in self._injector.failures

    def begin(self, call: str, nbytes: int, thread: str, now: float) -> DriverError | None:
        """Return the error of a call that is struck, or whose device is broken; None if it goes on.

        nbytes: what an allocation asks for; 0 for other calls.
        """
        if (error := self.end(call)) is not None:
            return error
        fault = self._injector.strike("call", call, f"{call} of {thread} fails")
        if fault is None:
            return None
        code = fault.code or self._codes["allocation" if "Alloc" in call or "allocate" in call else "call"]
        if nbytes and not fault.code:
            return OutOfDeviceMemory(call, nbytes, 0, thread, now, self._device, code)
        if code in STICKY:
            self._injector.fail(self._device, DeviceFailure("call", f"{call} failed at {now:.9f} s", code))
        return DriverError(call, code, f"fault {fault.text}")

    def end(self, call: str) -> DriverError | None:
        """Return the error of a call that returns when its device is broken."""
        failure = self._injector.failures.get(self._device)
        if failure is None:
            return None
        kind = DeviceLost if failure.kind == "device" else DriverError
        return kind(call, failure.code or self._codes[failure.kind], failure.why)
