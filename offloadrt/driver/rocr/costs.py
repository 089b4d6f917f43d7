"""Host time of each call of ROCr when it waits for nobody, read from the profile."""

from __future__ import annotations

from typing import Annotated

import attrs


@attrs.frozen
class RocrCosts:
    """Seconds of host time of each call, and the size at which copies change their way.

    What the kernel driver does in a call comes on top (``KfdCosts``).  Wide because it has one field for each entry of
    the profile that the library reads.
    """

    init: Annotated[float, "init.library"]
    init_device: Annotated[float, "init.device"]
    """Added for each device that the program sees."""
    load_module: Annotated[float, "module.load"]
    """Loading the program's code object."""
    copy_submit: Annotated[float, "dma.submit"]
    """The submission of a copy to a DMA ring, under the ring's lock."""
    dispatch: Annotated[float, "hsa.dispatch"]
    """Writing the packet of a kernel to memory, under the queue's lock; this is no call of the library."""
    barrier: Annotated[float, "hsa.barrier"]
    """Writing the packet of a barrier."""
    queue_create: Annotated[float, "hsa.queue_create"]
    ring_create: Annotated[float, "dma.ring_create"]
    """Added to the first copy through a DMA ring."""
    signal_create: Annotated[float, "signal.create"]
    handler: Annotated[float, "signal.register"]
    """Asking for an asynchronous handler; the handler itself costs ``signal.handler`` in its own thread."""
    blit_from: Annotated[int, "dma.blit_from"]
    """Bytes from which on a copy is made by a kernel of the library, not through a DMA ring."""
    pin: Annotated[float, "pin.lock"]
    """Locking host memory, besides its calls of the kernel."""
    unpin: Annotated[float, "pin.unlock"]
    wake: Annotated[float, "sync.latency"]
    """Time from a completion to the return of the call that waited for it."""
    handover: Annotated[float, "driver.handover"]
    """What a thread that had to wait for a lock of a ring or a queue pays when it has been woken, with the lock."""
