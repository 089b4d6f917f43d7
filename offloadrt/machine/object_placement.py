"""Where an object of the program was placed, under a runtime that decides object by object (configuration ``otm``).

The runtime decides (``runtime/objects/placement.py``); the device keeps the answer, so that reports can show it.
"""

from __future__ import annotations

from typing import Literal

import attrs

Place = Literal["gpu", "cpu"]
Mechanism = Literal["explicit", "implicit", "pinned"]
"""How the device reaches an object.

``explicit``: a block of device memory and copies.  ``implicit``: managed memory, which migrates on demand.  ``pinned``:
managed memory that stays with the CPU and is reached over the link.
"""


@attrs.frozen
class ObjectPlacement:
    """The latest decision on an object."""

    name: str
    """The name of the program's variable."""
    nbytes: int
    rank: int
    """Its rank by global access frequency; 1 is the object that is accessed most."""
    gaf: float
    """Global access frequency: over all regions, how often the region runs times the accesses in an iteration."""
    density: float
    """Accesses of each element in the target call that decided, at most 1; 0 when no target call has used it."""
    place: Place
    """The processor in whose memory it lies."""
    mechanism: Mechanism
