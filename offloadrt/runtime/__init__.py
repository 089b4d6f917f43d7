"""The offloading runtime: what LLVM's libomptarget does between a directive and the driver.

Start with `mapping/data_environment.py` (what a construct does with its map items) or `launch/target.py` (a target
region). `device.py` is one device with all that belongs to it. Only `plugins/` and `allocators/` call a driver library.
A memory configuration (`configurations/`) decides what a map means, an allocator how device blocks are obtained, and a
lock policy (`machine/host_lock/`) which thread enters the present table next (``table.handoff``; the driver's locks
follow the policy too).
"""
