"""Streams, and the queues that dispatch their packets.

A host thread submits a packet to a ``Stream`` (``stream.py``, open it first), which passes it on to its queue.  A queue
is an actor: a ``HardwareQueue`` of a discrete device dispatches every packet to an engine or to the compute units, and
blocks until the packet before it in its stream has completed; an ``HsaQueue`` of an APU hands kernels on at once and
blocks only at barriers.  Streams share queues, so a blocked packet holds up other streams as well: this is why the
queue, and not the stream, is the actor.
"""
