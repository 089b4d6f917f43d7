"""One kernel for several devices: the passes of JACC and MACC that divide the work of a loop nest.

``predicated.py``       JACC's pass `predicate`: every device runs all iterations, and accesses only what it owns.
                        Open it first. `dependence.py` finds what each access feeds, `filtering.py` writes the source.
``loop_splitting.py``   MACC's pass `split_loop`: every device runs a part of the iterations.
``divided.py``          `DividedKernel`, the result of both: who does, owns and reads what.
``written_regions.py``  The written arrays, and the dimension along which each is divided.
``partial_values.py``   Reductions: a partial value for each device, and the kernel that combines them.
                        `reduced_elements.py` makes scalars of elements that are reduced.
``exchange.py``         `Holders`: which bytes the devices send to one another.
"""

from offloadrt.compilers.multi_device.divided import DividedKernel, Part, Share
from offloadrt.compilers.multi_device.exchange import Holders, Transfer
from offloadrt.compilers.multi_device.loop_splitting import SplitKernel, split_loop
from offloadrt.compilers.multi_device.partial_values import Combination
from offloadrt.compilers.multi_device.predicated import PredicatedKernel, predicate
from offloadrt.compilers.multi_device.written_regions import WrittenRegion

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
