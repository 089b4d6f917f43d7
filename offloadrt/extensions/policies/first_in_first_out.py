"""The eviction policy that evicts blocks in the order in which they got device memory."""

from __future__ import annotations

from collections.abc import Iterable

from offloadrt.driver.uvm.eviction import DeviceMemoryInUse


class FirstInFirstOut:
    """Evicts the block that has had its memory for the longest time (Belady, IBM Systems Journal 5(2), 1966).

    It differs from ``LeastRecentlyFaulted`` where a block faults several times while it is resident: further faults
    do not keep it on the device.
    """

    name = "fifo"

    def order(self, memory: DeviceMemoryInUse) -> Iterable[int]:
        return memory.by_arrival
