"""What the source of an OpenMP program declares for all its constructs."""

from __future__ import annotations

import attrs

from offloadrt.models.host.device_globals import DeviceGlobals
from offloadrt.models.openmp.mapper import Mapper
from offloadrt.runtime.plugins.plugin import GridDefaults


@attrs.define(eq=False)
class Declarations:
    """The declarations of one program. Lowering a construct needs nothing else of the program."""

    globals: DeviceGlobals
    """The variables of ``declare target``."""
    strided_update: str
    """Which bytes an update of a section with a stride moves: those of `llvm`, or of the `specification`."""
    grid: GridDefaults
    """What a target region gets that leaves its teams or its threads open."""
    mappers: dict[type, Mapper] = attrs.field(factory=dict)
    """The mappers of ``declare mapper``, by the type of the objects that they map."""
