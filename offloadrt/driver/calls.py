"""The common part of all driver libraries' calls: accounting, errors, and injected faults.

Both libraries (``cuda``, ``rocr``) account for their calls here, so that statistics and traces mean the same.  Errors
have the names and codes of the real libraries.

After a sticky error, CUDA's context is unusable: "any further CUDA work will return the same error" (CUDA's manual,
``CUresult``). A failing kernel and a page fault that nobody can serve have sticky errors, which the next call that
waits for the device returns. An allocation without enough memory has an error that is not sticky. Neither CUDA nor ROCr
documents what calls on a lost device return: here every call raises ``DeviceLost``.

The names of calls and error codes are CUDA's in the code, and the library's own where a user sees them.  HIP has a call
for each of CUDA's.  For Level Zero, which is organized differently, the call is named that does the same, with
immediate command lists as streams.
"""

from __future__ import annotations

import importlib.resources
import tomllib
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final

import attrs
import msgspec

from offloadrt.machine import AccessFault, Device, Machine
from offloadrt.machine.host_lock import HostLock, lock_policy
from offloadrt.machine.injection import DeviceFailure, Injector
from offloadrt.machine.managed.sweep import Accesses
from offloadrt.machine.managed.warps import AddressTrace
from offloadrt.trace import events

_CALLS: Final[Mapping[str, list[str]]] = tomllib.loads(
    importlib.resources.files("offloadrt.driver").joinpath("call_names.toml").read_text(encoding="utf-8")
)

CALL_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "cuda": {},
    "hip": {name: names[0] for name, names in _CALLS.items()},
    "level_zero": {name: names[1] for name, names in _CALLS.items()},
}
"""The library's name for each of CUDA's calls and error codes, by the profile's entry ``driver.calls``."""

_ROCR: Final = {
    "executable_load_agent_code_object",
    "init",
    "memory_async_copy",
    "memory_lock",
    "memory_pool_allocate",
    "memory_pool_free",
    "memory_unlock",
    "queue_create",
    "signal_async_handler",
    "signal_create",
    "signal_wait_scacquire",
    "svm_attributes_set",
}
"""The names of ROCr's calls, without `hsa_` and `hsa_amd_`."""

CALLS: Final = _ROCR | {
    each for name, names in _CALLS.items() if not name.startswith("CUDA_ERROR") for each in (name, *names)
}
"""The names of all calls of all driver libraries, as faults name them."""


INVALID = "CUDA_ERROR_INVALID_VALUE"
INVALID_ARGUMENT = "HSA_STATUS_ERROR_INVALID_ARGUMENT"
OUT_OF_RESOURCES = "HSA_STATUS_ERROR_OUT_OF_RESOURCES"


def driver_lock(
    machine: Machine, name: str, uncontended: str, policy: str = "", handover: float | None = None
) -> HostLock:
    """Make the lock ``name`` of a driver. uncontended: a profile entry that is true if the lock excludes nobody.

    Without ``policy`` and ``handover`` (seconds), the entry ``driver.handoff`` says who gets the lock next, and
    ``driver.handover`` how long a thread that had to wait needs to wake up.
    """
    spec = machine.spec
    return HostLock(
        machine,
        name,
        lock_policy(policy or spec.text("driver.handoff")),
        spec.value("driver.handover") if handover is None else handover,
        category="driver",
        wait_category="driver lock",
        uncontended=spec.flag(uncontended),
    )


class DriverError(Exception):
    """Raised for a driver call that returned an error code.

    ``call`` and ``code`` are the names of the real function and code; ``detail`` has the reason. ``where`` names the
    calling thread and the virtual time, once the call has returned.
    """

    where = ""
    messages: tuple[str, ...] = ()
    """The lines that a runtime above the library has written to standard error about this failure."""

    def __init__(self, call: str, code: str, detail: str) -> None:
        super().__init__(call, code, detail)
        self.call, self.code, self.detail = call, code, detail

    def rename(self, names: Mapping[str, str]) -> None:
        """Replace CUDA's names of the call and the error code by those of another library."""
        self.call, self.code = names.get(self.call, self.call), names.get(self.code, self.code)
        self.args = (self.call, self.code, self.detail)

    def locate(self, thread: str, time: float, device: int) -> None:
        """Record for the message the calling thread, the device, and the virtual ``time`` at which the call ended."""
        self.where = f" ({thread} at {time:.9f} s, device {device})"

    def __str__(self) -> str:
        return "\n".join([f"{self.call} failed with {self.code}: {self.detail}{self.where}", *self.messages])


class DeviceLost(DriverError):
    """Raised for a call on a device that an injected fault has broken, if the library documents no error code."""


class OutOfDeviceMemory(DriverError):
    """Raised for an allocation of ``nbytes`` by ``thread`` at ``time`` that does not fit into ``free_bytes``."""

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
        """Do nothing, because the detail names thread and time already."""

    def __reduce__(self) -> tuple[Any, ...]:
        where = (self.call, self.nbytes, self.free_bytes, self.thread, self.time, self.device, self.code)
        return OutOfDeviceMemory, where, {"messages": self.messages}


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
"""The default error of each kind of injected fault in each library."""

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
"""The errors for which CUDA's manual says that every further call returns the same error."""


