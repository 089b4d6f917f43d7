"""What LLVM's runtime writes when a call of the driver library has failed, from the plugin's line to the fatal one.

Follows `GenericPluginTy` (offload/plugins-nextgen/common/src/PluginInterface.cpp) and the functions that call it
(omptarget.cpp and OpenMP/Mapping.cpp of LLVM 22). Addresses, which LLVM writes as well, are left out.
"""

from __future__ import annotations

from typing import Final

from offloadrt.driver import DriverError
from offloadrt.runtime.device import OffloadDevice

_TO_DEVICE: Final = ("Failure to copy data from host to device", "Copying data to device failed.")
_FROM_DEVICE: Final = ("Failure to copy data from device to host", "Copying data from device failed.")
_ALLOCATE: Final = ("Failure to allocate device memory", "")
_FREE: Final = ("Failure to deallocate device pointer", "Deallocating data from device failed.")
_LAUNCH: Final = ("Failure to run target region", "")
_SYNCHRONIZE: Final = ("Failure to synchronize stream", "")

_OPERATIONS: Final = {
    "cuMemAlloc": _ALLOCATE,
    "memory_pool_allocate": _ALLOCATE,
    "cuMemFree": _FREE,
    "memory_pool_free": _FREE,
    "cuMemcpyHtoDAsync": _TO_DEVICE,
    "cuMemcpyDtoHAsync": _FROM_DEVICE,
    "cuLaunchKernel": _LAUNCH,
    "cuStreamSynchronize": _SYNCHRONIZE,
    "signal_wait_scacquire": _SYNCHRONIZE,
    "cuEventRecord": ("Failure to record event", ""),
    "cuStreamWaitEvent": ("Failure to wait event", ""),
    "cuModuleLoadData": ("Failure to load binary image", ""),
    "executable_load_agent_code_object": ("Failure to load binary image", ""),
    "cuModuleGetFunction": ("Failure to look up kernel", ""),
}
"""What the plugin says of the operation that the call belongs to, and what the runtime adds where it says more."""


def report_failure(device: OffloadDevice, error: DriverError, *more: str) -> None:
    """Write what LLVM writes about a call that has failed, once; then ``more``, the lines of who gives up for it.

    The error carries all lines of the device from then on.
    """
    if not error.messages:
        said, failed = _OPERATIONS.get(error.call, ("Failure in the driver library", ""))
        device.report(f"PluginInterface error: {said}: error in {error.call}: {error.code}")
        if failed:
            device.report(f"omptarget error: {failed}")
    for line in more:
        device.report(line)
    error.messages = tuple(device.messages)
