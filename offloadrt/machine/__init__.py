"""The hardware: cores, memories, links, copy engines, hardware queues, compute units, and their profiles.

Open ``machine.py`` first, then ``device.py``: they build all parts from a profile.

=============  =====================================================================================================
``profile``    profiles of machines: TOML files whose entries name their source (``load``, ``MachineSpec``)
``host``       the host's cores, memory and worker threads
``host_lock``  mutexes under which host threads work, and the policies that say who comes next
``memory``     device memory and page tables: plain data
``queues``     streams, hardware queues, HSA queues
``links``      copy engines, DMA rings, links between devices
``compute``    compute units: how long kernels take, alone and together
``managed``    pages of managed memory, and how kernels meet them
``injection``  faults that are injected into a run on purpose
=============  =====================================================================================================

The parts that queue for something are actors; they exchange the messages of ``messages.py``, each in its mailbox, as
the tables in ``README.md`` say.  ``share.py`` divides a bandwidth or the SMs among their users: it is the only
place where a number of users yields a time.

What an operation costs alone is in the profile.  What it costs among others is never computed: it is what happens when
actors wait for one another, or what ``share.py`` leaves them.
"""

from offloadrt.lazy import lazy

__all__, __dir__, __getattr__ = lazy(__name__)
