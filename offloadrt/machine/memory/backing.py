"""Real bytes behind modelled addresses.

NumPy arrays are made when somebody first looks at a range, so memory that only has a size costs nothing.  They are kept
when a block is freed: as on a real machine, a new block holds the bytes that were left where it lies.
"""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt
from sortedcontainers import SortedDict

Bytes = npt.NDArray[np.uint8]


class Backing:
    """Arrays of bytes by base address, which do not overlap.

    Memory that nobody has written holds ``fill`` (0 by default): another value shows programs that read what they have
    not written.
    """

    __slots__ = ("_arrays", "_fill")

    def __init__(self, fill: int | None = None) -> None:
        self._arrays: SortedDict[int, Bytes] = SortedDict()
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
        first = max(self._arrays.bisect_right(base) - 1, 0)
        old = [(start, self._arrays[start]) for start in self._arrays.islice(first) if start < base + size]
        for start, piece in old:
            end = start + piece.size
            if end <= base:
                continue
            low, high = max(start, base), min(end, base + size)
            array[low - base : high - base] = piece[low - start : high - start]
            del self._arrays[start]
            if start < base:
                self._arrays[start] = piece[: base - start]
            if end > base + size:
                self._arrays[base + size] = piece[base + size - start :]
        self._arrays[base] = array
        return array


_PAGED = 1 << 18
"""From so many bytes on, zeros are asked of the operating system, which gives a page when it is first touched.

NumPy asks the C library, which clears memory that it already has: all 2 MiB of a segment of which a kernel uses a line.
"""


def _zeros(size: int) -> Bytes:
    return np.zeros(size, dtype=np.uint8) if size < _PAGED else np.frombuffer(mmap.mmap(-1, size), dtype=np.uint8)
