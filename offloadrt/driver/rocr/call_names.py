"""The names of ROCr's calls, without `hsa_` and `hsa_amd_`. Add a call here when `Rocr` gets it."""

from __future__ import annotations

from typing import Final

CALLS: Final = frozenset(
    {
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
)
