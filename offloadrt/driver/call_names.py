"""What the calls of a driver library are called: CUDA's names throughout the code, others where a user sees them.

HIP's library is like CUDA's call by call; of Level Zero it is the call that does the same, with immediate command lists
for streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from offloadrt.machine import MachineSpec

_CALLS: Final = {
    "cuMemAlloc": ("hipMalloc", "zeMemAllocDevice"),
    "cuMemFree": ("hipFree", "zeMemFree"),
    "cuMemAllocHost": ("hipHostMalloc", "zeMemAllocHost"),
    "cuMemFreeHost": ("hipHostFree", "zeMemFree"),
    "cuMemAllocManaged": ("hipMallocManaged", "zeMemAllocShared"),
    "cuMemPrefetchAsync": ("hipMemPrefetchAsync", "zeCommandListAppendMemoryPrefetch"),
    "cuMemAdvise": ("hipMemAdvise", "zeCommandListAppendMemAdvise"),
    "cuMemHostRegister": ("hipHostRegister", "zexDriverImportExternalPointer"),
    "cuMemHostUnregister": ("hipHostUnregister", "zexDriverReleaseImportedPointer"),
    "cuStreamCreate": ("hipStreamCreate", "zeCommandListCreateImmediate"),
    "cuStreamDestroy": ("hipStreamDestroy", "zeCommandListDestroy"),
    "cuStreamSynchronize": ("hipStreamSynchronize", "zeCommandListHostSynchronize"),
    "cuStreamWaitEvent": ("hipStreamWaitEvent", "zeCommandListAppendWaitOnEvents"),
    "cuEventRecord": ("hipEventRecord", "zeCommandListAppendSignalEvent"),
    "cuEventSynchronize": ("hipEventSynchronize", "zeEventHostSynchronize"),
    "cuMemcpyHtoDAsync": ("hipMemcpyHtoDAsync", "zeCommandListAppendMemoryCopy"),
    "cuMemcpyDtoHAsync": ("hipMemcpyDtoHAsync", "zeCommandListAppendMemoryCopy"),
    "cuMemcpyDtoDAsync": ("hipMemcpyDtoDAsync", "zeCommandListAppendMemoryCopy"),
    "cuMemcpyPeerAsync": ("hipMemcpyPeerAsync", "zeCommandListAppendMemoryCopy"),
    "cuMemsetD8Async": ("hipMemsetD8Async", "zeCommandListAppendMemoryFill"),
    "cuLaunchKernel": ("hipModuleLaunchKernel", "zeCommandListAppendLaunchKernel"),
    "cuDeviceCanAccessPeer": ("hipDeviceCanAccessPeer", "zeDeviceCanAccessPeer"),
    "cuCtxEnablePeerAccess": ("hipDeviceEnablePeerAccess", "zeDeviceCanAccessPeer"),
    "CUDA_ERROR_INVALID_VALUE": ("hipErrorInvalidValue", "ZE_RESULT_ERROR_INVALID_ARGUMENT"),
    "CUDA_ERROR_OUT_OF_MEMORY": ("hipErrorOutOfMemory", "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY"),
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": (
        "hipErrorLaunchOutOfResources", "ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION"
    ),
    "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED": (
        "hipErrorHostMemoryAlreadyRegistered", "ZE_RESULT_ERROR_INVALID_ARGUMENT"
    ),
    "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED": (
        "hipErrorHostMemoryNotRegistered", "ZE_RESULT_ERROR_INVALID_ARGUMENT"
    ),
}  # fmt: skip

CALL_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "cuda": {},
    "hip": {name: names[0] for name, names in _CALLS.items()},
    "level_zero": {name: names[1] for name, names in _CALLS.items()},
}
"""By the profile's ``driver.calls``: another name for each of CUDA's, calls and error codes."""


def call_name(spec: MachineSpec, cuda: str) -> str:
    """What a machine's library calls one of CUDA's calls, or error codes: as `Calls` counts it."""
    return CALL_NAMES[spec.text("driver.calls")].get(cuda, cuda)
