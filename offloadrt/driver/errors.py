"""Errors of calls of the driver libraries, with the names and codes of the real ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

INVALID = "CUDA_ERROR_INVALID_VALUE"
INVALID_ARGUMENT = "HSA_STATUS_ERROR_INVALID_ARGUMENT"
OUT_OF_RESOURCES = "HSA_STATUS_ERROR_OUT_OF_RESOURCES"


class DriverError(Exception):
    """A call that has returned an error code.

    ``call`` and ``code`` are the real names; ``detail`` says why.  ``where`` is the thread and the virtual time, once
    the call has returned.
    """

    where = ""
    messages: tuple[str, ...] = ()
    """What a runtime above the library has written to the standard error about it."""

    def __init__(self, call: str, code: str, detail: str) -> None:
        super().__init__(call, code, detail)
        self.call, self.code, self.detail = call, code, detail

    def rename(self, names: Mapping[str, str]) -> None:
        """Replace CUDA's names of the call and the code by those of another library."""
        self.call, self.code = names.get(self.call, self.call), names.get(self.code, self.code)
        self.args = (self.call, self.code, self.detail)

    def locate(self, thread: str, time: float, device: int) -> None:
        """Say which thread made the call, and when it returned."""
        self.where = f" ({thread} at {time:.9f} s, device {device})"

    def __str__(self) -> str:
        return "\n".join([f"{self.call} failed with {self.code}: {self.detail}{self.where}", *self.messages])


class DeviceLost(DriverError):
    """A call on a device that has disappeared; the library documents no error of its own for that."""


class OutOfDeviceMemory(DriverError):
    """An allocation that does not fit; ``thread`` asked for ``nbytes`` at virtual time ``time`` on ``device``."""

    def __init__(
        self,
        call: str,
        nbytes: int,
        free_bytes: int,
        thread: str,
        time: float,
        device: int,
        code: str = "CUDA_ERROR_OUT_OF_MEMORY",
    ) -> None:
        self.nbytes, self.free_bytes, self.thread, self.time, self.device = nbytes, free_bytes, thread, time, device
        detail = f"{nbytes} bytes asked for, {free_bytes} free on device {device} ({thread} at {time:.9f} s)"
        super().__init__(call, code, detail)

    def locate(self, thread: str, time: float, device: int) -> None:
        """Do nothing: the detail says so already."""

    def __reduce__(self) -> tuple[Any, ...]:
        where = (self.call, self.nbytes, self.free_bytes, self.thread, self.time, self.device, self.code)
        return OutOfDeviceMemory, where, {"messages": self.messages}
