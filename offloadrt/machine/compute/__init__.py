"""The compute units of a device, which run kernels.

One actor, ``ComputeUnits`` (``compute_units.py``, open it first), receives ``KernelPacket`` from the queues;
``Drain``-, ``Suspend``- and ``ResumeKernels`` from the driver; and ``FaultServed``, ``ReplayFaults`` and ``RemoteDone``
from those who serve kernels' faults.  All kernels are one actor's, because they share the SMs: whenever one starts,
ends or stalls, the SMs are divided anew (``machine/share.py``).  ``residency.py`` says how many teams fit and how long
a kernel takes alone (a roofline), what an APU's kernels lose to copies, and when they meet a missing page.
"""
