"""OTM: managed memory, of which the runtime places each object.

It lies on the GPU by copies, on the GPU by migrations on demand, or pinned to the CPU (Li and Chapman, Compiler
Assisted Hybrid Implicit and Explicit GPU Memory Management).

Only arrays that target regions map are placed. Maps of `target data` and `target enter data` pin what does not fit
beside the rest of their objects; whether the others are copied or migrate is decided at the first target call that uses
them, which knows a trip count. Their maps are carried out there if they are copied, with the counts that `copy` would
have.
Globals of declare target stay managed, memory of `omp_target_alloc` stays the program's: neither is counted.
"""

from __future__ import annotations

from typing import ClassVar

from offloadrt.runtime.configurations.base import MapRequest, Placement
from offloadrt.runtime.configurations.managed import Managed


class Otm(Managed):
    """As `managed` for objects that are implicit or pinned, as `copy` for those that are explicit."""

    name: ClassVar[str] = "otm"
    places_objects: ClassVar[bool] = True

    def place(self, request: MapRequest) -> Placement:
        return Placement.DEVICE_COPY if request.mechanism == "explicit" else Placement.HOST_POINTER