class FailingCalls:
    """Makes calls on a device fail by injected faults. ``library``: the driver library's name (``driver.api``)."""

    def __init__(self, injector: Injector, device: int, library: str) -> None:
        self._injector = injector
        self._device = device
        self._codes = _CODES[library]

    @property
    def broken(self) -> bool:
        """Tell whether a fault has made the device unusable."""
        return self._device in self._injector.failures

    def begin(self, call: str, nbytes: int, thread: str, now: float) -> DriverError | None:
        """Return the error of a call that an injected fault or a broken device makes fail; None lets the call proceed.

        nbytes: requested size of an allocation, else 0. thread: the calling thread. now: virtual seconds.
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
        """Return the error of a call that returns while its device is broken; None if the device works."""
        failure = self._injector.failures.get(self._device)
        if failure is None:
            return None
        kind = DeviceLost if failure.kind == "device" else DriverError
        return kind(call, failure.code or self._codes[failure.kind], failure.why)


class CallAccounts:
    """Counts the calls on one device and their times; ``names`` translates CUDA's names into another library's."""

    def __init__(self, machine: Machine, device: Device, names: Mapping[str, str]) -> None:
        self.sim = machine.sim
        self.device = device.index
        self.names = names
        self.trace = machine.trace
        self.counts = machine.calls
        self.failing: FailingCalls | None = None
        """Injects faults into calls; None in a run without faults."""
        if machine.injector is not None:
            self.failing = FailingCalls(machine.injector, device.index, machine.spec.text("driver.api"))

    def call(self, api: str, queue: int = -1, cause: int | None = None, nbytes: int = 0) -> DriverCall:
        """Count one call and its time, from entry to return: ``with accounts.call("cuMemAlloc") as call``.

        ``api`` is CUDA's name of the call. ``queue`` is the number of the stream that the call concerns, -1 for none.
        ``cause`` is the number of the directive that makes the call; None: the calling thread's directive. ``nbytes``:
        requested size of an allocation of device memory.
        """
        if cause is None:
            cause = (self.sim.running or self.sim.current).cause
            if not cause and self.trace is not None and self.trace.causal_log is not None:
                cause = self.trace.causal_log.call_at()
        return DriverCall(self, self.names.get(api, api), queue, cause, nbytes, self.sim.now)


class DriverCall(msgspec.Struct, eq=False):
    """One call of a driver library in progress.

    ``accounts`` counts the call. ``queue``: number of the stream that it concerns, -1 for none. ``cause``: number of
    the directive that makes it. ``nbytes``: requested size of an allocation. ``begin``: virtual seconds at entry.
    """

    accounts: CallAccounts
    api: str
    """The call's name in this library."""
    queue: int
    cause: int
    nbytes: int
    begin: float

    def __enter__(self) -> DriverCall:
        accounts = self.accounts
        if accounts.trace is not None:
            accounts.trace(events.CallBegin, accounts.device, self.queue, self.cause, self.api)
        if (failing := accounts.failing) is not None:
            error = failing.begin(self.api, self.nbytes, accounts.sim.current.name, accounts.sim.now)
            if error is not None:
                self.__exit__(DriverError, error, None)
                raise error
        return self

    def takes(self, **arguments: int | str) -> None:
        """Report the call's arguments, such as `bytes` and the `address` on the device, to the run's observer."""
        trace = self.accounts.trace
        if trace is not None and trace.causal_log is not None:
            trace.causal_log.called_with(self.accounts.sim.current, arguments)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        accounts, failed = self.accounts, None
        if error is None and accounts.failing is not None:
            error = failed = accounts.failing.end(self.api)
        if accounts.counts is not None:
            accounts.counts.add(self.api, accounts.sim.now - self.begin)
        if isinstance(error, DriverError):
            error.rename(accounts.names)
            if not error.where:
                error.locate(accounts.sim.current.name, accounts.sim.now, accounts.device)
        if accounts.trace is not None:
            if isinstance(error, DriverError):
                accounts.trace(events.RuntimeError_, accounts.device, self.queue, self.cause, self.api, str(error))
            accounts.trace(events.CallEnd, accounts.device, self.queue, self.cause, self.api)
        if failed is not None:
            raise failed


@attrs.frozen(eq=False)
class KernelAccesses:
    """What a kernel accesses outside its device's memory blocks: host memory, managed memory; see `KernelPacket`."""

    ranges: tuple[tuple[int, int], ...] = ()
    """(address, size in bytes) of host memory; pass the same tuple again for the same kernel, for a quick check."""
    serial_s: float = 0.0
    """Seconds that the kernel takes in addition to its work, for instance to follow a pointer to a global."""
    fault: Callable[[AccessFault], None] | None = None
    """Called when the kernel dies at a missing page, because XNACK is off."""
    accesses: Accesses = ()
    """The kernel's accesses to managed memory."""
    trace: AddressTrace | None = None
    """Finds what each thread accesses in managed memory, from the kernel's source; None: ``accesses`` are in order."""
    data: AddressTrace | None = None
    """Finds the positions of elements whose indices are not affine; None where no array's values determine them."""


NOTHING = KernelAccesses()
