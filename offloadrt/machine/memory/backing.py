"""Real bytes behind modelled addresses.

NumPy arrays are made when somebody first looks at a range, so memory that only has a size costs nothing.  They are kept
when a block is freed: as on a real machine, a new block holds the bytes that were left where it lies.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left, bisect_right, insort

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


class Backing:
    """Arrays of bytes by base address, which do not overlap.

    Memory that nobody has written holds ``fill`` (0 by default): another value shows programs that read what they have
    not written.
    """

    __slots__ = ("_arrays", "_bases", "_fill")

    def __init__(self, fill: int | None = None) -> None:
        self._arrays: dict[int, Bytes] = {}
        self._bases: list[int] = []
        """Their keys, in order: a sorted dictionary took longer to make than a short run's memory needs it."""
        self._fill = 0 if fill is None else fill

    def view(self, address: int, nbytes: int, base: int, size: int) -> Bytes:
        """Return the bytes [address, address + nbytes) of the region [base, base + size).

        The region becomes one array, so that views of its parts share memory.
        """
        array = self._arrays.get(base)
        if array is None or array.size < size:
            array = self._gather(base, size)
        return array[address - base : address - base + nbytes]

    def _gather(self, base: int, size: int) -> Bytes:
        """Make one array for a region and move there what older arrays hold of it.

        What an older array holds before or behind the region stays where it is, as an array of its own.
        """
        array = np.full(size, self._fill, dtype=np.uint8) if self._fill else _zeros(size)
        first = max(bisect_right(self._bases, base) - 1, 0)
        for start in self._bases[first : bisect_left(self._bases, base + size)]:
            piece = self._arrays[start]
            end = start + piece.size
            if end <= base:
                continue
            low, high = max(start, base), min(end, base + size)
            array[low - base : high - base] = piece[low - start : high - start]
            if start < base:
                self._arrays[start] = piece[: base - start]
            else:
                del self._arrays[start]
                del self._bases[bisect_left(self._bases, start)]
            if end > base + size:
                self._add(base + size, piece[base + size - start :])
        self._add(base, array)
        return array

    def _add(self, base: int, array: Bytes) -> None:
        self._arrays[base] = array
        insort(self._bases, base)


_PAGED = 1 << 18
"""From so many bytes on, zeros are asked of the operating system, which gives a page when it is first touched.

NumPy asks the C library, which clears memory that it already has: all 2 MiB of a segment of which a kernel uses a line.
"""


def _zeros(size: int) -> Bytes:
    return np.zeros(size, dtype=np.uint8) if size < _PAGED else np.frombuffer(mmap.mmap(-1, size), dtype=np.uint8)
