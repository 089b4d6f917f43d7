"""No prefetching: ``uvm_perf_prefetch_enable = 0`` of nvidia-uvm."""

from __future__ import annotations

from offloadrt.driver.uvm.prefetch import PrefetchRules


class NoPrefetch:
    """Migrates only the faulted pages, which are as large as pages of the host."""

    name = "none"

    def brings(self, there: int, faulted: int, valid: int, thrashing: int, rules: PrefetchRules) -> int:
        return faulted
