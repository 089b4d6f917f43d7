"""A target region: `target.py` maps its items, binds and launches its kernel, and unmaps.

It has the region as well, with the memory that it touches. `kernel_arguments.py` has the arguments of the kernel.
"""
