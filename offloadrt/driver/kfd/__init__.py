"""The kernel driver of an APU (amdkfd): memory of the pool, prefaults, and page faults of kernels.

Open ``kfd.py`` first: its calls run in the host thread that makes them.  One actor, ``PageFaultHandler``, receives
``PageFault`` from the compute units and answers with ``FaultServed``; it is one worker for all kernels, as amdkfd's is.
Both change page tables under the ``MmapLock``.
"""
