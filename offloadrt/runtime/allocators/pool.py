"""Pools without a limit of size: the runtime library of PGI has one, and JACC adds two to libgomp.

How these pools treat sizes is not published. Here they are LLVM's memory manager without its threshold: freed blocks
stay and are reused for exactly the same size, so that the driver is called once for each size that is live at a time.
Each reuse costs ``memory_manager.hand_out``, as in LLVM's manager.
"""

from __future__ import annotations

import sys

import attrs

from offloadrt.runtime.allocators.base import AllocatorSite
from offloadrt.runtime.allocators.llvm import LlvmMemoryManager


class Pool(LlvmMemoryManager):
    """Keeps freed blocks that the program requested, of any size, for reuse, as pool U of the compiler JACC does."""

    title = "pool"

    def __init__(self, site: AllocatorSite) -> None:
        super().__init__(attrs.evolve(site, threshold=sys.maxsize))


class InternalPool(Pool):
    """Keeps freed small blocks that the runtime itself requested, for reuse, as pool I of the compiler JACC does."""

    title = "internal pool"
