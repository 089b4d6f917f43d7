"""When an offloaded algorithm prefetches the allocations that its kernel's pointers point into.

A batch is what a thread submits between two waits; batches are numbered through the program by how many have been
completed. Each prefetch is of the whole allocation. Follows AdaptiveCpp's ``prepare_offloading`` (``offload.hpp``).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from offloadrt.models.stdpar.allocation_map import NEVER, Allocation


class PrefetchMode(enum.Enum):
    """When allocations are prefetched (``ACPP_STDPAR_PREFETCH_MODE``).

    NEVER; FIRST: when the first kernel uses the allocation; ALWAYS: see `AlwaysReading`; AFTER_SYNC: as ALWAYS once in
    a batch, but only for the first operation after a wait.
    """

    NEVER = "never"
    FIRST = "first"
    ALWAYS = "always"
    AFTER_SYNC = "after-sync"


class AlwaysReading(enum.Enum):
    """What `PrefetchMode.ALWAYS` means.

    ONCE_PER_BATCH: the public code, no allocation twice in a batch. EVERY: the words of the paper, before every
    kernel.
    """

    ONCE_PER_BATCH = "once_per_batch"
    EVERY = "every"


def prefetches(
    mode: PrefetchMode,
    allocation: Allocation,
    batch: int,
    outstanding: int,
    always: AlwaysReading = AlwaysReading.ONCE_PER_BATCH,
) -> bool:
    """Tell whether `allocation` is prefetched before an operation of batch number `batch`.

    outstanding: operations that the thread has submitted since its last wait.
    """
    last = allocation.most_recent_batch
    match mode:
        case PrefetchMode.NEVER:
            return False
        case PrefetchMode.FIRST:
            return last == NEVER
        case PrefetchMode.ALWAYS:
            return always is AlwaysReading.EVERY or last < batch
        case PrefetchMode.AFTER_SYNC:
            return outstanding == 0 and last < batch


def take_prefetches(
    mode: PrefetchMode,
    allocations: Iterable[Allocation],
    batch: int,
    outstanding: int,
    always: AlwaysReading = AlwaysReading.ONCE_PER_BATCH,
) -> list[Allocation]:
    """List what to prefetch before an operation whose pointers point into `allocations`, in their order and each once.

    It is noted in `Allocation.most_recent_batch`.
    """
    due: dict[int, Allocation] = {}
    for allocation in allocations:
        if prefetches(mode, allocation, batch, outstanding, always):
            due[allocation.root] = allocation
            allocation.most_recent_batch = batch
    return list(due.values())
