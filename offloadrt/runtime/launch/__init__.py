"""A target region: `target.py` maps its items, binds and launches its kernel, and unmaps.

It also finds the memory that a launch accesses. `kernel_arguments.py` binds the kernel's arguments.
"""
