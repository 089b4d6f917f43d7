"""No prefetching: ``uvm_perf_prefetch_enable = 0`` of nvidia-uvm."""

from __future__ import annotations

from offloadrt.driver.uvm.prefetch import PrefetchRules


class NoPrefetch:
    """Brings only the faulted pages, each of which has the size of a page of the host."""

    name = "none"

    def brings(self, there: int, faulted: int, valid: int, thrashing: int, rules: PrefetchRules) -> int:
        return faulted
