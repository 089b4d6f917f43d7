"""CUDA's driver library of a discrete device.

Open ``driver.py`` first: ``CudaDriver`` has all calls by topic, in ``memory.py``, ``copies.py``, ``streams.py`` and
``launches.py``. Calls run in the host thread that makes them and take the context lock (``context.py``). Only the
thread for host functions (``streams.py``) is an actor, because the real library does all other work in the calling
thread. Calls end by submitting a packet (``machine/messages.py``) to a stream. A copy of pinned memory is submitted at
once; a copy of pageable memory goes in pieces (``Staging``) or with its pages locked. ``process.py`` has the state that
the contexts of one process share.
"""
