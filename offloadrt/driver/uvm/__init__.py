"""The unified-memory driver of a discrete device (nvidia-uvm), which migrates managed memory.

Open ``uvm.py`` first: ``Uvm`` builds the parts and has the calls.  ``va_block.py`` is the heart: what each device has
of a block, how a block is fetched and evicted, the locks, and how several devices agree.  Three actors and the host
threads use it.  The page-fault handler (``faults.py``) receives ``ManagedFault`` from the compute units, serves
batches, and answers with ``ReplayFaults``; host threads serve their own faults there.  The migration worker and the
access-counter worker (``uvm.py``) receive ``PrefetchPacket`` from hardware queues and ``AccessNotification`` from the
GPU's counters.  ``thrashing.py`` decides what becomes of a page that goes to and fro.

Two choices are policies, one file each, and can be a user's own: which block is evicted (``eviction/``) and what a
fault brings along (``prefetch/``).
"""
