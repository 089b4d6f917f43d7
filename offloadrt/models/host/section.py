"""Array sections, ``a[lower:length:stride]``, and what the runtime is told of one."""

from __future__ import annotations

import attrs
import numpy as np

from offloadrt.kernels.whole import is_whole
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import Dimension, MapItem
from offloadrt.runtime.mapping.map_type import NON_CONTIG, PTR_AND_OBJ


@attrs.frozen(eq=False)
class Section:
    """``array[lower : length : stride]`` along the first dimension; the other dimensions are whole.

    ValueError if it lies outside.
    """

    array: HostArray
    lower: int
    length: int
    stride: int = 1

    def __attrs_post_init__(self) -> None:
        if not (is_whole(self.lower) and is_whole(self.length) and is_whole(self.stride)):
            raise TypeError(f"{self} is no array section: its numbers are whole")
        if self.lower < 0 or self.length < 0 or self.stride < 1:
            raise ValueError(f"{self} is no array section")
        last = self.lower + (self.length - 1) * self.stride + 1 if self.length else self.lower
        if last > self.array.shape[0]:
            raise ValueError(f"{self} reaches beyond the {self.array.shape[0]} elements of the first dimension")

    def __str__(self) -> str:
        stride = f":{self.stride}" if self.stride != 1 else ""
        return f"{self.array.name}[{self.lower}:{self.length}{stride}]"

    @property
    def row_bytes(self) -> int:
        size = self.array.itemsize
        for length in self.array.shape[1:]:
            size *= length
        return size

    @property
    def begin(self) -> int:
        return self.array.address + self.lower * self.row_bytes

    @property
    def nbytes(self) -> int:
        """Return the bytes of a section without stride."""
        return self.length * self.row_bytes


def section(array: HostArray, lower: int = 0, length: int | None = None, stride: int = 1) -> Section:
    """Make an array section; without a length it goes up to the end of the array."""
    if length is None:
        length = max(0, -(-(array.shape[0] - lower) // stride))
    return Section(array, lower, length, stride)


Place = HostArray | Section
"""What a list item of a data clause names."""


def extent(place: object, call: str) -> tuple[int, int]:
    """Return the first address and the bytes of an array, or of what lies between the ends of a section.

    Raises TypeError for what is neither.
    """
    if isinstance(place, HostArray):
        return place.address, place.nbytes
    if isinstance(place, Section):
        return place.begin, max(0, (place.length - 1) * place.stride + 1) * place.row_bytes
    what = "a NumPy array, which is none of the program's" if isinstance(place, np.ndarray) else repr(place)
    raise TypeError(f"{call} takes an array of the program or a section of one, not {what}")


def array_of(place: Place) -> HostArray:
    """Return the array that a place belongs to."""
    return place.array if isinstance(place, Section) else place


def begin_of(place: Place) -> int:
    """Return the host address of its first byte."""
    return place.begin if isinstance(place, Section) else place.address


def map_item(place: Place, bits: int) -> MapItem:
    """Make the runtime's item for a place, with these bits of `map_type`.

    A global with a reference pointer is reached through it: of `link`, and under unified shared memory of `enter`.
    """
    if isinstance(place, Section):
        array, begin, nbytes = place.array, place.begin, place.nbytes
    else:
        array, begin, nbytes = place, place.address, place.nbytes
    if array.kind != "heap" and array.pointer_address:
        return MapItem(array, array.pointer_address, begin, nbytes, bits | PTR_AND_OBJ)
    if not isinstance(place, Section) or place.stride == 1:
        return MapItem(array, array.address, begin, nbytes, bits)
    row = place.row_bytes
    dimensions = (Dimension(place.lower, place.length, place.stride * row), Dimension(0, 1, row))
    return MapItem(array, array.address, begin, len(dimensions), bits | NON_CONTIG, dimensions)
