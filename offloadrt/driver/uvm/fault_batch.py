"""What the page-fault handler notes of each batch."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from struct import Struct
from typing import Final, overload

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


_NUMBERS: Final = len(attrs.fields(FaultBatch))
_PACKED: Final = Struct(f"{_NUMBERS}d").pack


class FaultBatches(Sequence[FaultBatch]):
    """The batches so far, in the order in which they ended: eight bytes for each number of a batch."""

    def __init__(self) -> None:
        self._numbers = array("d")

    def add(self, *numbers: float) -> None:
        """Note a batch, as the numbers of its fields."""
        self._numbers.frombytes(_PACKED(*numbers))

    def __len__(self) -> int:
        return len(self._numbers) // _NUMBERS

    @overload
    def __getitem__(self, place: int) -> FaultBatch: ...
    @overload
    def __getitem__(self, place: slice) -> list[FaultBatch]: ...
    def __getitem__(self, place: int | slice) -> FaultBatch | list[FaultBatch]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        first = range(len(self))[place] * _NUMBERS
        *phases, faults, pages, blocks, nbytes = self._numbers[first : first + _NUMBERS]
        begin, fetched, preprocessed, locked, served, end = phases
        counts = int(faults), int(pages), int(blocks), int(nbytes)
        return FaultBatch(begin, fetched, preprocessed, locked, served, end, *counts)
