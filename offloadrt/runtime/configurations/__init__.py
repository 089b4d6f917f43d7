"""Memory configurations: what a map means on a device. One file each, chosen by name.

`MemoryConfiguration` (`runtime/device.py`) is the interface of a configuration.

A package can add a configuration with an entry point in the group ``offloadrt.configurations``.
"""

from __future__ import annotations

from typing import Final

from offloadrt.registry import Registry
from offloadrt.runtime.configurations.copy import Copy
from offloadrt.runtime.configurations.usm import UnifiedSharedMemory
from offloadrt.runtime.device import HostAccess, MapHooks, MapRequest, MemoryConfiguration, Placement, ResultSection

__all__ = [
    "Copy",
    "MapHooks",
    "MapRequest",
    "MemoryConfiguration",
    "Placement",
    "ResultSection",
    "UnifiedSharedMemory",
    "configuration",
]

_PARTS = vars(MemoryConfiguration).items()
CONFIGURATIONS: Final = Registry[MemoryConfiguration](
    "memory configuration",
    "offloadrt.configurations",
    ("name", *(f"{name}()" if callable(part) else name for name, part in _PARTS if not name.startswith("_"))),
)


def configuration(name: str | MemoryConfiguration) -> MemoryConfiguration:
    """Return the memory configuration of that name, or of `FILE.py:NAME`; an object is returned unchanged.

    Raises ValueError, with the existing names, for any other name, and for an object that is no `MemoryConfiguration`,
    with the missing attributes.

    >>> configuration("copy").name
    'copy'
    """
    found = CONFIGURATIONS.find(name)
    if not isinstance(found.host_access, HostAccess):
        raise ValueError(f"{type(found).__name__} is no memory configuration: its host_access is {found.host_access!r}")
    return found
