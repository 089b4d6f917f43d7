"""The eviction policy that chooses its victim at random."""

from __future__ import annotations

from collections.abc import Iterable

from offloadrt.driver.uvm.eviction import DeviceMemoryInUse


class AtRandom:
    """Evicts a block at random, each with the same probability, by the run's random generator.

    Ganguly et al., "Interplay between hardware prefetcher and page eviction policy in CPU-GPU unified virtual memory"
    (ISCA 2019), compare it with LRU. A kernel may sweep again and again over more memory than the device has. LRU then
    evicts just the blocks that the kernel needs next; a random choice leaves some of them.
    """

    name = "random"

    def order(self, memory: DeviceMemoryInUse) -> Iterable[int]:
        left = [*memory.by_arrival]
        while left:  # one after the other, as the driver nearly always takes the first
            place = int(memory.rng.integers(len(left)))
            left[place], left[-1] = left[-1], left[place]
            yield left.pop()
