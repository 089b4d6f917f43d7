"""The unified-memory driver of a discrete device (nvidia-uvm), which migrates managed memory.

Open ``uvm.py`` first: ``Uvm`` builds the parts and has the calls.  Two actors: the page-fault handler
(``fault_handler.py``) receives ``ManagedFault`` from the compute units, serves batches, and answers with
``ReplayFaults``; the migration worker receives ``PrefetchPacket`` from hardware queues.  Where kernels use memory of
the host in place, a third one serves the access counters (``access_counter_worker.py``).  Faults of the CPU are served
by the host thread that has them.  All share two objects of their device.  ``BlockRecords`` (``block_records.py``) keeps
what the GPU can translate and whose the device memory is.  ``BlockMover`` (``block_mover.py``) fetches a block, and
chooses the one to evict.  ``thrashing.py`` decides what becomes of a page that goes to and fro.
"""
