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
