"""Which block of managed memory is evicted when a device has no memory left: one policy, one file.

``evict.policy`` of the profile names a policy: an entry point of the group ``offloadrt.eviction_policies``, or
``FILE.py:CLASS``. A policy is pure: it returns an order of the blocks and changes nothing. The driver evicts the first
block of this order that no actor works on (``VaBlocks.evict_one``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import attrs
import numpy as np

from offloadrt.machine.managed.block import ManagedBlock
from offloadrt.registry import Registry


@attrs.frozen(eq=False)
class DeviceMemoryInUse:
    """The blocks that have memory of one device, as an eviction policy sees them; a policy must not change them."""

    by_last_fault: Mapping[int, ManagedBlock]
    """The blocks by their index.  The first is the one whose last fault is the longest ago."""
    by_arrival: Mapping[int, ManagedBlock]
    """The same blocks.  The first is the one that has had its memory for the longest time."""
    pages_per_block: int
    rng: np.random.Generator
    """The run's generator; a policy that draws from it gives the same run for the same seed."""


class EvictionPolicy(Protocol):
    """Chooses which block leaves the device; an object of such a class is made for each device."""

    name: str

    def order(self, memory: DeviceMemoryInUse) -> Iterable[int]:
        """Return or yield the indices of blocks in the order in which they may be evicted.

        The driver takes the first block that no actor works on. If there is none, it waits for the first block. Without
        any index nothing is evicted, and pages that find no room are mapped over the link.
        """


EVICTION_POLICIES: Final[Registry[EvictionPolicy]] = Registry(
    "eviction policy", "offloadrt.eviction_policies", ("name", "order")
)
