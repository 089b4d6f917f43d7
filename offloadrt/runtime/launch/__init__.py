"""A target region: `target.py` maps its items, binds and launches its kernel, and unmaps.

The other modules are parts of that: the arguments that the kernel gets (`kernel_arguments.py`,
`private_arguments.py`, `argument_blocks.py`), and the memory of the host that it touches (`touching.py`,
`managed_accesses.py`, `reachable.py`).
"""
