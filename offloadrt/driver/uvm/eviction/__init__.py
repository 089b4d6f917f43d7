"""Which block of managed memory is evicted when a device has no memory left: one policy, one file.

``evict.policy`` of the profile names a policy: an entry point of the group ``offloadrt.eviction_policies``, or
``FILE.py:CLASS``. A policy is pure: it returns an order of the blocks and changes nothing. The driver evicts the first
block of this order that no actor works on (``VaBlocks.evict_one``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NoReturn, Protocol

import attrs
import numpy as np

from offloadrt.kernels.integers import is_integer
from offloadrt.machine.managed.block import ManagedBlock
from offloadrt.registry import Registry, broken


class BlockInUse:
    """Lets an eviction policy read, but not change, the attributes of one `ManagedBlock` that are whole numbers."""

    __slots__ = ("_block",)

    def __init__(self, block: ManagedBlock) -> None:
        object.__setattr__(self, "_block", block)

    def __getattr__(self, name: str) -> int:
        value = getattr(self._block, name, None)
        if not isinstance(value, int):
            raise TypeError(f"a policy reads the numbers of a block, and {name!r} is none")
        return value

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise TypeError(f"a policy reads the numbers of a block, and cannot set {name!r}")


class _InUse(Mapping[int, BlockInUse]):
    """Shows blocks to a policy, in an order that the driver keeps."""

    def __init__(self, blocks: Mapping[int, ManagedBlock]) -> None:
        self._blocks = blocks

    def __getitem__(self, index: int) -> BlockInUse:
        return BlockInUse(self._blocks[index])

    def __iter__(self) -> Iterator[int]:
        return iter(self._blocks)

    def __reversed__(self) -> Iterator[int]:
        return iter([*self._blocks][::-1])

    def __len__(self) -> int:
        return len(self._blocks)


@attrs.frozen(eq=False)
class DeviceMemoryInUse:
    """The blocks that have memory of one device, as an eviction policy sees them; a policy cannot change them."""

    by_last_fault: Mapping[int, BlockInUse] = attrs.field(converter=_InUse)
    """The blocks by their index.  The first is the one whose last fault is the longest ago."""
    by_arrival: Mapping[int, BlockInUse] = attrs.field(converter=_InUse)
    """The same blocks.  The first is the one that has had its memory for the longest time."""
    pages_per_block: int
    rng: np.random.Generator
    """The run's generator; a policy that draws from it gives the same run for the same seed."""


class EvictionPolicy(Protocol):
    """Chooses which blocks of managed memory leave a device that is full; each device has its own policy object."""

    name: str

    def order(self, memory: DeviceMemoryInUse) -> Iterable[int]:
        """Return or yield the indices of blocks in ``memory`` in the order in which they may be evicted.

        The driver takes the first block that nobody works on. If there is none, it waits for the first block. Without
        any index nothing is evicted, and pages that find no room are mapped over the link.
        """


def victims(
    policy: EvictionPolicy, memory: DeviceMemoryInUse, blocks: Mapping[int, ManagedBlock]
) -> Iterator[ManagedBlock]:
    """Yield the blocks that may be evicted, in the policy's order. blocks: those with memory of the device.

    Raises RuntimeError when the policy returns no order, or an index of no block that has memory of the device.
    """
    order = policy.order(memory)
    if not isinstance(order, Iterable):
        raise broken("eviction policy", policy, f"order returns {order!r:.80}, no indices of blocks")
    for index in islice(order, len(blocks)):
        if not is_integer(index) or (block := blocks.get(index)) is None:
            raise broken("eviction policy", policy, f"block {index!r:.80} has no device memory")
        yield block


EVICTION_POLICIES: Final[Registry[EvictionPolicy]] = Registry(
    "eviction policy", "offloadrt.eviction_policies", ("name", "order()")
)
