"""CUDA's driver library of a discrete device.

Open ``driver.py`` first: ``Driver`` lists all calls.  Each group of calls has a file: ``stream_calls.py``,
``copy_calls.py``, ``kernel_calls.py``, ``memory_calls.py``, ``managed_calls.py``, ``pinning_calls.py``,
``event_calls.py``, ``pool_calls.py``, ``graph_calls.py``, ``start_calls.py``.  They run in the host thread that makes
them and take the context lock (``context.py``); only ``callback_thread.py`` is an actor, because the real library does
all other work in the thread that calls it.  Calls end by submitting a packet (``machine/messages.py``) to a stream.  A
copy takes the way that ``copies.py`` knows: at once from pinned memory (``pinning.py``), from pageable memory in pieces
(``staging.py``) or with its pages locked (``page_locking.py``), over a link from another device (``peer_copies.py``).
"""
