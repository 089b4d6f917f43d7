"""Memory configurations: what a map means on a device. One file each, chosen by name.

`base.py` (open it first) says what a configuration is asked for each map item, and what it may answer.

A package can add one with an entry point in the group ``offloadrt.configurations``.
"""

from __future__ import annotations

from typing import Final

from offloadrt.machine.offered import as_object, names_of, offered
from offloadrt.runtime.configurations.base import MapRequest, MemoryConfiguration, Placement
from offloadrt.runtime.configurations.copy import Copy
from offloadrt.runtime.configurations.eager_maps import EagerMaps
from offloadrt.runtime.configurations.implicit_zero_copy import ImplicitZeroCopy
from offloadrt.runtime.configurations.managed import Managed, ManagedPrefetch
from offloadrt.runtime.configurations.otm import Otm
from offloadrt.runtime.configurations.usm import UnifiedSharedMemory

__all__ = [
    "CONFIGURATIONS",
    "Copy",
    "EagerMaps",
    "ImplicitZeroCopy",
    "Managed",
    "ManagedPrefetch",
    "MapRequest",
    "MemoryConfiguration",
    "Otm",
    "Placement",
    "UnifiedSharedMemory",
    "configuration",
]

CONFIGURATIONS: Final[dict[str, type[MemoryConfiguration]]] = {
    "copy": Copy,
    "usm": UnifiedSharedMemory,
    "implicit_zero_copy": ImplicitZeroCopy,
    "eager_maps": EagerMaps,
    "managed": Managed,
    "managed+prefetch": ManagedPrefetch,
    "otm": Otm,
}


def configuration(name: str | MemoryConfiguration) -> MemoryConfiguration:
    """Return the configuration of that name, or of `FILE.py:NAME`; a configuration object is returned unchanged.

    Raises ValueError, with the names that exist, for any other name, and for an object that is no
    `MemoryConfiguration`, with what it lacks.

    >>> configuration("copy").name
    'copy'
    """
    if not isinstance(name, str):
        lacking = [field for field in (*MemoryConfiguration.__annotations__, "place") if not hasattr(name, field)]
        if lacking or isinstance(name, type):
            what = "is a class: give an object of it" if isinstance(name, type) else f"lacks {', '.join(lacking)}"
            raise ValueError(f"{_called(name)} is no memory configuration: it {what}")
        return name
    if name in CONFIGURATIONS:
        return CONFIGURATIONS[name]()
    if (found := offered(name, "offloadrt.configurations")) is not None:
        return configuration(as_object(found))
    known = ", ".join(sorted([*CONFIGURATIONS, *names_of("offloadrt.configurations")]))
    raise ValueError(f"no memory configuration {name!r}; there are: {known}")


def _called(given: object) -> str:
    return getattr(given, "__name__", type(given).__name__)
