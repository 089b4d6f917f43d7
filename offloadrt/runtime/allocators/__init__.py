"""Allocators: how device blocks are obtained. One file each, chosen by name.

A package can add one with an entry point in the group ``offloadrt.allocators``.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

from offloadrt.runtime.allocators.base import AllocatorSite, DeviceAllocator
from offloadrt.runtime.allocators.direct import Direct
from offloadrt.runtime.allocators.llvm import LlvmMemoryManager
from offloadrt.runtime.allocators.malloc import Malloc
from offloadrt.runtime.allocators.pool import InternalPool, Pool

__all__ = [
    "ALLOCATORS",
    "AllocatorSite",
    "DeviceAllocator",
    "Direct",
    "InternalPool",
    "LlvmMemoryManager",
    "Malloc",
    "Pool",
    "make_allocator",
]

ALLOCATORS: Final[dict[str, type[DeviceAllocator]]] = {
    "direct": Direct,
    "llvm": LlvmMemoryManager,
    "malloc": Malloc,
    "pool": Pool,
}


def make_allocator(name: str, site: AllocatorSite) -> DeviceAllocator:
    """The allocator of that name for one device. ValueError, with the names that exist, for any other."""
    if name in ALLOCATORS:
        return ALLOCATORS[name](site)
    others = entry_points(group="offloadrt.allocators")
    for point in others:
        if point.name == name:
            made: DeviceAllocator = point.load()(site)
            return made
    known = ", ".join(sorted([*ALLOCATORS, *(point.name for point in others)]))
    raise ValueError(f"no allocator {name!r}; there are: {known}")
