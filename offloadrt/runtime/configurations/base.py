"""What every memory configuration answers. Pure: what is asked in, what to do out; nothing here waits."""

from __future__ import annotations

import enum
from typing import ClassVar, Protocol

import attrs

from offloadrt.machine import Mechanism


class Placement(enum.Enum):
    """What to do with a section that is not in the present table yet."""

    DEVICE_COPY = "device copy"
    """Allocate a device block, enter it in the table, transfer."""
    HOST_POINTER = "host pointer"
    """The device uses the host address; no entry, no storage operation."""


@attrs.frozen
class MapRequest:
    """A section that a directive maps and the table does not contain."""

    size: int
    close: bool
    implicit: bool
    device: int
    mechanism: Mechanism | None = None
    """How the object is reached that it belongs to, under a configuration that places objects; None when the object
    is not placed.
    """


class MemoryConfiguration(Protocol):
    """A strategy behind `MappingInfoTy::getTargetPointer` and `getTgtPtrBegin` of LLVM's runtime."""

    name: ClassVar[str]
    host_pointers: ClassVar[bool] = False
    """Whether the device may use host addresses of what is not in the table."""
    globals_on_host: ClassVar[bool] = False
    """Whether a global of declare target lives in host memory only, which the device reaches through a pointer."""
    prefaults: ClassVar[bool] = False
    """Whether each map of host memory that the device uses in place fills the device's page table for it, or, where
    pages migrate, has them migrate.
    """
    migrates: ClassVar[bool] = False
    """Whether pages of host memory migrate to the device that touches them, and back; the arrays are then managed."""
    places_objects: ClassVar[bool] = False
    """Whether the runtime decides object by object (`placing.py`); it then needs the analysis of the program."""

    def place(self, request: MapRequest) -> Placement:
        """Decide on a section of which nothing is mapped; asked before `present` is, as in LLVM's runtime."""
