"""A target region: `target.py` maps its items, binds and launches its kernel, and unmaps.

The other modules are parts of that: the arguments that the kernel gets (`kernel_arguments.py`, `argument_blocks.py`),
and the region with the memory that it touches, for devices with page faults (`region.py`).
"""
