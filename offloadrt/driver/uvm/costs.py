"""What the unified-memory driver costs when it waits for nobody, its rules, and what it counts, under CUPTI's names."""

from __future__ import annotations

from typing import Annotated

import attrs


@attrs.define
class UvmCounters:
    """What the driver did; bytes and counts."""

    bytes_htod: int = 0
    """Migrated to the device (CUPTI: BYTES_TRANSFER_HTOD)."""
    bytes_dtoh: int = 0
    """Migrated to the host, evictions included (BYTES_TRANSFER_DTOH)."""
    bytes_dtod: int = 0
    """Migrated, or copied, to the device from another one (BYTES_TRANSFER_DTOD)."""
    gpu_fault_groups: int = 0
    """Blocks with GPU faults that were served, batch by batch (GPU_PAGE_FAULT)."""
    host_faults: int = 0
    """Faults of the CPU (CPU_PAGE_FAULT_COUNT)."""
    thrashing: int = 0
    """Times that a page was found thrashing (THRASHING)."""
    throttling: int = 0
    """Times that faults of one side on a thrashing page were put off (THROTTLING)."""
    remote_maps: int = 0
    """Blocks of which pages were mapped over the link, time by time (REMOTE_MAP)."""
    batches: int = 0
    faults: int = 0
    """Faults of the GPU that were served."""
    duplicates: int = 0
    """Faults for pages that had a translation when it was their turn."""
    evictions: int = 0
    """Blocks that were evicted."""
    first_on_gpu: int = 0
    """Pages that nobody had touched before the GPU did: nothing to migrate."""
    duplications: int = 0
    """Pages of which the GPU got a copy that others have as well (READ_DUPLICATE)."""
    invalidations: int = 0
    """Pages of which the GPU took all other copies away because a store met them (READ_DUPLICATE_INVALIDATE)."""
    notifications: int = 0
    """Notifications of the access counters that were served."""
    counted_htod: int = 0
    """Those bytes of ``bytes_htod`` that notifications of the access counters brought."""

    def table(self) -> dict[str, int]:
        """Return the counts by name: CUPTI's (``CUpti_ActivityUnifiedMemoryCounterKind``), then the driver's own.

        What only several devices, copies of pages or access counters have is left out where it is 0.
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
    """What memory of the host's allocators costs on a device that uses it in place; seconds."""

    first_touch: Annotated[float, "ats.first_touch"]
    """Work, on top of that for the fault, for a page that nobody has touched before the GPU: the host makes it."""
    counts: Annotated[bool, "access_counter.migration"]
    """Whether the driver migrates what the access counters report."""


@attrs.frozen
class PeerCosts:
    """What managed memory costs on several devices besides what it costs on one."""

    unmap: Annotated[float, "numa.peer_unmap"]
    """Seconds of work that take a block's translations away from another device, of which it has some."""
    map: Annotated[float, "numa.peer_map"]
    """Seconds of work that let a device translate pages of a block in another device's memory."""
    access_part: Annotated[float, "numa.peer_access"]
    """Part of a link's bandwidth that a kernel attains in another device's memory."""


@attrs.frozen
class UvmCosts:
    """What the driver's work on a block costs, in seconds.  Bytes that move come on top, at the link's rate."""

    block: Annotated[float, "fault.per_vablock"]
    """Work for a block that has faults in a batch."""
    service_entry: Annotated[float, "fault.service"]
    """Work for an entry of a block."""
    unmap: Annotated[float, "block.unmap"]
    """Work on top, at each migration, for a block all of which the CPU has mapped; a part of a block costs its part."""
    unmap_range: Annotated[float, "block.unmap_range"]
    """Work on top for each stretch of those pages after the first."""
    dma_map: Annotated[float, "block.dma_map"]
    """Work on top, once, for a block all of which has memory on the host: the copy engines have to reach it."""
    page_copy: Annotated[float, "block.page_copy"]
    """A copy engine's time for each page of a migration, besides its bytes, where the driver copies page by page."""
    evict: Annotated[float, "evict.block"]
    """Work for the eviction of a block."""
    eviction_policy: Annotated[str, "evict.policy"]
    """Which block that is: an eviction policy (``eviction/``)."""
    host_fault: Annotated[float, "fault.cpu_managed"]
    """Work for a fault of the CPU on a page that the GPU owns."""
    host_first: Annotated[float, "fault.cpu_first"]
    """Work for a fault of the CPU on a page that nobody has touched, without clearing and mapping."""
    host_map: Annotated[float, "fault.cpu_map"]
    """Work on top for each page that such a fault maps for the CPU."""
    threshold: Annotated[float, "prefetch.threshold"]
    """Part of a subtree of pages from which on a fault brings all of it."""
    prefetch_tree: Annotated[bool, "prefetch.tree"]
    """Whether a fault brings more than its page at all."""
    prefetch_policy: Annotated[str, "prefetch.policy"]
    """What a fault brings, then: a prefetch policy (``prefetch/``)."""
    big_page: Annotated[int, "page.uvm_big"]
    """Bytes that a fault brings at least, then."""
    prefetch_call: Annotated[float, "prefetch_async.call"]
    """Host time of cuMemPrefetchAsync."""
    prefetch_block: Annotated[float, "prefetch_async.block"]
    """Work of the migration worker for a block of a prefetch."""
    prefetch_evicts: Annotated[bool, "prefetch_async.evicts"]
    """Whether a prefetch to the device makes room for itself."""
    advise: Annotated[float, "advise.call"]
    """Host time of cuMemAdvise."""
    restore: Annotated[float, "usm.restore"]
    """Seconds for which the queues stop when the device loses pages that kernels cannot fault for; 0: they go on."""
