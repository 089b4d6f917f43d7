"""The eviction policy of nvidia-uvm."""

from __future__ import annotations

from collections.abc import Iterable

from offloadrt.driver.uvm.eviction import DeviceMemoryInUse


class LeastRecentlyFaulted:
    """Evicts the block whose last fault is the longest ago.

    nvidia-uvm keeps its root chunks in a list (``va_block_used`` in ``uvm_pmm_gpu.c``). A chunk moves to the list's end
    when it is allocated, and again when a fault on its block is served (``uvm_pmm_gpu_mark_root_chunk_used``).
    ``pick_root_chunk_to_evict`` takes the first. The literature calls this LRU, but an access without a fault does not
    change the order: a block that kernels use all the time without faults is evicted all the same.
    """

    name = "least_recently_faulted"

    def order(self, memory: DeviceMemoryInUse) -> Iterable[int]:
        return memory.by_last_fault
