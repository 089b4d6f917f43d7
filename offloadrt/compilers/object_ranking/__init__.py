"""OTM's compile-time analysis: how often a program accesses each object, and so which rank it has.

`host_program.py` has the result, `HostProgram`; open it first. `region_walk.py` meets the target regions in the source,
and `object_scope.py` tells which objects their arguments are.
"""

from offloadrt.compilers.object_ranking.host_program import HostProgram, ObjectFrequency, TargetRegion

__all__ = ["HostProgram", "ObjectFrequency", "TargetRegion"]
