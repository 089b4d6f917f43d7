"""Managed memory of a discrete device, as its hardware and its kernels see it.

Open ``block.py`` first: a ``ManagedBlock`` holds the state of 2 MiB of addresses, and its methods are the possible
transitions. ``pages.py`` has all blocks of a device and the GPU's page table. ``sweep.py`` describes how a kernel uses
an array and in which order it meets pages. ``kernels.py`` runs a kernel from one fault to the next, with the fault
buffer and the access counters of the GPU.

There are no actors here.  Kernels run in the compute units' actor, which sends ``ManagedFault`` and receives
``ReplayFaults``; ``driver/uvm`` serves faults and migrates pages.
"""
