"""The choice of the runtime's memory configuration, from the program's build, the device, and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from offloadrt.runtime.errors import UnifiedMemoryUnavailable

ENTRIES: Final[dict[str, str]] = {
    "HSA_XNACK": "gpu.xnack",
    "HSA_FORCE_SDMA_SIZE": "dma.blit_from",
    "LIBOMPTARGET_AMDGPU_NUM_HSA_QUEUES": "hsa.queues",
    "LIBOMPTARGET_AMDGPU_MAX_ASYNC_COPY_BYTES": "copy.async_limit",
    "LIBOMPTARGET_SYNC_COPY_BACK": "stream.sync_copy_back",
    "LIBOMPTARGET_AMDGPU_USE_MULTIPLE_SDMA_ENGINES": "dma.multiple_engines",
    "LIBOMPTARGET_AMDGPU_NUM_INITIAL_HSA_SIGNALS": "signal.initial",
    "LIBOMPTARGET_AMDGPU_TEAMS_PER_CU": "teams.per_cu",
    "LIBOMPTARGET_MIN_THREADS_FOR_LOW_TRIP_COUNT": "teams.least_threads",
    "LIBOMPTARGET_REUSE_BLOCKS_FOR_HIGH_TRIP_COUNT": "teams.reuse",
    "LIBOMPTARGET_MEMORY_MANAGER_THRESHOLD": "memory_manager.threshold",
    "LIBOMPTARGET_MAP_FORCE_ATOMIC": "entry.events",
    "CUDA_LAUNCH_BLOCKING": "driver.launch_blocking",
    "HIP_LAUNCH_BLOCKING": "driver.launch_blocking",
    "CUDA_MODULE_LOADING": "module.loading",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "mps.active_thread_percentage",
    "LIBOMP_NUM_HIDDEN_HELPER_THREADS": "runtime.hidden_helper_threads",
    "CUDA_DEVICE_MAX_CONNECTIONS": "gpu.max_connections",
    "GPU_MAX_HW_QUEUES": "gpu.max_connections",
}
"""Environment variables that set entries of a machine's profile, with the entries' keys."""
OF_CALLS: Final = {name: "cuda" for name in ENTRIES if name.startswith("CUDA_")} | dict.fromkeys(
    ("GPU_MAX_HW_QUEUES", "HIP_LAUNCH_BLOCKING"), "hip"
)
"""Variables that only one driver library reads, with the machine's `driver.calls`."""
PER_THREAD: Final = "CUDA_API_PER_THREAD_DEFAULT_STREAM"
"""The macro that gives each thread of a CUDA program its own default stream; a value of 1 sets it."""
CHOOSING: Final = ("OMPX_APU_MAPS", "OMPX_EAGER_ZERO_COPY_MAPS", PER_THREAD)
"""The variables with an on/off value; `select_configuration` reads the first two."""
OFFLOAD: Final = "OMP_TARGET_OFFLOAD"
"""Whether target regions run on a device: `default`, `mandatory` or `disabled`."""


def is_on(environ: Mapping[str, str], name: str) -> bool:
    """Tell whether LLVM takes the variable `name` in `environ` as true. ValueError for neither true nor false.

    >>> is_on({"A": "1"}, "A"), is_on({"A": "0"}, "A"), is_on({}, "A")
    (True, False, False)
    """
    value = environ.get(name, "").strip().lower()
    if value not in _WORDS:
        raise ValueError(
            f"{name}={environ[name]}: it can be 0 or 1 (or {', '.join(word for word in _WORDS if word[1:])})"
        )
    return _WORDS[value]


_WORDS = dict.fromkeys(("", "0", "false", "no", "off"), False) | dict.fromkeys(("1", "true", "yes", "on"), True)


def select_configuration(
    requires_unified_shared_memory: bool, is_apu: bool, xnack: bool, unified_memory: bool, environ: Mapping[str, str]
) -> str:
    """Return the name of the memory configuration that the real runtime would choose for a program on a device.

    requires_unified_shared_memory: whether the program is built with `requires unified_shared_memory`. is_apu, xnack
    (HSA_XNACK=1), unified_memory (it can use host memory in place): properties of the device. environ: `OMPX_APU_MAPS`
    lets a discrete device act as an APU, `OMPX_EAGER_ZERO_COPY_MAPS` requests Eager Maps. A program that requires
    unified shared memory gets `usm` even with Eager Maps (AMD's fork would prefault, too). Raises
    UnifiedMemoryUnavailable for a requirement that the device cannot meet.
    """
    if requires_unified_shared_memory:
        if not unified_memory:
            raise UnifiedMemoryUnavailable(
                "the program requires unified_shared_memory, but the device has no unified memory"
            )
        return "usm"
    if is_on(environ, "OMPX_EAGER_ZERO_COPY_MAPS"):
        return "eager_maps"
    if xnack and (is_apu or is_on(environ, "OMPX_APU_MAPS")):
        return "implicit_zero_copy"
    return "copy"
