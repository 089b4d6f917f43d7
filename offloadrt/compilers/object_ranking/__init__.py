"""OTM's compile-time analysis: how often a program accesses each object, and so which rank it has.

`host_program.py` has the result, `HostProgram`; open it first.
"""

from offloadrt.compilers.object_ranking.host_program import HostProgram, ObjectFrequency, TargetRegion

__all__ = ["HostProgram", "ObjectFrequency", "TargetRegion"]
