"""One kernel for several devices: the passes of JACC and MACC that divide the work of a loop nest.

``passes.py`` JACC's pass `predicate`: every device runs all iterations, and accesses only what it owns. MACC's pass
`split_loop`: every device runs a part of the iterations. Open it first. ``dependence.py`` which stores each access
feeds; the dimension along which each written array is divided; changed sources in which a device accesses only what it
needs ``divided.py`` `DividedKernel`, the result of both passes: who computes, owns and reads what. `Holders`: which
bytes the devices send to one another. Reductions: a partial value for each device, and the kernel that combines them.
"""

from offloadrt.extensions.openacc.multi_device.dependence import WrittenRegion
from offloadrt.extensions.openacc.multi_device.divided import Combination, DividedKernel, Holders, Part, Share, Transfer
from offloadrt.extensions.openacc.multi_device.passes import PredicatedKernel, SplitKernel, predicate, split_loop

__all__ = [
    "Combination",
    "DividedKernel",
    "Holders",
    "Part",
    "PredicatedKernel",
    "Share",
    "SplitKernel",
    "Transfer",
    "WrittenRegion",
    "predicate",
    "split_loop",
]
