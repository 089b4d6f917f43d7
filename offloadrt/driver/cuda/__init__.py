"""CUDA's driver library of a discrete device.

Open ``driver.py`` first: ``Driver`` lists all calls.  Each group of calls has a file: ``stream_calls.py``,
``copy_calls.py``, ``kernel_calls.py``, ``memory_calls.py``, ``managed_calls.py``, ``pinning_calls.py``,
``graph_calls.py``.  They run in the host thread that makes them and take the context lock (``context.py``); nothing
here is an actor, because the real library does its work in the thread that calls it.  Calls end by submitting a packet
(``machine/messages.py``) to a stream.  A copy takes the way that ``copies.py`` knows: at once from pinned memory
(``pinning.py``), in pieces from pageable memory (``staging.py``), over a link from another device (``peer_copies.py``).
"""
