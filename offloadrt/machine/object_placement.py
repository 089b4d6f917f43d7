"""Where an object of the program was placed, by a runtime that decides that object by object."""

from __future__ import annotations

from typing import Literal

import attrs

Place = Literal["gpu", "cpu"]
Mechanism = Literal["explicit", "implicit", "pinned"]
"""explicit: a block of device memory and copies; implicit: managed memory, which migrates on demand; pinned: managed
memory that stays with the CPU and is reached over the link."""


@attrs.frozen
class ObjectPlacement:
    """The latest decision on an object. Bytes; GAF is Σ frequency of a region × accesses an iteration there."""

    name: str
    nbytes: int
    rank: int
    """By GAF; 1 is the object that is accessed most."""
    gaf: float
    density: float
    """Of the target call that decided, accesses an element, at most 1; 0 when no target call has used it."""
    place: Place
    mechanism: Mechanism
