"""What the unified-memory driver costs when it waits for nobody, and its rules, from the profile."""

from __future__ import annotations

from typing import Annotated

import attrs


@attrs.frozen
class BatchCosts:
    """What a batch of faults costs besides the service of its blocks; seconds."""

    batch_max: Annotated[int, "fault.batch_max"]
    """Entries that the handler takes from the buffer at a time."""
    interrupt: Annotated[float, "fault.interrupt"]
    """From the first fault in an empty buffer until the handler looks."""
    fetch: Annotated[float, "fault.fetch_base"]
    """Work for the fetch of a batch, whatever is in it."""
    fetch_entry: Annotated[float, "fault.fetch"]
    """Work for the fetch of an entry."""
    preprocess_entry: Annotated[float, "fault.preprocess"]
    """Work for an entry that is sorted and merged with its duplicates."""
    flush: Annotated[float, "fault.replay"]
    """Work for the flush and the replay at the end of a batch."""
    flush_entry: Annotated[float, "fault.flush"]
    """Work for an entry that the flush drops."""
    policy: Annotated[str, "fault.replay_policy"]
    """When replays are sent: a name of ``REPLAY_POLICIES``."""
    duplicates: Annotated[float, "fault.update_put"]
    """Part of a batch's entries that are duplicates from which on the flush also drops what came meanwhile."""


@attrs.frozen
class SystemMemoryCosts:
    """What memory of the host's allocators costs on a device that uses it in place; seconds."""

    first_touch: Annotated[float, "ats.first_touch"]
    """Work, on top of that for the fault, for a page that nobody has touched before the GPU: the host makes it."""
    counts: Annotated[bool, "access_counter.migration"]
    """Whether the driver migrates what the access counters report."""


@attrs.frozen
class CounterCosts:
    """What the driver's work for notifications of the access counters takes; seconds."""

    batch_max: Annotated[int, "access_counter.batch"]
    """Notifications that the worker takes from the buffer at a time."""
    interrupt: Annotated[float, "access_counter.interrupt"]
    """From the first notification in an empty buffer until the worker looks."""
    service: Annotated[float, "access_counter.service"]
    """Work for the migration of a region, without its bytes."""
    uncontended: Annotated[bool, "access_counter.uncontended"]
    """Whether each notification finds a worker of its own."""


@attrs.frozen
class UvmCosts:
    """Seconds; bytes that move come on top, at the link's rate."""

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
    host_fault: Annotated[float, "fault.cpu_managed"]
    """Work for a fault of the CPU on a page that the GPU owns."""
    threshold: Annotated[float, "prefetch.threshold"]
    """Part of a subtree of pages from which on a fault brings all of it."""
    prefetch_tree: Annotated[bool, "prefetch.tree"]
    """Whether a fault brings more than its page at all."""
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
