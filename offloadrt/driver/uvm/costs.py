"""What the unified-memory driver costs when it waits for nobody, and its rules, from the profile."""

from __future__ import annotations

from typing import Annotated

import attrs


@attrs.frozen
class UvmCosts:
    """Seconds; bytes that move come on top, at the link's rate."""

    batch_max: Annotated[int, "fault.batch_max"]
    """Faults that the handler takes from the buffer at a time."""
    batch: Annotated[float, "fault.batch_base"]
    """Work for a batch, whatever is in it: interrupt, fetch, flush and replay."""
    block: Annotated[float, "fault.per_vablock"]
    """Work for a block that has faults in a batch."""
    first_touch: Annotated[float, "block.first_touch_cost"]
    """Work on top for a block all of which the CPU has mapped: unmap it there, map it for the copy engines.

    A block that the CPU has mapped in part costs that part of it.
    """
    evict: Annotated[float, "evict.block"]
    """Work for the eviction of a block."""
    host_fault: Annotated[float, "fault.cpu_managed"]
    """Work for a fault of the CPU on a page that the GPU owns."""
    threshold: Annotated[float, "prefetch.threshold"]
    """Part of a subtree of pages from which on a fault brings all of it."""
    prefetch_tree: Annotated[bool, "prefetch.tree"]
    """Whether a fault brings more than its page at all."""
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
