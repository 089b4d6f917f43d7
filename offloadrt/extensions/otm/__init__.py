"""OTM, object tiering: the runtime places each object by how often a compiler expects the program to access it.

Li and Chapman, Compiler Assisted Hybrid Implicit and Explicit GPU Memory Management. `ranking.py` reads the program
before it runs (`HostProgram`: how often each object is accessed, and so which rank it has). `configuration.py` is the
memory configuration `otm`, which the runtime finds by its entry point; open it first. `object_table.py` has its state
and its decision.
"""

from offloadrt.extensions.otm.ranking import HostProgram, ObjectFrequency, TargetRegion

__all__ = ["HostProgram", "ObjectFrequency", "TargetRegion"]
