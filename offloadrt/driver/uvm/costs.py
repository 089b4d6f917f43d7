"""Costs of the unified-memory driver without contention, its rules, and its counters, under CUPTI's names."""

from __future__ import annotations

from typing import Annotated

import attrs


@attrs.define
class UvmCounters:
    """Counts bytes and events of the unified-memory driver (nvidia-uvm): migrations, faults, evictions and others."""

    bytes_htod: int = 0
    """Bytes migrated to the device (CUPTI: BYTES_TRANSFER_HTOD)."""
    bytes_dtoh: int = 0
    """Bytes migrated to the host, evictions included (BYTES_TRANSFER_DTOH)."""
    bytes_dtod: int = 0
    """Bytes migrated or copied to the device from another device (BYTES_TRANSFER_DTOD)."""
    gpu_fault_groups: int = 0
    """Number of blocks whose GPU faults were served, counted for each batch (GPU_PAGE_FAULT)."""
    host_faults: int = 0
    """Number of CPU faults (CPU_PAGE_FAULT_COUNT)."""
    thrashing: int = 0
    """Number of times that a page was found thrashing (THRASHING)."""
    throttling: int = 0
    """Number of times that one side's faults on a thrashing page were delayed (THROTTLING)."""
    remote_maps: int = 0
    """Number of times that pages of a block were mapped over the link (REMOTE_MAP)."""
    batches: int = 0
    faults: int = 0
    """Number of GPU faults that were served."""
    duplicates: int = 0
    """Number of faults on pages that had a translation when they were served."""
    evictions: int = 0
    """Number of evicted blocks."""
    first_on_gpu: int = 0
    """Number of pages that the GPU touched first, so that nothing migrated."""
    duplications: int = 0
    """Number of pages of which the GPU got a copy that others have as well (READ_DUPLICATE)."""
    invalidations: int = 0
    """Number of pages whose other copies were invalidated by a GPU's store (READ_DUPLICATE_INVALIDATE)."""
    notifications: int = 0
    """Number of access-counter notifications that were served."""
    counted_htod: int = 0
    """The part of ``bytes_htod`` that access-counter notifications caused."""

    def table(self) -> dict[str, int]:
        """Return the driver's counts by name: first CUPTI's (``CUpti_ActivityUnifiedMemoryCounterKind``), then its own.

        Counts that can be nonzero only with several devices, copies of pages or access counters are left out while 0.
        """
        further = {
            "bytes_transfer_dtod": self.bytes_dtod,
            "read_duplicate": self.duplications,
            "read_duplicate_invalidate": self.invalidations,
            "access_counter_notifications": self.notifications,
            "access_counter_bytes_htod": self.counted_htod,
        }
        return {
            "bytes_transfer_htod": self.bytes_htod,
            "bytes_transfer_dtoh": self.bytes_dtoh,
            "gpu_page_fault": self.gpu_fault_groups,
            "cpu_page_fault_count": self.host_faults,
            "thrashing": self.thrashing,
            "throttling": self.throttling,
            "remote_map": self.remote_maps,
            "fault_batches": self.batches,
            "faults": self.faults,
            "duplicates": self.duplicates,
            "evicted_blocks": self.evictions,
            "first_on_gpu": self.first_on_gpu,
            **{name: count for name, count in further.items() if count},
        }


@attrs.frozen
class SystemMemoryCosts:
    """Additional costs, in seconds, of memory from the host's allocators that a device accesses without migration."""

    first_touch: Annotated[float, "ats.first_touch"]
    """Additional work for a page that the GPU touches first: the host makes the page."""
    counts: Annotated[bool, "access_counter.migration"]
    """Whether the driver migrates the pages that access counters report."""


@attrs.frozen
class PeerCosts:
    """Additional costs of managed memory on several devices, which access one another's memory over links."""

    unmap: Annotated[float, "numa.peer_unmap"]
    """Seconds of work to remove a block's translations from another device that has some."""
    map: Annotated[float, "numa.peer_map"]
    """Seconds of work to let a device translate pages of a block in another device's memory."""
    access_part: Annotated[float, "numa.peer_access"]
    """Fraction of a link's bandwidth that a kernel attains in another device's memory."""


@attrs.frozen
class UvmCosts:
    """Seconds of the unified-memory driver's work on a block of pages, and its policies; bytes that move cost extra."""

    block: Annotated[float, "fault.per_vablock"]
    """Work for a block that has faults in a batch."""
    service_entry: Annotated[float, "fault.service"]
    """Work for each entry of the fault buffer that concerns the block."""
    unmap: Annotated[float, "block.unmap"]
    """Additional work, at each migration, for a block that the CPU maps completely; less for a part of it."""
    unmap_range: Annotated[float, "block.unmap_range"]
    """Additional work for each contiguous range of pages that the CPU maps, after the first."""
    dma_map: Annotated[float, "block.dma_map"]
    """Additional work, once, for a block with host memory for all pages: the copy engines must be able to reach it."""
    page_copy: Annotated[float, "block.page_copy"]
    """A copy engine's time for each page of a migration, besides its bytes, if the driver copies page by page."""
    evict: Annotated[float, "evict.block"]
    """Work to evict a block."""
    eviction_policy: Annotated[str, "evict.policy"]
    """The eviction policy, which chooses the block to evict (a module of ``eviction/``)."""
    host_fault: Annotated[float, "fault.cpu_managed"]
    """Work for a CPU fault on a page that the GPU owns; mapping costs extra (``host_map``)."""
    host_first: Annotated[float, "fault.cpu_first"]
    """Work for a CPU fault on an untouched page; clearing and mapping the page cost extra."""
    host_map: Annotated[float, "fault.cpu_map"]
    """Additional work for each page that a fault maps for the CPU."""
    threshold: Annotated[float, "prefetch.threshold"]
    """Fraction of a subtree of pages from which on a fault brings the whole subtree."""
    prefetch_tree: Annotated[bool, "prefetch.tree"]
    """Whether a fault brings more than its own page at all."""
    prefetch_policy: Annotated[str, "prefetch.policy"]
    """The prefetch policy, which chooses what a fault brings (``prefetch/``)."""
    big_page: Annotated[int, "page.uvm_big"]
    """Smallest number of bytes that a fault brings when it brings more than its page."""
    prefetch_call: Annotated[float, "prefetch_async.call"]
    """Host time of cuMemPrefetchAsync."""
    prefetch_block: Annotated[float, "prefetch_async.block"]
    """Work of the migration worker for a block of a prefetch."""
    prefetch_evicts: Annotated[bool, "prefetch_async.evicts"]
    """Whether a prefetch to the device evicts other blocks to make room."""
    advise: Annotated[float, "advise.call"]
    """Host time of cuMemAdvise."""
    restore: Annotated[float, "usm.restore"]
    """Seconds for which queues stop when the device loses pages on which kernels cannot fault; 0: they do not stop."""
