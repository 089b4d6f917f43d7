"""What the calls of ROCr cost when they wait for nobody, from the profile."""

from __future__ import annotations

from typing import Annotated

import attrs


@attrs.frozen
class RocrCosts:
    """Seconds of host time of each call, alone; what the kernel driver does in it comes on top (``KfdCosts``)."""

    copy_submit: Annotated[float, "dma.submit"]
    """Under the ring's lock."""
    dispatch: Annotated[float, "hsa.dispatch"]
    """Of a kernel, under the queue's lock; no call, the packet is written to memory."""
    barrier: Annotated[float, "hsa.barrier"]
    """The same for a barrier."""
    queue_create: Annotated[float, "hsa.queue_create"]
    signal_create: Annotated[float, "signal.create"]
    handler: Annotated[float, "signal.register"]
    """For the thread that asks for an asynchronous handler."""
    pin: Annotated[float, "pin.lock"]
    unpin: Annotated[float, "pin.unlock"]
    wake: Annotated[float, "sync.latency"]
    """From a completion to the return of the call that waited for it."""
    handover: Annotated[float, "driver.handover"]
    """For a thread that has been woken with a lock of a ring or a queue, while it owns it."""
