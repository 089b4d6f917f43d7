"""The names of a driver library's calls and error codes: CUDA's in the code, the library's own where a user sees them.

An APU's library, ROCr, has calls of its own.  Of the others, HIP has a call for each of CUDA's.  Level Zero is
organized differently: here stands the call that does the same, with immediate command lists as streams.  Add a call
here when a library gets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from offloadrt.machine import MachineSpec

_CALLS: Final = {
    "cuInit": ("hipInit", "zeInit"),
    "cuDevicePrimaryCtxRetain": ("hipDevicePrimaryCtxRetain", "zeContextCreate"),
    "cuModuleLoadData": ("hipModuleLoadData", "zeModuleCreate"),
    "cuModuleGetFunction": ("hipModuleGetFunction", "zeKernelCreate"),
    "cuMemAlloc": ("hipMalloc", "zeMemAllocDevice"),
    "cuMemFree": ("hipFree", "zeMemFree"),
    "cuMemAllocFromPoolAsync": ("hipMallocFromPoolAsync", "zeMemAllocDevice"),
    "cuMemFreeAsync": ("hipFreeAsync", "zeMemFree"),
    "cuMemPoolCreate": ("hipMemPoolCreate", "zeContextCreate"),
    "cuMemPoolDestroy": ("hipMemPoolDestroy", "zeContextDestroy"),
    "cuMemPoolTrimTo": ("hipMemPoolTrimTo", "zeContextEvictMemory"),
    "cuMemPoolSetAccess": ("hipMemPoolSetAccess", "zeDeviceCanAccessPeer"),
    "cuMemAllocHost": ("hipHostMalloc", "zeMemAllocHost"),
    "cuMemFreeHost": ("hipHostFree", "zeMemFree"),
    "cuMemAllocManaged": ("hipMallocManaged", "zeMemAllocShared"),
    "cuMemPrefetchAsync": ("hipMemPrefetchAsync", "zeCommandListAppendMemoryPrefetch"),
    "cuMemAdvise": ("hipMemAdvise", "zeCommandListAppendMemAdvise"),
    "cuMemHostRegister": ("hipHostRegister", "zexDriverImportExternalPointer"),
    "cuMemHostUnregister": ("hipHostUnregister", "zexDriverReleaseImportedPointer"),
    "cuStreamCreate": ("hipStreamCreate", "zeCommandListCreateImmediate"),
    "cuStreamDestroy": ("hipStreamDestroy", "zeCommandListDestroy"),
    "cuStreamCreateWithPriority": ("hipStreamCreateWithPriority", "zeCommandListCreateImmediate"),
    "cuLaunchHostFunc": ("hipLaunchHostFunc", "zeCommandListAppendSignalEvent"),
    "cuStreamQuery": ("hipStreamQuery", "zeCommandListHostSynchronize"),
    "cuStreamSynchronize": ("hipStreamSynchronize", "zeCommandListHostSynchronize"),
    "cuStreamWaitEvent": ("hipStreamWaitEvent", "zeCommandListAppendWaitOnEvents"),
    "cuStreamBeginCapture": ("hipStreamBeginCapture", "zeCommandListCreate"),
    "cuStreamEndCapture": ("hipStreamEndCapture", "zeCommandListClose"),
    "cuGraphCreate": ("hipGraphCreate", "zeCommandListCreate"),
    "cuGraphAddKernelNode": ("hipGraphAddKernelNode", "zeCommandListAppendLaunchKernel"),
    "cuGraphAddMemcpyNode": ("hipGraphAddMemcpyNode", "zeCommandListAppendMemoryCopy"),
    "cuGraphAddMemsetNode": ("hipGraphAddMemsetNode", "zeCommandListAppendMemoryFill"),
    "cuGraphAddHostNode": ("hipGraphAddHostNode", "zeCommandListAppendSignalEvent"),
    "cuGraphInstantiate": ("hipGraphInstantiate", "zeCommandListClose"),
    "cuGraphLaunch": ("hipGraphLaunch", "zeCommandQueueExecuteCommandLists"),
    "cuGraphExecDestroy": ("hipGraphExecDestroy", "zeCommandListDestroy"),
    "cuEventRecord": ("hipEventRecord", "zeCommandListAppendSignalEvent"),
    "cuEventCreate": ("hipEventCreateWithFlags", "zeEventCreate"),
    "cuEventDestroy": ("hipEventDestroy", "zeEventDestroy"),
    "cuEventQuery": ("hipEventQuery", "zeEventQueryStatus"),
    "cuEventElapsedTime": ("hipEventElapsedTime", "zeEventQueryKernelTimestamp"),
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
    "CUDA_ERROR_INVALID_HANDLE": ("hipErrorInvalidHandle", "ZE_RESULT_ERROR_INVALID_NULL_HANDLE"),
    "CUDA_ERROR_NOT_READY": ("hipErrorNotReady", "ZE_RESULT_NOT_READY"),
    "CUDA_ERROR_INVALID_DEVICE": ("hipErrorInvalidDevice", "ZE_RESULT_ERROR_INVALID_ARGUMENT"),
    "CUDA_ERROR_ILLEGAL_ADDRESS": ("hipErrorIllegalAddress", "ZE_RESULT_ERROR_DEVICE_LOST"),
    "CUDA_ERROR_UNKNOWN": ("hipErrorUnknown", "ZE_RESULT_ERROR_UNKNOWN"),
    "CUDA_ERROR_LAUNCH_FAILED": ("hipErrorLaunchFailure", "ZE_RESULT_ERROR_DEVICE_LOST"),
    "CUDA_ERROR_OUT_OF_MEMORY": ("hipErrorOutOfMemory", "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY"),
    "CUDA_ERROR_ILLEGAL_STATE": ("hipErrorIllegalState", "ZE_RESULT_ERROR_INVALID_ARGUMENT"),
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": (
        "hipErrorStreamCaptureUnsupported", "ZE_RESULT_ERROR_UNSUPPORTED_FEATURE"
    ),
    "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED": (
        "hipErrorStreamCaptureInvalidated", "ZE_RESULT_ERROR_INVALID_ARGUMENT"
    ),
    "CUDA_ERROR_STREAM_CAPTURE_MERGE": ("hipErrorStreamCaptureMerge", "ZE_RESULT_ERROR_INVALID_ARGUMENT"),
    "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED": ("hipErrorStreamCaptureUnmatched", "ZE_RESULT_ERROR_INVALID_ARGUMENT"),
    "CUDA_ERROR_STREAM_CAPTURE_UNJOINED": ("hipErrorStreamCaptureUnjoined", "ZE_RESULT_ERROR_INVALID_ARGUMENT"),
    "CUDA_ERROR_STREAM_CAPTURE_ISOLATION": ("hipErrorStreamCaptureIsolation", "ZE_RESULT_ERROR_INVALID_ARGUMENT"),
    "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT": ("hipErrorStreamCaptureImplicit", "ZE_RESULT_ERROR_INVALID_ARGUMENT"),
    "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD": (
        "hipErrorStreamCaptureWrongThread", "ZE_RESULT_ERROR_INVALID_ARGUMENT"
    ),
    "CUDA_ERROR_CAPTURED_EVENT": ("hipErrorCapturedEvent", "ZE_RESULT_ERROR_INVALID_ARGUMENT"),
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
"""The library's name for each of CUDA's calls and error codes, by the value of the profile's ``driver.calls``."""

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


def call_name(spec: MachineSpec, cuda: str) -> str:
    """Return the name that a machine's library has for one of CUDA's calls or error codes; ``Calls`` counts by it."""
    return CALL_NAMES[spec.text("driver.calls")].get(cuda, cuda)
