"""The prefetch policy that fetches no more than the big page around a fault."""

from __future__ import annotations

from offloadrt.driver.uvm.prefetch import PrefetchRules
from offloadrt.machine.managed.block import whole_parts


class BigPage:
    """Fetches the big page (64 KiB) around each faulted page, unless a page of it thrashes.

    This is the sequential-local prefetcher of Ganguly et al., "Interplay between hardware prefetcher and page eviction
    policy in CPU-GPU unified virtual memory" (ISCA 2019), and the first half of what nvidia-uvm does.
    """

    name = "big_page"

    def brings(self, there: int, faulted: int, valid: int, thrashing: int, rules: PrefetchRules) -> int:
        return faulted | whole_parts(faulted & ~thrashing, rules.big, thrashing) & valid
