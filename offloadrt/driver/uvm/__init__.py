"""The unified-memory driver of a discrete device (nvidia-uvm), which migrates managed memory.

Open ``uvm.py`` first: ``Uvm`` builds the parts and has the calls. ``va_block.py`` is the heart: each device's state of
a block, fetching and evicting blocks, the locks, and the agreement of several devices. Three actors and the host
threads use it. The page-fault handler (``faults.py``) receives ``ManagedFault`` from the compute units, serves batches,
and answers with ``ReplayFaults``; host threads serve their own faults there. The migration worker and the
access-counter worker (``uvm.py``) receive ``PrefetchPacket`` from hardware queues and ``AccessNotification`` from the
GPU's counters. ``thrashing.py`` decides what happens to a page that migrates to and fro.

Two choices are policies, one file each, and can be a user's own: which block is evicted (``eviction/``) and what a
fault brings along (``prefetch/``).
"""
