"""What the unified-memory driver counts, under CUPTI's names and its own."""

from __future__ import annotations

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
