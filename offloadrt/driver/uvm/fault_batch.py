"""What the page-fault handler notes of each batch."""

from __future__ import annotations

import attrs


@attrs.frozen
class FaultBatch:
    """One batch of GPU faults: what was in it, and when each of its phases ended, in virtual seconds.

    The phases are those of ``uvm_gpu_service_replayable_faults`` in nvidia-uvm.
    """

    begin: float
    """The handler comes to fetch."""
    fetched: float
    """The faults are out of the buffer."""
    preprocessed: float
    """They are sorted and duplicates are merged."""
    locked: float
    """The handler holds the space lock."""
    served: float
    """The blocks are served; copies may go on."""
    end: float
    """The buffer is flushed and the replay is sent."""
    faults: int
    """Faults that were fetched, duplicates included."""
    pages: int
    """Different pages among them."""
    blocks: int
    """Blocks that these pages lie in."""
    nbytes: int
    """Bytes whose migration to the device the batch asked for."""
