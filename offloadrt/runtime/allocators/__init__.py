"""Allocators: how device blocks are obtained. One file each, chosen by name.

`base.py` (open it first) has the interface of an allocator and the parameters that it gets.

A package can add an allocator with an entry point in the group ``offloadrt.allocators``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Final

from offloadrt.registry import Registry, broken, lacking
from offloadrt.runtime.allocators.base import AllocatorSite, DeviceAllocator
from offloadrt.runtime.allocators.direct import Direct
from offloadrt.runtime.allocators.pool import InternalPool

__all__ = [
    "ALLOCATORS",
    "AllocatorSite",
    "DeviceAllocator",
    "Direct",
    "InternalPool",
    "MakeAllocator",
    "allocator",
    "make_allocator",
]

_METHODS = ("allocate()", "free()", "release_pooled()", "locks()")
MakeAllocator = Callable[[AllocatorSite], DeviceAllocator]
"""A class of allocators, or a function that makes one for a device."""

ALLOCATORS: Final = Registry[MakeAllocator]("allocator", "offloadrt.allocators")


def make_allocator(name: str | MakeAllocator, site: AllocatorSite) -> DeviceAllocator:
    """Make the allocator of the device of `site`. ValueError as in `allocator`; RuntimeError if it lacks a method."""
    made = allocator(name)(site)
    if missing := lacking(made, _METHODS):
        raise broken("allocator", made, f"lacks {', '.join(missing)}")
    return made


def allocator(name: str | MakeAllocator) -> MakeAllocator:
    """Return the class of the allocator of that name, or of `FILE.py:NAME`; a class is returned unchanged.

    Raises ValueError, with the existing names, for any other name, and for what cannot be called with an
    `AllocatorSite`.
    """
    make = ALLOCATORS.load(name) if isinstance(name, str) else name
    if not isinstance(make, type) and not inspect.isroutine(make):  # a kernel can be called, too
        what = getattr(make, "name", make)
        raise ValueError(f"{what} makes no allocator: give a class or a function that takes an AllocatorSite")
    if isinstance(make, type) and (missing := lacking(make, _METHODS)):
        raise ValueError(f"{make.__name__} is no allocator: it lacks {', '.join(missing)}")
    found: MakeAllocator = make
    return found
