"""The eviction policy that draws its victim."""

from __future__ import annotations

from collections.abc import Iterable

from offloadrt.driver.uvm.eviction import DeviceMemoryInUse


class AtRandom:
    """Evicts a block at random, each as likely as any other, drawn from the run's generator.

    Ganguly et al., "Interplay between hardware prefetcher and page eviction policy in CPU-GPU unified virtual memory"
    (ISCA 2019), compare it with LRU.  A kernel that sweeps again and again over more memory than the device has finds
    nothing it needs next under LRU, which evicts just that; at random it finds some.
    """

    name = "random"

    def order(self, memory: DeviceMemoryInUse) -> Iterable[int]:
        left = [*memory.by_arrival]
        while left:  # one after the other, as the driver nearly always takes the first
            place = int(memory.rng.integers(len(left)))
            left[place], left[-1] = left[-1], left[place]
            yield left.pop()
